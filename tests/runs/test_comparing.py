"""Two runs side by side, and feature sets and layers: on which buildings, by whose clicks, and what the result says."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_parts
from comparison_parts import BETTER, set_project
from mapped_parts import RUN, TRUTH, N, answer_audit, say
from numpy.typing import NDArray
from small_parts import add_chips, answer, click, facts_of, op_of, square_table

from pu_geo import jobs, wording
from pu_geo.analysis.bakeoff import Interval
from pu_geo.analysis.pu_criterion import pu_criterion
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError, PuGeoError, TrainingError
from pu_geo.runs import comparing
from pu_geo.runs import feature_comparison as comparison
from pu_geo.runs.actions import CompareFeatures
from pu_geo.scenes import features
from pu_geo.store import contents, decisions, labels, pseudo_positives, runs, store
from pu_geo.store.layout import Layout, write_json


def scores_of(layout: Layout, run_id: str = RUN) -> NDArray[np.float32]:
    return np.array(runs.array(layout, run_id, "scores"), np.float32)


def add_run(
    layout: Layout, run_id: str, scores: NDArray[np.float32], *, held_out: list[int] | None = None, **facts: Any
) -> None:
    """Store a run like the one that is there, with other scores."""
    arrays = {} if held_out is None else {"held_out": np.array(held_out, np.int64)}
    small_parts.add_run(layout, run_id, scores=scores, arrays=arrays, like=RUN, **facts)


def test_where_they_disagree_is_found_and_drawn_last(mapped: Layout) -> None:
    say(mapped, "b10", "positive")
    ours = np.linspace(0, 0.9, N, dtype=np.float32)
    theirs = ours.copy()
    theirs[[10, 390]] = theirs[[390, 10]]
    add_run(mapped, "up-1", ours)
    add_run(mapped, "swapped-1", theirs)
    found = comparing.compare(mapped, "up-1", "swapped-1")
    higher, lower = comparing.most_disagreeing(mapped, found)
    assert [(one.building_id, one.places, one.label) for one in higher] == [("b390", (10, 390), "")]
    assert [(one.building_id, one.places, one.label) for one in lower] == [("b10", (390, 10), "positive")]
    points = comparing.map_points(mapped, found)
    # Squares of 8 m from x = 500,000 + 16 i, y = 4,000,000 to 4,000,008; the grid begins at (499,990, 4,000,020), 0.5 m a px.
    assert sorted(points.x[-2:].tolist()) == [28 + 32 * 10, 28 + 32 * 390]
    np.testing.assert_allclose(points.y, 32)
    assert points.most == pytest.approx(380 / 397)
    np.testing.assert_allclose(np.abs(points.difference[-2:]), 380 / 397, rtol=1e-5)


def test_runs_of_other_chips_are_compared_on_what_both_have(mapped: Layout) -> None:
    ids = [f"b{i}" for i in range(N - 1, 99, -1)] + ["new"]
    add_chips(mapped, ids, "newer", nodata_share=[0.0] * 300 + [0.9])
    with store.connect(mapped) as db:
        contents.add_footprints(db, replace(square_table(1), building_ids=["new"]))
    mine = scores_of(mapped)
    add_run(mapped, "newer-1", np.append(mine[:99:-1], np.float32(1)), ids=ids, chip_set="newer")
    found = comparing.compare(mapped, RUN, "newer-1")
    assert found.ranked.spearman == pytest.approx(1)
    assert (found.ranked.ids[0], len(found.ranked.ids), found.ranked.n_left_out) == ("b100", 300, 0)
    assert found.check is None


def test_runs_without_a_common_building_are_refused(mapped: Layout) -> None:
    ids = [f"c{i}" for i in range(4)]
    add_chips(mapped, ids, "newer")
    add_run(mapped, "newer-1", np.linspace(0, 1, 4, dtype=np.float32), ids=ids, chip_set="newer")
    with pytest.raises(PuGeoError, match="have 0 assessable buildings in common"):
        comparing.compare(mapped, RUN, "newer-1")
    with pytest.raises(PuGeoError, match="named twice"):
        comparing.compare(mapped, "newer-1", "latest")


def test_clicks_made_after_both_began_judge_both(mapped: Layout) -> None:
    damaged = [f"b{row}" for row in np.flatnonzero(TRUTH)[3:]]
    click(mapped, *damaged[:9])
    add_run(mapped, "later-1", scores_of(mapped)[::-1].copy(), at_event=3)
    found = comparing.compare(mapped, RUN, "later-1")
    assert found.clicks.n_later == 6  # the first three were known to the second run
    assert not any(side.judgement.is_enough for side in found.sides if side.judgement)
    assert comparing.criterion_words(found.sides[0]) == "not enough to judge"
    assert "Not enough to judge: 6 clicks" in found.clicks.words
    click(mapped, *damaged[9:15])
    found = comparing.compare(mapped, RUN, "later-1")
    rows = [int(building[1:]) for building in damaged[:15]]
    is_open = np.ones(N, np.bool_)
    is_open[[0, 1, *rows]] = False
    for side in found.sides:
        values = scores_of(mapped, side.facts.run_id).astype(np.float64)
        assert side.judgement == pu_criterion(values[rows[3:]], values[is_open], 0.5)
    assert "12 clicked after one or both began" in found.clicks.words
    assert "not an even draw" in found.clicks.words


def test_clicks_held_out_by_one_run_alone_do_not_judge(mapped: Layout) -> None:
    rows = np.flatnonzero(TRUTH)[3:23].tolist()
    click(mapped, *(f"b{row}" for row in rows))
    add_run(mapped, "one-1", scores_of(mapped), at_event=20, held_out=rows[:12])
    add_run(mapped, "two-1", scores_of(mapped), at_event=20, held_out=rows[2:14])
    found = comparing.compare(mapped, "one-1", "two-1")
    assert comparing.as_json(mapped, found)["clicks"] == {
        "n": 10, "n_held_out": 10, "n_later": 0,
        "words": "Judged on the same 10 clicks, which neither run learned from: 10 held out by both.",
    }  # fmt: skip
    assert all(side.judgement is not None and side.judgement.n_held_out == 10 for side in found.sides)
    before = comparing.compare(mapped, RUN, "one-1").clicks  # RUN began before all of these clicks
    assert (before.n, int(before.is_held_out.sum()), int(before.is_later.sum())) == (12, 0, 12)
    say(mapped, f"b{rows[2]}", "not_damaged")  # changed their mind: it is no positive any more
    assert comparing.compare(mapped, "one-1", "two-1").clicks.n == 9


def test_a_click_that_a_run_once_learned_judges_nothing(mapped: Layout) -> None:
    for said in ("b5 positive", "b5 not_damaged", "b6 positive", "b5 positive", "b7 positive"):
        say(mapped, *said.split())
    add_run(mapped, "one-1", scores_of(mapped), at_event=1)  # learned b5 as a positive
    add_run(mapped, "two-1", scores_of(mapped), at_event=3)  # knew it to be undamaged
    ids, rows = [f"b{i}" for i in range(N)], np.arange(N)

    def later(*run_ids: str) -> list[int]:
        found = [facts_of(mapped, run_id) for run_id in run_ids]
        return np.flatnonzero(comparing.unused_clicks(mapped, found, ids, [rows] * len(found)).is_later).tolist()

    assert later(RUN, RUN) == [5, 6, 7]
    assert later(RUN, "one-1") == [6, 7]
    assert later("one-1", "two-1") == [7]


def test_clicks_on_buildings_of_accepted_clusters_judge_no_run_that_learned_from_them(mapped: Layout) -> None:
    with store.connect(mapped) as db:
        for op, decision, ids in (("1", "accept", ["b5", "b6"]), ("2", "reject", ["b6"])):
            facts = {"run_id": RUN, "decision": decision, "building_ids": ids}
            decisions.decide(db, op, pseudo_positives.KIND, f"cluster {op}", facts, analyst="ann")
    add_run(mapped, "told-1", scores_of(mapped), n_accepted=1, created_at=store.now())
    add_run(mapped, "before-1", scores_of(mapped), n_accepted=1, created_at="2020-01-01T00:00:00.000Z")
    add_run(mapped, "plain-1", scores_of(mapped))
    click(mapped, "b5", "b6", "b7")
    assert comparing.compare(mapped, "plain-1", "told-1").clicks.n == 1
    assert comparing.compare(mapped, "plain-1", "before-1").clicks.n == 3


def test_one_audit_judges_both_runs(mapped: Layout) -> None:
    add_run(mapped, "flat-1", scores_of(mapped)[::-1].copy())
    assert comparing.compare(mapped, RUN, "flat-1").check is None
    check = answer_audit(mapped, 150)
    found = comparing.compare(mapped, "flat-1", RUN)
    assert found.check.id == check.id
    assert (found.clicks.n, found.clicks.is_unlabeled.sum()) == (0, N - 2), "answers of an audit are no clicks"
    flat, audited = (side.audited for side in found.sides)
    assert audited == auditing.at(mapped, RUN, 0.5)
    assert (flat.recall.value or 0) < (audited.recall.value or 0)
    assert wording.interval_of(vars(audited.recall)).startswith(f"{wording.percent(audited.recall.value)} (")


def test_a_curve_is_what_the_run_kept_and_nothing_else(mapped: Layout) -> None:
    assert comparing.curve(mapped, RUN) == []
    kept = mapped.run(RUN) / "curve.json"
    for text in ("{half", '{"epoch": 1}', "[]", "5"):
        kept.write_text(text)
        assert comparing.curve(mapped, RUN) == [], "what is no curve is passed over"
    write_json(kept, [{"epoch": 1, "loss": 3.0, "at": "now"}, {"loss": 1}, {"epoch": "x"}, None])
    assert comparing.curve(mapped, RUN) == [{"epoch": 1, "loss": 3.0}]


def test_plain_values_hold_what_the_screen_shows(mapped: Layout) -> None:
    add_run(mapped, "flat-1", np.full(N, 0.5, np.float32))
    found = comparing.compare(mapped, RUN, "flat-1")
    told = comparing.as_json(mapped, found)
    assert told["spearman"] is None  # one run has no order at all
    assert [run["run_id"] for run in told["runs"]] == [RUN, "flat-1"]
    assert told["tops"][0] == {"k": 20, "overlap": pytest.approx(20 / 398), "chance": pytest.approx(20 / 398)}
    assert [len(rows) for rows in told["apart"]] == [20, 20]
    assert "gives all buildings the same score" in comparing.agreement_words(found)[0]


def test_a_correlation_is_said_in_words(mapped: Layout) -> None:
    add_run(mapped, "copy-1", scores_of(mapped))
    found = comparing.compare(mapped, RUN, "copy-1")
    kinds = {0.9: "nearly", 0.7: "much", 0.4: "partly", 0.1: "little", 0.0: "nothing", -0.1: "opposite"}
    for rho, words in kinds.items():
        said = comparing.agreement_words(replace(found, ranked=replace(found.ranked, spearman=rho)))
        assert words in said[0]


def test_what_either_run_does_not_assess_is_left_out(mapped: Layout) -> None:
    """A run without evidence in another sensor's scene was compared on the buildings that its own map refuses."""
    path = mapped.chip_facts("set")
    look = [0] * (N - 150) + [1] * 150
    write_json(path, {**json.loads(path.read_text()), "look_group": look, "sensor_group": look})
    add_run(mapped, "silent-1", scores_of(mapped) ** 2, without_answers=(1,))
    say(mapped, "b7", "not_assessable")
    found = comparing.compare(mapped, RUN, "silent-1")
    assert found.ranked.n_left_out == 3 + 150  # b0 and b1 have no data, b7 a person's word
    assert comparing.most_disagreeing(mapped, found) == ([], [])


BAD = [
    (7, ["ranker"], "it takes 8 of your own; this project has 7"),
    (12, ["nothing"], "There is no method 'nothing'"),
    (12, ["ncl"], "not compared by NCL"),
    (12, ["ranker", "supervised"], "not compared by Supervised"),
    (12, [], "No method was named"),
]


def own(layout: Layout) -> list[str]:
    pu = store.call(layout, labels.pu_set)
    return [building for building, is_own in zip(pu.building_ids, comparison.own_clicks(pu), strict=True) if is_own]


def test_answers_to_a_queue_or_an_audit_are_no_own_clicks(project: Layout) -> None:
    click(project, "b0", "b1")
    click(project, "b2", shown="exploit")
    click(project, "b3", shown="explore")
    click(project, "b5", label="not_damaged")
    click(project, "b6", shown="audit", inclusion=0.5)
    assert own(project) == ["b0", "b1"]
    click(project, "b1", label="not_damaged")
    click(project, "b0", shown="audit", inclusion=0.5)  # its own click before still counts
    assert own(project) == ["b0"]


@pytest.mark.parametrize(("n_clicks", "methods", "problem"), BAD)
def test_what_cannot_be_compared_is_refused_before_there_is_a_job(
    tmp_path: Path, n_clicks: int, methods: list[str], problem: str
) -> None:
    layout = set_project(tmp_path, n_clicks=n_clicks)
    answer(layout, *(op_of(f"b{i}", shown="exploit") for i in range(20, 30)))  # which are no clicks of one's own
    with pytest.raises(TrainingError, match=problem):
        jobs.start(layout, CompareFeatures(methods, layers=True))
    assert comparison.last(layout, "layers") is None
    assert not jobs.all_jobs(layout)


def test_a_comparison_needs_chips_layers_and_enough_buildings(project: Layout) -> None:
    with pytest.raises(ProjectError, match="chips"):
        comparison.require(project, "features", ["ranker"])
    add_chips(project, [f"b{i}" for i in range(20)], bands="pre+post")
    click(project, *(f"b{i}" for i in range(8)))
    comparison.require(project, "features", ["ranker"])
    with pytest.raises(TrainingError, match=r"one layer, pre\+post: there is nothing to leave out"):
        comparison.require(project, "layers", ["ranker"])
    for n_unlabeled, n_positive, problem in ((4, 8, "5 buildings not reviewed at least"), (5, 6, "held out there are 4")):
        comparison.require_clicks(8, n_positive + 1, n_unlabeled + 1, ["propagation"])
        with pytest.raises(TrainingError, match=problem):
            comparison.require_clicks(8, n_positive, n_unlabeled, ["propagation"])


def compared(low: float, high: float, **more: object) -> comparison.Comparison:
    first = comparison.Row("rcf", "ranker", Interval(0.2, 0.1, 0.3), Interval(0.0, 0.0, 0.0))
    other = comparison.Row(BETTER, "ranker", Interval(0.05, 0.01, 0.0996), Interval((low + high) / 2, low, high))
    found = comparison.Comparison("features", "2026-01-01T00:00:00.000Z", 62, "set", 62, 3, 38, "ranker", [first, other])
    return replace(found, **more)  # type: ignore[arg-type]


def test_what_is_better_is_said_by_the_interval_and_the_table_has_the_best_first() -> None:
    found = compared(-0.8, -0.2)
    assert comparison.Comparison.from_json(asdict(found)) == found
    by = "(instant ranker, 62 clicks, 95% interval)."
    words = "{}: a held-out click is typically in the top 5.0 %; {}: in the top 20 % " + by
    assert comparison.verdict_words(found) == [words.format(BETTER, "rcf")]
    assert comparison.verdict_words(compared(-0.2, 0.8)) == [f"No difference found between {BETTER} and rcf {by}"]
    few, alone = compared(-0.8, -0.2, n_clicks=59), replace(found, rows=found.rows[:1])
    assert (comparison.verdict_words(few)[0], few.picked) == (
        "Not enough clicks to judge by: 59 of your own, and it takes 60.", "rcf",
    )  # fmt: skip
    assert comparison.verdict_words(alone) == ["There is one feature set, rcf: nothing to choose between."]
    cells = [list(row.values()) for row in comparison.table(found)]
    assert cells == [[BETTER, "Instant ranker", "top 5.0 % (1.0 to 10)"], ["rcf", "Instant ranker", "top 20 % (10 to 30)"]]
    assert "62 clicks of your own" in comparison.how_made(found)
    assert "3 that the queue proposed" in comparison.how_made(found)
    assert "queue" not in comparison.how_made(replace(found, n_others=0))
    best, worse = reversed(found.rows)
    layers = [
        replace(best, name="", difference=Interval(0, 0, 0)),
        replace(worse, name="sar", difference=Interval(0.5, 0.2, 0.8)),
    ]
    by_layer = replace(found, of="layers", rows=layers)
    assert comparison.verdict_words(by_layer) == [words.format("all layers", "without sar")]
    assert comparison.table(by_layer)[0]["layers"] == "all layers"


def test_a_comparison_that_is_out_of_date_says_why_and_proposes_nothing(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    found = compared(-0.8, -0.2)
    assert comparison.what_changed(layout, found) == ""
    assert comparison.proposed(layout, found) == BETTER
    worse = compared(0.2, 0.8)
    assert comparison.proposed(layout, worse) == ""
    features.choose(layout, BETTER)
    assert comparison.proposed(layout, worse) == "rcf", "another one is in use that is worse"
    features.choose(layout, "rcf")
    for less, words in (
        ({"rows": found.rows[:1]}, "Feature sets were made or removed"),
        ({"chip_set": "old"}, "Chips were cut anew"),
    ):
        other = replace(found, **less)  # type: ignore[arg-type]
        assert comparison.what_changed(layout, other).startswith(words)
        assert comparison.proposed(layout, other) == ""
    click(layout, "b99", label="not_damaged")  # as many own clicks as before
    assert comparison.what_changed(layout, found).startswith("There are new answers since")
    assert comparison.proposed(layout, found) == ""
