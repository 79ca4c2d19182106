"""The part of the Train screen that hands models on and takes them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_parts import trained, with_chips
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project.layout import Layout

SCRIPT = """
from pathlib import Path
from pu_geo.project.layout import Layout
from pu_geo.ui.train import model_panel
model_panel.draw(Layout(Path({folder!r})))
"""


def shown(layout: Layout) -> AppTest:
    return AppTest.from_string(SCRIPT.format(folder=str(layout.folder)), default_timeout=20).run()


def test_a_project_without_a_model_says_where_one_comes_from(project: Layout) -> None:
    app = shown(project)
    assert not app.exception
    assert "No run has a model yet" in "\n".join(caption.value for caption in app.caption)
    assert app.button(key="apply-model").disabled


@pytest.mark.slow
def test_a_run_with_a_model_can_be_chosen(project: Layout) -> None:
    run_id = trained(with_chips(project), "linear")
    app = shown(project)
    assert not app.exception
    (option,) = app.selectbox(key="export-model-run").options
    assert option.startswith("Linear ranking · ")
    assert option.endswith(run_id)


def test_a_file_that_is_no_model_is_refused_in_words(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"\x80\x04hello")
    app = shown(project)
    app.text_input(key="model-path").input(str(tmp_path / "m.zip")).run()
    app.button(key="apply-model").click().run()
    assert not app.exception
    assert "is a Python pickle" in app.error[0].value
    assert not jobs.all_jobs(project)
