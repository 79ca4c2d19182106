"""Explore: see how a run arranges the buildings, select some, look at them on the map and as chips, and label them."""

from __future__ import annotations

import streamlit as st

from pu_geo.services.annotate import labeling
from pu_geo.services.explore import coloring, exploring
from pu_geo.services.train import training
from pu_geo.ui import frame
from pu_geo.ui.components import chosen
from pu_geo.ui.components.project_view import project_view
from pu_geo.ui.components.scatter import Scatter
from pu_geo.ui.explore import cluster_panel, neighbor_panel, outlier_panel, selection_panel, type_panel, umap_panel

PANELS = ("PUPL clusters", "Discovered types", "Neighbors", "Outliers")

layout = frame.needs_project()
frame.title_bar(
    "Explore",
    "Each dot is a building; dots that lie together look alike to the model. Shift + drag selects some, on the map and among "
    "the chips too; 1, 2, 3 label them.",
)
runs = training.all_runs(layout)
if not runs:
    st.info("There is no run to explore yet.")
    frame.link("train", "Train one")
    st.stop()

which, how, way = st.columns([2, 2, 2], vertical_alignment="bottom")
with which:
    run_id = chosen.run_box(layout, runs, "explore-run").run_id
offered = coloring.choices(layout)
recolored = chosen.kept(layout, "explore_color", "explore-color", offered)
by = how.selectbox(
    "Color by", list(offered), format_func=lambda key: offered.get(key, key), key="explore-color", on_change=recolored
)
umap_panel.draw(layout, run_id, way)
kind, v = exploring.projection_of(layout, run_id)

key, event = selection_panel.view_key(layout), labeling.newest_event(layout)
color = coloring.coloring(layout, run_id, by) or coloring.Coloring("label", "Label", "labels")
project_view(
    layout,
    key=key,
    labels=labeling.current_labels(layout),
    mode="label",
    score_id=run_id,
    run_id=run_id,
    color_by="scores" if by == "score" else "labels",
    types=labeling.damage_types(layout),
    event=event,
    scatter=Scatter(
        run_id,
        kind,
        v,
        color,
        selection_panel.selected(key),
        load=st.session_state.get(f"{key}:load", ""),
        tells_focus=st.session_state.get("explore-panel") == "Neighbors",
    ),
)
selection_panel.draw(layout, run_id, key)

st.space("small")
panel = st.segmented_control("Look into", PANELS, key="explore-panel", label_visibility="collapsed")
if panel == "PUPL clusters":
    cluster_panel.draw(layout, run_id)
elif panel == "Discovered types":
    type_panel.draw(layout, run_id)
elif panel == "Neighbors":
    neighbor_panel.draw(layout, run_id, selection_panel.selected(key) or selection_panel.clicked(key))
elif panel == "Outliers":
    outlier_panel.draw(layout, run_id)
