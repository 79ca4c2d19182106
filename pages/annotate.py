"""Annotate: click damaged buildings on the map or on the wall of chips; all buildings are ranked anew after each click."""

from __future__ import annotations

import streamlit as st

from pu_geo.answers import labeling, ranking
from pu_geo.assessment import random_audits
from pu_geo.jobs import tasks
from pu_geo.lifecycle import projects
from pu_geo.scenes import features
from pu_geo.ui import frame
from pu_geo.ui.annotate import grade_panel, queue_panel, texts
from pu_geo.ui.components import job_card
from pu_geo.ui.components.project_view import project_view
from pu_geo.wording import when

layout = frame.needs_project()
bar = frame.title_bar(texts.TITLE, texts.PURPOSE)
state = queue_panel.place_of_state(bar)

summary = projects.summary(layout)
if not summary.n_chips:
    job_card.watch(layout, "", only=lambda job: tasks.of(job.task).is_exclusive)
if not (summary.n_post and summary.n_buildings):
    st.info(texts.NOTHING)
    frame.link("imagery", texts.ADD_IMAGERY)
    st.stop()

event = labeling.newest_event(layout)
is_ranking, ranked_now, view = False, None, None
has_chips = False
if summary.n_chips:
    with frame.show_errors():  # where files of the chips are lost, buildings are still clicked on the map
        is_ranking = ranking.is_ranking(layout, ranking.PATIENCE_S)
        ranked_now = None if is_ranking else ranking.rank_now(layout)
        frame.warn_of_former(layout)
        if note := features.note(layout):
            frame.warn(note)
        view = queue_panel.draw(layout, frame.analyst(), bar, is_ranking=is_ranking)
        has_chips = True
is_assessment = view is not None and view.is_assessment
if not is_assessment:
    if has_chips:
        queue_panel.progress(layout, bar)
    grade_panel.draw(layout, bar)
shows_team = bar.toggle(texts.ANALYSTS, key="shows-team", help=texts.ANALYSTS_HELP)
audit = random_audits.newest_audit(layout)
with bar:
    if audit and not audit.is_open:
        frame.link("damage_map", texts.SEE_RESULT, is_main=True)
    elif not is_assessment:
        frame.link("train", texts.NEXT_TRAIN, is_main=bool(summary.n_positive))
team = labeling.team(layout) if shows_team else None
with state:
    if is_ranking:
        queue_panel.wait_for_ranking(layout, summary.n_chips)
    elif ranked_now and not ranked_now.is_complete:
        queue_panel.wait_for_the_rest(layout, ranked_now.score_id)
    elif ranked_now and (silent := ranking.silent_sites(layout)):
        st.caption(texts.SILENT, help=frame.plain(silent))

project_view(
    layout,
    key="annotate",
    panes=("map", "wall") if has_chips and not is_assessment else ("map",),
    score_id=ranked_now.score_id if ranked_now and view and not is_assessment else None,
    queue=view and view.queue,
    is_assessment=is_assessment,
    types=labeling.damage_types(layout),
    conflicts=list(team.conflicts) if team else None,
    on_queue=view and view.advance,
    event=event,
)


if team:
    rows = [{**row, "last": when(str(row["last"]))} for row in team.rows]
    st.dataframe(rows, hide_index=True, column_config=texts.TEAM)
    if team.agreement is not None:
        st.caption(texts.agreement(team.n_shared, team.agreement))
    places = ranking.positions(layout)
    for building, answers in list(team.conflicts.items())[:20]:
        st.caption(texts.CONFLICT.format(number=places[building] + 1, answers=frame.plain(answers)))

if has_chips and ranked_now is None:  # last, as it competes with the page for the processor
    ranking.warm_up(layout)
