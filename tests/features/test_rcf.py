"""Random-convolution features and augmented views."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from golden_parts import require_refusals
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.features import bank as makers
from pu_geo.features import rcf as features
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")


def _chips(n: int = 40, bands: int = 3, size: int = 20, seed: int = 0) -> NDArray[np.uint8]:
    draw = np.random.default_rng(seed)
    chips = draw.integers(60, 120, (n, bands, size, size))
    chips[n // 2 :] += (np.arange(size) % 4 < 2) * 60
    return chips.astype(np.uint8)


def _bank(chips: NDArray[np.uint8], n_filters: int = 8, seed: int = 0) -> features.RcfBank:
    return features.RcfBank.fit(chips, torch.Generator().manual_seed(seed), features.RcfSettings(n_filters=n_filters))


def test_features_equal_loop_over_positions_and_fast_numbers_stay_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "fast_dtype", lambda _: torch.float32)
    chips = _chips(4)
    bank = _bank(chips, 3)
    got = features.rcf(torch.from_numpy(chips).float(), bank)
    image = (torch.from_numpy(chips[1]).float() - bank.band_mean[:, None, None]) / bank.band_std[:, None, None]
    even = image - image.mean((1, 2), keepdim=True)  # its brightness taken away
    size, found, count = bank.filters.shape[-1], torch.zeros(4, 3), 0
    for top in range(0, 20 - size + 1, bank.stride_px):
        for left in range(0, 20 - size + 1, bank.stride_px):
            for at, shown in ((0, image), (2, even)):
                response = (bank.filters * shown[:, top : top + size, left : left + size]).sum((1, 2, 3)) + bank.bias
                found[at] += (response - bank.threshold).clamp_min(0)
                found[at + 1] += (-response - bank.threshold).clamp_min(0)
            count += 1
    torch.testing.assert_close(got[1], found.flatten() / count, rtol=1e-4, atol=1e-5)
    monkeypatch.undo()
    fast = features.rcf(torch.from_numpy(chips).float(), bank)
    assert float((fast - got).abs().max() / got.mean()) < 0.05


def test_filters_follow_the_generator_and_not_the_number_of_threads() -> None:
    assert not torch.equal(_bank(_chips(), seed=1).filters, _bank(_chips(), seed=2).filters)
    chips, before, found = np.random.default_rng(1).integers(0, 99, (70, 3, 16, 16), np.uint8), torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            found.append(features.RcfBank.fit(chips, torch.Generator().manual_seed(0)).filters)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_views_depend_on_seed_alone_and_go_into_out() -> None:
    chips = _chips()
    bank = _bank(chips)
    out = np.zeros((3, 40, 32), np.float16)
    first = bank.transform(chips, 3, seed=5, device=CPU, out=out)
    assert first is out
    np.testing.assert_array_equal(out, bank.transform(chips, 3, seed=5, device=CPU))
    other = bank.transform(chips, 3, seed=6, device=CPU)
    np.testing.assert_array_equal(out[0], other[0])
    assert np.abs(out[1].astype(float) - other[1]).max() > 1e-3
    assert np.abs(out[1].astype(float) - out[2]).max() > 1e-3


def test_progress_is_reported_and_cancelling_stops() -> None:
    chips = _chips()
    bank = _bank(chips)
    told: list[Mapping[str, object]] = []
    bank.transform(chips, 1, seed=0, device=CPU, report=told.append)
    assert [told[-1]["done"], told[-1]["total"]] == [40, 40]
    with pytest.raises(JobCancelled):
        bank.transform(chips, 1, seed=0, device=CPU, is_cancelled=lambda: True)


# The door to all makers of features


def test_random_filters_are_a_maker_without_choices() -> None:
    chips = _chips()
    made = makers.fit_maker(FeatureRequest(), chips, generator=torch.Generator().manual_seed(0), device=CPU)
    again = makers.from_state(made.state(), made.facts())
    assert made.kind == made.facts()["kind"] == "rcf"
    assert made.n_features == 512
    np.testing.assert_array_equal(
        again.transform(chips, 2, seed=0, device=CPU), makers.fit_default(chips).transform(chips, 2, seed=0, device=CPU)
    )
    assert makers.from_state(made.state(), {}).kind == "rcf"  # projects of the first version stored no facts
    flat = np.full((5, 3, 16, 16), 7, np.uint8)
    assert np.isfinite(makers.fit_default(flat).transform(flat, 2, seed=0, device=CPU)).all(), "chips of one color"
    for wrong in ({"pool": "cls"}, {"layer": "layer3"}, {"size_px": 64}, {"dates": "diff"}, {"backbone": "a.safetensors"}):
        with pytest.raises(TrainingError, match=next(iter(wrong))):
            makers.fit_maker(FeatureRequest(**wrong), chips, generator=torch.Generator(), device=CPU)  # type: ignore[arg-type]
    bank, generator = _bank(chips), torch.Generator()
    require_refusals(
        (ShapeError, "masks", lambda: made.transform(chips, 1, seed=0, device=CPU, masks=np.ones((40, 20, 20), np.bool_))),
        (ShapeError, "3, H, W", lambda: bank.transform(_chips(bands=6), 1, seed=0, device=CPU)),
        (ShapeError, "float16", lambda: bank.transform(chips, 1, seed=0, device=CPU, out=np.zeros((1, 3, 32), np.float16))),
        (ShapeError, "5 px", lambda: _bank(chips[:, :, :4, :4])),
        (TrainingError, r"'dinov9'.*rcf", lambda: makers.fit_maker(FeatureRequest("dinov9"), chips, generator=generator, device=CPU)),
        (TrainingError, r"'5'", lambda: makers.from_state({}, {"kind": 5})),
    )  # fmt: skip
