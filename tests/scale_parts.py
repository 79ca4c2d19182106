"""Chips that are worth a cluster in tests, and the files of a set by their sha256."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_parts import add_chips, click, small_project

from pu_geo.records import FeatureRequest
from pu_geo.store import events, store
from pu_geo.store.layout import Layout, sha256_of

N = 600  # chips: ten shards of 64
REQUEST = asdict(FeatureRequest("layers", layers=("post",), n_views=3))


def many_chips(folder: Path, n: int = N) -> Layout:
    """A project of n buildings with random chips of the post scene."""
    layout = small_project(folder, n)
    chips = np.random.default_rng(0).integers(0, 255, (n, 3, 16, 16), np.uint8)
    add_chips(layout, [f"b{i}" for i in range(n)], chips=chips, features=np.zeros((1, n, 4), np.float16))
    return layout


def on_first_shard(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, as the first shard is finished."""
    log, left = events.append, [act]

    def append(folder: Path, kind: str, values: Any = None) -> None:
        log(folder, kind, values)
        if kind == "shard" and left:
            left.pop()()

    monkeypatch.setattr(events, "append", append)


@contextmanager
def clicking(layout: Layout, buildings: Sequence[str]) -> Iterator[list[str]]:
    """Click on one building after the other, as a person does in the app, until the end of the block; yield what was acknowledged."""
    clicked: list[str] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.01):
            building = buildings[len(clicked) % len(buildings)]
            click(layout, building)
            clicked.append(building)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield clicked
    finally:
        is_over.set()
        thread.join()


def stored_clicks(layout: Layout) -> list[str]:
    """Return the buildings that a project has clicks on, oldest first."""
    with store.connect(layout) as db:
        return [row[0] for row in db.execute("SELECT building_id FROM label_event ORDER BY rowid")]


def wait_for(is_so: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def sha256_of_features(layout: Layout, name: str) -> str:
    return sha256_of(layout.features("set", name))


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind in a job's log."""
    return [event for event in events.read(folder) if event["event"] == kind]
