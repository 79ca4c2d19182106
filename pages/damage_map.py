"""Damage map: see the scores on the map, audit them, choose a threshold, sum up by area, export versions."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from pu_geo.services.annotate import labeling
from pu_geo.services.damage_map import auditing, mapping
from pu_geo.services.train import training
from pu_geo.ui import frame
from pu_geo.ui.components import chosen
from pu_geo.ui.components.project_view import project_view
from pu_geo.ui.damage_map import area_panel, audit_panel, export_panel

layout = frame.needs_project()
frame.title_bar(
    "Damage map", "See where the damage is, check how good the map is, choose what counts as flagged, and export it."
)
runs = training.all_runs(layout)
if not runs:
    st.info("There is no run yet, so there are no scores to show.")
    frame.link("train", "Train one")
    st.stop()

which, slider, shape = st.columns([2, 3, 3], gap="medium")
with which:
    run = chosen.run_box(layout, runs, "damage-run")
    run_id = run.run_id
with slider:
    threshold, found = chosen.threshold_box(layout, run)
    st.markdown(
        f"**{found.n_confirmed}** confirmed · **{found.n_flagged:,}** flagged of {found.n:,} {found.units} · "
        f"**{found.n_not_assessed:,}** not assessed"
    )
    if found.n_later:
        st.caption(f"{found.n_later:,} came after this run and are not assessed: cut chips and train again to map them.")
with shape:
    edges, counts = mapping.histogram(layout, run_id)
    colors = ["#D55E00" if edge >= threshold else "#B8B8B8" for edge in edges]
    histogram = go.Figure(go.Bar(x=edges, y=counts, marker_color=colors, offset=0))
    histogram.update_layout(
        height=110, margin={"l": 0, "r": 0, "t": 0, "b": 0}, bargap=0, xaxis={"range": [0, 1]},
        yaxis={"type": "log", "visible": False},
    )  # fmt: skip
    st.plotly_chart(histogram, key="histogram", config={"displayModeBar": False})

on_map, audited, summed, exported = st.tabs(["Map", "Audit", "Areas", "Export"])
with audited:
    audit = audit_panel.draw(layout, run_id, threshold)
with summed:
    area_panel.draw(layout, run_id, threshold)
with exported:
    export_panel.draw(layout, run_id, threshold)
with on_map:
    area_panel.draw_scenes(mapping.scene_rows(layout, run_id, threshold))
    damaged = auditing.how_many(layout).words_beside(run_id)
    st.caption(f"{'' if audit else 'Scores are a rank, not a probability. '}{frame.plain(damaged)}")
    project_view(
        layout, key="damage_map", labels=labeling.current_labels(layout), mode="view", score_id=run_id, run_id=run_id, threshold=threshold,
        color_by="scores",
    )  # fmt: skip
