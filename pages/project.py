"""Project: start one, open one, or try the sample event."""

from __future__ import annotations

from pu_geo.ui import frame
from pu_geo.ui.project import project_panel, safety_panel, texts

layout = frame.whole()
action = frame.title_bar(texts.TITLE, texts.PURPOSE)
safety_panel.news()
if layout is not None:
    project_panel.open_project(layout, action)
project_panel.choices(layout)
if layout is not None:
    project_panel.removed(layout)
    project_panel.next_round(layout)
    safety_panel.draw(layout)
