"""Explore: see how a run arranges the buildings, select some, and look at their chips."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pu_geo.services import exploring, training
from pu_geo.ui import frame, job_card

MOST_CHIPS = 48
LABEL_COLORS = {"unlabeled": "#B8B8B8", "positive": "#D55E00", "not_damaged": "#0072B2", "not_assessable": "#555555"}

layout = frame.needs_project()
frame.header(
    "Explore",
    "Each dot is a building; dots that lie together look alike to the model. Draw a box or a lasso to see their chips.",
)
runs = training.all_runs(layout)
if not runs:
    st.info("There is no run to explore yet.")
    frame.link("train", "Train one")
    st.stop()

which, how, way = st.columns([2, 2, 2], vertical_alignment="bottom")
run_id = which.selectbox("Run", [run.run_id for run in runs])
color_by = how.segmented_control("Color by", ["label", "score", "PUPL cluster"], default="label") or "label"
points = exploring.points(layout, run_id)
job = exploring.umap_job(layout, run_id)
if points.kind == "PCA" and not (job and job.state == "running"):
    with way:
        if st.button("Compute UMAP", icon=":material/scatter_plot:", help="Until then you see PCA."):
            exploring.start_umap(layout, run_id)
            st.rerun()
if job is not None and points.kind == "PCA":
    job_card.watch(layout, ("embed",))


def trace(mask: np.ndarray, name: str, **marker: object) -> go.Scattergl:
    """Return the dots of `mask`; each carries its row number."""
    rows = np.flatnonzero(mask)
    text = [f"{points.building_ids[row]}<br>score {points.scores[row]:.3f}" for row in rows]
    return go.Scattergl(
        x=points.xy[rows, 0], y=points.xy[rows, 1], customdata=rows, text=text, hoverinfo="text+name", mode="markers",
        name=name, marker={"size": 6, "opacity": 0.8, **marker},
    )  # fmt: skip


figure = go.Figure()
everything = np.ones(len(points.scores), dtype=bool)
if color_by == "score":
    figure.add_trace(trace(everything, "score", color=points.scores, colorscale="Cividis", showscale=True, cmin=0, cmax=1))
elif color_by == "PUPL cluster":
    figure.add_trace(trace(~points.in_damaged_cluster, "other cluster", color="#B8B8B8"))
    figure.add_trace(trace(points.in_damaged_cluster, "cluster of the positives", color="#CC79A7"))
else:
    names = np.array(points.labels)
    for name, color in LABEL_COLORS.items():
        if (names == name).any():
            size = 6 if name == "unlabeled" else 9
            figure.add_trace(trace(names == name, name.replace("_", " "), color=color, size=size))
figure.update_layout(
    height=620, margin={"l": 0, "r": 0, "t": 24, "b": 0}, dragmode="lasso", title={"text": points.kind, "x": 0.01},
    xaxis={"visible": False}, yaxis={"visible": False, "scaleanchor": "x"}, legend={"orientation": "h"},
)  # fmt: skip

left, right = st.columns([3, 2], gap="medium")
with left:
    event = st.plotly_chart(
        figure, key=f"scatter-{run_id}-{color_by}-{points.kind}", on_select="rerun", selection_mode=("box", "lasso", "points"),
        config={"displaylogo": False, "scrollZoom": True},
    )  # fmt: skip
with right:
    chosen = [int(np.ravel(point["customdata"])[0]) for point in event["selection"]["points"]]
    if not chosen:
        st.info("Select some dots to see their chips here, pre above post.", icon=":material/gesture_select:")
    else:
        chosen.sort(key=lambda row: -points.scores[row])
        n_positive = sum(points.labels[row] == "positive" for row in chosen)
        in_cluster = int(points.in_damaged_cluster[chosen].sum())
        st.markdown(f"**{len(chosen)}** buildings · {n_positive} positives · {in_cluster} in the positives' PUPL cluster")
        shown = chosen[:MOST_CHIPS]
        pictures = exploring.chip_pictures(layout, run_id, [points.building_ids[row] for row in shown])
        st.image(pictures, width=72, caption=[f"{points.scores[row]:.2f}" for row in shown])
        if len(chosen) > MOST_CHIPS:
            st.caption(f"The {MOST_CHIPS} highest scores of {len(chosen)} are shown.")
