"""The table of finished runs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from mapped_parts import RUN, answer_audit
from small_parts import add_run, facts_of

from pu_geo.project import checks
from pu_geo.project.layout import Layout
from pu_geo.services.train import results, training


def test_audited_runs_have_their_figures_and_checks_are_not_read_for_each_of_the_others(
    mapped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_audit(mapped, 200)
    for number in range(6):
        add_run(mapped, f"other-{number}", like=RUN, from_model={"n_positive": 40} if number else None, seconds=61.0)
    read, asked = checks.all_checks, []
    monkeypatch.setattr(checks, "all_checks", lambda layout: (asked.append(1), read(layout))[1])
    found = training.all_runs(mapped)
    rows = {row.run_id: row for row in results.table(mapped, found)}
    n_asked = len(asked)
    assert re.fullmatch(r"precision [\d.]+ % \(\d+–\d+\), recall [\d.]+ % \(\d+–\d+\)", rows[RUN].audited)
    assert {row.audited for row in rows.values() if row.run_id != RUN} == {results.NOT_AUDITED}
    assert [run_id for run_id, row in rows.items() if row.is_shown] == [training.pinned_run(mapped)]
    assert [rows[f"other-{number}"].n_damaged for number in (0, 1)] == [5, None], "it learned from no labels of this project"
    assert (rows["other-0"].method, rows["other-0"].took, rows["other-0"].judged) == (
        "Instant ranker", "61 s", results.NOT_JUDGED,
    )  # fmt: skip
    asked.clear()
    results.table(mapped, [run for run in found if run.run_id == RUN])
    assert n_asked == len(asked), "as often as for the audited run alone"


def test_a_run_is_judged_with_an_interval_by_ten_held_out_clicks_at_least(project: Layout) -> None:
    add_run(project)
    known = {"n_held_out": 12, "recall": 1.0, "share_called": 0.3, "criterion": 3.3, "low": 2.0, "high": 3.4, "n_called": 4}
    for changed, words in (
        ({}, "100 % (75–100) of 12, 4 flagged"), ({"n_called": None}, "100 % (75–100) of 12"),
        ({"n_held_out": 9}, "not enough: 9 of 10 clicks"), ({"n_held_out": 0}, results.NOT_JUDGED), ({"recall": None}, results.NOT_JUDGED),
    ):  # fmt: skip
        assert results.judged_words(replace(facts_of(project), judgement={**known, **changed})) == words
