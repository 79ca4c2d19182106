"""What every data set is read into: chips with the class of each; and how papers make positive-unlabeled data of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import DatasetError, ShapeError

UNKNOWN_CLASS = -1
Rows = NDArray[np.int64]


def as_chip(picture: NDArray[np.uint8], size_px: int) -> NDArray[np.uint8]:
    """Resize a picture as OpenCV reads it, uint8 [H, W, 3], blue first, to size: uint8 [3, size_px, size_px], red first."""
    how = cv2.INTER_AREA if max(picture.shape[:2]) > size_px else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (size_px, size_px), interpolation=how)[:, :, ::-1].transpose(2, 0, 1), np.uint8)


@dataclass(frozen=True)
class ClassifiedChips:
    """Chips of which the class is known.

    Attributes:
        chips: uint8 [N, C, H, W], may be a memory map.
        classes: int64 [N], numbers into `class_names`; -1 where the makers give none.
        class_names: of classes 0, 1, ...
        is_test: bool [N], set aside for testing by the makers; all False where they set nothing aside.
        place: int64 [N], the same number for chips that lie near each other or in one picture; None where that is no matter.
    """

    chips: NDArray[np.uint8]
    classes: NDArray[np.int64]
    class_names: tuple[str, ...]
    is_test: NDArray[np.bool_]
    place: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        n = len(self.chips)
        if self.chips.ndim != 4 or self.chips.dtype != np.uint8:
            raise ShapeError(f"chips must be uint8 [N, C, H, W]; got {self.chips.dtype} {self.chips.shape}.")
        if self.classes.shape != (n,) or self.is_test.shape != (n,) or (self.place is not None and self.place.shape != (n,)):
            raise ShapeError(f"classes, is_test and place must be [{n}].")

    def is_one_of(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark chips of some classes, bool [N]. Raises DatasetError if a class is unknown."""
        for name in names:
            if name not in self.class_names:
                raise DatasetError(
                    f"There is no class {name!r}; there are {', '.join(self.class_names)}.", "Choose some of these."
                )
        return np.isin(self.classes, [self.class_names.index(name) for name in names])


@dataclass(frozen=True)
class PUSplit:
    """Rows of a data set: what is learned from, and what is tested on.

    Attributes:
        positive: int64 [n_P], labeled positives.
        unlabeled: int64 [n_U].
        test: int64 [n_T]; the unlabeled themselves where nothing is set aside.
    """

    positive: Rows
    unlabeled: Rows
    test: Rows


def case_control(
    is_positive: NDArray[np.bool_], pool: Rows, test: Rows, n_positive: int, n_unlabeled: int, prior: float | None,
    generator: np.random.Generator,
) -> PUSplit:  # fmt: skip
    """Draw positives and unlabeled separately: unlabeled chips are an even draw from a population with a share `prior`
    damaged.

    Source: PUCL, Section 2 and Appendix A.1 (case-control setting).

    Args:
        is_positive: bool [N], the truth.
        pool: rows that may be learned from.
        test: rows to test on.
        n_unlabeled: 0 takes as many as there are at that prior.
        prior: share of positives among the unlabeled; the pool's own if None.

    Raises:
        DatasetError: if the pool has too few chips of a class.
    """
    good, other = (generator.permutation(pool[is_positive[pool] == wanted]) for wanted in (True, False))
    rest = good[n_positive:]
    share = len(rest) / max(1, len(rest) + len(other)) if prior is None else prior
    most = min(len(rest) / max(share, 1e-9), len(other) / max(1 - share, 1e-9))
    n = int(most + 1e-9) if n_unlabeled == 0 else n_unlabeled
    n_hidden = round(n * share)
    if n_positive > len(good) or n_hidden > len(rest) or n - n_hidden > len(other) or n < 1:
        raise DatasetError(
            f"{n_positive} positives and {n} unlabeled with {share:.1%} positives need more chips than there are: "
            f"{len(good)} positive, {len(other)} others.",
            "Ask for fewer.",
            kind="few",
        )
    unlabeled = np.concatenate([rest[:n_hidden], other[: n - n_hidden]])
    return PUSplit(np.sort(good[:n_positive]), np.sort(unlabeled), test)


def single_set(
    is_positive: NDArray[np.bool_], pool: Rows, test: Rows | None, n_positive: int, prior: float | None,
    generator: np.random.Generator,
) -> PUSplit:  # fmt: skip
    """Label some positives of one set; all the rest of it is unlabeled, as buildings of an event are.

    Source: PUCL, Appendix A.1 (single dataset setting).

    Args:
        test: rows to test on; the unlabeled if None.
        prior: share of positives in the whole set, reached by leaving out chips of one class; the pool's own if None.

    Raises:
        DatasetError: if there are too few positives.
    """
    good, other = (generator.permutation(pool[is_positive[pool] == wanted]) for wanted in (True, False))
    if prior is not None:
        good, other = _with_share(good, other, prior)
    if n_positive >= len(good):
        raise DatasetError(
            f"{n_positive} positives shall be labeled; the set has {len(good)}, and some must stay hidden.",
            "Ask for fewer positives, or for a larger share.",
            kind="few",
        )
    unlabeled = np.sort(np.concatenate([good[n_positive:], other]))
    return PUSplit(np.sort(good[:n_positive]), unlabeled, unlabeled if test is None else test)


def thinned(is_positive: NDArray[np.bool_], rows: Rows, prior: float, generator: np.random.Generator) -> Rows:
    """Leave out chips of one class until a share `prior` is positive; rows in rising order."""
    good, other = (generator.permutation(rows[is_positive[rows] == wanted]) for wanted in (True, False))
    return np.sort(np.concatenate(_with_share(good, other, prior)))


def _with_share(good: Rows, other: Rows, prior: float) -> tuple[Rows, Rows]:
    """Return two lists, the longer one cut so that a share `prior` of both together is from the first."""
    n_good = min(len(good), round(len(other) * prior / (1 - prior)))
    return good[:n_good], other[: min(len(other), round(n_good * (1 - prior) / prior))]


def held_out_places(place: NDArray[np.int64], share: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Set whole places aside for testing until they hold a share of the chips; bool [N]. Neighbors would leak otherwise."""
    order = generator.permutation(np.unique(place))
    sizes = np.array([(place == each).sum() for each in order])
    n_chosen = int(np.searchsorted(np.cumsum(sizes), share * len(place))) + 1
    chosen = order[: min(n_chosen, len(order) - 1)]  # something must be left to learn from
    return np.isin(place, chosen)
