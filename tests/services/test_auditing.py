"""The audit of a run: judged from its own answers, with what was known before as it is, and plain values for exports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mapped_parts import RUN, N, answer_audit, mapped_project, say
from numpy.typing import NDArray

from pu_geo.errors import PuGeoError
from pu_geo.project import runs
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


def test_the_newest_audit_counts_and_answers_outside_of_it_do_not(mapped: tuple[Layout, NDArray[np.bool_]]) -> None:
    layout, truth = mapped
    check = answer_audit(layout, truth, 60)
    before = auditing.view(layout, RUN)
    drawn = check.sample.rows[:60]
    say(layout, f"b{drawn[truth[drawn]][0]}", "not_damaged", analyst="bob")  # a click outside the audit
    after = auditing.view(layout, RUN)
    assert before is not None
    assert after is not None
    assert after.total == before.total
    assert after.agreement is not None
    assert (after.agreement.n, after.agreement.share) == (1, 0.0)


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
