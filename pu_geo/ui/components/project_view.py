"""The damage view of a project: collects what the component needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import Label
from pu_geo.services.annotate import presence, ranking
from pu_geo.services.imagery import image_quality, preparation
from pu_geo.services.project import projects
from pu_geo.ui.components.damage_view import Details, MapLayer, PresenceConfig, Queue, Wall, damage_view
from pu_geo.ui.components.scatter import Scatter
from pu_geo.ui.frame import analyst
from pu_geo.ui.imagery.image_quality import encode_image_quality


def project_view(
    layout: Layout,
    *,
    key: str,
    labels: Mapping[str, Label],
    mode: Literal["label", "view"],
    panes: Sequence[Literal["map", "wall"]] = ("map", "wall"),
    score_id: str | None = None,
    run_id: str | None = None,
    threshold: float | None = None,
    color_by: Literal["labels", "scores"] = "labels",
    height: int = 720,
    queue: Queue | None = None,
    types: Sequence[str] = (),
    details: Mapping[str, Details] | None = None,
    conflicts: Collection[str] | None = None,
    on_queue: Callable[[str], object] | None = None,
    event: int | None = None,
    scatter: Scatter | None = None,
) -> None:
    """Draw map and chip wall of a project; nothing where there is nothing to draw yet.

    Args:
        labels: building id -> label; read after callbacks ran.
        score_id: a run's id, or a live ranking's; the scores that map and wall show.
        run_id: of the run whose map this is: what it does not assess is marked so. None marks what the newest imagery hides.
        queue, types, details, conflicts, on_queue, scatter: see `damage_view`.
        event: number of the newest label event, asked for before `labels` were read: from then on the browser hears of
            others' answers by itself, and shows who else is here. None where nothing is labeled.
    """
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.n_buildings or not overview.layers:
        return
    token = projects.token_of(layout)
    if projects.resolve(token) is None:  # many others were opened since, and the routes know only the newest
        projects.open_project(str(layout.folder))
    stamp, pyramids, chips = _stamp(layout.geometry), layout.quicklooks, overview.chips
    positions = _positions(str(layout.folder), stamp)
    damage_view(
        key=key,
        token=token,
        grid_px=(overview.grid.width, overview.grid.height),
        gsd_m=overview.grid.gsd_m,
        layers=[
            MapLayer(each["id"], each["max_zoom"], v=_stamp(pyramids / each["id"] / "pyramid.json"))
            for each in overview.layers
        ],
        geometry_v=stamp,
        labels=labels,
        positions=positions,
        on_queue=on_queue,
        panes=panes,
        mode=mode,
        score_id=score_id,
        threshold=threshold,
        color_by=color_by,
        wall=Wall(chip_set=chips["chip_set"], v=chips["chip_set"], **chips["sheets"]) if chips else None,
        height=height,
        queue=queue,
        types=types,
        details=details,
        conflicts=conflicts,
        seen=encode_image_quality(image_quality.image_quality(layout, run_id), positions, overview.grid),
        scatter=scatter,
        here=None if event is None else PresenceConfig(analyst(), event, presence.color_of(analyst())),
    )


def _stamp(path: Path) -> str:
    return str(path.stat().st_mtime_ns)


@st.cache_data(max_entries=4, show_spinner=False)
def _positions(folder: str, stamp: str) -> dict[str, int]:
    """Return building id -> its place in the footprint file; `stamp` changes with that file."""
    return ranking.positions(projects.find(folder))
