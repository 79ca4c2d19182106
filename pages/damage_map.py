"""Damage map: see the scores on the map, audit them, choose a threshold, sum up by area, export versions."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from pu_geo.services import auditing, labeling, mapping, training
from pu_geo.ui import area_panel, audit_panel, export_panel, frame
from pu_geo.ui.project_view import project_view

layout = frame.needs_project()
frame.header(
    "Damage map", "See where the damage is, check how good the map is, choose what counts as flagged, and export it."
)
runs = training.all_runs(layout)
if not runs:
    st.info("There is no run yet, so there are no scores to show.")
    frame.link("train", "Train one")
    st.stop()

ids = [run.run_id for run in runs]
pinned = training.pinned_run(layout)
which, slider, shape = st.columns([2, 3, 3], gap="medium")
with which:
    run_id = st.selectbox("Run", ids, index=ids.index(pinned) if pinned in ids else 0)
    run = runs[ids.index(run_id)]
    if run_id != pinned and st.button("Show this run on the live map (QGIS)", icon=":material/push_pin:"):
        training.pin(layout, run_id)
        st.rerun()
threshold_key = f"threshold-{run_id}"
st.session_state.setdefault(threshold_key, float(run.threshold))
with slider:
    threshold = st.slider("Threshold", 0.0, 1.0, step=0.001, key=threshold_key, format="%.3f")
    found = mapping.at_threshold(layout, run_id, threshold)
    st.markdown(
        f"**{found.n_confirmed}** confirmed · **{found.n_flagged:,}** flagged of {found.n:,} buildings "
        f"({(found.n_flagged + found.n_confirmed) / max(found.n, 1):.1%} in all)"
    )
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
    audit = audit_panel.draw(layout, run_id, threshold, threshold_key)
with summed:
    area_panel.draw(layout, run_id, threshold)
with exported:
    export_panel.draw(layout, run_id, threshold)
with on_map:
    st.caption(f"{'' if audit else 'Scores are a rank, not a probability. '}{frame.plain(auditing.how_many(layout).words)}")
    project_view(
        layout, key="damage_map", labels=labeling.current_labels(layout), mode="view", score_id=run_id, threshold=threshold,
        color_by="scores", height=680,
    )  # fmt: skip
