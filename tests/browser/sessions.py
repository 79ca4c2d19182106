"""Many analysts at one server: each clicks at a person's pace, and each click is timed until it is acknowledged."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pu_geo.project import store
from tests.browser.real_app import AppServer, made_up_project
from tests.browser.streamlit_client import Tab

N_CLICKS, BETWEEN_CLICKS_S = 20, 1.0
PATIENCE_S = 60.0
N_LABELED = 60  # the first ones of a made-up project may be labeled


@dataclass
class Report:
    """What became of the clicks.

    Attributes:
        seconds: from each click to its acknowledgement; for those without one, how long they waited for it in vain.
        unanswered: clicks that were not acknowledged `PATIENCE_S` after the last one.
        lost, twice: acknowledged operations that are not stored; operations that are stored more than once.
        troubles: what pages complained of.
        run_seconds: from asking for a run of the page to its data.
    """

    seconds: list[float]
    unanswered: int
    lost: list[str]
    twice: list[str]
    troubles: list[str]
    run_seconds: list[float]


def click_together(folder: Path, n_sessions: int, *, n_buildings: int, n_clicks: int = N_CLICKS, seed: int = 0) -> Report:
    """Let `n_sessions` analysts click `n_clicks` buildings each, a click a second, at times that do not fall together.

    Args:
        folder: empty; the project is left in it.
    """
    if n_buildings < N_LABELED + n_sessions * n_clicks:
        raise ValueError(f"{n_buildings} buildings are too few for {n_sessions} sessions with {n_clicks} clicks each")
    layout = made_up_project(folder / "shared.pugeo", [f"b{i:06d}" for i in range(n_buildings)])
    with AppServer(folder / "home", project=layout) as server:
        tabs = asyncio.run(_play(server.address, n_sessions, n_clicks, random.Random(seed)))
        ended = time.perf_counter()
    clicks = [each for tab in tabs for each in tab.clicks]
    with store.connect(layout) as db:
        stored = [row[0] for row in db.execute("SELECT op FROM label_event WHERE analyst LIKE 'analyst %'")]
    return Report(
        seconds=[(each.acknowledged_at or ended) - each.made_at for each in clicks],
        unanswered=sum(each.acknowledged_at is None for each in clicks),
        lost=sorted({each.op for each in clicks if each.acknowledged_at is not None} - set(stored)),
        twice=[op for op, times in Counter(stored).items() if times > 1],
        troubles=[trouble for tab in tabs for trouble in (*tab.troubles, *tab.problems)],
        run_seconds=[each for tab in tabs for each in tab.run_seconds],
    )


async def _play(address: str, n_sessions: int, n_clicks: int, rng: random.Random) -> list[Tab]:
    tabs = [Tab(address, analyst=f"analyst {i}") for i in range(n_sessions)]
    for tab in tabs:  # one after another: people do not come in the same second
        await tab.open()
    starts = [rng.uniform(0, BETWEEN_CLICKS_S) for _ in tabs]
    await asyncio.gather(*(_click(tab, i, n_clicks, start) for i, (tab, start) in enumerate(zip(tabs, starts, strict=True))))
    for tab in tabs:
        await tab.close()
    return tabs


async def _click(tab: Tab, number: int, n_clicks: int, start: float) -> None:
    """Click by the clock: a person does not wait for the server."""
    loop = asyncio.get_running_loop()
    first = loop.time() + start
    for k in range(n_clicks):
        await asyncio.sleep(first + k * BETWEEN_CLICKS_S - loop.time())
        tab.click(f"b{N_LABELED + number * n_clicks + k:06d}", "positive" if k % 3 else "not_damaged")
    with suppress(TimeoutError):
        await tab.until(lambda: not tab.pending, PATIENCE_S)
