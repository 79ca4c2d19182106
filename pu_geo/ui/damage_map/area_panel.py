"""The damage map by area: tables, and maps over the imagery, for layers of areas and for square cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from plotly.colors import sample_colorscale

from pu_geo import jobs, wording
from pu_geo.maps import areas, thresholds
from pu_geo.maps.actions import AddAreas
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, figures, job_card
from pu_geo.ui.components.project_view import background
from pu_geo.ui.damage_map import texts

_MOST_DRAWN = 1500
_NOTHING = "#8A8A8A"
_CELLS = re.compile(r"grid([\d.]+)m")


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
        is_estimated = any(row["est_damaged"] is not None for row in found["rows"])
        st.markdown(f"**{texts.SHARE_ESTIMATED if is_estimated else texts.SHARE_FLAGGED}**")
        sites = job.result.get("sites")
        site = st.selectbox(texts.SITE, list(sites), key="area-site", width=240) if sites else ""
        figure = _figure(found, background(layout, site))
        if sites:
            figure.update_layout(xaxis_range=sites[site][::2], yaxis_range=sites[site][1::2])
        figures.draw_map(figure, "area-map", texts.AREA_ALT)
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


def _figure(found: Mapping[str, Any], behind: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Fill each area by the part of its assessed buildings that an audit estimates as damaged, or that is flagged or
    confirmed; hatch those of which none is assessed.
    """
    figure = go.Figure()
    shares = [_share(row) for row in found["rows"]]
    most = max((share for share in shares if share is not None), default=0.0) or 1.0
    for row, ring, share in zip(found["rows"], found["outlines"], shares, strict=True):
        hover = texts.AREA_HOVER.format(
            name=escape(str(row["name"])), share=texts.NO_SHARE if share is None else wording.percent(share),
            confirmed=row["confirmed"] or 0, flagged=row["flagged"] or 0, assessed=row["assessed"], n=row["buildings_total"],
        )  # fmt: skip
        figure.add_scatter(
            x=[x for x, _ in ring], y=[y for _, y in ring], fill="toself", mode="lines", opacity=0.5,
            line={"width": 1, "color": "#141414"}, text=hover, hoverinfo="text", hoveron="fills", showlegend=False,
            fillcolor=_NOTHING if share is None else sample_colorscale("Oranges", share / most)[0],
            fillpattern={"shape": "/", "fgcolor": "#fff", "size": 6, "solidity": 0.25} if share is None else None,
        )  # fmt: skip
    scale = {
        "color": [0],
        "cmin": 0,
        "cmax": most,
        "colorscale": "Oranges",
        "colorbar": {"tickformat": ".2~p", "thickness": 10},
    }
    figure.add_scatter(x=[None], y=[None], mode="markers", marker=scale, showlegend=False)
    if None in shares:
        hatched = {"symbol": "square", "size": 12, "color": _NOTHING}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=hatched, name=texts.NO_SHARE, showlegend=True)
    figure.update_layout(
        height=520, margin={"l": 0, "r": 0, "t": 8, "b": 0}, xaxis={"visible": False}, hovermode="closest", dragmode="pan",
        yaxis={"visible": False, "scaleanchor": "x"}, plot_bgcolor="rgba(0,0,0,0)", paper_bgcolor="rgba(0,0,0,0)",
        images=behind, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "itemclick": False},
    )  # fmt: skip
    return figure


def _share(row: Mapping[str, Any]) -> float | None:
    if not row["assessed"]:
        return None
    counted = row["est_damaged"] if row["est_damaged"] is not None else row["flagged"] + row["confirmed"]
    return min(float(counted / row["assessed"]), 1.0)
