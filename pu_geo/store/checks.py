"""Random checks on disk: one folder entry each, `checks/<id>.json` for facts and `checks/<id>.npz` for the drawing order.

The order never changes; facts that do (how far the sample goes, who answers what, whether it has ended) are rewritten whole,
under the lock of the project's queues.

Which random checks are a check's own: those on buildings that it handed to whoever answered, while it was open. The queues
of the search draw random checks too, and so does the next audit, perhaps of the same buildings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.store.layout import Layout, checked_id, read_arrays, read_json, write_arrays, write_json


def _folder(layout: Layout) -> Path:
    return layout.path("checks")


def all_checks(layout: Layout) -> list[dict[str, Any]]:
    """Return the facts of all checks, oldest first."""
    found = [read_json(path) for path in _folder(layout).glob("*.json")]
    return sorted(found, key=lambda facts: int(facts["number"]))


def load(layout: Layout, check_id: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return facts and arrays of a check. Raises ProjectError if there is none of that id."""
    path = _folder(layout) / f"{checked_id(check_id)}.json"
    if not path.is_file():
        raise ProjectError(f"There is no check {check_id!r} in this project.", "Begin one on the Damage map page.")
    return read_json(path), read_arrays(path.with_suffix(".npz"))


def add(layout: Layout, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a new check under the next number; `facts` has its "id". It is there once its facts are. One at a time."""
    path = _folder(layout) / f"{checked_id(str(facts['id']))}.npz"
    write_arrays(path, arrays)
    number = max((int(one["number"]) for one in all_checks(layout)), default=0) + 1
    save_facts(layout, {**facts, "number": number})


def opened(facts: Mapping[str, Any], event: int) -> dict[str, Any]:
    """Return the facts of a check that is open from now on, after the label event of that number.

    Its "open_spans" are the label events after which it was opened, and up to which it was open; None where it still is.
    """
    if facts["is_open"]:
        return dict(facts)
    return {**facts, "is_open": True, "open_spans": [*facts["open_spans"], (event, None)]}


def closed(facts: Mapping[str, Any], event: int) -> dict[str, Any]:
    """Return the facts of a check that is closed from now on, after the label event of that number."""
    if not facts["is_open"]:
        return dict(facts)
    *before, (begun, _) = facts["open_spans"]
    return {**facts, "is_open": False, "open_spans": [*before, (begun, event)]}


def handed_out(facts: Mapping[str, Any], building_ids: Iterable[str], analyst: str) -> dict[str, Any]:
    """Return the facts of a check that hands some buildings to an analyst; who had them before may still answer them."""
    handed: dict[str, str] = dict(facts["handed"])
    before: dict[str, list[str]] = dict(facts["handed_before"])
    for building in building_ids:
        if handed.get(building, analyst) != analyst:
            before[building] = [*before.get(building, []), handed[building]]
        handed[building] = analyst
    return {**facts, "handed": handed, "handed_before": before}


def is_own(facts: Mapping[str, Any], building_id: str, event: int, analyst: str | None = None) -> bool:
    """Return whether a random check is one of this check: of a building that it handed out, answered while it was open.

    Args:
        analyst: who answered; None for anybody, such as a second reader.
    """
    had = (facts["handed"].get(building_id), *facts["handed_before"].get(building_id, ()))
    if had[0] is None or analyst not in (None, *had):
        return False
    return any(begun < event and (end is None or event <= end) for begun, end in facts["open_spans"])


def save_facts(layout: Layout, facts: Mapping[str, Any]) -> None:
    """Write facts anew; whoever reads them sees the old ones or the new ones."""
    write_json(_folder(layout) / f"{checked_id(str(facts['id']))}.json", dict(facts))
