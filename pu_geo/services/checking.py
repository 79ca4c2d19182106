"""Random checks that judge: may the search stop, and how good is the map? No torch in this process.

A check draws buildings that nobody had answered when it began, in an order that is fixed from then on. Its answers are
labels like others, stored as an audit's, so that nothing learns from them. One check at a time is open; those before are
kept, and so are their answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, audit, progress
from pu_geo.errors import PuGeoError
from pu_geo.project import checks, contents, labels, queues, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services import choices, queueing
from pu_geo.services.imagery import chip_facts

Purpose = Literal["stop", "audit"]
_CODES = {"positive": audit.DAMAGED, "not_damaged": audit.UNDAMAGED, "not_assessable": audit.NOT_ASSESSABLE}
_SAMPLE = [item.name for item in fields(progress.Audit) if item.name != "n_drawn"]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        purpose: "stop" asks whether hardly any damage is left, "audit" how good a run's map is.
        chip_set: whose buildings, in whose order, the sample's rows count.
        run_id: whose scores made the strata; None for "stop".
        at_event: labels up to this event were known when it began.
        sample: the drawing order, and how far it was drawn.
    """

    id: str
    purpose: Purpose
    chip_set: str
    run_id: str | None
    begun_by: str
    begun_at: str
    at_event: int
    is_open: bool
    sample: progress.Audit


@dataclass(frozen=True)
class StopView:
    """How a stop check stands: what to do in words, and whether it is worth nothing any more because a search went on."""

    n_checked: int
    n_damaged: int
    n_more: int
    is_void: bool
    words: str


def begin_stop_check(layout: Layout, analyst: str) -> Check:
    """Begin to check evenly among all buildings that nobody answered.

    Raises:
        PuGeoError: if there are no chips yet, or nothing is left to check.
    """
    now = queueing.standing(layout)
    if now is None or now.is_answered.all():
        raise PuGeoError(
            "There is nothing left to check: no chips, or every building is answered.",
            "Cut chips on the Imagery page first.",
        )
    with store.connect(layout) as db:
        chip_set = str(contents.latest_chip_set(db))
    level = np.zeros(len(now.ids))
    sample = progress.start_audit(level, now.is_answered, seed=_seed(), cuts=())
    return _begin(layout, "stop", None, analyst, sample, chip_set)


def begin_audit(layout: Layout, run_id: str, n: int, analyst: str) -> Check:
    """Begin the audit of a run's map with n checks.

    Raises:
        PuGeoError: if n is out of range, or nothing is left to check.
    """
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
    scores = np.asarray(runs.array(layout, facts.run_id, "scores"), np.float64)
    is_known = answers_of(layout, facts.chip_set) != audit.OPEN
    n_open = int((~is_known).sum())
    if not 1 <= n <= n_open:
        raise PuGeoError(
            f"An audit of {n} checks was asked for; {n_open:,} buildings have no answer yet.",
            f"Choose between 1 and {n_open:,}." if n_open else "Every building is answered; there is nothing to estimate.",
        )
    return _begin(layout, "audit", facts.run_id, analyst, audit.design(scores, is_known, n=n, seed=_seed()), facts.chip_set)


def _seed() -> int:
    return secrets.randbits(32)  # nobody, the analyst included, may foresee what is drawn; the order is stored


def _begin(
    layout: Layout, purpose: Purpose, run_id: str | None, analyst: str, sample: progress.Audit, chip_set: str
) -> Check:
    with store.connect(layout) as db:
        at_event = labels.last_event(db)
    facts: dict[str, Any] = {
        "id": f"check-{secrets.token_hex(5)}", "purpose": purpose, "chip_set": chip_set, "run_id": run_id,
        "begun_by": analyst, "begun_at": store.now(), "at_event": at_event, "is_open": True,
        "n_drawn": sample.n_drawn, "handed": {},
    }  # fmt: skip
    with queues.locked(layout):
        for other in checks.all_checks(layout):
            if other["is_open"]:
                checks.save_facts(layout, {**other, "is_open": False})
        checks.add(layout, facts, {name: np.asarray(getattr(sample, name)) for name in _SAMPLE})
    choices.chosen_run(layout)  # an audited run is shown, unless a person chose or published another one
    return load(layout, str(facts["id"]))


def load(layout: Layout, check_id: str) -> Check:
    """Return one check."""
    facts, arrays = checks.load(layout, check_id)
    sample = progress.Audit(**{name: arrays[name] for name in _SAMPLE}, n_drawn=int(facts["n_drawn"]))
    return Check(**{item.name: facts[item.name] for item in fields(Check) if item.name != "sample"}, sample=sample)


def open_check(layout: Layout) -> Check | None:
    """Return the check that is going on, if there is one."""
    found = [facts for facts in checks.all_checks(layout) if facts["is_open"]]
    return load(layout, found[-1]["id"]) if found else None


def newest_audit(layout: Layout, run_id: str | None = None) -> Check | None:
    """Return the last audit of a run, or of any run, open or not."""
    audits = [facts for facts in checks.all_checks(layout) if facts["purpose"] == "audit"]
    found = [facts for facts in audits if run_id in (None, facts["run_id"])]
    return load(layout, found[-1]["id"]) if found else None


def end(layout: Layout, check_id: str) -> None:
    """Go back to searching; the answers stay, and estimates use them."""
    with queues.locked(layout):
        facts, _ = checks.load(layout, check_id)
        checks.save_facts(layout, {**facts, "is_open": False})


def extend(layout: Layout, check_id: str, n_more: int) -> Check:
    """Draw more of the same order; the sample stays a fair one."""
    with queues.locked(layout):
        facts, arrays = checks.load(layout, check_id)
        drawn = min(int(facts["n_drawn"]) + n_more, len(arrays["rows"]))
        checks.save_facts(layout, {**facts, "n_drawn": drawn, "is_open": True})
    return load(layout, check_id)


# What was answered


def answers_of(layout: Layout, chip_set: str, since: Check | None = None) -> NDArray[np.int8]:
    """Return what is known of each building of a chip set, int8 [N], in the codes of `analysis.audit`.

    Args:
        since: of buildings that this check drew, its own answers come before all others.
    """
    facts = chip_facts(layout, chip_set)
    ids: Sequence[str] = facts["building_ids"]
    with store.connect(layout) as db:
        said = {building: _CODES[label] for building, label in labels.current_labels(db).items()}
        if since is not None:
            drawn = {ids[row] for row in since.sample.rows[: since.sample.n_drawn]}
            found = [one for one in labels.audits(db) if one.event > since.at_event and one.building_id in drawn]
            said |= {one.building_id: _CODES[one.label] for one in found}
    answers = np.fromiter((said.get(building, audit.OPEN) for building in ids), np.int8, len(ids))
    is_hidden = assessability.reasons(facts) != ""
    answers[(answers == audit.OPEN) & is_hidden] = audit.NOT_ASSESSABLE
    return answers


def stop_view(layout: Layout, check: Check, at_most_left: int, confidence: float = 0.95) -> StopView:
    """Say how many more checks prove that at most so many damaged buildings are left."""
    answers = answers_of(layout, check.chip_set, check)
    drawn, later = np.split(answers[check.sample.rows], [check.sample.n_drawn])
    is_void = bool((later != audit.OPEN).any())
    n_checked, n_damaged = int(np.isin(drawn, (audit.DAMAGED, audit.UNDAMAGED)).sum()), int((drawn == audit.DAMAGED).sum())
    if is_void:
        words = "Buildings were labeled outside this check since it began, so it proves nothing any more. Begin a new one."
        return StopView(n_checked, n_damaged, 0, True, words)
    n_remaining = int((answers[check.sample.rows] == audit.OPEN).sum())
    advice = progress.stop_rule(n_remaining, n_checked, n_damaged, at_most_left=at_most_left, confidence=confidence)
    return StopView(n_checked, n_damaged, advice.n_more, False, advice.words)


@dataclass(frozen=True)
class Done:
    """How far a check is: drawn, answered of them, and found damaged."""

    n_drawn: int
    n_answered: int
    n_damaged: int


def progress_of(layout: Layout, check: Check) -> Done:
    """Count the answers of a check."""
    return done_of(check, answers_of(layout, check.chip_set, check))


def done_of(check: Check, answers: NDArray[np.int8]) -> Done:
    """Count the answers of a check among those that `answers_of` gave."""
    drawn = answers[check.sample.rows[: check.sample.n_drawn]]
    return Done(len(drawn), int((drawn != audit.OPEN).sum()), int((drawn == audit.DAMAGED).sum()))


def drawn_to(check: Check, n_drawn: int) -> Check:
    """Return the check with a sample of another length."""
    return replace(check, sample=replace(check.sample, n_drawn=n_drawn))


def inclusion_of(check: Check, row: int) -> float | None:
    """Return the probability with which a building is in the sample as it is now; None if it is not in it."""
    place = np.flatnonzero(check.sample.rows[: check.sample.n_drawn] == row)
    return float(check.sample.inclusion()[check.sample.stratum[place[0]]]) if len(place) else None


def inclusion_of_building(layout: Layout, check: Check, building_id: str) -> float | None:
    """Return `inclusion_of` by building id."""
    ids = chip_facts(layout, check.chip_set)["building_ids"]
    return inclusion_of(check, ids.index(building_id)) if building_id in ids else None
