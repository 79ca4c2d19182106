"""Clicks over HTTP while the app's server is killed again and again, a job writes to the project and another program reads it."""

import http.client
import json
import random
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pu_geo import jobs
from pu_geo.lifecycle import projects
from pu_geo.store import labels, runs, store
from pu_geo.store.layout import Layout
from tests.browser.real_app import AppServer, made_up_project
from tests.small_parts import with_key

N_BUILDINGS, N_ANALYSTS = 600, 3
LABELS = ("positive", "not_damaged", "cleared")
MOST_OPEN = 15  # who sees that nothing is saved any more stops clicking for a while
SLOWEST_CLICK_S, LONGEST_LIFE_S, BETWEEN_JOBS_S = 0.5, 0.5, 10.0

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


class Analyst(threading.Thread):
    """Clicks buildings of its own, whether there is a server or not, and sends what waits until it is acknowledged.

    Attributes:
        clicks: [{"n", "op", "building_id", "label"}]; those below `n_acknowledged` are acknowledged, those below `n_sent` were
            in a message.
        resent: how many messages carried what an earlier one had carried.
    """

    def __init__(self, server: AppServer, layout: Layout, number: int, n_clicks: int | None = None) -> None:
        super().__init__(daemon=True)
        self._url = f"{server.address}/pugeo/{projects.token_of(layout)}/operations"
        self._headers = {"Content-Type": "application/json", "Cookie": server.cookie}
        self._rng, self._number, self._n_clicks = random.Random(number), number, n_clicks
        self._session = str(uuid.uuid4())
        self.clicks: list[dict[str, object]] = []
        self.n_acknowledged = self.n_sent = self.resent = 0
        self.is_over, self.is_sending = False, False
        self.refused: list[object] = []
        self.start()

    def run(self) -> None:
        while not self.is_over or self.n_acknowledged < len(self.clicks):
            self.is_over = self.is_over or len(self.clicks) == self._n_clicks
            if not self.is_over and len(self.clicks) - self.n_acknowledged < MOST_OPEN:
                self._click()
            self._send()
            time.sleep(self._rng.uniform(0, SLOWEST_CLICK_S))

    def _click(self) -> None:
        n = len(self.clicks) + 1
        building = f"b{self._rng.choice(range(100 + self._number, N_BUILDINGS, N_ANALYSTS)):06d}"
        label = self._rng.choice(LABELS)
        self.clicks.append({"n": n, "op": f"{self._session}-{n}", "building_id": building, "label": label})

    def _send(self) -> None:
        waiting = self.clicks[self.n_acknowledged :]
        if not waiting:
            return
        self.resent += self.n_sent > self.n_acknowledged
        self.n_sent, self.is_sending = len(self.clicks), True
        message = {"session": self._session, "analyst": f"analyst {self._number}", "ops": waiting}
        request = urllib.request.Request(self._url, json.dumps(message).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                found = json.load(answer)
        except (OSError, ValueError, EOFError, http.client.HTTPException):
            return
        finally:
            self.is_sending = False
        self.n_acknowledged = found["n"]
        self.refused += [found["refused"]] if found["refused"] else []

    @property
    def acknowledged(self) -> set[object]:
        return {each["op"] for each in self.clicks[: self.n_acknowledged]}

    @property
    def open(self) -> set[object]:
        """Operations that were sent and that nobody acknowledged."""
        return {each["op"] for each in self.clicks[self.n_acknowledged : self.n_sent]}


@dataclass
class Report:
    """What became of the clicks.

    Attributes:
        open_at_a_kill: clicks that were sent and not acknowledged when the server was killed, summed over the kills.
        stored_unacknowledged: of these, the ones that were on disk already and so came again; counted at every second kill.
        lost: ids of acknowledged operations that are not in the project, at any kill or at the end.
        twice, missing: operations stored more than once, or not at all though every click was acknowledged in the end.
        wrong: buildings whose label is not that of the last click on them.
        jobs, reads, reads_refused: what ran beside.
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
    reads: int = 0
    reads_refused: int = 0
    seconds: float = 0.0


def kill_and_click(
    folder: Path, n_kills: int, *, kind: type[AppServer] = AppServer,
    after_kill: Callable[[int, Report], None] = lambda number, report: None,
) -> Report:  # fmt: skip
    """Kill the server `n_kills` times while analysts click; everything is acknowledged in the end.

    Args:
        folder: empty; the project and the log of the server are left in it.
        kind: how the server is started anew.
        after_kill: called with how many there were, and what was found so far.
    """
    start, report, rng = time.monotonic(), Report(n_kills), random.Random(0)
    layout, home, stop = made_up_town(folder), folder / "home", folder / "stop"
    code = [sys.executable, "-c", textwrap.dedent(READER), str(layout.gpkg), str(stop), str(N_BUILDINGS)]
    reading = subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with reading as reader, kind(home, project=layout) as server:
        analysts = [Analyst(server, layout, number) for number in range(N_ANALYSTS)]
        worker = threading.Thread(target=_work, args=(layout, stop, report))
        worker.start()
        try:
            for number in range(n_kills):
                _kill(server, analysts, layout, report, rng, is_counted=number % 2 == 0)
                after_kill(number + 1, report)
        finally:
            for analyst in analysts:
                analyst.is_over = True
            stop.touch()
        for thread in (*analysts, worker):
            thread.join(120)
        printed, wrong = reader.communicate(timeout=120)
        assert reader.returncode == 0, wrong
    report.reads, report.reads_refused = map(int, printed.split())
    sum_up(layout, analysts, report)
    report.seconds = round(time.monotonic() - start, 1)
    return report


def made_up_town(folder: Path) -> Layout:
    """Make the project, and list it among the recent ones of `folder / "home"`, so that a server knows its token."""
    layout = made_up_project(folder / "killed.pugeo", [f"b{i:06d}" for i in range(N_BUILDINGS)])
    (with_key(folder / "home") / "recent.json").write_text(json.dumps([{"path": str(layout.folder), "used_at": ""}]))
    return layout


def _kill(
    server: AppServer, analysts: list[Analyst], layout: Layout, report: Report, rng: random.Random, *, is_counted: bool
) -> None:
    before = [analyst.n_acknowledged for analyst in analysts]
    while before == [analyst.n_acknowledged for analyst in analysts]:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, LONGEST_LIFE_S))
    while is_counted and not any(analyst.is_sending for analyst in analysts):  # in the middle of a click
        time.sleep(0)
    server.end()
    while any(analyst.is_sending for analyst in analysts):  # what it had sent already still arrives
        time.sleep(0.01)
    waiting = set[object]().union(*(analyst.open for analyst in analysts))
    report.open_at_a_kill += len(waiting)
    if is_counted:  # reading cleans up after the dead one, so every other time the next server does that
        stored = set(_stored(layout))
        report.stored_unacknowledged += len(stored & waiting)
        report.lost += [str(op) for analyst in analysts for op in analyst.acknowledged - stored]
    server.start()


def _work(layout: Layout, stop: Path, report: Report) -> None:
    """Rank and export as jobs, one after another: the one writes a run, the other reads it all."""
    out = str(layout.folder.parent / "map.geojson")
    while not stop.exists():
        for task, args in (("rank", {}), ("export", {"run_id": "latest", "format": "geojson", "out": out})):
            ended = jobs.wait(layout, jobs.start(layout, task, args), seconds=120)
            report.jobs += 1
            if ended.state != "done":
                report.troubles.append(f"{task}: {ended.state} {ended.problem}")
            next_one = time.monotonic() + BETWEEN_JOBS_S
            while time.monotonic() < next_one and not stop.exists():
                time.sleep(0.1)


def sum_up(layout: Layout, analysts: list[Analyst], report: Report) -> None:
    clicks = [each for analyst in analysts for each in analyst.clicks]
    with store.connect(layout) as db:
        report.integrity = db.execute("PRAGMA integrity_check").fetchone()[0]
        shown, report.runs = labels.current_labels(db), len(runs.all_runs(db))
    ops = _stored(layout)
    wanted = {str(each["building_id"]): each["label"] for each in clicks}  # the last click on each
    report.clicks, report.acknowledged = len(clicks), sum(len(analyst.acknowledged) for analyst in analysts)
    report.resent = sum(analyst.resent for analyst in analysts)
    report.lost += [str(op) for analyst in analysts for op in analyst.acknowledged - set(ops)]
    report.missing = sorted({str(each["op"]) for each in clicks} - set(ops))
    report.twice = [op for op, times in Counter(ops).items() if times > 1]
    report.wrong = [each for each, label in wanted.items() if shown.get(each, "cleared") != label]
    report.troubles += [str(each) for analyst in analysts for each in analyst.refused]


def _stored(layout: Layout) -> list[str]:
    with store.connect(layout) as db:
        return [row[0] for row in db.execute("SELECT op FROM label_event WHERE analyst LIKE 'analyst %' ORDER BY event")]
