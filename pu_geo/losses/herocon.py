"""Losses of HeroCon: chips that have several views and carry several labels at once.

Equation numbers are the paper's (Zheng et al., KDD 2022). Shared terms:
- `views` [V, B, D] holds the hidden representation Z of every view (before, after, radar, ...) of every chip.
- `mapped` is H(Z) of the same shape, H being a linear layer followed by a sigmoid. It belongs to the method, so that
  nothing here has parameters.
- f(a, b) = exp(cosine / temperature). The paper's experiments have temperature 1.
- A missing view is left out wherever it would occur: as anchor, as the other half of a pair, as a negative, and as a
  part of S. What its row holds is never used, and the row gets no gradient; nothing stands in for it.

A vector of zeros has no direction: its cosines are 0, and it gets no gradient. float16 and bfloat16 become float32.
Arrays that are empty or do not fit together raise `ShapeError`; a temperature that is not above 0, and a label that is
neither 0 nor 1, raise `ValueError`, labels that are floats `TypeError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import as_bools, float32_inside, product, require_above_0, require_tensor

# Vectors up to this length count as zeros: dividing by the length would make their gradient explode.
_SHORTEST = 1e-12


@float32_inside
def single_view_loss(inputs: Tensor, hidden: Tensor, mapped: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Pull each chip's hidden representation to its input and away from those of other chips, look-alikes the least.

    Source: HeroCon, Eq. 4. For two augmentations of one view use `multi_view_loss`, as the paper's footnote says.

    Args:
        inputs: X, float [B, D]: as wide as `hidden`, such as features of a frozen backbone. Normalized here.
        hidden: Z, float [B, D]. Normalized here.
        mapped: H(Z), float [B, D]. Normalized here.
        temperature: above 0.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one.
    """
    if inputs.ndim != 2 or len(inputs) == 0 or not inputs.shape == hidden.shape == mapped.shape:
        shapes = ", ".join(str(tuple(each.shape)) for each in (inputs, hidden, mapped))
        raise ShapeError(f"inputs, hidden and mapped must all be [B, D] with B >= 1; got {shapes}.")
    require_above_0("temperature", temperature)
    similarity = _cosines(inputs, hidden) / temperature
    is_other = ~torch.eye(len(inputs), dtype=torch.bool, device=inputs.device)
    pushed = _log_sum(similarity + log_negative_weights(hidden, mapped, hidden, mapped), is_other)
    return _pair_loss(similarity.diagonal(), pushed).mean()


@float32_inside
def multi_view_loss(
    views: Tensor, mapped: Tensor, *, is_missing: Tensor | None = None, dates: Sequence[int] | None = None,
    temperature: float = 1.0,
) -> Tensor:  # fmt: skip
    """Pull the views of each chip together and push the views of other chips away, look-alikes the least.

    Source: HeroCon, Eq. 5. The anchor is the chip's first view; the negatives are all views of all other chips.

    Args:
        views: Z, float [V, B, D]. Normalized here.
        mapped: H(Z), float [V, B, D]. Normalized here.
        is_missing: views that a chip lacks, bool [V, B]; none when absent. Hand H finite numbers in their rows: a NaN
            there stays out of this loss, but not out of the gradient of H's weights.
        dates: a number for each view, V of them: only views of one number are compared, as pairs and as negatives. All with
            each other when absent, as in the paper. [0, 1, 1] compares the second and the third view alone.
        temperature: above 0.

    Returns:
        Scalar, 0 or more; exactly 0 for a batch of one, and when no chip has two views of one date.

    Departs from the source: the paper has two views and none missing. Here the anchor is the first view that the chip
    has, paired with each later one; the loss is the mean over a chip's pairs, then over the chips that have a pair, so
    that every such chip counts alike. A chip with one view has no pair, but is still a negative of the others. With `dates`
    each date has an anchor of its own, and a chip counts once for each date of which it has a pair.
    """
    missing = _checked_missing(views, is_missing, temperature)
    if mapped.shape != views.shape:
        raise ShapeError(f"views and mapped must fit together; got {tuple(views.shape)} and {tuple(mapped.shape)}.")
    views, mapped = (each.masked_fill(missing[..., None], 0) for each in (views, mapped))
    numbers = [0] * len(views) if dates is None else list(dates)
    if len(numbers) != len(views):
        raise ShapeError(f"dates must hold a number for each of {len(views)} views; got {len(numbers)}.")
    groups = [[view for view, number in enumerate(numbers) if number == date] for date in dict.fromkeys(numbers)]
    each = [_of_one_date(views[own], mapped[own], missing[own], temperature) for own in groups]
    values, has_pair = (torch.cat(column) for column in zip(*each, strict=True))
    return _mean_where(values, has_pair)


def _of_one_date(views: Tensor, mapped: Tensor, missing: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Compute Eq. 5 for each chip, float [B], and whether it has a pair, bool [B]; all views are compared."""
    n_views, n_chips, width = views.shape
    chips = torch.arange(n_chips, device=views.device)
    # argmax gives the first of equals: the first view that is there.
    first = (~missing).int().argmax(dim=0)
    anchors, every = views[first, chips], views.reshape(-1, width)
    similarity = _cosines(anchors, every) / temperature
    log_weights = log_negative_weights(anchors, mapped[first, chips], every, mapped.reshape(-1, width))
    is_negative = (chips[:, None] != chips.repeat(n_views)) & ~missing.flatten()
    pushed = _log_sum(similarity + log_weights, is_negative)
    own = similarity.unflatten(1, (n_views, n_chips)).diagonal(dim1=0, dim2=2)
    is_pair = ~missing & (torch.arange(n_views, device=views.device)[:, None] != first)
    return _mean_where(_pair_loss(own, pushed), is_pair), is_pair.any(dim=0)


@float32_inside
def supervised_loss(
    views: Tensor, labels: Tensor, *, is_missing: Tensor | None = None, is_known: Tensor | None = None,
    temperature: float = 1.0, with_itself: bool = True,
) -> Tensor:  # fmt: skip
    """Pull chips that share a label together and push those without it away, weighing pairs by all their labels.

    Source: HeroCon, Eq. 7; with a single label (c = 1) it is Eq. 6 (SupCon). sigma = 1 - hamming / c is the weight of a
    pair, gamma = hamming that of a negative. Needs memory for n * n * c numbers.

    A pair that agrees in fewer labels has the larger gradient: sigma stands inside the logarithm. Labels that exclude
    each other differ in two places, so Eq. 7 is then Eq. 6 with every negative counted twice.

    Args:
        views: Z of labeled chips, float [V, n, D]. S is their concatenation as handed in: a longer view counts more.
        labels: several of c may hold for a chip; bool, or integers that are 0 or 1, [n, c].
        is_missing: views that a chip lacks, bool [V, n]; none when absent.
        is_known: labels that somebody gave, bool [n, c]; all when absent. What stands in the others is not read, but must be
            0 or 1.
        temperature: above 0.
        with_itself: whether a chip also pairs with itself. The equation does not forbid it; with it, the only positive
            of a label still pushes the negatives away.

    Returns:
        Scalar, 0 or more: the mean over all c labels. A label without a pair counts as 0, and so does a pair whose
        anchor has no negative.

    Departs from the source: the paper has no missing views. Here two chips are compared over the views that both have,
    and chips that have none in common are no pair of any kind. It has no missing labels either: a chip of which label a is
    not known is in neither set of label a, and the hamming distance of two chips is c times the share of the labels known of
    both in which they differ.
    """
    missing = _checked_missing(views, is_missing, temperature)
    require_tensor("labels", labels)
    if labels.ndim != 2 or len(labels) != views.shape[1] or labels.shape[1] == 0:
        raise ShapeError(f"labels must be [n, c] with n = {views.shape[1]}, c >= 1; got {tuple(labels.shape)}.")
    has_label = as_bools("labels", labels, labels.shape)
    cosines, is_comparable = _cosines_over_shared_views(views, missing)
    similarity = cosines / temperature
    n_labels = has_label.shape[1]
    known = torch.ones_like(has_label) if is_known is None else as_bools("is_known", is_known, labels.shape, is_label=False)
    has_label, lacks = has_label & known, ~has_label & known
    differing = _hamming(has_label, known, similarity.dtype)
    # Both clamps change no pair in use: chips that share a label differ in at most c - 1, negatives in at least 1.
    log_sigma = (1 - differing / n_labels).clamp(min=1 / n_labels).log()
    log_gamma = differing.clamp(min=1).log()
    pushed = _log_sum((similarity + log_gamma)[..., None], is_comparable[..., None] & lacks)
    if not with_itself:
        is_comparable.fill_diagonal_(False)
    is_pair = is_comparable[..., None] & has_label[:, None] & has_label
    each = _pair_loss((similarity + log_sigma)[..., None], pushed[:, None])
    return _mean_where(each.flatten(0, 1), is_pair.flatten(0, 1)).mean()


def _hamming(has_label: Tensor, is_known: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute the hamming distance of labels, bool [n, c], over those known of both chips, scaled to c: float [n, n].

    Exactly the number of labels that differ where all are known; 0 for two chips of which no label is known of both.
    """
    both = is_known[:, None] & is_known
    differing = ((has_label[:, None] != has_label) & both).sum(dim=2)
    return differing * (has_label.shape[1] / both.sum(dim=2).clamp(min=1).to(dtype))


@float32_inside
def log_negative_weights(anchors: Tensor, mapped_anchors: Tensor, others: Tensor, mapped_others: Tensor) -> Tensor:
    """Compute the logarithm of g, by which two chips push each other away: the less, the more alike they are.

    Source: HeroCon, g of Eq. 4: the mean of exp(1 - cos(Z_i, H(Z_k))) and exp(1 - cos(Z_k, H(Z_i))). It has a gradient,
    which is how H learns.

    Args:
        anchors, mapped_anchors: Z and H(Z), float [A, D]. Normalized here, as all four.
        others, mapped_others: Z and H(Z), float [N, D].

    Returns:
        float [A, N] in [0, 2].
    """
    there = 1 - _cosines(anchors, mapped_others)
    back = 1 - _cosines(mapped_anchors, others)
    return torch.logaddexp(there, back) - math.log(2)


def total_loss(
    classification: Tensor, unsupervised: Tensor, supervised: Tensor, *, unsupervised_weight: float, supervised_weight: float
) -> Tensor:
    """Return the sum of the scalars L_c, L_u and L_s, weighed by 1, alpha and beta.

    Source: HeroCon, Eq. 1.
    """
    return classification + unsupervised_weight * unsupervised + supervised_weight * supervised


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    """Compute all cosines of the rows of two arrays, [A, N]."""
    return product(_unit(first), _unit(second).T)


def _unit(rows: Tensor) -> Tensor:
    is_zero = rows.detach().norm(dim=1, keepdim=True) <= _SHORTEST
    return functional.normalize(rows.masked_fill(is_zero, 0), dim=1)


def _cosines_over_shared_views(views: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the cosine of the concatenated views of two chips, over the views that both have, and whether there is any,
    [n, n].
    """
    rows = views.masked_fill(missing[..., None], 0)
    there = (~missing).to(rows.dtype)
    # Entry [i, j] is the squared length of chip i's part that chip j has too.
    squares = product(rows.square().sum(dim=2).T, there)
    is_zero = squares <= _SHORTEST**2
    scale = squares.masked_fill(is_zero, 1).rsqrt().masked_fill(is_zero, 0)
    joined = rows.transpose(0, 1).flatten(1)
    return product(joined, joined.T) * scale * scale.T, there.T @ there > 0


def _log_sum(logits: Tensor, is_in: Tensor) -> Tensor:
    """Compute the log of the sum of exp over dimension 1 where marked; for an empty sum the lowest number, whose gradient is
    0.
    """
    # Finite, unlike -inf, so that an empty sum never meets inf - inf on the way back.
    return logits.masked_fill(~is_in, torch.finfo(logits.dtype).min).logsumexp(dim=1)


def _pair_loss(pulled: Tensor, pushed: Tensor) -> Tensor:
    """Compute -log(exp(pulled) / (exp(pulled) + exp(pushed)))."""
    # Not softplus: it drops the smaller term above 20, an error of 2e-9.
    return -functional.logsigmoid(pulled - pushed)


def _mean_where(values: Tensor, is_in: Tensor) -> Tensor:
    """Compute the mean over dimension 0 where marked; 0 where nothing is."""
    return values.where(is_in, 0.0).sum(dim=0) / is_in.sum(dim=0).clamp(min=1)


def _checked_missing(views: Tensor, is_missing: Tensor | None, temperature: float) -> Tensor:
    """Return the missing views, bool [V, B]."""
    if views.ndim != 3 or 0 in views.shape:
        raise ShapeError(f"views must be [V, B, D] with V, B, D >= 1; got {tuple(views.shape)}.")
    require_above_0("temperature", temperature)
    if is_missing is None:
        return torch.zeros(views.shape[:2], dtype=torch.bool, device=views.device)
    return as_bools("is_missing", is_missing, views.shape[:2], is_label=False)
