"""Contrastive losses on two views of a batch: ssCL, SCL, SCL-PU, PUCL, MCL and DCL, each averaged over all 2b anchors.

Shared terms. The two views [b, D] are stacked to 2b rows; row i and row i +- b show the same chip and are each other's
own view. A similarity is the cosine of two rows over the temperature. log Z of an anchor is the logarithm of the sum of
exp(similarity) over all other rows, its own view included.

How they are computed. All but DCL are ssCL plus what it costs to pull an anchor to other rows besides its own view. That
cost needs sums over classes only, [b, D]. ssCL alone needs all [2b, 2b] similarities, and holds a block at a time.

Views that are empty, not [b, D] or not of one shape, and labels that are not [b] raise `ShapeError`; a temperature that is
not above 0, a share out of its range, and a label out of its range raise `ValueError`, labels that are floats `TypeError`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import (
    as_bools,
    as_classes,
    at_least_float32,
    float32_inside,
    product,
    require_above_0,
    require_below_1,
    require_within,
)

# Similarities held at a time: in float32 4 MiB, which stays in a processor's cache, and 1/4 GiB, which keeps a GPU busy.
_CELLS_AT_ONCE_CPU = 2**20
_CELLS_AT_ONCE_GPU = 2**26


@float32_inside
def sscl_loss(z1: Tensor, z2: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull the two views of each chip together and push everything else away, without any label.

    Source: PUCL, Eq. 4.

    Args:
        z1, z2: projections of view 1 and view 2, float [b, D]. Normalised here; float16 and bfloat16 become float32.
        temperature: above 0.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one. It has a gradient, but no second one.
    """
    return _sscl(_unit_rows(z1, z2, temperature), temperature)


@float32_inside
def scl_loss(z1: Tensor, z2: Tensor, classes: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull all chips of one known class together: the fully supervised baseline.

    Source: PUCL, Eq. 14 (there for two classes; this one takes any number).

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        classes: class number of each chip, integer from 0 on or bool [b].

    Returns:
        Scalar, 0 or more.
    """
    rows = _unit_rows(z1, z2, temperature)
    classes = as_classes("classes", classes, len(z1))
    return _sscl(rows, temperature) + _own_above_peers(rows, classes).mean() / temperature


@float32_inside
def scl_pu_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Treat the unlabeled as one class of their own, which biases the loss when few positives are labelled.

    Source: PUCL, Eq. 5.

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        is_positive: bool, or integers that are 0 or 1, [b]; 1 = positive, 0 = unlabeled.

    Returns:
        Scalar, 0 or more.
    """
    return scl_loss(z1, z2, as_bools("is_positive", is_positive, z1.shape[:1]), temperature=temperature)


@float32_inside
def pucl_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull every positive to all other positives, and every unlabeled chip to its own view only.

    Source: PUCL, Eq. 6 and Algorithm 1(A). Without a positive, or with one, it equals `sscl_loss`.

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        is_positive: bool, or integers that are 0 or 1, [b]; 1 = positive, 0 = unlabeled.

    Returns:
        Scalar, 0 or more. The mean runs over all 2b anchors, not over positives and unlabeled separately.
    """
    rows, positive = _unit_rows(z1, z2, temperature), as_bools("is_positive", is_positive, z1.shape[:1])
    return _sscl(rows, temperature) + (_own_above_peers(rows, positive) * positive).mean() / temperature


@float32_inside
def mcl_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, supervised_share: float, temperature: float = 0.5) -> Tensor:
    """Mix SCL-PU and ssCL in fixed parts.

    Source: PUCL, Eq. 22.

    Args:
        z1, z2, is_positive, temperature: as in `pucl_loss`.
        supervised_share: lambda of the paper, 0..1; 0 is `sscl_loss`, 1 is `scl_pu_loss`.

    Returns:
        Scalar, 0 or more.
    """
    require_within("supervised_share", supervised_share, 0, 1)
    rows, positive = _unit_rows(z1, z2, temperature), as_bools("is_positive", is_positive, z1.shape[:1])
    return _sscl(rows, temperature) + supervised_share / temperature * _own_above_peers(rows, positive).mean()


@float32_inside
def dcl_loss(z1: Tensor, z2: Tensor, *, same_class_share: float, temperature: float = 0.5) -> Tensor:
    """ssCL with the expected share of same-class chips taken out of the pushed-away sum.

    Source: PUCL, Appendix A.5.4 (DCL), after Chuang et al. 2020. With N = 2b - 2 negatives, R_p = exp(own view) and
    R_u the sum over the negatives: R_n = max((R_u - lambda N R_p) / (1 - lambda), N exp(-1 / temperature)).

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        same_class_share: lambda of the paper, in [0, 1); 0 is `sscl_loss`.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one.

    Departs from the source: the paper prints R_n without N and without the lower bound. Both are needed: R_p is one
    term and R_u a sum of N, and the difference can be negative, which has no logarithm.
    """
    require_below_1("same_class_share", same_class_share)
    if same_class_share == 0 or len(z1) == 1:
        return sscl_loss(z1, z2, temperature=temperature)
    rows = _unit_rows(z1, z2, temperature)
    similarity = product(rows, rows.T) / temperature
    itself_or_own = torch.eye(len(z1), dtype=torch.bool, device=rows.device).repeat(2, 2)
    pair = similarity.diagonal(len(z1))
    own, log_unlabeled = torch.cat([pair, pair]), similarity.masked_fill(itself_or_own, -math.inf).logsumexp(dim=1)
    n_negatives = len(rows) - 2
    # log(R_u - lambda N R_p) = log R_u + log(1 - exp(gap)); rows with gap >= 0 have nothing left and fall to the floor.
    gap = math.log(same_class_share * n_negatives) + own - log_unlabeled
    left = gap < 0
    remainder = log_unlabeled + torch.log(-torch.expm1(gap.where(left, -torch.ones_like(gap))))
    floor = math.log(n_negatives) - 1 / temperature
    log_negatives = torch.where(left, remainder - math.log1p(-same_class_share), floor).clamp(min=floor)
    return functional.softplus(log_negatives - own).mean()


def _unit_rows(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Return the 2b rows at length 1, at least float32, [2b, D]."""
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) == 0:
        raise ShapeError(f"z1 and z2 must both be [b, D] with b >= 1; got {tuple(z1.shape)} and {tuple(z2.shape)}.")
    require_above_0("temperature", temperature)
    return functional.normalize(at_least_float32(torch.cat([z1, z2])), dim=1)


def _own_above_peers(rows: Tensor, classes: Tensor) -> Tensor:
    """Compute how far the cosine to the own view is above the mean cosine to all other rows of the class, [b].

    The mean over a chip's two anchors. With c chips in the class, the sum over an anchor's 2c - 1 peers is the cosine to
    its own view plus its product with the sum of the other chips' rows. Exactly 0 for a chip alone in its class.
    """
    z1, z2 = rows.chunk(2)
    if classes.dtype == torch.bool:  # known to be two classes at most; to count them would wait for a GPU
        index, n_true = classes.long(), classes.sum()
        n_chips = torch.stack([len(classes) - n_true, n_true])
    else:
        _, index, n_chips = classes.unique(return_inverse=True, return_counts=True)
    both = z1 + z2
    class_sums = both.new_zeros(len(n_chips), both.shape[1]).index_add(0, index, both)
    own, to_others = (z1 * z2).sum(dim=1), (both * (class_sums.index_select(0, index) - both)).sum(dim=1)
    peers: Tensor = (own + to_others / 2) / (2 * n_chips[index] - 1)
    return own - peers


def _sscl(rows: Tensor, temperature: float) -> Tensor:
    """Compute the mean of log Z less the similarity to the own view, over unit rows [2b, D]."""
    loss: Tensor = _BlockwiseSscl.apply(rows, temperature)
    return loss


class _BlockwiseSscl(torch.autograd.Function):
    """ssCL together with its gradient, in one pass over blocks of anchors.

    Let P hold the softmax of each anchor's similarities, itself left out, and A swap the two views. The gradient for the
    unit rows R is (P + P^T - 2 A) R / (2b temperature), so a block of P can be dropped once it has been multiplied.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, temperature: float) -> Tensor:
        n = len(rows)
        own_view = torch.arange(n, device=rows.device).roll(n // 2)[:, None]
        pulled = rows.new_empty(n, 1)
        gradient = rows.roll(n // 2, dims=0).mul_(-2) if rows.requires_grad else None
        cells = _CELLS_AT_ONCE_CPU if rows.device.type == "cpu" else _CELLS_AT_ONCE_GPU
        step = max(1, min(n, cells // n))
        memory = rows.new_empty(step, n)
        for start in range(0, n, step):
            here = slice(start, start + step)
            anchors = rows[here]
            block = torch.mm(anchors / temperature, rows.T, out=memory[: len(anchors)])
            block.diagonal(start).fill_(-math.inf)
            # Without the row's own maximum all terms would underflow at low temperatures.
            block -= block.amax(dim=1, keepdim=True)
            pulled[here] = block.gather(1, own_view[here])
            sums = block.exp_().sum(dim=1, keepdim=True)
            pulled[here] -= sums.log()
            if gradient is not None:
                gradient[here].addcdiv_(block @ rows, sums)
                gradient.addmm_(block.T, anchors / sums)
        if gradient is not None:
            ctx.save_for_backward(gradient.div_(n * temperature))
        return -pulled.mean()

    @staticmethod
    def backward(ctx: BackwardCFunction, upstream: Tensor) -> tuple[Tensor, None]:
        # A second gradient would come out silently wrong: to torch, the kept gradient does not depend on the rows.
        if torch.is_grad_enabled():
            raise RuntimeError("contrastive losses have only a first gradient. Ask for it without create_graph=True.")
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None
