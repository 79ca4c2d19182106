"""Ten analysts label one project at once, each in a session of their own: every click is stored, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.sessions import click_together

pytestmark = [pytest.mark.slow, pytest.mark.long]
N_SESSIONS, N_CLICKS = 10, 10


def test_ten_sessions_lose_nothing(tmp_path: Path) -> None:
    report = click_together(tmp_path, N_SESSIONS, n_buildings=600, n_clicks=N_CLICKS)
    assert (report.lost, report.twice, report.troubles) == ([], [], [])
    assert report.unanswered == 0
    assert len(report.seconds) == N_SESSIONS * N_CLICKS
