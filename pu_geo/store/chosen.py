"""What people chose, for pages and commands: the run that is shown, its threshold, and settings of the screens.

All of it is stored in the project, so another page, another session and the command line find the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pu_geo.errors import ProjectError
from pu_geo.records import RunFacts
from pu_geo.store import choices, runs, store
from pu_geo.store.choices import AUDIT, NOT_AUDITED, PERSON, START, TOP, WORDS, Threshold, of_start, origin_words
from pu_geo.store.layout import Layout

__all__ = ["AUDIT", "NOT_AUDITED", "PERSON", "START", "TOP", "Threshold", "of_start", "origin_words"]
Name = Literal["explore_color", "map_color", "cell_m", "formats", "profiles"]
USUAL: Mapping[Name, Any] = {
    "explore_color": "place", "map_color": "category", "cell_m": 500, "formats": ["geojson", "gpkg", "csv"], "profiles": [],
}  # fmt: skip
"""What is there until somebody chooses: what Explore and the damage map are colored by, the side of square cells in meters,
formats
of an export, and the EMS / UNOSAT classes in it."""
WHY_WORDS: Mapping[runs.Why, str] = {
    "person": "chosen by a person",
    "published": "the one published last",
    "audited": "the one whose accuracy was assessed last",
    "recommended": "the newest of the recommended method",
    "newest": "the newest",
}


def run(layout: Layout, run_id: str) -> RunFacts:
    """Return one run; "chosen" is the one that is shown, "latest" the newest. Raises as `runs.find`."""
    if run_id == "chosen" and (found := chosen_run(layout)) is not None:
        return found
    return store.call(layout, runs.find, run_id)


def chosen_run(layout: Layout) -> RunFacts | None:
    """Return the run that screens, live map and exports show where none is named; None before there is one.

    See `runs.to_show` for which it is.
    """
    return store.call(layout, runs.settle, layout)


def why_chosen(layout: Layout) -> runs.Why | None:
    """Return why the chosen run is the one that is shown; None before there is one. `WHY_WORDS` has it for people."""
    found = store.call(layout, runs.to_show, layout)
    return None if found is None else found[1]


def choose_run(layout: Layout, run_id: str) -> None:
    """Store that a person chose the run that screens, live map and exports show."""
    store.call(layout, runs.pin, run_id)


def choose_automatically(layout: Layout) -> None:
    """Store that no person's choice of a run counts any more."""
    store.call(layout, runs.unpin, layout)
    chosen_run(layout)


def reasons_of(layout: Layout, facts: RunFacts) -> Mapping[str, str] | None:
    """Return building id -> why the picture keeps a run's building from being assessed, for those that it keeps from it.

    As it was stored with the run, else by the facts of its chips; None where those are gone.
    """
    known = store.call(layout, runs.reasons, facts.run_id)
    return runs.reasons_by_chips(layout, facts) if known is None else known


def threshold(layout: Layout, run_id: str, value: float | None = None) -> Threshold:
    """Return the threshold of a run's map: the one that was chosen for it, else the run's own; a person's where `value` is
    another.
    """
    with store.connect(layout) as db:
        found = choices.threshold_of(db, runs.find(db, run_id))
    return found if value is None or round(value, 4) == found.value else Threshold(round(float(value), 4), PERSON)


def basis_words(origin: str) -> str:
    """Return who or what set a threshold, for people. Counts and ids are left out: answers since then change how many it
    flags.

    >>> basis_words("top:120"), basis_words("audit:check-1")
    ('chosen by a person', 'set from the accuracy assessment')
    """
    return WORDS.get(origin.partition(":")[0], origin)


def choose_threshold(layout: Layout, run_id: str, value: float, origin: str = PERSON) -> None:
    """Store the threshold of a run.

    Args:
        value: 0..1.
        origin: `PERSON`, "top:" and how many were to be flagged, or "audit:" and the id of a check.

    Raises:
        ProjectError: if it is no score, or there is no such run.
    """
    with store.connect(layout) as db:
        choices.set_threshold(db, runs.find(db, run_id).run_id, value, origin)


def setting(layout: Layout, name: Name) -> Any:
    """Return a setting of a screen as people left it."""
    return store.call(layout, choices.get, name, USUAL[name])


def choose_setting(layout: Layout, name: Name, value: Any) -> None:
    """Store a setting of a screen, a JSON value. Raises ProjectError if there is no such setting."""
    if name not in USUAL:
        raise ProjectError(f"{name!r} is no setting; these are: {', '.join(USUAL)}.", "Name one of them.")
    store.call(layout, choices.put, name, value)
