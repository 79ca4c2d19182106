"""Damage map: see the scores on the map, choose a threshold, export."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from pu_geo.services import labeling, mapping, training
from pu_geo.ui import frame, job_card
from pu_geo.ui.project_view import project_view

layout = frame.needs_project()
frame.header("Damage map", "See where the damage is, choose which scores count as flagged, and export the map.")
runs = training.all_runs(layout)
if not runs:
    st.info("There is no run yet, so there are no scores to show.")
    frame.link("train", "Train one")
    st.stop()

ids = [run.run_id for run in runs]
pinned = training.pinned_run(layout)
which, slider, out = st.columns([2, 3, 2], gap="medium")
with which:
    run_id = st.selectbox("Run", ids, index=ids.index(pinned) if pinned in ids else 0)
    run = runs[ids.index(run_id)]
    if run_id != pinned and st.button("Show this run on the live map (QGIS)", icon=":material/push_pin:"):
        training.pin(layout, run_id)
        st.rerun()
    st.caption("A rank, not a probability: nothing here was audited yet.")
with slider:
    threshold = st.slider("Threshold", 0.0, 1.0, float(run.threshold), 0.005, key=f"threshold-{run_id}")
    found = mapping.at_threshold(layout, run_id, threshold)
    st.markdown(
        f"**{found.n_confirmed}** confirmed · **{found.n_flagged:,}** flagged of {found.n:,} buildings "
        f"({(found.n_flagged + found.n_confirmed) / max(found.n, 1):.1%} in all)"
    )
    edges, counts = mapping.histogram(layout, run_id)
    colors = ["#D55E00" if edge >= threshold else "#B8B8B8" for edge in edges]
    histogram = go.Figure(go.Bar(x=edges, y=counts, marker_color=colors, offset=0))
    histogram.update_layout(
        height=110, margin={"l": 0, "r": 0, "t": 0, "b": 0}, bargap=0, xaxis={"range": [0, 1]},
        yaxis={"type": "log", "visible": False},
    )  # fmt: skip
    st.plotly_chart(histogram, key="histogram", config={"displayModeBar": False})
with out:
    free = str(mapping.default_export(layout, run_id))
    path = st.text_input("Export to", free, key=f"out-{free}")
    if st.button("Export GeoJSON", type="primary", icon=":material/download:"):
        with frame.telling_errors():
            mapping.start_export(layout, run_id, threshold=threshold, out=path)
            st.rerun()


def result(job: job_card.JobView) -> None:
    """Say where the export lies and what is in it."""
    if job.state == "done":
        st.caption(
            f"{job.result['n']:,} buildings, {job.result['flagged']:,} damaged (flagged or confirmed), "
            f"{job.result['not_assessed']:,} not assessed  \n`{job.result['out']}`"
        )


with out:
    job_card.watch(layout, mapping.EXPORT_TASKS, body=result)
project_view(
    layout, key="damage_map", labels=labeling.current_labels(layout), mode="view", score_id=run_id, threshold=threshold,
    color_by="scores", height=680,
)  # fmt: skip
