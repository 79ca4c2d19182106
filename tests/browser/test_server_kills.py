"""The app's server is killed with -9 again and again while three analysts click: what was acknowledged is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.server_kills import kill_and_click

pytestmark = [pytest.mark.slow, pytest.mark.long]
N_KILLS = 20


def test_no_acknowledged_click_is_lost_and_none_is_stored_twice(tmp_path: Path) -> None:
    report = kill_and_click(tmp_path, N_KILLS)
    assert report.integrity == "ok"
    assert (report.lost, report.missing, report.twice, report.wrong) == ([], [], [], [])
    assert report.clicks == report.acknowledged, "a server that stays answers for everything"
    assert report.open_at_a_kill > 0, "kills came while clicks were on their way"
    assert (report.troubles, report.failed_jobs) == ([], [])
    assert min(report.jobs, report.runs, report.reads) > 0, "jobs and the reader did run beside"
