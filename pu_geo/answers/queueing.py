"""What the Annotate screen shows next, why, and how far the search is. No torch in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.analysis.audit import progress
from pu_geo.analysis.queue import DEFAULT_MIX as DEFAULT_MIX
from pu_geo.analysis.queue import NEW, TOP, Item, QueueState, next_queue, of_silent_scenes, spread
from pu_geo.analysis.queue import Mix as Mix
from pu_geo.answers import ranking
from pu_geo.errors import ProjectError
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import contents, labels, population, queues, rounds, store
from pu_geo.store.layout import Layout
from pu_geo.store.population import Sites
from pu_geo.store.queues import QueueItem, StoredQueue
from pu_geo.wording import LABEL_WORDS

LENGTH = 20
MOST_OF_SILENT_SCENES = 3
"""Places of a queue for scenes in which too little is answered, and for buildings without a pre image."""


@dataclass(frozen=True)
class LabelState:
    """What is known of a chip set's buildings right now, all [N] in the order of the chips.

    Attributes:
        ids: building ids.
        is_answered: labeled, or hidden after the event; not shown any more.
        scores: of the instant ranker; None before there is a positive. NaN where very many buildings are being ranked for
            the first time.
        sites: where each of them is.
    """

    ids: Sequence[str]
    is_answered: NDArray[np.bool_]
    scores: NDArray[np.float32] | None
    sites: Sites


def current(layout: Layout, analyst: str) -> StoredQueue | None:
    """Return the analyst's queue, renewed by the answers since; the first one is made where there is none yet. None before
    there are chips.

    What was chosen by its score makes room for what has the highest scores now; random checks stay, and so does the first
    that is open: it is on the screen.
    """
    chip_set = store.call(layout, contents.latest_chip_set)
    if chip_set is None:
        return None
    found = queues.load_queues(layout, analyst)
    if not (found and found[0].chip_set == chip_set):
        return advance(layout, analyst, done=found[0].id if found else None)
    event = store.call(layout, labels.last_event)
    if found[0].event == event:
        return found[0]
    with queues.locked(layout):
        renewed = _renewed(layout, queues.load_queues(layout, analyst)[0], event)
        queues.save_queue(layout, analyst, renewed)
    return renewed


def stored(layout: Layout, analyst: str) -> StoredQueue | None:
    """Return the analyst's queue as it was made last, of the newest chips; None where there is none. It asks for no
    ranking.
    """
    found = queues.load_queues(layout, analyst)
    return found[0] if found and found[0].chip_set == store.call(layout, contents.latest_chip_set) else None


def advance(layout: Layout, analyst: str, *, done: str | None, mix: Mix = DEFAULT_MIX) -> StoredQueue | None:
    """Make the queue that comes after `done`; asked twice, it is the same one.

    Args:
        done: id of the queue that the analyst is through with; None for the first one.
        mix: shares of top scores, unlike chips and random checks.

    Returns:
        None before there are chips. A queue without items where nothing is left to answer.
    """
    with queues.locked(layout):
        before = queues.load_queues(layout, analyst)
        chip_set = store.call(layout, contents.latest_chip_set)
        if chip_set is None:
            return None
        if before and before[0].id != done and before[0].chip_set == chip_set:
            return before[0]
        found = _next(layout, chip_set, mix)
        queues.save_queue(layout, analyst, found)
    return found


def put_first(layout: Layout, analyst: str, building_ids: Sequence[str], why: str) -> int:
    """Make the open ones of some buildings the analyst's next queue; return how many.

    Args:
        why: what the queue says of each.

    Raises:
        ProjectError: if all of them are answered or hidden.
    """
    with queues.locked(layout):
        chip_set = store.call(layout, contents.chosen_chip_set)
        now, wanted = standing(layout, chip_set), set(building_ids)
        rows = [row for row, building in enumerate(now.ids) if building in wanted and not now.is_answered[row]]
        if not rows:
            raise ProjectError("None of these buildings is open.", "Select some that nobody has answered.", kind="queue")
        items = [QueueItem(now.ids[row], "explore", why) for row in rows]
        queues.save_queue(layout, analyst, StoredQueue(chip_set, items, event=store.call(layout, labels.last_event)))
    return len(rows)


def _renewed(layout: Layout, queue: StoredQueue, event: int) -> StoredQueue:
    """Fill the open places of a queue by the newest scores, and remember what was shown. The caller holds the lock."""
    now, renewed = standing(layout, queue.chip_set), replace(queue, event=event)
    if now.scores is None:
        return renewed
    arrays, rows = queues.load_state(layout, queue.chip_set), {building: row for row, building in enumerate(now.ids)}
    is_first = not any(item.why.startswith(TOP) for item in queue.items)  # it was made before there were scores
    why, n_kept = (NEW, 3) if is_first else (TOP, 1)
    places = [
        place for place, item in enumerate(queue.items)
        if item.why.startswith(why) and not now.is_answered[rows[item.building_id]]
    ][n_kept:]  # fmt: skip
    is_shown = arrays["is_shown"]
    is_shown[[rows[queue.items[place].building_id] for place in places]] = False
    places += range(len(queue.items), LENGTH) if is_first else ()
    state = QueueState(now.is_answered, is_shown, sites=now.sites.or_none)
    is_free = ~(now.is_answered | is_shown) & np.isfinite(now.scores)
    of_chips = ranking.feature_rows(layout, queue.chip_set), ranking.places_m(layout, queue.chip_set)
    best = spread(now.scores, *of_chips, state, is_free, len(places))
    items = dict(enumerate(queue.items))
    for place, row in zip(places, best.tolist(), strict=False):
        items[place] = QueueItem(now.ids[row], "exploit", TOP)
    is_shown[[rows[item.building_id] for item in items.values()]] = True
    queues.save_state(layout, queue.chip_set, {**arrays, "is_shown": is_shown})
    return replace(renewed, items=list(items.values()))


def inclusion_of(layout: Layout, analyst: str, building_id: str) -> float | None:
    """Return the probability with which a random check of the analyst's newest queues was drawn; None if it was none."""
    for queue in queues.load_queues(layout, analyst):
        for item in queue.items:
            if item.building_id == building_id and item.kind == "audit":
                return item.inclusion
    return None


def standing(layout: Layout, chip_set: str) -> LabelState:
    """Return what is known of all buildings of a chip set."""
    facts = chip_facts(layout, chip_set)
    ids: Sequence[str] = facts["building_ids"]
    with store.connect(layout) as db:
        answers, sites = labels.current_labels(db), population.sites(db, ids)
    is_labeled = np.fromiter(map(answers.__contains__, ids), np.bool_, len(ids))
    is_answered = is_labeled | (assessability.hidden_after(facts) != "")
    return LabelState(ids, is_answered, ranking.scores_now(layout), sites)


def checks_of_search(layout: Layout, chip_set: str) -> progress.Audit | None:
    """Return the random checks that the queues of the search drew so far; None before the first."""
    return _sample(queues.load_state(layout, chip_set))


def found_so_far(layout: Layout) -> tuple[Sequence[int], Sequence[int]]:
    """Return the curve of the search: answers given, and damaged buildings found by then."""
    events = sorted(store.call(layout, labels.current).values(), key=lambda event: event.event)
    is_found = np.array([event.label == "positive" for event in events], np.int64)
    return list(range(1, len(events) + 1)), np.cumsum(is_found).tolist()


def _next(layout: Layout, chip_set: str, mix: Mix) -> StoredQueue:
    """Choose the next buildings and remember that they were shown. The caller holds the lock."""
    now, arrays = standing(layout, chip_set), queues.load_state(layout, chip_set)
    is_shown, recent = arrays.get("is_shown", np.zeros(len(now.ids), np.bool_)), arrays.get("recent", np.zeros(0, np.int64))
    items = _to_confirm(layout, now, is_shown)
    is_shown[[item.row for item in items]] = True
    facts = chip_facts(layout, chip_set)
    items += _of_silent_scenes(layout, facts, now, is_shown, min(MOST_OF_SILENT_SCENES, LENGTH - len(items)))
    is_shown[[item.row for item in items]] = True
    state = QueueState(now.is_answered, is_shown, tuple(recent.tolist()), _sample(arrays), now.sites.or_none)
    if len(items) < LENGTH:
        of_chips = ranking.feature_rows(layout, chip_set), ranking.places_m(layout, chip_set)
        chosen = next_queue(now.scores, *of_chips, state, mix=mix, n=LENGTH - len(items))
        state = chosen.state
        items += chosen.items
    drawn = {} if state.audit is None else asdict(state.audit)
    queues.save_state(layout, chip_set, {"is_shown": state.is_shown, "recent": np.array(state.recent, np.int64), **drawn})
    turns, of = [f"; {name}'s turn" for name in now.sites.names] or [""], now.sites.of
    found = (
        QueueItem(now.ids[at.row], at.kind, at.why + turns[of[at.row]] * (at.kind != "audit"), at.inclusion) for at in items
    )
    return StoredQueue(chip_set, list(found), event=store.call(layout, labels.last_event))


def _of_silent_scenes(
    layout: Layout, facts: Mapping[str, Any], now: LabelState, is_shown: NDArray[np.bool_], n: int
) -> list[Item]:  # fmt: skip
    """Return up to n buildings that the ranking has no evidence for, once there is a ranking.

    First the highest score of each scene in which too little is answered, the largest scene first, then buildings that no
    pre scene shows although the ranking uses pre bands.
    """
    shown = facts.get("post_scene")
    if now.scores is None or shown is None or n < 1:
        return []
    is_free, taught = ~(now.is_answered | is_shown) & np.isfinite(now.scores), store.call(layout, labels.pu_set, ids=now.ids)
    scene = np.array([one or "" for one in shown], np.str_)
    silent = of_silent_scenes(scene, now.scores, is_free, taught.is_positive, taught.is_not_damaged)
    found = {row: f"too few answers in scene {name} to rank it" for row, name in islice(silent, n)}
    for row in np.flatnonzero((assessability.reasons(facts) == "no_pre_image") & is_free)[: n - len(found)].tolist():
        found.setdefault(row, "no pre-event image: the ranking has nothing to compare")
    return [Item(row, "explore", why) for row, why in found.items()]


def _to_confirm(layout: Layout, now: LabelState, is_shown: NDArray[np.bool_]) -> list[Item]:
    """Return up to a queue of buildings that somebody answered in the round before, damaged ones first."""
    found = rounds.read(layout)
    if found.number == 1:
        return []
    before = {building: one.label for building, one in rounds.last_of_each(found).items() if one.label is not None}
    is_done = now.is_answered | is_shown
    waiting = [row for row, building in enumerate(now.ids) if building in before and not is_done[row]]
    waiting.sort(key=lambda row: before[now.ids[row]] != "positive")
    past = QueueState(now.is_answered, is_shown, sites=now.sites.or_none)
    waiting = past.in_turn(np.array(waiting, np.int64)).tolist()
    return [
        Item(row, "exploit", f"{LABEL_WORDS[str(before[now.ids[row]])]} in round {found.number - 1}; look again")
        for row in waiting[:LENGTH]
    ]


def _sample(arrays: dict[str, NDArray[Any]]) -> progress.Audit | None:
    if "rows" not in arrays:
        return None
    of_audit = {name: value for name, value in arrays.items() if name not in ("is_shown", "recent")}
    return progress.Audit(**{**of_audit, "n_drawn": int(arrays["n_drawn"])})  # type: ignore[arg-type]
