"""What the analyst clicks in a project's view is stored with all that was said."""

from __future__ import annotations

import pytest

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.ui.annotate.operations import Operation
from pu_geo.ui.components import project_view


@pytest.fixture
def session_state(monkeypatch: pytest.MonkeyPatch) -> dict:
    state: dict = {"analyst_name": "ann"}
    monkeypatch.setattr(project_view.st, "session_state", state)
    monkeypatch.setattr(project_view, "analyst", lambda: "ann")
    return state


def current(layout: Layout) -> dict:
    with store.connect(layout) as db:
        return labels.current(db)


def test_details_are_stored(project: Layout, session_state: dict) -> None:
    keep = project_view._storer(project, None, None)
    keep([
        Operation("o-1", "set", "b1", "positive", "card", damage_types=("roof",), comment="<b>", shown="exploit", queue="q-1"),
        Operation("o-2", "set", "b2", "not_assessable", "queue", "act", reason="cloud"),
    ])  # fmt: skip
    first, second = current(project)["b1"], current(project)["b2"]
    assert (first.damage_types, first.comment, first.shown, first.screen) == (("roof",), "<b>", "exploit", "card")
    assert (second.reason, second.analyst) == ("cloud", "ann")
    assert session_state.get("refused_labels") is None


def test_an_audits_answer_carries_its_probability_and_is_not_lost_without_one(project: Layout, session_state: dict) -> None:
    answers = [
        Operation("o-1", "set", "b1", "positive", shown="audit", queue="q-1"),
        Operation("o-2", "set", "b2", "positive", shown="audit", queue="forgotten"),
    ]
    project_view._storer(project, None, lambda op: {"q-1": 0.25}.get(op.queue))(answers)
    first, second = current(project)["b1"], current(project)["b2"]
    assert (first.shown, first.inclusion) == ("audit", 0.25)
    assert (second.label, second.shown, second.inclusion) == ("positive", "", None)
    project_view._storer(project, None, None)([Operation("o-3", "set", "b3", "not_damaged", shown="audit", queue="q-1")])
    assert current(project)["b3"].label == "not_damaged"
    assert session_state.get("refused_labels") is None


def test_a_queue_is_asked_for_once_its_answers_are_stored(project: Layout, session_state: dict) -> None:
    seen = []

    def another(op: Operation) -> None:
        seen.append((op.queue, op.skipped, sorted(current(project))))

    answers = [
        Operation("o-1", "set", "b1", "positive"),
        Operation("o-2", "queue", queue="q-1", skipped=("b4",)),
        Operation("o-3", "set", "b2", "positive"),
        Operation("o-4", "undo"),
    ]
    project_view._storer(project, another, None)(answers)
    assert seen == [("q-1", ("b4",), ["b1"])]


def test_a_wish_without_anybody_to_hear_it_is_acknowledged(project: Layout, session_state: dict) -> None:
    project_view._storer(project, None, None)([Operation("o-1", "queue", queue="q-1")])
    assert current(project) == {}
