"""Many analysts click at once, and the app's server is killed with -9 meanwhile: what was acknowledged is stored, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.real_app import AppServer
from tests.browser.server_kills import Analyst, Report, kill_and_click, made_up_town, sum_up

pytestmark = pytest.mark.slow
N_KILLS = 20


@pytest.mark.long
def test_no_acknowledged_click_is_lost_and_none_is_stored_twice(tmp_path: Path) -> None:
    report = kill_and_click(tmp_path, N_KILLS)
    assert report.integrity == "ok"
    assert (report.lost, report.missing, report.twice, report.wrong, report.troubles) == ([], [], [], [], [])
    assert report.clicks == report.acknowledged, "a server that stays answers for everything"
    assert report.open_at_a_kill > 0, "kills came while clicks were on their way"
    assert min(report.jobs, report.runs, report.reads) > 0, "jobs and the reader did run beside"


def test_ten_analysts_at_once_lose_nothing(tmp_path: Path) -> None:
    layout = made_up_town(tmp_path)
    with AppServer(tmp_path / "home", project=layout) as server:
        analysts = [Analyst(server, layout, number, n_clicks=10) for number in range(10)]
        for analyst in analysts:
            analyst.join(240)
    report = Report(kills=0)
    sum_up(layout, analysts, report)
    assert report.clicks == report.acknowledged == 100
    assert (report.lost, report.missing, report.twice, report.troubles) == ([], [], [], [])
