"""A browser's operations are stored once, in their order, acknowledged when on disk, and cost no more after many answers."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from small_parts import add_chips, add_run, answer, op_of, small_grid, small_project, small_scene, square_table, with_key

from benchmarks import many_buildings
from pu_geo.answers import building_history, labeling, presence, random_checks
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.records import LabelEvent
from pu_geo.store import contents, labels, store
from pu_geo.store.layout import Layout


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("PU_GEO_HOME", str(with_key(tmp_path / "home")))
    layout = projects.create(str(tmp_path / "town.pugeo"), "town")
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], small_grid())
        contents.add_footprints(db, square_table(5))
    return layout


def click(number: int, building: str, label: str = "positive", **more: object) -> dict[str, object]:
    return {"n": number, "op": f"s-{number}", "building_id": building, "label": label, "screen": "map", **more}


def send(layout: Layout, *ops: dict[str, object], **more: object) -> dict[str, object] | None:
    answer = labeling.store_operations(layout, {"session": "s", "analyst": "ann", "ops": list(ops), **more})
    return None if answer is None else dict(answer)


def current(layout: Layout) -> dict[str, LabelEvent]:
    with store.connect(layout) as db:
        return labels.current(db)


def standing(layout: Layout) -> dict[str, str]:
    return {building: event.label for building, event in current(layout).items()}


def test_clicks_are_stored_in_their_order_once_and_acknowledged_each_time(town: Layout) -> None:
    """A browser answers for nobody else, and at no other time."""
    first = click(1, "b0", analyst="bob", at="2001-01-01T00:00:00Z")
    assert send(town, first) == {"session": "s", "n": 1, "event": 1, "refused": None}
    sent = [first, click(2, "b1"), click(3, "b0", "cleared"), {"n": 4, "op": "s-4", "undo": True}]
    assert send(town, *sent) == {"session": "s", "n": 4, "event": 4, "refused": None}
    assert send(town, *sent) == {"session": "s", "n": 4, "event": 4, "refused": None}
    assert standing(town) == {"b0": "positive", "b1": "positive"}
    assert {event.analyst for event in current(town).values()} == {"ann"}
    assert min(event.at for event in current(town).values()) > "2002"
    asks_for_a_queue = {"n": 5, "op": "s-5", "next": True, "queue": "q"}
    assert send(town, asks_for_a_queue) == {"session": "s", "n": 5, "event": 4, "refused": None}
    graded = [click(6, "b1", grade="destroyed"), click(7, "b1", grade="minor"), click(8, "b2", grade="minor")]
    assert send(town, *graded, {"n": 9, "op": "s-9", "undo": True}, click(10, "b3", grade=None))["refused"] is None
    assert {building: event.grade for building, event in current(town).items()} == {"b0": "", "b1": "minor", "b3": ""}


def test_a_message_that_makes_no_sense_gets_no_answer_and_stores_nothing(town: Layout) -> None:
    for wrong in (
        {"analyst": ""}, {"analyst": None}, {"analyst": "x" * 201}, {"session": ""}, {"session": 5}, {"ops": "x"},
    ):  # fmt: skip
        assert send(town, click(1, "b0"), **wrong) is None, wrong
    assert standing(town) == {}


def test_details_are_stored(town: Layout) -> None:
    details = {"damage_types": ["roof", "walls"], "comment": "<b>", "shown": "exploit", "queue": "q-1", "screen": "card"}
    hidden = {"label": "not_assessable", "screen": "queue", "act": "act", "reason": "cloud"}
    send(town, click(1, "b1", **details), click(2, "b2", **hidden), click(3, "b3", "not_assessable", reason=None))
    first, second, third = (current(town)[building] for building in ("b1", "b2", "b3"))
    assert (first.damage_types, first.comment, first.shown, first.screen) == (("roof", "walls"), "<b>", "exploit", "card")
    assert (second.reason, second.screen, second.analyst) == ("cloud", "queue", "ann")
    assert third.reason == "unclear"


def test_the_server_alone_knows_with_what_probability_an_audit_drew_a_building(
    town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {("ann", "b1"): 0.25}
    monkeypatch.setattr(random_checks, "inclusion_now", lambda _, analyst, building: drawn.get((analyst, building)))
    answers = [click(1, "b1", shown="audit", grade="minor", inclusion=0.9), click(2, "b2", shown="audit")]
    assert send(town, *answers, click(3, "b3", inclusion=0.5)) == {"session": "s", "n": 3, "event": 3, "refused": None}
    found = [(event.shown, event.inclusion) for event in current(town).values()]
    assert found == [("audit", 0.25), ("", None), ("", None)], "what none drew is a plain answer, and not lost"
    teaches = store.call(town, labels.pu_set)
    assert teaches.is_excluded.tolist()[:3] == [False, True, False], "a grade makes no audit's answer one to learn from"


def test_an_operation_that_makes_no_sense_is_refused_for_good_and_the_next_stored(town: Layout) -> None:
    wrong = [
        {"op": ""}, {"op": 7}, {"op": "x" * 201}, {"op": "half \ud83c"}, {"label": "destroyed"}, {"label": ["positive"]},
        {"label": None}, {"building_id": ""}, {"building_id": "b" * 300}, {"building_id": ["b1"]}, {"building_id": 5},
        {"building_id": "nobody"}, {"screen": 3}, {"screen": "x" * 201}, {"act": "x" * 201}, {"act": [1]}, {"reason": "cloud"},
        {"label": "not_assessable", "reason": "rain"}, {"label": "not_assessable", "reason": ["cloud"]},
        {"shown": "by chance"}, {"shown": ["audit"]}, {"comment": 7}, {"comment": "x" * 501}, {"damage_types": "roof"},
        {"damage_types": ["roof", 3]}, {"damage_types": [""]}, {"damage_types": ["x" * 61]}, {"damage_types": ["roof"] * 21},
        {"label": "not_damaged", "grade": "minor"},
    ]  # fmt: skip
    for k, entry in enumerate(wrong):
        first = 3 * k + 1
        answer = send(town, {**click(first, "b1"), **entry}, click(first + 1, "b2"), {"n": first + 2, "op": 8, "undo": True})
        assert (answer["n"], answer["event"], standing(town)) == (first + 2, k + 1, {"b2": "positive"}), entry
        assert "2 of 3 labels were refused" in answer["refused"]["problem"]


def test_what_is_no_operation_is_refused_and_the_rest_stored(town: Layout) -> None:
    bad = [None, 7, [], {"op": "x", "building_id": "b2", "label": "positive"}]
    bad += [click(n, "b2") for n in (True, 0, "2", 2**60)]
    answer = send(town, click(1, "b0"), *bad, click(3, "b1"))
    assert (answer["n"], standing(town)) == (3, {"b0": "positive", "b1": "positive"})
    words = "8 of 10 labels were refused. The first: it is not an object with a number"
    assert answer["refused"]["problem"].startswith(words)


def lasso(number: int, buildings: list[object], **more: object) -> dict[str, object]:
    return click(number, "", act="lasso-1", **more) | {"building_ids": buildings}


def test_one_entry_for_the_buildings_of_a_lasso_stores_a_row_for_each(town: Layout) -> None:
    sent = [click(8, "b4"), lasso(9, ["b0", "b1", "b2"], grade="major"), click(12, "b3", "not_damaged")]
    assert send(town, *sent) == {"session": "s", "n": 12, "event": 5, "refused": None}
    with store.connect(town) as db:
        log = db.execute("SELECT op, building_id, label, act FROM label_event ORDER BY event").fetchall()
    assert [tuple(row) for row in log] == [
        ("s-8", "b4", "positive", "s-8"),
        ("s-9", "b0", "positive", "lasso-1"), ("s-10", "b1", "positive", "lasso-1"), ("s-11", "b2", "positive", "lasso-1"),
        ("s-12", "b3", "not_damaged", "s-12"),
    ]  # fmt: skip
    assert {event.grade for building, event in current(town).items() if building in ("b0", "b1", "b2")} == {"major"}
    again = [click(n, f"b{n - 9}", act="lasso-1", grade="major") for n in (9, 10, 11)]
    assert send(town, lasso(9, ["b0", "b1", "b2"], grade="major")) == {"session": "s", "n": 11, "event": 5, "refused": None}
    assert send(town, *again) == {"session": "s", "n": 11, "event": 5, "refused": None}, "sent one by one"
    assert send(town, {"n": 13, "op": "s-13", "undo": True}, {"n": 14, "op": "s-14", "undo": True})["refused"] is None
    assert standing(town) == {"b4": "positive"}


def test_unreadable_buildings_of_a_lasso_are_refused_and_the_others_stored(
    town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = send(town, lasso(1, ["b0", "nobody", 5, None, ["b1"], "b2"]))
    assert (answer["n"], standing(town)) == (6, {"b0": "positive", "b2": "positive"})
    assert "4 of 6 labels were refused" in answer["refused"]["problem"]
    for op in (None, 5, "", "s", "s-x", "s-\u0663", ["s-1"]):
        answer = send(town, lasso(7, ["b1", "b3"]) | {"op": op})
        assert (answer["n"], "2 of 2 labels were refused" in answer["refused"]["problem"]) == (8, True), op
    assert send(town, lasso(9, [])) == {"session": "s", "n": 8, "event": 2, "refused": None}
    assert set(standing(town)) == {"b0", "b2"}
    monkeypatch.setattr(labeling, "MOST_OPERATIONS", 3)
    assert send(town, click(11, "b4"), lasso(12, ["b0", "b1", "b3"]), click(15, "b3"))["n"] == 13, "up to there"
    assert set(standing(town)) == {"b4", "b0", "b1", "b2"}


def test_nothing_is_acknowledged_where_the_last_of_many_cannot_be_written(
    town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = labels.insert_all

    def fail(db: sqlite3.Connection, rows: list[dict[str, object]]) -> None:
        real(db, [row for row in rows if row["op"] != "s-2"])
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # as SQLite's own errors have it
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(labels, "insert_all", fail)
        with pytest.raises(PuGeoError, match="disk I/O"):
            send(town, click(1, "b0"), click(2, "b1"))
    assert standing(town) == {}
    assert send(town, click(1, "b0"), click(2, "b1")) == {"session": "s", "n": 2, "event": 2, "refused": None}


def test_while_another_program_holds_the_file_the_answer_comes_soon_and_is_no_acknowledgement(
    town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QGIS holds the write lock as long as somebody edits there; the browser keeps its clicks and sends them again."""
    waited, opened = [], sqlite3.connect

    def connect(*where: object, timeout: float, **more: object) -> sqlite3.Connection:
        waited.append(timeout)
        return opened(*where, timeout=0.1, **more)

    with closing(sqlite3.connect(town.gpkg, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(sqlite3, "connect", connect)
        with pytest.raises(PuGeoError, match="locked") as refusal:
            send(town, click(1, "b0"))
        other.execute("ROLLBACK")
    assert (refusal.value.kind, waited) == ("busy", [labeling.PATIENCE_S])
    assert send(town, click(1, "b0"))["refused"] is None


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
