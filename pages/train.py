"""Train: choose a method, start it in the background, watch it, compare what came of it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pu_geo.runs import training
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import feature_panel, federation_panel, live_panel, method_cards, model_panel, runs_panel, texts

layout = frame.needs_project()
data, found = training.data_summary(layout), training.all_runs(layout)
with frame.title_bar(texts.TITLE, texts.PURPOSE):
    if found:
        frame.link("damage_map", texts.TO_MAP)
st.markdown(texts.data(data.n_positive, data.n_held_out, data.n_not_damaged, data.n_not_reviewed, data.n_left_out))
frame.warn_of_former(layout)
if (given := training.type_sources(layout)[0].counts) != training.NONE_SO_FAR:
    st.caption(texts.TYPES_GIVEN.format(counts=frame.plain(given)))
if found:
    with frame.show_errors():
        runs_panel.draw_results(layout, found)
st.markdown(f"**{texts.METHODS}** · :small[:gray[{training.recommendation()}]]")
method_cards.draw(layout, data)
job_card.details(layout, "methods", body=partial(live_panel.body, layout), most=3)
if found:
    with frame.show_errors():
        runs_panel.draw_comparison(layout, found)
    with frame.show_errors():
        runs_panel.draw_card(layout, found)
with frame.show_errors():
    feature_panel.draw(layout)
model_panel.draw(layout)
federation_panel.draw(layout)
