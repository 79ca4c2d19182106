"""Shifts of buildings that agree with one another: who could not be measured, or stands alone, learns from the neighbors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

GOOD = 0.5  # a shift of this quality may speak for its neighbors
CELLS_M = (60.0, 240.0, 960.0)  # neighbors are searched within a cell and the eight around it, then further off
PER_CELL = 6
MIN_VOTES = 5
MAD_TO_SIGMA = 1.4826
OTHER_PEAK, BORROWED = 0.8, 0.7  # worth of a shift that the neighbors chose among the peaks, or gave
KNOWN_ENOUGH = 0.7  # share of the nearest that must be good for the word of neighbors to be worth that; else in proportion
_CHUNK = 20_000


@dataclass(frozen=True)
class Consensus:
    """What the neighbors of each building suggest.

    Attributes:
        shift_m: float64 [N, 2], their median; NaN where there are fewer than five.
        tolerance_m: float64 [N], how far from it a shift still agrees.
        quality: float64 [N], 0..1: their median quality times the share of them that agree; 0 where there are too few.
        known_share: float64 [N], 0..1, share of good ones among the nearest buildings, in the smallest cells that hold five:
            where most could not be measured, those further off may be of another scene, and their word is worth less.
    """

    shift_m: Floats
    tolerance_m: Floats
    quality: Floats
    known_share: Floats


def mend(
    centers_m: Floats, peaks_m: Floats, quality: Floats, tolerance_m: float, has_data: Bools | None = None
) -> tuple[Floats, Floats, Bools]:
    """Choose one shift per building, so that it agrees with those around it. Ours.

    A measured shift within the tolerance of its neighbors' median stays. Else the highest other peak that agrees is
    taken, else the median itself, both at a lower quality. Without enough neighbors a good shift stays and any other is
    given up: its quality is 0.

    Args:
        centers_m: float64 [N, 2], places of the buildings, metres.
        peaks_m: float64 [N, K, 2], possible shifts, metres, best first.
        quality: float64 [N] of the first of them, 0..1; 0 also makes the others worthless.
        tolerance_m: how far two neighbors may differ and still agree, if all others agree better than that.
        has_data: bool [N], which of them could be measured at all; all if None.

    Returns:
        shift_m, float64 [N, 2], NaN where it was given up; quality, float64 [N]; is_mended, bool [N].
    """
    agreed = consensus(centers_m, peaks_m[:, 0], quality, tolerance_m, has_data)
    off = np.linalg.norm(peaks_m - agreed.shift_m[:, None], axis=-1)
    agrees = (off <= agreed.tolerance_m[:, None]) & (quality > 0)[:, None]
    first = agrees.argmax(axis=1)
    has_votes, has_peak = agreed.quality > 0, agrees.any(axis=1)
    chosen = np.where(has_peak[:, None], peaks_m[np.arange(len(quality)), first], agreed.shift_m)
    keeps = (has_votes & has_peak & (first == 0)) | (~has_votes & (quality >= GOOD))
    shift = np.where(keeps[:, None], peaks_m[:, 0], chosen)
    worth = np.where(has_peak, OTHER_PEAK, BORROWED) * agreed.quality * np.minimum(agreed.known_share / KNOWN_ENOUGH, 1.0)
    final = np.where(keeps, np.maximum(quality, np.where(has_votes, OTHER_PEAK * agreed.quality, 0.0)), worth)
    shift[final == 0] = np.nan
    return shift, final, ~keeps & (final > 0)


def consensus(
    centers_m: Floats, shift_m: Floats, quality: Floats, tolerance_m: float, has_data: Bools | None = None
) -> Consensus:
    """Ask the good neighbors of every building, the building itself left out; the nearest cells that hold five.

    Source: median and MAD as in Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation" (1993), Section 1:
    three of their sigmas are the tolerance. Ours: it lies between one and two times `tolerance_m`.
    """
    n = len(quality)
    agreed = Consensus(np.full((n, 2), np.nan), np.full(n, tolerance_m), np.zeros(n), np.full(n, -1.0))
    measurable = np.arange(n) if has_data is None else np.flatnonzero(has_data)
    voters = np.flatnonzero(quality >= GOOD)
    open_rows = np.arange(n)
    for side_m in CELLS_M:
        if len(voters) < MIN_VOTES:
            break
        asked, open_rows = open_rows, np.zeros(0, dtype=np.int64)
        cells, everyone = _Cells.build(centers_m, voters, side_m), _Cells.build(centers_m, measurable, side_m)
        for start in range(0, len(asked), _CHUNK):
            rows = asked[start : start + _CHUNK]
            n_all, is_first = everyone.n_around(rows), agreed.known_share[rows] < 0
            is_here = is_first & (n_all >= MIN_VOTES)
            agreed.known_share[rows[is_here]] = cells.n_around(rows[is_here]) / n_all[is_here]
            votes = cells.around(rows)
            enough = (votes >= 0).sum(axis=1) >= MIN_VOTES
            open_rows = np.concatenate([open_rows, rows[~enough]])
            _count(agreed, rows[enough], votes[enough], shift_m, quality)
    np.maximum(agreed.known_share, 0.0, out=agreed.known_share)
    return agreed


def _count(agreed: Consensus, rows: Ints, votes: Ints, shift_m: Floats, quality: Floats) -> None:
    """Write the consensus of `votes`, int64 [M, V] with -1 for none, into the `rows` of `agreed`."""
    missing = votes < 0
    values = np.where(missing[..., None], np.nan, shift_m[votes])
    middle = _median(values)
    spread = _median(np.abs(values - middle[:, None]))
    least = agreed.tolerance_m[rows]
    tolerance = np.clip(3.0 * MAD_TO_SIGMA * spread.max(axis=1), least, 2.0 * least)
    agree = np.linalg.norm(values - middle[:, None], axis=-1) <= tolerance[:, None]
    share = agree.sum(axis=1) / (~missing).sum(axis=1)
    worth = _median(np.where(missing, np.nan, quality[votes])[..., None])[:, 0]
    agreed.shift_m[rows], agreed.tolerance_m[rows], agreed.quality[rows] = middle, tolerance, worth * share


def _median(values: Floats) -> Floats:
    """Return the median along axis 1 of [M, V, D] without NaN; numpy's nanmedian takes ten times as long."""
    ordered = np.sort(values, axis=1)  # NaN last
    n = (~np.isnan(values[..., 0])).sum(axis=1)
    each = np.arange(len(values))
    return np.asarray((ordered[each, (n - 1) // 2] + ordered[each, n // 2]) / 2)


@dataclass(frozen=True)
class _Cells:
    """Voters sorted into square cells."""

    cell: Ints  # (column, row) of every building's cell, int64 [N, 2]
    voters: Ints  # sorted by cell
    keys: Ints  # of the voters' cells, sorted
    n_columns: int

    @classmethod
    def build(cls, centers_m: Floats, voters: Ints, side_m: float) -> _Cells:
        cell = np.floor((centers_m - centers_m.min(axis=0)) / side_m).astype(np.int64) + 1
        n_columns = int(cell[:, 0].max()) + 2
        keys = cell[voters, 1] * n_columns + cell[voters, 0]
        order = np.argsort(keys, kind="stable")
        return cls(cell, voters[order], keys[order], n_columns)

    def _keys_around(self, rows: Ints) -> Ints:
        """Return the keys of the nine cells around buildings, int64 [M, 9]."""
        step = np.array([-1, 0, 1])
        column, row = self.cell[rows, 0, None] + np.tile(step, 3), self.cell[rows, 1, None] + np.repeat(step, 3)
        return np.asarray(row * self.n_columns + column, dtype=np.int64)

    def n_around(self, rows: Ints) -> Ints:
        """Return how many voters the nine cells around buildings hold, int64 [M]."""
        keys = self._keys_around(rows)
        held = np.searchsorted(self.keys, keys, side="right") - np.searchsorted(self.keys, keys)
        return np.asarray(held.sum(axis=1), dtype=np.int64)

    def around(self, rows: Ints) -> Ints:
        """Return up to six voters of each of the nine cells around buildings, int64 [M, 54], -1 for none."""
        keys = self._keys_around(rows)
        place = np.searchsorted(self.keys, keys)[..., None] + np.arange(PER_CELL)
        inside = np.minimum(place, len(self.keys) - 1)
        found = np.where((place < len(self.keys)) & (self.keys[inside] == keys[..., None]), self.voters[inside], -1)
        votes = found.reshape(len(rows), -1)
        votes[votes == rows[:, None]] = -1
        return votes
