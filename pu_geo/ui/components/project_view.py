"""The map and chip wall of a project: collects what the browser component needs, and draws it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import streamlit as st

from pu_geo.answers import labeling, presence, ranking
from pu_geo.lifecycle import projects
from pu_geo.records import Grid
from pu_geo.scenes import image_quality, preparation, sites
from pu_geo.scenes.image_quality import ImageQuality
from pu_geo.store.layout import Layout
from pu_geo.store.queues import StoredQueue
from pu_geo.ui.components.damage_view import (
    Flagging,
    answer,
    encode_flagging,
    encode_queue,
    labels_once,
    renderer,
    take_color,
    take_flag,
    take_message,
)  # fmt: skip
from pu_geo.ui.components.scatter import Scatter, encode_groups, encode_places, encode_scatter, store_selection
from pu_geo.ui.frame import analyst
from pu_geo.ui.routes import PREFIX, bundle_url


def project_view(
    layout: Layout,
    *,
    key: str,
    panes: Sequence[Literal["map", "wall"]] = ("map", "wall"),
    run_id: str | None = None,
    event: int | None = None,
    queue: StoredQueue | None = None,
    on_queue: Callable[[str], object] | None = None,
    is_assessment: bool = False,
    score_id: str | None = None,
    threshold: float | None = None,
    color_by: str = "labels",
    types: Sequence[str] = (),
    conflicts: Collection[str] | None = None,
    scatter: Scatter | None = None,
    flagging: Flagging | None = None,
) -> None:
    """Show a project's buildings on a map and a chip wall, and take labels; nothing where there is nothing to draw yet.

    Args:
        key: of the component, unique on the page; also names its entries in `st.session_state`.
        run_id: of the run whose map this is: what it does not assess is marked so. None marks what the newest imagery hides.
        event: number of the newest label event: labels are taken, and from then on the browser hears of others' answers by
            itself, and shows who else is here. None where nothing is labeled: a click only selects.
        queue: what to answer next. Once all of it is answered or skipped, or when the analyst asks for another one,
            `on_queue` gets its id.
        on_queue: called in a Streamlit callback, so before the page runs, once the labels before it are stored. It may come
            again. Where it raises a `PuGeoError`, `OSError` or `sqlite3.Error`, the browser shows the problem and asks
            again.
        is_assessment: nothing but the queue's buildings is on the map or can be labeled.
        score_id: names the scores that the score route sends; a new id for new numbers.
        threshold: score from which on a building counts as flagged; below it scores are drawn faintly.
        color_by: "labels", "scores", or one of `MAP_COLORS`; a change by the page wins over the analyst's choice.
        types: damage types that the card of a positive offers.
        conflicts: ids of buildings on which analysts disagree, for a filter of the wall; None offers no such filter.
        scatter: shows a scatter beside map and wall; a click selects then, and keys label what is selected. `{key}:selected`
            of `st.session_state` holds its ids.
        flagging: makes it a damage map; takes `score_id` and `threshold`.
    """
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.n_buildings or not overview.layers:
        return
    token, v, chips, grid = projects.token_of(layout), ranking.geometry_v(layout), overview.chips, overview.grid
    if projects.resolve(token) is None:  # many others were opened since, and the routes know only the newest
        projects.open_project(str(layout.folder))
    positions = _positions(str(layout.folder), v)
    moment = labeling.moment(
        layout, labeling.newest_event(layout) if event is None else event
    )  # before the labels are read: they may hold more
    labels, details = labels_once(
        token, v, moment, labeling.current_labels(layout), partial(labeling.label_details, layout), positions
    )
    data: dict[str, Any] = {
        **answer(key),
        "module": bundle_url(),
        "base": PREFIX,
        "token": token,
        "panes": list(panes),
        "mode": "view" if event is None else "label",
        "grid": [grid.width, grid.height],
        "sites": sites.for_browser(grid),
        "layers": overview.layers,
        "named": [
            {**each, "missing": encode_places(positions[one] for one in each["missing"] if one in positions)}
            for each in preparation.layer_tiles(layout, chips)
        ],
        "geometry_v": v,
        "labels": labels,
        "details": details,
        "grades": labeling.grades_for_browser(layout),
        "score_id": score_id,
        "score_name": ranking.score_name(layout, score_id),
        "threshold": threshold,
        "color_by": color_by,
        "wall": {"chip_set": chips["chip_set"], "n": len(chips["building_ids"])} if chips else None,
        "queue": None if queue is None else encode_queue(queue, positions, is_assessment=is_assessment),
        "types": list(types),
        "conflicts": None
        if conflicts is None
        else encode_places(positions[each] for each in conflicts if each in positions),
        "seen": encode_image_quality(image_quality.image_quality(layout, run_id), positions, grid),
        "scatter": None,
    }
    if scatter:
        data["scatter"] = {**encode_scatter(scatter, positions), "heard": st.session_state.get(f"{key}:heard")}
    if event is not None:  # with it, the browser sends labels, and asks who else is here and what they answer
        data["here"] = {"analyst": analyst(), "event": event, "color": presence.color_of(analyst())}
    if flagging:
        data["flagging"] = {**encode_flagging(flagging, positions), "stored": st.session_state.get(f"{key}:flag")}
    renderer()(
        key=key,
        data=data,
        on_operations_change=lambda: take_message(key, on_queue),
        on_selection_change=lambda: store_selection(key, positions),
        on_flag_change=lambda: take_flag(key, flagging, score_id),
        on_map_color_change=lambda: take_color(key, flagging),
    )


def background(layout: Layout, site: str = "", most: int = 30) -> list[dict[str, Any]]:
    """Return the imagery after the event, or before it where there is no other, in at most so many map tiles, as images of
    a plotly layout in project coordinates; none without any.

    Of several sites it is that of `site`, also in more tiles: one shows no other site. None in another system than the
    project's.
    """
    overview = preparation.overview(layout)
    if overview.grid is None or not overview.layers:
        return []
    layer = next((one for one in overview.layers if one["name"] == "post"), overview.layers[0])
    several = bool(overview.grid.sites)
    grid = next((one for one in overview.grid.parts if not several or one.name == site), None)
    if grid is None or grid.crs != overview.grid.crs:
        return []
    side, n_deeper = 256, 0
    deepest = 2 if several else layer["max_zoom"]  # a site starts at a multiple of 1,024 rows
    while n_deeper < deepest and -(-grid.height // side) * -(-grid.width // side) > most:
        side, n_deeper = side * 2, n_deeper + 1
    a, _, c, _, e, f = grid.transform
    place = f"{PREFIX}/{projects.token_of(layout)}/tiles/{layer['name']}/{layer['max_zoom'] - n_deeper}"
    return [
        {
            "source": f"{place}/{x}/{y + grid.row // side}.jpg?v={layer['v']}", "xref": "x", "yref": "y",
            "x": c + a * side * x, "y": f + e * side * y, "sizex": abs(a) * side, "sizey": abs(e) * side,
            "sizing": "stretch", "layer": "below", "xanchor": "left", "yanchor": "top",
        }
        for y in range(-(-grid.height // side)) for x in range(-(-grid.width // side))
    ]  # fmt: skip


@st.cache_resource(max_entries=4, show_spinner=False)  # not copied for each page: nobody changes it
def _positions(folder: str, stamp: str) -> Mapping[str, int]:
    """Return building id -> its place in the footprint file; `stamp` changes with the footprints."""
    return ranking.positions(projects.find(folder))


def encode_image_quality(quality: ImageQuality, positions: Mapping[str, int], grid: Grid) -> dict[str, Any]:
    """Write it as shortly as labels.

    Returns:
        {"reasons": {reason: positions as differences in base 36}; "candidates": the same for buildings without a reason;
        "shifts": {"v": names them, "m_per_px": [[metres to the east per column, to the north per row]
        of each site]}, None if not aligned}
    """
    others = {building: why for building, why in quality.candidates.items() if building not in quality.reasons}
    return {
        "reasons": encode_groups(quality.reasons, positions),
        "candidates": encode_groups(others, positions),
        "shifts": None if quality.shifts is None else {"v": quality.shifts, "m_per_px": grid.m_per_px.tolist()},
    }
