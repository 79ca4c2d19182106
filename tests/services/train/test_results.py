"""The table of finished runs."""

from __future__ import annotations

import pytest
from mapped_parts import RUN, answer_audit
from small_parts import add_run

from pu_geo.project import checks
from pu_geo.project.layout import Layout
from pu_geo.services.train import results, training


def test_audited_runs_have_their_figures_and_checks_are_not_read_for_each_of_the_others(
    mapped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_audit(mapped, 200)
    for number in range(6):
        add_run(mapped, f"other-{number}", like=RUN)
    read, asked = checks.all_checks, []
    monkeypatch.setattr(checks, "all_checks", lambda layout: (asked.append(1), read(layout))[1])
    found = training.all_runs(mapped)
    audited = {row.run_id: row.audited for row in results.table(mapped, found)}
    n_asked = len(asked)
    assert audited[RUN].startswith("precision ")
    assert {words for run_id, words in audited.items() if run_id != RUN} == {results.NOT_AUDITED}
    asked.clear()
    results.table(mapped, [run for run in found if run.run_id == RUN])
    assert n_asked == len(asked), "as often as for the audited run alone"
