"""The queue on the Annotate screen: how many are ranked so far."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pu_geo.services.annotate import ranking
from pu_geo.services.annotate.ranking import LiveRanking

SCRIPT = "from pu_geo.ui.annotate import queue_panel\nqueue_panel.wait_for_the_rest(None, 'live-a-1')"


def test_the_screen_says_how_many_are_ranked_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, words in (
        (LiveRanking("live-a-1-50000", 0.0, 50_000, 1_000_000), "50,000 of 1,000,000"),
        (LiveRanking("live-a-1-5", 0.0, 5, 9, "MemoryError"), "interrupted (MemoryError)"),
        (None, "Ranked in part"),
    ):
        monkeypatch.setattr(ranking, "so_far", lambda layout, score_id, found=found: found)
        drawn = AppTest.from_string(SCRIPT, default_timeout=60).run()
        assert not drawn.exception
        assert words in drawn.caption[0].value
