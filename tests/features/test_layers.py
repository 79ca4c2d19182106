"""Features of named layers: one bank a view, missing views, and banks from files."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from golden_parts import require_refusals
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled, PuGeoError, ShapeError, TrainingError
from pu_geo.features import bank, layers
from pu_geo.features.layers import LayerBanks
from pu_geo.records import FeatureRequest, View

CPU = torch.device("cpu")
TABLE = (View("pre", "pre", 0, 3), View("post", "post", 3, 6), View("sar-post", "post", 6, 8), View("dsm", "", 8, 9))
ALL = ("pre+post", "sar-post", "dsm")


def _chips(n: int = 40, bands: int = 9, size: int = 20, seed: int = 0) -> NDArray[np.uint8]:
    draw = np.random.default_rng(seed)
    chips = draw.integers(60, 120, (n, bands, size, size)) + draw.integers(0, 60, (n, bands, 1, 1))
    return chips.astype(np.uint8)


def _missing(n: int = 40) -> NDArray[np.bool_]:
    """Return that every third chip lacks SAR, bool [4, n]."""
    found = np.zeros((4, n), np.bool_)
    found[2, ::3] = True
    return found


def _made(chips: NDArray[np.uint8], names: tuple[str, ...] = ALL, is_missing: NDArray[np.bool_] | None = None) -> LayerBanks:
    made = bank.fit_maker(
        FeatureRequest("layers", layers=names), chips, generator=torch.Generator().manual_seed(0), device=CPU,
        views=TABLE, is_missing=is_missing,
    )  # fmt: skip
    assert isinstance(made, LayerBanks)
    return made


def test_each_view_has_its_own_columns_and_date_whatever_the_others_are() -> None:
    chips, is_missing = _chips(), _missing()
    made = _made(chips, is_missing=is_missing)
    assert made.views == (
        View("pre+post", "pre+post", 0, 512), View("sar-post", "post", 512, 1024), View("dsm", "", 1024, 1536),
    )  # fmt: skip
    assert [one.filters.shape[1] for one in made.banks] == [6, 2, 1]
    assert made.facts()["views"][1] == {"name": "sar-post", "when": "post", "start": 512, "stop": 1024}
    whole = made.transform(chips, 3, seed=5, device=CPU)
    optical = chips[:, :6]  # a bank over both dates is the default one bit for bit
    np.testing.assert_array_equal(whole[:, :, :512], bank.fit_default(optical).transform(optical, 3, seed=5, device=CPU))
    less = _made(chips, ("pre+post", "dsm"), is_missing).transform(chips, 3, seed=5, device=CPU)
    np.testing.assert_array_equal(np.delete(whole, np.s_[512:1024], axis=2), less)
    again = bank.from_state(made.state(), json.loads(json.dumps(made.facts())))
    assert (again.kind, again.facts()) == ("layers", made.facts())
    np.testing.assert_array_equal(again.transform(chips, 3, seed=5, device=CPU), whole)
    with pytest.raises(ShapeError, match="9 or more"):
        made.transform(optical, 1, seed=0, device=CPU)
    with pytest.raises(ShapeError, match="masks"):
        made.transform(chips, 1, seed=0, device=CPU, masks=np.ones((40, 20, 20), np.bool_))


def test_views_of_a_chip_share_one_draw() -> None:
    """Where two layers show the same, every augmented view of both is the same: they were moved alike."""
    chips = _chips()
    chips[:, 8] = chips[:, 6]
    table = (*TABLE[:2], View("one", "post", 6, 7), View("two", "post", 8, 9))
    made = bank.fit_maker(
        FeatureRequest("layers", layers=("one", "two")), chips, generator=torch.Generator().manual_seed(0), device=CPU,
        views=table,
    )  # fmt: skip
    found = made.transform(chips, 4, seed=3, device=CPU)
    np.testing.assert_array_equal(found[:, :, :512], found[:, :, 512:])
    assert (found[1] != found[0]).any()


def test_filters_and_statistics_come_from_chips_that_have_the_view() -> None:
    chips, is_missing = _chips(), _missing()
    other = chips.copy()
    other[is_missing[2], 6:8] = 255  # what stands there means nothing
    one, two = (_made(each, is_missing=is_missing).banks[1] for each in (chips, other))
    assert torch.equal(one.filters, two.filters)
    assert torch.equal(one.band_mean, two.band_mean)
    np.testing.assert_allclose(one.band_mean, chips[~is_missing[2], 6:8].mean((0, 2, 3)), rtol=1e-5)
    assert not torch.equal(_made(chips).banks[1].filters, _made(other).banks[1].filters)


def test_of_few_chips_missing_columns_take_the_mean_root_of_those_that_have_them() -> None:
    chips, is_missing = _chips(), _missing()
    is_used = np.arange(40) % 2 == 0
    made = _made(chips, is_missing=is_missing)
    before = made.transform(chips, 2, seed=1, device=CPU)
    found = before.copy()
    lacks = np.stack([layers.lacking(view.name, TABLE, is_missing, 40) for view in made.views])
    layers.fill_missing(found, made.views, lacks, is_used)
    has = ~is_missing[2]
    for view in (0, 1):  # each augmented view by itself
        mean = np.sqrt(before[view, has & is_used, 512:1024].astype(np.float64)).mean(0) ** 2
        np.testing.assert_allclose(found[view, ~has, 512:1024], np.tile(mean, ((~has).sum(), 1)), rtol=2e-3, atol=1e-4)
    np.testing.assert_array_equal(found[:, has], before[:, has])
    np.testing.assert_array_equal(found[:, :, :512], before[:, :, :512])
    with pytest.raises(TrainingError, match="No building of these chips has data in dsm"):
        layers.fill_missing(found, made.views, np.array([[False] * 40, [False] * 40, [True] * 40]), is_used)


def _related(n: int = 200) -> tuple[NDArray[np.float16], NDArray[np.float16], tuple[View, ...]]:
    """Return roots' squares of three views, float16 [2, n, 12]; the second follows from the first."""
    draw = np.random.default_rng(0)
    roots = 4 + draw.normal(size=(n, 12)) * 0.5
    roots[:, 4:8] = 4 + (roots[:, :4] - 4) @ draw.normal(size=(4, 4)) * 0.8 + draw.normal(size=(n, 4)) * 0.1
    whole = np.stack([roots**2, (roots + 0.3) ** 2]).astype(np.float16)
    spans = tuple(View(name, "", 4 * k, 4 * k + 4) for k, name in enumerate("abc"))
    return whole, whole.copy(), spans


def test_missing_columns_are_what_the_other_views_lead_to_expect_and_the_mean_without_any() -> None:
    whole, found, views = _related()
    lacks = np.zeros((3, 200), np.bool_)
    lacks[1, ::4] = lacks[2, ::8] = True  # two patterns: b alone, and b with c
    found[:, lacks[1], 4:8] = 9999
    found[:, lacks[2], 8:12] = 9999
    done: list[Any] = []
    with pytest.raises(JobCancelled):
        layers.fill_missing(found.copy(), views, lacks, np.ones(200, np.bool_), is_cancelled=lambda: True)
    layers.fill_missing(found, views, lacks, np.ones(200, np.bool_), report=done.append)
    assert [one["done"] for one in done] == list(range(len(done)))
    assert done
    np.testing.assert_array_equal(found[:, ~lacks[1]], whole[:, ~lacks[1]])
    for view in (0, 1):
        off = np.sqrt(found[view, lacks[1], 4:8].astype(float)) - np.sqrt(whole[view, lacks[1], 4:8].astype(float))
        spread = np.sqrt(whole[view, :, 4:8].astype(float)).std()
        assert np.sqrt((off**2).mean()) < 0.2 * spread  # the mean in its place would be off by the spread
    whole, found, views = _related()
    lacks = np.zeros((3, 200), np.bool_)
    lacks[:, 7] = True
    layers.fill_missing(found, views, lacks, np.ones(200, np.bool_))
    mean = np.sqrt(np.delete(whole[0], 7, axis=0).astype(float)).mean(0) ** 2
    np.testing.assert_allclose(found[0, 7], mean, rtol=3e-3)


def test_without_a_view_nothing_of_it_is_left_in_what_was_filled_in() -> None:
    whole, filled, views = _related()
    lacks = np.zeros((3, 200), np.bool_)
    lacks[1, ::4] = True
    used = np.ones(200, np.bool_)
    layers.fill_missing(filled, views, lacks, used)
    found = layers.without(filled, views, lacks, used, "a")
    expected = np.delete(whole, np.s_[:4], axis=2)
    expected[:, lacks[1], :4] = 9999
    layers.fill_missing(expected, (View("b", "", 0, 4), View("c", "", 4, 8)), lacks[1:], used)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(layers.without(filled, views, lacks, used, ""), filled)
    np.testing.assert_array_equal(layers.without(filled, views, np.zeros_like(lacks), used, "b"), filled[:, :, [0, 1, 2, 3, 8, 9, 10, 11]])  # fmt: skip
    lacks[2] = True  # what no chip has stays
    np.testing.assert_array_equal(layers.without(filled, views, lacks, used, "a")[:, :, 4:], filled[:, :, 8:])


def test_a_joint_bank_is_missing_where_one_of_its_views_is() -> None:
    is_missing = np.zeros((4, 4), np.bool_)
    is_missing[0, 1] = is_missing[1, 2] = True
    assert layers.lacking("pre+post", TABLE, is_missing, 4).tolist() == [False, True, True, False]
    assert layers.lacking("post", TABLE, is_missing, 4).tolist() == [False, False, True, False]
    assert not layers.lacking("post", TABLE, None, 4).any()


def test_banks_find_their_bands_by_name_in_other_chips() -> None:
    chips = _chips()
    made = _made(chips, ("pre+post", "sar-post"))
    order = [0, 1, 2, 3, 4, 5, 8, 6, 7]
    elsewhere = (*TABLE[:2], View("dsm", "", 6, 7), View("sar-post", "post", 7, 9))
    np.testing.assert_array_equal(
        made.on(elsewhere).transform(chips[:, order], 2, seed=0, device=CPU), made.transform(chips, 2, seed=0, device=CPU)
    )
    with pytest.raises(TrainingError, match=r"the\.model takes the layer sar-post with 2 bands; these chips have no such"):
        made.on(TABLE[:2], "the.model")
    with pytest.raises(TrainingError, match=r"sar-post with 2 bands; these chips have 1 there"):
        made.on((*TABLE[:2], View("sar-post", "post", 6, 7)))
    with pytest.raises(TrainingError, match="sar-post with the date post; that of these chips has the date pre"):
        made.on((*TABLE[:2], View("sar-post", "pre", 6, 8)))


def test_layers_that_cannot_be_are_refused() -> None:
    chips, optical, is_missing = _chips(), _chips(bands=6), _missing()
    is_missing[3] = True

    def made(chips: NDArray[np.uint8], *request: str, **more: Any) -> bank.Maker:
        views = {"views": TABLE} if request[0] == "layers" else {}
        return bank.fit_maker(FeatureRequest(*request, **more), chips, generator=torch.Generator(), device=CPU, **views)

    require_refusals(
        (TrainingError, "no layer 'sar'; they have pre, post, sar-post, dsm", lambda: _made(chips, ("sar",))),
        (TrainingError, "0 layers were named", lambda: _made(chips, ())),
        (TrainingError, "name something twice", lambda: _made(chips, ("post", "post"))),
        (TrainingError, "name something twice", lambda: _made(chips, ("post+post",))),
        (TrainingError, "No building has data in dsm", lambda: _made(chips, is_missing=is_missing)),
        (TrainingError, "no choice of pool", lambda: made(chips, "layers", pool="cls", layers=("post",))),
        (TrainingError, "takes the optical bands alone, and the layers sar-post were named",
         lambda: made(optical, "self-supervised", layers=("sar-post",))),
        (TrainingError, "no choice of layers", lambda: made(optical, "rcf", layers=("sar-post",))),
    )  # fmt: skip
    request = FeatureRequest("layers", layers=("pre+post", "dsm"))  # comes as a JSON list
    assert FeatureRequest(**json.loads(json.dumps(asdict(request)))) == request


def test_hostile_files_are_refused_in_words() -> None:
    made = _made(_chips(), ("pre+post", "sar-post"))
    state, facts = made.state(), made.facts()
    views, bands = facts["views"], facts["chip_views"]

    def refused(arrays: dict[str, NDArray[np.float32]], about: dict[str, object]) -> None:
        with pytest.raises(PuGeoError):
            bank.from_state(arrays, {**facts, **about})

    refused(state, {"views": []})
    refused(state, {"views": views[:1]})  # a bank without columns
    refused(state, {"views": [{**views[0], "stop": 10**9}, views[1]]})
    refused(state, {"views": [views[0], {**views[1], "name": "../sar"}]})
    refused(state, {"views": [{**views[0], "when": "never"}, views[1]]})
    refused(state, {"chip_views": bands[:2]})
    refused(state, {"chip_views": [*bands[:2], {**bands[2], "stop": 9}]})  # other bands than the filters read
    refused(state, {"chip_views": [*bands[:2], {**bands[2], "start": 300, "stop": 302}]})
    refused({**state, "1.bias": state["1.bias"][:9]}, {})
    refused({**state, "1.band_std": -state["1.band_std"]}, {})
    refused({**state, "1.step": np.array([0.0, 0.5], np.float32)}, {})
    refused({**state, "2.bias": state["1.bias"]}, {})
    refused({name: array for name, array in state.items() if name != "0.filters"}, {})
    assert bank.from_state(state, facts).facts() == facts
