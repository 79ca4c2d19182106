"""A large project against a small one: `python -m benchmarks.many_buildings [PART] [--size 200000|300000|1000000]`.

The large one has 200,000 buildings, or as many as asked for, 1,000,000 labels and 500 runs. `--make FOLDER` makes it alone; of 1,000,000
buildings that takes 3.3 GB of memory and 7 GB of disk, `--in FOLDER` measures one that was made so, without the small one beside it.
The part `outlines` is another: the map of 200,000, 300,000 and 1,000,000 buildings in a browser, see `measure_outlines`; it needs
Chromium, and takes sizes: `python -m benchmarks.many_buildings outlines 200000`.

Both projects are made in a temporary folder, about 1 GB, and measured in the same run, each in processes of its own. Every figure is
printed in seconds on the clock and of the processor, with the ratio of the large project to the small one. Nothing is drawn at random
that a seed does not fix.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from streamlit.config import set_option
from streamlit.testing.v1 import AppTest

from benchmarks.browser_frames import opened
from benchmarks.timing import best_times
from pu_geo.answers import building_history, labeling, presence, queueing, ranking
from pu_geo.lifecycle import projects
from pu_geo.scenes import outlines
from pu_geo.store import alignment, contents, labels, run_names, runs, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout
from pu_geo.ui.damage_map.texts import TAB_EXPORT
from tests.browser.real_app import REPOSITORY, add_island_run, made_up_project

SMALL, LARGE = (2_000, 10_000, 5), (200_000, 1_000_000, 500)
"""Buildings, label events, runs."""
SIZES = (200_000, 300_000, 1_000_000)
SHARE_LABELED = 0.6
N_VIEWS, DIM = 2, 512  # of features; random convolutions have 17 views, which would be 3.5 GB
ANALYSTS = ("ann", "bob", "eva", "kim", "lee")
GRADES = ("destroyed", "major", "minor", "")
LASSO = 33_000
PAGES = ("project", "imagery", "train", "explore", "damage_map")
_COLUMNS = (
    "event", "op", "building_id", "label", "analyst", "at", "screen", "kind", "undoes", "act", "reason", "damage_types", "comment",
    "shown", "inclusion", "answer", "grade",
)  # fmt: skip


def make(folder: Path, n_buildings: int, n_events: int, n_runs: int) -> Layout:
    """Make a project: footprints of a grid of rectangles, chips with features, a history of clicks, and runs."""
    ids = [f"b{i:06d}" for i in range(n_buildings)]
    layout = made_up_project(folder, ids, cloud_share=_cloud_shares(n_buildings), nodata_share=[0.0] * n_buildings)
    with store.connect(layout) as db:
        _add_attributes(db)
        add_history(db, ids, n_events)
    _write_features(layout, n_buildings)
    _write_alignment(layout, ids)
    add_island_run(layout, ids)
    _add_runs(layout, n_runs)
    projects.open_project(str(layout.folder))
    return layout


def add_history(db: sqlite3.Connection, ids: Sequence[str], n_events: int) -> None:
    """Add events as five analysts leave them, in one transaction and without the checks that clicks go through."""
    marks, first = ", ".join("?" * len(_COLUMNS)), labels.last_event(db) + 1
    with store.transaction(db):
        rows = _history(ids, first, n_events)
        db.executemany(f"INSERT INTO label_event ({', '.join(_COLUMNS)}) VALUES ({marks})", rows)


def _add_attributes(db: sqlite3.Connection) -> None:
    """Give footprints what files of them carry."""
    facts = "json_object('class', 'residential', 'height_m', fid % 20, 'source', 'OpenStreetMap', 'name', 'House ' || fid)"
    with store.transaction(db):
        db.execute(f"UPDATE footprints SET attributes = {facts}")


def _write_features(layout: Layout, n: int) -> None:
    """Replace the features by ones of the size that random convolutions have; every sixth building is another kind."""
    rng = np.random.default_rng(3)
    views = np.lib.format.open_memmap(layout.features("main"), mode="w+", dtype=np.float16, shape=(N_VIEWS, n, DIM))
    for view in views:
        for first in range(0, n, 10_000):
            part = view[first : first + 10_000]
            part[:] = rng.standard_normal(part.shape, np.float32)
            part[-first % 6 :: 6, :64] += np.float16(1)
    views.flush()


def _write_alignment(layout: Layout, ids: Sequence[str]) -> None:
    zeros, ones = np.zeros(len(ids)), np.ones(len(ids), np.bool_)
    found = Alignment(ids, zeros + 0.5, zeros - 0.25, zeros + 0.9, ones, ~ones, np.zeros(2))
    alignment.save(layout, found, store.call(layout, contents.scenes))


def _cloud_shares(n: int) -> list[float]:
    """One building in fifty is under a cloud."""
    return [0.9 if i % 50 == 7 else 0.0 for i in range(n)]


@dataclass
class _Analyst:
    """What an analyst did so far: a session's name, and the acts that can be undone and redone, each a list of events."""

    name: str
    session: str
    standing: list[tuple[str, list[int]]] = field(default_factory=list)
    undone: list[tuple[str, list[int]]] = field(default_factory=list)


def _history(ids: Sequence[str], first: int, n_events: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of a history as five analysts leave one: clicks, acts on many buildings, undo, redo, grades, random checks.

    `tests/store/test_label_histories.py` compares one with what the log itself makes of the same operations.
    """
    rng = np.random.default_rng(7)
    answered = rng.permutation(len(ids))[: int(SHARE_LABELED * len(ids))].tolist()
    people = [_Analyst(name, str(uuid.UUID(bytes=rng.bytes(16)))) for name in ANALYSTS]
    what = np.frombuffer(rng.bytes(n_events), np.uint8)
    who, which = rng.integers(0, len(people), n_events), rng.integers(0, len(answered), n_events)
    answers: dict[int, tuple[Any, ...]] = {}  # event -> its building and what makes up its answer
    on_building: dict[int, list[int]] = {}  # answers that stand, oldest first
    event, end = first, first + n_events
    while event < end:
        one, k = people[who[event - first]], int(what[event - first])
        kind = "redo" if one.undone and k % 5 == 1 else "undo" if one.standing and k < 6 else "set"
        if kind != "set":
            act, targets = (one.undone if kind == "redo" else one.standing).pop()
            step = f"{kind}:{one.session}-{event}"
            (one.undone if kind == "undo" else one.standing).append((act, targets))
            for target in reversed(targets) if kind == "undo" else targets:
                if event >= end:
                    return
                building = answers[target][0]
                standing = on_building[building]
                if kind == "undo":
                    standing.remove(target)
                else:
                    insort(standing, target)
                last = standing[-1] if standing else None
                values = answers[last][1:] if last else ("cleared", "", "[]", "", "", None, "")
                yield _row(event, one, ids[building], values, kind, step, target, last)
                event += 1
            continue
        n = int(which[event - first]) % 60 + 2 if k == 8 else 1
        act, made = f"act-{one.session}-{event}", []
        for place in range(min(n, end - event)):
            building = answered[(which[event - first - place] + place) % len(answered)]
            values = _values(int(what[event - first]), int(which[event - first]))
            yield _row(event, one, ids[building], values, "set", act, None, None)
            answers[event] = (building, *values)
            on_building.setdefault(building, []).append(event)
            made.append(event)
            event += 1
        one.standing.append((act, made))
        one.undone.clear()


def _values(k: int, m: int) -> tuple[Any, ...]:
    """Return label, reason, damage types, comment, shown, inclusion and grade of an answer."""
    shown = "audit" if m % 50 == 9 else ("", "exploit", "exploit", "explore")[k % 4]
    inclusion = 0.05 if shown == "audit" else None
    if m % 100 < 30:
        kinds = json.dumps(["roof", "walls"][: m % 3])
        return "positive", "", kinds, "roof is gone" if m % 97 == 0 else "", shown, inclusion, GRADES[m % 4]
    if m % 100 > 96:
        return "not_assessable", "cloud", "[]", "", shown, inclusion, ""
    return "cleared" if m % 100 == 96 else "not_damaged", "", "[]", "", shown, inclusion, ""


def _row(
    event: int, one: _Analyst, building: str, values: tuple[Any, ...], kind: str, act: str, undoes: int | None, answer: int | None
) -> tuple[Any, ...]:  # fmt: skip
    label, reason, kinds, comment, shown, inclusion, grade = values
    at = f"2026-05-{1 + event // 86_400 % 28:02d}T{event // 3600 % 24:02d}:{event // 60 % 60:02d}:{event % 60:02d}.000Z"
    return (
        event, f"{one.session}-{event}", building, label, one.name, at, "map", kind, undoes, act, reason, kinds, comment, shown,
        inclusion, answer, grade,
    )  # fmt: skip


def _add_runs(layout: Layout, n_runs: int) -> None:
    """Add runs like the first one. Their files are links to its files, so that 500 of them fit on the disk."""
    source, links = layout.run("islands-1"), ("building_ids.json", "scores.npy", "manifest.json")
    with store.connect(layout) as db, store.transaction(db):
        usual = runs.find(db, "islands-1")
        for number in range(2, n_runs + 1):
            name = f"islands-{number}"
            layout.run(name).mkdir()
            for file in links:
                os.link(source / file, layout.run(name) / file)
            at = f"2026-06-{1 + number // 24 % 28:02d}T{number % 24:02d}:00:00.000Z"
            facts = replace(usual, run_id=name, created_at=at)
            db.execute("INSERT INTO run VALUES (?, ?, ?, ?)", (name, facts.method, at, json.dumps(asdict(facts))))


# What is measured


class Timed:
    """Times of named steps, in the order in which they were taken: on the clock and of the processor, seconds."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float]] = {}

    def __call__(self, name: str, work: Callable[[], object], *, best_of: int = 1) -> None:
        self.found[name] = best_times(best_of, work)

    def drawn(self, name: str, draw: Callable[[], AppTest]) -> AppTest:
        """Time the drawing of a screen; its processor time is that of the page's thread, without the ranking in the background."""
        began = time.perf_counter()
        app = draw()
        self.found[name] = (time.perf_counter() - began, float(app.session_state["cpu_s"]))
        return app


SCREEN = """
import runpy, time
import streamlit as st
began = time.thread_time()
from pu_geo.store.store import one_connection
from pu_geo.lifecycle import projects
from pu_geo.ui import frame
with one_connection():
    projects.summary(frame.current())
    runpy.run_path({page!r})
st.session_state["cpu_s"] = time.thread_time() - began
"""
"""What `frame.draw` does for a page, without the sidebar's widgets; it notes the processor time of its own thread."""


def page(name: str, layout: Layout) -> AppTest:
    """Open a page in a session of its own, and refuse one that ends in an exception."""
    app = AppTest.from_string(SCREEN.format(page=str(REPOSITORY / "pages" / f"{name}.py")), default_timeout=600)
    app.session_state["project"], app.session_state["analyst_name"] = str(layout.folder), ANALYSTS[0]
    return rerun(app)


def rerun(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, app.exception
    return app


def message_of(buildings: Sequence[str], *, label: str = "positive", session: str) -> dict[str, Any]:
    """Return what a browser sends after an act on some buildings."""
    shared = {"n": 1, "op": f"{session}-1", "label": label, "act": session, "screen": "map"}
    about = {"building_ids": list(buildings)} if len(buildings) > 1 else {"building_id": buildings[0]}
    return {"session": session, "analyst": ANALYSTS[0], "ops": [{**shared, **about}]}


def send(layout: Layout, message: dict[str, Any]) -> None:
    """Store what a browser sent, and refuse to measure an act that changed nothing."""
    before = store.call(layout, labels.last_event)
    found = labeling.store_operations(layout, message)
    assert found is not None, message
    assert found["refused"] is None, found["refused"]
    assert found["event"] >= before + found["n"], (before, found)


def here(layout: Layout, since: int) -> dict[str, Any]:
    """Return what a browser sends every few seconds."""
    return presence.exchange(layout, {"session": "tab", "analyst": ANALYSTS[1], "building": 3, "since": since}) or {}


def measure_first_draw(layout: Layout, timed: Timed) -> None:
    """Draw Annotate in a process that has done nothing before, then go on as an analyst does."""
    app = timed.drawn("Annotate, first draw", lambda: page("annotate", layout))
    timed.drawn("Annotate, drawn again", lambda: rerun(app))
    timed("the first ranking, after that", lambda: ranking.rank_now(layout))
    timed("until all are ranked", lambda: _wait_for_all(layout))
    timed.drawn("Annotate, drawn with the ranking", lambda: rerun(app))
    send(layout, message_of(["b000001"], session="first"))
    timed.drawn("Annotate, drawn after a click", lambda: rerun(app))


def measure_answers(layout: Layout, timed: Timed) -> None:
    """Measure what routes answer, in a process that has done nothing before."""
    newest = store.call(layout, labels.last_event)
    timed("building card, first", lambda: building_history.building_history(layout, 77))
    places = iter(range(100, 200))
    timed("building card", lambda: building_history.building_history(layout, next(places)), best_of=5)
    timed("presence, first", lambda: here(layout, newest))
    timed("presence, nothing new", lambda: here(layout, newest), best_of=5)
    numbers = iter(range(100))

    def click() -> None:
        send(layout, message_of([f"b{next(numbers) + 500:06d}"], session=f"click-{next(numbers)}"))

    timed("a click is stored", click, best_of=5)
    timed("presence, after clicks", lambda: here(layout, newest), best_of=5)

    def undo() -> None:
        session = f"undo-{next(numbers)}"
        undo = {"n": 1, "op": f"{session}-1", "undo": True, "screen": "map"}
        send(layout, {"session": session, "analyst": ANALYSTS[0], "ops": [undo]})

    timed("an undo is stored", undo, best_of=2)
    timed("live ranking, first", lambda: ranking.rank_now(layout))
    timed("until all are ranked, the first time", lambda: _wait_for_all(layout))
    click()
    timed("live ranking after a click", lambda: ranking.rank_now(layout))
    timed("until all are ranked", lambda: _wait_for_all(layout))
    timed("similar buildings, first", lambda: ranking.most_alike(layout, "b000077", 6))
    timed("similar buildings", lambda: ranking.most_alike(layout, "b000078", 6))
    timed("the next queue", lambda: _next_queue(layout))
    timed("counts of the sidebar", lambda: projects.summary(layout), best_of=2)
    timed("names of all runs", lambda: run_names.names(layout), best_of=2)
    lasso = [f"b{i:06d}" for i in range(min(LASSO, contents_of(layout) // 2))]
    timed("a lasso is stored", lambda: send(layout, message_of(lasso, session="lasso")))
    timed("presence, after a lasso", lambda: here(layout, newest), best_of=2)
    timed("building card, after a lasso", lambda: building_history.building_history(layout, 5))
    timed("undo of a lasso", undo)


def contents_of(layout: Layout) -> int:
    return store.call(layout, contents.count_footprints)


def _wait_for_all(layout: Layout) -> None:
    while (now := ranking.rank_now(layout)) is not None and not now.is_complete:
        time.sleep(0.05)


def _next_queue(layout: Layout) -> None:
    found = queueing.current(layout, ANALYSTS[0])
    assert found is not None
    queueing.advance(layout, ANALYSTS[0], done=found.id)


def measure_pages(layout: Layout, timed: Timed) -> None:
    """Draw the other screens, each for the first time and once more, and the form of an export."""
    for name in PAGES:
        app = timed.drawn(f"{name}, first draw", lambda name=name: page(name, layout))
        timed.drawn(f"{name}, drawn again", lambda app=app: rerun(app))
    app.session_state["damage-tab"] = TAB_EXPORT
    timed.drawn("the export form", lambda: rerun(app))


PARTS: dict[str, Callable[[Layout, Timed], None]] = {
    "draw": measure_first_draw, "answers": measure_answers, "pages": measure_pages,
}  # fmt: skip


# The map in a browser


def measure_outlines(place: Path, n: int) -> dict[str, float]:
    """Open the damage map of n buildings twice, zoom in, and pan.

    Returns:
        `made_s`: until the outlines were made, which only the first who opens the map waits for; `first_mb`: what the browser needs
        of all buildings, `tiles_mb`: all outlines, of which it fetches those in view. `opened_s`, `again_s`: until all is drawn, in a
        fresh process and after a reload; `outlines_s`: of that, from asking for the outlines until they can be drawn. `near_s`: from
        zooming in until outlines are there. `pan_ms`: from frame to frame there; `far_ms`: the same with all buildings in view;
        `far_longest_ms`: the frame in which they are drawn anew. `heap_mb`, `buffers_mb`, `tab_mb`: JavaScript objects and arrays, and
        resident memory of the page's process. `server_mb`: the most memory that the server held.
    """
    with opened(place, n) as (app, page):
        layout = Layout(place / "town.pugeo")
        began = time.perf_counter()
        first = outlines.first_part(layout)
        found: dict[str, float] = {"made_s": time.perf_counter() - began, "first_mb": len(first) / 1e6}
        kept = layout.outlines(store.call(layout, contents.geometry_v))
        found["tiles_mb"] = kept.stat().st_size / 1e6 - found["first_mb"]
        found |= _opened(page, lambda: page.goto(f"{app.address}/damage_map"), "opened_s")
        found |= _opened(page, page.reload, "again_s")
        found["outlines_s"] = page.evaluate("window.__pugeo.loadTime()")["ready"] / 1000
        found |= _moved(page)
        found |= _memory(page)
        found["server_mb"] = _most_memory_mb(app.process.pid)
    return found


def _opened(page: Any, act: Callable[[], object], name: str) -> dict[str, float]:
    began = time.perf_counter()
    act()
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=600_000)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return {name: time.perf_counter() - began}


def _moved(page: Any) -> dict[str, float]:
    page.wait_for_timeout(3000)  # pictures of the chip wall
    far = page.evaluate("window.__pugeo.measurePan(60, 6)")
    began = time.perf_counter()
    page.evaluate("() => { const [x, y] = window.__pugeo.look().center; window.__pugeo.setView([x, -y], 1); }")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_function("window.__pugeo.outlines().missing === 0", timeout=60_000)
    near = time.perf_counter() - began
    pan = page.evaluate("window.__pugeo.measurePan(60, 6)")
    return {"near_s": near, "pan_ms": pan["mean"], "far_ms": far["mean"], "far_longest_ms": far["longest"]}


def _memory(page: Any) -> dict[str, float]:
    link = page.context.new_cdp_session(page)
    link.send("HeapProfiler.collectGarbage")
    heap = link.send("Runtime.getHeapUsage")
    tabs = [one for one in psutil.Process().children(recursive=True) if "--type=renderer" in one.cmdline()]
    tab_mb = max(one.memory_info().rss for one in tabs) / 1e6
    return {"heap_mb": heap["usedSize"] / 1e6, "buffers_mb": heap["backingStorageSize"] / 1e6, "tab_mb": tab_mb}


def _most_memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main_outlines(sizes: Sequence[int]) -> None:
    """Measure each size and print a line of it."""
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="map-outlines-") as place:
            os.environ["PU_GEO_HOME"] = str(Path(place) / "home")
            found = measure_outlines(Path(place), n)
        print(json.dumps({"buildings": n, **{name: round(value, 2) for name, value in found.items()}}), flush=True)
    print(json.dumps({"load": os.getloadavg()}))


def measure(folder: Path, part: str) -> dict[str, Any]:
    """Measure a part in this process, with the app's own settings; return its times and the most memory it held, MB."""
    from app import COLLECT_AFTER, CONFIG

    gc.set_threshold(*COLLECT_AFTER)
    set_option("runner.postScriptGC", CONFIG["runner.postScriptGC"])
    timed = Timed()
    PARTS[part](Layout(folder), timed)
    return {"times": timed.found, "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _in_a_process(folder: Path, part: str) -> dict[str, Any]:
    """Measure a part of a copy of the database in a fresh process, so that parts do not see what others stored."""
    environment = {**os.environ, "PU_GEO_HOME": str(folder.parent / "home"), "PYTHONPATH": str(REPOSITORY)}
    kept = folder.parent / f"{folder.name}.kept"
    shutil.copyfile(folder / "project.gpkg", kept)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.many_buildings", "--measure", str(folder), part], env=environment,
            stdout=subprocess.PIPE, check=True, text=True, cwd=REPOSITORY,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])
    finally:
        for end in ("-wal", "-shm"):
            (folder / f"project.gpkg{end}").unlink(missing_ok=True)
        kept.replace(folder / "project.gpkg")
        shutil.rmtree(folder / "queues", ignore_errors=True)


def _print_facts(name: str, size: tuple[int, int, int], folder: Path, seconds: float) -> None:
    files = [file.stat() for file in folder.rglob("*") if file.is_file()]
    used = sum(file.st_size for file in files if file.st_nlink == 1)
    facts = {"project": name, "buildings": size[0], "events": size[1], "runs": size[2], "made_in_s": round(seconds, 1)}
    print(json.dumps({**facts, "mb": round(used / 1e6)}), flush=True)


def main(wanted: str, large: tuple[int, int, int], there: Path | None) -> None:
    """Measure each part of a large project, and of a small one beside it, and print a line a figure.

    Args:
        wanted: part of the names of the parts to measure.
        large: buildings, events and runs of the large project.
        there: a large project that was made before; the small one is left out.
    """
    with tempfile.TemporaryDirectory(prefix="many-buildings-") as place:
        os.environ["PU_GEO_HOME"] = str(Path(place) / "home")
        made: list[Path] = [] if there is None else [there]
        for name, size in (("small", SMALL), ("large", large)) if there is None else ():
            began = time.perf_counter()
            made.append(make(Path(place) / f"{name}.pugeo", *size).folder)
            _print_facts(name, size, made[-1], time.perf_counter() - began)
        for part in (part for part in PARTS if wanted in part):
            *before, found = (_in_a_process(folder, part) for folder in made)
            for step, (clock, processor) in found["times"].items():
                row = {"step": step, "s": round(clock, 3), "cpu_s": round(processor, 3)}
                for small in before:
                    small_s = small["times"][step][0]
                    row |= {"small_s": round(small_s, 4), "ratio": round(clock / max(small_s, 1e-6), 1)}
                print(json.dumps(row), flush=True)
            print(json.dumps({"memory of": part, "mb": [round(each["rss_mb"]) for each in (found, *before)]}), flush=True)
            print(json.dumps({"load": os.getloadavg()}), flush=True)


def _arguments() -> argparse.Namespace:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("part", nargs="?", default="", help=f"part to measure: {', '.join(PARTS)}; all without it")
    asked.add_argument("--size", type=int, default=LARGE[0], choices=SIZES, help="buildings of the large project")
    asked.add_argument("--make", type=Path, metavar="FOLDER", help="make the large project alone, in this folder")
    asked.add_argument("--in", type=Path, metavar="FOLDER", dest="there", help="measure the large project of this folder")
    return asked.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3])))
    elif sys.argv[1:2] == ["outlines"]:
        main_outlines([int(n) for n in sys.argv[2:]] or SIZES)
    else:
        options = _arguments()
        large = (options.size, *LARGE[1:])
        if options.make:
            make(options.make, *large)
        else:
            main(options.part, large, options.there)
