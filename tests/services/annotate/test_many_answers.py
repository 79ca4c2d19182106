"""What a click, a card and a browser's question cost does not grow with the answers that others gave before."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
from small_parts import add_chips, add_run, answer, op_of, small_project, square_table

from benchmarks import many_buildings
from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import building_history, labeling, presence

N, FEW, MANY = 60, 300, 3000
ASKED = "b0"  # nobody labeled it before


def with_answers(folder: Path, n_events: int) -> Layout:
    layout = small_project(folder, table=square_table(N))
    ids = [f"b{i}" for i in range(N)]
    add_chips(layout, ids, features=np.random.default_rng(0).normal(size=(2, N, 8)).astype(np.float16))
    add_run(layout, ids=ids, scores=np.linspace(0, 1, N))
    with store.connect(layout) as db:
        many_buildings.add_history(db, ids[1:], n_events)
    answer(layout, op_of(ASKED), analyst="ann")
    return layout


def card(layout: Layout, _: sqlite3.Connection) -> None:
    found = building_history.building_history(layout, 0)
    assert [one["label"] for one in found["events"]] == ["positive"]


def hear(layout: Layout, db: sqlite3.Connection) -> None:
    message = {"session": "tab", "analyst": "zoe", "building": 3, "since": labels.last_event(db) - 1}
    found = presence.exchange(layout, message)
    assert found["labels"] == {ASKED: "positive"}


def click_and_undo(layout: Layout, db: sqlite3.Connection) -> None:
    for step in ({"building_id": ASKED, "label": "not_damaged"}, {"undo": True}, {"redo": True}):
        op = {"n": 1, "op": f"s-{labels.last_event(db)}", "screen": "map", **step}
        found = labeling.store_operations(layout, {"session": "s", "analyst": "ann", "ops": [op]})
        assert found["refused"] is None
    assert labels.current_labels(db)[ASKED] == "not_damaged"


def count_after_a_click(layout: Layout, db: sqlite3.Connection) -> None:
    """The labels were read before; a click adds one event."""
    answer(layout, op_of(ASKED, "positive"), analyst="ann")
    assert labels.current_labels(db)[ASKED] == labels.current(db)[ASKED].label == "positive"
    assert labels.pu_set(db).is_positive[0]


def test_it_takes_no_more_steps_of_the_database(tmp_path: Path) -> None:
    few, many = (with_answers(tmp_path / f"{n}.pugeo", n) for n in (FEW, MANY))
    for ask in (hear, card, count_after_a_click, click_and_undo):
        assert steps(many, ask) < 2 * steps(few, ask), ask.__name__


def steps(layout: Layout, ask: Callable[[Layout, sqlite3.Connection], None]) -> int:
    """Count the steps of SQLite's virtual machine, once what is kept in memory is there."""
    n = 0

    def count() -> int:
        nonlocal n
        n += 1
        return 0

    with store.one_connection(), store.connect(layout) as db:
        labels.current_labels(db)
        labels.pu_set(db)
        db.set_progress_handler(count, 1)
        ask(layout, db)
        db.set_progress_handler(None, 1)
    return n


def test_hearing_of_an_answer_takes_no_more_steps_with_more_buildings(tmp_path: Path) -> None:
    few, many = (small_project(tmp_path / f"{n}.pugeo", table=square_table(n)) for n in (FEW, MANY))
    for layout in (few, many):
        answer(layout, op_of("b1"), analyst="ann")
        answer(layout, op_of(ASKED), analyst="ann")
    assert steps(many, hear) < 2 * steps(few, hear)
