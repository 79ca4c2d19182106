"""What to answer next: likely damage, chips unlike all known ones, and random checks, mixed into one queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pu_geo.analysis.assessability import LEAST_ANSWERS
from pu_geo.analysis.audit.progress import Audit, Bools, Rows, start_audit
from pu_geo.analysis.neighbors import highest, unit_rows
from pu_geo.analysis.two_readings import NEIGHBORHOOD_M
from pu_geo.errors import ShapeError

Kind = Literal["exploit", "explore", "audit"]
Floats = NDArray[np.floating]
LEAST_GAP_M = 80.0
"""Explored buildings are at least so far from each other and from the queue before: neighbors add little that is new."""
TOP, NEW = "among the highest scores", "unlike anything answered so far"
"""Why a building is exploited or explored: those reasons that hold only until the ranking changes."""
N_CANDIDATES = 800  # unanswered chips that exploring compares, half of them those with the highest scores
N_KNOWN = 600  # known chips, drawn at random, that candidates are compared with
PART_LIKELY = 2 / 3  # of the buildings that score 0.5 and more, the highest: exploited are some of these
MOST_LIKELY = 100  # of them
LIKE_POWER = 3  # of the cosine of two chips, as far as one covers the look of the other


class FeatureRows(Protocol):
    """Features of buildings, float32 [N, D], of which some rows are asked for: an array, or what reads them from the
    disk.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows | slice, /) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Mix:
    """Shares of a queue, in any unit: top scores, chips unlike the known ones, random checks."""

    exploit: float
    explore: float
    audit: float

    def __post_init__(self) -> None:
        shares = np.array([self.exploit, self.explore, self.audit])
        if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
            raise ValueError(f"shares of a queue must be 0 or more, and one above 0; got {shares.tolist()}.")

    def places(self, n: int) -> tuple[int, int, int]:
        """Divide n places by largest remainder; each kind with a share gets at least one if there are enough."""
        shares = np.array([self.exploit, self.explore, self.audit])
        exact = n * shares / shares.sum()
        places = np.floor(exact + 1e-9).astype(np.int64)
        places[np.argsort(places - exact, kind="stable")[: n - places.sum()]] += 1
        for kind in np.flatnonzero((shares > 0) & (places == 0)):
            if places.max() > 1:
                places[places.argmax()] -= 1
                places[kind] += 1
        exploit, explore, audit = places.tolist()
        return exploit, explore, audit


DEFAULT_MIX = Mix(exploit=0.8, explore=0.1, audit=0.1)
"""Chosen by how many answers it took to find the damage; the table is in docs/methods.md."""


@dataclass(frozen=True)
class QueueState:
    """What the queue has to know of the past.

    Attributes:
        is_answered: bool [N]; labeled, or out of the question, as chips without data are. Kept up to date by the caller.
        is_shown: bool [N]; was in a queue. Shown and not answered means skipped.
        recent: the queue before.
        audit: None until the first queue with checks.
        sites: int64 [N], number of the site of each; None where all are of one.
    """

    is_answered: Bools
    is_shown: Bools
    recent: tuple[int, ...] = ()
    audit: Audit | None = None
    sites: Rows | None = None

    def in_turn(self, rows: Rows) -> Rows:
        """Return rows, the best first, so that sites alternate: the best of each, then the second of each, and so on.

        The site of which the fewest were in a queue comes first, so that more sites than a queue has places have their turn.
        """
        if self.sites is None:
            return rows
        of = self.sites[rows]
        order = np.argsort(of, kind="stable")
        place = np.empty(len(rows))
        place[order] = np.arange(len(rows)) - np.searchsorted(of[order], of[order])
        return rows[np.lexsort((np.bincount(self.sites, self.is_shown)[of], place))]


@dataclass(frozen=True)
class Item:
    """A building to review.

    Attributes:
        row: of the building.
        kind: what it was chosen for.
        why: the reason as the analyst reads it.
        inclusion: of a random check, the probability that it is in the sample by now; otherwise None.
    """

    row: int
    kind: Kind
    why: str
    inclusion: float | None = None


@dataclass(frozen=True)
class Queue:
    """Items in the order in which to show them, and the state to ask for the next queue with."""

    items: list[Item]
    state: QueueState


def next_queue(
    scores: Floats | None,
    features: FeatureRows,
    xy_m: Floats,
    state: QueueState,
    *,
    mix: Mix = DEFAULT_MIX,
    n: int = 20,
    seed: int = 0,
) -> Queue:
    """Choose the next buildings to review. The same input gives the same queue.

    exploit: likely damaged buildings that nobody answered, spread over places and looks, see `spread`. explore: farthest
    first by cosine from all known chips, the distance times the score so that undamaged oddities do not fill the queue, at
    least 80 m from each other. audit: the next of the drawing order. Places that random checks leave, because those were
    answered already, and those for which nothing to explore is left, go to exploit where it has a share.

    Of an event with several sites, exploit and explore ask each site in its turn, so that one with lower scores is not
    forgotten; a site that has none left is passed by. Random checks are drawn from all of them together.

    Source: ours; explore after k-center greedy (Gonzalez 1985; for active learning Sener and Savarese 2018).

    Args:
        scores: float [N] in [0, 1]; None before there is a positive: then all are explored and no audit begins. NaN for
            those that a ranking that goes on has yet to reach: these are not shown, and no audit begins, as its strata are
            made of all scores.
        features: float [N, D], standardised features or embeddings.
        xy_m: float [N, 2], position in metres.
        state: see `QueueState`.
        mix: shares of the three kinds.
        n: how many; fewer come back where fewer are left.
        seed: of the audit, if it begins here, and of which chips exploring compares.

    Raises:
        ShapeError: if an array has another length than the state.
    """
    count = len(state.is_answered)
    wrong = scores is not None and scores.shape != (count,)
    if wrong or state.is_shown.shape != (count,) or len(features) != count or xy_m.shape != (count, 2):
        raise ShapeError(
            f"scores [N], features [N, D], xy_m [N, 2] and is_shown [N] must have the N = {count} of is_answered; got "
            f"{None if scores is None else scores.shape}, {len(features)} rows, {xy_m.shape}, {state.is_shown.shape}."
        )
    is_scored = np.ones(count, np.bool_) if scores is None else np.isfinite(scores)
    is_ready = is_scored | state.is_answered
    is_free = ~(state.is_answered | state.is_shown)
    n_exploit, n_explore, n_audit = mix.places(n) if scores is not None else (0, n, 0)
    audit, checks = state.audit, np.empty(0, np.int64)
    if audit is None and not is_ready.all():
        n_exploit, n_audit = n_exploit + n_audit, 0
    if scores is not None and n_audit:
        audit = audit or start_audit(scores, state.is_answered, seed=seed)
        audit, checks = _draw(audit, is_free, n_audit, is_alone=n_audit == n)
        is_free[checks] = False
    draw = np.random.default_rng([seed, int(state.is_shown.sum()), int(state.is_answered.sum())])
    is_free &= is_ready
    best = near = checks[:0]
    if scores is not None:
        best = spread(scores, features, xy_m, state, is_free, n_exploit)
        is_free[best] = False
        near = _ranked(scores, state, is_free, N_CANDIDATES // 2)  # the highest scores, and as many others at random
    known = np.concatenate([_some(np.flatnonzero(state.is_answered | state.is_shown), N_KNOWN, draw), best, checks])
    is_other = is_free.copy()
    is_other[near] = False
    near = np.concatenate([near, _some(np.flatnonzero(is_other), N_CANDIDATES - len(near), draw)])
    others = _explore(scores, features, xy_m, near, known, state, n_explore)
    if scores is not None and n_exploit:
        is_free[others] = False
        now = replace(state, is_shown=state.is_shown | np.isin(np.arange(count), best))
        more = spread(scores, features, xy_m, now, is_free, n - len(best) - len(others) - len(checks))
        best = np.concatenate([best, more])
    of_part = "" if is_ready.all() else f" of {int(is_scored.sum()):,} ranked so far"
    items = _items(scores, audit, best, others, checks, of_part)
    is_shown = state.is_shown.copy()
    is_shown[[item.row for item in items]] = True
    recent = tuple(item.row for item in items)
    return Queue(items, replace(state, is_shown=is_shown, recent=recent, audit=audit))


def spread(scores: Floats, features: FeatureRows, xy_m: Floats, state: QueueState, is_free: Bools, n: int) -> Rows:
    """Choose likely damaged buildings that are spread over places and looks, int64, up to n in the order in which to show
    them.

    Each is the one least crowded by those that were answered, shown or chosen before it. A building crowds another by the
    larger of exp(-d^2 / 2 (300 m)^2) and the third power of their cosine. Likely are the highest of those that score 0.5 and
    more, two thirds of them and at most 100, and the n highest in any case. Sites are asked in their turn.

    Source: ours. The highest scores alone lie in a few streets that look alike: learned from, they pull the ranking there.

    Args:
        scores: float [N] in [0, 1], finite where free.
        features: float [N, D], as in `next_queue`.
        xy_m: float [N, 2], position in metres.
        state: what was answered and shown.
        is_free: bool [N], those that may be chosen.
        n: how many; fewer come back where fewer are free.
    """
    n_likely = int(PART_LIKELY * (is_free & (np.nan_to_num(scores) >= 0.5)).sum())
    rows = _ranked(scores, state, is_free, max(n, min(n_likely, MOST_LIKELY)))
    rows = rows[(np.arange(len(rows)) < n) | (scores[rows] >= 0.5)]
    if len(rows) <= n:
        return rows
    draw = np.random.default_rng([int(state.is_shown.sum()), int(state.is_answered.sum())])
    known = _some(np.flatnonzero(state.is_answered | state.is_shown), N_KNOWN, draw)
    points = unit_rows(features[rows])
    crowd = _crowding(points, xy_m[rows], unit_rows(features[known]), xy_m[known]).sum(axis=1)
    each = _crowding(points, xy_m[rows], points, xy_m[rows])
    of = np.zeros(len(rows), np.int64) if state.sites is None else state.sites[rows]
    picked: list[int] = []
    is_open = np.ones(len(rows), np.bool_)
    while len(picked) < n:
        n_asked = np.bincount(of[picked], minlength=of.max() + 1)[of]
        at = int(np.where(is_open & (n_asked == n_asked[is_open].min()), crowd, np.inf).argmin())
        picked.append(at)
        is_open[at] = False
        crowd = crowd + each[at]
    return rows[picked]


def of_silent_scenes(
    scene: NDArray[np.str_], scores: Floats, is_free: Bools, is_positive: Bools, is_not_damaged: Bools
) -> Iterator[tuple[int, str]]:
    """Yield the free row of the highest score of each scene in which too little is answered, and the scene's name, the
    largest scene first; none where all are of one scene.

    Args:
        scene: name of each building's, str [N]; "" for none.
        is_positive, is_not_damaged: bool [N], answers. One damaged building is enough, or `LEAST_ANSWERS` of the others.
    """
    names, sizes = np.unique(scene[scene != ""], return_counts=True)
    for name in names[np.argsort(-sizes, kind="stable")].tolist() if len(names) > 1 else []:
        here = scene == name
        rows = np.flatnonzero(here & is_free)
        if len(rows) and not is_positive[here].any() and is_not_damaged[here].sum() < LEAST_ANSWERS:
            yield int(rows[scores[rows].argmax()]), name


def _crowding(points: Floats, xy_m: Floats, other_points: Floats, other_xy_m: Floats) -> Floats:
    """Compute how far each building is covered by others, by place or by look, float [B, M] in 0..1."""
    far = ((xy_m[:, None] - other_xy_m) ** 2).sum(2)
    place = np.nan_to_num(np.exp(-far / (2 * NEIGHBORHOOD_M**2)))
    covered: Floats = np.maximum(place, np.maximum(points @ other_points.T, 0) ** LIKE_POWER)
    return covered


def _ranked(scores: Floats, state: QueueState, is_free: Bools, n: int) -> Rows:
    """Return up to n free rows, the highest scores first, sites in their turn."""
    free = np.flatnonzero(is_free)
    return state.in_turn(free[highest(scores[free], n if state.sites is None else len(free))])[:n]


def _draw(audit: Audit, is_free: Bools, n: int, is_alone: bool) -> tuple[Audit, Rows]:
    """Move the sample on by n; return what of it is to be shown."""
    rows, end = audit.rows[:0], audit.n_drawn
    while end < len(audit.rows) and not len(rows):
        new = audit.rows[end : end + n]
        end += len(new)
        rows = new[is_free[new]]
        if not is_alone:  # whole steps only: how far a queue goes must not hang on the answers
            break
    return replace(audit, n_drawn=end), rows


def _some(rows: Rows, n: int, draw: np.random.Generator) -> Rows:
    return rows if len(rows) <= n else draw.choice(rows, n, replace=False)


@threadpool_limits.wrap(limits=1, user_api="blas")  # as in `ranker`: small matrices, where threads only wait for each other
def _explore(
    scores: Floats | None, features: FeatureRows, xy_m: Floats, rows: Rows, known: Rows, state: QueueState, n: int
) -> Rows:
    """Pick up to n of the rows, one after the other, each the best by distance to all known chips times score, of the site
    whose turn it is.
    """
    if n == 0 or not len(rows):
        return rows[:0]
    points = unit_rows(features[rows])
    gap = 1 - (points @ unit_rows(features[known]).T).max(axis=1, initial=-1.0)
    worth = scores[rows] if scores is not None else np.ones(len(rows))
    is_far = np.ones(len(rows), np.bool_)
    for row in state.recent:
        is_far &= _is_far_from(xy_m[rows], xy_m[row])
    picked: list[int] = []
    of = np.zeros(len(rows), np.int64) if state.sites is None else state.sites[rows]
    while len(picked) < n and is_far.any():
        n_asked = np.bincount(of[picked], minlength=of.max() + 1)[of]
        at = int(np.where(is_far & (n_asked == n_asked[is_far].min()), np.maximum(gap, 0) * worth, -1.0).argmax())
        picked.append(at)
        gap = np.minimum(gap, 1 - points @ points[at])
        is_far &= _is_far_from(xy_m[rows], xy_m[rows[at]])
    return rows[picked]


def _is_far_from(xy_m: Floats, place: Floats) -> Bools:
    return np.hypot(xy_m[:, 0] - place[0], xy_m[:, 1] - place[1]) >= LEAST_GAP_M


def _items(scores: Floats | None, audit: Audit | None, best: Rows, others: Rows, checks: Rows, of_part: str) -> list[Item]:
    """Return the chosen rows with the reason of each; the kinds alternate evenly, one of each in front."""
    kinds: list[list[Item]] = [[], [], []]
    if scores is not None:
        kinds[0] = [Item(int(row), "exploit", TOP + of_part) for row in best]
    kinds[1] = [Item(int(row), "explore", NEW) for row in others]
    if audit is not None and len(checks):
        drawn, inclusion = audit.rows[: audit.n_drawn], audit.inclusion()
        for row in checks:
            part = int(audit.stratum[np.flatnonzero(drawn == row)[0]])
            words = f"random pick of scores {audit.low[part]:.2f} to {audit.high[part]:.2f}"
            kinds[2].append(Item(int(row), "audit", words, float(inclusion[part])))
    placed = [(at / len(items), kind, item) for kind, items in enumerate(kinds) for at, item in enumerate(items)]
    return [item for _, _, item in sorted(placed, key=lambda entry: entry[:2])]
