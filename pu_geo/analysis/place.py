"""Evidence from place: damage comes in clusters, so the scores of unlabeled neighbors say something of a building.

Source: ours. `nb` is a Gaussian mean of the unlabeled neighbors' standardised scores, `b` how much of it shows in a
building's own score, `m` how much higher held-out clicks stand with it: `score += min(.6, b clip(14 (b - .9) + 8 m, 0, 1)
clip(1 + 20 m, 0, 1)) nb`. Where scores are not clustered b is small, and nothing is added: on sets with labels of one image
b was .93 to 1, on chips whose labels follow the date .54 to .98, where the evidence did harm. Where held-out clicks fall by
5 % of their place on average, the weight is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import InputError, ShapeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

SIGMA_M, CUT_M = 60.0, 180.0  # width of the Gaussian, and the distance beyond which nobody is a neighbor, metres
GAIN_PULL = 20.0  # the weight falls to 0 where held-out clicks lose 1 / GAIN_PULL of log place
LEAST_SLOPE, SLOPE_PULL = 0.9, 14.0  # b below which neighbors do not count; 0.07 more, and they count fully
GAIN_HELP = 8.0  # how much a gain of held-out clicks makes up for a small b
MOST_WEIGHT = 0.6  # weights up to 1 gained hardly more, and lost three times as much where they lost
PLACE_FLOOR = 0.05  # added to places before their logarithm: being second or third of thousands is all the same
MOST_TIES = 30_000_000  # pairs that are kept; where there are more, each building has its nearest `MOST_TIES // N`
LEAST_SPACING_M = 0.05  # buildings in metres are farther from each other; in degrees or kilometers they are nearer
_DEGREES = np.array([180.0, 90.0])
_ROWS_AT_ONCE = 8192
SWITCHED_OFF = "it is switched off"


@dataclass(frozen=True)
class PlaceWeights:
    """How much each building counts for each other one, made once from their places.

    Attributes:
        ties: float32 [N, N], sparse, in (0, 1]; its diagonal is 0.
    """

    ties: csr_array

    @classmethod
    def of(cls, xy_m: Floats, check: Callable[[], None] = lambda: None) -> PlaceWeights:
        """Weigh pairs of buildings by exp(-d² / (2 * 60²)) up to d = 180 m, and by 0 beyond.

        Source: ours. Buildings at the very same place count for each other with weight 1.

        Args:
            xy_m: places, float [N, 2], metres east and north in the project CRS or any other plane.
            check: called now and then; what it raises ends the work.

        Raises:
            ShapeError(ValueError): if they are not [N, 2].
            InputError(ValueError): if one is not finite, or they seem to be in degrees.
        """
        from scipy.sparse import csr_array

        places = checked_places(xy_m)
        n = len(places)
        rows, columns, weights = (
            _ties(places, check) if n > 1 else (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
        )
        starts = np.concatenate([[0], np.bincount(rows, minlength=n).cumsum()])
        found = csr_array((weights.astype(np.float32), columns, starts), shape=(n, n))
        return cls(found)

    def neighbor_mean(self, scores: Floats, is_counted: Bools) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Average the scores of the neighbors that count; 0 where there are none.

        Args:
            scores: standardised, float [N]; those that do not count may be anything.
            is_counted: bool [N]; the unlabeled. A building's own score never counts for itself.

        Returns:
            The means, and the sums of the weights that these are taken over, float32 [N] each.
        """
        n = self.ties.shape[0]
        if scores.shape != (n,) or is_counted.shape != (n,):
            raise ShapeError(f"scores and is_counted must be [{n}]; got {scores.shape} and {is_counted.shape}.")
        total = self.ties @ np.where(is_counted, scores, 0).astype(np.float32)
        weight = self.ties @ is_counted.astype(np.float32)
        mean = np.divide(total, weight, out=np.zeros(n, np.float32), where=weight > 0)
        return mean, weight


def checked_places(xy_m: Floats) -> NDArray[np.float64]:
    """Return places as float64 [N, 2].

    Raises:
        ShapeError(ValueError), InputError(ValueError): for what is none, and for degrees.
    """
    places = np.asarray(xy_m, np.float64)
    if places.ndim != 2 or places.shape[1] != 2:
        raise ShapeError(f"positions must be [N, 2], metres; got {places.shape}.")
    is_bad = ~np.isfinite(places).all(1)
    if is_bad.any():
        raise InputError(
            f"{int(is_bad.sum())} of {len(places)} positions are not finite, the first in row "
            f"{int(np.flatnonzero(is_bad)[0])}.",
            "Give every building a position in metres, or none.",
        )
    from scipy.spatial import cKDTree

    if len(places) > 1 and (np.abs(places) <= _DEGREES).all():
        nearest = cKDTree(places).query(places, k=2)[0][:, 1]
        spaced = nearest[nearest > 0]
        if len(spaced) and np.median(spaced) < LEAST_SPACING_M:
            raise InputError(
                f"positions must be in metres; here the middle building has its nearest neighbor {np.median(spaced):.2g} "
                "away. These seem to be degrees or kilometers.",
                "Project them, such as to UTM: geodataframe.to_crs(geodataframe.estimate_utm_crs()).",
            )
    return places


def _ties(
    places: NDArray[np.float64], check: Callable[[], None]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return the pairs within reach, rows in order, both ways, without a building and itself; and their weights."""
    from scipy.spatial import cKDTree

    n, tree = len(places), cKDTree(places)
    n_pairs = int(tree.count_neighbors(tree, CUT_M)) - n
    nearest = None if n_pairs <= MOST_TIES else max(MOST_TIES // n, 1)
    parts = []
    for first in range(0, n, _ROWS_AT_ONCE):
        check()
        block = places[first : first + _ROWS_AT_ONCE]
        if nearest is None:
            found = cKDTree(block).sparse_distance_matrix(tree, CUT_M, output_type="ndarray")
            found = found[np.argsort(found["i"], kind="stable")]
            rows, columns, distance = found["i"], found["j"], found["v"]
        else:
            distances, which = tree.query(block, k=min(nearest + 1, n), distance_upper_bound=np.nextafter(CUT_M, np.inf))
            is_near = np.isfinite(distances)
            rows, columns, distance = np.nonzero(is_near)[0], which[is_near], distances[is_near]
        is_other = rows + first != columns
        weight = np.exp(-0.5 * (distance[is_other] / SIGMA_M) ** 2)
        parts.append(((rows[is_other] + first).astype(np.int32), columns[is_other].astype(np.int32), weight))
    rows, columns, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, columns, weights


@dataclass(frozen=True)
class HeldOutFold:
    """Scores by a fit that did not learn from some clicks.

    Attributes:
        clicks: rows of these clicks, int64 [P].
        unlabeled: rows that they are compared with, int64 [U]; best such that this fit did not learn from either.
        scores: of all buildings by this fit, float [N], in any unit; NaN where it gave none, which then is no neighbor.
    """

    clicks: Ints
    unlabeled: Ints
    scores: Floats


@dataclass(frozen=True)
class PlaceEvidence:
    """What neighbors are worth, and the scores with it.

    Attributes:
        weight: what `nb` counts, in [0, .6], see `place_weight`.
        b: slope of a building's own score on nb, in [0, 1].
        m: mean gain of held-out clicks in log place.
        scores: float32 [N], in the unit of the raw scores; the raw scores themselves where the weight is 0.
        why_not: why it is not used; "" where it is.
    """

    weight: float
    b: float
    m: float
    scores: NDArray[np.float32]
    why_not: str = ""

    def as_mapping(self) -> dict[str, Any]:
        """Return the facts that a run keeps: {"used", "weight", "b", "m", "why_not"}."""
        figures = {name: round(float(getattr(self, name)), 4) for name in ("weight", "b", "m")}
        return {"used": not self.why_not, **figures, "why_not": self.why_not}


def unused(why_not: str) -> dict[str, Any]:
    """Return the facts of a run whose method could use evidence from place and did not, see `PlaceEvidence.as_mapping`."""
    return {"used": False, "weight": 0.0, "b": 0.0, "m": 0.0, "why_not": why_not}


def standardized(raw: Floats, is_counted: Bools) -> tuple[NDArray[np.float64], float]:
    """Bring scores [N] to mean 0 and variance 1 over those that count, float64 [N], and return their unit; 0 where all are
    alike.
    """
    values = np.asarray(raw, np.float64)
    mean, unit = float(values[is_counted].mean()), float(values[is_counted].std())
    if not unit > 1e-9:
        return np.zeros_like(values), 0.0
    return (values - mean) / unit, unit


def slope_on_neighbors(standard: Floats, nb: Floats, is_counted: Bools) -> float:
    """Compute b: the least-squares slope of a building's own score on nb, clipped to [0, 1]; 0 where nb does not vary.

    Source: ours.

    Args:
        standard, nb: float [N].
        is_counted: bool [N]; the unlabeled that have a neighbor.
    """
    if is_counted.sum() < 3:
        return 0.0
    own, near = (np.asarray(each, np.float64)[is_counted] for each in (standard, nb))
    centered = near - near.mean()
    spread = float(centered @ centered)
    return float(np.clip(centered @ own / spread, 0, 1)) if spread > 1e-12 else 0.0


def held_out_gain(weights: PlaceWeights, is_counted: Bools, held_out: Sequence[HeldOutFold]) -> float | None:
    """Compute m: by how much held-out clicks stand higher with the evidence from place; None where nothing is held out.

    Source: ours. The mean over held-out clicks of log(place without) - log(place with), where
    place = (held-out unlabeled with a higher score + 1) / (n + 1). In each fold all is worked out anew from its scores.

    Args:
        is_counted: bool [N]; the unlabeled. No click, held out or not, is a neighbor.
    """
    gains = []
    for fold in held_out:
        is_known = np.isfinite(fold.scores)
        counted = is_counted & is_known
        clicks, others = fold.clicks[is_known[fold.clicks]], fold.unlabeled[is_known[fold.unlabeled]]
        if not (len(clicks) and len(others) and counted.any()):
            continue
        alone, _ = standardized(fold.scores, counted)
        nb, weight = weights.neighbor_mean(alone, counted)
        both = alone + slope_on_neighbors(alone, nb, counted & (weight > 0)) * nb
        gains.append(_log_places(alone, clicks, others) - _log_places(both, clicks, others))
    return float(np.concatenate(gains).mean()) if gains else None


def places_of(clicks: Floats, unlabeled: Floats) -> NDArray[np.float64]:
    """Compute the place of each click's score [P] among those of unlabeled chips [U], (unlabeled before it + 1)/(U + 1),
    float64 [P] in (0, 1].
    """
    before = len(unlabeled) - np.searchsorted(np.sort(unlabeled), clicks, side="right")
    return np.asarray((before + 1) / (len(unlabeled) + 1), np.float64)


def _log_places(scores: Floats, clicks: Ints, others: Ints) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.log(places_of(scores[clicks], scores[others]) + PLACE_FLOOR)
    return found


def place_weight(b: float, m: float) -> float:
    """Compute the weight of nb, in [0, .6]: min(.6, b clip(14 (b - .9) + 8 m, 0, 1) clip(1 + 20 m, 0, 1))."""
    clustered = np.clip(SLOPE_PULL * (b - LEAST_SLOPE) + GAIN_HELP * m, 0, 1)
    return min(MOST_WEIGHT, b * float(clustered * np.clip(1 + GAIN_PULL * m, 0, 1)))


def apply(
    raw: Floats, xy_m: Floats, is_counted: Bools, held_out: Sequence[HeldOutFold],
    check: Callable[[], None] = lambda: None,
) -> PlaceEvidence:  # fmt: skip
    """Work out what neighbors are worth, and add it to the scores of a whole project.

    Args:
        raw: scores of all buildings by the model that learned from every click, float [N], before the sigmoid, in any unit.
        xy_m: places, float [N, 2], metres.
        is_counted: bool [N]; the unlabeled that a picture shows. Neighbors are these alone: no clicks, nothing hidden.
        held_out: scores by fits without some clicks, on which the evidence is tried.
        check: see `PlaceWeights.of`.

    Raises:
        InputError, ShapeError: for places that cannot be used, see `PlaceWeights.of`.
    """
    plain = np.asarray(raw, np.float32)

    def nothing(why: str, b: float = 0.0, m: float = 0.0) -> PlaceEvidence:
        return PlaceEvidence(0.0, b, m, plain, why)

    weights = PlaceWeights.of(xy_m, check)
    if not is_counted.any():
        return nothing("every building is reviewed")
    standard, unit = standardized(raw, is_counted)
    nb, near = weights.neighbor_mean(standard, is_counted)
    if not (near[is_counted] > 0).any():
        return nothing(f"no two buildings not reviewed are within {CUT_M:g} m of each other")
    m = held_out_gain(weights, is_counted, held_out)
    if m is None:
        return nothing("there are too few clicks to try it on held-out ones")
    b = slope_on_neighbors(standard, nb, is_counted & (near > 0))
    weight = place_weight(b, m)
    if weight == 0:
        lower = GAIN_PULL * m <= -1 and b > 0
        return nothing("held-out clicks stand lower with them" if lower else "high scores are not clustered", b, m)
    return PlaceEvidence(weight, b, m, (np.asarray(raw, np.float64) + unit * weight * nb).astype(np.float32))


def words_of(place: Any) -> str:
    """Return in words whether a run used evidence from place; "" for a run of a method that has none.

    Args:
        place: facts as `PlaceEvidence.as_mapping` gives them, or None.

    >>> words_of({"used": True, "weight": 0.8, "b": 0.8, "m": 0.01, "why_not": ""})
    'Neighbors count: 0.8 (1 would be as much as the building itself)'
    """
    if place is None:
        return ""
    if place.get("used"):
        return f"Neighbors count: {float(place['weight']):.2g} (1 would be as much as the building itself)"
    return f"Neighbors do not count here: {place.get('why_not') or 'not known why'}"
