"""Risks that teach a classifier from positives and unlabeled chips once the class prior is known: uPU and nnPU.

Shared terms. A margin f is above 0 where a chip is taken for damaged; of two-class logits it is column 1 minus column 0,
and with the logistic surrogate a chip then costs its cross entropy. With the surrogate l, "sigmoid" 1 / (1 + e^m) or
"logistic" log(1 + e^-m):

    damaged part     class prior * mean over positives of l(f)
    undamaged part   mean over unlabeled of l(-f), minus class prior * mean over positives of l(-f)

The undamaged part estimates a risk, which cannot be negative; on a finite batch the estimate can, and once a network
overfits it does. The three risks differ in what they do then. A group without a chip in the batch has mean 0.

Arrays that are not both [B] raise `ShapeError`, an `is_positive` that is not bool `TypeError`; a class prior, beta or gamma out
of its range, and a surrogate that is neither of the two, raise `ValueError`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError

Surrogate = Literal["sigmoid", "logistic"]


class NnpuRisk(NamedTuple):
    """The two values of an nnPU step, which differ where the undamaged part is below -beta."""

    reported: Tensor
    """The estimate of the risk, scalar, without gradient: for the log."""
    differentiated: Tensor
    """What to call `backward` on, scalar. Its value is not a risk and must not be logged as one."""


def upu_risk(margins: Tensor, is_positive: Tensor, *, class_prior: float, surrogate: Surrogate = "sigmoid") -> Tensor:
    """Estimate the risk on the unlabeled population without bias; below 0 where a network overfits.

    Source: du Plessis et al. 2014; PUCL, Appendix A.3.3, equation before Eq. 13.

    Args:
        margins: float [B], above 0 = damaged. float16 and bfloat16 become float32.
        is_positive: bool [B].
        class_prior: share of positives among the unlabeled, 0..1.
        surrogate: l of the module's text.

    Returns:
        Scalar, float32 or float64; at least -class_prior with "sigmoid", without bound with "logistic".
    """
    damaged, undamaged = _parts(margins, is_positive, class_prior, surrogate)
    return damaged + undamaged


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
    if not beta >= 0:
        raise ValueError(f"beta must be 0 or more; got {beta}.")
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must lie in 0..1; got {gamma}.")
    damaged, undamaged = _parts(margins, is_positive, class_prior, surrogate)
    overfits = undamaged < -beta
    return NnpuRisk(
        reported=torch.where(overfits, damaged - beta, damaged + undamaged).detach(),
        differentiated=torch.where(overfits, -gamma * undamaged, damaged + undamaged),
    )


def _parts(margins: Tensor, is_positive: Tensor, class_prior: float, surrogate: str) -> tuple[Tensor, Tensor]:
    """Compute the damaged and undamaged part of the risk, scalars in at least float32."""
    if margins.ndim != 1 or margins.shape != is_positive.shape:
        raise ShapeError(
            f"margins and is_positive must both be [B]; got {tuple(margins.shape)} and {tuple(is_positive.shape)}."
        )
    if is_positive.dtype != torch.bool:  # labels counted as 1 and -1 would all become positives
        raise TypeError(f"is_positive must be bool; got {is_positive.dtype}. Compare the labels with the positive one.")
    if not 0 <= class_prior <= 1:
        raise ValueError(f"class_prior must lie in 0..1; got {class_prior}.")
    margins = margins.to(torch.promote_types(margins.dtype, torch.float32))
    taken_for_damaged, taken_for_undamaged = _surrogate(margins, surrogate), _surrogate(-margins, surrogate)
    damaged = class_prior * _mean_where(taken_for_damaged, is_positive)
    undamaged = _mean_where(taken_for_undamaged, ~is_positive) - class_prior * _mean_where(taken_for_undamaged, is_positive)
    return damaged, undamaged


def _surrogate(margins: Tensor, surrogate: str) -> Tensor:
    """Compute the cost of each margin, falling, float [B]."""
    if surrogate == "sigmoid":
        return torch.sigmoid(-margins)
    if surrogate == "logistic":
        return -functional.logsigmoid(margins)  # softplus is linear from 20 on, which costs 2e-9
    raise ValueError(f'surrogate must be "sigmoid" or "logistic"; got "{surrogate}".')


def _mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean over the marked values; 0, with gradient 0, where none is marked."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp_min(1)
