"""What every data set is read into: chips with the class of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import DatasetError, ShapeError

UNKNOWN_CLASS = -1


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
