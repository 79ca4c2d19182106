"""Explore: see how a run arranges the buildings, select some, look at them on the map and as chips, and label them."""

from __future__ import annotations

import streamlit as st

from pu_geo.answers import labeling
from pu_geo.explore import coloring, umap_picture
from pu_geo.runs import training
from pu_geo.store import chosen as choices
from pu_geo.store import run_names
from pu_geo.ui import frame
from pu_geo.ui.annotate import queue_panel
from pu_geo.ui.components import chosen
from pu_geo.ui.components.project_view import project_view
from pu_geo.ui.components.scatter import Scatter
from pu_geo.ui.explore import cluster_panel, neighbor_panel, outlier_panel, selection_panel, texts, type_panel, umap_panel

COLOR_PX = 230
# Beside the view, which fills the window; it scrolls by itself, and the second press of a double click hits no new button.
SIDE_CSS = """<style>
.st-key-explore-side { max-height: calc(100vh - 8.5rem); overflow-y: auto; overflow-x: hidden; padding-right: 0.5rem; }
.st-key-explore-side button { animation: too-new 0.6s; }
@keyframes too-new { from, to { pointer-events: none; } }
</style>"""

layout = frame.needs_project()
bar, runs = frame.title_bar(texts.TITLE, texts.PURPOSE), training.all_runs(layout)
frame.warn_of_former(layout)
queue_panel.answer_checks_first(layout, frame.analyst())
if not runs:
    st.info(texts.NO_RUN)
    frame.link("train", texts.TRAIN_ONE)
    st.stop()

key, offered = selection_panel.view_key(layout), coloring.choices(layout)
with bar:
    chosen_run = (choices.chosen_run(layout) or runs[0]).run_id
    with st.popover(texts.RUN.format(name=frame.plain(run_names.name(layout, chosen_run)))):
        run_id = chosen.run_box(layout, runs, "explore-run").run_id
    by = st.selectbox(
        texts.COLOR_BY,
        list(offered),
        format_func=lambda key: offered.get(key, key),
        width=COLOR_PX,
        label_visibility="collapsed",
        **chosen.kept(layout, "explore_color", "explore-color", offered),
    )
    umap_panel.draw_switch(layout, run_id)
line = st.container(horizontal=True, vertical_alignment="center", gap="small")
with line:
    panel = st.segmented_control(texts.PANEL, texts.PANELS, key="explore-panel", label_visibility="collapsed")
    selection_panel.draw(layout, run_id, key)
    umap_panel.draw_notes(layout, run_id)
state = queue_panel.place_of_state(line)

kind, v = umap_picture.projection_of(layout, run_id, umap_picture.wanted_projection(layout))
made = umap_picture.picture(layout, run_id) if kind == "UMAP" else None
event = labeling.newest_event(layout)
color = coloring.coloring(layout, run_id, by) or coloring.Coloring("label", offered["label"], "labels")
if color.waits_for:
    with state:
        queue_panel.wait_for_the_rest(layout, color.waits_for, texts.LIVE_PART, texts.LIVE_PART_HELP)
view, side = st.columns([5, 4], gap="small") if panel else (st.container(), None)
with view:
    project_view(
        layout,
        key=key,
        score_id=run_id,
        run_id=run_id,
        color_by="scores" if by == "score" else "labels",
        panes=("map",) if panel else ("map", "wall"),
        types=labeling.damage_types(layout),
        event=event,
        scatter=Scatter(
            run_id,
            kind,
            v,
            color,
            made.title if made else "",
            selection_panel.selected(key),
            load=st.session_state.get(f"{key}:load", ""),
            tells_focus=panel == texts.NEIGHBORS,
        ),
    )
umap_panel.draw_job(layout, run_id, state)
if side is not None:
    st.html(SIDE_CSS)
    with side, st.container(key="explore-side"):
        if panel == texts.CLUSTERS:
            cluster_panel.draw(layout, run_id)
        elif panel == texts.TYPES:
            type_panel.draw(layout, run_id)
        elif panel == texts.NEIGHBORS:
            neighbor_panel.draw(layout, run_id, selection_panel.selected(key) or selection_panel.clicked(key))
        elif panel == texts.OUTLIERS:
            outlier_panel.draw(layout, run_id)
