"""The random checks that are handed out: one check's sample, whether one is going on, and with what probability a building
was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.audit import progress
from pu_geo.answers import queueing
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import checks, contents, labels, population, store
from pu_geo.store.layout import Layout

Purpose = Literal["stop", "audit"]
SAMPLE = [item.name for item in fields(progress.Audit) if item.name != "n_drawn"]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        purpose: "stop" asks whether hardly any damage is left, "audit" how good a run's map is.
        chip_set: whose buildings, in whose order, the sample's rows count.
        run_id: whose scores made the strata; None for "stop".
        at_event: labels up to this event were known when it began.
        sample: the drawing order of the buildings that it still speaks for, and how far these were drawn.
        n_gone: buildings of its order that were removed since, or stand elsewhere.
        picked: "" unless those that were removed were picked among the ones answered since, in words: what is left is no
            random choice.
    """

    id: str
    purpose: Purpose
    chip_set: str
    run_id: str | None
    at_event: int
    is_open: bool
    sample: progress.Audit
    n_gone: int = 0
    picked: str = ""


def load(layout: Layout, check_id: str) -> Check:
    """Return one check."""
    facts, arrays = checks.load(layout, check_id)
    of_check = {item.name: facts[item.name] for item in fields(Check) if item.name in facts}
    drawn = progress.Audit(**{name: arrays[name] for name in SAMPLE}, n_drawn=int(facts["n_drawn"]))
    is_gone = population.is_gone(layout, facts["chip_set"], facts["run_id"])
    n_gone = int(is_gone[drawn.rows].sum())
    picked = _picked(layout, facts, drawn, is_gone) if n_gone else ""
    return Check(**of_check, sample=drawn.without(is_gone), n_gone=n_gone, picked=picked)


def _picked(layout: Layout, facts: Mapping[str, Any], drawn: progress.Audit, is_gone: NDArray[np.bool_]) -> str:
    """Return that those of its buildings that went by a list or a newer file were picked among the ones answered since; ""
    if not.
    """
    ids: Sequence[str] = chip_facts(layout, facts["chip_set"])["building_ids"]
    with store.connect(layout) as db:
        if not (listed := contents.removed_by_list(db)):
            return ""
        given = labels.given_since(db, int(facts["at_event"]), [ids[row] for row in drawn.rows])
    sets = (listed, {one.building_id for one in given}, {one.building_id for one in given if one.is_check})
    is_listed, is_known, is_checked = (np.fromiter(map(some.__contains__, ids), np.bool_, len(ids)) for some in sets)
    is_listed &= is_gone
    if not drawn.is_picked(is_checked, is_listed) and not drawn.without(is_checked).is_picked(is_known, is_listed):
        return ""
    n, n_known = int(is_listed[drawn.rows].sum()), int((is_listed & is_known)[drawn.rows].sum())
    return f"{n_known:,} of {n:,} buildings that were removed since had been answered since it began"


def open_check(layout: Layout) -> Check | None:
    """Return the check that is going on, if there is one."""
    found = [facts for facts in checks.all_checks(layout) if facts["is_open"]]
    return load(layout, found[-1]["id"]) if found else None


def inclusion_of(check: Check, row: int) -> float | None:
    """Return the probability with which a building is in the sample as it is now; None if it is not in it."""
    place = np.flatnonzero(check.sample.rows[: check.sample.n_drawn] == row)
    return float(check.sample.inclusion()[check.sample.stratum[place[0]]]) if len(place) else None


def inclusion_now(layout: Layout, analyst: str, building_id: str) -> float | None:
    """Return the probability with which a building was drawn that the analyst answers as a random check; None if it was not.

    That is of the open check if it drew the building, otherwise of the analyst's newest queues.
    """
    check = open_check(layout)
    ids: Sequence[str] = chip_facts(layout, check.chip_set)["building_ids"] if check else ()
    found = inclusion_of(check, ids.index(building_id)) if check and building_id in ids else None
    return queueing.inclusion_of(layout, analyst, building_id) if found is None else found
