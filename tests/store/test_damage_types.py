"""Grades of buildings and their scale; types of damage that a run may learn from answers or grades."""

from dataclasses import replace

import numpy as np
import pytest
from small_parts import click

from pu_geo.errors import ProjectError, TrainingError
from pu_geo.records import MAX_GRADE, LabelOp, PUSet
from pu_geo.store import choices, damage_types, grades, labels, store
from pu_geo.store.damage_types import DamageTypes, Tally, rarest_of_each
from pu_geo.store.grades import USUAL, Grade
from pu_geo.store.labels import Ack
from pu_geo.store.layout import Layout


def read(layout: Layout, source: str, *, without: tuple[int, ...] = (), at_choice: int | None = None) -> DamageTypes:
    with store.connect(layout) as db:
        return damage_types.read(db, learned(layout, *without), source, at_choice=at_choice)


def learned(layout: Layout, *held_out: int) -> PUSet:
    with store.connect(layout) as db:
        pu = labels.pu_set(db)
    return pu.without(np.isin(np.arange(len(pu.building_ids)), held_out))


def rows(found: DamageTypes, *numbers: int) -> list[list[int]]:
    assert found.labels is not None
    assert found.labels.dtype == np.int8
    return found.labels[list(numbers)].tolist()


def test_yes_no_and_nobody_said_are_three_things(project: Layout) -> None:
    click(project, "b0", damage_types=["roof", "flooded"])
    click(project, "b1", damage_types=["roof"], absent_types=["flooded"])
    click(project, "b2", damage_types=["flooded"])
    click(project, "b3", "b4")
    click(project, "b5", absent_types=["roof"])
    click(project, "b6", label="not_damaged")
    click(project, "b7", label="not_assessable")
    found = read(project, "answers")
    assert (found.names, found.is_ordinal, found.n_several, found.notes) == (("flooded", "roof"), False, 1, ())
    assert rows(found, *range(9)) == [[1, 1], [0, 1], [1, -1], [-1, -1], [-1, -1], [-1, 0], [0, 0], [-1, -1], [-1, -1]]
    assert found.kinds == {0: "flooded", 2: "flooded"}


def test_a_type_of_one_building_is_left_out_and_named(project: Layout) -> None:
    click(project, "b0", "b1", damage_types=["roof"], absent_types=["tent"])
    click(project, "b2", damage_types=["tarp"])
    found = read(project, "answers")
    assert found.names == ("roof",)
    assert rows(found, 0, 1, 2) == [[1], [1], [-1]]
    (note,) = found.notes
    assert "fewer than 2" in note
    assert "tarp (1), tent (0)" in note
    with pytest.raises(TrainingError, match="2 or more of the damaged buildings") as caught:
        read(project, "answers", without=(0,))
    assert "given were roof (1), tarp (1), tent (0)" in caught.value.problem


def test_held_out_clicks_and_answers_of_audits_give_no_types(project: Layout) -> None:
    click(project, "b0", "b1", "b2", damage_types=["roof"])
    click(project, "b3", damage_types=["walls"])
    audited = {"shown": "audit", "inclusion": 0.5}
    click(project, "b4", "b5", damage_types=["flooded"], **audited)
    click(project, "b3", damage_types=["roof"], absent_types=["walls"], **audited)  # it was clicked before
    found = read(project, "answers", without=(2,))
    assert found.names == ("roof",)
    assert rows(found, *range(6)) == [[1], [1], [-1], [-1], [-1], [-1]]
    assert found.kinds == {0: "roof", 1: "roof"}


def test_grades_are_a_scale_of_which_each_has_all_before_it(project: Layout) -> None:
    for building, grade in {"b0": "minor", "b1": "major", "b2": "major", "b3": "destroyed", "b4": "destroyed"}.items():
        click(project, building, grade=grade)
    click(project, "b5")
    click(project, "b6", label="not_damaged")
    found = read(project, "grades")
    assert (found.names, found.is_ordinal) == (("at least Minor", "at least Major", "at least Destroyed"), True)
    assert found.grades == ("minor", "major", "destroyed")
    assert rows(found, *range(8)) == [
        [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1], [1, -1, -1], [0, 0, 0], [-1, -1, -1]
    ]  # fmt: skip
    assert found.kinds == {1: "Major", 2: "Major", 3: "Destroyed", 4: "Destroyed"}
    (note,) = found.notes
    assert note.startswith("1 damaged building was learned without a grade")
    fewer = read(project, "grades", without=(3,))
    assert fewer.names == ("at least Minor", "at least Major")
    assert fewer.grades == ("minor", "major")
    assert "at least Destroyed (1)" in fewer.notes[0]


def test_a_grade_off_the_scale_counts_as_none_but_for_who_began_with_it(project: Layout) -> None:
    click(project, "b0", "b1", grade="major")
    click(project, "b2", "b3", grade="destroyed")
    with store.connect(project) as db:
        before = choices.last_choice(db)
        grades.put(db, [Grade("destroyed", "Gone", "destroyed"), Grade("", "Bent", "minor")])
    now, then = read(project, "grades"), read(project, "grades", at_choice=before)
    assert now.names == ("at least Bent", "at least Gone")
    assert rows(now, 0, 2) == [[1, -1], [1, 1]]
    assert "2 of them graded by a grade that is not on the scale" in now.notes[0]
    assert then.names == ("at least Minor", "at least Major", "at least Destroyed")


def test_without_any_type_or_grade_nothing_is_learned(project: Layout) -> None:
    click(project, "b0", "b1")
    for source, words in (("answers", "No damage type"), ("grades", "No grade"), ("fcode", "cannot come from 'fcode'")):
        with pytest.raises(TrainingError, match=words):
            read(project, source)


def test_counts_name_every_type_and_count_the_damaged_alone(project: Layout) -> None:
    click(project, "b0", "b1", damage_types=["roof"], absent_types=["tent"], grade="minor")
    click(project, "b2", damage_types=["tarp"], absent_types=["roof"], grade="major")
    click(project, "b3", label="not_damaged")
    with store.connect(project) as db:
        found = damage_types.tally(db, learned(project))
    assert found["answers"] == [Tally("roof", 2, 1), Tally("tarp", 1, 0), Tally("tent", 0, 2)]
    grade_counts = {"at least Minor": (3, 0), "at least Major": (1, 2), "at least Destroyed": (0, 3)}
    assert found["grades"] == [Tally(name, *counts) for name, counts in grade_counts.items()]


def test_the_rarest_type_of_each_keeps_the_rare_ones_and_no_type_below_the_fewest() -> None:
    many = {row: ["roof"] for row in range(5)}
    few = {5: ["roof", "mud"], 6: ["mud", "roof"]}
    assert rarest_of_each(many | few, 2) == dict.fromkeys(range(5), "roof") | {5: "mud", 6: "mud"}
    # All who have "mud" have "roof", too: what is left for roof are two, fewer than three. So roof is no kind of its own.
    both = {0: ["roof"], 1: ["roof"], 2: ["mud", "roof"], 3: ["mud", "roof"], 4: ["roof", "mud"]}
    assert rarest_of_each(both, 3) == {2: "mud", 3: "mud", 4: "mud"}
    assert rarest_of_each({0: [], 1: ["tent"]}, 2) == {}


def give(layout: Layout, op: str, building: str = "b0", **details: object) -> Ack:
    operation = LabelOp(op, building, **{"label": "positive", **details})  # type: ignore[arg-type]
    with store.connect(layout) as db:
        return labels.append(db, [operation], analyst="ann", screen="map")[0]


def now(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return {building: event.grade for building, event in labels.current(db).items()}


def test_only_a_damaged_building_has_a_grade_and_only_one_of_the_scale(project: Layout) -> None:
    for label in ("not_damaged", "not_assessable", "cleared"):
        assert "how badly" in str(give(project, f"c-{label}", label=label, grade="major").error)
    for grade, words in (("Destoyed", "'Destoyed' is not one of"), ("x" * (MAX_GRADE + 1), "at most 40"), (4, "at most 40")):
        assert words in str(give(project, f"c-{grade}", grade=grade).error)
    assert give(project, "map", grade="possible").error is None, "damage maps have it, also where the scale has not"
    assert now(project) == {"b0": "possible"}


def test_a_renamed_or_moved_grade_keeps_its_buildings(project: Layout) -> None:
    give(project, "a", "b0", grade="destroyed")
    give(project, "b", "b1", grade="minor")
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
    assert give(project, "c", "b2", grade="total LOSS").error is None
    assert now(project)["b2"] == "destroyed"


def test_a_grade_off_the_scale_stays_known_and_comes_back_under_its_name(project: Layout) -> None:
    with store.connect(project) as db:
        grades.put(db, [*USUAL, Grade("", "Roof gone", "major")])
    give(project, "a", grade="Roof gone")
    with store.connect(project) as db:
        grades.put(db, USUAL)
        assert "roof-gone" not in [one.id for one in grades.scale(db)]
        assert grades.class_of(grades.known(db), "roof-gone") == "major"
    assert give(project, "late", "b3", grade="roof-gone").error is None, "a click that was on its way is not lost"
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
