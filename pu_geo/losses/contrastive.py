"""Contrastive losses on two views of a batch: ssCL, SCL, SCL-PU, PUCL, MCL and DCL, each averaged over all 2b anchors.

Shared terms. The two views [b, D] are stacked to 2b rows; row i and row i +- b show the same chip and are each other's
own view. A similarity is the cosine of two rows over the temperature. log Z of an anchor is the logarithm of the sum of
exp(similarity) over all other rows, its own view included.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError


def sscl_loss(z1: Tensor, z2: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull the two views of each chip together and push everything else away, without any label.

    Source: PUCL, Eq. 4.

    Args:
        z1, z2: projections of view 1 and view 2, float [b, D]. Normalised here; float16 and bfloat16 become float32.
        temperature: above 0.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one.

    Raises:
        ShapeError(ValueError): if the views differ in shape, are not [b, D], or are empty.
        ValueError: if the temperature is not above 0.
    """
    similarity = _similarities(z1, z2, temperature)
    return (_log_partition(similarity) - _to_own_view(similarity)).mean()


def scl_loss(z1: Tensor, z2: Tensor, classes: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull all chips of one known class together: the fully supervised yardstick.

    Source: PUCL, Eq. 14 (there for two classes; this one takes any number).

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        classes: class number of each chip, integer or bool [b].

    Returns:
        Scalar, 0 or more.

    Raises:
        ShapeError(ValueError): as in `sscl_loss`, or if `classes` is not [b].
        ValueError: if the temperature is not above 0.
    """
    similarity = _similarities(z1, z2, temperature)
    return (_log_partition(similarity) - _to_peers(similarity, _both_views(classes, z1))).mean()


def scl_pu_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Treat the unlabeled as one class of their own, which biases the loss when few positives are labelled.

    Source: PUCL, Eq. 5.

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        is_positive: bool or 0/1 [b]; 1 = positive, 0 = unlabeled.

    Returns:
        Scalar, 0 or more.

    Raises:
        ShapeError(ValueError): as in `sscl_loss`, or if `is_positive` is not [b].
        ValueError: if the temperature is not above 0.
    """
    return scl_loss(z1, z2, is_positive.bool(), temperature=temperature)


def pucl_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Pull every positive to all other positives, and every unlabeled chip to its own view only.

    Source: PUCL, Eq. 6 and Algorithm 1(A). Without a positive, or with one, it equals `sscl_loss`.

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        is_positive: bool or 0/1 [b]; 1 = positive, 0 = unlabeled.

    Returns:
        Scalar, 0 or more. The mean runs over all 2b anchors, not over positives and unlabeled apart.

    Raises:
        ShapeError(ValueError): as in `sscl_loss`, or if `is_positive` is not [b].
        ValueError: if the temperature is not above 0.
    """
    similarity = _similarities(z1, z2, temperature)
    positive = _both_views(is_positive.bool(), z1)
    pull = torch.where(positive, _to_peers(similarity, positive), _to_own_view(similarity))
    return (_log_partition(similarity) - pull).mean()


def mcl_loss(z1: Tensor, z2: Tensor, is_positive: Tensor, *, supervised_share: float, temperature: float = 0.5) -> Tensor:
    """Mix SCL-PU and ssCL in fixed parts.

    Source: PUCL, Eq. 22.

    Args:
        z1, z2, is_positive, temperature: as in `pucl_loss`.
        supervised_share: lambda of the paper, 0..1; 0 is `sscl_loss`, 1 is `scl_pu_loss`.

    Returns:
        Scalar, 0 or more.

    Raises:
        ShapeError(ValueError): as in `pucl_loss`.
        ValueError: if the temperature is not above 0 or the share is not in 0..1.
    """
    if not 0 <= supervised_share <= 1:
        raise ValueError(f"supervised_share must lie in 0..1; got {supervised_share}.")
    similarity = _similarities(z1, z2, temperature)
    own, peers = _to_own_view(similarity), _to_peers(similarity, _both_views(is_positive.bool(), z1))
    return (_log_partition(similarity) - supervised_share * peers - (1 - supervised_share) * own).mean()


def dcl_loss(z1: Tensor, z2: Tensor, *, same_class_share: float, temperature: float = 0.5) -> Tensor:
    """ssCL with the expected share of same-class chips taken out of the pushed-away sum.

    Source: PUCL, Appendix A.5.4 (DCL), after Chuang et al. 2020. With N = 2b - 2 negatives, R_p = exp(own view) and
    R_u the sum over the negatives: R_n = max((R_u - lambda N R_p) / (1 - lambda), N exp(-1 / temperature)).

    Args:
        z1, z2, temperature: as in `sscl_loss`.
        same_class_share: lambda of the paper, in [0, 1); 0 is `sscl_loss`.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one.

    Raises:
        ShapeError(ValueError): as in `sscl_loss`.
        ValueError: if the temperature is not above 0 or the share is not in [0, 1).

    Departs from the source: the paper prints R_n without N and without the lower bound. Both are needed: R_p is one
    term and R_u a sum of N, and the difference can be negative, which has no logarithm.
    """
    if not 0 <= same_class_share < 1:
        raise ValueError(f"same_class_share must lie in [0, 1); got {same_class_share}.")
    if same_class_share == 0 or len(z1) == 1:
        return sscl_loss(z1, z2, temperature=temperature)
    similarity = _similarities(z1, z2, temperature)
    own = _to_own_view(similarity)
    n_negatives = len(similarity) - 2
    others = similarity.masked_fill(_own_view_mask(similarity), -math.inf)
    log_unlabeled = _log_partition(others)
    # log(R_u - lambda N R_p) = log R_u + log(1 - exp(gap)); rows with gap >= 0 have nothing left and fall to the floor.
    gap = math.log(same_class_share * n_negatives) + own - log_unlabeled
    left = gap < 0
    remainder = log_unlabeled + torch.log(-torch.expm1(gap.where(left, -torch.ones_like(gap))))
    floor = math.log(n_negatives) - 1 / temperature
    log_negatives = torch.where(left, remainder - math.log1p(-same_class_share), floor).clamp(min=floor)
    return functional.softplus(log_negatives - own).mean()


def _similarities(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """All cosines of the 2b rows over the temperature, at least float32 (also under autocast), [2b, 2b]."""
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) == 0:
        raise ShapeError(f"z1 and z2 must both be [b, D] with b >= 1; got {tuple(z1.shape)} and {tuple(z2.shape)}.")
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0; got {temperature}.")
    with torch.autocast(z1.device.type, enabled=False):
        rows = torch.cat([z1, z2])
        rows = functional.normalize(rows if rows.dtype == torch.float64 else rows.float(), dim=1)
        return rows @ rows.T / temperature


def _log_partition(similarity: Tensor) -> Tensor:
    """log Z of every anchor, [2b]: everything but the anchor itself counts."""
    itself = torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
    return similarity.masked_fill(itself, -math.inf).logsumexp(dim=1)


def _own_view_mask(similarity: Tensor) -> Tensor:
    """Mark each anchor's other view, bool [2b, 2b]."""
    n = len(similarity)
    return torch.eye(n, dtype=torch.bool, device=similarity.device).roll(n // 2, dims=1)


def _to_own_view(similarity: Tensor) -> Tensor:
    """Similarity of each anchor to its other view, [2b]."""
    pair = similarity.diagonal(len(similarity) // 2)
    return torch.cat([pair, pair])


def _to_peers(similarity: Tensor, classes: Tensor) -> Tensor:
    """Mean similarity of each anchor to the other rows of its class, [2b]. Its own view is always one of them."""
    peers = classes[:, None] == classes[None, :]
    peers.fill_diagonal_(False)
    return similarity.masked_fill(~peers, 0).sum(dim=1) / peers.sum(dim=1)


def _both_views(classes: Tensor, z1: Tensor) -> Tensor:
    """Repeat the class of each chip for its second view, [2b]."""
    if classes.shape != z1.shape[:1]:
        raise ShapeError(f"one class for each of the {len(z1)} chips is needed; got shape {tuple(classes.shape)}.")
    return torch.cat([classes, classes])
