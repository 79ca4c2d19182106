"""The live ranking: all buildings ranked anew by the labels of this moment, and scores for the map. No torch in this
process.

It is the default's reading (`analysis.two_readings`) with fewer buildings to learn from, so that it answers at once: at most
`MOST_UNLABELED` unlabeled ones, and `MOST_LABELED` damaged and not damaged ones each. Trainings learn from all answers.
Of more than `MOST_AT_ONCE` buildings a sample is ranked at once, and all others in the background: see `ranking_of_many`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from operator import eq

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.analysis.neighbor_graph import blocks
from pu_geo.analysis.ranking_evidence import facts_of, words_of
from pu_geo.analysis.two_readings import MOST_MEASURED, Marks, read_clicks, votes_of
from pu_geo.answers.ranking_of_many import ManyBuildings, RankingOfMany, places_of
from pu_geo.errors import ProjectError
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import contents, feature_sets, labels, queues, run_names, runs, store
from pu_geo.store.labels import Moment
from pu_geo.store.layout import Layout, reading
from pu_geo.store.population import silent_sites as silent_sites

LIVE_PREFIX = "live-"
LIKE_PREFIX = "like-"
MOST_UNLABELED = 3000  # unlabeled buildings that are learned from; the default's training takes 20,000
# Damaged buildings, and not damaged ones, that are learned from: a click's ranking must not take longer with each click.
MOST_LABELED = 5000
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


_preparing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by stamp


_kept: OrderedDict[str, ManyBuildings] = OrderedDict()  # by stamp, the newest last


def _prepared(layout: Layout, chip_set: str, stamp: str) -> ManyBuildings:
    """Prepare a feature set, once; who asks meanwhile waits."""
    with _preparing[stamp]:
        found = _kept.pop(stamp, None) or _prepare(layout, chip_set, stamp)
        _kept[stamp] = found
        while len(_kept) > _MOST_KEPT or (len(_kept) > 2 and _numbers_kept() > _MOST_NUMBERS_KEPT):
            former, prepared = _kept.popitem(last=False)
            prepared.stop()
            _warming.pop(former, None)  # it may start anew
        return found


def _numbers_kept() -> int:
    return sum(one.views[0].size for one in list(_kept.values()))  # a copy, as other threads add to it


@dataclass(frozen=True)
class _Plain:
    """Features of the unaugmented chips, standardised by the visible ones; they are read from the disk as they are asked
    for.

    Attributes:
        views: float [N, D], a memory map of the unaugmented chips' features.
        mean, scale: of each column, of the visible chips or about `MOST_MEASURED` of them, float32 [D].
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

    def distances(self, row: int) -> NDArray[np.float32]:
        """Compute 1 - cosine of all rows with one of them, float32 [N]."""
        slope = self[slice(row, row + 1)][0] / self.scale
        products = np.concatenate([np.asarray(self.views[part], np.float32) @ slope for part in blocks(len(self))])
        found: NDArray[np.float32] = 1 - (products - self.mean @ slope) / np.maximum(self.lengths * self.lengths[row], 1e-12)
        return found


@lru_cache(maxsize=2)
def _plain(layout: Layout, chip_set: str, stamp: str) -> _Plain:
    every, is_used = _views(layout, chip_set, stamp)
    views, used = every[0], np.flatnonzero(is_used)
    some = np.asarray(views[used[:: max(1, len(used) // MOST_MEASURED)]], np.float32)
    mean, spread = some.mean(0, dtype=np.float64), some.std(0, dtype=np.float64)
    scale = np.where(spread > 1e-6, spread, np.inf).astype(np.float32)
    found = _Plain(views, mean.astype(np.float32), scale, np.empty(len(views), np.float32))
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


@lru_cache(maxsize=4)
def _is_hidden(layout: Layout, chip_set: str, stamp: str) -> NDArray[np.bool_]:
    """Return which buildings the pictures hide, or none of the layers that the features of a stamp are made of shows, bool
    [N].
    """
    facts = chip_facts(layout, chip_set)
    views = feature_sets.views_of(feature_sets.find(layout, chip_set, stamp.partition(".")[2]).maker)
    lacks_all = feature_sets.lacks_all([view.name for view in views], facts)
    found: NDArray[np.bool_] = assessability.reasons(facts, lacks_all=lacks_all) != ""
    return found


def _prepare(layout: Layout, chip_set: str, stamp: str) -> ManyBuildings:
    return ManyBuildings(*_views(layout, chip_set, stamp), MOST_AT_ONCE, MOST_UNLABELED, _read)


_warming: dict[str, threading.Thread] = {}  # by stamp


def warm_up(layout: Layout) -> None:
    """Prepare the features and rank in the background, so that the next click is ranked at once; nothing where that was
    started.
    """
    if (newest := _newest(layout)) is not None and newest[1] not in _warming:
        _in_background(newest[1], _rank_if_there, layout, *newest)


def _in_background(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
    _warming[name] = threading.Thread(target=work, args=arguments, daemon=True)
    _warming[name].start()
    return _warming[name]


def _rank_if_there(layout: Layout, chip_set: str, stamp: str, at: Moment) -> None:
    with suppress(OSError, ProjectError):  # project or features were moved away meanwhile; whoever ranks will be told
        _prepare_plain(layout, chip_set, stamp)
        _prepared(layout, chip_set, stamp)
        _live_scores(layout, chip_set, stamp, at)


def is_ranking(layout: Layout, patience_s: float) -> bool:
    """Return whether the first ranking of the features in use has yet to end in the background.

    Of up to `MOST_WAITED_FOR` buildings it is started here. Of more it competes with the page for the processor: the page
    calls `warm_up` once it is drawn. False, too, before anything is called damaged, and where the features cannot be ranked:
    `rank_now` then raises.

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
        thread = _in_background(newest[1], _rank_if_there, layout, *newest)
    thread.join(0 if is_large else patience_s)
    return thread.is_alive()


def plain_features(layout: Layout, chip_set: str, feature_set: str | None = None) -> NDArray[np.float32]:
    """Return the standardised features of the unaugmented chips, float32 [N, D]: of the set in use, or a named one that is
    there.
    """
    return feature_rows(layout, chip_set, feature_set)[slice(None)]


def feature_rows(layout: Layout, chip_set: str, feature_set: str | None = None) -> _Plain:
    """Return the same where only some rows are needed: they are read as they are asked for. Whoever asks while they are
    measured waits.
    """
    with store.connect(layout) as db:
        created_at = store.created_at(db)
        if feature_set is None or not feature_sets.is_there(layout, chip_set, feature_set):
            feature_set = feature_sets.in_use(db, layout, chip_set).name
    stamp = _stamp(layout, chip_set, feature_set, created_at)
    with _preparing[f"plain {stamp}"]:
        return _plain(layout, chip_set, stamp)


def has_plain_features(layout: Layout) -> bool:
    """Return whether `most_alike` can answer the newest chips at once.

    Of up to `MOST_WAITED_FOR` buildings it always can. Of more their features are prepared in the background, which is
    started here. True, too, where that failed: `most_alike` then raises.
    """
    newest = _newest(layout)
    if newest is None or len(chip_facts(layout, newest[0])["building_ids"]) <= MOST_WAITED_FOR:
        return True
    chip_set, stamp, _ = newest
    name = f"plain {stamp}"
    thread = _warming.get(name) or _in_background(name, _prepare_plain, layout, chip_set, stamp)
    return not thread.is_alive()


def _prepare_plain(layout: Layout, chip_set: str, stamp: str) -> None:
    with suppress(OSError, ProjectError):  # project or features were moved away meanwhile; whoever asks next gets the error
        feature_rows(layout, chip_set, stamp.partition(".")[2])


def scores_now(layout: Layout) -> NDArray[np.float32] | None:
    """Return live scores of the newest chips, float32 [N]; None where nothing can be ranked yet.

    Of very many chips those of the last ranking of all where the background has yet to score them, and NaN before there was
    one.
    """
    newest = _newest(layout)
    found = None if newest is None else _live_scores(layout, *newest)
    return None if found is None else found.scores.copy()


def evidence_words(layout: Layout) -> str:
    """Return what held-out clicks say of the newest live ranking, in words; it ranks nothing."""
    newest = _newest(layout)
    kept = None if newest is None else _kept.get(newest[1])
    found = None if newest is None or kept is None else kept.known(newest[2])
    return words_of(None if found is None else facts_of(found.evidence))


def so_far(layout: Layout, score_id: str) -> LiveRanking | None:
    """Return how far the background is with a ranking that `rank_now` returned; None where it was given up. It starts none.

    Once one by newer labels has all scores, that one is returned: the background does not go back to the labels before.
    """
    named = _named(layout, score_id)
    prepared = None if named is None else _kept.get(named[1])
    found = None if named is None or prepared is None else prepared.known_or_newer(named[2])
    return None if named is None or found is None else _state_of(_name(named[1], found.at), found, 0.0)


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


def _state_of(name: str, found: RankingOfMany, seconds: float) -> LiveRanking:
    n = len(found.scores)
    n_ranked = n if found.is_complete.is_set() else min(int(found.is_new.sum()), n - 1)
    part = "" if n_ranked == n else f"-{n_ranked}"  # a browser asks for the scores of an address once
    return LiveRanking(name + part, seconds, n_ranked, n, found.problem)


def _newest(layout: Layout) -> tuple[str, str, Moment] | None:
    """Return the newest chip set, its `_stamp` and what names the labels of this moment; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        at, created_at = labels.moment(db), store.created_at(db)
        feature_set = feature_sets.in_use(db, layout, chip_set).name if chip_set else ""
    return None if chip_set is None else (chip_set, _stamp(layout, chip_set, feature_set, created_at), at)


def _live_scores(layout: Layout, chip_set: str, stamp: str, at: Moment) -> RankingOfMany | None:
    """Rank a chip set's buildings by the labels of one moment; None unless there are positives and others."""
    kept = _kept.get(stamp)
    if kept is not None and (known := kept.known(at)) is not None:
        return known
    if (marks := _marks_at(layout, chip_set, stamp, at.event)) is None:
        return None
    queued, ids = queues.all_queued(layout, chip_set), chip_facts(layout, chip_set)["building_ids"]
    also = np.array([row for row, building in enumerate(ids) if building in queued], np.int64)
    return _prepared(layout, chip_set, stamp).rank(at, marks, also)


_read = partial(
    read_clicks, propagation=PropagationSettings().propagation, most_held_out=MOST_HELD_OUT, seed=0,
    even_share=PropagationSettings().even_share, tolerance=TOLERANCE,
)  # fmt: skip


def _marks_at(layout: Layout, chip_set: str, stamp: str, at_event: int) -> Marks | None:
    """Return what is learned from after an event, of very many of a kind some, the same ones while they stay so.

    None unless there are positives and others.
    """
    ids = chip_facts(layout, chip_set)["building_ids"]
    pu = store.call(layout, labels.pu_set, at=at_event, ids=ids).without(_is_hidden(layout, chip_set, stamp))
    place = places_of(len(ids))

    def drawn(mask: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
        rows = np.flatnonzero(mask & ~pu.is_excluded)
        return np.sort(rows[np.argsort(place[rows], kind="stable")[:most]])

    positive, known = drawn(pu.is_positive, MOST_LABELED), drawn(pu.is_not_damaged & ~pu.is_positive, MOST_LABELED)
    unlabeled = drawn(~pu.is_positive & ~pu.is_not_damaged, MOST_UNLABELED)
    if not len(positive) or not len(unlabeled) + len(known):
        return None
    is_queued = np.zeros(len(positive), np.bool_) if pu.is_queued is None else pu.is_queued[positive]
    own, queued = positive[~is_queued], positive[is_queued]
    votes = votes_of(places_m(layout, chip_set)[np.concatenate([own, queued])], len(own)) if len(queued) else None
    return Marks(own, queued, unlabeled, known, np.zeros(0, np.int64), votes=votes)


def places_m(layout: Layout, chip_set: str) -> NDArray[np.float64]:
    """Return where the buildings of a chip set are, float64 [N, 2] as in `contents.centers_m`; read once for each state of
    the outlines.
    """
    return _places_m(layout, chip_set, geometry_v(layout))


@lru_cache(maxsize=2)
def _places_m(layout: Layout, chip_set: str, geometry: str) -> NDArray[np.float64]:
    return store.call(layout, contents.centers_m, chip_facts(layout, chip_set)["building_ids"])


def _stamp(layout: Layout, chip_set: str, feature_set: str, created_at: str) -> str:
    """Name what a live ranking depends on beside the labels: the project, its chips, their features, and after a dot the
    set.

    A copy of a project has its times and names; its folder is another one, or its database where it takes the other's place.
    """
    paths = (layout.features(chip_set, feature_set), layout.chip_facts(chip_set))
    with reading(paths[0]):
        changed_ns = [path.stat().st_mtime_ns for path in paths]
        parts = (str(layout.folder), layout.gpkg.stat().st_ino, created_at, chip_set, feature_set, changed_ns)
    return f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.{feature_set}"


def rank_now(layout: Layout) -> LiveRanking | None:
    """Rank all buildings by the labels of this moment; None before there are chips, a positive and an unlabeled one.

    Of more than `MOST_AT_ONCE` buildings a sample is ranked when this returns, and the others in the background.
    """
    began, newest = time.perf_counter(), _newest(layout)
    found = None if newest is None else _live_scores(layout, *newest)
    if newest is None or found is None:
        return None
    return _state_of(_name(*newest[1:]), found, time.perf_counter() - began)


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
    return None if found is None else in_map_order(layout, *found).astype("<f4").tobytes()


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


def in_map_order(layout: Layout, ids: Sequence[str], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values of buildings, float32 [N, ...], in the order of the map's geometry; NaN for a building without any."""
    on_map = _on_map(layout, geometry_v(layout))
    if len(ids) == len(on_map) and all(map(eq, ids, on_map)):
        return values
    rows = {building: i for i, building in enumerate(ids)}
    index = np.array([rows.get(building, -1) for building in on_map], dtype=np.int64)
    found = values[index]
    found[index < 0] = np.nan
    return found


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
    return ids, feature_rows(layout, chip_set).distances(ids.index(building_id))


def _like_position(layout: Layout, position: int) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        chip_set, building = contents.latest_chip_set(db), contents.building_at(db, position)
    return None if chip_set is None or building is None else _like(layout, chip_set, building[0])


def _live(layout: Layout, score_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    if (named := _named(layout, score_id)) is None:
        return None
    chip_set, stamp, at = named
    found = _live_scores(layout, chip_set, stamp, at)
    if found is None or (not found.is_complete.is_set() and score_id == _name(stamp, at)):
        return None  # the name of all scores: a browser would keep some of them as all
    return chip_facts(layout, chip_set)["building_ids"], found.scores.copy()


def _of_run(layout: Layout, run_id: str) -> tuple[Sequence[str], NDArray[np.float32]] | None:
    with store.connect(layout) as db:
        if run_id not in {facts.run_id for facts in runs.all_runs(db)}:
            return None
    return runs.building_ids_of(layout, run_id), np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
