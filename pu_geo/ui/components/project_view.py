"""The damage view of a project: collects what the component needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import Grid
from pu_geo.services.annotate import labeling, presence, ranking
from pu_geo.services.imagery import image_quality, preparation
from pu_geo.services.imagery.image_quality import ImageQuality
from pu_geo.services.project import projects
from pu_geo.ui.components.damage_view import Details, PresenceConfig, Wall, damage_view, encode_details, labels_once
from pu_geo.ui.frame import analyst
from pu_geo.ui.routes import PREFIX


def project_view(
    layout: Layout, *, key: str, mode: Literal["label", "view"], run_id: str | None = None,
    event: int | None = None, **view: Any,
) -> None:  # fmt: skip
    """Draw map and chip wall of a project; nothing where there is nothing to draw yet.

    Args:
        run_id: of the run whose map this is: what it does not assess is marked so. None marks what the newest imagery hides.
        event: number of the newest label event: from then on the browser hears of others' answers by itself, and shows who else
            is here. None where nothing is labeled.
        view: what else `damage_view` takes and shall not be as usual.
    """
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.n_buildings or not overview.layers:
        return
    token = projects.token_of(layout)
    if projects.resolve(token) is None:  # many others were opened since, and the routes know only the newest
        projects.open_project(str(layout.folder))
    stamp, chips = ranking.geometry_v(layout), overview.chips
    positions = _positions(str(layout.folder), stamp)
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
        layers=overview.layers,
        named=preparation.layer_tiles(layout, chips),
        geometry_v=stamp,
        labels=labels,
        grades=labeling.grades_for_browser(layout),
        mode=mode,
        positions=positions,
        wall=Wall(chip_set=chips["chip_set"], v=chips["chip_set"], **chips["sheets"]) if chips else None,
        imagery=encode_image_quality(image_quality.image_quality(layout, run_id), positions, overview.grid),
        lonlat=preparation.lonlat_nodes(overview.grid),
        score_name=ranking.score_name(layout, view.get("score_id")),
        here=None if event is None else PresenceConfig(analyst(), event, presence.color_of(analyst())),
        **view,
    )


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
    layer = next((one for one in overview.layers if one["name"] == "post"), overview.layers[0])
    grid, deepest = overview.grid, int(layer["max_zoom"])

    def tiles_at(zoom: int) -> list[tuple[int, int]]:
        side = 256 * 2 ** (deepest - zoom)
        return [(x, y) for y in range(-(-grid.height // side)) for x in range(-(-grid.width // side))]

    zoom = next(zoom for zoom in range(deepest, -1, -1) if zoom == 0 or len(tiles_at(zoom)) <= most)
    side, (a, _, c, _, e, f) = 256 * 2 ** (deepest - zoom), grid.transform
    place = f"{PREFIX}/{projects.token_of(layout)}/tiles/{layer['name']}/{zoom}"
    return Background(
        tuple(
            Tile(f"{place}/{x}/{y}.jpg?v={layer['v']}", c + a * side * x, f + e * side * y, abs(a) * side, abs(e) * side)
            for x, y in tiles_at(zoom)
        )
    )


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
