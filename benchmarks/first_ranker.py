"""The linear ranker of the first version, frozen: what later rankings are held against. Uses nothing of the program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

L2, MAX_UNLABELED, N_FOLDS, MIN_POSITIVES = 0.5, 3000, 3, 4
Floats = NDArray[np.floating]


def first_ranking(features: NDArray[np.floating], is_positive: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Score chips by a logistic regression of clicks against unlabeled; the guessed share of damage sets its penalty.

    Args:
        features: of the chips as they were cut, float [N, D].
        is_positive: bool [N].

    Returns:
        float32 [N] in [0, 1].
    """
    values = np.array(features, np.float32)
    values -= values.mean(0, dtype=np.float64).astype(np.float32)
    spread = np.sqrt(np.einsum("nd,nd->d", values, values, dtype=np.float32) / np.float32(len(values)))
    values /= np.where(spread > 1e-6, spread, np.float32(np.inf))
    positive, unlabeled = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    l2 = L2
    if len(positive) >= MIN_POSITIVES:
        slope = np.log(30) / np.log(50)
        l2 = float(np.clip(0.1 * (max(_share(values, positive, unlabeled), 1e-6) / 0.01) ** slope, 0.1, 3.0))
    if len(unlabeled) > MAX_UNLABELED:
        unlabeled = np.sort(np.random.default_rng(0).choice(unlabeled, MAX_UNLABELED, replace=False))
    rows = np.concatenate([positive, unlabeled])
    found, offset = _fit(values[rows], np.arange(len(rows)) < len(positive), l2)
    return expit(values @ found + np.float32(offset)).astype(np.float32)


def _share(values: Floats, positive: NDArray[np.int64], unlabeled: NDArray[np.int64]) -> float:
    """Estimate the damaged share of the unlabeled (Elkan and Noto 2008) from cross-fitted, calibrated margins."""
    draw = np.random.default_rng(0)
    if len(unlabeled) > MAX_UNLABELED:
        unlabeled = np.sort(draw.choice(unlabeled, MAX_UNLABELED, replace=False))
    n_folds, n = min(N_FOLDS, len(positive)), len(positive)
    fold = np.concatenate([draw.permutation(n), draw.permutation(len(unlabeled))]) % n_folds
    rows, margins = np.concatenate([positive, unlabeled]), np.empty(n + len(unlabeled), np.float32)
    is_positive = np.arange(len(rows)) < n
    for part in range(n_folds):
        is_out = fold == part
        slope, offset = _fit(values[rows[~is_out]], is_positive[~is_out], 1.0)
        margins[is_out] = values[rows[is_out]] @ slope + offset
    wide = margins.astype(np.float64)
    standard = (wide - wide.mean()) / max(float(wide.std()), 1e-9)
    every = np.full(len(rows), 1 / len(rows))
    rise, origin = _fit(standard[:, None], is_positive, 0.0, every, 1e-10, [(0.0, 30.0), (-30.0, 30.0)])
    clicked = expit(standard * rise[0] + origin)
    frequency = float(np.clip(clicked[:n].mean(), 1e-6, 1.0))
    odds = (1 - frequency) / frequency * clicked[n:] / np.maximum(1 - clicked[n:], 1e-6)
    return float(np.clip(odds, 0, 1).mean())


def _fit(
    values: Floats, is_positive: NDArray[np.bool_], l2: float, weight: Floats | None = None, tolerance: float = 1e-5,
    bounds: list[tuple[float, float]] | None = None,
) -> tuple[Floats, float]:  # fmt: skip
    """Fit a logistic regression, one half of the weight a class where none is given; return slope and offset."""
    yes = np.asarray(is_positive, values.dtype)
    no, zero = 1 - yes, values.dtype.type(0)
    if weight is None:
        weight = (yes * (0.5 / yes.sum()) + no * (0.5 / no.sum())).astype(values.dtype)

    def objective(solution: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope, margin = solution[:-1], values @ solution[:-1].astype(values.dtype) + values.dtype.type(solution[-1])
        loss = float(weight @ (yes * np.logaddexp(zero, -margin) + no * np.logaddexp(zero, margin)))
        bend = np.tanh(margin / 2)
        pull = weight * (0.5 * (no * (1 + bend) - yes * (1 - bend)))
        return loss + 0.5 * l2 * float(slope @ slope), np.append(values.T @ pull + l2 * slope, pull.sum()).astype(np.float64)

    options = {"maxiter": 100, "gtol": tolerance, "ftol": 2.22e-4 * tolerance}
    found = minimize(objective, np.zeros(values.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x[:-1].astype(values.dtype), float(found.x[-1])
