"""Train: train the recommended method or a second opinion in the background, and see what came of it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pu_geo.jobs import tasks
from pu_geo.runs import training
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import live_panel, method_cards, runs_panel, texts

layout = frame.needs_project()
data, found = training.data_summary(layout), training.all_runs(layout)
with frame.title_bar(texts.TITLE, texts.PURPOSE):
    frame.link("research", texts.RESEARCH, help=texts.TO_RESEARCH)
    if found:
        frame.link("damage_map", texts.TO_MAP, is_main=True)
if not data.n_chips:
    job_card.watch(layout, "", only=lambda job: tasks.of(job.task).is_exclusive)
else:
    st.markdown(texts.data(data))
frame.warn_of_former(layout)
if (given := training.type_sources(layout)[0].counts) != training.NONE_SO_FAR:
    st.caption(texts.TYPES_GIVEN.format(counts=frame.plain(given)))
method_cards.draw_features(layout)
method_cards.draw(layout, data, "default")
if found:
    with frame.show_errors():
        runs_panel.draw_results(layout, found)
method_cards.draw(layout, data, "pu")
method_cards.draw_others(layout, "default", "pu")
job_card.details(layout, "methods", body=partial(live_panel.body, layout), most=3)
