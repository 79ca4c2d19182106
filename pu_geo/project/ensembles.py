"""Which runs may be put together into one: two or more, of the same chips."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from pu_geo.errors import ProjectError
from pu_geo.project import runs
from pu_geo.records import RunFacts


def members(db: sqlite3.Connection, run_ids: Sequence[str]) -> list[RunFacts]:
    """Return the runs that shall be averaged, in the order in which they were named.

    Args:
        run_ids: ids of runs; "latest" is the newest.

    Raises:
        ProjectError: if there is no such run, fewer than two or one of them twice are named, or their chips differ.
    """
    found = [runs.find(db, run_id) for run_id in run_ids]
    ids = [facts.run_id for facts in found]
    twice = sorted({run_id for run_id in ids if ids.count(run_id) > 1})
    if twice:
        raise ProjectError(f"{twice[0]} was named {ids.count(twice[0])} times.", "Name each run once.", kind="twice")
    if len(found) < 2:
        raise ProjectError(
            f"An average needs two runs or more; {len(found) or 'none'} was named.", "Name another run.", kind="few_runs"
        )
    for facts in found[1:]:
        if facts.chip_set != found[0].chip_set:
            raise ProjectError(
                f"{found[0].run_id} scored the chips {found[0].chip_set}, {facts.run_id} the chips {facts.chip_set}: their "
                "embeddings and buildings differ.",
                "Average runs of the same chips; train again on the newest ones.",
                kind="chips",
            )
    return found


def members_of(db: sqlite3.Connection, facts: RunFacts) -> list[RunFacts]:
    """Return the runs that a run is the average of, as far as they are still there; none for what was trained."""
    named = facts.settings.get("run_ids")
    wanted = set(named) if isinstance(named, list | tuple) else set()
    return [run for run in runs.all_runs(db) if run.run_id in wanted] if wanted else []
