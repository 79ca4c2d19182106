"""Imagery: the scene pair, the buildings on it, and one chip per building."""

from __future__ import annotations

from pu_geo.services.imagery import preparation, scene_pair
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.imagery import imagery_panel

layout = frame.needs_project()
frame.title_bar(
    "Imagery",
    "Bring in the scenes from before and after the event and the building outlines, then cut one chip per building.",
)
overview, outlines = preparation.overview(layout), preparation.outlines(layout)
pair = scene_pair.judge(layout, overview.chips)
imagery_panel.next_step(overview, pair)
is_running = job_card.watch(layout, preparation.IMAGERY_TASKS, body=imagery_panel.notes)
imagery_panel.verdict(pair, overview)
imagery_panel.scenes(layout, overview, is_running)
imagery_panel.buildings(layout, overview, outlines, is_running)
imagery_panel.chips(layout, overview, pair, is_running)
