"""What the damage map says of where buildings lie: districts, the area of interest, how far pre and post are apart there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.raster.guard import state_of
from pu_geo.geo.raster.placement import moved_to
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.aoi import touching
from pu_geo.geo.vector.areas import assign, centroids
from pu_geo.geo.vector.duplicates import twins
from pu_geo.project import alignment, aoi, areas, import_log, store
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


def interest(layout: Layout, table: FootprintTable, crs: str, run_at: str) -> dict[str, object]:
    """Return the area of interest that the map's buildings were taken in by, and whether it chose them.

    Args:
        run_at: when the run was made, RFC 3339 UTC.

    Returns:
        {"aoi": {"source", "since", "wkt": longitude/latitude or local meters, "selected_buildings": every footprint before the
        run was taken in while it stood, "set_after_run", "n_outside": buildings of the map outside it, "stands": it is the
        project's area still}}; nothing where no area was ever in force or is now.
    """
    with store.connect(layout) as db:
        now, accounts = aoi.current(db), import_log.all_records(db)
        taken = [one.at for one in accounts if one.at <= run_at and one.kept + one.repaired]
        held = [aoi.in_force(db, at) for at in taken]
    found = next((area for area in held if area is not None), now)
    if found is None:
        return {}
    n_outside = int((~touching(np.array(list(table.wkb), dtype=object), found.wkb)).sum()) if table.wkb else 0
    is_after = found.at > run_at
    chose = all(area is not None and area.wkb == found.wkb for area in held) if held else n_outside == 0 and not is_after
    (wkb,) = [found.wkb] if systems.is_local(crs) else moved_to([found.wkb], crs, systems.LONLAT)
    wkt = shapely.to_wkt(shapely.from_wkb(wkb), rounding_precision=7)
    area = {"source": found.source, "since": found.at, "wkt": wkt, "selected_buildings": chose, "set_after_run": is_after}
    return {"aoi": {**area, "n_outside": n_outside, "stands": now is not None and now.wkb == found.wkb}}


def sources(scenes: Sequence[Scene]) -> dict[str, object]:
    """Return {"sources_changed", "sources_missing"}: scenes whose file is not the one that was added, or is not there."""
    states = {scene.scene_id: state_of(scene) for scene in scenes}
    return {
        f"sources_{state}": [name for name, one in states.items() if one == state] for state in ("changed", "missing")
    }  # fmt: skip


def doubles(table: FootprintTable, sources: Sequence[str]) -> dict[str, object]:
    """Return {"n_duplicates": buildings that stand further up in the map already, by their outlines}.

    Footprints that were added by an older PU-Geo may be there twice; whoever adds up the map counts them twice.
    """
    is_house = np.array(sources, dtype=np.str_) != "grid"
    outlines = shapely.from_wkb(np.array(list(table.wkb), dtype=object)[is_house])
    return {"n_duplicates": int(twins(outlines).sum())}
