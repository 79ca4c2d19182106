"""The queue of a random check: what each analyst, and a second reader, is to answer next."""

from __future__ import annotations

import secrets

from pu_geo.analysis.audit import design
from pu_geo.project import analysts, checks, queues, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import queueing
from pu_geo.services.annotate.queueing import LENGTH, StoredQueue, stored_queue
from pu_geo.services.damage_map.random_audits import (
    Check,
    answers_of,
    drawn_to,
    inclusion_of,
    inclusion_of_building,
    open_check,
)
from pu_geo.services.imagery.preparation import chip_facts


def queue(layout: Layout, analyst: str, check: Check, *, is_second: bool = False) -> StoredQueue:
    """Return the analyst's queue of a check; the first one is made where there is none yet.

    Args:
        is_second: read what others have answered, once more and without seeing their answers.
    """
    found = queues.load_queues(layout, _key(check, analyst, is_second))
    return stored_queue(found[0]) if found else advance(layout, analyst, check, done=None, is_second=is_second)


def advance(layout: Layout, analyst: str, check: Check, *, done: str | None, is_second: bool = False) -> StoredQueue:
    """Make the queue that comes after `done`; the same wish asked twice gets the same queue.

    What an analyst skipped comes again first, because no later answer counts before it. Nobody is handed what another looks at
    until nothing else is left: who went home must not keep an audit from its end. A stop check draws on as it needs.
    """
    with queues.locked(layout):
        key = _key(check, analyst, is_second)
        before = queues.load_queues(layout, key)
        if before and before[0]["id"] != done:
            return stored_queue(before[0])
        facts, _ = checks.load(layout, check.id)
        rows, drawn = _next_rows(layout, drawn_to(check, int(facts["n_drawn"])), facts["handed"], analyst, is_second)
        ids = chip_facts(layout, check.chip_set)["building_ids"]
        handed = facts if is_second else checks.handed_out(facts, [ids[row] for row in rows], analyst)
        checks.save_facts(layout, {**handed, "n_drawn": drawn})
        now = drawn_to(check, drawn)
        items = [
            {"building_id": ids[row], "kind": "audit", "why": "random check", "inclusion": inclusion_of(now, row)}
            for row in rows
        ]
        found = {"id": secrets.token_hex(6), "chip_set": check.chip_set, "items": items}
        queues.save_queue(layout, key, found)
    return stored_queue(found)


def inclusion_now(layout: Layout, analyst: str, building_id: str) -> float | None:
    """Return the probability with which a building was drawn that the analyst answers as a random check; None if it was not.

    That is of the open check if it drew the building, otherwise of the analyst's newest queues.
    """
    check = open_check(layout)
    found = inclusion_of_building(layout, check, building_id) if check else None
    return queueing.inclusion_of(layout, analyst, building_id) if found is None else found


def _next_rows(layout: Layout, check: Check, handed: dict[str, str], analyst: str, is_second: bool) -> tuple[list[int], int]:
    """Choose up to 20 rows for one analyst; return them and how far the sample is drawn then."""
    ids = chip_facts(layout, check.chip_set)["building_ids"]
    answers, sample = answers_of(layout, check.chip_set, check.run_id), check.sample
    drawn = sample.rows[: sample.n_drawn].tolist()
    if is_second:
        with store.connect(layout) as db:
            said = analysts.own_answers(db).items()
        own = {
            building
            for (building, who), event in said
            if who == analyst and event.shown == "audit" and event.event > check.at_event
        }
        return [row for row in drawn if answers[row] != design.OPEN and ids[row] not in own][:LENGTH], sample.n_drawn
    still_open = [row for row in drawn if answers[row] == design.OPEN]
    rows = [row for row in still_open if handed.get(ids[row]) == analyst] + [
        row for row in still_open if ids[row] not in handed
    ]
    end = sample.n_drawn
    if check.purpose == "stop" and len(rows) < LENGTH:
        new = sample.rows[end : end + LENGTH - len(rows)].tolist()
        rows, end = [*rows, *(row for row in new if answers[row] == design.OPEN)], end + len(new)
    return (rows or still_open)[:LENGTH], end


def _key(check: Check, analyst: str, is_second: bool) -> str:
    return f"{check.id} {'second' if is_second else 'first'} {analyst}"
