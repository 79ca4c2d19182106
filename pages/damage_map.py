"""Damage map: see the scores on the map, audit them, choose a threshold, summarise by area, export versions."""

from __future__ import annotations

import streamlit as st

from pu_geo.maps import thresholds
from pu_geo.runs import training
from pu_geo.store import chosen
from pu_geo.ui import frame
from pu_geo.ui.components.damage_view import Flagging
from pu_geo.ui.components.project_view import project_view
from pu_geo.ui.damage_map import area_panel, audit_panel, export_panel, texts, threshold_panel, type_panel

layout = frame.needs_project()
action = frame.title_bar(texts.TITLE, texts.PURPOSE)
runs = training.all_runs(layout)
if not runs:
    st.info(texts.NO_RUN)
    frame.link("train", texts.TRAIN_ONE)
    st.stop()

with action:
    run_id, shown = threshold_panel.draw(layout, runs)
frame.warn_of_former(layout, shown.chip_set)
if shown.n_later:
    st.caption(texts.LATER.format(n=shown.n_later))
threshold_panel.newer(layout, runs, run_id)
export_panel.draw_action(action, run_id, shown)
if (wanted := st.session_state.pop("damage-tab", None)) is not None:
    st.session_state["damage-tabs"] = wanted
types = shown.types
if words := type_panel.note(layout, runs, types):
    frame.caption(words)
names = texts.tabs(has_types=bool(types.types))
tab = dict(zip(names, st.tabs(names, key="damage-tabs", on_change="rerun"), strict=True))
with tab[texts.TAB_MAP]:  # drawn always: a map that was taken off the page would have to be loaded anew
    flagging = Flagging(
        basis=chosen.basis_words(shown.limit.origin),
        on_top=lambda k: frame.does(lambda: thresholds.choose_top(layout, run_id, k))(),
        on_color=lambda by: frame.does(lambda: chosen.choose_setting(layout, "map_color", by))(),
        types=types,
    )
    project_view(
        layout,
        key="damage_map",
        score_id=run_id,
        run_id=run_id,
        threshold=shown.limit.value,
        color_by=type_panel.color_of(chosen.setting(layout, "map_color"), types),
        flagging=flagging,
    )
if types.types and tab[texts.TAB_TYPES].open:
    with tab[texts.TAB_TYPES]:
        type_panel.draw(run_id, shown)
if tab[texts.TAB_AUDIT].open:
    with tab[texts.TAB_AUDIT]:
        audit_panel.draw(run_id, shown)
if tab[texts.TAB_AREAS].open:
    with tab[texts.TAB_AREAS]:
        area_panel.draw(layout, run_id, shown.limit.value)
if tab[texts.TAB_EXPORT].open:
    with tab[texts.TAB_EXPORT]:
        export_panel.draw(layout)
