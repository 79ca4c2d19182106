"""Phantom label disambiguation of NcPU: prototypes, pseudo targets, PhantomGate and the self-adaptive threshold.

Label numbers are ours: **column 1 = damaged (positive), column 0 = undamaged**. The paper counts the other way round,
so its f_1 and rho(1), the *negative* class, are column 0 here. `variant` and equation numbers: see `losses.ncpu`.
Nothing here gets a gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.losses.inputs import as_bools, product, require_tensor
from pu_geo.losses.ncpu import Variant


def start_pseudo_targets(is_positive: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Begin with damaged for positives and undamaged for all others, float [N, 2] (text before Eq. 11)."""
    require_tensor("is_positive", is_positive)
    damaged = as_bools("is_positive", is_positive, is_positive.shape[:1]).to(dtype)
    return torch.stack([1 - damaged, damaged], dim=1)


def updated_prototypes(
    prototypes: Tensor, online: Tensor, is_damaged: Tensor, *, momentum: float, variant: Variant = "paper"
) -> Tensor:
    """Move each class's prototype towards the embeddings given to that class.

    Source: NcPU, Eq. 9 and Algorithm 1, lines 6-8.

    Args:
        prototypes: float [2, D]; row 1 = damaged; unit rows, or zero where never updated.
        online: embeddings, float [B, D]. Normalised here; no gradient.
        is_damaged: class of each chip, bool, or integers that are 0 or 1, [B].
        momentum: alpha.
        variant: "paper" brings the prototype to unit length after every chip; "released" once after the batch.

    Returns:
        float [2, D]; rows of unit length, or zero where never updated.
    """
    is_damaged = as_bools("is_damaged", is_damaged, online.shape[:1])
    together = torch.cat([prototypes, F.normalize(online.detach(), dim=1).to(prototypes.dtype)])
    is_member = torch.stack([~is_damaged, is_damaged])
    if variant == "released":  # row = momentum * row + (1 - momentum) * member for each
        n_after = is_member.flip(1).cumsum(1).flip(1).to(together.dtype)
        own = torch.where(is_member, (1 - momentum) * momentum ** (n_after - 1), 0.0)
        weights = torch.cat([torch.diag(momentum ** is_member.sum(1).to(together.dtype)), own], dim=1)
    else:
        weights = _chain_weights(together, is_member, momentum)
    moved = product(weights, together)
    return F.normalize(moved, dim=1) if variant == "released" else moved


def _chain_weights(together: Tensor, is_member: Tensor, momentum: float) -> Tensor:
    """Return the weights of both old rows and of all chips after normalising at every step, [2, 2 + B], like `together`.

    The chain needs only inner products, so it runs on plain numbers: one wait for a GPU a batch.
    """
    carried = torch.cat([product(together, together.T), F.pad(is_member, (2, 0)).to(together.dtype)]).tolist()
    products, members = carried[:-2], carried[-2:]
    weights = [
        _chain(label, products, [place for place, is_own in enumerate(own) if is_own], momentum)
        for label, own in enumerate(members)
    ]
    return torch.tensor(weights, dtype=together.dtype).to(together.device, non_blocking=together.is_cuda)


def _chain(first: int, products: list[list[float]], members: list[int], momentum: float) -> list[float]:
    """Do so for one row, which stands at `first` among the products."""
    places, weights, squared = [first], [1.0], products[first][first]
    for step in members:
        along = sum(weight * products[step][place] for weight, place in zip(weights, places, strict=True))
        squared = momentum**2 * squared + 2 * momentum * (1 - momentum) * along
        squared += (1 - momentum) ** 2 * products[step][step]
        length = math.sqrt(squared) if squared > 0 else 1.0
        weights = [momentum / length * weight for weight in weights] + [(1 - momentum) / length]
        squared = 1.0 if squared > 0 else 0.0
        places.append(step)
    found = [0.0] * len(products)
    for place, weight in zip(places, weights, strict=True):
        found[place] = weight
    return found


def nearest_prototype(online: Tensor, prototypes: Tensor) -> Tensor:
    """Return the class of the prototype that each chip points to, one hot.

    Source: NcPU, r of Eq. 10.

    Args:
        online: embeddings, float [B, D]; no gradient.
        prototypes: float [2, D].

    Returns:
        float [B, 2]; ties go to damaged, as in the paper's argmax.

    Departs from the source: as long as only one prototype was ever updated, each chip gets one half of each class. In
    the paper the zero vector would win over every chip at an obtuse angle to the other prototype.
    """
    similarity = product(F.normalize(online.detach(), dim=1).to(prototypes.dtype), prototypes.T)
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
        is_positive: bool, or integers that are 0 or 1, [B].
        momentum: beta.

    Returns:
        float [B, 2], rows sum to 1.
    """
    is_positive = as_bools("is_positive", is_positive, pseudo.shape[:1])
    moved = momentum * pseudo + (1 - momentum) * nearest
    return torch.where(is_positive[:, None], _one_hot(1, pseudo), moved)


def phantom_gate(pseudo: Tensor, undamaged_share: Tensor, threshold: float | Tensor, is_positive: Tensor) -> Tensor:
    """Teach "undamaged" where the classifier is sure of it, and the kept pseudo target elsewhere.

    Source: NcPU, Eq. 11. The kept s' is not changed, so that a chip can come back ("regret").

    Args:
        pseudo: s', float [B, 2].
        undamaged_share: P(undamaged) by the classifier, float [B]: the paper's f_1.
        threshold: tau.
        is_positive: bool, or integers that are 0 or 1, [B]; positives never pass the gate.

    Returns:
        s, float [B, 2].
    """
    is_positive = as_bools("is_positive", is_positive, pseudo.shape[:1])
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
        """Return tau of Eq. 13: confidence asked of "undamaged", scalar in [0, 1]."""
        return self.shares[0] / self.shares.max() * self.level


def updated_threshold(
    state: ThresholdState, logits: Tensor, is_positive: Tensor, *, momentum: float, variant: Variant = "paper"
) -> ThresholdState:
    """Update the self-adaptive threshold by one batch of predictions.

    Source: NcPU, Eq. 12.

    Args:
        state: from the batch before.
        logits: float [B, 2]; no gradient.
        is_positive: bool, or integers that are 0 or 1, [B].
        momentum: gamma.
        variant: "paper" uses the whole batch; "released" only the unlabeled chips, and keeps the level within 0.8.

    Returns:
        The next state; the same one where there is no chip to learn from.
    """
    is_positive = as_bools("is_positive", is_positive, logits.shape[:1])
    shares = torch.softmax(logits.detach(), dim=1).to(state.shares.dtype)
    if variant == "released":
        shares = shares[~is_positive]
    if not len(shares):
        return state
    level = momentum * state.level + (1 - momentum) * shares.amax(1).mean()
    if variant == "released":
        level = level.clamp(0.0, 0.8)
    return ThresholdState(level, momentum * state.shares + (1 - momentum) * shares.mean(0))


def _one_hot(label: int, like: Tensor) -> Tensor:
    """Return the row [1, 0] or [0, 1] in the type and on the device of `like`."""
    hot = like.new_zeros(2)  # filled there: what is sent to a GPU is waited for
    hot[label : label + 1] = 1.0
    return hot
