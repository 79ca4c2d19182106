"""Finished runs: facts in the GeoPackage, arrays in `runs/<id>/`. A finished run is never changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout, checked_id, write_array, write_json
from pu_geo.project.store import now, transaction
from pu_geo.records import RunFacts

_HASH_BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the lowercase hex sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def ranks(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return rank 1 for the highest score, int64 [N]; equal scores keep their order."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    result = np.empty(len(scores), dtype=np.int64)
    result[order] = np.arange(1, len(scores) + 1)
    return result


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

    The live map shows the newest run, unless a person chose one.

    Args:
        ids: building of each row of `scores` [N] and of the arrays.
        arrays: name -> array, written as `<name>.npy`; "embeddings" and "clusters" are known names.
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
        manifest = {"facts": asdict(facts), "sha256": {path.name: sha256_of(path) for path in written}}
        write_json(folder / "manifest.json", manifest)
        with transaction(db):
            db.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?)",
                (facts.run_id, facts.method, facts.created_at, json.dumps(asdict(facts))),
            )
            last = db.execute("SELECT by_person FROM pinned_run ORDER BY pin DESC LIMIT 1").fetchone()
            if last is None or not last[0]:
                _pin(db, facts.run_id, ids, scores, by_person=False)


@contextmanager
def whole_or_not_at_all(folder: Path) -> Iterator[None]:
    """Take the folder of a run away again if what belongs into it cannot be written."""
    try:
        yield
    except Exception:  # not where a person interrupts: the run may be stored already
        shutil.rmtree(folder, ignore_errors=True)
        raise


def pin(db: sqlite3.Connection, layout: Layout, run_id: str) -> None:
    """Make a run the one that the live map shows."""
    ids = building_ids_of(layout, run_id)
    scores = array(layout, run_id, "scores")
    with transaction(db):
        _pin(db, run_id, ids, scores, by_person=True)


def _pin(db: sqlite3.Connection, run_id: str, ids: Sequence[str], scores: NDArray[np.generic], *, by_person: bool) -> None:
    values = scores.astype(np.float64).tolist()
    rows = zip([run_id] * len(ids), ids, values, ranks(scores.astype(np.float32)).tolist(), strict=True)
    db.executemany("INSERT OR IGNORE INTO score VALUES (?, ?, ?, ?)", rows)
    db.execute("INSERT INTO pinned_run (run_id, at, by_person) VALUES (?, ?, ?)", (run_id, now(), by_person))


def pinned(db: sqlite3.Connection) -> str | None:
    """Return the id of the run that the live map shows, or None."""
    row = db.execute("SELECT run_id FROM pinned_run ORDER BY pin DESC LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def all_runs(db: sqlite3.Connection) -> list[RunFacts]:
    """Return all finished runs, newest first."""
    rows = db.execute("SELECT facts FROM run ORDER BY created_at DESC, rowid DESC")
    return [_facts(json.loads(row[0])) for row in rows]


def _facts(values: dict[str, Any]) -> RunFacts:
    """Build facts from JSON, where every tuple has become a list."""
    return RunFacts(
        **{**values, "warnings": tuple(values["warnings"]), "without_answers": tuple(values.get("without_answers", ()))}
    )


def find(db: sqlite3.Connection, run_id: str) -> RunFacts:
    """Return one run; "latest" is the newest.

    Raises:
        ProjectError: if there is no such run.
    """
    found = all_runs(db)
    if run_id == "latest" and found:
        return found[0]
    for facts in found:
        if facts.run_id == run_id:
            return facts
    known = ", ".join(facts.run_id for facts in found[:5]) or "none yet"
    raise ProjectError(
        f"This project has no run {run_id!r}; its runs are: {known}.",
        "Name one of them, or make one with `pu-geo rank` or `pu-geo train`.",
    )


def array(layout: Layout, run_id: str, name: str) -> NDArray[np.generic]:
    """Return an array of a run, memory-mapped and read-only.

    Raises:
        ProjectError: if the run has no such array.
    """
    path = layout.run(run_id) / f"{checked_id(name)}.npy"
    if not path.is_file():
        raise ProjectError(
            f"Run {run_id} has no {name}: the file {path.name} is missing from its folder.",
            "Choose another run, or train again.",
        )
    loaded: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    return loaded


def held_out(layout: Layout, run_id: str) -> NDArray[np.bool_]:
    """Return which buildings were clicked but not learned from, bool [N] in the order of a run's scores; often none."""
    is_held_out = np.zeros(len(array(layout, run_id, "scores")), np.bool_)
    if (layout.run(run_id) / "held_out.npy").is_file():
        is_held_out[np.asarray(array(layout, run_id, "held_out"), np.int64)] = True
    return is_held_out


def building_ids_of(layout: Layout, run_id: str) -> list[str]:
    """Return the building of each row of a run's arrays."""
    ids: list[str] = json.loads((layout.run(run_id) / "building_ids.json").read_text(encoding="utf-8"))
    return ids
