"""Finished runs: facts in the GeoPackage, arrays in `runs/<id>/`. A finished run is never changed.

One of them is shown: on the live map, on the screens, and in exports that name no other. The log `pinned_run` says which.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.errors import ProjectError
from pu_geo.files import remove_path
from pu_geo.records import DEFAULT_METHOD, NOT_IN_RUN, RunFacts
from pu_geo.store import checks, choices, contents, feature_sets, versions
from pu_geo.store.layout import (
    Layout,
    checked_id,
    damage,
    lost,
    read_array,
    read_json,
    reading,
    write_array,
    write_facts,
    write_json,
)
from pu_geo.store.store import is_writable, now, transaction
from pu_geo.wording import listed

TYPE_SCORES = "type_scores"
_ADD = "INSERT INTO run (run_id, method, created_at, facts) VALUES (?, ?, ?, ?)"
OF_EVERY_RUN = ("scores", "embeddings")  # arrays
Why = Literal["person", "published", "audited", "recommended", "newest"]
Reasons = Mapping[str, str]  # building id -> why the picture keeps it from being assessed, for those that it keeps from it


def ranks(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return rank 1 for the highest score, int64 [N]; equal scores keep their order."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    places = np.empty(len(scores), dtype=np.int64)
    places[order] = np.arange(1, len(scores) + 1)
    return places


def written(scores: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return float32 scores [N] as every file has them, with 4 decimals; thresholds are compared with these."""
    return np.asarray(scores, np.float32).astype(np.float64).round(4)


def finish(
    db: sqlite3.Connection,
    layout: Layout,
    facts: RunFacts,
    *,
    ids: Sequence[str],
    scores: NDArray[np.float32],
    arrays: Mapping[str, NDArray[np.generic]],
    files: Sequence[Path] = (),
) -> None:
    """Store a run: its arrays, a manifest with their sha256, then its row. It exists once the row does.

    The live map shows it if it is the one to show now; see `to_show`.

    Args:
        ids: building of each row of `scores` [N] and of the arrays.
        arrays: name -> array, written as `<name>.npy`; "embeddings", "clusters" and "type_scores" are known names.
        files: files written into the run's folder already (weights).
    """
    folder = layout.run(facts.run_id)
    with whole_or_not_at_all(folder):
        written = list(files)
        for name, array in {"scores": scores, **arrays}.items():
            written.append(folder / f"{checked_id(name)}.npy")
            write_array(written[-1], array)
        written.append(folder / "building_ids.json")
        write_json(written[-1], list(ids))
        write_facts(folder / "manifest.json", {"facts": asdict(facts)}, written)
        with transaction(db):
            row = (facts.run_id, facts.method, facts.created_at, json.dumps(asdict(facts)))
            db.execute(_ADD, row)
            _put_scores(db, layout, facts, ids, scores)
            settle(db, layout)


@contextmanager
def whole_or_not_at_all(folder: Path) -> Iterator[None]:
    """Remove the folder of a run again if what belongs into it cannot be written."""
    try:
        yield
    except Exception:  # not where a person interrupts: the run may be stored already
        remove_path(folder)
        raise


def pin(db: sqlite3.Connection, run_id: str) -> None:
    """Store that a person chose a run to be shown."""
    _pin(db, find(db, run_id).run_id, by_person=True)


def unpin(db: sqlite3.Connection, layout: Layout) -> None:
    """Store that no person's choice counts any more: the run is shown that would be without one; see `to_show`."""
    found = to_show(db, layout, by_person=False)
    if found is not None:
        _pin(db, found[0].run_id, by_person=False)


def register(db: sqlite3.Connection, layout: Layout) -> list[str]:
    """Add the runs whose folders are whole and whose rows are missing, as after a database was restored; return their ids.

    The live map gets the scores of every run that has none there.
    """
    known = {facts.run_id for facts in all_runs(db)}
    rows = []
    for path in layout.path("runs").glob("*/manifest.json"):
        try:
            facts = read_json(path)["facts"]
            if facts["run_id"] in known:
                continue
            is_whole = facts["run_id"] == path.parent.name and not damage(path, full=True)
            row = (str(facts["run_id"]), facts["method"], str(facts["created_at"]), json.dumps(facts))
        except (ProjectError, KeyError, TypeError):
            continue
        if is_whole:
            rows.append(row)
    rows.sort(key=lambda row: (row[2], row[0]))  # their numbers are lost: only their clocks are left to order them by
    db.executemany(_ADD, rows)
    for facts in all_runs(db):
        has_scores = db.execute("SELECT 1 FROM score WHERE run_id = ?", (facts.run_id,)).fetchone()
        if has_scores is None and (layout.run(facts.run_id) / "scores.npy").is_file():
            _put_scores(db, layout, facts, building_ids_of(layout, facts.run_id), array(layout, facts.run_id, "scores"))
    return [row[0] for row in rows]


def settle(db: sqlite3.Connection, layout: Layout) -> RunFacts | None:
    """Make the run that is to be shown now the one that the live map shows; return it, None before there is one.

    Called where a run was stored, a version published or an audit begun, and where a run is asked for: a folder that
    somebody took away may have left another one. Of a project that may not be changed it is returned alone.
    """
    found = to_show(db, layout)
    if found is not None and found[0].run_id != pinned(db) and is_writable(layout):
        with transaction(db):
            if to_show(db, layout) == found:
                _pin(db, found[0].run_id, by_person=False)
    return None if found is None else found[0]


def to_show(db: sqlite3.Connection, layout: Layout, *, by_person: bool = True) -> tuple[RunFacts, Why] | None:
    """Return the run that is to be shown, and why; None before there is one.

    The run that a person chose; else the one published last, else the one audited last, else the newest of the method that
    the app recommends, else the newest.

    Args:
        by_person: whether a person's choice counts.
    """
    found = all_runs(db)
    by_id = {facts.run_id: facts for facts in found}
    last = db.execute("SELECT run_id, by_person FROM pinned_run ORDER BY pin DESC LIMIT 1").fetchone()
    if by_person and last is not None and last[1] and last[0] in by_id:
        return by_id[last[0]], "person"
    for version in versions.all_facts(layout):
        if version["run_id"] in by_id:
            return by_id[version["run_id"]], "published"
    for check in reversed(checks.all_checks(layout)):
        if check["purpose"] == "audit" and check["run_id"] in by_id:
            return by_id[check["run_id"]], "audited"
    for facts in found:
        if facts.method == DEFAULT_METHOD:
            return facts, "recommended"
    return (found[0], "newest") if found else None


def _pin(db: sqlite3.Connection, run_id: str, *, by_person: bool) -> None:
    db.execute("INSERT INTO pinned_run (run_id, at, by_person) VALUES (?, ?, ?)", (run_id, now(), by_person))


def _put_scores(
    db: sqlite3.Connection, layout: Layout, facts: RunFacts, ids: Sequence[str], scores: NDArray[np.generic]
) -> None:
    """Store what the live map shows of a run: scores as exports write them, why a building has none, and the threshold."""
    why = reasons_by_chips(layout, facts)
    hidden = [None] * len(ids) if why is None else [why.get(building, "") for building in ids]
    places = ranks(np.asarray(scores, np.float32)).tolist()
    rows = zip([facts.run_id] * len(ids), ids, written(scores).tolist(), places, hidden, strict=True)
    db.executemany("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?, ?)", rows)
    choices.keep_own_threshold(db, facts)


def reasons_by_chips(layout: Layout, facts: RunFacts) -> Reasons | None:
    """Return building id -> why the picture keeps a run's building from being assessed, by the facts of its chips; None
    where those are gone.
    """
    if not layout.chip_facts(facts.chip_set).is_file():
        return None
    chips = contents.chip_facts(layout, facts.chip_set)
    why = assessability.reasons(chips, facts.without_answers, feature_sets.without_layers(facts, chips))
    return assessability.by_building(chips["building_ids"], why)


def put_reasons(db: sqlite3.Connection, run_id: str, why: Reasons) -> None:
    """Store anew what the picture keeps a run's buildings from being assessed by, such as after chips were cut again; see
    `note_moved`.
    """
    with transaction(db):
        ids = [row[0] for row in db.execute("SELECT building_id FROM score WHERE run_id = ?", (run_id,))]
        rows = ((why.get(building, ""), run_id, building, NOT_IN_RUN) for building in ids)
        db.executemany("UPDATE score SET reason = ? WHERE run_id = ? AND building_id = ? AND reason IS NOT ?", rows)


def note_moved(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Note that buildings stand elsewhere than where all runs so far looked: their scores count no more."""
    change = "UPDATE score SET reason = ? WHERE building_id IN (SELECT value FROM json_each(?))"
    db.execute(change, (NOT_IN_RUN, json.dumps(list(ids))))


def moved(db: sqlite3.Connection, run_id: str) -> set[str]:
    """Return the buildings that stand elsewhere than where a run looked, see `note_moved`."""
    return {
        row[0] for row in db.execute("SELECT building_id FROM score WHERE run_id = ? AND reason = ?", (run_id, NOT_IN_RUN))
    }


def reasons(db: sqlite3.Connection, run_id: str) -> dict[str, str] | None:
    """Return why buildings of a run are not assessed, as it was stored with the run; None where it was not."""
    known = db.execute("SELECT reason IS NOT NULL FROM score WHERE run_id = ? LIMIT 1", (run_id,)).fetchone()
    if known is None or not known[0]:
        return None
    rows = db.execute("SELECT building_id, reason FROM score WHERE run_id = ? AND reason <> ''", (run_id,))
    return dict(rows.fetchall())


def pinned(db: sqlite3.Connection) -> str | None:
    """Return the id of the run that the live map shows, or None."""
    there = "SELECT run_id FROM pinned_run WHERE run_id IN (SELECT run_id FROM run) ORDER BY pin DESC LIMIT 1"
    row = db.execute(there).fetchone()
    return None if row is None else str(row[0])


def all_runs(db: sqlite3.Connection) -> list[RunFacts]:
    """Return all finished runs, newest first."""
    rows = db.execute("SELECT facts FROM run ORDER BY number DESC")
    tuples = ("warnings", "without_answers", "types", "type_grades", "views")  # lists in JSON
    stored = [json.loads(row[0]) for row in rows]
    return [RunFacts(**{**facts, **{name: tuple(facts[name]) for name in tuples}}) for facts in stored]


def find(db: sqlite3.Connection, run_id: str) -> RunFacts:
    """Return one run; "chosen" is the one that is shown, "latest" the newest.

    Raises:
        ProjectError: if there is no such run.
    """
    found = all_runs(db)
    if run_id == "latest" and found:
        return found[0]
    if run_id == "chosen" and found:
        run_id = pinned(db) or found[0].run_id
    for facts in found:
        if facts.run_id == run_id:
            return facts
    known = listed([facts.run_id for facts in found]) or "none yet"
    raise ProjectError(
        f"This project has no run {run_id!r}; its runs are: {known}.",
        "Name one of them, or make one with `pu-geo rank` or `pu-geo train`.",
    )


def array(layout: Layout, run_id: str, name: str) -> NDArray[np.generic]:
    """Return an array of a run, memory-mapped and read-only. Raises ProjectError if the run has no such array."""
    path = layout.run(run_id) / f"{checked_id(name)}.npy"
    if not path.is_file() and (name in OF_EVERY_RUN or not path.parent.is_dir()):
        raise lost(path)
    if not path.is_file():
        raise ProjectError(
            f"Run {run_id} has no {name}: the file {path.name} is missing from its folder.",
            "Choose another run, or train again.",
        )
    return read_array(path)


def scores_alone(layout: Layout, run_id: str) -> NDArray[np.generic]:
    """Return a run's scores without evidence from place, float32 [N]: an audit is designed by these."""
    is_kept = (layout.run(run_id) / "scores_alone.npy").is_file()
    return array(layout, run_id, "scores_alone" if is_kept else "scores")


def type_scores(layout: Layout, run: RunFacts) -> tuple[tuple[str, ...], NDArray[np.generic]] | None:
    """Return the damage types that a run scores, c names, and the scores, float32 [N, c] in [0, 1], memory-mapped.

    None of a run without types.

    Raises:
        ProjectError: if the file of the scores is lost, or is not what the run's facts say.
    """
    if not run.types:
        return None
    path = layout.run(run.run_id) / f"{TYPE_SCORES}.npy"
    if not path.is_file():
        raise lost(path)
    found, n = read_array(path), len(array(layout, run.run_id, "scores"))
    if found.shape != (n, len(run.types)):
        raise ProjectError(
            f"{path.name} of run {run.run_id} holds {list(found.shape)} scores; {n} buildings and {len(run.types)} damage "
            "types need as many.",
            "Choose another run, or train again.",
        )
    return run.types, found


def held_out(layout: Layout, run_id: str) -> NDArray[np.bool_]:
    """Return which buildings were clicked but not learned from, bool [N] in the order of a run's scores; often none."""
    is_held_out = np.zeros(len(array(layout, run_id, "scores")), np.bool_)
    if (layout.run(run_id) / "held_out.npy").is_file():
        is_held_out[np.asarray(array(layout, run_id, "held_out"), np.int64)] = True
    return is_held_out


def building_ids_of(layout: Layout, run_id: str) -> list[str]:
    """Return the building of each row of a run's arrays."""
    return list(_ids_of(layout, run_id)[0])


def row_of(layout: Layout, run_id: str, building_id: str) -> int | None:
    """Return the row of a building in a run's arrays; None where it has none there."""
    return _ids_of(layout, run_id)[1].get(building_id)


def _ids_of(layout: Layout, run_id: str) -> tuple[list[str], dict[str, int]]:
    path = layout.run(run_id) / "building_ids.json"
    with reading(path):
        return _ids_in(path.read_bytes())


@lru_cache(maxsize=2)
def _ids_in(content: bytes) -> tuple[list[str], dict[str, int]]:
    """Read a list of buildings, the same one for all runs of a chip set: of 200,000 it takes ten times as long as reading
    the file.
    """
    ids: list[str] = json.loads(content)
    return ids, {building: row for row, building in enumerate(ids)}
