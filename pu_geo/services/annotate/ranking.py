"""The instant ranker: all buildings ranked anew by the labels of this moment, and scores for the map. No torch in this process."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, estimates, ranker
from pu_geo.project import contents, feature_sets, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.imagery.preparation import chip_facts

LIVE_PREFIX = "live-"
LIKE_PREFIX = "like-"


@dataclass(frozen=True)
class LiveRanking:
    """The instant ranker's answer to the labels so far; `score_id` names it for the browser."""

    score_id: str
    seconds: float


def positions(layout: Layout) -> dict[str, int]:
    """Return building id -> its place in the map's geometry and in every score array the browser gets."""
    return {building: place for place, building in enumerate(store.call(layout, contents.building_ids))}


@lru_cache(maxsize=2)
def _plain_features(layout: Layout, chip_set: str, stamp: str) -> ranker.PreparedFeatures:
    """Load the features of the unaugmented chips and prepare them once; another `stamp` makes a new entry."""
    views = feature_sets.views(layout, chip_set, stamp.partition(".")[2])
    is_visible = assessability.reasons(chip_facts(layout, chip_set)) == ""
    return ranker.prepare(np.asarray(views[0], dtype=np.float32), is_visible)


def plain_features(layout: Layout, chip_set: str, feature_set: str | None = None) -> NDArray[np.float32]:
    """Return the standardised features of the unaugmented chips, float32 [N, D]: of the set in use, or a named one that is there."""
    with store.connect(layout) as db:
        created_at = store.created_at(db)
        if feature_set is None or not feature_sets.is_there(layout, chip_set, feature_set):
            feature_set = feature_sets.in_use(db, layout, chip_set).name
    return _plain_features(layout, chip_set, _stamp(layout, chip_set, feature_set, created_at)).values


def scores_now(layout: Layout) -> NDArray[np.float32] | None:
    """Return the instant ranker's scores of the newest chips, float32 [N]; None where nothing can be ranked yet."""
    newest = _newest(layout)
    return None if newest is None else _live_scores(layout, *newest)


def _newest(layout: Layout) -> tuple[str, str, int] | None:
    """Return the newest chip set, its `_stamp` and the newest label event; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        at_event, created_at = labels.last_event(db), store.created_at(db)
        feature_set = feature_sets.in_use(db, layout, chip_set).name if chip_set else ""
    return None if chip_set is None else (chip_set, _stamp(layout, chip_set, feature_set, created_at), at_event)


@lru_cache(maxsize=16)
def _live_scores(layout: Layout, chip_set: str, stamp: str, at_event: int) -> NDArray[np.float32] | None:
    """Rank a chip set's buildings by the labels after one event; None unless there are positives and others."""
    facts = chip_facts(layout, chip_set)
    pu = store.call(layout, labels.pu_set, at=at_event, ids=facts["building_ids"]).without(
        assessability.reasons(facts) != ""
    )
    used = pu.is_positive[~pu.is_excluded]
    if not used.any() or used.all():
        return None
    prepared = _plain_features(layout, chip_set, stamp)
    scores, _ = estimates.rank_with_estimate(
        prepared, pu.is_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged
    )
    return scores


def _stamp(layout: Layout, chip_set: str, feature_set: str, created_at: str) -> str:
    """Name what a live ranking depends on beside the labels: the project, its chips, their features, and after a dot the set."""
    parts = f"{created_at} {chip_set} {layout.features(chip_set, feature_set).stat().st_mtime_ns}"
    return f"{hashlib.sha256(parts.encode()).hexdigest()[:12]}.{feature_set}"


def rank_now(layout: Layout) -> LiveRanking | None:
    """Rank all buildings by the labels of this moment; None before there are chips, a positive and an unlabeled one."""
    began, newest = time.perf_counter(), _newest(layout)
    if newest is None or _live_scores(layout, *newest) is None:
        return None
    _, stamp, at_event = newest
    return LiveRanking(f"{LIVE_PREFIX}{stamp}-{at_event}", time.perf_counter() - began)


def scores_for_browser(layout: Layout, score_id: str) -> bytes | None:
    """Return scores in the order of the map's geometry, little-endian float32 [N], NaN where there is none.

    Args:
        score_id: a run's id, what `rank_now` returned, or "like-7" for distances (1 - cosine) from building 7.

    Returns:
        None if there are no such scores, or no longer.
    """
    if score_id.startswith(LIKE_PREFIX):
        position = score_id.removeprefix(LIKE_PREFIX)
        found = _like(layout, int(position)) if position.isdigit() else None
    else:
        found = _live(layout, score_id) if score_id.startswith(LIVE_PREFIX) else _of_run(layout, score_id)
    return None if found is None else _in_map_order(layout, *found).astype("<f4").tobytes()


def distances_like(layout: Layout, position: int) -> NDArray[np.float32] | None:
    """Return how unlike one building all others are: 1 - cosine of their features, float32 [N] in the order of the map's geometry.

    NaN where a building has no chip; None if this one has none.
    """
    found = _like(layout, position)
    return None if found is None else _in_map_order(layout, *found)


def _in_map_order(layout: Layout, ids: Sequence[str], values: NDArray[np.float32]) -> NDArray[np.float32]:
    rows = {building: i for i, building in enumerate(ids)}
    index = np.array([rows.get(building, -1) for building in store.call(layout, contents.building_ids)], dtype=np.int64)
    return np.where(index >= 0, values[index], np.float32(np.nan))


def _like(layout: Layout, position: int) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        chip_set, known = contents.latest_chip_set(db), contents.building_ids(db)
    if chip_set is None or not 0 <= position < len(known):
        return None
    ids = chip_facts(layout, chip_set)["building_ids"]
    if known[position] not in ids:
        return None
    values = plain_features(layout, chip_set)
    chip = values[ids.index(known[position])]
    lengths = np.linalg.norm(values, axis=1) * np.linalg.norm(chip)
    distances: NDArray[np.float32] = 1 - (values @ chip) / np.maximum(lengths, 1e-12)
    return ids, distances


def _live(layout: Layout, score_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    stamp, _, event = score_id.removeprefix(LIVE_PREFIX).rpartition("-")
    newest = _newest(layout)
    if newest is None or stamp != newest[1] or not event.isdigit() or int(event) > newest[2]:
        return None
    chip_set = newest[0]
    scores = _live_scores(layout, chip_set, stamp, int(event))
    return None if scores is None else (chip_facts(layout, chip_set)["building_ids"], scores)


def _of_run(layout: Layout, run_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        if run_id not in {facts.run_id for facts in runs.all_runs(db)}:
            return None
    return runs.building_ids_of(layout, run_id), np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
