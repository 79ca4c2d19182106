"""Logistic regression by SciPy's L-BFGS: of the instant ranker, of the linear methods, and of all that is calibrated by one
curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.floating]


@threadpool_limits.wrap(limits=1, user_api="blas")  # these matrices are small: two threads took ten times as long as one
def fit_logistic(
    values: Floats,
    is_positive: NDArray[np.bool_] | Floats,
    l2: float,
    weight: Floats | None = None,
    *,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[Floats, float, float]:
    """Fit a logistic regression, in the precision of the values where it is costly.

    Args:
        values: standardised features, float32 or float64 [M, D].
        is_positive: bool [M], both classes occur; or chances, float [M] in 0..1.
        l2: weight of half the squared length of the slope, against a mean loss. The offset is free.
        weight: of each row in the mean loss, float [M] of sum 1; None for one half a class.
        tolerance: largest entry of the gradient that is left.
        max_iterations: of L-BFGS, at most.
        bounds: of each entry of the slope, and of the offset.
        check: called before each evaluation; what it raises ends the fit.

    Returns:
        Slope [D] in the precision of the values, offset, and the loss at the minimum.
    """
    yes = np.asarray(is_positive, values.dtype)
    no, zero = 1 - yes, values.dtype.type(0)
    if weight is None:
        weight = (yes * (0.5 / yes.sum()) + no * (0.5 / no.sum())).astype(values.dtype)
    columns = np.ascontiguousarray(values.T)

    def objective(solution: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        check()
        slope, margin = solution[:-1], values @ solution[:-1].astype(values.dtype) + values.dtype.type(solution[-1])
        loss = float(weight @ (yes * np.logaddexp(zero, -margin) + no * np.logaddexp(zero, margin)))
        bend = np.tanh(margin / 2)
        pull = weight * (0.5 * (no * (1 + bend) - yes * (1 - bend)))
        gradient = np.append(columns @ pull + l2 * slope, pull.sum())
        return loss + 0.5 * l2 * float(slope @ slope), gradient.astype(np.float64)

    options = {"maxiter": max_iterations, "gtol": tolerance, "ftol": 2.22e-4 * tolerance}
    found = scipy.optimize.minimize(
        objective, np.zeros(values.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return found.x[:-1].astype(values.dtype), float(found.x[-1]), float(found.fun)


def cross_fitted(
    values: Floats, is_positive: NDArray[np.bool_], fold: NDArray[np.int64], l2: float, **options: Any
) -> Floats:
    """Return the margin of each row of [M, D] by a fit that did not see it, in the values' precision [M].

    Args:
        fold: part that a row is held out with, 0..n - 1, int64 [M]; both classes occur outside of each.
        l2, options: as in `fit_logistic`.
    """
    margins = np.empty(len(values), values.dtype)
    for part in range(int(fold.max()) + 1):
        is_out = fold == part
        slope, offset, _ = fit_logistic(values[~is_out], is_positive[~is_out], l2, **options)
        margins[is_out] = values[is_out] @ slope + offset
    return margins
