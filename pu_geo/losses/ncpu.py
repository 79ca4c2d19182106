"""Formulas of NcPU: label-disambiguation cross entropy, noisy-pair robust loss, prototypes, thresholds, PhantomGate.

Label numbers are ours: **column 1 = damaged (positive), column 0 = undamaged**. The paper counts the other way round,
so its f_1 and rho(1), the *negative* class, are column 0 here. `variant="released"` follows the authors' published
recipe where that differs from the paper (METHODS.md §1). Equation numbers are the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.errors import ShapeError

Variant = Literal["paper", "released"]


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


def classification_loss(logits: Tensor, pseudo_targets: Tensor, is_positive: Tensor) -> Tensor:
    """Add the mean cross entropy over positives to the mean over unlabeled chips.

    Source: NcPU, first two terms of Eq. 14. A group that is empty in this batch adds 0.

    Args:
        logits: float [B, 2].
        pseudo_targets: float [B, 2].
        is_positive: bool [B].

    Returns:
        Scalar, at least 0.
    """
    each = label_cross_entropy(logits, pseudo_targets)
    positive = is_positive.to(each.dtype)
    return _mean_where(each, positive) + _mean_where(each, 1 - positive)


def entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the predictions of a batch, in nats; added to the loss it makes them decided.

    Source: NcPU, text after Eq. 14 and Appendix F (w_ent); the sign is that of the published recipe.

    Args:
        logits: float [B, 2].

    Returns:
        Scalar in [0, 0.6932].
    """
    log_share = F.log_softmax(logits, dim=1)
    return -(log_share.exp() * log_share).sum(1).mean()


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


def same_class_alignment(online: Tensor, target: Tensor, same_class: Tensor) -> Tensor:
    """Pull chips of one pseudo class together, every pair alike; wrong pairs pull the most.

    Source: NcPU, Eq. 5; mean over each row's pairs, then over rows, as in Eq. 14. Kept to compare with Eq. 7.

    Args:
        online, target: as in `self_alignment`.
        same_class: pair mask, bool [B, B]; row i marks the chips that share chip i's pseudo class.

    Returns:
        Scalar in [0, 4].
    """
    return _mean_over_pairs(2 * (1 - _cosines(online, target)), same_class)


def noisy_pair_loss(
    online: Tensor, target: Tensor, same_class: Tensor, *, variant: Variant = "paper", floor: float = 1e-12
) -> Tensor:
    """Pull chips of one pseudo class together while wrong pairs pull the least (NoiSNCL).

    Source: NcPU, Eq. 7; mean over each row's pairs, then over rows, as in Eq. 14. A row without a pair adds 0 and counts.

    Args:
        online: embeddings from the online network, float [B, D]. Normalised here.
        target: embeddings from the EMA target, float [B, D]. Normalised here; gets no gradient.
        same_class: pair mask, bool [B, B]; row i marks the chips that share chip i's pseudo class, i itself included.
        variant: "released" bounds the elements of the unit vectors to [1e-4, 1 - 1e-4], and uses Eq. 4 on the diagonal.
        floor: smallest 1 - cosine under the root. Without it the gradient is infinite at cosine 1.

    Returns:
        Scalar in [0, 2.83].

    Raises:
        ShapeError: if the two embedding arrays differ in shape or the mask is not [B, B].

    Departs from the source: the paper has no floor; below it a pair has value 0 and no gradient.
    """
    if variant == "released":
        cosines = _bounded_unit(online) @ _bounded_unit(target.detach()).T
    else:
        cosines = _cosines(online, target)
    gap = (1 - cosines).to(torch.promote_types(cosines.dtype, torch.float32))
    is_apart = gap > floor
    pull = torch.where(is_apart, 2 * torch.sqrt(torch.where(is_apart, gap, torch.ones_like(gap))), 0.0)
    if variant == "released":
        diagonal = torch.eye(len(gap), dtype=torch.bool, device=gap.device)
        pull = torch.where(diagonal, 2 * gap, pull)
    return _mean_over_pairs(pull, same_class)


def same_class_pairs(logits: Tensor, *, variant: Variant = "paper", agreement: float = 0.5) -> Tensor:
    """Mark the pairs of chips that the classifier takes for one class.

    Source: NcPU, set Q of Eq. 14; "released" is Eq. 37.

    Args:
        logits: float [B, 2].
        variant: "paper" compares the predicted classes; "released" asks for p_i . p_j >= `agreement`, i with itself always.
        agreement: see above.

    Returns:
        bool [B, B], symmetric, true on the diagonal.
    """
    if variant == "paper":
        predicted = predicted_damaged(logits)
        return predicted[:, None] == predicted[None, :]
    shares = torch.softmax(logits.detach(), dim=1)
    diagonal = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return (shares @ shares.T >= agreement) | diagonal


def predicted_damaged(logits: Tensor) -> Tensor:
    """Class that the classifier gives each chip, bool [B]; a tie counts as damaged, as in the paper's argmax."""
    return logits[:, 1] >= logits[:, 0]


def updated_prototypes(
    prototypes: Tensor, online: Tensor, is_damaged: Tensor, *, momentum: float, variant: Variant = "paper"
) -> Tensor:
    """Move each class's prototype towards the embeddings given to that class.

    Source: NcPU, Eq. 9 and Algorithm 1, lines 6-8.

    Args:
        prototypes: float [2, D]; row 1 = damaged; unit rows, or zero where never updated.
        online: embeddings, float [B, D]. Normalised here; no gradient.
        is_damaged: class of each chip, bool [B].
        momentum: alpha.
        variant: "paper" brings the prototype to unit length after every chip; "released" once after the batch.

    Returns:
        float [2, D]; rows of unit length, or zero where never updated.
    """
    rows = []
    unit = F.normalize(online.detach(), dim=1).to(prototypes.dtype)
    for label in (0, 1):
        members = unit[is_damaged == bool(label)]
        if variant == "released":
            weights = _decay(len(members), momentum)
        else:
            weights = _chain_weights(prototypes[label], members, momentum)
        together = torch.cat([prototypes[label][None], members])
        rows.append(prototypes.new_tensor(weights) @ together)
    moved = torch.stack(rows)
    return F.normalize(moved, dim=1) if variant == "released" else moved


def _decay(n: int, momentum: float) -> list[float]:
    """Weights of the old row and of n members after row = momentum * row + (1 - momentum) * member for each in turn."""
    return [momentum**n] + [(1 - momentum) * momentum ** (n - 1 - i) for i in range(n)]


def _chain_weights(row: Tensor, members: Tensor, momentum: float) -> list[float]:
    """Weights of the old row and of the members after normalising at every step.

    The chain needs only inner products, so it runs on plain numbers: one transfer a batch instead of one a chip.
    """
    together = torch.cat([row[None], members])
    products = (together @ together.T).tolist()
    weights, squared = [1.0], products[0][0]
    for step in range(1, len(products)):
        along = sum(map(mul, weights, products[step]))
        squared = momentum**2 * squared + 2 * momentum * (1 - momentum) * along
        squared += (1 - momentum) ** 2 * products[step][step]
        length = math.sqrt(squared) if squared > 0 else 1.0
        weights = [momentum / length * weight for weight in weights] + [(1 - momentum) / length]
        squared = 1.0 if squared > 0 else 0.0
    return weights


def nearest_prototype(online: Tensor, prototypes: Tensor) -> Tensor:
    """Give each chip the class of the prototype it points to, one hot.

    Source: NcPU, r of Eq. 10.

    Args:
        online: embeddings, float [B, D]; no gradient.
        prototypes: float [2, D].

    Returns:
        float [B, 2]; ties go to damaged, as in the paper's argmax.

    Departs from the source: as long as only one prototype was ever updated, each chip gets one half of each class. In
    the paper the zero vector would win over every chip at an obtuse angle to the other prototype.
    """
    similarity = F.normalize(online.detach(), dim=1).to(prototypes.dtype) @ prototypes.T
    exists = (prototypes != 0).any(1)
    is_damaged = (similarity[:, 1] >= similarity[:, 0]).to(prototypes.dtype)
    is_damaged = torch.where(exists[0] == exists[1], is_damaged, torch.full_like(is_damaged, 0.5))
    return torch.stack([1 - is_damaged, is_damaged], dim=1)


def updated_pseudo_targets(pseudo: Tensor, nearest: Tensor, is_positive: Tensor, *, momentum: float) -> Tensor:
    """Move the kept pseudo targets s' towards the nearest prototype's class; positives stay damaged.

    Source: NcPU, Eq. 10 and the sentence before Eq. 11.

    Args:
        pseudo: s' of these chips, float [B, 2].
        nearest: r, float [B, 2].
        is_positive: bool [B].
        momentum: beta.

    Returns:
        float [B, 2], rows sum to 1.
    """
    moved = momentum * pseudo + (1 - momentum) * nearest
    return torch.where(is_positive[:, None], _one_hot(1, pseudo), moved)


def phantom_gate(pseudo: Tensor, undamaged_share: Tensor, threshold: float | Tensor, is_positive: Tensor) -> Tensor:
    """Teach "undamaged" where the classifier is sure of it, and the kept pseudo target elsewhere.

    Source: NcPU, Eq. 11. The kept s' is not changed, so that a chip can come back ("regret").

    Args:
        pseudo: s', float [B, 2].
        undamaged_share: P(undamaged) by the classifier, float [B]: the paper's f_1.
        threshold: tau.
        is_positive: bool [B]; positives never pass the gate.

    Returns:
        s, float [B, 2].
    """
    is_surely_undamaged = (undamaged_share.detach() >= threshold) & ~is_positive
    return torch.where(is_surely_undamaged[:, None], _one_hot(0, pseudo), pseudo)


@dataclass(frozen=True)
class ThresholdState:
    """What the self-adaptive threshold remembers between batches.

    Attributes:
        level: moving mean of the classifier's confidence, scalar tensor; the paper's global tau.
        shares: moving mean of its class shares, float [2]; column 1 = damaged; the paper's rho.
    """

    level: Tensor
    shares: Tensor

    @classmethod
    def start(cls, like: Tensor) -> ThresholdState:
        """Begin at one half, as the paper does, on the device and in the type of `like`."""
        return cls(like.new_tensor(0.5), like.new_full((2,), 0.5))

    @property
    def threshold(self) -> Tensor:
        """tau of Eq. 13: confidence asked of "undamaged", scalar in [0, 1]."""
        return self.shares[0] / self.shares.max() * self.level


def updated_threshold(
    state: ThresholdState, logits: Tensor, is_positive: Tensor, *, momentum: float, variant: Variant = "paper"
) -> ThresholdState:
    """Take one batch of predictions into the self-adaptive threshold.

    Source: NcPU, Eq. 12.

    Args:
        state: from the batch before.
        logits: float [B, 2]; no gradient.
        is_positive: bool [B].
        momentum: gamma.
        variant: "paper" uses the whole batch; "released" only the unlabeled chips, and keeps the level within 0.8.

    Returns:
        The next state; the same one where there is no chip to learn from.
    """
    shares = torch.softmax(logits.detach(), dim=1).to(state.shares.dtype)
    if variant == "released":
        shares = shares[~is_positive]
    if not len(shares):
        return state
    level = momentum * state.level + (1 - momentum) * shares.amax(1).mean()
    if variant == "released":
        level = level.clamp(0.0, 0.8)
    return ThresholdState(level, momentum * state.shares + (1 - momentum) * shares.mean(0))


def total_loss(
    classification: Tensor, representation: Tensor, entropy_term: Tensor, *, rep_weight: float, entropy_weight: float
) -> Tensor:
    """Put the terms together.

    Source: NcPU, Eq. 14, and the entropy term of the text below it.

    Args:
        classification, representation, entropy_term: scalars.
        rep_weight: w_r.
        entropy_weight: w_ent, already ramped.
    """
    return classification + rep_weight * representation + entropy_weight * entropy_term


def start_pseudo_targets(is_positive: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Begin with damaged for positives and undamaged for all others, float [N, 2] (text before Eq. 11)."""
    damaged = is_positive.to(dtype)
    return torch.stack([1 - damaged, damaged], dim=1)


def _one_hot(label: int, like: Tensor) -> Tensor:
    """Row [1, 0] or [0, 1] in the type and on the device of `like`."""
    return like.new_tensor([1.0 - label, float(label)])


def _cosines(online: Tensor, target: Tensor) -> Tensor:
    """All cosines [B, B]; only `online` gets a gradient."""
    _require(online.shape == target.shape and online.ndim == 2, "online and target", online, target)
    return F.normalize(online, dim=1) @ F.normalize(target.detach(), dim=1).T


def _bounded_unit(vectors: Tensor) -> Tensor:
    """Unit vectors with elements bounded as in the released code; this changes their angles, on purpose."""
    return F.normalize(vectors, dim=1).clamp(1e-4, 1 - 1e-4)


def _mean_over_pairs(values: Tensor, mask: Tensor) -> Tensor:
    """Average over each row's marked pairs, then over all rows; a row without a pair is 0."""
    _require(values.shape == mask.shape, "pair values and mask", values, mask)
    weights = mask.to(values.dtype)
    return ((values * weights).sum(1) / weights.sum(1).clamp_min(1)).mean()


def _mean_where(values: Tensor, weights: Tensor) -> Tensor:
    return (values * weights).sum() / weights.sum().clamp_min(1)


def _require(is_fine: bool, what: str, first: Tensor, second: Tensor) -> None:
    if not is_fine:
        raise ShapeError(f"{what} do not fit together: got {tuple(first.shape)} and {tuple(second.shape)}.")
