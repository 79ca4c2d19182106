"""What the Annotate screen asks for: store clicks, undo, and re-order all buildings at once. No torch in this process."""

from __future__ import annotations

import getpass
import hashlib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, estimates, ranker
from pu_geo.errors import LabelError
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.labels import Ack, LabelOp
from pu_geo.project.layout import Layout
from pu_geo.records import Label
from pu_geo.services.imagery.preparation import chip_facts

LIVE_PREFIX = "live-"
LIKE_PREFIX = "like-"
_DETAILS = ("reason", "damage_types", "comment", "shown", "inclusion")


@dataclass(frozen=True)
class LiveRanking:
    """The instant ranker's answer to the labels so far. `score_id` names it for the browser."""

    score_id: str
    seconds: float


def default_analyst() -> str:
    """Return $PU_GEO_ANALYST, else the login name, else "analyst"."""
    try:
        return os.environ.get("PU_GEO_ANALYST") or getpass.getuser()
    except (KeyError, OSError):
        return "analyst"


def apply_operations(layout: Layout, operations: Sequence[Mapping[str, object]], *, analyst: str, screen: str) -> list[Ack]:
    """Store what the browser or a stream sends: labels, undo and redo, in their order.

    Args:
        operations: each {"op": str, "building_id": str, "label": str}, {"op", "undo": true} or {"op", "redo": true};
            with "screen" (where it was made) and "act" (shared by labels that are undone together) if known. A label may
            carry "reason", "damage_types", "comment", "shown" and "inclusion", as in `LabelOp`.
        screen: where, for operations that do not say.

    Returns:
        One answer an operation. What was acknowledged is on disk; a replayed operation is acknowledged again.
    """
    acks: list[Ack] = []
    with store.connect(layout) as db:
        for batch in _runs_of_labels(operations):
            first = batch[0]
            where = str(first.get("screen") or screen)
            if first.get("undo") or first.get("redo"):
                step = labels.undo if first.get("undo") else labels.redo
                found = step(db, str(first["op"]), analyst=analyst, screen=where)
                acks.append(Ack(str(first["op"]), found[-1].event if found else labels.last_event(db)))
            else:
                ops = [_label_op(operation) for operation in batch]
                acks.extend(labels.append(db, ops, analyst=analyst, screen=where))
    return acks


def _runs_of_labels(operations: Sequence[Mapping[str, object]]) -> list[list[Mapping[str, object]]]:
    """Split into runs of plain labels of one screen, a transaction each; undo and redo stand alone between them."""
    batches: list[list[Mapping[str, object]]] = []
    before: object = None
    for operation in operations:
        alone = bool(operation.get("undo") or operation.get("redo"))
        kind = object() if alone else (operation.get("screen"),)
        if not batches or kind != before:
            batches.append([])
        batches[-1].append(operation)
        before = kind
    return batches


def _label_op(operation: Mapping[str, object]) -> LabelOp:
    """Read one operation; what it says is checked where it is stored."""
    said = {key: operation[key] for key in _DETAILS if operation.get(key) is not None}
    label: Label = operation.get("label")  # type: ignore[assignment]
    act = str(operation["act"]) if operation.get("act") else None
    return LabelOp(str(operation.get("op") or ""), str(operation.get("building_id")), label, act, **said)  # type: ignore[arg-type]


def parse_line(line: str, decoded: object) -> Mapping[str, object]:
    """Check one line of `pu-geo label --stdin`; what else `apply_operations` takes may stand in it too.

    Raises:
        LabelError: if it is not an object with the texts op, building_id and label.
    """
    keys = ("op", "building_id", "label")
    if not isinstance(decoded, dict) or not all(isinstance(decoded.get(key), str) for key in keys):
        raise LabelError(
            f"The line {line.strip()[:80]!r} is not an object with the texts op, building_id and label.",
            'Send, for example, {"op": "1", "building_id": "b000001", "label": "positive"}.',
        )
    return decoded


def newest_event(layout: Layout) -> int:
    """Return the number of the newest label event, 0 if there is none."""
    with store.connect(layout) as db:
        return labels.last_event(db)


def current_labels(layout: Layout) -> dict[str, Label]:
    """Return building id -> label for every building that carries one."""
    with store.connect(layout) as db:
        return labels.current_labels(db)


def simulate(
    layout: Layout, *, field: str, values: Sequence[str], count: int, seed: int, analyst: str, label: Label = "positive"
) -> dict[str, object]:
    """Click `count` random buildings whose attribute `field` is one of `values`, for trials, and call them `label`.

    Returns:
        {"stored", "positives": positives in the project now}

    Raises:
        LabelError: if there are fewer such buildings.
    """
    with store.connect(layout) as db:
        table = contents.footprints(db)
        known = labels.current_labels(db)
        if not any(field in row for row in table.attributes):
            there = ", ".join(sorted({name for row in table.attributes for name in row})) or "none"
            raise LabelError(f"No footprint has the attribute {field!r}; they have: {there}.", "Name one of them.")
        if not values:
            raise LabelError(f"Nothing says which values mean {label}.", "Add, for example, --is destroyed.")
        wanted = [
            building
            for building, row in zip(table.building_ids, table.attributes, strict=True)
            if str(row.get(field)) in values and building not in known
        ]
        if len(wanted) < count:
            raise LabelError(
                f"{count} buildings with {field} = {' or '.join(values)} were asked for; there are {len(wanted)} unlabeled.",
                "Ask for fewer, or name another field or value.",
            )
        chosen = np.random.default_rng(seed).choice(len(wanted), size=count, replace=False)
        act = f"simulated-{uuid.uuid4()}"
        ops = [LabelOp(f"{act}-{i}", wanted[int(row)], label, act) for i, row in enumerate(chosen)]
        labels.append(db, ops, analyst=analyst, screen="cli", kind="simulated")
        return {"stored": count, "positives": labels.counts(labels.current_labels(db))["positive"]}


def positions(layout: Layout) -> dict[str, int]:
    """Return building id -> its place in the map's geometry and in every score array the browser gets."""
    with store.connect(layout) as db:
        return {building: place for place, building in enumerate(contents.building_ids(db))}


# The instant ranker


@lru_cache(maxsize=2)
def _plain_features(layout: Layout, chip_set: str, stamp: str) -> ranker.PreparedFeatures:
    """Load the features of the unaugmented chips and prepare them once; another `stamp` makes a new entry."""
    views = np.load(layout.features(chip_set), mmap_mode="r", allow_pickle=False)
    is_visible = assessability.reasons(chip_facts(layout, chip_set)) == ""
    return ranker.prepare(np.asarray(views[0], dtype=np.float32), is_visible)


def plain_features(layout: Layout, chip_set: str) -> NDArray[np.float32]:
    """Return the standardised features of the unaugmented chips, float32 [N, D]."""
    with store.connect(layout) as db:
        created_at = store.created_at(db)
    return _plain_features(layout, chip_set, _stamp(layout, chip_set, created_at)).values


def scores_now(layout: Layout) -> NDArray[np.float32] | None:
    """Return the instant ranker's scores of the newest chips, float32 [N]; None where nothing can be ranked yet."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        at_event, created_at = labels.last_event(db), store.created_at(db)
    return None if chip_set is None else _live_scores(layout, chip_set, _stamp(layout, chip_set, created_at), at_event)


@lru_cache(maxsize=16)
def _live_scores(layout: Layout, chip_set: str, stamp: str, at_event: int) -> NDArray[np.float32] | None:
    """Rank a chip set's buildings by the labels after one event; None unless there are positives and others."""
    facts = chip_facts(layout, chip_set)
    with store.connect(layout) as db:
        pu = labels.pu_set(db, at=at_event, ids=facts["building_ids"]).without(assessability.reasons(facts) != "")
    used = pu.is_positive[~pu.is_excluded]
    if not used.any() or used.all():
        return None
    prepared = _plain_features(layout, chip_set, stamp)
    scores, _ = estimates.rank_with_estimate(
        prepared, pu.is_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged
    )
    return scores


def _stamp(layout: Layout, chip_set: str, created_at: str) -> str:
    """Name what a live ranking depends on beside the labels: the project, its chips and their features."""
    parts = f"{created_at} {chip_set} {layout.features(chip_set).stat().st_mtime_ns}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


def rank_now(layout: Layout) -> LiveRanking | None:
    """Rank all buildings by the labels of this moment; None before there are chips, a positive and an unlabeled one."""
    began = time.perf_counter()
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        at_event, created_at = labels.last_event(db), store.created_at(db)
    if chip_set is None:
        return None
    stamp = _stamp(layout, chip_set, created_at)
    if _live_scores(layout, chip_set, stamp, at_event) is None:
        return None
    return LiveRanking(f"{LIVE_PREFIX}{stamp}-{at_event}", time.perf_counter() - began)


def scores_for_browser(layout: Layout, score_id: str) -> bytes | None:
    """Return scores in the order of the map's geometry, little-endian float32 [N], NaN where there is none.

    Args:
        score_id: a run's id, what `rank_now` returned, or "like-7" for distances (1 - cosine) from building 7.

    Returns:
        None if there are no such scores, or no longer.
    """
    if score_id.startswith(LIKE_PREFIX):
        found = _like(layout, score_id.removeprefix(LIKE_PREFIX))
    else:
        found = _live(layout, score_id) if score_id.startswith(LIVE_PREFIX) else _of_run(layout, score_id)
    if found is None:
        return None
    ids, scores = found
    rows = {building: i for i, building in enumerate(ids)}
    index = np.array([rows.get(building, -1) for building in positions(layout)], dtype=np.int64)
    return np.where(index >= 0, scores[index], np.nan).astype("<f4").tobytes()


def _like(layout: Layout, position: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    """Distances of all chips from that of one building, by the features the ranker sees."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
    building = dict(enumerate(positions(layout))).get(int(position)) if position.isdigit() else None
    if chip_set is None or building is None:
        return None
    ids = chip_facts(layout, chip_set)["building_ids"]
    if building not in ids:
        return None
    values = plain_features(layout, chip_set)
    chip = values[ids.index(building)]
    lengths = np.linalg.norm(values, axis=1) * np.linalg.norm(chip)
    distances: NDArray[np.float32] = 1 - (values @ chip) / np.maximum(lengths, 1e-12)
    return ids, distances


def _live(layout: Layout, score_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    stamp, _, event = score_id.removeprefix(LIVE_PREFIX).partition("-")
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        newest, created_at = labels.last_event(db), store.created_at(db)
    if chip_set is None or stamp != _stamp(layout, chip_set, created_at) or not event.isdigit() or int(event) > newest:
        return None
    scores = _live_scores(layout, chip_set, stamp, int(event))
    return None if scores is None else (chip_facts(layout, chip_set)["building_ids"], scores)


def _of_run(layout: Layout, run_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        if run_id not in {facts.run_id for facts in runs.all_runs(db)}:
            return None
    return runs.building_ids_of(layout, run_id), np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
