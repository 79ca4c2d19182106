"""Neighborhood contrastive learning (NCL): losses that find new categories among unlabeled chips, given some known ones.

Shared terms. The anchors are the first views of a batch, `view2` the other views of the same chips. A queue is a memory of
earlier embeddings: hand in its filled rows only, since an empty slot would count as a chip at cosine 0. A similarity is
the cosine of two rows over the temperature; rows are normalized here, and one shorter than 1e-12 has cosine 0 to all and
no gradient. Sums are taken in float32 or better, also under autocast. Shapes that do not fit raise `ShapeError`, a
number out of its range `ValueError`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import (
    as_bools,
    as_classes,
    float32_inside,
    product,
    require_above_0,
    require_at_least,
    require_within,
)


@dataclass(frozen=True)
class HardNegatives:
    """Made-up embeddings to push each anchor away from.

    Attributes:
        vectors: unit length, float [B, N, D], hardest first.
        is_used: bool [B, N]; false where an anchor had too few labeled items to mix with.
    """

    vectors: Tensor
    is_used: Tensor


@float32_inside
def pair_targets(features: Tensor, *, threshold: float = 0.95) -> Tensor:
    """Guess which pairs of chips are of one category: those whose features point the same way.

    Source: NCL notes, pairwise binary cross entropy, the indicator on cosine >= gamma.

    Args:
        features: float [B, D].
        threshold: gamma, in -1..1.

    Returns:
        bool [B, B], symmetric, true on the diagonal. No gradient.

    Departs from the source: the diagonal is set and not computed, because rounding can put cos(i, i) below 1.
    """
    require_within("threshold", threshold, -1, 1)
    _require_batch(features)
    (rows,) = _unit_rows(features)
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    return (_dots(rows, rows) >= threshold) | itself


@float32_inside
def pair_cross_entropy(logits1: Tensor, logits2: Tensor, same_category: Tensor) -> Tensor:
    """Ask the head of new categories to put similar chips in one category and the others in different ones.

    Source: NCL notes, pairwise binary cross entropy with p_ij = phi(z_i) . phi(z_j), mean over all ordered pairs, (i, i)
    included. Row i is read from the first view and row j from the second; give the same logits twice for one view.

    Args:
        logits1, logits2: output of the head before its softmax for view 1 and view 2, float [B, C].
        same_category: bool, or integers that are 0 or 1, [B, B]; from `pair_targets`.

    Returns:
        Scalar, 0 to 69.1, up to rounding.

    Departs from the source: the notes lost the minus sign. A pair's share is bounded from below by 1e-30 (a gap of 69
    between logits); beyond that it has no gradient.
    """
    _require_batch(logits1, logits2)
    same_category = as_bools("same_category", same_category, (len(logits1), len(logits1)), is_label=False)
    shares1, shares2 = _shares(logits1), _shares(logits2)
    # The share of all other categories is a sum of positive numbers; 1 - share would be 0 for a sure head in float32.
    others = 1 - torch.eye(shares2.shape[1], dtype=shares2.dtype, device=shares2.device)
    same, different = _dots(shares1, shares2), _dots(shares1, _dots(shares2, others))
    return -torch.where(same_category, same, different).clamp_min(1e-30).log().mean()


@float32_inside
def consistency_loss(logits1: Tensor, logits2: Tensor) -> Tensor:
    """Ask one head for the same answer on both views of a chip; add up the losses of the heads.

    Source: NCL notes, L_MSE, one of its two sums; mean over categories, as printed, and over the batch.

    Args:
        logits1, logits2: as in `pair_cross_entropy`.

    Returns:
        Scalar in [0, 2 / C].
    """
    _require_batch(logits1, logits2)
    return (_shares(logits1) - _shares(logits2)).square().mean()


@float32_inside
def neighborhood_loss(
    view1: Tensor,
    view2: Tensor,
    queue: Tensor,
    *,
    k: int,
    self_weight: float = 0.2,
    temperature: float = 0.05,
    hard: HardNegatives | None = None,
) -> Tensor:
    """Pull each unlabeled chip to its own other view and to its nearest neighbors in the queue, away from the rest.

    Source: NCL notes, alpha l(z, zhat) + (1 - alpha) l(z, rho_k), each over exp(z . zhat) + the sum over the queue.

    Args:
        view1, view2: embeddings of the unlabeled chips, float [B, D].
        queue: M^u, earlier unlabeled embeddings, float [Q, D]. Gets no gradient.
        k: number of neighbors, 1 or more; all of the queue where it is shorter.
        self_weight: alpha, 0..1.
        temperature: above 0.
        hard: from `hard_negatives`; counts below the fraction only and is never a neighbor. Gets no gradient.

    Returns:
        Scalar, 0 or more up to rounding; 0 for an empty queue without hard negatives.

    Departs from the source: the notes count z_i twice below the neighbors' fraction, where z . zhat belongs. Weights add up
    to 1 (the published code loses 1 / k by overwriting a neighbor), so the own view takes all while the queue is empty.
    """
    require_at_least("k", k, 1)
    require_within("self_weight", self_weight, 0, 1)
    anchors, own, to_queue = _similarities(view1, view2, queue, temperature)
    to_all = [own[:, None], to_queue]
    if hard is not None:
        to_all.append((_dots_of_each(anchors, hard.vectors) / temperature).masked_fill(~hard.is_used, -math.inf))
    log_partition = torch.cat(to_all, dim=1).logsumexp(dim=1)
    if len(queue) == 0:
        return (log_partition - own).mean()
    near = to_queue.topk(min(k, len(queue)), dim=1).values.mean(dim=1)
    return (log_partition - self_weight * own - (1 - self_weight) * near).mean()


@float32_inside
def supervised_queue_loss(
    view1: Tensor, view2: Tensor, classes: Tensor, queue: Tensor, queue_classes: Tensor, *, temperature: float = 0.05
) -> Tensor:
    """Pull each labeled chip to its own other view and to every queue item of its class, all alike.

    Source: NCL notes, l_scl: uniform cross entropy over {zhat} and the items of M^l with the anchor's class.

    Args:
        view1, view2: embeddings of the labeled chips, float [B, D].
        classes: class number of each chip, integer from 0 on [B].
        queue: M^l, earlier embeddings, float [Q, D]. Gets no gradient.
        queue_classes: class number of each queue item, integer [Q]; below 0 = unknown, pushed away from every anchor.
        temperature: above 0.

    Returns:
        Scalar, 0 or more up to rounding; 0 for an empty queue.

    Departs from the source: the notes' square roots and misplaced temperatures are scanning errors.
    """
    classes = as_classes("classes", classes, len(view1))
    queue_classes = as_classes("queue_classes", queue_classes, len(queue), lowest=None)
    _, own, to_queue = _similarities(view1, view2, queue, temperature)
    peers = (classes[:, None] == queue_classes) & (queue_classes >= 0)
    pull = (own + to_queue.masked_fill(~peers, 0).sum(dim=1)) / (1 + peers.sum(dim=1))
    return (torch.cat([own[:, None], to_queue], dim=1).logsumexp(dim=1) - pull).mean()


def draw_mixing(may_mix: Tensor, n_easy: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw the random numbers of `hard_negatives`.

    Source: NCL notes, hard negative generation, "mixing coef. randomly sampled".

    Args:
        may_mix: bool [B, L]; see `hard_negatives`.
        n_easy: number of mixtures for each anchor.
        generator: of any device; it alone decides the outcome.

    Returns:
        Partners, integer [B, n_easy], drawn with replacement among the items an anchor may be mixed with, so that a few
        labeled items are enough; and the shares of the easy negatives (mu), float32 [B, n_easy] in [0, 1). Both are [B, 0]
        without labeled items.
    """
    n_anchors, n_labeled = may_mix.shape
    n_mixtures = n_easy if n_labeled else 0
    shares = torch.rand(n_anchors, n_mixtures, generator=generator, device=generator.device)
    if n_mixtures == 0:
        return shares.long().to(may_mix.device), shares.to(may_mix.device)
    # A row without a choice cannot be drawn from; `hard_negatives` drops whatever it gets.
    weights = (may_mix | ~may_mix.any(dim=1, keepdim=True)).to(generator.device, torch.float32)
    partners = torch.multinomial(weights, n_mixtures, replacement=True, generator=generator)
    return partners.to(may_mix.device), shares.to(may_mix.device)


@float32_inside
@torch.no_grad()
def hard_negatives(
    anchors: Tensor, queue: Tensor, labeled: Tensor, may_mix: Tensor, *, partners: Tensor, easy_share: Tensor, n_hard: int
) -> HardNegatives:
    """Mix queue items far from an anchor with labeled items of other classes, and keep those nearest to it.

    Source: NCL notes, hard negative generation: e_k, zeta = mu easy + (1 - mu) labeled, n_k.

    Args:
        anchors: embeddings of the unlabeled chips, float [B, D].
        queue: M^u, float [Q, D].
        labeled: M^l, float [L, D].
        may_mix: bool [B, L]; true where a labeled item is of another class than the anchor's, as far as is known.
        partners: which labeled item meets an anchor's least similar queue item, the second least similar, and so on;
            integer [B, E], or [E] for all anchors. E is the number of easy negatives; beyond Q they are left out.
        easy_share: mu, float in 0..1, shaped as `partners` or [].
        n_hard: number to keep; all where there are fewer.

    Returns:
        The mixtures, hardest first and without gradient; an anchor's forbidden ones come last and are not used.

    Departs from the source: there D^l and D^u share no class, so every labeled item is a negative. In PU data they do (an
    unlabeled chip may be damaged), so only items of `may_mix` count. Mixtures are unit length, which the notes leave open.
    """
    _require_batch(anchors)
    _require_memory(anchors, queue, labeled)
    if may_mix.shape != (len(anchors), len(labeled)):
        raise ShapeError(f"may_mix must be {(len(anchors), len(labeled))}; got shape {tuple(may_mix.shape)}.")
    rows, memory, known = _unit_rows(anchors, queue, labeled)
    size, n_easy = (len(anchors), partners.shape[-1]), min(partners.shape[-1], len(queue))
    partners, share = partners.expand(size)[:, :n_easy], easy_share.to(rows.dtype).expand(size)[:, :n_easy]
    lowest = _dots(rows, memory).topk(n_easy, dim=1, largest=False)
    # Cosines to all mixtures follow from those of their parts, so only the mixtures that are kept are ever made.
    between = _dots(memory, known)[lowest.indices, partners]
    length = (share.square() + (1 - share).square() + 2 * share * (1 - share) * between).clamp_min(1e-12).sqrt()
    closeness = (share * lowest.values + (1 - share) * _dots(rows, known).gather(1, partners)) / length
    allowed = may_mix.gather(1, partners)
    hardest = closeness.masked_fill(~allowed, -math.inf).topk(min(n_hard, n_easy), dim=1).indices
    easy, partners, share = (each.gather(1, hardest) for each in (lowest.indices, partners, share))
    (mixtures,) = _unit_rows(share[:, :, None] * memory[easy] + (1 - share[:, :, None]) * known[partners])
    return HardNegatives(mixtures, allowed.gather(1, hardest))


def _similarities(view1: Tensor, view2: Tensor, queue: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit anchors [B, D], their similarity to their own other view, [B], and to every item of the queue, [B, Q]."""
    require_above_0("temperature", temperature)
    _require_batch(view1, view2)
    _require_memory(view1, queue)
    anchors, others, memory = _unit_rows(view1, view2, queue.detach())
    return anchors, (anchors * others).sum(dim=1) / temperature, _dots(anchors, memory) / temperature


def _unit_rows(*rows: Tensor) -> tuple[Tensor, ...]:
    """Return all rows at unit length in one dtype, float32 or float64; a row without direction stays 0, with gradient 0."""
    dtype = torch.float64 if any(each.dtype == torch.float64 for each in rows) else torch.float32
    units = []
    for each in rows:
        wide = each.to(dtype)
        no_direction = torch.linalg.vector_norm(wide.detach(), dim=-1, keepdim=True) < 1e-12
        units.append(functional.normalize(wide.masked_fill(no_direction, 0), dim=-1))
    return tuple(units)


def _dots(first: Tensor, second: Tensor) -> Tensor:
    """Compute all dot products [N, D] x [M, D] -> [N, M]."""
    return product(first, second.T)


def _dots_of_each(anchors: Tensor, vectors: Tensor) -> Tensor:
    """Compute the dot products of each anchor with its own vectors, [B, D] x [B, N, D] -> [B, N]; the vectors get no
    gradient.
    """
    if vectors.ndim != 3 or vectors[:, 0:0].shape != (len(anchors), 0, anchors.shape[1]):
        raise ShapeError(f"vectors must be [{len(anchors)}, N, {anchors.shape[1]}]; got shape {tuple(vectors.shape)}.")
    return product(vectors.detach().to(anchors.dtype), anchors[:, :, None]).squeeze(2)


def _shares(logits: Tensor) -> Tensor:
    """Compute the softmax over categories."""
    return torch.softmax(logits, dim=1)


def _require_batch(*views: Tensor) -> None:
    shapes = [tuple(each.shape) for each in views]
    if len(shapes[0]) != 2 or shapes[0][0] == 0 or len(set(shapes)) > 1:
        raise ShapeError(f"a batch must be one row for each of 1 or more chips, alike for both views; got shapes {shapes}.")


def _require_memory(anchors: Tensor, *memories: Tensor) -> None:
    for memory in memories:
        if memory.ndim != 2 or memory.shape[1] != anchors.shape[1]:
            raise ShapeError(f"a memory must be [Q, {anchors.shape[1]}] as its anchors; got shape {tuple(memory.shape)}.")
