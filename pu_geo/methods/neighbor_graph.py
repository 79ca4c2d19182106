"""Scores that travel between chips that look alike: a graph of nearest neighbors, and its fixed point for any chip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 2048
"""Chips whose similarity to all anchors is held in memory at once."""
POWER = 3
LEAST_WEIGHT = 1e-9
_MOST_STEPS, _TOLERANCE = 500, 1e-8


def reach(anchors: Tensor, n_neighbors: int) -> Tensor:
    """Return how alike each anchor and the last of its nearest neighbors are, float [M].

    Args:
        anchors: unit rows, float32 [M, d], M >= 2.
        n_neighbors: k; at most M - 1 are there.
    """
    k = min(n_neighbors + 1, len(anchors))  # each is its own nearest
    return torch.cat([(rows @ anchors.T).topk(k, dim=1).values[:, -1] for rows in anchors.split(BLOCK)])


def ties(rows: Tensor, anchors: Tensor, reaches: Tensor, n_neighbors: int) -> Tensor:
    """Weigh how chips are tied to anchors: where one is among the other's nearest, by the third power of their cosine.

    An anchor is tied to itself, too; so any chip, anchor or not, is treated alike.

    Args:
        rows: unit rows, float32 [B, d].
        anchors: unit rows, float32 [M, d].
        reaches: of the anchors, see `reach`.
        n_neighbors: k.

    Returns:
        Weights, float32 [B, M], at least 0; 0 where there is no tie.
    """
    alike = rows @ anchors.T
    k = min(n_neighbors + 1, len(anchors))
    own = alike.topk(k, dim=1).values[:, -1:]
    is_tied = (alike >= own) | (alike >= reaches[None])
    return torch.where(is_tied, alike.clamp_min(1e-3) ** POWER, alike.new_zeros(()))


def degrees(anchors: Tensor, reaches: Tensor, n_neighbors: int) -> Tensor:
    """Sum up the ties of each anchor, float32 [M]."""
    return torch.cat([ties(rows, anchors, reaches, n_neighbors).sum(1) for rows in anchors.split(BLOCK)])


def propagated(
    owns: Sequence[Tensor], anchors: Tensor, reaches: Tensor, degree: Tensor, n_neighbors: int, alpha: float
) -> list[Tensor]:
    """Let scores travel until they rest: f = alpha D^-1/2 W D^-1/2 f + own.

    Source: Zhou et al., Learning with Local and Global Consistency (NeurIPS 2003), section 2, the limit of its iteration.

    Args:
        owns: scores that travel, float32 [M] each.
        anchors, reaches, degree: see the functions above.
        n_neighbors: k.
        alpha: in [0, 1).

    Returns:
        f, float32 [M], for each.

    Departs from the source: what travels are scores of a ranking, not labels; W ties nearest neighbors alone; own is not
    multiplied by 1 - alpha, which changes no order. Solved by conjugate gradients.
    """
    links = _links(anchors, reaches, degree, n_neighbors)
    return [_rest(links, own.double().cpu(), alpha).float().to(own.device) for own in owns]


def _rest(links: Tensor, target: Tensor, alpha: float) -> Tensor:
    """Solve (1 - alpha links) f = target, float64 [M], by conjugate gradients."""
    found, rest = torch.zeros_like(target), target.clone()
    direction, error = rest.clone(), rest @ rest
    enough = _TOLERANCE**2 * error
    for _ in range(_MOST_STEPS):
        if error <= enough:
            break
        moved = direction - alpha * (links @ direction[:, None])[:, 0]
        step = error / (direction @ moved)
        found, rest = found + step * direction, rest - step * moved
        before, error = error, rest @ rest
        direction = rest + error / before * direction
    return found


def _links(anchors: Tensor, reaches: Tensor, degree: Tensor, n_neighbors: int) -> Tensor:
    """Build D^-1/2 W D^-1/2, sparse float64 [M, M] on the CPU."""
    places, values, first = [], [], 0
    for rows in anchors.split(BLOCK):
        weights = ties(rows, anchors, reaches, n_neighbors)
        row, column = weights.nonzero(as_tuple=True)
        scale = (degree[row + first] * degree[column]).sqrt()
        places.append(torch.stack([row + first, column]).cpu())
        values.append((weights[row, column] / scale).double().cpu())
        first += len(rows)
    built = torch.sparse_coo_tensor(torch.cat(places, 1), torch.cat(values), (first, first), check_invariants=False)
    return ((built + built.t()) / 2).coalesce()  # a tie at the very edge may be seen from one side alone


def taken_from(weights: Tensor, degree: Tensor, values: Tensor) -> Tensor:
    """Give chips what their ties bring them: row of D^-1/2 W D^-1/2 times the anchors' scores, float32 [B]."""
    own = weights.sum(1).clamp_min(LEAST_WEIGHT)
    return (weights / degree.sqrt()[None]) @ values / own.sqrt()


def blocks(n: int) -> Iterator[slice]:
    """Cut n rows into blocks."""
    return (slice(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK))
