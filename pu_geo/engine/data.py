"""What methods learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ShapeError


@dataclass(frozen=True)
class FeatureViews:
    """Frozen features of several augmented views of every chip, and which chips are positive.

    Attributes:
        views: float16 or float32 [V, N, D], may be a memory map; view 0 is the chip as it was cut, the others are augmented.
        is_positive: bool [N]; everything else is unlabeled.
        is_left_out: bool [N]; not assessable chips: never trained on, yet scored.
    """

    views: NDArray[np.float16]
    is_positive: NDArray[np.bool_]
    is_left_out: NDArray[np.bool_]

    def __post_init__(self) -> None:
        n = self.views.shape[1] if self.views.ndim == 3 else -1
        if self.views.ndim != 3 or self.is_positive.shape != (n,) or self.is_left_out.shape != (n,):
            raise ShapeError(
                f"views must be [V, N, D] with masks [N]; got {self.views.shape}, "
                f"{self.is_positive.shape} and {self.is_left_out.shape}."
            )

    @property
    def trained_rows(self) -> NDArray[np.int64]:
        """Row numbers a method may train on, int64 [M]."""
        return np.flatnonzero(~self.is_left_out)
