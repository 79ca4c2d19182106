"""Many analysts click at once, and the app's server is killed with -9 meanwhile: what was acknowledged is stored, once."""

from pathlib import Path

import pytest

from tests.browser.server_kills import kill_and_click
from tests.small_parts import in_tiers


@pytest.mark.parametrize("n_kills", in_tiers([3, 20], "kills", ci=[3]))
def test_no_acknowledged_click_is_lost_and_none_is_stored_twice(tmp_path: Path, n_kills: int) -> None:
    report = kill_and_click(tmp_path, n_kills)
    assert report.integrity == "ok"
    assert (report.lost, report.missing, report.twice, report.wrong, report.troubles) == ([], [], [], [], [])
    assert report.clicks == report.acknowledged, "a server that stays answers for everything"
    assert report.open_at_a_kill > 0 or n_kills < 20, "kills came while clicks were on their way; a few may miss them"
    assert min(report.jobs, report.runs, report.reads) > 0, "jobs and the reader did run beside"
