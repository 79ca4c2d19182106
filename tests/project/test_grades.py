"""The scale of grades, and grades of buildings: given, changed, taken away, undone, renamed, and never lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pu_geo.errors import ProjectError
from pu_geo.project import grades, labels, store
from pu_geo.project.grades import USUAL, Grade
from pu_geo.project.layout import Layout
from pu_geo.records import MAX_GRADE, LabelOp


def click(layout: Layout, op: str, building: str = "b0", **details: object) -> labels.Ack:
    operation = LabelOp(op, building, **{"label": "positive", **details})  # type: ignore[arg-type]
    with store.connect(layout) as db:
        return labels.append(db, [operation], analyst="ann", screen="map")[0]


def now(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return {building: event.grade for building, event in labels.current(db).items()}


def test_only_a_damaged_building_has_a_grade_and_only_one_of_the_scale(project: Layout) -> None:
    for label in ("not_damaged", "not_assessable", "cleared"):
        assert "how badly" in str(click(project, f"c-{label}", label=label, grade="major").error)
    for grade, words in (("Destoyed", "'Destoyed' is not one of"), ("x" * (MAX_GRADE + 1), "at most 40"), (4, "at most 40")):
        assert words in str(click(project, f"c-{grade}", grade=grade).error)
    assert click(project, "map", grade="possible").error is None, "damage maps have it, also where the scale has not"
    assert now(project) == {"b0": "possible"}


def test_a_renamed_or_moved_grade_keeps_its_buildings(project: Layout) -> None:
    click(project, "a", "b0", grade="destroyed")
    click(project, "b", "b1", grade="minor")
    worst, middle, least = USUAL
    with store.connect(project) as db:
        grades.put(db, [least, replace(worst, name="Total loss"), Grade("", "Roof gone", "major"), middle])
        found = grades.known(db)
        assert [(one.id, one.name) for one in found if one.is_offered] == [
            ("minor", "Minor"), ("destroyed", "Total loss"), ("roof-gone", "Roof gone"), ("major", "Major"),
        ]  # fmt: skip
        events = labels.current(db)
        assert [grades.name_of(found, events[b].grade) for b in ("b0", "b1")] == ["Total loss", "Minor"]
        assert [grades.class_of(found, events[b].grade) for b in ("b0", "b1")] == ["destroyed", "minor"]
        assert [grades.same_as(found, name, "major") for name in ("MINOR", "Broken")] == ["minor", "roof-gone"]
        assert grades.same_as(found, "Broken", "none") == ""
    assert click(project, "c", "b2", grade="total LOSS").error is None
    assert now(project)["b2"] == "destroyed"


def test_a_grade_off_the_scale_stays_known_and_comes_back_under_its_name(project: Layout) -> None:
    with store.connect(project) as db:
        grades.put(db, [*USUAL, Grade("", "Roof gone", "major")])
    click(project, "a", grade="Roof gone")
    with store.connect(project) as db:
        grades.put(db, USUAL)
        assert "roof-gone" not in [one.id for one in grades.scale(db)]
        assert grades.class_of(grades.known(db), "roof-gone") == "major"
    assert click(project, "late", "b3", grade="roof-gone").error is None, "a click that was on its way is not lost"
    with store.connect(project) as db:
        made = grades.put(db, [*USUAL, Grade("", "roof GONE", "major")])
        assert made[-1].id == "roof-gone"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "would have 0 grades"),
        ([Grade("", f"g{k}", "minor") for k in range(7)], "would have 7 grades"),
        ([Grade("", " ", "minor")], "cannot be the name"),
        ([Grade("", "A", "minor"), Grade("", "a ", "major")], "each occurs once"),
        ([Grade("", "A", "total")], "class 'total'"),  # type: ignore[arg-type]
    ],
)
def test_a_scale_that_cannot_be_is_refused(project: Layout, wanted: list[Grade], words: str) -> None:
    with store.connect(project) as db:
        with pytest.raises(ProjectError, match=words):
            grades.put(db, wanted)
        assert grades.scale(db) == list(USUAL)
