"""Explore: see which buildings look alike, ask where else and what is wrong, select some, and label them."""

from __future__ import annotations

import streamlit as st

from pu_geo.answers import labeling
from pu_geo.explore import coloring, looks
from pu_geo.ui import frame
from pu_geo.ui.annotate import queue_panel
from pu_geo.ui.components import chosen, job_card
from pu_geo.ui.components.project_view import project_view
from pu_geo.ui.components.scatter import Scatter
from pu_geo.ui.explore import group_panel, question_panel, selection_panel, texts, type_panel

BOX_PX = 190
# The panel stands beside the view, which fills the window. It scrolls by itself, and the second press of a double click hits
# no new button.
SIDE_CSS = """<style>
[data-testid=stHorizontalBlock]:has(> [data-testid=stColumn] .st-key-explore-side) { flex-wrap: nowrap; }
[data-testid=stColumn]:has(+ [data-testid=stColumn] .st-key-explore-side) { flex: 1 1 0; min-width: 0; }
[data-testid=stColumn]:has(.st-key-explore-side) { flex: 0 0 330px; min-width: 0; }
.st-key-explore-side { max-height: calc(100vh - 8.5rem); overflow-y: auto; overflow-x: hidden; padding-right: 0.5rem; }
.st-key-explore-side button { animation: too-new 0.6s; }
@keyframes too-new { from, to { pointer-events: none; } }
</style>"""

layout = frame.needs_project()
bar = frame.title_bar(texts.TITLE, texts.PURPOSE)
frame.warn_of_former(layout)
queue_panel.answer_checks_first(layout, frame.analyst())
shows = looks.sources(layout)
if not shows:
    st.info(texts.NO_CHIPS)
    frame.link("imagery", texts.CUT_CHIPS)
    st.stop()

key, offered = selection_panel.view_key(layout), coloring.choices(layout)
line = st.container(horizontal=True, vertical_alignment="center", gap="small")
with line:
    source = st.selectbox(
        texts.PICTURE, list(shows), format_func=lambda one: shows.get(one, one), width=BOX_PX, label_visibility="collapsed",
        **chosen.for_session("explore-source", looks.LOOK, shows),
    )  # fmt: skip
    by = st.selectbox(
        texts.COLOR_BY, list(offered), format_func=lambda one: offered.get(one, one), width=BOX_PX,
        label_visibility="collapsed", **chosen.kept(layout, "explore_color", "explore-color", offered),
    )  # fmt: skip
run_id, v, job = looks.run_of(layout, source), looks.plane_v(layout, source), looks.start(layout, source)
with bar:
    question_panel.buttons(layout, run_id, key)
    panel = st.segmented_control(
        texts.OPEN_PANEL, texts.PANELS, label_visibility="collapsed", **chosen.for_session("explore-panel")
    )
event = labeling.newest_event(layout)
color = coloring.coloring(layout, source, by) or coloring.Coloring("label", offered["label"], "labels")
with queue_panel.place_of_state(line):
    if question_panel.line(key):
        pass
    elif job and job.is_active:
        queue_panel.wait(lambda: looks.progress_of(layout, source))
    elif color.waits_for:
        queue_panel.wait_for_the_rest(layout, color.waits_for, texts.LIVE_PART, texts.LIVE_PART_HELP)
    else:
        words, n_new = looks.words_of(layout, source) if v else "", looks.n_unplaced(layout, source)
        missing = (texts.NO_SCORES if not run_id else "", texts.NOT_SHOWN.format(n=n_new) if n_new else "")
        st.caption(frame.plain(" ".join(filter(None, (words, *missing)))))
if job and not job.is_active and job.state != "done":
    job_card.watch(layout, "look")

view, side = st.columns([3, 1], gap="small") if panel else (st.container(), None)
asked = question_panel.asked(key)
with view:
    project_view(
        layout,
        key=key,
        score_id=run_id or None,
        run_id=run_id or None,
        types=labeling.damage_types(layout),
        event=event,
        scatter=Scatter(
            source,
            v,
            color,
            shows[source],
            looks.regions_of(layout, source),
            looks.outline_of(layout, source, selection_panel.shown_group(key)),
            selection_panel.selected(key),
            st.session_state.get(f"{key}:load", ""),
            asked=asked,
            is_waiting=job is not None and job.is_active,
        ),
    )
if side is not None:
    st.html(SIDE_CSS)
    with side, st.container(key="explore-side"):
        if panel == texts.CLUSTERS:
            group_panel.draw(layout, source, run_id, key)
        elif panel == texts.TYPES:
            type_panel.draw(layout, run_id, key)
        else:
            selection_panel.draw(layout, run_id, key)
