"""Filters that are the same everywhere and hold no imagery."""

import numpy as np
import pytest
import torch
from golden_parts import require_refusals
from numpy.typing import NDArray

from pu_geo.errors import ShapeError, TrainingError
from pu_geo.features import bank, shared
from pu_geo.features.rcf import RcfBank
from pu_geo.features.shared import SharedBank
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")
# sha256 of filters, biases, step and threshold as they were released. Whoever changes them changes the feature space of every
# federation and every model of shared features: that takes another kind, not another number here.
RELEASED = {
    "both": "5e3c2c118a227907b5906860c6fd50e67d3f3a6281a85d9dab8bdd30498e62ed",
    "post": "815bbf8631ec8f27e0cd80afbec91d46ed6b3a8ef7ef6ad7639d829d49a67074",
}


def _chips(seed: int = 0, n_bands: int = 6, n: int = 30) -> NDArray[np.uint8]:
    draw = np.random.default_rng(seed)
    chips = draw.integers(40, 90 + 20 * seed, (n, n_bands, 20, 20)) + (np.arange(20) % (3 + seed) < 2) * 40
    return chips.astype(np.uint8)


def _made(chips: NDArray[np.uint8], **request: object) -> SharedBank:
    found = bank.fit_maker(
        FeatureRequest("shared", **request), chips, generator=torch.Generator(), device=CPU  # type: ignore[arg-type]
    )  # fmt: skip
    assert isinstance(found, SharedBank)
    return found


def test_projects_share_the_released_filters_and_keep_their_own_statistics() -> None:
    for dates, digest in RELEASED.items():
        assert shared.sha256_of(dates) == digest
        assert SharedBank.of(dates).n_features == 512
    first, second = _made(_chips(0)), _made(_chips(1))
    assert torch.equal(first.filters, second.filters)
    assert not torch.equal(first.band_mean, second.band_mean)
    assert bank.fingerprint(first) == bank.fingerprint(second) == bank.fingerprint(SharedBank.of("both"))
    assert bank.fingerprint(first) != bank.fingerprint(_made(_chips(), dates="post"))
    assert first.facts()["holds_imagery"] is False
    assert {array.size for array in first.state().values()} == {6}  # a mean and a spread a band, no patch


def test_patches_of_own_imagery_are_another_space_in_every_project() -> None:
    first, second = (bank.fit_default(_chips(seed)) for seed in (0, 1))
    assert first.facts()["holds_imagery"] is True
    assert bank.fingerprint(first) != bank.fingerprint(second)
    assert bank.fingerprint(first) == bank.fingerprint(RcfBank.from_state(first.state()))
    layers = bank.fit_maker(
        FeatureRequest("layers", layers=("pre", "post")), _chips(), generator=torch.Generator().manual_seed(0), device=CPU
    )
    assert layers.facts()["holds_imagery"] is True
    assert bank.fingerprint(layers) == bank.fingerprint(bank.from_state(layers.state(), layers.facts()))


def test_features_do_not_change_with_brightness_and_contrast() -> None:
    """Agencies stretch their scenes in their own ways; a stretch without rounding leaves the standardised chips the same."""
    chips = _chips()
    stretched = (2 * (chips // 2) + 7).astype(np.uint8)  # 2 gray levels a step, as there
    plain = (chips // 2 * 1).astype(np.uint8)
    first, second = (_made(each).transform(each, 1, seed=0, device=CPU) for each in (plain, stretched))
    np.testing.assert_allclose(first.astype(float), second.astype(float), atol=0.02)
    assert first.astype(float).std() > 0.05
    both, alone = (_made(each, dates="post").transform(each, 1, seed=0, device=CPU) for each in (chips, chips[:, 3:]))
    np.testing.assert_array_equal(both, alone)  # the last three bands are read


def test_statistics_are_exact_and_of_the_named_rows() -> None:
    chips = _chips()
    mean, std = shared.band_statistics(chips, np.array([3, 0, 5]))
    some = chips[[0, 3, 5]].astype(np.float64)
    np.testing.assert_allclose(mean, some.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(std, some.std((0, 2, 3)), rtol=1e-6)
    again = shared.band_statistics(chips[::-1], np.array([24, 26, 29]))  # the same chips in another order: the same bits
    np.testing.assert_array_equal(mean, again[0])
    np.testing.assert_array_equal(std, again[1])
    assert float(shared.band_statistics(np.full((2, 1, 4, 4), 9, np.uint8))[1][0]) == pytest.approx(1e-3)
    with pytest.raises(ShapeError, match="one chip or more"):
        shared.band_statistics(chips, np.zeros(0, np.int64))


def test_bank_is_built_again_from_its_state() -> None:
    chips = _chips()
    made = _made(chips)
    again = bank.from_state(made.state(), made.facts())
    whole = made.transform(chips, 2, seed=0, device=CPU)
    np.testing.assert_array_equal(whole, again.transform(chips, 2, seed=0, device=CPU))
    bare = bank.from_state({}, made.facts())
    assert isinstance(bare, SharedBank)
    assert not bare.is_measured
    with pytest.raises(ShapeError, match="measured"):
        bare.transform(chips, 1, seed=0, device=CPU)
    np.testing.assert_array_equal(whole, bare.measured(chips).transform(chips, 2, seed=0, device=CPU))


def test_what_a_stranger_stored_is_checked() -> None:
    made = _made(_chips())
    state, facts = made.state(), made.facts()
    for arrays, wrong, words in (
        (state, {**facts, "weights_sha256": "0" * 64}, "other filters"),
        (state, {**facts, "dates": "diff"}, "no dates"),
        ({**state, "filters": made.filters.numpy()}, facts, "something else"),
        ({**state, "band_mean": state["band_mean"][:3]}, facts, "something else"),
        ({**state, "band_std": 0 * state["band_std"]}, facts, "spread"),
        ({**state, "band_mean": state["band_mean"] * np.float32(np.nan)}, facts, "spread"),
    ):
        with pytest.raises(TrainingError, match=words):
            bank.from_state(arrays, wrong)


def test_other_bands_and_choices_of_networks_are_refused() -> None:
    chips = _chips()
    with pytest.raises(TrainingError, match=r"'both' take 3 of pre and 3 of post; these chips have 3 bands") as caught:
        _made(chips[:, 3:])
    assert "--dates post" in caught.value.hint
    for wrong in ({"pool": "footprint"}, {"layer": "layer3"}, {"layers": ("pre",)}):
        with pytest.raises(TrainingError, match=next(iter(wrong))):
            _made(chips, **wrong)
    require_refusals(
        (TrainingError, "these chips have 4 bands", lambda: _made(_chips(n_bands=4), dates="post")),
        (TrainingError, "'diff'", lambda: _made(chips, dates="diff")),
        (ShapeError, "6, H, W", lambda: _made(chips).transform(chips[:, 3:], 1, seed=0, device=CPU)),
        (ShapeError, "masks", lambda: _made(chips).transform(chips, 1, seed=0, device=CPU, masks=np.ones((30, 20, 20), np.bool_))),
    )  # fmt: skip
