"""The card of a run on the Train screen."""

from __future__ import annotations

from pathlib import Path

from mapped_parts import RUN, mapped_project
from streamlit.testing.v1 import AppTest

from pu_geo.project.layout import Layout

SCRIPT = """
from pathlib import Path
from pu_geo.project.layout import Layout
from pu_geo.services import training
from pu_geo.ui import run_card_panel
layout = Layout(Path({folder!r}))
run_card_panel.draw(layout, training.all_runs(layout))
"""


def shown(layout: Layout) -> AppTest:
    return AppTest.from_string(SCRIPT.format(folder=str(layout.folder)), default_timeout=20).run()


def test_nothing_is_drawn_before_there_are_runs(project: Layout) -> None:
    app = shown(project)
    assert not app.exception
    assert not app.expander


def test_the_card_is_read_only_once_it_is_asked_for(tmp_path: Path) -> None:
    app = shown(mapped_project(tmp_path)[0])
    assert not app.exception
    assert not app.selectbox
    app.toggle(key="run-card-open").set_value(True).run()
    assert not app.exception
    (option,) = app.selectbox(key="run-card-run").options
    assert option == f"Instant ranker · 2026-01-01 00:00 · {RUN}"
    assert "##### Judgement without negatives" in app.markdown[0].value
    assert [button.proto.label for button in app.get("download_button")] == [
        "Download HTML",
        "Download Markdown",
        "Download JSON",
    ]


def test_a_run_whose_files_are_gone_is_told_of(tmp_path: Path) -> None:
    layout, _ = mapped_project(tmp_path)
    app = shown(layout)
    for path in layout.run(RUN).iterdir():
        path.unlink()
    app.toggle(key="run-card-open").set_value(True).run()
    assert not app.exception
    assert "has lost its file" in app.error[0].value
