"""One scaling for each band of a layer, found from all of its files on the project's grid, and what to know about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.raster.mosaic import Mosaic, Report, report_strip
from pu_geo.records import LayerKind, Scene

LOW, HIGH = 0.5, 99.5  # percentiles of the valid samples that become 0 and 255, see `_ends`
MOST_READ, MOST_KEPT = 1 << 26, 1 << 22  # pixels of the grid: those read, those of them that percentiles are taken of
PIECE_ROWS, PIECE_COLUMNS = 256, 4096
MANY_EQUAL = (
    0.01  # share of valid samples that are exactly the lowest or highest, from which on they may be undeclared no data
)
FEW_EQUAL = 0.001  # the same of 0 in decibels, which are hardly ever exactly that
NEAR_DB, MUCH_MORE = 2.0, 5.0  # 0 dB is odd where it is so many times as frequent as any value near it
FAR = 10.0  # times the distance between quartiles: a lowest or highest value so far from them may be no data, however rare
FILLS = frozenset(float(np.float32(value)) for value in (-999, -9999, -99999, -32767, -32768, -1e38, 1e38, -3.4e38, 3.4e38))
LEAST_COMMON = 0.5  # share of the range of files added to others that lies within their scaling, below which it is said
LEAST_OF_SPAN = 0.05  # share of that scaling that they span, below which it is said: they may have another unit
NO_MEASURE = 1e30  # what is larger is a fill, such as the largest float32
POSSIBLE = {"sar-db": (-300.0, 300.0), "sar-amplitude": (-300.0, 300.0), "elevation": (-1000.0, 10_000.0)}  # dB, m


@dataclass(frozen=True)
class Scaling:
    """How the samples of a layer become 8 bits.

    Attributes:
        bands: (low, high) of each band, mapped to 0 and 255, in the unit of `Mosaic.read_values`; low < high.
        odd: of each band the values that may stand for no data: (value, share of the valid samples that are exactly it).
        is_constant: of each band, whether all of its samples are equal.
    """

    bands: tuple[tuple[float, float], ...]
    odd: tuple[tuple[tuple[float, float], ...], ...]
    is_constant: tuple[bool, ...]


def find_scaling(
    mosaic: Mosaic, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> Scaling | None:
    """Return the scaling of an open layer by the 0.5th and 99.5th percentile of each band; None where it has no data on the
    grid.

    Of a band that mostly has one value, such as a map of damage, percentiles are of its other samples. Arguments and errors
    are those of `sampled`.
    """
    found = sampled(mosaic, report, is_cancelled)
    return None if found is None else _of_samples(found[0], mosaic.scenes[0])


def sampled(
    mosaic: Mosaic, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """Return samples of an open mosaic where it has data, float32 [B, n], in the unit of `Mosaic.read_values`; None without
    any.

    With them comes which scene each is of, int64 [n], 0 for the first.

    All pixels of the grid are read, of more than 67 million evenly spaced strips; of them every so many-th pixel along both
    axes counts, at most 4 million.

    Args:
        report: called with {"stage": "scaling", "done", "total"} in strips.

    Raises:
        JobCancelled: if `is_cancelled()`.
        ImageryError: if a part of a file cannot be decoded.
    """
    width, height = mosaic.grid.width, mosaic.grid.height
    n_strips = -(-height // PIECE_ROWS)
    every = max(1, math.ceil(width * height / MOST_READ))
    step = max(1, math.ceil(math.sqrt(width * height / every / MOST_KEPT)))
    chosen = list(range(every // 2, n_strips, every)) or [0]
    for strips in (chosen, sorted(set(range(n_strips)) - set(chosen))):  # the others only where these have no data
        found = []
        for k, strip in enumerate(strips):
            report_strip(report, is_cancelled, "scaling", k, len(strips))
            found += list(_samples(mosaic, strip * PIECE_ROWS, step))
        if sum(len(numbers) for _, numbers in found):
            return np.concatenate([values for values, _ in found], axis=1), np.concatenate([numbers for _, numbers in found])
    return None


def is_cut(scaling: tuple[float, float], own: tuple[float, float]) -> bool:
    """Return whether much of samples that have a scaling of their `own` would be 0 or 255 in another."""
    common = max(0.0, min(scaling[1], own[1]) - max(scaling[0], own[0]))
    return common < LEAST_COMMON * (own[1] - own[0])


def is_flat(scaling: tuple[float, float], own: tuple[float, float]) -> bool:
    """Return whether samples that have a scaling of their `own` would be nearly alike in another."""
    return own[1] - own[0] < LEAST_OF_SPAN * (scaling[1] - scaling[0])


def _samples(mosaic: Mosaic, row: int, step: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield the valid samples of a strip, float32 [B, n] each, of every `step`-th pixel, and which scene they are of."""
    rows = min(PIECE_ROWS, mosaic.grid.height - row)
    for col in range(0, mosaic.grid.width, PIECE_COLUMNS):
        values, shown = mosaic.read_values(col, row, min(PIECE_COLUMNS, mosaic.grid.width - col), rows)
        number = shown[::step, ::step].astype(np.int64)
        yield values[:, ::step, ::step][:, number > 0], number[number > 0] - 1


def _of_samples(found: NDArray[np.float32], scene: Scene) -> Scaling:
    """Return the scaling of samples [B, n], n > 0, of a layer that a scene is of."""
    return Scaling(
        tuple(_ends(band) for band in found),
        tuple(() if scene.dtype == "uint8" else _odd(band, scene.kind) for band in found),
        tuple(bool(band.max() == band.min()) for band in found),
    )


def _odd(band: NDArray[np.float32], kind: LayerKind) -> tuple[tuple[float, float], ...]:
    """Return the values of a band's samples [n] that may stand for no data, and their shares; none where all are equal.

    The lowest and the highest, where many samples are exactly it, where it is a usual fill or no measure at all, or where it
    lies far from all others; and 0 in decibels.
    """
    if band.max() == band.min():
        return ()
    low, quarter, three_quarters, high = np.percentile(band.astype(np.float64), [0, 25, 75, 100]).tolist()
    found = {}
    for value, distance in ((low, quarter - low), (high, high - three_quarters)):
        share = float((band == value).mean())
        is_far = three_quarters > quarter and distance > FAR * (three_quarters - quarter)
        if share >= MANY_EQUAL or is_far or value in FILLS or not is_possible(value, kind):
            found[value] = share
    if kind == "sar-db" and (share := float((band == 0).mean())) >= FEW_EQUAL:
        others = np.unique(band[(np.abs(band) <= NEAR_DB) & (band != 0)], return_counts=True)[1]
        if share * len(band) > MUCH_MORE * others.max(initial=0):  # else decibels are rounded in the file
            found[0.0] = share
    return tuple(found.items())


def is_possible(value: float, kind: LayerKind) -> bool:
    """Return whether a layer of a kind can measure a value, in the unit of `Mosaic.read_values`."""
    low, high = POSSIBLE.get(kind, (-NO_MEASURE, NO_MEASURE))
    return low <= value <= high


def _ends(band: NDArray[np.float32]) -> tuple[float, float]:
    """Return what becomes 0 and 255 of a band's samples [n].

    Where more than half of them are one value, as the undamaged in a map of damage are, percentiles are of the others, and
    that value lies within: else rare damage would all be 255.
    """
    usual = np.partition(band, len(band) // 2)[len(band) // 2]
    others = band[band != usual]
    is_mostly_one = 0 < len(others) < len(band) / 2
    low, high = np.percentile((others if is_mostly_one else band).astype(np.float64), [LOW, HIGH]).tolist()
    if is_mostly_one:
        low, high = min(low, float(usual)), max(high, float(usual))
    return low, high if high > low else low + max(1.0, abs(low) * 1e-6)
