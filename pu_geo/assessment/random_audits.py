"""Random checks that judge: may the search stop, and how good is the map? No torch in this process.

A check draws buildings that nobody had answered when it began, in an order that is fixed from then on. Its answers are
labels like others, stored as an audit's, so that nothing learns from them; only they make up its sample, and a label that is
corrected later counts as corrected. One check at a time is open; those before are kept, and so are their answers. A check
that was left unfinished counts as far as its order was answered (`Answered.state`). Each counts its own answers alone, see
`store.checks`; random checks of the search are those that are no check's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit import progress
from pu_geo.answers import presence, queueing
from pu_geo.answers.queueing import LENGTH
from pu_geo.answers.random_checks import SAMPLE, Check, Purpose, inclusion_of, load
from pu_geo.errors import PuGeoError
from pu_geo.records import Bools, Facts, Ints
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import analysts, checks, chosen, contents, freshness, labels, population, queues, runs, store
from pu_geo.store.layout import Layout
from pu_geo.store.queues import QueueItem, StoredQueue

State = Literal["finished", "open", "reduced", "void"]
_CODES: Mapping[str | None, int] = {
    "positive": audit.DAMAGED, "not_damaged": audit.UNDAMAGED, "not_assessable": audit.NOT_ASSESSABLE, None: audit.OPEN,
}  # fmt: skip


@dataclass(frozen=True)
class StopView:
    """The state of a stop check: what to do in words, and whether a search that went on has made it void."""

    n_checked: int
    n_damaged: int
    n_more: int
    is_void: bool
    words: str


def begin_stop_check(layout: Layout, analyst: str) -> Check:
    """Start a check that draws evenly among all buildings that nobody answered.

    Raises:
        PuGeoError: if there are no chips yet, or nothing is left to check.
    """
    newest = store.call(layout, contents.latest_chip_set)
    now = None if newest is None else queueing.standing(layout, newest)
    if now is None or now.is_answered.all():
        raise PuGeoError(
            "There is nothing left to check: no chips, or every building is answered.",
            "Cut chips on the Imagery page first.",
        )
    chip_set = freshness.require(layout)
    sample = progress.start_audit(np.zeros(len(now.ids)), now.is_answered, seed=_seed(), cuts=())
    return _begin(layout, "stop", None, analyst, sample, chip_set)


def begin_audit(layout: Layout, run_id: str, n: int, analyst: str) -> Check:
    """Begin the audit of a run's map with n checks. Raises PuGeoError if n is out of range, or nothing is left to check.

    Its strata come from the scores without evidence from place: neighbors would share a stratum by what an audit shall
    judge. Of several sites each has strata of its own, see `design.design`.
    """
    facts = store.call(layout, runs.find, run_id)
    freshness.refuse_former(layout, facts.chip_set)
    scores = np.asarray(runs.scores_alone(layout, facts.run_id), np.float64)
    is_known = answers_of(layout, facts.chip_set, facts.run_id) != audit.OPEN
    n_open = int((~is_known).sum())
    fewest = fewest_of(n_open)
    if not fewest <= n <= n_open or not n_open:
        asked = f"An accuracy assessment of {n} checks was asked for"
        if not n_open:
            raise PuGeoError(f"{asked}; every building is answered.", "There is nothing to estimate.")
        raise PuGeoError(
            f"{asked}; it takes {fewest:,} at least, and {wording.plural(n_open, 'building has', 'buildings have')} no "
            "answer yet.",
            f"Choose between {fewest:,} and {n_open:,}.",
        )
    where = store.call(layout, population.sites, chip_facts(layout, facts.chip_set)["building_ids"])
    drawn = audit.design(scores, is_known, n=n, seed=_seed(), sites=where.or_none)
    return _begin(layout, "audit", facts.run_id, analyst, drawn, facts.chip_set)


def fewest_of(n_open: int) -> int:
    """Return how many checks an audit takes at least, of so many buildings without an answer."""
    return min(progress.FEWEST_CHECKS, n_open)


def _seed() -> int:
    return secrets.randbits(32)  # nobody, the analyst included, may foresee what is drawn; the order is stored


def _begin(
    layout: Layout, purpose: Purpose, run_id: str | None, analyst: str, sample: progress.Audit, chip_set: str
) -> Check:
    at_event = store.call(layout, labels.last_event)
    facts: dict[str, Any] = {
        "id": f"check-{secrets.token_hex(5)}", "purpose": purpose, "chip_set": chip_set, "run_id": run_id,
        "begun_by": analyst, "begun_at": store.now(), "at_event": at_event, "is_open": True,
        "open_spans": [[at_event, None]], "n_drawn": sample.n_drawn, "handed": {}, "handed_before": {},
    }  # fmt: skip
    with queues.locked(layout):
        _close_all(layout)
        checks.add(layout, facts, {name: np.asarray(getattr(sample, name)) for name in SAMPLE})
    chosen.chosen_run(layout)  # an audited run is shown, unless a person chose or published another one
    return load(layout, str(facts["id"]))


def _close_all(layout: Layout, *, but: str = "") -> int:
    """Close the checks that are open, but for one; return the newest event. The caller holds the lock."""
    event = store.call(layout, labels.last_event)
    for facts in checks.all_checks(layout):
        if facts["is_open"] and facts["id"] != but:
            checks.save_facts(layout, checks.closed(facts, event))
    return event


def newest_audit(layout: Layout, run_id: str | None = None) -> Check | None:
    """Return the last audit of a run, or of any run, open or not."""
    found = audits_of(layout, run_id)
    return load(layout, found[-1]["id"]) if found else None


def audits_of(layout: Layout, run_id: str | None = None) -> list[Facts]:
    """Return the facts of all audits of a run, or of any run that is there, oldest first, see `store.checks`."""
    there = {facts.run_id for facts in store.call(layout, runs.all_runs)}
    audits = [facts for facts in checks.all_checks(layout) if facts["purpose"] == "audit" and facts["run_id"] in there]
    return [facts for facts in audits if run_id in (None, facts["run_id"])]


def leave(layout: Layout, check_id: str, analyst: str, *, former: Iterable[str] = ()) -> None:
    """Send an analyst back to the search. The answers stay; the check is closed once all who were handed some of it have
    left.

    Estimates use the answers that count, see `Answered`.

    Args:
        former: names that the analyst had before, which keep a check open no longer, unless somebody works under them now.
    """
    with queues.locked(layout):
        facts, _ = checks.load(layout, check_id)
        left = {*facts.get("left", ()), analyst}
        facts = {**facts, "left": sorted(left)}
        gone = left | (set(former) - presence.names_here(layout))
        if not set(facts["handed"].values()) - gone:
            facts = checks.closed(facts, store.call(layout, labels.last_event))
        checks.save_facts(layout, facts)


def end(layout: Layout, check_id: str) -> None:
    """Close a check for everyone, also for those who went home without leaving it. The answers stay."""
    with queues.locked(layout):
        facts, _ = checks.load(layout, check_id)
        checks.save_facts(layout, checks.closed(facts, store.call(layout, labels.last_event)))


def others_in(layout: Layout, check: Check, analyst: str) -> list[str]:
    """Return the other analysts who were handed some of an open check and have not left it."""
    facts, _ = checks.load(layout, check.id)
    return sorted({*facts["handed"].values()} - {*facts.get("left", ()), analyst}) if check.is_open else []


def takes_part(layout: Layout, check: Check, analyst: str) -> bool:
    """Return whether an analyst answers a check rather than searches on."""
    return check.is_open and analyst not in checks.load(layout, check.id)[0].get("left", ())


def unfinished_audit(layout: Layout) -> Check | None:
    """Return the newest audit if checks of it wait for an answer, open or not."""
    check = newest_audit(layout)
    return check if check is not None and answered(layout, check).n_open else None


def resume(layout: Layout, check_id: str, analyst: str) -> Check:
    """Let an analyst answer a check on; it is opened again if it was closed. A queue that others have answered is passed
    by.
    """
    check = extend(layout, check_id, 0, analyst)
    queue, answers = check_queue(layout, analyst, check), answers_of(layout, check.chip_set, check.run_id)
    open_ids = {
        building
        for building, answer in zip(chip_facts(layout, check.chip_set)["building_ids"], answers, strict=True)
        if answer == audit.OPEN
    }
    if queue.items and not any(item.building_id in open_ids for item in queue.items):
        advance_check(layout, analyst, check, done=queue.id)
    return load(layout, check_id)


def extend(layout: Layout, check_id: str, n_more: int, analyst: str | None = None) -> Check:
    """Draw more of the same order and answer on; the sample stays a fair one. Another check that is open is closed.

    Args:
        analyst: who takes part again; nobody in particular if None.
    """
    with queues.locked(layout):
        facts, arrays = checks.load(layout, check_id)
        stays = np.flatnonzero(~population.is_gone(layout, facts["chip_set"], facts["run_id"])[arrays["rows"]])
        more = stays[stays >= int(facts["n_drawn"])][:n_more]
        drawn = int(more[-1]) + 1 if len(more) else int(facts["n_drawn"])
        event = _close_all(layout, but=check_id)
        left = [one for one in facts.get("left", ()) if one != analyst]
        checks.save_facts(layout, {**checks.opened(facts, event), "n_drawn": drawn, "left": left})
    return load(layout, check_id)


# What was answered


def answers_of(layout: Layout, chip_set: str, run_id: str | None = None) -> NDArray[np.int8]:
    """Return what is known of each building of a chip set, int8 [N], in the codes of `analysis.audit`: labels as they are
    now.

    Args:
        run_id: whose map is judged: buildings that it does not assess are not assessable. Without one only those are that
            the imagery after the event hides, as nobody can answer them. Removed buildings never are.
    """
    found = population.of(layout, chip_set, run_id)
    answers = np.fromiter(map(_CODES.__getitem__, found.answers), np.int8, len(found.ids))
    answers[(answers == audit.OPEN) & (found.why != "")] = audit.NOT_ASSESSABLE
    return answers


@dataclass(frozen=True)
class Answered:
    """A check's sample as far as it was answered.

    Attributes:
        sample: the drawing order, with as many rows drawn as count, see `progress.n_counted`.
        answers: int8 [N] of the chip set's buildings, labels as they are now.
        is_outside: bool [N], could have been drawn and was answered since, but is not among the rows that count.
        n_drawn, n_answered, n_damaged: rows drawn, answered of them as checks, and found damaged by those that count.
        n_open: drawn rows without an answer.
        state: "finished"; "open" while people answer it; left unfinished it is "reduced" to the rows that count, or "void"
            where these are too few.
        words: the state in a sentence or two; which answers count, and for which buildings they speak where some were
            removed.
        frame: of these words, those on what was removed; "" where nothing was.
    """

    sample: progress.Audit
    answers: NDArray[np.int8]
    is_outside: Bools
    n_drawn: int
    n_answered: int
    n_damaged: int
    n_open: int
    state: State
    words: str
    frame: str = ""

    @property
    def n_counted(self) -> int:
        return self.sample.n_drawn


def answered(layout: Layout, check: Check) -> Answered:
    """Find which answers are a check's, and which of them count."""
    found = _answered(
        layout, check.chip_set, check.sample, answers_of(layout, check.chip_set, check.run_id), since=check.at_event,
        is_left=not check.is_open, is_own=_is_own(layout, check),
    )  # fmt: skip
    if check.picked:
        words = f"The checks are void: {check.picked}, so the others are no random choice. Start new ones."
        return replace(
            found, sample=replace(found.sample, n_drawn=0), n_damaged=0, n_open=0, state="void", words=words, frame=words
        )
    if not check.n_gone:
        return found
    n = len(check.sample.rows)
    if not n:
        words = "The checks are void: none of the buildings that they were drawn from is left. Start new ones."
        return replace(found, state="void", words=words, frame=words)
    frame = (
        f"{check.n_gone:,} of the {n + check.n_gone:,} buildings that checks were drawn from are gone since; they speak for "
        f"the {n:,} that are left."
    )
    return replace(found, words=f"{found.words} {frame}", frame=frame)


def _is_own(layout: Layout, check: Check) -> Callable[[labels.Given], bool]:
    """Return what tells whether an answer was one of a check's."""
    facts, _ = checks.load(layout, check.id)
    return lambda one: checks.is_own(facts, one.building_id, one.event, one.analyst)


def answered_in_search(layout: Layout, chip_set: str, drawn: progress.Audit, answers: NDArray[np.int8]) -> Answered:
    """Return the same for the random checks that the queues of the search drew, see `queueing.checks_of_search`."""
    others = checks.all_checks(layout)
    return _answered(
        layout, chip_set, drawn.without(population.is_gone(layout, chip_set, None)), answers, since=0, is_left=False,
        is_own=lambda one: not any(checks.is_own(facts, one.building_id, one.event) for facts in others),
    )  # fmt: skip


def _answered(
    layout: Layout, chip_set: str, drawn: progress.Audit, answers: NDArray[np.int8], *, since: int, is_left: bool,
    is_own: Callable[[labels.Given], bool],
) -> Answered:  # fmt: skip
    """Find which answers count of a sample of a chip set's buildings.

    Args:
        since: labels up to this event were known when the sample's order was fixed.
        is_left: nobody goes on answering it.
        is_own: whether a random check was one of this sample.
    """
    ids: Sequence[str] = chip_facts(layout, chip_set)["building_ids"]
    rows = drawn.rows[: drawn.n_drawn]
    known_at, checked_at = _first_answers(layout, ids, rows, since, is_own)
    sample = audit.as_answered(drawn, answers, checked_at, known_at)
    is_check, is_open = checked_at[rows] > 0, answers[rows] == audit.OPEN
    is_check[: sample.n_drawn] = True
    is_outside = np.zeros(len(answers), np.bool_)
    is_outside[drawn.rows[sample.n_drawn :]] = answers[drawn.rows[sample.n_drawn :]] != audit.OPEN
    n_answered, n_open = int((is_check & ~is_open).sum()), int(is_open.sum())
    state = _state(sample.n_drawn, n_open, is_left=is_left)
    n_damaged = int((answers[rows[: sample.n_drawn]] == audit.DAMAGED).sum())
    words = _state_words(state, drawn.n_drawn, sample.n_drawn, n_answered, n_open)
    return Answered(sample, answers, is_outside, drawn.n_drawn, n_answered, n_damaged, n_open, state, words)


def _first_answers(
    layout: Layout, ids: Sequence[str], rows: Ints, since: int, is_own: Callable[[labels.Given], bool]
) -> tuple[Ints, Ints]:
    """Return the events of the first answer of any kind, and of the first one of a sample's own checks, since an event.

    Returns:
        int64 [N] each, of all buildings; 0 where there is none, and outside `rows`, of which no event is read.
    """
    known_at, checked_at = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    row_of = {ids[row]: row for row in rows.tolist()}
    for one in store.call(layout, labels.given_since, since, list(row_of)):
        row = row_of[one.building_id]
        if not known_at[row]:
            known_at[row] = one.event
        if one.is_check and not checked_at[row] and is_own(one):
            checked_at[row] = one.event
    return known_at, checked_at


def _state(n_counted: int, n_open: int, *, is_left: bool) -> State:
    if not n_open:
        return "finished"
    if not is_left:
        return "open"
    return "reduced" if n_counted >= progress.FEWEST_CHECKS else "void"


def _state_words(state: State, n_drawn: int, n_counted: int, n_answered: int, n_open: int) -> str:
    words = {
        "finished": f"All {n_drawn:,} checks are answered.",
        "open": f"{n_open:,} of {n_drawn:,} checks are open; the first {n_counted:,} of the random order count so far.",
        "reduced": f"The accuracy assessment was left unfinished: of {n_drawn:,} checks the first {n_counted:,} count, "
        "which were answered before it was left. What was labeled since is no random answer.",
        "void": f"The accuracy assessment was left unfinished and is void: only {n_counted:,} of {n_drawn:,} checks count, "
        "and it takes "
        f"{progress.FEWEST_CHECKS}.",
    }[state]
    if state == "finished" and n_counted < n_drawn:
        words = f"{words} {n_drawn - n_counted:,} were answered by the search before they came up and do not count."
    if (n_waiting := n_answered - n_counted) > 0:
        words += f" {n_waiting:,} more answers count once the checks before them are answered that were skipped or cleared."
    return words


def stop_view(layout: Layout, check: Check, at_most_left: int) -> StopView:
    """Return how many more checks prove that at most so many damaged buildings are left.

    Only checks count, without a gap in their order; answers of a search since the check began make it void.
    """
    found = answered(layout, check)
    rows, n_damaged = check.sample.rows, found.n_damaged
    n_checked = int(np.isin(found.answers[rows[: found.n_counted]], (audit.DAMAGED, audit.UNDAMAGED)).sum())
    why = check.picked
    if not why:
        ids, is_answered = chip_facts(layout, check.chip_set)["building_ids"], found.answers[rows] != audit.OPEN
        known_at, checked_at = _first_answers(layout, ids, rows[is_answered], check.at_event, _is_own(layout, check))
        if ((known_at > 0) & (checked_at == 0)).any():
            why = "Buildings were labeled outside this check since it began"
    if why:
        return StopView(n_checked, n_damaged, 0, True, f"{why}, so it proves nothing any more. Start a new one.")
    n_remaining = int((found.answers[rows] == audit.OPEN).sum()) + found.n_answered - found.n_counted
    advice = progress.stop_rule(n_remaining, n_checked, n_damaged, at_most_left=at_most_left)
    return StopView(n_checked, n_damaged, advice.n_more, False, advice.words)


# What each analyst, and a second reader, is to answer next


def check_queue(layout: Layout, analyst: str, check: Check, *, is_second: bool = False) -> StoredQueue:
    """Return the analyst's queue of a check; the first one is made where there is none yet.

    Args:
        is_second: read what others have answered, once more and without seeing their answers.
    """
    found = queues.load_queues(layout, _key(check, analyst, is_second))
    return found[0] if found else advance_check(layout, analyst, check, done=None, is_second=is_second)


def advance_check(layout: Layout, analyst: str, check: Check, *, done: str | None, is_second: bool = False) -> StoredQueue:
    """Make the queue that comes after `done`; asked twice, it is the same one.

    What an analyst skipped comes again first, because no later answer counts before it. Nobody is handed what another is
    answering until nothing else is left: who went home must not keep an audit from its end. A stop check draws on as it
    needs.
    """
    with queues.locked(layout):
        key = _key(check, analyst, is_second)
        before = queues.load_queues(layout, key)
        if before and before[0].id != done:
            return before[0]
        facts, arrays = checks.load(layout, check.id)
        check = load(layout, check.id)
        rows, drawn = _next_rows(layout, check, facts["handed"], analyst, is_second)
        ids = chip_facts(layout, check.chip_set)["building_ids"]
        handed = facts if is_second else checks.handed_out(facts, [ids[row] for row in rows], analyst)
        now = replace(check, sample=replace(check.sample, n_drawn=drawn))
        if drawn > check.sample.n_drawn:
            handed["n_drawn"] = int(np.flatnonzero(arrays["rows"] == check.sample.rows[drawn - 1])[0]) + 1
        checks.save_facts(layout, handed)
        items = [QueueItem(ids[row], "audit", "check", inclusion_of(now, row)) for row in rows]
        found = StoredQueue(check.chip_set, items, is_second)
        queues.save_queue(layout, key, found)
    return found


def _next_rows(layout: Layout, check: Check, handed: dict[str, str], analyst: str, is_second: bool) -> tuple[list[int], int]:
    """Choose up to 20 rows for one analyst; return them and how far the sample is drawn then."""
    ids = chip_facts(layout, check.chip_set)["building_ids"]
    answers, sample = answers_of(layout, check.chip_set, check.run_id), check.sample
    drawn = sample.rows[: sample.n_drawn].tolist()
    if is_second:
        answered_by = store.call(layout, analysts.own_answers).items()
        own = {
            building
            for (building, who), event in answered_by
            if who == analyst and event.shown == "audit" and event.event > check.at_event
        }
        return [row for row in drawn if answers[row] != audit.OPEN and ids[row] not in own][:LENGTH], sample.n_drawn
    still_open = [row for row in drawn if answers[row] == audit.OPEN]
    rows = [row for row in still_open if handed.get(ids[row]) == analyst] + [
        row for row in still_open if ids[row] not in handed
    ]
    end = sample.n_drawn
    if check.purpose == "stop" and len(rows) < LENGTH:
        new = sample.rows[end : end + LENGTH - len(rows)].tolist()
        rows, end = [*rows, *(row for row in new if answers[row] == audit.OPEN)], end + len(new)
    return (rows or still_open)[:LENGTH], end


def _key(check: Check, analyst: str, is_second: bool) -> str:
    return f"{check.id} {'second' if is_second else 'first'} {analyst}"
