"""What the Annotate screen shows next, why, and how far the search is. No torch in this process."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.analysis.audit import progress
from pu_geo.analysis.queue import DEFAULT_MIX as DEFAULT_MIX
from pu_geo.analysis.queue import Mix as Mix
from pu_geo.analysis.queue import QueueState, next_queue
from pu_geo.project import contents, labels, queues, rounds, store
from pu_geo.project.layout import Layout
from pu_geo.records import PUSet
from pu_geo.services.annotate import ranking
from pu_geo.services.imagery.preparation import chip_facts
from pu_geo.wording import LABEL_WORDS

LENGTH = 20
MOST_OF_SILENT_SCENES = 3
"""Places of a queue for scenes in which too little is answered, and for buildings without a pre image."""


@dataclass(frozen=True)
class StoredItem:
    """One building of a queue; see `analysis.queue.Item`."""

    building_id: str
    kind: Literal["exploit", "explore", "audit"]
    why: str
    inclusion: float | None = None


@dataclass(frozen=True)
class StoredQueue:
    """What one analyst is to answer. `id` is another one for other items.

    Attributes:
        is_second: these are another reader's answers, to be given once more without seeing them.
    """

    id: str
    items: tuple[StoredItem, ...]
    is_second: bool = False


@dataclass(frozen=True)
class LabelState:
    """What is known of a chip set's buildings right now, all [N] in the order of the chips.

    Attributes:
        ids: building ids.
        is_answered: labeled, or hidden after the event; not shown any more.
        is_positive: called damaged.
        teaches: what a run would learn from now; answers of audits and of random checks teach nothing.
        scores: of the instant ranker; None before there is a positive. NaN where very many buildings are being ranked for the first time.
    """

    ids: Sequence[str]
    is_answered: NDArray[np.bool_]
    is_positive: NDArray[np.bool_]
    scores: NDArray[np.float32] | None
    teaches: PUSet

    @property
    def is_scored(self) -> NDArray[np.bool_] | None:
        """Return which buildings have a score so far, bool [N]; None where all have one, or none has."""
        is_scored = None if self.scores is None else np.isfinite(self.scores)
        return None if is_scored is None or is_scored.all() else is_scored


def current(layout: Layout, analyst: str) -> StoredQueue | None:
    """Return the analyst's queue; the first one is made where there is none yet. None before there are chips."""
    chip_set = store.call(layout, contents.latest_chip_set)
    if chip_set is None:
        return None
    found = queues.load_queues(layout, analyst)
    if found and found[0]["chip_set"] == chip_set:
        return stored_queue(found[0])
    return advance(layout, analyst, done=found[0]["id"] if found else None)


def stored(layout: Layout, analyst: str) -> StoredQueue | None:
    """Return the analyst's queue as it was made last, of the newest chips; None where there is none. It asks for no ranking."""
    found = queues.load_queues(layout, analyst)
    is_there = found and found[0]["chip_set"] == store.call(layout, contents.latest_chip_set)
    return stored_queue(found[0]) if is_there else None


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
        if before and before[0]["id"] != done and before[0]["chip_set"] == chip_set:
            return stored_queue(before[0])
        now = standing(layout)
        if now is None:
            return None
        found = _next(layout, chip_set, now, mix)
        queues.save_queue(layout, analyst, found)
    return stored_queue(found)


def inclusion_of(layout: Layout, analyst: str, building_id: str) -> float | None:
    """Return the probability with which a random check of the analyst's newest queues was drawn; None if it was none."""
    for queue in queues.load_queues(layout, analyst):
        for item in queue["items"]:
            if item["building_id"] == building_id and item["kind"] == "audit":
                return float(item["inclusion"])
    return None


def standing(layout: Layout) -> LabelState | None:
    """Return what is known of all buildings; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        answers = labels.current_labels(db)
    if chip_set is None:
        return None
    facts = chip_facts(layout, chip_set)
    ids = facts["building_ids"]
    teaches = store.call(layout, labels.pu_set, ids=ids)
    codes = {None: 0, "positive": 2}
    given = np.fromiter((codes.get(label, 1) for label in map(answers.get, ids)), np.int8, len(ids))
    is_hidden = assessability.hidden_after(facts) != ""
    return LabelState(ids, (given > 0) | is_hidden, given == 2, ranking.scores_now(layout), teaches)


def checks_of_search(layout: Layout, chip_set: str) -> progress.Audit | None:
    """Return the random checks that the queues of the search drew so far; None before the first."""
    return _sample(queues.load_state(layout, chip_set))


def found_so_far(layout: Layout) -> tuple[Sequence[int], Sequence[int]]:
    """Return the curve of the search: answers given, and damaged buildings found by then."""
    events = sorted(store.call(layout, labels.current).values(), key=lambda event: event.event)
    is_found = np.array([event.label == "positive" for event in events], np.int64)
    return list(range(1, len(events) + 1)), np.cumsum(is_found).tolist()


def _next(layout: Layout, chip_set: str, now: LabelState, mix: Mix) -> dict[str, Any]:
    """Choose the next buildings and remember that they were shown. The caller holds the lock."""
    state = _state(queues.load_state(layout, chip_set), now)
    again = _to_confirm(layout, now, state)
    state = replace(state, is_shown=state.is_shown | np.isin(np.arange(len(now.ids)), list(again)))
    items = [_item(now, row, "exploit", why) for row, why in again.items()]
    silent = _of_silent_scenes(chip_facts(layout, chip_set), now, state, min(MOST_OF_SILENT_SCENES, LENGTH - len(items)))
    state = replace(state, is_shown=state.is_shown | np.isin(np.arange(len(now.ids)), list(silent)))
    items += [_item(now, row, "explore", why) for row, why in silent.items()]
    if len(items) < LENGTH:
        features = ranking.feature_rows(layout, chip_set)
        places = _centers_m(layout, chip_set, ranking.geometry_v(layout))
        chosen = next_queue(
            now.scores, features, places, state, mix=mix, n=LENGTH - len(items), seed=0, is_scored=now.is_scored
        )
        state = chosen.state
        items += [_item(now, item.row, item.reason, item.words, item.inclusion) for item in chosen.items]
    arrays = {"is_shown": state.is_shown, "recent": np.array(state.recent, np.int64)}
    if state.audit is not None:
        arrays |= {name: np.asarray(getattr(state.audit, name)) for name in _AUDIT}
    queues.save_state(layout, chip_set, arrays)
    return {"id": secrets.token_hex(6), "chip_set": chip_set, "items": items}


def _item(now: LabelState, row: int, kind: str, why: str, inclusion: float | None = None) -> dict[str, Any]:
    return {"building_id": now.ids[row], "kind": kind, "why": why, "inclusion": inclusion}


def _of_silent_scenes(facts: Mapping[str, Any], now: LabelState, state: QueueState, n: int) -> dict[int, str]:
    """Return up to n rows that the ranking has no evidence for, each with its reason, once there is a ranking.

    First the highest score of each scene in which too little is answered, the largest scene first, then buildings that no pre
    scene shows although the ranking uses pre bands.
    """
    shown = facts.get("post_scene")
    if now.scores is None or shown is None or n < 1:
        return {}
    is_free = ~(now.is_answered | state.is_shown) & np.isfinite(now.scores)
    scene = np.array([one or "" for one in shown], np.str_)
    found: dict[int, str] = {}
    names, sizes = np.unique(scene[scene != ""], return_counts=True)
    for name in names[np.argsort(-sizes, kind="stable")].tolist() if len(names) > 1 else []:
        here = scene == name
        if now.teaches.is_positive[here].any() or now.teaches.is_not_damaged[here].sum() >= assessability.LEAST_ANSWERS:
            continue
        rows = np.flatnonzero(here & is_free)
        if len(rows) and len(found) < n:
            found[int(rows[now.scores[rows].argmax()])] = f"too few answers in scene {name} to rank it"
    for row in np.flatnonzero((assessability.reasons(facts) == "no_pre_image") & is_free)[: n - len(found)].tolist():
        found.setdefault(row, "no pre-event image: the ranking has nothing to compare")
    return found


def _to_confirm(layout: Layout, now: LabelState, state: QueueState) -> dict[int, str]:
    """Return up to a queue of rows that somebody answered in the round before, damaged ones first, each with its reason."""
    found = rounds.read(layout)
    if found.number == 1:
        return {}
    before = {building: one.label for building, one in rounds.last_of_each(found).items() if one.label is not None}
    is_done = state.is_answered | state.is_shown
    waiting = [row for row, building in enumerate(now.ids) if building in before and not is_done[row]]
    waiting.sort(key=lambda row: before[now.ids[row]] != "positive")
    return {
        row: f"{LABEL_WORDS[str(before[now.ids[row]])]} in round {found.number - 1}; look again" for row in waiting[:LENGTH]
    }


def stored_queue(stored: dict[str, Any], *, is_second: bool = False) -> StoredQueue:
    """Return a queue as it stands on disk."""
    return StoredQueue(stored["id"], tuple(StoredItem(**item) for item in stored["items"]), is_second)


_AUDIT = [item.name for item in fields(progress.Audit)]


def _state(arrays: dict[str, NDArray[Any]], now: LabelState) -> QueueState:
    """Return the state: what was shown, from disk, and what is answered by now."""
    if not arrays:
        return QueueState(now.is_answered, np.zeros(len(now.ids), np.bool_))
    return QueueState(now.is_answered, arrays["is_shown"], tuple(arrays["recent"].tolist()), _sample(arrays))


def _sample(arrays: dict[str, NDArray[Any]]) -> progress.Audit | None:
    if "rows" not in arrays:
        return None
    return progress.Audit(**{name: arrays[name] for name in _AUDIT if name != "n_drawn"}, n_drawn=int(arrays["n_drawn"]))


@lru_cache(maxsize=2)
def _centers_m(layout: Layout, chip_set: str, stamp: str) -> NDArray[np.float64]:
    """Return the centers of buildings, metres, float64 [N, 2], in the order of the chips; another `stamp` makes them anew."""
    with store.connect(layout) as db:
        grid, shapes = contents.grid(db), contents.all_outlines(db)
    wanted = [shapes[building] for building in chip_facts(layout, chip_set)["building_ids"]]
    points = shapely.centroid(shapely.from_wkb(wanted))
    return np.column_stack([shapely.get_x(points) * grid.x_unit_m, shapely.get_y(points) * grid.y_unit_m])
