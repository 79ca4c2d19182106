"""Panels of the Annotate screen: the scale of grades, and how many are ranked so far."""

from typing import Any

import pytest
from app_parts import press, show_panel
from streamlit.testing.v1 import AppTest

from pu_geo.answers import labeling, ranking
from pu_geo.answers.ranking import LiveRanking
from pu_geo.records import LabelOp
from pu_geo.store import labels, store
from pu_geo.store.grades import USUAL, Grade
from pu_geo.store.layout import Layout


def shown(layout: Layout) -> AppTest:
    return show_panel("annotate.grade_panel", layout, "draw(layout, st.container())")


def field(app: AppTest, what: str, grade: str) -> Any:
    """Return the field "key", "name" or "class" of a grade; "" is the empty row."""
    return next(one for one in (*app.text_input, *app.selectbox) if str(one.key).startswith(f"grade-{what}-{grade}-"))


def scale(layout: Layout) -> list[tuple[str, str, str]]:
    return [(one.id, one.name, one.damage_class) for one in labeling.known_grades(layout) if one.is_offered]


def test_a_scale_is_renamed_extended_and_put_in_another_order(project: Layout) -> None:
    with store.connect(project) as db:
        labels.append(db, [LabelOp("a", "b0", "positive", grade="destroyed")], analyst="ann", screen="map")
    app = shown(project)
    field(app, "name", "destroyed").set_value("Total loss")
    field(app, "name", "").set_value("Roof gone")
    field(app, "class", "").set_value("major")
    field(app, "key", "").set_value("4")
    field(app, "key", "destroyed").set_value("5")
    field(app, "key", "major").set_value("6")
    field(app, "key", "minor").set_value("off")
    app = press(app, "Save the scale")
    assert not app.error
    assert scale(project) == [
        ("roof-gone", "Roof gone", "major"), ("destroyed", "Total loss", "destroyed"), ("major", "Major", "major"),
    ]  # fmt: skip
    assert labeling.graded(project) == {"b0": "Total loss"}
    assert [field(app, "key", id).value for id in ("roof-gone", "destroyed", "major")] == ["4", "5", "6"]
    assert field(app, "name", "").value == ""


def test_a_scale_that_cannot_be_is_refused_and_six_grades_leave_no_row_for_a_seventh(project: Layout) -> None:
    before = scale(project)
    app = shown(project)
    field(app, "name", "minor").set_value("major")
    app = press(app, "Save the scale")
    assert "each occurs once" in app.error[0].value
    assert scale(project) == before
    labeling.choose_grades(project, [Grade("destroyed", "Total loss", "major"), *USUAL[1:]])
    for name in ("One", "Two", "Three"):
        app = shown(project)
        field(app, "name", "").set_value(name)
        press(app, "Save the scale")
    assert scale(project)[0] == ("destroyed", "Total loss", "major"), "as it was changed elsewhere"
    app = shown(project)
    assert len(scale(project)) == 6
    assert not [each.key for each in app.text_input if str(each.key).startswith("grade-name--")]
    assert not press(app, "Save the scale").error


def test_the_screen_says_how_many_are_ranked_so_far(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for found, words in (
        (LiveRanking("live-a-1-50000", 0.0, 50_000, 1_000_000), "50,000 of 1,000,000"),
        (LiveRanking("live-a-1-5", 0.0, 5, 9, "MemoryError"), "interrupted (MemoryError)"),
        (None, "Ranked in part"),
    ):
        monkeypatch.setattr(ranking, "so_far", lambda layout, score_id, found=found: found)
        drawn = show_panel("annotate.queue_panel", project, "wait_for_the_rest(layout, 'live-a-1')")
        assert words in drawn.caption[0].value
