"""What methods learn from: views, batches, and what people said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from golden_parts import require_refusals

from pu_geo.errors import ShapeError
from pu_geo.records import View
from pu_geo.training.data import ChipImages, FeatureViews, PUData, batches, n_batches

CPU = torch.device("cpu")
ROWS = np.arange(30)


def _numbered() -> FeatureViews:
    """Three views of 30 chips whose one feature is 100 times the chip's number plus the view's."""
    return FeatureViews((100 * ROWS[None, :, None] + np.arange(3)[:, None, None]).astype(np.float32))


def test_strong_views_show_the_same_chip_and_differ() -> None:
    weak, first, second = _numbered().draw(ROWS, ("weak", "strong", "strong"), torch.Generator().manual_seed(0), CPU)
    for view in (weak, first, second):
        assert torch.equal(view[:, 0].long() // 100, torch.from_numpy(ROWS))
    assert (first != second).all()
    assert set((first[:, 0].long() % 100).tolist()) == {0, 1, 2}


def test_plain_view_is_the_chip_as_it_was_cut() -> None:
    (plain,) = _numbered().draw(ROWS[5:], ("plain",), torch.Generator(), CPU)
    assert torch.equal(plain[:, 0], torch.from_numpy(100.0 * ROWS[5:]).float())


def test_one_view_alone_is_given_again() -> None:
    single = FeatureViews(np.ones((1, 4, 2), np.float16))
    first, second = single.draw(np.arange(4), ("strong", "strong"), torch.Generator(), CPU)
    assert torch.equal(first, second)


def test_images_come_in_the_units_of_the_chips_and_strong_views_are_drawn_anew() -> None:
    chips = np.random.default_rng(0).integers(0, 256, (8, 6, 16, 16)).astype(np.uint8)
    generator = torch.Generator().manual_seed(0)
    plain, weak, first, second = ChipImages(chips).draw(np.arange(8), ("plain", "weak", "strong", "strong"), generator, CPU)
    assert torch.equal(plain, torch.from_numpy(chips).float())
    assert plain.is_contiguous(memory_format=torch.channels_last)
    for chip, view in zip(chips, weak.numpy(), strict=True):  # turned or mirrored, never mixed
        np.testing.assert_array_equal(np.sort(chip.ravel()), np.sort(view.ravel()))
    assert not torch.equal(first, second)
    assert first.shape == plain.shape


def test_natural_views_change_colour_and_aerial_ones_do_not() -> None:
    gray = ChipImages(np.full((4, 3, 16, 16), 100, np.uint8))
    colored = ChipImages(np.full((4, 3, 16, 16), 100, np.uint8), "natural")
    (same,) = gray.draw(np.arange(4), ("strong",), torch.Generator().manual_seed(0), CPU)
    (other,) = colored.draw(np.arange(4), ("strong",), torch.Generator().manual_seed(0), CPU)
    torch.testing.assert_close(same, torch.full_like(same, 100))
    assert (other - 100).abs().max() > 1


@pytest.mark.parametrize(("n", "sizes"), [(67, [22, 22, 23]), (66, [22, 22, 22]), (2, [2]), (22, [22]), (24, [22, 2])])
def test_batches_deal_out_each_chip_once_and_leave_none_alone(n: int, sizes: list[int]) -> None:
    parts = batches(n, 22, torch.Generator().manual_seed(1))
    assert [len(part) for part in parts] == sizes
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert n_batches(n, 22) == len(sizes)


def test_classes_follow_from_positives_where_nobody_named_kinds() -> None:
    positive, nobody = ROWS < 3, np.zeros(30, np.bool_)
    assert PUData(_numbered(), positive, nobody).classes.tolist() == [1] * 3 + [-1] * 27
    assert PUData(_numbered(), positive, ROWS > 28).trained_rows.tolist() == list(range(29))


def test_arrays_that_do_not_fit_are_refused() -> None:
    nobody = np.zeros(30, np.bool_)
    require_refusals(
        (ShapeError, "views", lambda: FeatureViews(np.ones((3, 4)))),
        (ShapeError, "uint8", lambda: ChipImages(np.ones((3, 4, 5, 5)))),  # type: ignore[arg-type]
        (ShapeError, r"\[30\]", lambda: PUData(_numbered(), nobody[:4], nobody)),
        (ShapeError, "xy_m", lambda: PUData(_numbered(), nobody, nobody, xy_m=np.zeros((29, 2)))),
        (ShapeError, "known_class", lambda: PUData(_numbered(), nobody, nobody, np.ones(30, np.int64))),
    )


def _types(row: int, *labels: int, width: int = 2) -> np.ndarray:
    """Types of 30 buildings: nobody answered, but for one row."""
    found = np.full((30, width), -1, np.int8)
    found[row] = labels
    return found


def test_views_missing_ones_and_types_stay_as_they_were_given() -> None:
    positive, nobody = ROWS < 3, np.zeros(30, np.bool_)
    chips = ChipImages(np.zeros((30, 7, 8, 8), np.uint8))
    views = (View("pre", "pre", 0, 3), View("post", "post", 3, 6), View("sar-post", "post", 6, 7))
    gone, scale = np.zeros((3, 30), np.bool_), _types(1, 1, 0)
    scale[20] = 0
    data = PUData(
        chips,
        positive,
        nobody,
        views=views,
        is_missing=gone,
        type_labels=scale,
        type_names=("minor", "major"),
        is_ordinal=True,
    )
    assert data.views == views
    assert data.is_missing is gone
    assert data.type_labels is scale
    plain = PUData(chips, positive, nobody)
    assert (plain.views, plain.is_missing, plain.type_labels, plain.type_names, plain.is_ordinal) == (
        (),
        None,
        None,
        (),
        False,
    )


def test_views_and_types_that_contradict_are_refused() -> None:
    positive, nobody = ROWS < 3, np.zeros(30, np.bool_)
    chips = ChipImages(np.zeros((30, 4, 8, 8), np.uint8))
    post, sar = View("post", "post", 0, 3), View("sar", "post", 3, 4)

    def made(**others: object) -> PUData:
        return PUData(chips, positive, nobody, **others)  # type: ignore[arg-type]

    names = ("roof", "flooded")
    require_refusals(
        (ShapeError, "a name each; got post, post", lambda: made(views=(post, View("post", "post", 3, 4)))),
        (ShapeError, "within 0 to 4.*sar has 2 to 4", lambda: made(views=(post, View("sar", "post", 2, 4)))),
        (ShapeError, "within 0 to 4.*sar has 3 to 5", lambda: made(views=(post, View("sar", "post", 3, 5)))),
        (ShapeError, "sar has 3 to 3", lambda: made(views=(post, View("sar", "post", 3, 3)))),
        (ShapeError, r"is_missing must be bool \[2, 30\].*\(30, 2\)", lambda: made(views=(post, sar), is_missing=np.zeros((30, 2), np.bool_))),
        (ShapeError, r"is_missing must be bool \[0, 30\]", lambda: made(is_missing=np.zeros((1, 30), np.bool_))),
        (ShapeError, r"int8 \[30, c\].*int64", lambda: made(type_labels=_types(1, 1, 0).astype(np.int64), type_names=names)),
        (ShapeError, r"c names, each once.*\('roof',\)", lambda: made(type_labels=_types(1, 1, 0), type_names=("roof",))),
        (ShapeError, "1, 0 or -1; got -1 to 2", lambda: made(type_labels=_types(1, 2, 0), type_names=names)),
        (ShapeError, "row 9, which is_positive does not mark", lambda: made(type_labels=_types(9, 1, 0), type_names=names)),
        (ShapeError, r"a scale, and row 2.*\[0, 1\]", lambda: made(type_labels=_types(2, 0, 1), type_names=names, is_ordinal=True)),
        (ShapeError, "type_labels, which is None", lambda: made(type_names=names)),
    )  # fmt: skip
