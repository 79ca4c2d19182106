"""The live ranking: all buildings ranked anew by the labels of this moment, and scores for the map. No torch in this process.

It is the default's reading (`analysis.two_readings`) with fewer buildings to learn from, so that it answers at once: at most
`MOST_UNLABELED` unlabeled ones, and `MOST_LABELED` damaged and not damaged ones each. Trainings learn from all answers.
Of more than `MOST_AT_ONCE` buildings a sample is ranked at once, and all others in the background: see `ranking_of_many`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from operator import eq

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, ranker
from pu_geo.analysis.neighbor_graph import blocks
from pu_geo.analysis.queue import FeatureRows
from pu_geo.analysis.two_readings import Chips, Marks, Space, chips_of, middle_of, read_clicks, roots_of, scores_of
from pu_geo.errors import ProjectError
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.project import contents, feature_sets, labels, queues, runs, store
from pu_geo.project.labels import Moment
from pu_geo.project.layout import Layout, reading
from pu_geo.records import PUSet
from pu_geo.services.annotate.ranking_of_many import ManyBuildings, RankingOfMany, places_of
from pu_geo.services.imagery.preparation import chip_facts
from pu_geo.services.train import run_names

LIVE_PREFIX = "live-"
LIKE_PREFIX = "like-"
MOST_UNLABELED = 3000  # unlabeled buildings that are learned from; the default's training takes 20,000
MOST_LABELED = 5000  # damaged buildings, and not damaged ones, that are learned from: a click's ranking must not take longer with each click
MOST_AT_ONCE = 50_000  # buildings that are ranked while the analyst waits; of more, so many are drawn, and the others follow
MOST_HELD_OUT = 1000  # of them, that held-out clicks are compared with
_MOST_KEPT = 8  # feature sets whose preparation is kept, of several projects on one server
_MOST_NUMBERS_KEPT = 150_000_000  # in their features of one view, 8 bytes each; two sets are kept whatever their size
PATIENCE_S = 1.0  # of a page with the first ranking; it is drawn without one where that takes longer
MOST_WAITED_FOR = 20_000  # buildings; the first ranking of more takes longer than that, so a page is drawn before it starts
TOLERANCE = 1e-3  # of the regressions; a smaller one changes no order that anybody would notice


@dataclass(frozen=True)
class LiveRanking:
    """The live ranking's answer to the labels so far.

    Attributes:
        score_id: names it for the browser.
        seconds: that it took.
        n_ranked: buildings that have a score by the labels of this moment.
        n: chips in all.
        problem: what ended the ranking of the rest; "" where nothing did.
    """

    score_id: str
    seconds: float
    n_ranked: int = 0
    n: int = 0
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Return whether all buildings have their score by these labels; until then others may rank higher."""
        return self.n_ranked == self.n


def positions(layout: Layout) -> dict[str, int]:
    """Return building id -> its place in the map's outlines and in every score array the browser gets."""
    return {building: place for place, building in enumerate(store.call(layout, contents.building_ids))}


def geometry_v(layout: Layout) -> str:
    """Return what names the map's outlines and the order of all that is sent beside them, see `contents.geometry_v`."""
    return store.call(layout, contents.geometry_v)


@dataclass(frozen=True)
class _Prepared:
    """What a live ranking needs beside the labels, made once a feature set.

    Attributes:
        views: float [V, N, D], a memory map.
        space: see `two_readings`.
        chips: all of them, or what ranks very many.
        white_views: row -> its whitened views, float32 [V, D], of clicked buildings.
    """

    views: NDArray[np.floating]
    space: Space
    chips: Chips | ManyBuildings
    white_views: dict[int, NDArray[np.float32]]

    def views_of(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Whiten views of some buildings, float32 [V', P, D]; of very many fewer views."""
        most = min(max(1, MOST_UNLABELED // max(len(rows), 1)), len(self.views))
        for row in rows.tolist():
            if len(self.white_views.get(row, ())) < most:
                views = np.asarray(self.views[:most, row], np.float32)
                self.white_views[row] = self.space.white(roots_of(views))
        return np.stack([self.white_views[row][:most] for row in rows.tolist()], axis=1)


_preparing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by stamp


_kept: OrderedDict[str, _Prepared] = OrderedDict()  # by stamp, the newest last


def _prepared(layout: Layout, chip_set: str, stamp: str) -> _Prepared:
    """Prepare a feature set, once; who asks meanwhile waits."""
    with _preparing[stamp]:
        found = _kept.pop(stamp, None) or _prepare(layout, chip_set, stamp)
        _kept[stamp] = found
        while len(_kept) > _MOST_KEPT or (len(_kept) > 2 and _numbers_kept() > _MOST_NUMBERS_KEPT):
            former, prepared = _kept.popitem(last=False)
            if isinstance(prepared.chips, ManyBuildings):
                prepared.chips.stop()
            _warming.pop(former, None)  # it may start anew
        return found


def _numbers_kept() -> int:
    return sum(one.views[0].size for one in list(_kept.values()))  # a copy, as other threads add to it


@lru_cache(maxsize=2)
def _plain(layout: Layout, chip_set: str, stamp: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Standardise the features of the unaugmented chips by the visible ones: a second at 100,000, where all else takes many."""
    views, is_used = _views(layout, chip_set, stamp)
    values = ranker.prepare(np.asarray(views[0], np.float32), is_used).values
    return values, np.linalg.norm(values, axis=1)


@dataclass(frozen=True)
class _PlainOfMany:
    """The same of very many chips, which are read from the disk as they are asked for.

    Attributes:
        views: float [N, D], a memory map of the unaugmented chips' features.
        mean, scale: of each column, of the visible chips, float32 [D].
        lengths: of the standardised rows, float32 [N].
    """

    views: NDArray[np.floating]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    lengths: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        found: NDArray[np.float32] = (np.asarray(self.views[rows], np.float32) - self.mean) / self.scale
        return found

    def alike(self, row: int) -> NDArray[np.float32]:
        """Compute the products of all rows with one of them, float32 [N]."""
        slope = self[slice(row, row + 1)][0] / self.scale
        found = [np.asarray(self.views[part], np.float32) @ slope for part in blocks(len(self))]
        return np.asarray(np.concatenate(found) - self.mean @ slope, np.float32)


@lru_cache(maxsize=2)
def _plain_of_many(layout: Layout, chip_set: str, stamp: str) -> _PlainOfMany:
    """Measure the features of very many unaugmented chips as `_plain` does, block by block."""
    every, is_used = _views(layout, chip_set, stamp)
    views = every[0]
    total, squares = np.zeros(views.shape[1]), np.zeros(views.shape[1])
    for part in blocks(len(views)):
        total += np.asarray(views[part], np.float32)[is_used[part]].sum(0, dtype=np.float64)
    mean = (total / is_used.sum()).astype(np.float32)
    for part in blocks(len(views)):
        some = np.asarray(views[part], np.float32)[is_used[part]] - mean
        squares += np.einsum("nd,nd->d", some, some)
    spread = np.sqrt(squares / is_used.sum()).astype(np.float32)
    scale = np.where(spread > 1e-6, spread, np.float32(np.inf))
    found = _PlainOfMany(views, mean, scale, np.empty(len(views), np.float32))
    for part in blocks(len(views)):
        found.lengths[part] = np.linalg.norm(found[part], axis=1)
    return found


def _views(layout: Layout, chip_set: str, stamp: str) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """Return the features of a stamp, and which chips statistics are of; refuse features that are no numbers."""
    name = stamp.partition(".")[2]
    views = feature_sets.views(layout, chip_set, name)
    if not all(np.isfinite(views[0, part]).all() for part in blocks(views.shape[1])):
        raise ProjectError(f"The features {name!r} are not all finite.", "Make them again, or cut the chips again.")
    is_visible = ~_is_hidden(layout, chip_set, stamp)
    return views, is_visible if is_visible.any() else np.ones_like(is_visible)


def _is_hidden(layout: Layout, chip_set: str, stamp: str) -> NDArray[np.bool_]:
    """Return which buildings the pictures hide, or none of the layers that the features of a stamp are made of shows, bool [N]."""
    path = layout.chip_facts(chip_set)
    with reading(path):
        changed_ns = path.stat().st_mtime_ns
    return _hidden(layout, chip_set, stamp, changed_ns)


@lru_cache(maxsize=4)
def _hidden(layout: Layout, chip_set: str, stamp: str, changed_ns: int) -> NDArray[np.bool_]:
    facts = chip_facts(layout, chip_set)
    views = feature_sets.views_of(feature_sets.find(layout, chip_set, stamp.partition(".")[2]).maker)
    lacks_all = feature_sets.lacks_all([view.name for view in views], facts)
    found: NDArray[np.bool_] = assessability.reasons(facts, lacks_all=lacks_all) != ""
    return found


def _prepare(layout: Layout, chip_set: str, stamp: str) -> _Prepared:
    views, is_used = _views(layout, chip_set, stamp)
    if views.shape[1] > MOST_AT_ONCE:
        many = ManyBuildings(views, is_used, MOST_AT_ONCE, _read)
        return _Prepared(views, many.space, many, {})
    plain = np.asarray(views[0], dtype=np.float32)
    roots = np.empty_like(plain)
    for part in blocks(len(plain)):
        roots[part] = np.mean([roots_of(np.asarray(view[part], np.float32)) for view in views], axis=0)
    settings = PropagationSettings()
    space = Space.of(plain[is_used], roots[is_used], settings.whitening)
    chips, _ = chips_of(
        space, plain, roots, dim=min(settings.embedding_dim, plain.shape[1]), n_neighbors=settings.n_neighbors,
        n_anchors=settings.n_anchors, is_used=is_used,
    )  # fmt: skip
    return _Prepared(views, space, chips, {})


_warming: dict[str, threading.Thread] = {}  # by stamp


def warm_up(layout: Layout) -> None:
    """Prepare the features and rank in the background, so that the next click is ranked at once; nothing where that was started."""
    if (newest := _newest(layout)) is not None and newest[1] not in _warming:
        _begin_warming(layout, *newest)


def _begin_warming(layout: Layout, chip_set: str, stamp: str, at: Moment) -> threading.Thread:
    _warming[stamp] = threading.Thread(target=_rank_if_there, args=(layout, chip_set, stamp, at), daemon=True)
    _warming[stamp].start()
    return _warming[stamp]


def _rank_if_there(layout: Layout, chip_set: str, stamp: str, at: Moment) -> None:
    with suppress(OSError, ProjectError):  # project or features were moved away meanwhile; whoever ranks will be told
        feature_rows(layout, chip_set, stamp.partition(".")[2])
        _prepared(layout, chip_set, stamp)
        _live_scores(layout, chip_set, stamp, at)


def is_ranking(layout: Layout, patience_s: float) -> bool:
    """Return whether the first ranking of the features in use has yet to end in the background.

    Of up to `MOST_WAITED_FOR` buildings it is started here. Of more it competes with the page for the processor: the page calls
    `warm_up` once it is drawn. False, too, before anything is called damaged, and where the features cannot be ranked: `rank_now`
    then raises.

    Args:
        patience_s: seconds to wait for its end; of more than `MOST_WAITED_FOR` buildings nothing is waited for.
    """
    newest = _newest(layout)
    if newest is None or "positive" not in store.call(layout, labels.current_labels).values():
        return False
    is_large = len(chip_facts(layout, newest[0])["building_ids"]) > MOST_WAITED_FOR
    thread = _warming.get(newest[1])
    if thread is None:
        if is_large or newest[1] in _kept:
            return newest[1] not in _kept
        thread = _begin_warming(layout, *newest)
    thread.join(0 if is_large else patience_s)
    return thread.is_alive()


def plain_features(layout: Layout, chip_set: str, feature_set: str | None = None) -> NDArray[np.float32]:
    """Return the standardised features of the unaugmented chips, float32 [N, D]: of the set in use, or a named one that is there."""
    found = feature_rows(layout, chip_set, feature_set)
    return np.asarray(found[slice(None)], np.float32)


def feature_rows(layout: Layout, chip_set: str, feature_set: str | None = None) -> FeatureRows:
    """Return the same where only some rows are needed: of very many chips they are read from the disk as they are asked for."""
    found = _plain_of(layout, chip_set, feature_set)
    return found if isinstance(found, _PlainOfMany) else found[0]


def _plain_of(
    layout: Layout, chip_set: str, feature_set: str | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | _PlainOfMany:
    """Return the features, and the length of each row, float32 [N]; whoever asks while they are made waits."""
    with store.connect(layout) as db:
        created_at = store.created_at(db)
        if feature_set is None or not feature_sets.is_there(layout, chip_set, feature_set):
            feature_set = feature_sets.in_use(db, layout, chip_set).name
    stamp = _stamp(layout, chip_set, feature_set, created_at)
    is_many = len(chip_facts(layout, chip_set)["building_ids"]) > MOST_AT_ONCE
    with _preparing[f"plain {stamp}"]:
        return _plain_of_many(layout, chip_set, stamp) if is_many else _plain(layout, chip_set, stamp)


def has_plain_features(layout: Layout) -> bool:
    """Return whether `most_alike` can answer the newest chips at once.

    Of up to `MOST_WAITED_FOR` buildings it always can. Of more their features are prepared in the background, which is started here.
    True, too, where that failed: `most_alike` then raises.
    """
    newest = _newest(layout)
    if newest is None or len(chip_facts(layout, newest[0])["building_ids"]) <= MOST_WAITED_FOR:
        return True
    chip_set, stamp, _ = newest
    name = f"plain {stamp}"
    if name not in _warming:
        _warming[name] = threading.Thread(target=_prepare_plain, args=(layout, chip_set, stamp), daemon=True)
        _warming[name].start()
    return not _warming[name].is_alive()


def _prepare_plain(layout: Layout, chip_set: str, stamp: str) -> None:
    with suppress(OSError, ProjectError):  # project or features were moved away meanwhile; whoever asks next gets the error
        feature_rows(layout, chip_set, stamp.partition(".")[2])


def scores_now(layout: Layout) -> NDArray[np.float32] | None:
    """Return live scores of the newest chips, float32 [N]; None where nothing can be ranked yet.

    Of very many chips those of the last ranking of all where the background has yet to score them, and NaN before there was one.
    """
    newest = _newest(layout)
    found = None if newest is None else _live_scores(layout, *newest)
    return found.scores.copy() if isinstance(found, RankingOfMany) else found


def so_far(layout: Layout, score_id: str) -> LiveRanking | None:
    """Return how far the background is with a ranking that `rank_now` returned; None where it was given up. It starts none.

    Once one by newer labels has all scores, that one is returned: the background does not go back to the labels before.
    """
    named = _named(layout, score_id)
    prepared = None if named is None else _kept.get(named[1])
    if named is None or prepared is None or not isinstance(prepared.chips, ManyBuildings):
        return None
    found = prepared.chips.known_or_newer(named[2])
    return None if found is None else _of_many(_name(named[1], found.at), found, 0.0)


def _name(stamp: str, at: Moment) -> str:
    """Name a live ranking. A browser keeps the scores that it gets by a name, so no other labels may have the same."""
    return f"{LIVE_PREFIX}{hashlib.sha256(f'{stamp} {at.op}'.encode()).hexdigest()[:12]}-{at.event}"


def _named(layout: Layout, score_id: str) -> tuple[str, str, Moment] | None:
    """Return the chip set, the stamp and the labels of a name; None unless they are of the newest chips, features and log.

    How many had a score may follow the name.
    """
    newest, parts = _newest(layout), score_id.split("-", 3)
    if newest is None or len(parts) < 3 or not parts[2].isdecimal() or int(parts[2]) > newest[2].event:
        return None
    at = store.call(layout, labels.moment, at=int(parts[2]))
    return (newest[0], newest[1], at) if "-".join(parts[:3]) == _name(newest[1], at) else None


def _of_many(name: str, found: RankingOfMany, seconds: float) -> LiveRanking:
    n = len(found.scores)
    n_ranked = n if found.is_complete.is_set() else min(int(found.is_new.sum()), n - 1)
    part = "" if n_ranked == n else f"-{n_ranked}"  # a browser asks for the scores of an address once
    return LiveRanking(name + part, seconds, n_ranked, n, found.problem)


def wait_for_all(layout: Layout, patience_s: float = 600) -> bool:
    """Rank by the labels of this moment, and wait until all buildings have their score; return whether they have."""
    newest = _newest(layout)
    found = None if newest is None else _live_scores(layout, *newest)
    return found.is_complete.wait(patience_s) if isinstance(found, RankingOfMany) else found is not None


def _newest(layout: Layout) -> tuple[str, str, Moment] | None:
    """Return the newest chip set, its `_stamp` and what names the labels of this moment; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        at, created_at = labels.moment(db), store.created_at(db)
        feature_set = feature_sets.in_use(db, layout, chip_set).name if chip_set else ""
    return None if chip_set is None else (chip_set, _stamp(layout, chip_set, feature_set, created_at), at)


def _live_scores(layout: Layout, chip_set: str, stamp: str, at: Moment) -> NDArray[np.float32] | RankingOfMany | None:
    """Rank a chip set's buildings by the labels of one moment; None unless there are positives and others."""
    facts = chip_facts(layout, chip_set)
    if len(facts["building_ids"]) <= MOST_AT_ONCE:
        return _scores_of_all(layout, chip_set, stamp, at)
    prepared = _prepared(layout, chip_set, stamp)
    many = prepared.chips
    if not isinstance(many, ManyBuildings):
        return None
    if (known := many.known(at)) is not None:
        return known
    if (marks := _marks_at(layout, chip_set, stamp, at.event)) is None:
        return None
    queued = queues.all_queued(layout, chip_set)
    also = np.array([row for row, building in enumerate(facts["building_ids"]) if building in queued], np.int64)
    return many.rank(at, marks, prepared.views_of, also)


@lru_cache(maxsize=16)
def _scores_of_all(layout: Layout, chip_set: str, stamp: str, at: Moment) -> NDArray[np.float32] | None:
    """Rank all buildings at once."""
    marks = _marks_at(layout, chip_set, stamp, at.event)
    if marks is None:
        return None
    prepared = _prepared(layout, chip_set, stamp)
    if isinstance(prepared.chips, ManyBuildings):
        return None
    reading = _read(prepared.chips, marks, prepared.views_of)
    raw = reading.scores(prepared.chips, PropagationSettings().propagation)
    unlabeled = marks.unlabeled if len(marks.unlabeled) else marks.not_damaged
    return scores_of(raw, middle_of(raw[unlabeled], reading.share))


_read = partial(
    read_clicks, propagation=PropagationSettings().propagation, most_held_out=MOST_HELD_OUT, seed=0,
    even_share=PropagationSettings().even_share, tolerance=TOLERANCE,
)  # fmt: skip


def _marks_at(layout: Layout, chip_set: str, stamp: str, at_event: int) -> Marks | None:
    """Return what is learned from after an event; None unless there are positives and others."""
    ids = chip_facts(layout, chip_set)["building_ids"]
    pu = store.call(layout, labels.pu_set, at=at_event, ids=ids).without(_is_hidden(layout, chip_set, stamp))
    marks = _marks(pu)
    return marks if len(marks.positive) and len(marks.unlabeled) + len(marks.not_damaged) else None


def _marks(pu: PUSet) -> Marks:
    """Part a project's buildings by their labels; of very many of a kind some are drawn, the same ones while they stay so."""
    queued = np.zeros_like(pu.is_positive) if pu.is_queued is None else pu.is_queued
    positive, known = pu.is_positive & ~pu.is_excluded, pu.is_not_damaged & ~pu.is_positive & ~pu.is_excluded
    place = places_of(len(positive))

    def drawn(mask: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
        rows = np.flatnonzero(mask)
        return np.sort(rows[np.argsort(place[rows], kind="stable")[:most]])

    unlabeled = drawn(~positive & ~known & ~pu.is_excluded, MOST_UNLABELED)
    learned, not_damaged = drawn(positive, MOST_LABELED), drawn(known, MOST_LABELED)
    is_queued = queued[learned]
    return Marks(learned[~is_queued], learned[is_queued], unlabeled, not_damaged, np.zeros(0, np.int64))


def _stamp(layout: Layout, chip_set: str, feature_set: str, created_at: str) -> str:
    """Name what a live ranking depends on beside the labels: the project, its chips, their features, and after a dot the set.

    A copy of a project has its times and names; its folder is another one, or its database where it takes the other's place.
    """
    path = layout.features(chip_set, feature_set)
    with reading(path):
        parts = (str(layout.folder), layout.gpkg.stat().st_ino, created_at, chip_set, feature_set, path.stat().st_mtime_ns)
    return f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.{feature_set}"


def rank_now(layout: Layout) -> LiveRanking | None:
    """Rank all buildings by the labels of this moment; None before there are chips, a positive and an unlabeled one.

    Of more than `MOST_AT_ONCE` buildings a sample is ranked when this returns, and the others in the background.
    """
    began, newest = time.perf_counter(), _newest(layout)
    found = None if newest is None else _live_scores(layout, *newest)
    if newest is None or found is None:
        return None
    score_id = _name(*newest[1:])
    seconds = time.perf_counter() - began
    if isinstance(found, RankingOfMany):
        return _of_many(score_id, found, seconds)
    return LiveRanking(score_id, seconds, len(found), len(found))


def scores_for_browser(layout: Layout, score_id: str) -> bytes | None:
    """Return scores in the order of the map's geometry, little-endian float32 [N], NaN where there is none.

    Args:
        score_id: a run's id, what `rank_now` returned, or "like-7" for distances (1 - cosine) from building 7.

    Returns:
        None if there are no such scores, or no longer.
    """
    if score_id.startswith(LIKE_PREFIX):
        position = score_id.removeprefix(LIKE_PREFIX)
        found = _like_position(layout, int(position)) if position.isdigit() else None
    else:
        found = _live(layout, score_id) if score_id.startswith(LIVE_PREFIX) else _of_run(layout, score_id)
    return None if found is None else _in_map_order(layout, *found).astype("<f4").tobytes()


def score_name(layout: Layout, score_id: str | None) -> str | None:
    """Return whose scores these are, as people read it: "Live ranking", or the run's name; None for no scores."""
    if score_id is None:
        return None
    if score_id.startswith(LIVE_PREFIX):
        return "Live ranking"
    return run_names.names(layout).get(score_id)


def most_alike(layout: Layout, building_id: str, n: int) -> list[str]:
    """Return the n buildings whose chips are most like one building's, nearest first; none where it has no chip."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        found = None if chip_set is None else _like(layout, chip_set, building_id)
        if found is None:
            return []
        ids, distances = found
        nearest = (ids[row] for row in np.argsort(distances, kind="stable").tolist())
        there = (one for one in nearest if one != building_id and contents.has_building(db, one))
        return list(islice(there, n))


def _in_map_order(layout: Layout, ids: Sequence[str], values: NDArray[np.float32]) -> NDArray[np.float32]:
    on_map = _on_map(layout, geometry_v(layout))
    if len(ids) == len(on_map) and all(map(eq, ids, on_map)):
        return values
    rows = {building: i for i, building in enumerate(ids)}
    index = np.array([rows.get(building, -1) for building in on_map], dtype=np.int64)
    return np.where(index >= 0, values[index], np.float32(np.nan))


@lru_cache(maxsize=2)
def _on_map(layout: Layout, geometry: str) -> Sequence[str]:
    """Return all building ids in the order of the map's geometry; another `geometry` reads them anew."""
    return store.call(layout, contents.building_ids)


def _like(layout: Layout, chip_set: str, building_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    """Return the buildings of a chip set, and how unlike one of them each is: 1 - cosine of their features, float32 [N].

    None where this building has no chip.
    """
    ids = chip_facts(layout, chip_set)["building_ids"]
    if building_id not in ids:
        return None
    found, row = _plain_of(layout, chip_set), ids.index(building_id)
    if isinstance(found, _PlainOfMany):
        products, lengths = found.alike(row), found.lengths
    else:
        values, lengths = found
        products = values @ values[row]
    distances: NDArray[np.float32] = 1 - products / np.maximum(lengths * lengths[row], 1e-12)
    return ids, distances


def _like_position(layout: Layout, position: int) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        chip_set, building = contents.latest_chip_set(db), contents.building_at(db, position)
    return None if chip_set is None or building is None else _like(layout, chip_set, building[0])


def _live(layout: Layout, score_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    if (named := _named(layout, score_id)) is None:
        return None
    chip_set, stamp, at = named
    found = _live_scores(layout, chip_set, stamp, at)
    if isinstance(found, RankingOfMany) and not found.is_complete.is_set() and score_id == _name(stamp, at):
        return None  # the name of all scores: a browser would keep some of them as all
    scores = found.scores.copy() if isinstance(found, RankingOfMany) else found
    return None if scores is None else (chip_facts(layout, chip_set)["building_ids"], scores)


def _of_run(layout: Layout, run_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        if run_id not in {facts.run_id for facts in runs.all_runs(db)}:
            return None
    return runs.building_ids_of(layout, run_id), np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
