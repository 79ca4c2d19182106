"""Scores that travel between similar chips: a graph of nearest neighbors, and its fixed point for any chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.sparse import csr_array, dia_array, eye_array, vstack
from scipy.sparse.linalg import cg
from torch import Tensor

BLOCK = 2048  # chips whose similarity to all anchors is held in memory at once
POWER = 3  # of the cosine, as the weight of a tie: near neighbors count more
LEAST_WEIGHT = 1e-9  # of all ties of a chip together, where none is any like it
_LEAST_COSINE = 1e-3
_MOST_STEPS, _TOLERANCE = 500, 1e-8
_GRID = 1000  # steps of 1 in which coordinates of rows are distinguished
Check = Callable[[], None]


def _nothing() -> None:
    """Raise nothing."""


def reach(anchors: Tensor, n_neighbors: int, check: Check = _nothing) -> Tensor:
    """Return how alike each anchor and the last of its nearest neighbors are, float [M].

    Args:
        anchors: unit rows, float32 [M, d], M >= 2.
        n_neighbors: k; at most M - 1 are there.
        check: here and below: called before each block of anchors; what it raises ends the work.
    """
    k = min(n_neighbors + 1, len(anchors))  # each is its own nearest
    return torch.cat(
        [(anchors[part] @ anchors.T).topk(k, dim=1).values[:, -1] for part in blocks(len(anchors), check=check)]
    )


def ties(rows: Tensor, anchors: Tensor, reaches: Tensor, n_neighbors: int) -> Tensor:
    """Weigh how chips are tied to anchors: where one is among the other's nearest, by the third power of their cosine.

    An anchor is tied to itself, too; so any chip, anchor or not, is treated alike.

    Args:
        rows: unit rows, float32 [B, d].
        anchors: unit rows, float32 [M, d].
        n_neighbors: k.

    Returns:
        Weights, float32 [B, M], at least 0; 0 where there is no tie.
    """
    alike = rows @ anchors.T
    k = min(n_neighbors + 1, len(anchors))
    own = alike.topk(k, dim=1).values[:, -1:]
    is_tied = (alike >= own) | (alike >= reaches[None])
    return torch.where(is_tied, alike.clamp_min(_LEAST_COSINE) ** POWER, alike.new_zeros(()))


def degrees(anchors: Tensor, reaches: Tensor, n_neighbors: int, check: Check = _nothing) -> Tensor:
    """Sum up the ties of each anchor, float32 [M]."""
    return torch.cat(
        [ties(anchors[part], anchors, reaches, n_neighbors).sum(1) for part in blocks(len(anchors), check=check)]
    )


def label_propagation(own: Tensor, graph: csr_array, alpha: float, check: Check = _nothing) -> Tensor:
    """Let scores travel until they rest: f = alpha D^-1/2 W D^-1/2 f + own.

    Source: Zhou et al., Learning with Local and Global Consistency (NeurIPS 2003), section 2, the limit of its iteration.

    Args:
        own: scores that travel, float32 [M].
        graph: D^-1/2 W D^-1/2, see `links`.
        alpha: in [0, 1).
        check: called after every step; what it raises ends the work.

    Returns:
        f, float32 [M].

    Departs from the source: what travels are scores of a ranking, not labels; W ties nearest neighbors alone, by the third
    power of their cosine instead of a Gaussian, and each to itself; own is not multiplied by 1 - alpha, which changes no order.
    Solved by conjugate gradients.
    """
    system = eye_array(len(own)) - alpha * graph
    found, _ = cg(system, own.cpu().double().numpy(), rtol=_TOLERANCE, maxiter=_MOST_STEPS, callback=lambda _: check())
    return torch.from_numpy(found).float().to(own.device)


def links(anchors: Tensor, reaches: Tensor, degree: Tensor, n_neighbors: int, check: Check = _nothing) -> csr_array:
    """Build D^-1/2 W D^-1/2, sparse float64 [M, M] on the CPU.

    Args:
        anchors: unit rows, float32 [M, d].
        reaches, degree: of the anchors, see `reach` and `degrees`.
        n_neighbors: k.
    """
    weights = (ties(anchors[part], anchors, reaches, n_neighbors) for part in blocks(len(anchors), check=check))
    tied = vstack([csr_array(each.cpu().numpy()) for each in weights]).astype(np.float64)
    scale = dia_array((degree.cpu().double().rsqrt().numpy()[None], [0]), shape=(len(anchors), len(anchors)))
    built = (scale @ tied @ scale).tocsr()
    return (built + built.T) / 2  # a tie at the very edge may exist from one side alone


def sum_over_ties(weights: Tensor, degree: Tensor, values: Tensor) -> Tensor:
    """Sum over the ties of chips: row of D^-1/2 W D^-1/2 times the anchors' scores, float32 [B]."""
    own = weights.sum(1).clamp_min(LEAST_WEIGHT)
    return weights @ (values / degree.sqrt()) / own.sqrt()


def distinct(rows: Tensor) -> Tensor:
    """Return the first of rows that are all but the same, int64 in rising order.

    Copies of one chip (no data, flat water) would all be tied to each other: the graph would be as large as their square.

    Args:
        rows: unit rows, float32 [M, d].
    """
    cells = (rows.cpu() * _GRID).round().int().numpy()
    return torch.from_numpy(np.sort(np.unique(cells, axis=0, return_index=True)[1]))


def blocks(n: int, size: int = BLOCK, check: Check = _nothing) -> Iterator[slice]:
    """Cut n rows into blocks of a size; `check` is called before each, and what it raises ends the work."""
    for first in range(0, n, size):
        check()
        yield slice(first, min(first + size, n))
