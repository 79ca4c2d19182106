"""The damage view of a project: collects what the component needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import Grid
from pu_geo.services.annotate import labeling, presence, ranking
from pu_geo.services.annotate.queueing import StoredQueue
from pu_geo.services.imagery import image_quality, preparation
from pu_geo.services.imagery.image_quality import ImageQuality
from pu_geo.services.project import projects
from pu_geo.ui.components.damage_view import (
    Details,
    MapLayer,
    NamedLayer,
    PresenceConfig,
    Queue,
    QueueItem,
    Wall,
    damage_view,
    encode_details,
    labels_once,
)
from pu_geo.ui.frame import analyst
from pu_geo.ui.routes import PREFIX


def project_view(
    layout: Layout, *, key: str, mode: Literal["label", "view"], run_id: str | None = None,
    event: int | None = None, queue: StoredQueue | None = None, is_assessment: bool = False, **view: Any,
) -> None:  # fmt: skip
    """Draw map and chip wall of a project; nothing where there is nothing to draw yet.

    Args:
        run_id: of the run whose map this is: what it does not assess is marked so. None marks what the newest imagery hides.
        event: number of the newest label event: from then on the browser hears of others' answers by itself, and shows who else
            is here. None where nothing is labeled.
        queue: what to answer next.
        is_assessment: nothing but its buildings is on the map or can be labeled.
        view: what else `damage_view` takes and shall not be as usual.
    """
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.n_buildings or not overview.layers:
        return
    token = projects.token_of(layout)
    if projects.resolve(token) is None:  # many others were opened since, and the routes know only the newest
        projects.open_project(str(layout.folder))
    stamp, pyramids, chips = ranking.geometry_v(layout), layout.quicklooks, overview.chips
    positions = _positions(str(layout.folder), stamp)
    items = [
        QueueItem(positions[item.building_id], item.kind, item.why)
        for item in (queue.items if queue else ())
        if item.building_id in positions
    ]
    newest = labeling.newest_event(layout) if event is None else event  # before the labels are read: they may hold more
    labels = labels_once(
        token,
        stamp,
        labeling.moment(layout, newest),
        labeling.current_labels(layout),
        partial(labeling.label_details, layout),
        positions,
    )
    damage_view(
        key=key,
        token=token,
        grid_px=(overview.grid.width, overview.grid.height),
        gsd_m=overview.grid.gsd_m,
        layers=[
            MapLayer(each["id"], each["max_zoom"], v=_stamp(pyramids / each["id"] / "pyramid.json"))
            for each in overview.layers
        ],
        named=[_named(each) for each in preparation.layer_tiles(layout, chips)],
        geometry_v=stamp,
        labels=labels,
        grades=labeling.grades_for_browser(layout),
        mode=mode,
        queue=None if queue is None else Queue(queue.id, items, queue.is_second, is_assessment),
        positions=positions,
        wall=Wall(chip_set=chips["chip_set"], v=chips["chip_set"], **chips["sheets"]) if chips else None,
        imagery=encode_image_quality(image_quality.image_quality(layout, run_id), positions, overview.grid),
        lonlat=preparation.lonlat_nodes(overview.grid),
        score_name=ranking.score_name(layout, view.get("score_id")),
        here=None if event is None else PresenceConfig(analyst(), event, presence.color_of(analyst())),
        **view,
    )


def _named(tiles: preparation.LayerTiles) -> NamedLayer:
    layer, (low, high) = tiles.layer, tiles.layer.scaling[0]
    return NamedLayer(
        layer.name, layer.when, tiles.max_zoom, layer.bands, low, high, layer.unit, tiles.missing,
        v=_stamp(tiles.folder / "pyramid.json"),
    )  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """A map tile with its place in project coordinates: upper left corner, width and height."""

    url: str
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Background:
    """The newest imagery as few enough tiles for a small drawing."""

    tiles: tuple[Tile, ...]


def background(layout: Layout, most: int = 30) -> Background | None:
    """Return the imagery after the event, or before it where there is no other, in at most so many tiles; None without any."""
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.layers:
        return None
    layer = next((one for one in overview.layers if one["id"] == "post"), overview.layers[0])
    grid, deepest = overview.grid, int(layer["max_zoom"])

    def tiles_at(zoom: int) -> list[tuple[int, int]]:
        side = 256 * 2 ** (deepest - zoom)
        return [(x, y) for y in range(-(-grid.height // side)) for x in range(-(-grid.width // side))]

    zoom = next(zoom for zoom in range(deepest, -1, -1) if zoom == 0 or len(tiles_at(zoom)) <= most)
    side, (a, _, c, _, e, f) = 256 * 2 ** (deepest - zoom), grid.transform
    stamp = _stamp(layout.quicklooks / layer["id"] / "pyramid.json")
    place = f"{PREFIX}/{projects.token_of(layout)}/tiles/{layer['id']}/{zoom}"
    return Background(
        tuple(
            Tile(f"{place}/{x}/{y}.jpg?v={stamp}", c + a * side * x, f + e * side * y, abs(a) * side, abs(e) * side)
            for x, y in tiles_at(zoom)
        )
    )


def _stamp(path: Path) -> str:
    return str(path.stat().st_mtime_ns)


@st.cache_resource(max_entries=4, show_spinner=False)  # not copied for each page: nobody changes it
def _positions(folder: str, stamp: str) -> Mapping[str, int]:
    """Return building id -> its place in the footprint file; `stamp` changes with the footprints."""
    return ranking.positions(projects.find(folder))


def encode_image_quality(quality: ImageQuality, positions: Mapping[str, int], grid: Grid) -> dict[str, Any]:
    """Write it as shortly as labels.

    Returns:
        {"reasons": {reason: positions as differences in base 36}; "candidates": the same for buildings without a reason;
        "shifts": {"v": names them, "m_per_px": [metres to the east per column, to the north per row]}, None if not aligned}
    """
    others = {building: why for building, why in quality.candidates.items() if building not in quality.reasons}
    a, _, _, _, e, _ = grid.transform
    metres = [a * grid.x_unit_m, e * grid.y_unit_m]
    return {
        "reasons": _by_reason(quality.reasons, positions),
        "candidates": _by_reason(others, positions),
        "shifts": None if quality.shifts is None else {"v": quality.shifts, "m_per_px": metres},
    }


def _by_reason(why: Mapping[str, str], positions: Mapping[str, int]) -> dict[str, str]:
    details: dict[str, Details] = {building: {"reason": reason} for building, reason in why.items()}  # type: ignore[typeddict-item]
    return encode_details(details, positions)["reason"]
