"""Train: choose a method, start it in the background, watch it, compare what came of it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pu_geo.services.train import training
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import feature_panel, live_panel, method_cards, model_panel, runs_panel

layout = frame.needs_project()
frame.title_bar(
    "Train", "Learn from the positives and the unlabeled, in the background. Closing this tab does not stop a training."
)

data, found = training.data_summary(layout), training.all_runs(layout)
for column, (label, value) in zip(
    st.columns(5),
    (
        ("Positives", data.n_positive),
        ("Held out, as proposed", data.n_held_out),
        ("Unlabeled", data.n_unlabeled),
        ("Not assessable", data.n_left_out),
        ("Runs", len(found)),
    ),
    strict=True,
):
    column.metric(label, f"{value:,}")
st.info(training.recommendation(), icon=":material/lightbulb:")

method_cards.draw(layout, data)
live_panel.draw_device_queue(layout)
job_card.watch(layout, training.TRAINING_TASKS, body=partial(live_panel.body, layout), most=3, with_log=True)

if found:
    st.markdown("#### Runs")
    pinned = training.pinned_run(layout)
    st.dataframe(
        [
            {
                "run": run.run_id,
                "method": run.method,
                "positives": run.n_positive,
                "seconds": run.seconds,
                "device": run.device,
                "made at": run.created_at[:16].replace("T", " "),
                "shown on the live map": run.run_id == pinned,
            }
            for run in found
        ],
        hide_index=True,
    )
    for run in (run for run in found if run is found[0] or run.run_id == pinned):
        if words := training.place_words(run):
            st.caption(f"{run.run_id}: {words}.")
    for run in found[:3]:
        for warning in run.warnings:
            st.warning(f"{run.run_id}: {warning}", icon=":material/warning:")
    runs_panel.draw_comparison(layout, found)
    runs_panel.draw_card(layout, found)
feature_panel.draw(layout)
model_panel.draw(layout)
if found:
    frame.link("explore", "Explore the embeddings")
    frame.link("damage_map", "Next: Damage map")
