"""Damage types of a map: people's answers win, thresholds only rank, too few answers judge nothing, an audit counts what it heard."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mapped_parts import RUN, TRUTH, N, answer_audit, say
from small_parts import click, facts_of
from typed_parts import COLUMNS, HAS, TYPED, TYPES, add_typed_run, name_types, typed_project

from pu_geo.answers.labeling import current_labels, label_all
from pu_geo.errors import ProjectError
from pu_geo.maps import damage_map, damage_types, thresholds
from pu_geo.store import choices as log
from pu_geo.store import grades, labels, runs, store
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout

DAMAGED = np.flatnonzero(TRUTH).tolist()
CLICKED = [row for row in DAMAGED if row > 1][:25]
LIMIT = 0.3
pytestmark = pytest.mark.usefixtures("same_draws")


@pytest.fixture
def typed(tmp_path: Path) -> Layout:
    return typed_project(tmp_path)


def on_map(layout: Layout, run_id: str, limit: float) -> damage_types.TypesOnMap:
    return damage_map.of_run(layout, run_id, limit).types


def audits(layout: Layout) -> dict[str, damage_types.TypeAudit]:
    return damage_map.of_run(layout, TYPED, LIMIT).type_audits


def flagged_of(layout: Layout, kind: str = "flagged") -> list[str]:
    found = damage_map.of_run(layout, TYPED, LIMIT)
    return [one for one, own in zip(found.population.ids, found.classes, strict=True) if own == kind]


def state_of(found: damage_types.TypesOnMap, building: str, k: int = 0) -> str:
    return found.types[k].states[found.ids.index(building)]


def test_scores_that_do_not_fit_the_types_are_refused(typed: Layout) -> None:
    add = {"scores": np.zeros((N, 3), np.float32)}
    with store.connect(typed) as db:
        db.execute("DELETE FROM run WHERE run_id = ?", (TYPED,))
    add_typed_run(typed, **add)
    with pytest.raises(ProjectError, match="2 damage types"):
        on_map(typed, TYPED, LIMIT)


def test_columns_are_safe_and_unique() -> None:
    names = ["Roof", "roof", "roof score", "=cmd|x", "../..", "a" * 60, "洪水", "ROOF!"]
    found = damage_types.columns_of(names)
    every = [*found, *(f"{one}_score" for one in found)]
    assert len(set(every)) == 2 * len(names)
    assert all(one.replace("_", "").isalnum() and one.isascii() and one == one.lower() and len(one) < 60 for one in every)
    assert damage_types.columns_of(TYPES) == list(COLUMNS)
    assert damage_types.columns_of(["roof score", "roof"]) == ["type_roof_score", "type_roof_2"]


def test_few_answers_judge_nothing_and_only_people_are_heard(typed: Layout) -> None:
    name_types(typed, CLICKED[:6])
    assert damage_types.columns(on_map(typed, RUN, LIMIT)) == {}, "it has none"
    found = on_map(typed, TYPED, LIMIT)
    (roof, _) = found.types
    assert roof.threshold is None
    assert set(roof.states) == {"yes", "no", "unknown"}
    assert roof.n_by_score == 0
    named = next(row for row in CLICKED[:6] if HAS[row, 0])
    assert state_of(found, f"b{named}") == "yes"
    flagged = flagged_of(typed)[0]
    assert state_of(found, flagged) == "unknown"
    assert audits(typed) == {}
    answer_audit(typed, 12, run_id=TYPED)
    for judged in audits(typed).values():
        assert (judged.precision.value, judged.recall.value) == (None, None)


def test_to_start_from_a_type_has_the_share_that_answers_give_it(typed: Layout) -> None:
    name_types(typed, CLICKED)
    roof = on_map(typed, TYPED, LIMIT).types[0]
    typed_rows = [row for row in CLICKED if HAS[row].any()]
    share = sum(HAS[row, 0] for row in CLICKED) / len(typed_rows)
    assert (roof.n_named, roof.n_typed) == (sum(HAS[row, 0] for row in CLICKED), len(typed_rows))
    assert roof.n_by_score == round(share * roof.n_undecided)
    assert roof.threshold.origin == f"start:{roof.n_by_score}"
    above = roof.scores[roof.is_undecided] >= roof.threshold.value
    assert int(above.sum()) == roof.n_by_score
    found = on_map(typed, TYPED, LIMIT)
    both = [a == b == "yes" for a, b in zip(found.types[0].states, found.types[1].states, strict=True)]
    assert sum(both) >= sum(HAS[row].all() for row in CLICKED) > 0, "a building may have several types"
    answer_audit(typed, 120, run_id=TYPED)
    audited = on_map(typed, TYPED, LIMIT).types
    assert [one.threshold for one in audited] == [one.threshold for one in found.types], "an audit judges, and moves nothing"
    assert audited[0].n_undecided < roof.n_undecided


def test_people_win_over_scores(typed: Layout) -> None:
    name_types(typed, CLICKED)
    damage_types.choose_threshold(typed, TYPED, "roof", 0.0)
    flagged, not_flagged = flagged_of(typed), flagged_of(typed, "not_flagged")
    say(typed, flagged[0], "not_damaged")
    say(typed, flagged[1], "not_assessable")
    say(typed, flagged[2], "positive")  # nothing of types: the score decides
    damage_types.choose_threshold(typed, TYPED, TYPES[1], 1.0)
    click(typed, flagged[3], damage_types=[TYPES[1]], absent_types=["roof"])
    found = on_map(typed, TYPED, LIMIT)
    assert [state_of(found, one) for one in flagged[:3]] == ["no", "unknown", "yes"]
    assert [state_of(found, flagged[3], k) for k in (0, 1)] == ["no", "yes"]
    assert found.types[0].n_ruled_out == 1
    assert {state_of(found, one) for one in not_flagged} == {"no"}, "a type flags nothing"
    assert state_of(found, "b0") == "unknown", "no data there"
    assert found.types[1].n_by_score == 0
    scores = damage_types.columns(found)["type_roof_score"]
    assert scores[found.ids.index(flagged[1])] is None
    assert all(value is None or 0 <= value <= 1 for value in scores)


def test_thresholds_are_kept_append_only_and_can_be_taken_back(typed: Layout) -> None:
    name_types(typed, CLICKED)
    start = on_map(typed, TYPED, LIMIT).types[0].threshold
    thresholds.choose_type_top(damage_map.of_run(typed, TYPED, LIMIT), "roof", 7)
    roof = on_map(typed, TYPED, LIMIT).types[0]
    assert (roof.n_by_score, roof.threshold.origin) == (7, "top:7")
    damage_types.choose_threshold(typed, TYPED, "roof", 0.4)
    assert on_map(typed, TYPED, LIMIT).types[0].threshold == log.Threshold(0.4, "person")
    damage_types.forget_threshold(typed, TYPED, "roof")
    assert on_map(typed, TYPED, LIMIT).types[0].threshold == start
    with store.connect(typed) as db:
        assert db.execute("SELECT count(*) FROM choice WHERE name LIKE 'type_threshold:%'").fetchone() == (3,)
        assert not log.type_thresholds(db, RUN)


def test_on_a_scale_who_reaches_a_grade_reaches_those_below(tmp_path: Path) -> None:
    names = ("at least Minor", "at least Major")
    layout = typed_project(tmp_path, types=names, types_from="grades", is_ordinal=True)
    before = on_map(layout, TYPED, LIMIT).types[0].words
    thresholds.choose_type_top(damage_map.of_run(layout, TYPED, LIMIT), "at least Major", 7)
    found = on_map(layout, TYPED, LIMIT)
    minor = found.types[0]
    assert (minor.threshold, minor.n_by_score, minor.n_above) == (None, 7, 0)
    (words, _) = damage_types.gaps(damage_map.of_run(layout, TYPED, LIMIT).type_facts)
    assert ["worse" in one for one in (before, minor.words, words)] == [False, True, True]
    click(layout, "b5", grade="destroyed")
    click(layout, "b6", grade="minor")
    click(layout, "b7")
    for name, limit in zip(names, (1.0, 0.0), strict=True):
        damage_types.choose_threshold(layout, TYPED, name, limit)
    codes = damage_types.answers_of(layout, facts_of(layout, TYPED), ["b5", "b6", "b7"])
    assert codes.tolist() == [[1, 1], [1, 0], [1, -1]]  # damaged and not graded: minor at least
    found = on_map(layout, TYPED, LIMIT)
    flagged = flagged_of(layout)[0]
    states = {building: [state_of(found, building, k) for k in (0, 1)] for building in (flagged, "b5", "b6", "b7")}
    assert states == {flagged: ["yes", "yes"], "b5": ["yes", "yes"], "b6": ["yes", "no"], "b7": ["yes", "yes"]}
    assert "scale" in found.rule


def test_a_grade_that_was_renamed_keeps_its_answers_on_older_runs(tmp_path: Path) -> None:
    names, ids = ("at least Minor", "at least Major"), ("scratched", "bent")
    layout = typed_project(tmp_path, types=names, types_from="grades", is_ordinal=True, type_grades=ids)
    gone, bent = Grade("gone", "Gone", "destroyed"), Grade("bent", "Major", "major")
    scratched = Grade("scratched", "Minor", "minor")

    def codes(*scale: Grade) -> list[list[int]]:
        store.call(layout, grades.put, scale)
        return damage_types.answers_of(layout, facts_of(layout, TYPED), ["b5", "b6"]).tolist()

    codes(gone, bent, scratched)
    click(layout, "b5", grade="gone")
    click(layout, "b6", grade="scratched")
    assert codes(gone, bent, scratched) == [[1, 1], [1, 0]]
    assert codes(gone, replace(bent, name="Minor"), replace(scratched, name="Major")) == [[1, 1], [1, 0]]
    assert codes(gone, scratched) == [[1, -1], [1, -1]], "a grade off the scale is not known"


# Audits


def test_the_audit_of_a_type_holds_the_truth_and_answers_without_a_word_widen_its_interval(tmp_path: Path) -> None:
    layout = typed_project(tmp_path)
    has_roof = HAS[:, 0]

    def name_types(rows: list[int]) -> None:
        """Answer anew with types, as part of the audit where the answer before was."""
        events = store.call(layout, labels.current)
        for row in rows:
            shown = {"shown": "audit", "inclusion": event.inclusion} if (event := events.get(f"b{row}")) else {}
            click(layout, f"b{row}", **{"damage_types" if has_roof[row] else "absent_types": ["roof"]}, **shown)

    damage_types.choose_threshold(layout, TYPED, "roof", 0.4)
    damage = np.asarray(runs.array(layout, TYPED, "scores")).round(4)[2:]
    roof = runs.written(np.asarray(runs.array(layout, TYPED, "type_scores")))[2:, 0]
    above, truth = (damage >= LIMIT) & (roof >= 0.4), (TRUTH & has_roof)[2:]
    wrong = (np.flatnonzero(above & ~TRUTH[2:])[:2] + 2).tolist()  # called not damaged before the audit
    missed = (np.flatnonzero(truth & ~above) + 2).tolist()
    assert wrong
    assert missed
    before = [*missed, *wrong]  # on the map as people answered them, whatever their scores
    name_types(missed)
    click(layout, *(f"b{row}" for row in wrong), label="not_damaged")
    n_checks = N - 2 - len(before) - 200
    answer_audit(layout, n_checks, run_id=TYPED)
    heard = [int(building[1:]) for building, event in store.call(layout, labels.current).items() if event.shown == "audit"]
    heard = [row for row in heard if TRUTH[row]]
    name_types([row for row in heard if row % 3])
    silent = audits(layout)["roof"]
    name_types([row for row in heard if row % 3 == 0])
    judged = audits(layout)["roof"]
    is_open = np.array([f"b{row}" not in current_labels(layout) for row in range(2, N)])
    flagged = above & is_open
    assert judged.precision.low <= truth[flagged].mean() <= judged.precision.high, "of what no person answered"
    assert judged.recall.low <= 1 - (truth & is_open & ~above).sum() / truth.sum() <= judged.recall.high
    assert (judged.n_checks, judged.n_silent) == (n_checks, 0)
    assert "found roof" in judged.recall.words or "found roof" in judged.precision.words
    assert json.loads(json.dumps(damage_map.of_run(layout, TYPED, LIMIT).type_facts))[0]["audit"]["n_silent"] == 0
    assert silent.n_checks == judged.n_checks - silent.n_silent < judged.n_checks
    assert "nothing of it" in silent.words
    for was, now in ((judged.precision, silent.precision), (judged.recall, silent.recall)):
        assert now.low <= was.value <= now.high, "what they would have said is inside"
        assert now.high - now.low > was.high - was.low


def test_an_audit_hears_types_that_its_answers_name_and_rule_out_whatever_is_marked_later(typed: Layout) -> None:
    damage_types.choose_threshold(typed, TYPED, "roof", 0.3)
    answer_audit(typed, 250, run_id=TYPED)
    events = store.call(typed, labels.current)
    heard = [building for building, event in events.items() if event.label == "positive" and event.shown == "audit"]
    rows = [int(building[1:]) for building in heard]
    for building, row in zip(heard, rows, strict=True):  # the answer of the audit, with its types
        details = {"damage_types": ["roof"]} if HAS[row, 0] else {"absent_types": ["roof"]}
        click(typed, building, shown="audit", inclusion=events[building].inclusion, **details)
    before = on_map(typed, TYPED, LIMIT)
    judged = audits(typed)
    roof = judged["roof"]
    assert (roof.n_silent, roof.n_yes, judged[TYPES[1]].n_silent) == (0, int(HAS[rows, 0].sum()), len(heard))
    damage = np.asarray(runs.array(typed, TYPED, "scores")).round(4)[2:]
    scores = runs.written(np.asarray(runs.array(typed, TYPED, "type_scores")))[2:, 0]
    above, truth = (damage >= LIMIT) & (scores >= 0.3), HAS[2:, 0]
    assert roof.precision.low <= (above & truth).sum() / above.sum() <= roof.precision.high
    assert roof.recall.low <= (above & truth).sum() / truth.sum() <= roof.recall.high
    label_all(typed, heard, "positive", analyst="ann", screen="map")
    after = on_map(typed, TYPED, LIMIT)
    assert audits(typed)["roof"] == roof
    assert [state_of(after, each) for each in heard] == [state_of(before, each) for each in heard]
    assert after.types[0].n_named == 0  # nothing learns from it
    other = next(building for building, row in zip(heard, rows, strict=True) if HAS[row, 0])
    click(typed, other, absent_types=["roof"])  # a later answer decides on the map, the sample keeps its own
    after = on_map(typed, TYPED, LIMIT)
    assert state_of(after, other) == "no"
    assert audits(typed)["roof"].n_yes == roof.n_yes


def test_a_federations_run_gives_types_that_nobody_here_named_to_those_that_rank_highest_in_them(tmp_path: Path) -> None:
    layout = typed_project(tmp_path, preset="federated", method="fedaws")
    found = on_map(layout, TYPED, 0.3)
    is_open = found.types[0].is_undecided
    first = np.column_stack([one.scores for one in found.types])[is_open].argmax(1)
    assert [one.n_by_score for one in found.types] == [int((first == k).sum()) for k in (0, 1)]
    assert min(one.n_by_score for one in found.types) > 0
    assert "more like this type than like any other" in found.types[0].words
    assert (
        "0 damaged buildings outside random checks are known to have it, fewer than the 10 that it takes to judge"
        in found.types[0].words
    )
