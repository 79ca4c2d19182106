"""The damage map by area and by scene: tables and drawings for layers of areas, for square cells, and for scenes in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import mapping
from pu_geo.services.damage_map.mapping import SceneRow
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card

_MOST_DRAWN = 1500
_NOTHING = "#E4E4E4"
_SCALE = ((0.0, "#FDE9D9"), (0.25, "#F9B27C"), (0.5, "#E97E35"), (0.75, "#C44E00"), (1.0, "#7A2F00"))
_WORDS = {
    "name": "Area", "pcode": "Code", "buildings_total": "Buildings", "assessed": "Assessed", "not_assessed": "Not assessed",
    "flagged": "Flagged", "confirmed": "Confirmed", "est_damaged": "Estimated damaged", "low": "Low", "high": "High",
    "pct": "Estimated, % of assessed",
}  # fmt: skip


def draw(layout: Layout, run_id: str, threshold: float) -> None:
    """Draw how to add areas, the button that sums up, and what the last summing up of this run found."""
    here, new = st.columns([3, 2], gap="large")
    with new, st.expander("Add areas such as districts"):
        _add(layout)
    with here, st.container(horizontal=True, vertical_alignment="bottom"):
        resized = chosen.kept(layout, "cell_m", "cell-m")
        cell_m = st.number_input("Side of square cells, m", 50, 20_000, step=50, key="cell-m", width=200, on_change=resized)
        if st.button("Sum up by area", type="primary", icon=":material/grid_on:"):
            frame.act_and_rerun(lambda: mapping.start_summing_up(layout, run_id, threshold, int(cell_m)))
    job_card.watch(layout, ("add_areas", "sum_up"))
    job = mapping.last_summing_up(layout, run_id)
    if job is None:
        st.caption("Nothing was summed up for this run yet. Versions of the export always hold these tables.")
        return
    layer = st.selectbox("By", job.result["layers"], index=0, key="area-layer", width=240)
    found = mapping.area_table(layout, job.job_id, layer)
    outside = f" {found['n_outside']:,} buildings lie in none of these areas." if found["n_outside"] else ""
    st.caption(
        f"At threshold {job.result['threshold']:.3f}. Where nothing was assessed nothing is said, never 0. "
        f"Estimates need an audit, and take its curve to hold in every area; their intervals may not be added up.{outside}"
    )
    if len(found["rows"]) <= _MOST_DRAWN:
        st.plotly_chart(_figure(found), key="area-map", config={"displaylogo": False})
    st.dataframe(
        [{words: row[name] for name, words in _WORDS.items()} for row in found["rows"]], hide_index=True, key="area-table"
    )


def _add(layout: Layout) -> None:
    for name, n in mapping.area_layers(layout).items():
        st.caption(f"{frame.plain(name)}: {n:,} areas")
    path = st.text_input("Polygon file", placeholder="/data/adm2.geojson", key="areas-path")
    layer = st.text_input("Call it", "adm2", key="areas-layer", help="adm1 and adm2 also fill the codes of the export.")
    if st.button("Add", disabled=not (path and layer)):
        frame.act_and_rerun(lambda: mapping.start_adding_areas(layout, path, layer))


def _figure(found: Mapping[str, Any]) -> go.Figure:
    """Fill each area by the part of its assessed buildings that an audit estimates as damaged, or that is flagged or confirmed."""
    figure = go.Figure()
    is_estimated = any(row["est_damaged"] is not None for row in found["rows"])
    counted = "Estimated damaged" if is_estimated else "Flagged or confirmed, no estimate of the damage,"
    shares = [_share(row) for row in found["rows"]]
    most = max((share for share in shares if share is not None), default=0.0) or 1.0
    for row, ring, share in zip(found["rows"], found["outlines"], shares, strict=True):
        words = "nothing assessed" if share is None else f"{share:.1%}"
        color = _NOTHING
        if share is not None:
            color = next(color for at, color in reversed(_SCALE) if share / most >= at - 1e-9)
        figure.add_scatter(
            x=[x for x, _ in ring], y=[y for _, y in ring], fill="toself", mode="lines", line={"width": 0.5, "color": "#777"},
            fillcolor=color, text=f"{row['name']}: {words}", hoverinfo="text",
            hoveron="fills", showlegend=False,
        )  # fmt: skip
    figure.update_layout(
        height=420, margin={"l": 0, "r": 0, "t": 24, "b": 0}, xaxis={"visible": False},
        yaxis={"visible": False, "scaleanchor": "x"}, plot_bgcolor="rgba(0,0,0,0)",
        title={"text": f"{counted} of the assessed buildings, 0 to {most:.1%}; grey: none assessed", "font": {"size": 13}},
    )  # fmt: skip
    return figure


def _share(row: Mapping[str, Any]) -> float | None:
    if not row["assessed"]:
        return None
    counted = row["est_damaged"] if row["est_damaged"] is not None else row["flagged"] + row["confirmed"]
    return float(counted / row["assessed"])


MOST_SHOWN = 3


def draw_scenes(rows: Sequence[SceneRow]) -> None:
    """Draw the doubts, and a table of all scenes where there are several."""
    doubtful = [row for row in rows if row.doubt]
    for row in doubtful[:MOST_SHOWN]:
        st.warning(row.doubt, icon=":material/visibility_off:")
    if len(rows) < 2:
        return
    more = f", {len(doubtful)} doubtful" if doubtful else ""
    with st.expander(f"{len(rows)} scenes{more}"):
        st.dataframe(
            [
                {
                    "Scene": row.scene_id or "no scene", "Buildings": row.n, "Assessed": row.n_assessed,
                    "Damaged, answered": row.n_damaged, "Not damaged, answered": row.n_not_damaged,
                    "Flagged": row.n_flagged, "Flag rate": None if row.flag_rate is None else f"{row.flag_rate:.1%}",
                    "Doubt": row.doubt or "none",
                }
                for row in rows
            ],
            hide_index=True,
        )  # fmt: skip
