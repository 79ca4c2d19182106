"""The scale of grades on the Annotate screen: rename, add, move, take off; what was given stays given."""

from __future__ import annotations

from app_parts import press
from streamlit.testing.v1 import AppTest

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp
from pu_geo.services.annotate import labeling

SCRIPT = """
from pathlib import Path
import streamlit as st
from pu_geo.project.layout import Layout
from pu_geo.ui.annotate import grade_panel
grade_panel.draw(Layout(Path({folder!r})), st.container())
"""


def shown(layout: Layout) -> AppTest:
    app = AppTest.from_string(SCRIPT.format(folder=str(layout.folder)), default_timeout=20).run()
    assert not app.exception
    return app


def scale(layout: Layout) -> list[tuple[str, str, str]]:
    return [(one.id, one.name, one.damage_class) for one in labeling.known_grades(layout) if one.is_offered]


def test_a_scale_is_renamed_extended_and_put_in_another_order(project: Layout) -> None:
    with store.connect(project) as db:
        labels.append(db, [LabelOp("a", "b0", "positive", grade="destroyed")], analyst="ann", screen="map")
    app = shown(project)
    app.text_input("grade-name-destroyed").set_value("Total loss")
    app.text_input("grade-name-").set_value("Roof gone")
    app.selectbox("grade-class-").set_value("major")
    app.selectbox("grade-key-").set_value("4")
    app.selectbox("grade-key-destroyed").set_value("5")
    app.selectbox("grade-key-major").set_value("6")
    app.selectbox("grade-key-minor").set_value("off")
    app = press(app, "Save the scale")
    assert not app.error
    assert scale(project) == [
        ("roof-gone", "Roof gone", "major"), ("destroyed", "Total loss", "destroyed"), ("major", "Major", "major"),
    ]  # fmt: skip
    assert labeling.graded(project) == {"b0": "Total loss"}
    assert [app.selectbox(f"grade-key-{id}").value for id in ("roof-gone", "destroyed", "major")] == ["4", "5", "6"]
    assert app.text_input("grade-name-").value == ""


def test_a_scale_that_cannot_be_is_refused_in_words_and_nothing_changes(project: Layout) -> None:
    before = scale(project)
    app = shown(project)
    app.text_input("grade-name-minor").set_value("major")
    app = press(app, "Save the scale")
    assert "each occurs once" in app.error[0].value
    assert scale(project) == before


def test_six_grades_leave_no_row_for_a_seventh(project: Layout) -> None:
    for name in ("One", "Two", "Three"):
        app = shown(project)
        app.text_input("grade-name-").set_value(name)
        press(app, "Save the scale")
    app = shown(project)
    assert len(scale(project)) == 6
    assert "grade-name-" not in [each.key for each in app.text_input]
    assert not press(app, "Save the scale").error
