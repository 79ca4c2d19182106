"""The audit of a run: judged from its own answers, with what was known before as it is, and plain values for exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mapped_parts import RUN, N, answer_audit, mapped_project, say, say_all, say_checks
from numpy.typing import NDArray
from small_parts import square_table

from pu_geo.analysis import audit
from pu_geo.cli import main
from pu_geo.errors import PuGeoError
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services import auditing, checking


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Layout, NDArray[np.bool_]]:
    monkeypatch.setattr(checking, "_seed", lambda: 1)  # an interval misses the truth in one draw of twenty
    return mapped_project(tmp_path)


def test_without_an_audit_nothing_is_said(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, _ = mapped
    assert auditing.view(layout, RUN) is None
    assert auditing.at(layout, RUN, 0.5) is None
    assert auditing.facts(layout, RUN, 0.5) is None


def test_an_audit_of_all_tells_the_truth(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    scores = np.asarray(runs.array(layout, RUN, "scores")).round(4)
    answer_audit(layout, truth, N - 2)  # two have no data
    found = auditing.view(layout, RUN)
    assert found is not None
    n_damaged = int(truth[2:].sum())
    assert (found.total.value, found.total.low, found.total.high) == (n_damaged, n_damaged, n_damaged)
    assert found.n == N - 2
    here = auditing.at(layout, RUN, 0.3)
    assert here is not None
    above = scores[2:] >= 0.3
    assert here.precision.value == pytest.approx((truth[2:] & above).sum() / above.sum())
    assert here.recall.value == pytest.approx((truth[2:] & above).sum() / n_damaged)
    top = auditing.at_top(layout, RUN, 20)
    assert top is not None
    assert top.precision.value == pytest.approx(truth[2:][np.argsort(-scores[2:], kind="stable")[:20]].mean())


def test_a_part_of_it_bounds_the_truth(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    answer_audit(layout, truth, 150)
    found = auditing.view(layout, RUN)
    assert found is not None
    assert found.total.low is not None
    assert found.total.high is not None
    assert found.total.low <= truth[2:].sum() <= found.total.high
    assert found.total.low < found.total.high
    facts = auditing.facts(layout, RUN, 0.5)
    assert facts is not None
    assert json.loads(json.dumps(facts))["n_answered"] == 150
    assert set(facts["bands"]) == {"high_precision", "high_recall"}
    assert len(facts["calibration"]["score"]) == len(facts["calibration"]["p_low"])


def test_few_checks_are_not_enough(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    answer_audit(layout, truth, 12)
    found = auditing.view(layout, RUN)
    assert found is not None
    assert found.total.value is None
    assert "not enough" in found.total.words
    assert found.calibration is None
    assert "at least 5" in found.no_calibration


def test_what_was_known_before_counts_whatever_its_score(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    """A confirmed building with a low score is part of the map, so it is no miss; a refused one with a high score no flag."""
    layout, truth = mapped
    scores = np.asarray(runs.array(layout, RUN, "scores"))
    missed = int(np.flatnonzero(truth & (scores < 0.3))[0])
    wrong = int(np.flatnonzero(~truth & (scores > 0.3))[0])
    say(layout, f"b{missed}", "positive")
    say(layout, f"b{wrong}", "not_damaged")
    answer_audit(layout, truth, N - 4)
    here = auditing.at(layout, RUN, 0.3)
    assert here is not None
    above = scores.round(4)[2:] >= 0.3
    assert here.flagged == above.sum()  # one more, one less
    hits = (truth[2:] & above).sum() + 1
    assert here.recall.value == pytest.approx(hits / truth[2:].sum())
    assert here.precision.value == pytest.approx(hits / above.sum())


def test_a_correction_on_the_map_changes_the_estimate(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    check = answer_audit(layout, truth, 60)
    before = auditing.view(layout, RUN)
    drawn = check.sample.rows[:60]
    damaged = drawn[truth[drawn]].tolist()
    for row in damaged[: len(damaged) // 2]:
        say(layout, f"b{row}", "not_damaged", analyst="bob")  # on the map, after the audit
    after = auditing.view(layout, RUN)
    assert before is not None
    assert after is not None
    assert after.done.n_answered == 60
    assert after.done.n_damaged == len(damaged) - len(damaged) // 2
    assert (after.total.value or 0) < 0.7 * (before.total.value or 0)
    assert after.agreement is not None
    assert after.agreement.n == len(damaged) // 2


def test_a_check_that_was_cleared_and_answered_anew_is_a_check(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    check = answer_audit(layout, truth, 60)
    whole = auditing.view(layout, RUN)
    third = f"b{check.sample.rows[2]}"
    say(layout, third, "cleared", analyst="bob")
    without = checking.answered(layout, check)
    assert (without.n_counted, without.n_open, without.n_answered) == (2, 1, 59)
    assert "57 more answers count once" in without.words
    say(layout, third, "positive" if truth[check.sample.rows[2]] else "not_damaged", analyst="bob")
    again = auditing.view(layout, RUN)
    assert whole is not None
    assert again is not None
    assert again.total == whole.total


def search_on(layout: Layout, truth: NDArray[np.bool_]) -> None:
    """Click every damaged building that nobody has answered, as a good search does in the end."""
    known = checking.answers_of(layout, "set") != OPEN
    say_all(layout, np.flatnonzero(truth & ~known).tolist(), truth)


OPEN = audit.ANSWERS["open"]


def test_clicks_of_a_search_after_an_audit_was_left_are_no_checks(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    """Before: the drawn buildings that the search had clicked counted, the estimate was twice the truth."""
    layout, truth = mapped
    check = checking.begin_audit(layout, RUN, 200, "ann")
    say_checks(layout, truth, check, 80)
    before = auditing.view(layout, RUN)
    checking.end(layout, check.id)
    search_on(layout, truth)
    after = auditing.view(layout, RUN)
    assert before is not None
    assert after is not None
    n_damaged = int(truth[2:].sum())
    assert (before.done.state, after.done.state) == ("open", "reduced")
    assert (after.done.n_drawn, after.done.n_answered, after.done.n_counted) == (200, 80, 80)
    assert "the first 80 count" in after.done.words
    assert after.total.low is not None
    assert after.total.high is not None
    assert after.total.low <= n_damaged <= after.total.high
    assert after.total.value == pytest.approx(max(before.total.value or 0, n_damaged))
    facts = auditing.facts(layout, RUN, 0.5)
    assert facts is not None
    assert (facts["state"], facts["n_counted"]) == ("reduced", 80)


def test_chances_of_what_is_left_go_down_as_the_search_finds_damage(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    answer_audit(layout, truth, 150)
    scores = np.asarray(runs.array(layout, RUN, "scores"), np.float64)
    search_on(layout, truth)
    after = auditing.view(layout, RUN)
    assert after is not None
    assert after.calibration is not None
    is_open = checking.answers_of(layout, "set") == OPEN
    p, low, high = (float(chances.sum()) for chances in after.calibration.at(scores[is_open]))
    n_found = int(truth[2:].sum())
    assert p == pytest.approx((after.total.value or 0) - n_found, abs=0.5)
    assert low <= p <= high
    assert high >= (after.total.high or 0) - n_found - 0.5


def test_an_audit_that_was_left_at_once_is_void(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    check = checking.begin_audit(layout, RUN, 100, "ann")
    say_checks(layout, truth, check, 10)
    checking.end(layout, check.id)
    search_on(layout, truth)
    found = auditing.view(layout, RUN)
    assert found is not None
    assert found.done.state == "void"
    assert "is void: only 10 of 100" in found.done.words
    assert not found.total.is_enough
    told = auditing.how_many(layout)
    assert (told.basis, told.audit_state, told.confirmed) == ("none", "void", int(truth[2:].sum()))
    assert "not enough to estimate" in told.words


# How many are damaged


def test_without_checks_there_is_no_number_beside_the_confirmed(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    say_all(layout, np.flatnonzero(truth)[2:17].tolist(), truth)
    told = auditing.how_many(layout)
    assert (told.basis, told.confirmed, told.n, told.n_not_covered) == ("none", 15, N - 2, 0)
    assert (told.total.value, told.total.low, told.total.high) == (None, None, None)
    assert told.words.startswith("15 buildings are confirmed damaged. How many there are in all is not known: not enough")
    plain = told.as_mapping()
    assert (plain["N"], plain["confirmed"], plain["estimate"], plain["low"]) == (N - 2, 15, None, None)


def test_an_audit_counts_the_confirmed_and_what_was_added_since(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    say_all(layout, np.flatnonzero(truth)[2:17].tolist(), truth)
    answer_audit(layout, truth, 100)
    before = auditing.how_many(layout)
    with store.connect(layout) as db:
        table = square_table(N + 5)
        new = replace(
            table, building_ids=table.building_ids[N:], wkb=table.wkb[N:], area_m2=table.area_m2[N:],
            attributes=table.attributes[N:],
        )  # fmt: skip
        contents.add_footprints(db, new)
    say(layout, f"b{N}", "positive")
    say(layout, f"b{N + 1}", "not_damaged")
    after = auditing.how_many(layout)
    assert (before.basis, before.n, before.n_not_covered) == ("audit", N - 2, 0)
    assert (after.basis, after.n, after.n_not_covered) == ("audit", N, 3)
    assert after.confirmed == before.confirmed + 1
    assert after.total.value == pytest.approx((before.total.value or 0) + 1)
    assert after.total.low is not None
    assert after.confirmed <= after.total.low <= truth[2:].sum() + 1
    assert "3 footprints without an answer are not in it" in after.words


def test_an_audit_just_begun_does_not_take_the_estimate_away(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    answer_audit(layout, truth, 100)
    before = auditing.how_many(layout)
    checking.begin_audit(layout, RUN, 50, "ann")
    after = auditing.how_many(layout)
    assert after.total == before.total
    assert after.audit_state == "open"
    assert "50 of 50 random checks are open" in after.words


def test_every_building_answered_needs_no_estimate(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    say_all(layout, range(2, N), truth)
    told = auditing.how_many(layout)
    n_damaged = int(truth[2:].sum())
    assert (told.basis, told.total.value, told.total.low, told.total.high) == ("all", n_damaged, n_damaged, n_damaged)
    assert told.words == f"{n_damaged} of {N - 2} buildings are damaged; every one was answered."


def test_more_checks_are_the_same_sample(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    check = answer_audit(layout, truth, 40)
    longer = checking.extend(layout, check.id, 30)
    np.testing.assert_array_equal(longer.sample.rows, check.sample.rows)
    found = auditing.view(layout, RUN)
    assert found is not None
    assert (found.done.n_drawn, found.done.n_answered) == (70, 40)


def test_a_wish_finds_its_threshold(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    answer_audit(layout, truth, N - 2)
    found = auditing.view(layout, RUN)
    assert found is not None
    choice = auditing.choose(found, recall=0.8)
    assert choice.assured is not None
    here = auditing.at(layout, RUN, choice.assured)
    assert here is not None
    assert (here.recall.value or 0) >= 0.8


@pytest.mark.parametrize("n", [0, N + 1])
def test_an_impossible_number_of_checks_is_refused(mapped: tuple[Layout, NDArray[np.bool_]], n: int) -> None:
    with pytest.raises(PuGeoError, match=f"An audit of {n} checks"):
        checking.begin_audit(mapped[0], RUN, n, "ann")


def test_a_better_interval_takes_more_checks(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, _ = mapped
    wide, narrow = (auditing.suggested_size(layout, RUN, width) for width in (0.5, 0.2))
    assert 30 <= wide < narrow <= N


def test_the_command_says_what_counts_and_how_many_are_damaged(
    mapped: tuple[Layout, NDArray[np.bool_]], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, truth = mapped
    check = checking.begin_audit(layout, RUN, 200, "ann")
    say_checks(layout, truth, check, 40)
    checking.end(layout, check.id)
    search_on(layout, truth)
    assert main(["audit", str(layout.folder)]) in (None, 0)
    out = capsys.readouterr().out
    assert "40 of 200 checks answered" in out
    assert out.count("of 200 random checks the first 40 count") == 1
    assert auditing.how_many(layout).words in out
    main(["audit", str(layout.folder), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["n_counted"]) == ("reduced", 40)
    assert told["how_many"] == auditing.how_many(layout).as_mapping()
