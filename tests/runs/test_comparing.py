"""Two runs side by side: on which buildings, by whose clicks, and what the result says."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import small_parts
from mapped_parts import RUN, TRUTH, N, answer_audit, say
from numpy.typing import NDArray
from small_parts import add_chips, click, facts_of, square_table

from pu_geo import wording
from pu_geo.analysis.pu_criterion import pu_criterion
from pu_geo.assessment import auditing
from pu_geo.errors import PuGeoError
from pu_geo.runs import comparing
from pu_geo.store import contents, decisions, pseudo_positives, runs, store
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
