"""What methods learn from: views, batches, and what people said."""

import numpy as np
import pytest
import torch
from golden_parts import require_refusals

from pu_geo.errors import ShapeError
from pu_geo.records import View
from pu_geo.training.data import ChipImages, FeatureViews, PUData, batches, batches_with_labeled, n_batches

CPU = torch.device("cpu")
ROWS = np.arange(30)


def _numbered() -> FeatureViews:
    """Three views of 30 chips whose one feature is 100 times the chip's number plus the view's."""
    return FeatureViews((100 * ROWS[None, :, None] + np.arange(3)[:, None, None]).astype(np.float32))


def test_strong_views_show_the_same_chip_and_differ_and_a_plain_one_is_as_it_was_cut() -> None:
    views = _numbered().draw(ROWS, ("weak", "strong", "strong", "plain"), torch.Generator().manual_seed(0), CPU)
    for view in views:
        assert torch.equal(view[:, 0].long() // 100, torch.from_numpy(ROWS))
    _, first, second, plain = views
    assert (first != second).all()
    assert set((first[:, 0].long() % 100).tolist()) == {0, 1, 2}
    assert torch.equal(plain[:, 0], torch.from_numpy(100.0 * ROWS).float())
    single = FeatureViews(np.ones((1, 4, 2), np.float16))  # one view alone is given again
    assert torch.equal(*single.draw(np.arange(4), ("strong", "strong"), torch.Generator(), CPU))


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
    gray = np.full((4, 3, 16, 16), 100, np.uint8)  # natural views change color and aerial ones do not
    for preset, is_changed in (("aerial", False), ("natural", True)):
        (seen,) = ChipImages(gray, preset).draw(np.arange(4), ("strong",), generator, CPU)
        assert bool((seen - 100).abs().max() > 1) == is_changed


@pytest.mark.parametrize(("n", "sizes"), [(67, [22, 22, 23]), (66, [22, 22, 22]), (2, [2]), (22, [22]), (24, [22, 2])])
def test_batches_deal_out_each_chip_once_and_leave_none_alone(n: int, sizes: list[int]) -> None:
    parts = batches(n, 22, torch.Generator().manual_seed(1))
    assert [len(part) for part in parts] == sizes
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert n_batches(n, 22) == len(sizes)


def test_every_batch_has_labeled_chips_in_both_halves() -> None:
    is_labeled = np.arange(50) % 5 == 0
    steps = batches_with_labeled(is_labeled, 12, 128, torch.Generator().manual_seed(0))
    unlabeled = np.concatenate([step[~is_labeled[step]] for step in steps])
    assert sorted(unlabeled) == list(np.flatnonzero(~is_labeled))
    assert all(sorted(step[is_labeled[step]]) == list(np.flatnonzero(is_labeled)) for step in steps)
    assert all(is_labeled[step[: len(step) // 2]].any() and is_labeled[step[len(step) // 2 :]].any() for step in steps)
    few = batches_with_labeled(is_labeled, 12, 4, torch.Generator().manual_seed(0))
    drawn = [frozenset(step[is_labeled[step]]) for step in few]
    assert {len(each) for each in drawn} == {4}
    assert len(set(drawn)) > 1


def _types(row: int, *labels: int) -> np.ndarray:
    """Types of 30 buildings: nobody answered, but for one row."""
    found = np.full((30, 2), -1, np.int8)
    found[row] = labels
    return found


def test_classes_follow_from_positives_and_arrays_that_contradict_are_refused() -> None:
    positive, nobody = ROWS < 3, np.zeros(30, np.bool_)
    plain = PUData(_numbered(), positive, ROWS > 28)
    assert plain.classes.tolist() == [1] * 3 + [-1] * 27
    assert plain.trained_rows.tolist() == list(range(29))
    chips = ChipImages(np.zeros((30, 4, 8, 8), np.uint8))
    post, sar = View("post", "post", 0, 3), View("sar", "post", 3, 4)

    def made(**others: object) -> PUData:
        return PUData(chips, positive, nobody, **others)  # type: ignore[arg-type]

    names = ("roof", "flooded")
    scale = _types(1, 1, 0)
    scale[20] = 0
    made(views=(post, sar), is_missing=np.zeros((2, 30), np.bool_), type_labels=scale, type_names=names, is_ordinal=True)
    require_refusals(
        (ShapeError, "views", lambda: FeatureViews(np.ones((3, 4)))),
        (ShapeError, "uint8", lambda: ChipImages(np.ones((3, 4, 5, 5)))),  # type: ignore[arg-type]
        (ShapeError, r"\[30\]", lambda: PUData(_numbered(), nobody[:4], nobody)),
        (ShapeError, "xy_m", lambda: made(xy_m=np.zeros((29, 2)))),
        (ShapeError, "known_class", lambda: PUData(_numbered(), nobody, nobody, np.ones(30, np.int64))),
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
