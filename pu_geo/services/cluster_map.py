"""Where a cluster lies on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.services.clusters import Inspected

MOST_OTHERS = 8000


@dataclass(frozen=True)
class OnMap:
    """Centers of buildings in pixels of the project grid, y down: of one cluster, and of others as background; float32 [n, 2]."""

    own: NDArray[np.float32]
    others: NDArray[np.float32]


def on_map(layout: Layout, found: Inspected, name: str) -> OnMap:
    """Return where a cluster lies; of very many others only some."""
    rows = found.rows_of(name)
    others = np.setdiff1d(np.arange(len(found.ids)), rows)
    others = others[:: max(1, -(-len(others) // MOST_OTHERS))]
    xy = places(layout, found.ids)
    return OnMap(xy[rows], xy[others])


def places(layout: Layout, ids: Sequence[str]) -> NDArray[np.float32]:
    """Return (column, row) of buildings in pixels of the project grid, float32 [n, 2]; NaN for one that is gone."""
    with store.connect(layout) as db:
        grid = contents.grid(db)
        known, xy = contents.centers(db)
    row = {building: i for i, building in enumerate(known)}
    at = np.array([row.get(building, -1) for building in ids], np.int64)
    return np.where(at[:, None] >= 0, grid.to_px(xy)[at], np.nan).astype(np.float32)
