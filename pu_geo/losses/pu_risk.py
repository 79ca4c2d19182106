"""Risks that teach a classifier from positives and unlabeled chips once the class prior is known: uPU and nnPU.

Shared terms. A margin f is above 0 where a chip is taken for damaged; of two-class logits it is column 1 minus column 0,
and with the logistic surrogate a chip then costs its cross entropy. With the surrogate l, "sigmoid" 1 / (1 + e^m) or
"logistic" log(1 + e^-m):

    damaged part     class prior * mean over positives of l(f)
    undamaged part   mean over unlabeled of l(-f), minus class prior * mean over positives of l(-f)

The undamaged part estimates a risk, which cannot be negative; on a finite batch the estimate can, and once a network
overfits it does. The three risks differ in what they do then. A group without a chip in the batch has mean 0.

Arrays that are not both [B] raise `ShapeError`, an `is_positive` of floats `TypeError`; a label, class prior, beta or gamma
out of its range, and a surrogate that is neither of the two, raise `ValueError`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import as_bools, float32_inside, require_at_least, require_one_of, require_tensor, require_within

Surrogate = Literal["sigmoid", "logistic"]
SURROGATES: tuple[str, ...] = get_args(Surrogate)


class NnpuRisk(NamedTuple):
    """The two values of an nnPU step, which differ where the undamaged part is below -beta."""

    reported: Tensor
    """The estimate of the risk, scalar, without gradient: for the log."""
    differentiated: Tensor
    """What to call `backward` on, scalar. Its value is not a risk and must not be logged as one."""


@float32_inside
def upu_risk(margins: Tensor, is_positive: Tensor, *, class_prior: float, surrogate: Surrogate = "sigmoid") -> Tensor:
    """Estimate the risk on the unlabeled population without bias; below 0 where a network overfits.

    Source: du Plessis et al. 2014; PUCL, Appendix A.3.3, equation before Eq. 13.

    Args:
        margins: float [B], above 0 = damaged. float16 and bfloat16 become float32.
        is_positive: bool, or integers that are 0 or 1, [B].
        class_prior: share of positives among the unlabeled, 0..1.
        surrogate: l of the module's text.

    Returns:
        Scalar, float32 or float64; at least -class_prior with "sigmoid", without bound with "logistic".
    """
    damaged, undamaged = _parts(margins, is_positive, class_prior, surrogate)
    return damaged + undamaged


@float32_inside
def nnpu_risk_clipped(
    margins: Tensor, is_positive: Tensor, *, class_prior: float, surrogate: Surrogate = "sigmoid"
) -> Tensor:
    """Count a negative undamaged part as 0; such a batch then teaches from its positives alone.

    Source: PUCL, Eq. 13, after Kiryo et al. 2017.

    Args:
        margins, is_positive, class_prior, surrogate: as in `upu_risk`.

    Returns:
        Scalar, float32 or float64, at least 0.
    """
    damaged, undamaged = _parts(margins, is_positive, class_prior, surrogate)
    return damaged + undamaged.clamp_min(0)


@float32_inside
def nnpu_risk(
    margins: Tensor,
    is_positive: Tensor,
    *,
    class_prior: float,
    surrogate: Surrogate = "sigmoid",
    beta: float = 0.0,
    gamma: float = 1.0,
) -> NnpuRisk:
    """Undo overfitting: where the undamaged part is below -beta, step uphill on it instead of down on the risk.

    Source: Kiryo et al. 2017, Algorithm 1. A batch without unlabeled chips has an undamaged part of at most 0, and so is
    mostly such a step away from its positives: keep unlabeled chips in every batch.

    Args:
        margins, is_positive, class_prior, surrogate: as in `upu_risk`.
        beta: how far the undamaged part may fall below 0, at least 0.
        gamma: share of the learning rate with which the uphill step is taken, 0..1.

    Returns:
        Two scalars, float32 or float64. Where the undamaged part is -beta or more, both are `upu_risk`; elsewhere
        `reported` is the damaged part - beta, and `differentiated` is -gamma times the undamaged part.
    """
    require_at_least("beta", beta, 0)
    require_within("gamma", gamma, 0, 1)
    damaged, undamaged = _parts(margins, is_positive, class_prior, surrogate)
    overfits = undamaged < -beta
    return NnpuRisk(
        reported=torch.where(overfits, damaged - beta, damaged + undamaged).detach(),
        differentiated=torch.where(overfits, -gamma * undamaged, damaged + undamaged),
    )


def _parts(margins: Tensor, is_positive: Tensor, class_prior: float, surrogate: str) -> tuple[Tensor, Tensor]:
    """Compute the damaged and undamaged part of the risk, scalars in at least float32."""
    require_tensor("is_positive", is_positive)
    if margins.ndim != 1 or margins.shape != is_positive.shape:
        raise ShapeError(
            f"margins and is_positive must both be [B]; got {tuple(margins.shape)} and {tuple(is_positive.shape)}."
        )
    is_positive = as_bools("is_positive", is_positive, margins.shape)
    require_within("class_prior", class_prior, 0, 1)
    require_one_of("surrogate", surrogate, SURROGATES)
    taken_for_damaged, taken_for_undamaged = _surrogate(margins, surrogate), _surrogate(-margins, surrogate)
    damaged = class_prior * _mean_where(taken_for_damaged, is_positive)
    undamaged = _mean_where(taken_for_undamaged, ~is_positive) - class_prior * _mean_where(taken_for_undamaged, is_positive)
    return damaged, undamaged


def _surrogate(margins: Tensor, surrogate: str) -> Tensor:
    """Compute the cost of each margin, falling, float [B]."""
    if surrogate == "sigmoid":
        return torch.sigmoid(-margins)
    return -functional.logsigmoid(margins)  # softplus is linear from 20 on, which costs 2e-9


def _mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean over the marked values; 0, with gradient 0, where none is marked."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp_min(1)
