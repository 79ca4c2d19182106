"""Imagery: the scene pair, the buildings on it, and one chip per building."""

from __future__ import annotations

import streamlit as st

from pu_geo.scenes import preparation, scene_pair
from pu_geo.ui import frame
from pu_geo.ui.imagery import imagery_panel, texts

layout = frame.needs_project()
action = frame.title_bar(texts.TITLE, texts.PURPOSE)
overview, outlines = preparation.overview(layout, with_units=True), preparation.outlines(layout)
pair = scene_pair.judge(layout, overview.chips)
step = scene_pair.next_step(layout, pair, overview.chips)
is_running = preparation.is_running(layout)
if overview.problem:
    st.error(frame.plain(overview.problem), icon=":material/error:")
with action:
    imagery_panel.main_action(layout, overview, pair, step, is_running)
imagery_panel.lost_files(layout, overview, is_running)
imagery_panel.verdict(layout, pair, overview)
imagery_panel.scenes(layout, overview, step, is_running)
imagery_panel.footprints(layout, overview, pair, outlines, step, is_running)
imagery_panel.chips(layout, overview, pair, step, is_running)
