"""The instant linear ranker: who is like the clicked positives? Answers while the analyst clicks, without a job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.logistic import fit_logistic
from pu_geo.errors import ShapeError, TrainingError

L2 = 0.5  # penalty where no estimate of the damaged share is at hand; see `l2_for_share`
KNOWN_WEIGHT = 30.0
"""What one chip that a person called not damaged weighs, in unlabeled ones.

Chosen on real chips, where an analyst answers queue after queue of the highest scores: 10 to 200 find the
last damaged buildings in half the answers that it takes without, or less; above 50 a few easy ones begin to do harm.
"""
ACCEPTED_SHARE = 0.25
"""Most of the positives' weight that buildings of accepted clusters get together: a large cluster of one kind of damage
would
outvote the clicks. The table is in docs/methods.md."""

EMBEDDING_DIM = 64  # axes along which a ranker's run is explored
MAX_UNLABELED = 3000  # unlabeled chips that are learned from; more would only take longer


@dataclass(frozen=True)
class PreparedFeatures:
    """Standardised features, made once a chip set and used at every click.

    Attributes:
        values: float32 [N, D]; each column has mean 0 and variance 1, or is 0 throughout.
        mean, scale: float32 [D], by which other chips are standardised alike; None where they were not kept.
    """

    values: NDArray[np.float32]
    mean: NDArray[np.float32] | None = None
    scale: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Ranking:
    """A linear ranking of standardised features: slope, float32 [D], and offset."""

    slope: NDArray[np.float32]
    offset: float

    def scores(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score standardised features, float32 [N, D]: float32 [N] in [0, 1]."""
        margin = values @ self.slope + np.float32(self.offset)
        return (0.5 * (1 + np.tanh(margin / 2))).astype(np.float32)


def prepare(features: NDArray[np.floating], is_used: NDArray[np.bool_] | None = None) -> PreparedFeatures:
    """Standardise features [N, D] of any float type; NaN and infinities are not allowed.

    Args:
        is_used: bool [N], the rows that mean and variance are taken from; all if None, or if none is.

    Raises:
        ShapeError: if features are not [N, D].
        ValueError: if a value is not finite.
    """
    if features.ndim != 2:
        raise ShapeError(f"features must be [N, D]; got {features.shape}.")
    values, mean, scale = np.array(features, np.float32), None, None
    if len(values):
        some = slice(None) if is_used is None or is_used.all() or not is_used.any() else is_used
        mean = values[some].mean(0, dtype=np.float64).astype(np.float32)
        values -= mean
        used = values[some]
        spread = np.sqrt(np.einsum("nd,nd->d", used, used, dtype=np.float32) / np.float32(len(used)))
        scale = np.where(spread > 1e-6, spread, np.float32(np.inf))
        values /= scale
    if not np.isfinite(values).all():
        raise ValueError("features must be finite; compute them anew for chips that are not.")
    return PreparedFeatures(values, mean, scale)


def fit_ranking(
    prepared: PreparedFeatures,
    is_positive: NDArray[np.bool_],
    *,
    is_excluded: NDArray[np.bool_] | None = None,
    is_not_damaged: NDArray[np.bool_] | None = None,
    is_accepted: NDArray[np.bool_] | None = None,
    l2: float = L2,
    seed: int = 0,
) -> Ranking:
    """Fit a logistic regression of positives against all others, both sides weighing the same.

    A chip that a person called not damaged weighs as much as `KNOWN_WEIGHT` unlabeled ones.

    Source: ours; the baseline that every PU method is held against.

    Args:
        prepared: features [N, D], standardised.
        is_positive: bool [N].
        is_excluded: bool [N]; scored, but not learned from.
        is_not_damaged: bool [N]; called not damaged by a person. None where nobody was asked.
        is_accepted: bool [N]; of accepted clusters: positives too, of which all together weigh a quarter of the positives'
            side at most.
        l2: weight of half the squared length of the coefficients, against a mean loss; see `ranker.l2_for_share`.
        seed: of the draw of unlabeled chips where there are more than `MAX_UNLABELED`.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip to learn from.
    """
    used = ~is_excluded if is_excluded is not None else np.ones(len(is_positive), np.bool_)
    if is_positive.shape != (len(prepared.values),) or used.shape != is_positive.shape:
        raise ShapeError(f"masks must be [{len(prepared.values)}]; got {is_positive.shape} and {used.shape}.")
    is_known = is_not_damaged & used & ~is_positive if is_not_damaged is not None else np.zeros_like(used)
    is_more = is_accepted & used & ~is_positive & ~is_known if is_accepted is not None else np.zeros_like(used)
    positive, known, more = (np.flatnonzero(mask) for mask in (is_positive & used, is_known, is_more))
    unlabeled = np.flatnonzero(~is_positive & ~is_known & ~is_more & used)
    if not len(positive):
        raise TrainingError(
            "The ranker needs at least 1 damaged building; this project has 0.",
            "Mark a damaged building on the Annotate page.",
            kind="positives",
        )
    if not len(unlabeled) + len(known):
        raise TrainingError(
            "The ranker needs buildings not reviewed beside the damaged ones; this project has 0.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    if len(unlabeled) > MAX_UNLABELED:
        unlabeled = np.sort(np.random.default_rng(seed).choice(unlabeled, MAX_UNLABELED, replace=False))
    rows = np.concatenate([positive, more, unlabeled, known])
    weight = side_weights(len(positive), len(unlabeled), len(known), len(more))
    slope, offset, _ = fit_logistic(prepared.values[rows], np.arange(len(rows)) < len(positive) + len(more), l2, weight)
    return Ranking(slope, offset)


def widest_axes(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the 64 widest axes of standardised features [N, D], float32 [64, D]; fewer where N or D is smaller."""
    _, _, axes = np.linalg.svd(values[:: max(1, len(values) // 4000)], full_matrices=False)
    widest: NDArray[np.float32] = axes[:EMBEDDING_DIM]
    return widest


def embeddings_along(axes: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce standardised features [N, D] to unit rows [N, 64] along axes [64, D], so that ranker runs can be explored
    too.
    """
    reduced = values @ axes.T
    unit: NDArray[np.float32] = reduced / (np.linalg.norm(reduced, axis=1, keepdims=True) + 1e-12)
    return unit.astype(np.float32)


def l2_for_share(share: float) -> float:
    """Choose the penalty from the estimated share of damaged buildings among the unlabeled ones.

    The more damage hides in the unlabeled, the less single ones of them may be trusted. Ours; a straight line between
    logarithms through what was best on real chips: 3 for half damaged (Joplin), 0.1 for one in a hundred (Harvey).

    Args:
        share: in [0, 1], such as `estimates.elkan_noto_share` gives.

    Returns:
        Penalty in [0.1, 3].
    """
    slope = np.log(30) / np.log(50)
    return float(np.clip(0.1 * (max(share, 1e-6) / 0.01) ** slope, 0.1, 3.0))


def side_weights(n_positive: int, n_unlabeled: int, n_known: int, n_accepted: int = 0) -> NDArray[np.float32]:
    """Weigh positives, accepted, unlabeled and not damaged chips, in this order, float32 of sum 1: one half a side."""
    share = KNOWN_WEIGHT * n_known / max(KNOWN_WEIGHT * n_known + n_unlabeled, 1)
    more = min(ACCEPTED_SHARE, n_accepted / max(n_accepted + n_positive, 1))
    parts = (
        (n_positive, 0.5 * (1 - more)),
        (n_accepted, 0.5 * more),
        (n_unlabeled, 0.5 * (1 - share)),
        (n_known, 0.5 * share),
    )
    return np.concatenate([np.full(n, total / max(n, 1), np.float32) for n, total in parts])
