"""Losses of NcPU: label-disambiguation cross entropy, noisy-pair robust loss, and what they are compared with.

Label numbers are ours: **column 1 = damaged (positive), column 0 = undamaged**. The paper counts the other way round,
so its f_1, the *negative* class, is column 0 here. `variant="released"` follows the authors' published recipe where
that differs from the paper (docs/methods.md). Equation numbers are the paper's. The pseudo targets that these losses
are taught by come from `losses.phantom`.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import as_bools, float32_inside, product, require_one_of

Variant = Literal["paper", "released"]
VARIANTS: tuple[str, ...] = get_args(Variant)


@float32_inside
def label_cross_entropy(logits: Tensor, pseudo_targets: Tensor) -> Tensor:
    """Measure how far predictions are from pseudo targets, chip by chip (LDCE).

    Source: NcPU, Eq. 3.

    Args:
        logits: float [B, 2].
        pseudo_targets: float [B, 2], rows sum to 1. No gradient.

    Returns:
        float [B], at least 0.
    """
    _require(logits.shape == pseudo_targets.shape, "logits and pseudo_targets", logits, pseudo_targets)
    return -(pseudo_targets.detach() * F.log_softmax(logits, dim=1)).sum(1)


@float32_inside
def classification_loss(logits: Tensor, pseudo_targets: Tensor, is_positive: Tensor) -> Tensor:
    """Add the mean cross entropy over positives to the mean over unlabeled chips.

    Source: NcPU, first two terms of Eq. 14. A group that is empty in this batch adds 0.

    Args:
        logits: float [B, 2].
        pseudo_targets: float [B, 2].
        is_positive: bool, or integers that are 0 or 1, [B].

    Returns:
        Scalar, at least 0.
    """
    each = label_cross_entropy(logits, pseudo_targets)
    positive = as_bools("is_positive", is_positive, logits.shape[:1]).to(each.dtype)
    return _mean_where(each, positive) + _mean_where(each, 1 - positive)


@float32_inside
def entropy(logits: Tensor) -> Tensor:
    """Compute the mean entropy of the predictions of a batch, in nats; added to the loss it makes them decided.

    Source: NcPU, text after Eq. 14 and Appendix F (w_ent); the sign is that of the published recipe.

    Args:
        logits: float [B, 2].

    Returns:
        Scalar in [0, 0.6932].
    """
    log_share = F.log_softmax(logits, dim=1)
    return -(log_share.exp() * log_share).sum(1).mean()


@float32_inside
def self_alignment(online: Tensor, target: Tensor) -> Tensor:
    """Pull two views of the same chip together.

    Source: NcPU, Eq. 4 (BYOL); mean over the batch.

    Args:
        online: embeddings from the online network, float [B, D]. Normalised here.
        target: embeddings from the EMA target, float [B, D]. Normalised here; gets no gradient.

    Returns:
        Scalar in [0, 4].
    """
    return (2 * (1 - _cosines(online, target).diagonal())).mean()


@float32_inside
def same_class_alignment(online: Tensor, target: Tensor, same_class: Tensor) -> Tensor:
    """Pull chips of one pseudo class together, every pair alike; wrong pairs pull the most.

    Source: NcPU, Eq. 5; mean over each row's pairs, then over rows, as in Eq. 14. Kept to compare with Eq. 7.

    Args:
        online, target: as in `self_alignment`.
        same_class: pair mask, bool or 0/1 integers [B, B]; row i marks the chips that share chip i's pseudo class.

    Returns:
        Scalar in [0, 4].
    """
    return _mean_over_pairs(2 * (1 - _cosines(online, target)), same_class)


@float32_inside
def noisy_pair_loss(
    online: Tensor, target: Tensor, same_class: Tensor, *, variant: Variant = "paper", floor: float = 1e-12
) -> Tensor:
    """Pull chips of one pseudo class together while wrong pairs pull the least (NoiSNCL).

    Source: NcPU, Eq. 7; mean over each row's pairs, then over rows, as in Eq. 14. A row without a pair adds 0 and counts.

    Args:
        online, target: as in `self_alignment`.
        same_class: pair mask, bool or 0/1 integers [B, B]; row i marks the chips that share chip i's pseudo class, i itself
            included.
        variant: "released" bounds the elements of the unit vectors to [1e-4, 1 - 1e-4], and uses Eq. 4 on the diagonal.
        floor: smallest 1 - cosine under the root. Without it the gradient is infinite at cosine 1.

    Returns:
        Scalar in [0, 2.83].

    Raises:
        ShapeError: if the two embedding arrays differ in shape or the mask is not [B, B].

    Departs from the source: the paper has no floor; below it a pair has value 0 and no gradient.
    In float32, a gap above 1e-5 has a gradient right to 1 %; below 1e-7 it is rounding.
    """
    require_one_of("variant", variant, VARIANTS)
    if variant == "released":
        _require(online.shape == target.shape and online.ndim == 2, "online and target", online, target)
        cosines = product(_bounded_unit(online), _bounded_unit(target.detach()).T)
    else:
        cosines = _cosines(online, target)
    gap = 1 - cosines
    has_gap = ~(gap <= floor)  # a gap that is no number stays one
    pull = torch.where(has_gap, 2 * torch.sqrt(torch.where(has_gap, gap, torch.ones_like(gap))), 0.0)
    if variant == "released":
        diagonal = torch.eye(len(gap), dtype=torch.bool, device=gap.device)
        pull = torch.where(diagonal, 2 * gap, pull)
    return _mean_over_pairs(pull, same_class)


@float32_inside
def same_class_pairs(logits: Tensor, *, variant: Variant = "paper", agreement: float = 0.5) -> Tensor:
    """Mark the pairs of chips that the classifier takes for one class.

    Source: NcPU, set Q of Eq. 14; "released" is Eq. 37.

    Args:
        logits: float [B, 2].
        variant: "paper" compares the predicted classes; "released" asks for p_i . p_j >= `agreement`, i with itself always.

    Returns:
        bool [B, B], symmetric, true on the diagonal.
    """
    if variant == "paper":
        predicted = predicted_damaged(logits)
        return predicted[:, None] == predicted[None, :]
    shares = torch.softmax(logits.detach(), dim=1)
    diagonal = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return (product(shares, shares.T) >= agreement) | diagonal


def predicted_damaged(logits: Tensor) -> Tensor:
    """Return the class that the classifier gives each chip, bool [B]; a tie counts as damaged, as in the paper's argmax."""
    return logits[:, 1] >= logits[:, 0]


def total_loss(
    classification: Tensor, representation: Tensor, entropy_term: Tensor, *, rep_weight: float, entropy_weight: float
) -> Tensor:
    """Return the sum of the scalar terms, weighed by 1, w_r and w_ent (already ramped).

    Source: NcPU, Eq. 14, and the entropy term of the text below it.
    """
    return classification + rep_weight * representation + entropy_weight * entropy_term


def _cosines(online: Tensor, target: Tensor) -> Tensor:
    """Compute all cosines [B, B]; only `online` gets a gradient."""
    _require(online.shape == target.shape and online.ndim == 2, "online and target", online, target)
    return product(F.normalize(online, dim=1), F.normalize(target.detach(), dim=1).T)


def _bounded_unit(vectors: Tensor) -> Tensor:
    """Return unit vectors with elements bounded as in the released code; this changes their angles, on purpose."""
    return F.normalize(vectors, dim=1).clamp(1e-4, 1 - 1e-4)


def _mean_over_pairs(values: Tensor, mask: Tensor) -> Tensor:
    """Average over each row's marked pairs, then over all rows; a row without a pair is 0."""
    weights = as_bools("same_class, the pair mask,", mask, values.shape, is_label=False).to(values.dtype)
    return ((values * weights).sum(1) / weights.sum(1).clamp_min(1)).mean()


def _mean_where(values: Tensor, weights: Tensor) -> Tensor:
    return (values * weights).sum() / weights.sum().clamp_min(1)


def _require(is_fine: bool, what: str, first: Tensor, second: Tensor) -> None:
    if not is_fine:
        raise ShapeError(f"{what} do not fit together: got {tuple(first.shape)} and {tuple(second.shape)}.")
