"""Scores that travel between similar chips: a graph of nearest neighbors, and its fixed point for any chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

BLOCK = 2048  # chips whose similarity to all anchors is held in memory at once
POWER = 3  # of the cosine, as the weight of a tie: near neighbors count more
LEAST_WEIGHT = 1e-9  # of all ties of a chip together, where none is any like it
_LEAST_COSINE = 1e-3
_ROUNDING = np.float32(1e-6)  # blocks of another size round cosines otherwise
_MOST_STEPS, _TOLERANCE = 500, 1e-6
_GRID = 1000  # steps of 1 in which coordinates of rows are distinguished
Check = Callable[[], None]
Floats = NDArray[np.floating]


def nothing() -> None:
    """Raise nothing."""


@dataclass(frozen=True)
class NeighborGraph:
    """Anchors, the chips that scores travel among, and how they are tied to each other.

    Attributes:
        anchors: unit rows, float32 [M, d].
        reach: how alike each anchor and the last of its nearest neighbors are, float32 [M].
        degree: sum of the ties of each anchor, float32 [M].
        n_neighbors: k.
    """

    anchors: NDArray[np.float32]
    reach: NDArray[np.float32]
    degree: NDArray[np.float32]
    n_neighbors: int

    @classmethod
    def of(cls, anchors: NDArray[np.float32], n_neighbors: int, check: Check = nothing) -> NeighborGraph:
        """Tie anchors to each other.

        Args:
            anchors: unit rows, float32 [M, d], at least 1, no two all but the same (see `distinct`).
            check: here and below: called before each block of chips; what it raises ends the work.
        """
        reach = np.concatenate(
            [_nth_largest(anchors[part] @ anchors.T, n_neighbors + 1) for part in blocks(len(anchors), check=check)]
        )
        start = cls(anchors, reach, np.ones_like(reach), n_neighbors)
        degree = [np.asarray(start.weights(anchors[part]).sum(1)) for part in blocks(len(anchors), check=check)]
        return cls(anchors, reach, np.concatenate(degree).astype(np.float32), n_neighbors)

    def weights(self, rows: NDArray[np.float32]) -> scipy.sparse.csr_array:
        """Weigh how chips are tied to anchors: where one is among the other's nearest, by the third power of their cosine.

        An anchor is tied to itself, too; so any chip, anchor or not, is treated alike.

        Args:
            rows: unit rows, float32 [B, d]; a block of them.

        Returns:
            Sparse float32 [B, M], at least 0.
        """
        alike = rows @ self.anchors.T
        own = _nth_largest(alike, self.n_neighbors + 1)[:, None]
        at = np.nonzero((alike >= own - _ROUNDING) | (alike >= self.reach[None] - _ROUNDING))
        found = np.maximum(alike[at], np.float32(_LEAST_COSINE)) ** POWER
        return scipy.sparse.csr_array((found.astype(np.float32), at), shape=alike.shape)

    def ties(self, rows: NDArray[np.float32], check: Check = nothing) -> scipy.sparse.csr_array:
        """Return the rows of D^-1/2 W D^-1/2 that chips would have, sparse float32 [N, M].

        Args:
            rows: unit rows, float32 [N, d].
        """
        return scipy.sparse.vstack(
            [self._scaled(self.weights(rows[part])) for part in blocks(max(len(rows), 1), check=check)], format="csr"
        )

    def _scaled(self, weights: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        own = np.maximum(np.asarray(weights.sum(1)), LEAST_WEIGHT)
        left, right = ((each**-0.5).astype(np.float32) for each in (own, self.degree))
        return (_diagonal(left) @ weights @ _diagonal(right)).tocsr()

    def links(self, check: Check = nothing) -> scipy.sparse.csr_array:
        """Build D^-1/2 W D^-1/2 of the anchors, sparse float64 [M, M]."""
        built = self.ties(self.anchors, check).astype(np.float64)
        return ((built + built.T) / 2).tocsr()  # a tie at the very edge may exist from one side alone


def label_propagation(
    own: Floats, links: scipy.sparse.csr_array, alpha: float, check: Check = nothing
) -> NDArray[np.float64]:
    """Let scores travel until they rest: f = alpha D^-1/2 W D^-1/2 f + own.

    Source: Zhou et al., Learning with Local and Global Consistency (NeurIPS 2003), section 2, the limit of its iteration.

    Args:
        own: scores that travel, float [M, K]; each column by itself.
        links: D^-1/2 W D^-1/2, see `NeighborGraph.links`.
        alpha: in [0, 1).
        check: called at every step; what it raises ends the work.

    Returns:
        f, float64 [M, K].

    Departs from the source: what travels are scores of a ranking, not labels; W ties nearest neighbors alone, by the third
    power of their cosine instead of a Gaussian, and each to itself; own is not multiplied by 1 - alpha, which changes no
    order. Solved by conjugate gradients, all columns at once, until what is left is a millionth of `own`.
    """
    wanted = np.asarray(own, np.float64)
    found, left = wanted.copy(), alpha * (links @ wanted)
    enough = _TOLERANCE * np.linalg.norm(wanted, axis=0)
    toward, size = left.copy(), (left**2).sum(0)
    for _ in range(_MOST_STEPS):
        check()
        if (np.sqrt(size) <= enough).all():
            break
        moved = toward - alpha * (links @ toward)
        step = _ratio(size, (toward * moved).sum(0))
        found += step * toward
        left -= step * moved
        before, size = size, (left**2).sum(0)
        toward = left + _ratio(size, before) * toward
    return found


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide, 0 where nothing is left to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _nth_largest(values: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Return the n-th largest of each row [B, M], the last one where there are fewer, float32 [B]."""
    place = max(values.shape[1] - n, 0)
    found: NDArray[np.float32] = np.partition(values, place, axis=1)[:, place]
    return found


def _diagonal(values: Floats) -> scipy.sparse.dia_array:
    return scipy.sparse.dia_array((values[None], [0]), shape=(len(values), len(values)))


def distinct(rows: Floats) -> NDArray[np.int64]:
    """Return the first of rows that are all but the same, int64 in rising order.

    Copies of one chip (no data, flat water) would all be tied to each other: the graph would be as large as their square.

    Args:
        rows: unit rows, float32 [M, d].
    """
    cells = (rows * _GRID).round().astype(np.int32)
    return np.sort(np.unique(cells, axis=0, return_index=True)[1])


def blocks(n: int, size: int = BLOCK, check: Check = nothing) -> Iterator[slice]:
    """Cut n rows into blocks of a size; `check` is called before each, and what it raises ends the work."""
    for first in range(0, n, size):
        check()
        yield slice(first, min(first + size, n))
