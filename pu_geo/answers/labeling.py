"""What the Annotate screen asks for: store clicks and undo, read labels with their details, and who gave them."""

from __future__ import annotations

import os
import re
import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pu_geo.answers import random_checks
from pu_geo.errors import LabelError, ProjectError, writing
from pu_geo.files import atomic_write
from pu_geo.records import MAX_NAME, Label, LabelOp, is_text
from pu_geo.store import analysts, contents, discoveries, grades, labels, store
from pu_geo.store.grades import Grade
from pu_geo.store.labels import Ack, Moment
from pu_geo.store.layout import Layout, home
from pu_geo.wording import LABEL_WORDS

MOST_OPERATIONS = 200_000
"""Operations of a browser that are read at once; more are no person's work. The others come with its next message."""
PATIENCE_S = 2.0
"""How long a browser's operations wait for another program that holds the file. The browser keeps them and sends them
again.
"""
_HIGHEST_NUMBER = 2**53  # of a browser
_NUMBERED = re.compile(r"(.*-)([0-9]{1,15})", re.DOTALL)  # the id of an operation
_NAME_FILE = "analyst.txt"  # in the user's own folder
_SIGNS = "abcdefghjkmnpqrstuvwxyz23456789"  # no two that read alike
_MADE_UP = re.compile(f"analyst-[{_SIGNS}]{{4}}")
USUAL_TYPES = ("collapsed", "roof", "walls", "flooded", "burned", "debris")
"""Damage types that are offered before anyone has named others."""


@dataclass(frozen=True)
class Team:
    """The analysts of a project.

    Attributes:
        rows: one an analyst: name, labels standing, time of the last one.
        conflicts: building id -> "ann: damaged, bob: not damaged".
        agreement: share of the `n_shared` buildings with two or more answers on which all agree, 0..1; None of none.
    """

    rows: Sequence[Mapping[str, object]]
    conflicts: Mapping[str, str]
    n_shared: int
    agreement: float | None


def default_analyst() -> str:
    """Return $PU_GEO_ANALYST, else the name that was chosen first on this machine, else a pseudonym, made up once and kept:
    never the login name.
    """
    if named := os.environ.get("PU_GEO_ANALYST", "").strip():
        return named[:MAX_NAME]
    path = home() / _NAME_FILE
    try:
        if not (kept := _kept_name(path)):
            with atomic_write(path) as temporary:
                temporary.write_text(f"analyst-{''.join(secrets.choice(_SIGNS) for _ in range(4))}\n", encoding="utf-8")
            kept = _kept_name(path)
    except OSError:  # nowhere to keep a name
        kept = ""
    return kept or "analyst"


def choose_analyst(name: str, *, again: bool = False) -> bool:
    """Keep a name as this machine's, for the next time and for the command line, if none was chosen so far; return whether
    it is kept.

    A server has one such name and perhaps many analysts, so a later choice counts in its own browser alone.

    Args:
        again: replace the one that was chosen; without a name a pseudonym is made up again.

    Raises:
        PuGeoError: if it cannot be written.
    """
    path, wanted = home() / _NAME_FILE, as_name(name)
    known = _kept_name(path)
    is_free = not known or _MADE_UP.fullmatch(known) is not None
    if not again and not (is_free and wanted):
        return False
    with writing(path), atomic_write(path) as temporary:
        temporary.write_text(f"{wanted}\n", encoding="utf-8")
    return True


def as_name(text: str) -> str:
    """Return a text as an analyst's name, cut where it is too long; "" if it cannot be one."""
    name = text.strip()[:MAX_NAME]
    return name if is_text(name, 1, MAX_NAME) and name.isprintable() else ""


def _kept_name(path: Path) -> str:
    try:
        name = path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return name if len(name) <= MAX_NAME and as_name(name) else ""


def store_operations(layout: Layout, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Store a browser's labels, undo and redo, in their order, and acknowledge them: all are on disk when this returns.

    One that was stored before is acknowledged again, and stored once. One that makes no sense is refused for good.

    Args:
        message: {"session": of the browser's page, "analyst", "ops"}; each of the ops has a number "n" and what
            `LabelOp.from_json` reads. One with "building_ids" stands for an operation on each of them. Their numbers are n,
            n + 1, ..., and so the number at the end of their ids: "s-7", "s-8", ... from "s-7" on. Those that ask for
            another queue (`"next": true`) need the page and are left out.

    Returns:
        {"session", "n": highest number that is dealt with, "event": newest event, "refused": None or problem and hint};
        None if the message makes no sense.

    Raises:
        PuGeoError: if nothing can be stored now, for example because another program holds the file.
    """
    session, analyst, entries = message.get("session"), message.get("analyst"), message.get("ops")
    if not isinstance(session, str) or not isinstance(analyst, str) or not isinstance(entries, list):
        return None
    if not is_text(session, 1, MAX_NAME) or not is_text(analyst, 1, MAX_NAME):
        return None
    with store.one_connection(), store.connect(layout, patience_s=PATIENCE_S) as db:
        ops, highest, n_unreadable = _operations(layout, analyst, entries)
        acks = labels.append(db, ops, analyst=analyst, screen="map")
        event = labels.last_event(db)
    wrong = [ack.error for ack in acks if ack.error]
    wrong += ["it is not an object with a number n of 1 or more."] * n_unreadable
    words = f"{len(wrong)} of {len(acks) + n_unreadable} labels were refused. The first: {wrong[0]}" if wrong else ""
    return {
        "session": session,
        "n": highest,
        "event": event,
        "refused": {"problem": words, "hint": "Reload the page, then label them again."} if wrong else None,
    }


def _operations(layout: Layout, analyst: str, entries: Sequence[object]) -> tuple[list[LabelOp], int, int]:
    """Return a browser's operations, at most `MOST_OPERATIONS`, the highest number among them, and how many entries cannot
    be read.
    """
    ops: list[LabelOp] = []
    highest = n_unreadable = 0
    for entry in entries[:MOST_OPERATIONS]:
        room = MOST_OPERATIONS - len(ops)
        if room == 0:
            break
        if not isinstance(entry, Mapping) or not _is_number(entry.get("n")):
            n_unreadable += 1
            continue
        if isinstance(buildings := entry.get("building_ids"), list):
            found = list(_of_one_act(layout, analyst, entry, buildings[:room]))
            last = entry["n"] + len(found) - 1
        else:
            is_wish = entry.get("next") is True
            found = [] if is_wish else [_from_browser(layout, analyst, LabelOp.from_json(entry))]
            last = entry["n"]
        ops += found
        highest = max(highest, last)
    return ops, highest, n_unreadable


def _of_one_act(layout: Layout, analyst: str, entry: Mapping[str, Any], buildings: Sequence[Any]) -> Iterator[LabelOp]:
    """Make the operation on each building that an entry stands for; it is read once, as a lasso may hold 33,000."""
    shared = LabelOp.from_json(entry)
    same = {one.name: getattr(shared, one.name) for one in fields(shared)}
    found = _NUMBERED.fullmatch(shared.op) if isinstance(shared.op, str) else None
    for k, building in enumerate(buildings):
        op = f"{found[1]}{int(found[2]) + k}" if found else ""  # which is refused
        yield _from_browser(layout, analyst, LabelOp(**{**same, "op": op, "building_id": building}))


def _is_number(value: object) -> bool:
    return type(value) is int and 0 < value < _HIGHEST_NUMBER


def _from_browser(layout: Layout, analyst: str, op: LabelOp) -> LabelOp:
    """Complete an operation. Only the server knows how probably an audit drew the building; what none drew is a plain
    answer.
    """
    if op.label == "not_assessable" and not op.reason:
        op = replace(op, reason="unclear")
    if op.shown != "audit":
        return op if op.inclusion is None else replace(op, inclusion=None)
    inclusion = random_checks.inclusion_now(layout, analyst, op.building_id)
    return replace(op, inclusion=inclusion, shown="" if inclusion is None else "audit")


def apply_operations(layout: Layout, operations: Sequence[LabelOp], *, analyst: str, screen: str) -> list[Ack]:
    """Store labels, undo and redo in their order; see `labels.append`."""
    return store.call(layout, labels.append, operations, analyst=analyst, screen=screen)


def label_all(
    layout: Layout, building_ids: Sequence[str], label: Label, *, analyst: str, screen: str, **details: Any
) -> int:  # fmt: skip
    """Label buildings in one act, which one undo takes back; return how many.

    Args:
        details: of each answer, as `LabelOp` has them. A grade and types of damage that are not named here stay where
            buildings have them.

    Raises:
        ProjectError: if one of them could not be labeled; the others are.
    """
    act = f"act-{uuid.uuid4()}"
    operations = [LabelOp(f"{act}-{i}", building, label, act, **details) for i, building in enumerate(building_ids)]
    operations = store.call(layout, labels.keep_details, operations, but=details.keys())
    acks = apply_operations(layout, operations, analyst=analyst, screen=screen)
    wrong = [ack.error for ack in acks if ack.error]
    if wrong:
        raise ProjectError(f"{len(wrong)} of {len(acks)} buildings were not labeled. The first: {wrong[0]}", "Try again.")
    return len(acks)


def parse_line(line: str, decoded: object) -> LabelOp:
    """Read one line of `pu-geo label --stdin`; what else `LabelOp.from_json` reads may stand in it too, act as a number.

    Raises:
        LabelError: if it is not an object with the texts op, building_id and label.
    """
    keys = ("op", "building_id", "label")
    if not isinstance(decoded, dict) or not all(isinstance(decoded.get(key), str) for key in keys):
        raise LabelError(
            f"The line {line.strip()[:80]!r} is not an object with the texts op, building_id and label.",
            'Send, for example, {"op": "1", "building_id": "b000001", "label": "positive"}.',
        )
    return LabelOp.from_json(decoded | {key: str(decoded[key]) for key in ("act", "screen") if decoded.get(key)})


def newest_event(layout: Layout) -> int:
    """Return the number of the newest label event, 0 if there is none."""
    return store.call(layout, labels.last_event)


def moment(layout: Layout, event: int) -> Moment:
    """Return what names the labels after an event, for whoever keeps what was worked out from them."""
    return store.call(layout, labels.moment, at=event)


def current_labels(layout: Layout) -> dict[str, Label]:
    """Return building id -> label for every building that carries one."""
    return store.call(layout, labels.current_labels)


def simulate(
    layout: Layout,
    *,
    field: str,
    values: Sequence[str],
    count: int,
    seed: int,
    analyst: str,
    label: Label = "positive",
    grade: str = "",
) -> dict[str, object]:
    """Click `count` random buildings whose attribute `field` is one of `values`, for trials, and call them `label`.

    Args:
        grade: id or name of the grade of damaged ones; "" gives none.

    Returns:
        {"stored", "positives": positives in the project now}

    Raises:
        LabelError: if there are fewer such buildings, or no such grade.
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
                f"{count} buildings with {field} = {' or '.join(values)} were asked for; {len(wanted)} of them are not "
                "reviewed yet.",
                "Ask for fewer, or name another field or value.",
            )
        chosen = np.random.default_rng(seed).choice(len(wanted), size=count, replace=False)
        act = f"simulated-{uuid.uuid4()}"
        ops = [LabelOp(f"{act}-{i}", wanted[int(row)], label, act, grade=grade) for i, row in enumerate(chosen)]
        labels.refuse_rejected(labels.append(db, ops, analyst=analyst, screen="cli", kind="simulated"), "the simulation")
        return {"stored": count, "positives": labels.counts(labels.current_labels(db))["positive"]}


def label_details(layout: Layout) -> Mapping[str, Mapping[str, object]]:
    """Return building id -> what its answer holds beside its label, for every labeled building."""
    return {building: _named(_details(one)) for building, one in store.call(layout, labels.current).items()}


_details = attrgetter("reason", "damage_types", "absent_types", "comment", "analyst", "shown", "grade")


@lru_cache(maxsize=10_000)
def _named(details: tuple[Any, ...]) -> Mapping[str, object]:
    """Return what an answer holds by name; equal answers share one object, as few kinds of them occur in very many."""
    names = ("reason", "damage_types", "absent_types", "comment", "by", "shown", "grade")
    values = (list(value) if isinstance(value, tuple) else value for value in details)
    return MappingProxyType(dict(zip(names, values, strict=True)))


def damage_types(layout: Layout) -> list[str]:
    """Return the damage types to offer: the usual ones, and those named in this project, of proposed groups too."""
    with store.connect(layout) as db:
        named = {kind for event in labels.current(db).values() for kind in (*event.damage_types, *event.absent_types)} | set(
            discoveries.types(db)
        )
    return [*USUAL_TYPES, *sorted(named - set(USUAL_TYPES))]


def known_grades(layout: Layout) -> list[Grade]:
    """Return the grades of a project: those of its scale in their order, then those that are offered no more."""
    return store.call(layout, grades.known)


def choose_grades(layout: Layout, wanted: Sequence[Grade]) -> list[Grade]:
    """Store another scale of grades; return it. See `grades.put`."""
    return store.call(layout, grades.put, wanted)


def grades_for_browser(layout: Layout) -> list[dict[str, object]]:
    """Return the grades that clicks may give, and those that buildings have and the scale has not any more."""
    with store.connect(layout) as db:
        given = {event.grade for event in labels.current(db).values()}
        found = [one for one in grades.known(db) if one.is_offered or one.id in given]
    return [{"id": one.id, "name": one.name, "offered": one.is_offered} for one in found]


def graded(layout: Layout) -> dict[str, str]:
    """Return building id -> name of its grade, for every damaged building; "" where nobody graded it."""
    with store.connect(layout) as db:
        known, found = grades.known(db), labels.current(db)
    return {b: grades.name_of(known, event.grade) for b, event in found.items() if event.label == "positive"}


def team(layout: Layout) -> Team:
    """Return who labeled how much in a project, and where analysts differ."""
    with store.connect(layout) as db:
        facts, differing, agreed = analysts.by_analyst(db), analysts.conflicts(db), analysts.agreement(db)
    return Team(
        rows=[{"analyst": name, "labels": one.n_standing, "last": one.last_at} for name, one in facts.items()],
        conflicts={
            building: ", ".join(f"{answer.analyst}: {LABEL_WORDS[answer.label]}" for answer in answers)
            for building, answers in differing
        },
        n_shared=agreed.n,
        agreement=agreed.share if agreed.n else None,
    )
