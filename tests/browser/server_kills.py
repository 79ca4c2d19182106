"""Clicks while the app's server is killed again and again, a job writes to the project and an outside program reads it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pu_geo import jobs
from pu_geo.project import labels, runs, store
from pu_geo.project.layout import Layout
from tests.browser.real_app import AppServer, made_up_project
from tests.browser.streamlit_client import Tab

N_BUILDINGS, N_TABS = 600, 3
LABELS = ("positive", "not_damaged", "cleared")
SLOWEST_CLICK_S = 0.5
MOST_OPEN = 15  # who sees that nothing is saved any more stops clicking for a while
LONGEST_LIFE_S = 0.5  # of a server, after a tab got an answer from it
BETWEEN_JOBS_S = 2.0
RETRY_S = (1.0, 2.5)  # a browser waits up to 15 s, which would only make this longer

# GDAL brings an SQLite of its own, so it may not read the project in a process of ours.
READER = """
    import sys, time, pyogrio
    from pathlib import Path
    reads = refused = 0
    while not Path(sys.argv[2]).exists():
        try:
            frame = pyogrio.read_dataframe(sys.argv[1], layer="damage_map")
        except Exception as error:
            refused += 1
            print(error, file=sys.stderr)
        else:
            assert len(frame) == int(sys.argv[3]), len(frame)
            reads += 1
        time.sleep(0.1)
    print(reads, refused)
"""


@dataclass
class Report:
    """What became of the clicks.

    Attributes:
        clicks, acknowledged: all that were made, and those whose acknowledgement arrived.
        open_at_a_kill: clicks that were sent and not acknowledged when the server was killed, summed over the kills.
        stored_unacknowledged: of these, the ones that were on disk already and so came again; seen at every second kill.
        resent: clicks that were in more than one message.
        lost: ids of acknowledged operations that are not in the project, at any kill or at the end.
        twice, missing: operations stored more than once, or not at all though every click was acknowledged in the end.
        wrong: buildings whose label is not that of the last click on them.
        jobs, reads, reads_refused: what ran beside; `failed_jobs` says what went wrong there.
    """

    kills: int
    clicks: int = 0
    acknowledged: int = 0
    open_at_a_kill: int = 0
    stored_unacknowledged: int = 0
    resent: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    integrity: str = ""
    runs: int = 0
    jobs: int = 0
    failed_jobs: list[str] = field(default_factory=list)
    reads: int = 0
    reads_refused: int = 0
    seconds: float = 0.0


def kill_and_click(
    folder: Path, n_kills: int, *, seed: int = 0, after_kill: Callable[[int, Report], None] = lambda number, report: None
) -> Report:
    """Kill the server `n_kills` times while analysts click; everything is acknowledged in the end.

    Args:
        folder: empty; the project and the log of the server are left in it.
        after_kill: told how many there were, and what was found so far.
    """
    began = time.monotonic()
    layout = made_up_project(folder / "killed.pugeo", [f"b{i:06d}" for i in range(N_BUILDINGS)])
    report = Report(n_kills)
    stop = folder / "stop"
    code = [sys.executable, "-c", textwrap.dedent(READER), str(layout.gpkg), str(stop), str(N_BUILDINGS)]
    with (
        subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader,
        AppServer(folder / "home", project=layout) as server,
    ):
        try:
            asyncio.run(_Scene(layout, server, report, random.Random(seed)).play(after_kill))
        finally:
            stop.touch()
        told, wrong = reader.communicate(timeout=120)
        assert reader.returncode == 0, wrong
    report.reads, report.reads_refused = map(int, told.split())
    report.seconds = round(time.monotonic() - began, 1)
    return report


class _Scene:
    """The server, the tabs that click, and the jobs, all at once."""

    def __init__(self, layout: Layout, server: AppServer, report: Report, rng: random.Random) -> None:
        self.layout, self.server, self.report, self.rng = layout, server, report, rng
        self.tabs = [Tab(server.address, analyst=f"analyst {i}", retry_s=RETRY_S) for i in range(N_TABS)]
        self.is_over = False

    async def play(self, after_kill: Callable[[int, Report], None]) -> None:
        await asyncio.gather(*(tab.open() for tab in self.tabs))
        busy = [asyncio.create_task(self._click(i)) for i in range(N_TABS)]
        busy.append(asyncio.create_task(self._work()))
        try:
            for number in range(self.report.kills):
                await self._kill(look=number % 2 == 0)
                after_kill(number + 1, self.report)
        finally:
            self.is_over = True
            await asyncio.gather(*busy)
        await asyncio.gather(*(tab.until(lambda tab=tab: not tab.pending) for tab in self.tabs))
        self._sum_up()
        for tab in self.tabs:
            await tab.close()

    async def _click(self, tab: int) -> None:
        """Click the buildings of one tab, at any time, whether there is a server or not."""
        rng = random.Random(self.rng.random())
        own = range(100 + tab, N_BUILDINGS, N_TABS)
        while not self.is_over:
            if len(self.tabs[tab].pending) < MOST_OPEN:
                self.tabs[tab].click(f"b{rng.choice(own):06d}", rng.choice(LABELS))
            await asyncio.sleep(rng.uniform(0, SLOWEST_CLICK_S))

    async def _kill(self, *, look: bool) -> None:
        before = [len(tab.clicks) - len(tab.pending) for tab in self.tabs]
        while all(len(tab.clicks) - len(tab.pending) == n for tab, n in zip(self.tabs, before, strict=True)):
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.rng.uniform(0, LONGEST_LIFE_S))
        if look:  # in the middle of a click: a quick server would have answered nearly all of them before a kill at any time
            while not any(each.messages for tab in self.tabs for each in tab.pending):
                await asyncio.sleep(0)
        await asyncio.to_thread(self.server.end)
        while any(tab.is_connected for tab in self.tabs):  # what it had sent already still arrives
            await asyncio.sleep(0.01)
        waiting = [each.op for tab in self.tabs for each in tab.pending if each.messages]
        self.report.open_at_a_kill += len(waiting)
        if look:  # a look cleans up after the dead one, so every other time the next server does that
            stored = await asyncio.to_thread(_stored, self.layout)
            self.report.stored_unacknowledged += len(stored & set(waiting))
            self.report.lost = sorted({*self.report.lost, *(_acknowledged(self.tabs) - stored)})
        await asyncio.to_thread(self.server.start)

    async def _work(self) -> None:
        """Rank and export as jobs, one after another: the one writes a run, the other reads it all."""
        out = str(self.layout.folder.parent / "map.geojson")
        kinds = (("rank", {}), ("export", {"run_id": "latest", "format": "geojson", "out": out}))
        while not self.is_over:
            for task, args in kinds:
                job = jobs.folder_of(self.layout, jobs.start(self.layout, task, args))
                while (view := jobs.view(job)).state == "running":
                    await asyncio.sleep(0.2)
                await asyncio.sleep(BETWEEN_JOBS_S)
                self.report.jobs += 1
                if view.state != "done":
                    self.report.failed_jobs.append(f"{task}: {view.state} {view.problem}")

    def _sum_up(self) -> None:
        report, clicks = self.report, [each for tab in self.tabs for each in tab.clicks]
        with store.connect(self.layout) as db:
            events = db.execute("SELECT op FROM label_event WHERE analyst LIKE 'analyst %' ORDER BY event").fetchall()
            report.integrity = db.execute("PRAGMA integrity_check").fetchone()[0]
            shown, report.runs = labels.current_labels(db), len(runs.all_runs(db))
        ops = [row[0] for row in events]
        wanted = {each.building_id: each.label for each in clicks}  # the last click on each
        report.clicks, report.acknowledged = len(clicks), len(_acknowledged(self.tabs))
        report.resent = sum(each.messages > 1 for each in clicks)
        report.lost = sorted({*report.lost, *(_acknowledged(self.tabs) - set(ops))})
        report.missing = sorted({each.op for each in clicks} - set(ops))
        report.twice = [op for op, times in Counter(ops).items() if times > 1]
        report.wrong = [each for each, label in wanted.items() if shown.get(each, "cleared") != label]
        report.troubles = [trouble for tab in self.tabs for trouble in (*tab.troubles, *tab.problems)]


def _acknowledged(tabs: list[Tab]) -> set[str]:
    return {each.op for tab in tabs for each in tab.clicks if each.acknowledged_at is not None}


def _stored(layout: Layout) -> set[str]:
    with store.connect(layout) as db:
        return {row[0] for row in db.execute("SELECT op FROM label_event")}
