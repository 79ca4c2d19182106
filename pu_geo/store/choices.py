"""What people chose, in append-only logs of `project.gpkg`: the threshold of each run, and settings of the screens.

The newest entry counts. Which run is shown is in `runs`: its log is the table `pinned_run`.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any, NamedTuple

from pu_geo.errors import ProjectError
from pu_geo.records import RunFacts
from pu_geo.store.store import now, transaction

OWN, PERSON = "run", "person"
START, TOP, AUDIT = "start", "top", "audit"
NOT_AUDITED = "no accuracy assessment"  # what stands in place of its id
"""Origins of a threshold: the run itself, a person, "start:<k>" (the run's, which flags k buildings to start from),
"top:<k>" (a person
who wanted k buildings flagged), "audit:<id of the check>"."""

_TYPE_THRESHOLD = "type_threshold"
STARTING = "a starting point, not an estimate"
WORDS = {
    OWN: "the run's own", PERSON: "chosen by a person", TOP: "chosen by a person",
    START: f"{STARTING}: as many as clicks held out suggest, at most 8 a click where these do not stand high in the list",
    AUDIT: "set from the accuracy assessment",
}  # fmt: skip
"""Kind of an origin -> where a threshold comes from, for people."""


class Threshold(NamedTuple):
    """Scores from `value` on are flagged, 0..1 with 4 decimals, as exports write it; `origin` is who or what set it."""

    value: float
    origin: str

    @property
    def words(self) -> str:
        """Where it comes from, for people."""
        return origin_words(self.origin)


def origin_words(origin: str) -> str:
    """Return where a threshold comes from, for people."""
    kind, _, rest = origin.partition(":")
    if kind == AUDIT and rest:
        return f"chosen by accuracy assessment {rest}"
    if kind in (START, TOP) and rest.isdecimal():
        buildings = "top building" if rest == "1" else f"top {int(rest):,} buildings"
        return f"{buildings}: {WORDS[kind]}"
    return WORDS.get(origin, origin)


def of_start(origin: str) -> bool:
    """Return whether a threshold is still the one that a run started from, by how many it flags."""
    return origin.startswith(f"{START}:")


def _own(facts: RunFacts) -> Threshold:
    return Threshold(round(float(facts.threshold), 4), OWN if facts.start_k is None else f"{START}:{facts.start_k}")


def threshold_of(db: sqlite3.Connection, facts: RunFacts) -> Threshold:
    """Return the threshold that a run's map has unless another one is given: the stored one, else the run's own."""
    return _newest(db, facts.run_id) or _own(facts)


def _newest(db: sqlite3.Connection, run_id: str) -> Threshold | None:
    """Return the last entry of a run's log, None where there is none."""
    newest = "SELECT threshold, origin FROM threshold WHERE run_id = ? ORDER BY step DESC LIMIT 1"
    row = db.execute(newest, (run_id,)).fetchone()
    return None if row is None else Threshold(float(row[0]), str(row[1]))


def set_threshold(db: sqlite3.Connection, run_id: str, value: float, origin: str) -> Threshold:
    """Store the threshold of a run; the live map shows it from this transaction on.

    Raises:
        ProjectError: if it is no score.
    """
    check_score(value)
    found = Threshold(round(float(value), 4), origin)
    with transaction(db):
        if _newest(db, run_id) != found:
            db.execute("INSERT INTO threshold (run_id, threshold, origin, at) VALUES (?, ?, ?, ?)", (run_id, *found, now()))
    return found


def keep_own_threshold(db: sqlite3.Connection, facts: RunFacts) -> None:
    """Store a run's own threshold as the first one of its log, where the view for QGIS reads it."""
    if _newest(db, facts.run_id) is None:
        row = (facts.run_id, *_own(facts), now())
        db.execute("INSERT INTO threshold (run_id, threshold, origin, at) VALUES (?, ?, ?, ?)", row)


def type_thresholds(db: sqlite3.Connection, run_id: str) -> dict[str, Threshold]:
    """Return the thresholds that people chose for damage types of a run, by the type's name."""
    chosen = all_of(db, f"{_TYPE_THRESHOLD}:{run_id}:")
    return {name: Threshold(float(value), str(origin)) for name, (value, origin) in chosen.items() if origin != OWN}


def set_type_threshold(db: sqlite3.Connection, run_id: str, damage_type: str, value: float, origin: str) -> Threshold:
    """Store the threshold of a damage type of a run; with the origin `OWN`, that no person's choice counts any more.

    Raises:
        ProjectError: if it is no score.
    """
    check_score(value)
    found = Threshold(round(float(value), 4), origin)
    put(db, f"{_TYPE_THRESHOLD}:{run_id}:{damage_type}", list(found))
    return found


def check_score(value: float) -> None:
    """Refuse a threshold that is no score."""
    if not 0 <= value <= 1:
        raise ProjectError(f"The threshold is {value}; scores lie between 0 and 1.", "Choose a value in between.")


def get(db: sqlite3.Connection, name: str, usual: Any, *, at: int | None = None) -> Any:
    """Return what people chose under a name, a JSON value, up to the choice numbered `at`; `usual` where nobody chose."""
    newest = "SELECT value FROM choice WHERE name = ? AND choice <= ? ORDER BY choice DESC LIMIT 1"
    row = db.execute(newest, (name, last_choice(db) if at is None else at)).fetchone()
    return usual if row is None else json.loads(row[0])


def last_choice(db: sqlite3.Connection) -> int:
    """Return the number of the newest choice, 0 if there is none."""
    return int(db.execute("SELECT ifnull(max(choice), 0) FROM choice").fetchone()[0])


def all_of(db: sqlite3.Connection, prefix: str) -> dict[str, Any]:
    """Return what people chose under all names with a prefix, by the rest of the name."""
    rows = db.execute("SELECT name, value FROM choice WHERE substr(name, 1, ?) = ? ORDER BY choice", (len(prefix), prefix))
    return {str(name)[len(prefix) :]: json.loads(value) for name, value in rows}


def put(db: sqlite3.Connection, name: str, value: Any) -> None:
    """Store what people chose under a name, a JSON value."""
    text = json.dumps(value, ensure_ascii=False)
    with transaction(db):
        last = db.execute("SELECT value FROM choice WHERE name = ? ORDER BY choice DESC LIMIT 1", (name,)).fetchone()
        if last is None or last[0] != text:
            db.execute("INSERT INTO choice (name, value, at) VALUES (?, ?, ?)", (name, text, now()))
