"""Train: choose a method, start it in the background, watch it."""

from __future__ import annotations

from dataclasses import fields

import plotly.graph_objects as go
import streamlit as st

from pu_geo.services import training
from pu_geo.ui import frame, job_card, model_panel, time_panel
from pu_geo.ui.job_card import JobView

CARDS_A_ROW = 3
layout = frame.needs_project()
frame.header(
    "Train", "Learn from the positives and the unlabeled, in the background. Closing this tab does not stop a training."
)

data, found, times = training.data_summary(layout), training.all_runs(layout), time_panel.Times(layout)
for column, (label, value) in zip(
    st.columns(4),
    (
        ("Positives", data.n_positive),
        ("Unlabeled", data.n_unlabeled),
        ("Not assessable", data.n_left_out),
        ("Runs", len(found)),
    ),
    strict=True,
):
    column.metric(label, f"{value:,}")
advice = training.recommendation(found)
if advice:
    st.info(advice, icon=":material/lightbulb:")


def curves(job: JobView) -> None:
    """Draw the loss, and where it is reported the share of buildings called damaged."""
    points = [point for point in job.curve if point.get("stage") in (None, "training")]
    if len(points) < 2:
        return
    epochs = [point["epoch"] for point in points]
    figure = go.Figure(go.Scatter(x=epochs, y=[point["loss"] for point in points], name="loss", line_color="#0B6E99"))
    shares = [point.get("share_positive") for point in points]
    if sum(share is not None for share in shares) > 1:
        figure.add_scatter(
            x=epochs, y=shares, name="share called damaged", yaxis="y2", line={"color": "#D55E00", "dash": "dot"}
        )
    figure.update_layout(
        height=240, margin={"l": 0, "r": 0, "t": 10, "b": 0}, xaxis_title="epoch", yaxis_title="loss",
        yaxis2={"overlaying": "y", "side": "right", "range": [0, 1], "dtick": 0.25, "tickformat": ".0%", "tickmode": "linear", "title": "share", "showgrid": False},
        legend={"orientation": "h", "y": 1.1},
    )  # fmt: skip
    st.plotly_chart(figure, key=f"curve-{job.job_id}", config={"displaylogo": False})
    if job.state == "done":
        st.caption(f"Run {job.result['run_id']} · {job.result['n_positive']} positives · {job.result['seconds']} s")


def settings_form(card: training.MethodCard, preset: str) -> dict[str, str]:
    """Draw a field for each setting of a method; return those that differ from the preset, as text."""
    chosen = training.settings_for(card.name, preset)
    changed = {}
    for item in fields(chosen):
        value, key = getattr(chosen, item.name), f"set-{card.name}-{preset}-{item.name}"
        meta = item.metadata
        words = meta.get("help")
        if meta.get("choices"):
            given = st.selectbox(item.name, meta["choices"], index=meta["choices"].index(value), help=words, key=key)
        elif isinstance(value, bool):
            given = st.checkbox(item.name, value, help=words, key=key)
        else:
            bounds = f" ({meta.get('min')} to {meta.get('max')})" if meta.get("max") is not None else ""
            given = st.text_input(item.name, str(value), help=f"{words}{bounds}", key=key)
        if str(given) != str(value):
            changed[item.name] = str(given)
    return changed


def draw_card(card: training.MethodCard) -> None:
    """Draw what a method is and needs, its form, and the button that starts it."""
    st.markdown(f"**{card.title}**")
    st.caption(card.summary)
    with st.expander("Details and settings"):
        st.caption(f"Source: {card.paper}  \nNeeds: {card.needs}  \nCannot: {card.cannot}")
        time_panel.figures(training.figures_of(card.name))
        preset = st.selectbox(
            "Preset", list(card.presets), key=f"preset-{card.name}", format_func=lambda name: times.preset_words(card, name)
        )
        seed = st.number_input("Seed", 0, 10_000, 0, key=f"seed-{card.name}")
        types_from = None
        if card.uses_types:
            types_from = st.selectbox(
                "Kind of damage", training.type_fields(layout), index=None, key=f"types-{card.name}",
                placeholder="one kind for all", help="Attribute of the footprints that names it; read for your positives alone.",
            )  # fmt: skip
        changed = settings_form(card, preset)
    times.tell(card, preset, changed)
    reason = training.why_not(layout, card.name)
    if reason:
        st.caption(f":orange[{reason}]")
    label = f"Train {card.title.split(' + PUPL')[0]}"
    if st.button(label, type="primary", disabled=reason is not None, key=f"start-{card.name}"):
        with frame.telling_errors():
            training.start(layout, card.name, preset=preset, seed=int(seed), overrides=changed, types_from=types_from)
            st.rerun()


for number, (heading, cards) in enumerate(training.cards_by_group().items()):
    if cards and (number == 0 or st.toggle(heading, key=f"group-{number}")):
        columns = st.columns(min(max(len(cards), 2), CARDS_A_ROW), gap="medium")
        for place, card in enumerate(cards):
            with columns[place % len(columns)].container(border=True):
                draw_card(card)

time_panel.machine(layout)
job_card.watch(layout, training.TRAINING_TASKS, body=curves, most=3)
model_panel.draw(layout)

if found:
    st.markdown("#### Runs")
    pinned = training.pinned_run(layout)
    st.dataframe(
        [
            {
                "run": run.run_id,
                "method": run.method,
                "positives": run.n_positive,
                "damaged share (estimate)": None if run.estimated_share is None else f"{run.estimated_share:.1%}",
                "seconds": run.seconds,
                "device": run.device,
                "made at": run.created_at[:16].replace("T", " "),
                "shown on the live map": run.run_id == pinned,
            }
            for run in found
        ],
        hide_index=True,
    )
    for run in found[:3]:
        for warning in run.warnings:
            st.warning(f"{run.run_id}: {warning}", icon=":material/warning:")
    frame.link("explore", "Explore the embeddings")
    frame.link("damage_map", "Next: Damage map")
