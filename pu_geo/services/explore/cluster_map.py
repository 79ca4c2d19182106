"""Where a cluster lies on the map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.services.explore.clusters import Inspected

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
    with store.connect(layout) as db:
        xy = contents.centers_px(db, found.ids)
    return OnMap(xy[rows], xy[others])
