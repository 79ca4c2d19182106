"""Fifty analysts at one server, a click a second each: from click to acknowledgement. `python -m benchmarks.sessions [N] [BUILDINGS]`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.streamlit_client import Tab
from pu_geo.project import store
from tests.browser.real_app import AppServer, made_up_project

N_SESSIONS, N_BUILDINGS = 50, 2_000
TARGET_S = 0.5
N_CLICKS, BETWEEN_CLICKS_S = 20, 1.0
PATIENCE_S = 60.0
N_LABELED = 60  # the first ones of a made-up project may be labeled


def bench_sessions(folder: Path, n_sessions: int = N_SESSIONS, n_buildings: int = N_BUILDINGS) -> dict[str, float]:
    """Time clicks of `n_sessions` analysts who share a project, against half a second.

    Returns:
        "p95_s" and "target_s", whose ratio must stay below 1; "p50_s"; the clicks that were lost, which must be 0; and those that were
        still not acknowledged a minute after the last one, counted with the time that they waited; how many runs of the page
        renewed ranking and queue, and "run_p50_s", from asking for one to its data.
        Clients and server share this machine.
    """
    report = click_together(folder, n_sessions, n_buildings=n_buildings)
    if report.troubles:
        raise AssertionError(f"pages complained: {report.troubles[:3]}")
    p50, p95 = np.quantile(report.seconds, [0.5, 0.95])
    runs = {"runs": len(report.run_seconds), "run_p50_s": float(np.median(report.run_seconds))}
    lost = len(report.lost) + len(report.twice)
    times = {"p95_s": float(p95), "target_s": TARGET_S, "p50_s": float(p50)}
    return {**times, "lost": lost, "unanswered": report.unanswered, "clicks": len(report.seconds), **runs}


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
        tabs = asyncio.run(_play(server, n_sessions, n_clicks, random.Random(seed)))
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


async def _play(server: AppServer, n_sessions: int, n_clicks: int, rng: random.Random) -> list[Tab]:
    tabs = [Tab(server.address, cookie=server.cookie, analyst=f"analyst {i}") for i in range(n_sessions)]
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


def main(n_sessions: str = str(N_SESSIONS), n_buildings: str = str(N_BUILDINGS)) -> None:
    """Print the figures with the load of the machine, which they hang on."""
    with tempfile.TemporaryDirectory() as folder:
        figures = bench_sessions(Path(folder), int(n_sessions), int(n_buildings))
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"sessions": int(n_sessions), "buildings": int(n_buildings), **rounded, "load": os.getloadavg()}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
