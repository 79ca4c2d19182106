"""The damage map by area: tables, and maps over the imagery, for layers of areas and for square cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import jobs, wording
from pu_geo.maps import areas, thresholds
from pu_geo.maps.actions import AddAreas
from pu_geo.scenes import preparation
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card
from pu_geo.ui.components.project_view import Background, background
from pu_geo.ui.damage_map import texts

_MOST_DRAWN = 1500
_NOTHING = "#8A8A8A"
_RAMP = ("#FEEDDE", "#FDBE85", "#FD8D3C", "#D94701", "#7F2704")  # Oranges of ColorBrewer
_OPACITY = 0.5
_CELLS = re.compile(r"grid([\d.]+)m")
_STEPS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # widths of classes


def draw(layout: Layout, run_id: str, threshold: float) -> None:
    """Draw how to add areas, the button that summarises, and what the last summary of this run found."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        cell_m = st.number_input(texts.CELL, 50, 20_000, step=50, width=200, **chosen.kept(layout, "cell_m", "cell-m"))
        args = {**thresholds.map_arguments(layout, run_id, threshold), "cell_m": int(cell_m)}
        frame.button(
            texts.SUM_UP,
            partial(jobs.start, layout, "sum_up", args),
            key="sum-up",
            type="primary",
            icon=":material/grid_on:",
        )
        with st.popover(texts.ADD_AREAS, icon=":material/add_location_alt:"):
            _add(layout)
    job_card.watch_unless_done(layout, "areas")
    job = areas.last_summing_up(layout, run_id)
    if job is None:
        st.caption(texts.NO_SUMS)
        return
    layer = st.selectbox(texts.BY, job.result["layers"], format_func=_layer, index=0, key="area-layer", width=240)
    found = areas.area_table(layout, job.job_id, layer)
    outside = texts.OUTSIDE.format(n=found["n_outside"]) if found["n_outside"] else ""
    outside += texts.IN_SEVERAL.format(n=found["n_several"]) if found["n_several"] else ""
    if len(found["rows"]) <= _MOST_DRAWN:
        overview = preparation.overview(layout)
        behind = background(layout) if overview.grid is not None and overview.layers else None
        is_estimated = any(row["est_damaged"] is not None for row in found["rows"])
        st.markdown(f"**{texts.SHARE_ESTIMATED if is_estimated else texts.SHARE_FLAGGED}**")
        st.plotly_chart(
            _figure(found, behind), key="area-map", config={"displaylogo": False, "scrollZoom": True}, alt=texts.AREA_ALT
        )
    st.caption(texts.AREA_NOTE.format(threshold=job.result["threshold"], outside=outside))
    titles = {
        name: texts.AREA_TYPE.format(name=words, state=name.rpartition("_")[2])
        for name, words in job.result.get("types", {}).items()
    }
    st.dataframe(
        [{words: row[name] for name, words in {**texts.AREA_COLUMNS, **titles}.items()} for row in found["rows"]],
        hide_index=True, key="area-table",
    )  # fmt: skip


def _layer(name: str) -> str:
    """Return what a layer is called: the cells by their side, others as the analyst named them."""
    found = _CELLS.fullmatch(name)
    return texts.CELLS_OF.format(side=found[1]) if found else name


def _add(layout: Layout) -> None:
    for name, n in areas.area_layers(layout).items():
        st.caption(texts.AREAS_OF.format(layer=frame.plain(name), n=n))
    path = st.text_input(texts.AREA_FILE, placeholder=texts.AREA_FILE_EXAMPLE, key="areas-path")
    layer = st.text_input(texts.AREA_LAYER, texts.AREA_LAYER_USUAL, key="areas-layer", help=texts.AREA_LAYER_HELP)
    frame.button(
        texts.ADD_LAYER, lambda: jobs.start(layout, AddAreas(path, layer)), key="add-areas", disabled=not (path and layer)
    )


def _figure(found: Mapping[str, Any], behind: Background | None) -> go.Figure:
    """Fill each area by the part of its assessed buildings that an audit estimates as damaged, or that is flagged or
    confirmed.
    """
    figure = go.Figure()
    shares = [_share(row) for row in found["rows"]]
    ends = _classes(max((share for share in shares if share is not None), default=0.0))
    shown: set[int | None] = set()
    for row, ring, share in zip(found["rows"], found["outlines"], shares, strict=True):
        step = None if share is None else next(k for k, end in enumerate(ends) if share <= end + 1e-9)
        words = texts.NO_SHARE if share is None else wording.percent(share)
        hover = texts.AREA_HOVER.format(
            name=escape(str(row["name"])), share=words, confirmed=row["confirmed"] or 0, flagged=row["flagged"] or 0,
            assessed=row["assessed"], n=row["buildings_total"],
        )  # fmt: skip
        figure.add_scatter(
            x=[x for x, _ in ring], y=[y for _, y in ring], fill="toself", mode="lines",
            line={"width": 1, "color": "rgba(20,20,20,0.8)"}, fillcolor=_rgba(_NOTHING if step is None else _RAMP[step]),
            fillpattern={"shape": "/", "fgcolor": "#fff", "size": 6, "solidity": 0.25} if step is None else None,
            text=hover, hoverinfo="text", hoveron="fills", showlegend=False,
        )  # fmt: skip
        shown.add(step)
    for step in sorted(shown, key=lambda step: len(ends) if step is None else step):
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=_legend(ends, step),
            marker={"symbol": "square", "size": 14, "color": _NOTHING if step is None else _RAMP[step],
                    "line": {"width": 1, "color": "#808080"}},
        )  # fmt: skip
    for tile in behind.tiles if behind else ():
        figure.add_layout_image(
            source=tile.url, xref="x", yref="y", x=tile.left, y=tile.top, sizex=tile.width, sizey=tile.height,
            sizing="stretch", layer="below", xanchor="left", yanchor="top",
        )  # fmt: skip
    figure.update_layout(
        height=520, margin={"l": 0, "r": 0, "t": 30, "b": 0}, xaxis={"visible": False}, hovermode="closest", dragmode="pan",
        yaxis={"visible": False, "scaleanchor": "x"}, plot_bgcolor="rgba(0,0,0,0)", paper_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "itemclick": False, "itemdoubleclick": False},
    )  # fmt: skip
    return figure


def _classes(most: float) -> list[float]:
    """Return where the classes of shares end: even steps, as narrow as leaves `most` in the last one."""
    step = next(step for step in _STEPS if step * len(_RAMP) >= most - 1e-9)
    return [step * k for k in range(1, len(_RAMP) + 1)]


def _legend(ends: list[float], step: int | None) -> str:
    if step is None:
        return texts.NONE_ASSESSED
    low = 0.0 if step == 0 else ends[step - 1]
    return f"{100 * low:g}–{100 * ends[step]:g} %"


def _rgba(color: str) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_OPACITY})"


def _share(row: Mapping[str, Any]) -> float | None:
    if not row["assessed"]:
        return None
    counted = row["est_damaged"] if row["est_damaged"] is not None else row["flagged"] + row["confirmed"]
    return min(float(counted / row["assessed"]), 1.0)
