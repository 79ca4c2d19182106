"""FedAwS: losses that know one class only, and the server's spreadout that keeps the class vectors from collapsing.

Shared terms. Each class has one row of `class_vectors` [C, D], the paper's W. Class numbers are row numbers. All is
computed in float32 at least, also under autocast. Equation numbers are the paper's. `distance` is one of

- "cosine": 1 - u . v of rows brought to unit length here, in [0, 2] (Eq. 10). A row shorter than 1e-12 counts as zero:
  it is at distance 1 from everything and gets no gradient, where a plain division would give it one of 1e12.
- "dot": 1 - u . v of the rows as they are; the same value for unit rows, yet another gradient.
- "euclid": the length of u - v; at length 0 it gets no gradient.

Arrays whose shapes do not fit together raise `ShapeError`; a margin that is not above 0, or k below 1, raises `ValueError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses.inputs import (
    as_bools,
    as_classes,
    at_least_float32,
    float32_inside,
    product,
    require_above_0,
    require_at_least,
    require_one_of,
)

Distance = Literal["cosine", "dot", "euclid"]
DISTANCES: tuple[str, ...] = get_args(Distance)


@float32_inside
def spreadout_loss(class_vectors: Tensor, *, margin: float, distance: Distance = "cosine") -> Tensor:
    """Measure how much the classes crowd each other: how far each pair is short of the margin, squared.

    Source: FedAwS, Eq. 7; the sum runs over ordered pairs, so each pair counts twice.

    Args:
        class_vectors: float [C, D].
        margin: nu of the paper, above 0.
        distance: see the top of this file.

    Returns:
        Scalar, 0 or more; exactly 0 for one class and for none.
    """
    return _crowding(class_vectors, margin, distance).sum()


@float32_inside
def nearest_spreadout_loss(
    class_vectors: Tensor, *, k: int, is_candidate: Tensor | None = None, distance: Distance = "euclid"
) -> Tensor:
    """Measure how near each class has its k nearest other classes, without a margin to choose.

    Source: FedAwS, Eq. 8. The k nearest are found among all classes; those that are no candidates are then left out.

    Args:
        class_vectors: float [C, D].
        k: number of neighbors, 1 or more; from C - 1 on every other class is one. Of two equally near ones the lower
            class number comes first.
        is_candidate: the set C' of the paper, bool [C]; all classes if None.
        distance: see the top of this file. With "cosine" and "dot" the push between two near classes falls with the
            third power of their angle, and a pair that other classes drive together stays together. "euclid" pushes in
            proportion to the angle; for unit rows its square is twice the cosine distance.

    Returns:
        Scalar, 0 or less: minus the sum of squared distances. Exactly 0 for one class and for none.

    Departs from the source: the outer sum runs over all classes, not over those of the clients that took part.
    """
    require_at_least("k", k, 1)
    between = _between_classes(class_vectors, distance)
    n = len(between)
    nearest = between.detach().argsort(dim=1, stable=True)[:, : min(k, n - 1)]
    squared = between.gather(1, nearest).square()
    if is_candidate is not None:
        squared = squared * as_bools("is_candidate", is_candidate, (n,), is_label=False)[nearest]
    return -squared.sum()


@float32_inside
def class_contrastive_loss(
    embeddings: Tensor, class_vectors: Tensor, classes: Tensor, *, margin: float, distance: Distance = "cosine"
) -> Tensor:
    """Pull each chip to its class and push it from all others: the baseline that needs every class in one place.

    Source: FedAwS, Eq. 6 with alpha = beta = 1; with "cosine" Eq. 11 and 12.

    Args:
        embeddings: float [B, D].
        class_vectors: float [C, D].
        classes: class number of each chip, integer in 0..C - 1 or bool [B].
        margin: nu of the paper, above 0; in (1, 2) the loss bounds the error from above (Lemma 1).
        distance: see the top of this file.

    Returns:
        float [B], 0 or more.
    """
    away = _distances(embeddings, class_vectors, distance)
    is_own = _own_class(away, classes)
    return torch.where(is_own, away.square(), _shortfall(away, margin)).sum(1)


@float32_inside
def spreadout_contrastive_loss(
    embeddings: Tensor, class_vectors: Tensor, classes: Tensor, *, margin: float, distance: Distance = "cosine"
) -> Tensor:
    """Compute in one loss what clients and server do separately: the others are pushed from the chip's class, not from the
    chip.

    Source: FedAwS, Eq. 17. By Proposition 2 its mean equals the mean of `positive_contrastive_loss` plus `spreadout_loss` /
    C, where all classes have equally many chips. For checks and comparison; no client can compute it.

    Args:
        embeddings, class_vectors, classes, margin, distance: as in `class_contrastive_loss`.

    Returns:
        float [B], 0 or more.
    """
    away = _distances(embeddings, class_vectors, distance)
    is_own = _own_class(away, classes)
    crowding = _crowding(class_vectors, margin, distance).sum(1)
    return torch.where(is_own, away.square() + crowding, 0.0).sum(1)


@float32_inside
def positive_contrastive_loss(embeddings: Tensor, own_vector: Tensor, *, distance: Distance = "cosine") -> Tensor:
    """Pull the chips of one client to its class, chip by chip. Alone it lets all classes collapse to one point.

    Source: FedAwS, positive part of Eq. 6 and 11; its mean is Algorithm 1, line 8.

    Args:
        embeddings: float [B, D].
        own_vector: the client's class vector, float [D].
        distance: see the top of this file.

    Returns:
        float [B], 0 or more.
    """
    return _to_own(embeddings, own_vector, distance).square()


@float32_inside
def positive_hinge_loss(
    embeddings: Tensor, own_vector: Tensor, *, enough: float = 0.9, distance: Distance = "cosine"
) -> Tensor:
    """Pull the chips of one client to its class until they are near enough, chip by chip.

    Source: FedAwS, Eq. 23.

    Args:
        embeddings, own_vector, distance: as in `positive_contrastive_loss`.
        enough: similarity (1 - distance) from which on a chip adds nothing.

    Returns:
        float [B], 0 or more; at most (1 + enough)^2 with "cosine".
    """
    similarity = 1 - _to_own(embeddings, own_vector, distance)
    return (enough - similarity).relu().square()


def spreadout_step(
    class_vectors: Tensor, regularizer: Callable[[Tensor], Tensor], *, weight: float, lr: float, unit_rows: bool = True
) -> Tensor:
    """Return class vectors farther from each other, as the server does once a round.

    Source: FedAwS, Algorithm 1, line 14; unit rows as in section 6.

    Args:
        class_vectors: rows sent by the clients, float [C, D]. Not changed.
        regularizer: gives a scalar for float [C, D]: `spreadout_loss` or `nearest_spreadout_loss` with its settings filled
            in.
        weight: lambda of the paper.
        lr: eta of the paper.
        unit_rows: bring the rows to unit length afterwards; False is the bare line 14.

    Returns:
        float [C, D] in the type of `class_vectors`, without gradient.

    Departs from the source: rows that point the same way are parted first, see `parted_rows`.
    """
    # Autocast would also reach the backward pass of the regularizer, which runs here.
    with torch.enable_grad(), torch.autocast(class_vectors.device.type, enabled=False):
        start = parted_rows(at_least_float32(class_vectors)).requires_grad_()
        (gradient,) = torch.autograd.grad(regularizer(start), start)
    moved = start.detach() - weight * lr * gradient
    return (_unit(moved) if unit_rows else moved).to(class_vectors.dtype)


def parted_rows(class_vectors: Tensor, *, turn: float = 0.1) -> Tensor:
    """Return rows of which none point the same way; no gradient would part them: it is the same for both, or zero.

    Source: ours. No random numbers: of rows that point the same way (cosine 1 within 1e-6) the first one stays. The r-th
    after it has r * `turn` added, in unit length, to one of its smallest elements, another one for each r until all but
    the largest are used. So a group spreads over many dimensions, and in each by another amount. A row shorter than
    1e-12 points nowhere; it becomes the unit row of equal elements before that.

    Args:
        class_vectors: float [C, D]. Rows of one element (D = 1) cannot be turned and stay.
        turn: see above; about the angle between the first and the second row, in radians.

    Returns:
        float [C, D], without gradient; turned rows keep their length, all others their values.
    """
    _require(class_vectors.ndim == 2, "class_vectors", "[C, D]", class_vectors)
    rows = at_least_float32(class_vectors.detach())
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    has_direction = ~(length <= 1e-12)
    unit = _unit(torch.where(has_direction, rows, 1.0))
    earlier = (_distances(unit, unit, "dot") <= 1e-6).tril(-1).sum(1, keepdim=True)
    if rows.shape[1] > 1:
        axis = unit.abs().argsort(dim=1, stable=True).gather(1, (earlier - 1).clamp_min(0) % (rows.shape[1] - 1))
        unit = _unit(unit.scatter_add(1, axis, turn * earlier.to(unit.dtype)))
    ours = torch.where(has_direction, unit * length, unit)
    return torch.where(has_direction & (earlier == 0), rows, ours).to(class_vectors.dtype)


def _distances(first: Tensor, second: Tensor, kind: Distance) -> Tensor:
    """Compute the distance of each row of `first` to each row of `second`, float32 or float64 [N, M]."""
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ShapeError(f"both must be [rows, D] with one D; got {tuple(first.shape)} and {tuple(second.shape)}.")
    require_one_of("distance", kind, DISTANCES)
    if kind == "euclid":
        lengths: Tensor = torch.linalg.vector_norm(first[:, None] - second[None], dim=2)
        return lengths
    if kind == "cosine":
        first, second = _unit(first), _unit(second)
    return 1 - product(first, second.T)


def _between_classes(class_vectors: Tensor, kind: Distance) -> Tensor:
    """Compute the distance of each class to each other one, [C, C]; infinite on the diagonal, so that no class is its own
    neighbor.
    """
    away = _distances(class_vectors, class_vectors, kind)
    return away.masked_fill(torch.eye(len(away), dtype=torch.bool, device=away.device), math.inf)


def _crowding(class_vectors: Tensor, margin: float, kind: Distance) -> Tensor:
    """Compute the terms of Eq. 7, [C, C]."""
    return _shortfall(_between_classes(class_vectors, kind), margin)


def _shortfall(away: Tensor, margin: float) -> Tensor:
    """Compute how far distances are short of the margin, squared."""
    require_above_0("margin", margin)
    return (margin - away).relu().square()


def _to_own(embeddings: Tensor, own_vector: Tensor, kind: Distance) -> Tensor:
    """Compute the distance of each chip to the one class vector, [B]."""
    _require(own_vector.ndim == 1, "own_vector", "[D]", own_vector)
    return _distances(embeddings, own_vector[None], kind)[:, 0]


def _own_class(away: Tensor, classes: Tensor) -> Tensor:
    """Mark each chip's own class, bool [B, C]."""
    classes = as_classes("classes", classes, len(away), n_classes=away.shape[1])
    return torch.zeros_like(away, dtype=torch.bool).scatter(1, classes.long()[:, None], True)


def _unit(rows: Tensor) -> Tensor:
    """Return rows at unit length; those shorter than 1e-12 become zero and get no gradient."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    has_direction = ~(length <= 1e-12)  # a length that is no number stays one
    return torch.where(has_direction, rows / torch.where(has_direction, length, 1.0), 0.0)


def _require(is_fine: bool, what: str, shape: str, got: Tensor) -> None:
    if not is_fine:
        raise ShapeError(f"{what} must be {shape}; got shape {tuple(got.shape)}.")
