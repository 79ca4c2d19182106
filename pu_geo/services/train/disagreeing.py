"""Where two runs disagree most: the buildings that one ranks far higher than the other, and all of them on a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import agreement
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.train.comparing import Comparison

N_APART = 6
LEAST_SPAN = 0.1


@dataclass(frozen=True)
class Apart:
    """A building on which two runs disagree: its places in both, and its label, "" where it has none."""

    building_id: str
    places: tuple[int, int]
    label: str


@dataclass(frozen=True)
class MapPoints:
    """Buildings as dots, those on which two runs disagree last, so that they lie on top.

    Attributes:
        x, y: pixels of the project grid, y down, float32 [n].
        difference: as in `Ranked`, float32 [n].
        most: the largest difference, for the ends of a color scale; at least 0.1.
    """

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    difference: NDArray[np.float32]
    most: float


def most_apart(layout: Layout, found: Comparison, n: int = N_APART) -> tuple[list[Apart], list[Apart]]:
    """Return the buildings that the first run ranks far higher than the second, and the other way, largest first."""
    with store.connect(layout) as db:
        said = labels.current_labels(db)
    ranked = found.ranked
    higher, lower = agreement.most_apart(ranked.difference, n)
    first, second = ranked.places
    told = [
        [Apart(ranked.ids[row], (int(first[row]), int(second[row])), said.get(ranked.ids[row], "")) for row in rows.tolist()]
        for rows in (higher, lower)
    ]
    return told[0], told[1]


def map_points(layout: Layout, found: Comparison) -> MapPoints:
    """Return where two runs disagree, building by building."""
    difference = found.ranked.difference
    order = np.argsort(np.abs(difference), kind="stable")
    with store.connect(layout) as db:
        xy = contents.centers_px(db, found.ranked.ids)[order]
    most = max(float(np.abs(difference).max()), LEAST_SPAN)
    return MapPoints(xy[:, 0], xy[:, 1], difference[order].astype(np.float32), most)
