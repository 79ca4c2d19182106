"""Annotate: click damaged buildings on the map or on the wall of chips; all buildings are ranked anew after each click."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from pu_geo.services.annotate import labeling, queueing, ranking
from pu_geo.services.damage_map import auditing
from pu_geo.services.imagery import features, preparation
from pu_geo.services.project import projects
from pu_geo.ui import frame
from pu_geo.ui.annotate import queue_panel
from pu_geo.ui.components import job_card
from pu_geo.ui.components.project_view import project_view

layout = frame.needs_project()
bar = frame.title_bar(
    "Annotate",
    "Click the buildings that are damaged. Click again to clear. Right click or 2: not damaged. 3: not assessable. "
    "Ctrl+Z undoes. Nobody has to mark undamaged ones.",
)

summary = projects.summary(layout)
if not summary.n_chips:
    job_card.watch(layout, preparation.IMAGERY_TASKS)
if not (summary.n_post and summary.n_buildings):
    st.info("There is nothing to click yet: this project needs a post-event scene and footprints.")
    frame.link("imagery", "Add imagery")
    st.stop()

event = labeling.newest_event(layout)
labels = labeling.current_labels(layout)
ranked_now = ranking.rank_now(layout) if summary.n_chips else None
if summary.n_chips and ranked_now is None:
    ranking.warm_up(layout)

if summary.n_chips and (note := features.note(layout)):
    st.warning(frame.plain(note), icon=":material/warning:")

analyst = frame.analyst()
view = queue_panel.draw(layout, analyst, bar) if summary.n_chips else None
shows_team = bar.toggle("Analysts", key="shows-team", help="Who labeled how much, and where two answers differ.")
with bar:
    frame.link("train", "Next: Train")
team = labeling.team(layout) if shows_team else None

project_view(
    layout,
    key="annotate",
    labels=labels,
    mode="label",
    panes=("map", "wall") if summary.n_chips else ("map",),
    score_id=ranked_now.score_id if ranked_now and view and not view.is_blind else None,
    queue=view and view.queue,
    types=labeling.damage_types(layout),
    details=labeling.label_details(layout),
    conflicts=list(team.conflicts) if team else None,
    on_queue=view and view.advance,
    event=event,
)


def progress() -> None:
    """Draw how many are damaged by what is known, and how the search went."""
    if not summary.n_chips:
        return
    estimate = auditing.how_many(layout)
    words, more = st.columns([6, 1], vertical_alignment="center")
    words.caption(f"**How far?** {frame.plain(estimate.words)}")
    if not more.toggle("Curve", key="shows-curve", help="Damaged buildings found, by answers."):
        return
    answers, found = queueing.found_so_far(layout)
    figure = go.Figure(go.Scatter(x=answers, y=found, line_color="#D55E00", name="damaged"))
    if estimate.total.low is not None and estimate.total.high is not None:
        figure.add_hrect(y0=estimate.total.low, y1=estimate.total.high, fillcolor="#0B6E99", opacity=0.12, line_width=0)
    figure.update_layout(
        height=200, margin={"l": 0, "r": 0, "t": 8, "b": 0}, xaxis_title="answers", yaxis_title="damaged found",
    )  # fmt: skip
    st.plotly_chart(figure, key="found-so-far", config={"displaylogo": False})


progress()
if team:
    st.dataframe(team.rows, hide_index=True)
    if team.agreement is not None:
        st.caption(f"{team.n_shared} buildings were answered by two or more; on {team.agreement:.0%} of them all agree.")
    for building, answers in list(team.conflicts.items())[:20]:
        st.caption(f":orange[{frame.plain(building)}] · {frame.plain(answers)}")
