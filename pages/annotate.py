"""Annotate: click damaged buildings on the map or on the wall of chips; all buildings are ranked anew after each click."""

from __future__ import annotations

import streamlit as st

from pu_geo.services import imagery, labeling, projects
from pu_geo.ui import frame, job_card
from pu_geo.ui.project_view import project_view

layout = frame.needs_project()
frame.header(
    "Annotate",
    "Click the buildings that are damaged. Click again to clear. Right click or 2: not damaged. 3: not assessable. "
    "Ctrl+Z undoes. Nobody has to mark undamaged ones.",
)
with frame.telling_errors():
    if "refused_labels" in st.session_state:
        raise st.session_state.pop("refused_labels")

summary = projects.summary(layout)
if not summary.n_chips:
    job_card.watch(layout, imagery.IMAGERY_TASKS)
if not (summary.n_post and summary.n_buildings):
    st.info("There is nothing to click yet: this project needs a post-event scene and footprints.")
    frame.link("imagery", "Add imagery")
    st.stop()

labels = labeling.current_labels(layout)
ranking = labeling.rank_now(layout) if summary.n_chips else None

facts, onward = st.columns([6, 2], vertical_alignment="center")
ranked = f"ranked in {ranking.seconds:.2f} s" if ranking else "not ranked yet" if summary.n_chips else "chips not cut yet"
facts.markdown(  # one line whatever is said: a second one would move the map under the analyst's pointer
    f"**{summary.n_positive}** positives · **{summary.n_not_damaged}** not damaged · "
    f"**{summary.n_not_assessable}** not assessable · {ranked}"
)
with onward:
    frame.link("train", "Next: Train")

project_view(
    layout,
    key="annotate",
    labels=labels,
    mode="label",
    panes=("map", "wall") if summary.n_chips else ("map",),
    score_id=ranking.score_id if ranking else None,
    height=660,
)
