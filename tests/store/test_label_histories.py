"""Random histories of labels: what is kept of the log in memory is what all of it says."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from small_parts import small_project, square_table

from pu_geo.records import LabelEvent, LabelOp
from pu_geo.store import analysts, labels, store
from pu_geo.store.labels import Ack, Given
from pu_geo.store.layout import Layout

N_BUILDINGS = 6
PEOPLE = ("ann", "bob")


class Row(NamedTuple):
    event: int
    op: str
    building: str
    label: str
    analyst: str
    kind: str
    undoes: int | None
    act: str
    shown: str


def log_of(db: sqlite3.Connection) -> list[Row]:
    names = "event, op, building_id, label, analyst, kind, undoes, act, shown"
    return [Row(*row) for row in db.execute(f"SELECT {names} FROM label_event ORDER BY event")]


def some_operation(rng: np.random.Generator, number: int) -> LabelOp:
    """A click, an act on several buildings, clearing, an undo or a redo."""
    kind = rng.choice(["undo", "redo", "set"], p=[0.25, 0.1, 0.65])
    if kind != "set":
        return LabelOp(f"op{number}", step=str(kind))  # type: ignore[arg-type]
    label = str(rng.choice(["positive", "not_damaged", "not_assessable", "cleared"], p=[0.4, 0.35, 0.1, 0.15]))
    is_check = rng.random() < 0.3
    return LabelOp(
        f"op{number}", f"b{rng.integers(N_BUILDINGS)}", label, f"act{number // 10}" if rng.random() < 0.5 else None,  # type: ignore[arg-type]
        reason="cloud" if label == "not_assessable" else "", grade="major" if label == "positive" and number % 2 else "",
        shown="audit" if is_check else "", inclusion=0.5 if is_check else None, comment="ü" * (number % 2),
        damage_types=["roof"] if label == "positive" and number % 3 == 0 else (),
    )  # fmt: skip


def stacks(log: Sequence[Row], analyst: str) -> tuple[list[str], list[str]]:
    """Replay an analyst's whole history: which acts stand, and which can be redone."""
    act_of = {row.event: row.act for row in log}
    kinds = {row.act: (row.kind, act_of.get(row.undoes or 0, "")) for row in log if row.analyst == analyst}
    standing: list[str] = []
    undone: list[str] = []
    for act, (kind, target) in kinds.items():
        if kind == "set":
            standing.append(act)
            undone.clear()
        else:
            source, other = (standing, undone) if kind == "undo" else (undone, standing)
            source.remove(target)
            other.append(target)
    return standing, undone


def taught(own: Sequence[Row]) -> str:
    """Return what a method learns of a building, "" where only an audit labels it, of the answers on it that stand."""
    outside = [row.label for row in own if row.shown != "audit" or row.label == "cleared"]
    return own[-1].label if own[-1].shown != "audit" else outside[-1].replace("cleared", "") if outside else ""


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_is_what_the_whole_log_says(tmp_path: Path, seed: int) -> None:
    layout = small_project(tmp_path / "a.pugeo", table=square_table(N_BUILDINGS))
    rng = np.random.default_rng(seed)
    past: dict[int, dict[str, LabelEvent]] = {}
    for number in range(80):
        with store.connect(layout) as db:
            labels.append(db, [some_operation(rng, number)], analyst=str(rng.choice(PEOPLE)), screen="map")
            last = labels.last_event(db)
            if rng.random() < 0.4:  # so that several events come at once
                continue
            log = log_of(db)
            steps = {row.undoes: row.kind for row in log}
            standing = [row for row in log if row.undoes is None and steps.get(row.event) != "undo"]
            last_answer = {row.building: row for row in standing}
            labeled = {building: row for building, row in last_answer.items() if row.label != "cleared"}
            now = past[last] = labels.current(db)
            assert list(now) == sorted(labeled)
            assert {building: (one.event, one.label) for building, one in now.items()} == {
                building: (row.event, row.label) for building, row in labeled.items()
            }
            assert labels.current_labels(db) == {building: row.label for building, row in labeled.items()}
            view = db.execute("SELECT building_id, label, labeller FROM damage_map WHERE label <> '' ORDER BY building_id")
            assert view.fetchall() == [(building, one.label, one.analyst) for building, one in now.items()]
            own = {(row.building, row.analyst): row.label for row in standing}
            assert {key: event.label for key, event in analysts.own_answers(db).items()} == {
                key: label for key, label in own.items() if label != "cleared"
            }
            what = {building: taught([row for row in standing if row.building == building]) for building in labeled}
            pu = labels.pu_set(db)
            for mask, meant in ((pu.is_positive, {"positive"}), (pu.is_excluded, {"", "not_assessable"})):
                assert list(compress(pu.building_ids, mask)) == [one for one in pu.building_ids if what.get(one) in meant]
            drawn = {row.building: row for row in standing if row.shown == "audit" or row.label == "cleared"}
            sample = {building: one.event for building, one in labels.audit_answers(db).items()}
            assert sample == {b: row.event for b, row in drawn.items() if row.shown == "audit" and row.label != "cleared"}
            earlier = int(rng.choice([*past]))
            assert labels.current(db, at=earlier) == past[earlier]
            newest = {row.building: row for row in log if row.event > earlier}
            changed = {building: one.label for building, one in labels.changed_since(db, earlier, but_by="op1").items()}
            assert changed == {b: row.label for b, row in newest.items() if not row.op.startswith("op1")}
            some = [f"b{i}" for i in range(0, N_BUILDINGS, 2)]
            given = [row for row in standing if row.event > earlier and row.building in some and row.label != "cleared"]
            expected = [Given(row.event, row.building, row.analyst, row.shown == "audit") for row in given]
            assert labels.given_since(db, earlier, some) == expected
            for analyst in PEOPLE:
                done, undone = stacks(log, analyst)
                assert labels.next_act(db, analyst, "undo") == (done[-1] if done else None)
                assert labels.next_act(db, analyst, "redo") == (undone[-1] if undone else None)
                for act in (*done, *undone, "another"):
                    assert labels.next_act(db, analyst, "undo", only=act) == (act if act in done else None)


def test_what_is_kept_follows_a_file_that_took_the_place_of_another(project: Layout, tmp_path: Path) -> None:
    store_label(project, "op1", "b1")
    assert labels_of(project) == {"b1": "positive"}
    with store.connect(project) as db, closing(sqlite3.connect(tmp_path / "copy.gpkg")) as target:
        db.backup(target)
    store_label(project, "op2", "b2")
    assert labels_of(project) == {"b1": "positive", "b2": "positive"}
    for end in ("-wal", "-shm"):
        project.gpkg.with_name(f"{project.gpkg.name}{end}").unlink(missing_ok=True)
    project.gpkg.write_bytes((tmp_path / "copy.gpkg").read_bytes())  # the same inode: a backup was put back
    store_label(project, "op3", "b3")  # has the number of the event that is not there any more
    store_label(project, "op4", "b4")
    assert labels_of(project) == dict.fromkeys(("b1", "b3", "b4"), "positive")


def test_what_is_rolled_back_is_not_kept_and_what_a_caller_changes_is_its_own(project: Layout) -> None:
    store_label(project, "op1", "b1")
    with store.connect(project) as db:
        with suppress(KeyError), store.transaction(db):
            labels.append(db, [LabelOp("op2", "b2", "positive")], analyst="ann", screen="map")
            assert labels.current_labels(db) == {"b1": "positive", "b2": "positive"}
            raise KeyError
        with store.transaction(db):
            labels.append(db, [LabelOp("op2", "b2", "not_damaged")], analyst="ann", screen="map")
        assert not db.in_transaction
        assert labels.current_labels(db) == {"b1": "positive", "b2": "not_damaged"}
        labels.current(db).clear()
        labels.current_labels(db).clear()
        assert list(labels.current(db)) == list(labels.current_labels(db)) == ["b1", "b2"]


def store_label(layout: Layout, op: str, building: str) -> None:
    with store.connect(layout) as db:
        labels.append(db, [LabelOp(op, building, "positive")], analyst="ann", screen="map")


def labels_of(layout: Layout) -> dict[str, str]:
    return dict(store.call(layout, labels.current_labels))


def test_an_act_on_more_buildings_than_go_into_one_statement_is_stored_whole(db: sqlite3.Connection) -> None:
    db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 75)
    ops = [LabelOp(f"op{i}", f"b{i}", "positive") for i in range(10)]
    assert [ack.event for ack in labels.append(db, ops, analyst="ann", screen="map")] == list(range(1, 11))
    assert list(labels.current_labels(db)) == [op.building_id for op in ops]


def test_numbers_go_on_where_the_table_says_and_none_is_given_twice(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('label_event', 40)")  # numbers that were given before
    ops = [LabelOp("x", "b1", "positive"), LabelOp("y", "b99", "positive"), LabelOp("z", "b2", "positive")]
    acks = labels.append(db, [*ops, ops[2], LabelOp("z", "b3", "positive"), ops[0]], analyst="ann", screen="map")
    assert [ack.event for ack in acks] == [41, None, 42, 42, 42, 41]
    assert labels.current_labels(db) == {"b1": "positive", "b2": "positive"}
    assert labels.append(db, ops[:1], analyst="ann", screen="map") == [Ack("x", 41)]
    assert labels.append(db, [LabelOp("w", "b1", "cleared")], analyst="ann", screen="map") == [Ack("w", 43)]
    for statement in ("UPDATE label_event SET label = 'cleared'", "DELETE FROM label_event"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            db.execute(statement)
