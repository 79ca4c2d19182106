"""What the damage map says of where buildings lie: districts, the area of interest, how far pre and post are apart there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo import crs as systems
from pu_geo.geo.areas import assign, centroids
from pu_geo.geo.placement import moved_to
from pu_geo.project import alignment, aoi, areas, store
from pu_geo.project.layout import Layout
from pu_geo.records import FootprintTable, Scene


def districts(layout: Layout, table: FootprintTable) -> dict[str, Sequence[object]]:
    """Return codes and names of the administrative areas that buildings lie in, where layers adm1 and adm2 were added."""
    columns: dict[str, Sequence[object]] = {}
    nothing: list[object] = [None] * len(table.wkb)
    for level in ("adm1", "adm2"):
        with store.connect(layout) as db:
            layer = areas.load_areas(db, level) if level in areas.layers(db) else None
        index = assign(centroids(table.wkb), layer.wkb).tolist() if layer else []
        columns[f"{level}_pcode"] = [layer.pcodes[i] if i >= 0 else None for i in index] if layer else nothing
        if level == "adm2":
            columns["adm2_name"] = [layer.names[i] if i >= 0 else None for i in index] if layer else nothing
    return columns


def shifts(layout: Layout, table: FootprintTable, scenes: Sequence[Scene]) -> dict[str, Sequence[object]]:
    """Return by how many metres the pre scenes must move to fit the post scenes at each building, and how sure that is."""
    found = alignment.load(layout, table.building_ids, scenes)
    if found is None:
        return dict.fromkeys(("shift_dx_m", "shift_dy_m", "shift_quality"), [None] * len(table.wkb))

    def column(values: NDArray[np.float64]) -> list[object]:
        return [round(float(one), 2) if sure > 0 else None for one, sure in zip(values, found.quality, strict=True)]

    return {
        "shift_dx_m": column(found.dx_m),
        "shift_dy_m": column(found.dy_m),
        "shift_quality": [round(float(one), 2) for one in found.quality],
    }


def interest(layout: Layout, crs: str) -> dict[str, object]:
    """Return {"aoi": {"source", "since", "wkt"}}, longitude/latitude or local meters; nothing where no area was set."""
    with store.connect(layout) as db:
        found = aoi.current(db)
    if found is None:
        return {}
    (wkb,) = [found.wkb] if systems.is_local(crs) else moved_to([found.wkb], crs, systems.LONLAT)
    wkt = shapely.to_wkt(shapely.from_wkb(wkb), rounding_precision=7)
    return {"aoi": {"source": found.source, "since": found.at, "wkt": wkt}}
