"""Clicks, a worker that stores runs, and an outside OGR reader at the same time: nothing acknowledged is lost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from small_parts import add_run

from pu_geo.project import labels, runs, store
from pu_geo.project.labels import Ack
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp

N_CLICKS = 60
N_RUNS = 3
N_THREADS = 2

READER = """
    import sys, time, pyogrio
    reads, until = 0, time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        frame = pyogrio.read_dataframe(sys.argv[1], layer="damage_map")
        assert len(frame) == 20
        reads += 1
    print(reads)
"""
WORKER = """
    import sys
    sys.path[:0] = sys.argv[2:]
    from test_nothing_lost import store_runs
    from pu_geo.project.layout import find_project
    store_runs(find_project(sys.argv[1]))
"""


def store_runs(layout: Layout) -> None:
    """What a training worker does at its end, several times."""
    for number in range(N_RUNS):
        scores = np.random.default_rng(number).random(20)
        add_run(layout, f"ranker-{number}", scores=scores, arrays={"embeddings": np.eye(20, dtype=np.float32)})


def click(layout: Layout, analyst: str, acks: list[Ack]) -> None:
    for i in range(N_CLICKS):
        op = LabelOp(f"{analyst}-{i}", f"b{i % 20}", "positive" if i % 2 else "cleared")
        with store.connect(layout) as db:
            acks.extend(labels.append(db, [op], analyst=analyst, screen="map"))


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    code = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_clicks_worker_and_outside_reader_at_once_lose_nothing(project: Layout) -> None:
    reader = start(READER, str(project.gpkg), "2")
    worker = start(WORKER, str(project.folder), *map(str, Path(__file__).parents[:2]))
    acks: list[list[Ack]] = [[] for _ in range(N_THREADS)]
    analysts = [threading.Thread(target=click, args=(project, f"ann{i}", acks[i])) for i in range(N_THREADS)]
    for analyst in analysts:
        analyst.start()
    for analyst in analysts:
        analyst.join()
    for process in (worker, reader):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert int(out) > 1  # the reader did read while the others wrote

    acknowledged = {ack.event: ack.op for part in acks for ack in part}
    with store.connect(project) as db:
        stored = dict(db.execute("SELECT event, op FROM label_event"))
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert len(runs.all_runs(db)) == N_RUNS
    assert stored == acknowledged
    assert len(stored) == N_THREADS * N_CLICKS


@pytest.mark.slow
def test_acknowledged_clicks_survive_a_kill(project: Layout) -> None:
    script = """
        import sys
        from pu_geo.project import labels, store
        from pu_geo.project.layout import find_project
        from pu_geo.records import LabelOp
        layout = find_project(sys.argv[1])
        for i in range(10_000):
            with store.connect(layout) as db:
                op = LabelOp(f"op{i}", f"b{i % 20}", "positive")
                print(labels.append(db, [op], analyst="ann", screen="map")[0].op, flush=True)
    """
    process = start(script, str(project.folder))
    told = [process.stdout.readline().strip() for _ in range(40)]
    process.kill()
    told += process.stdout.read().split()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    with store.connect(project) as db:
        stored = {row[0] for row in db.execute("SELECT op FROM label_event")}
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert set(told) <= stored
