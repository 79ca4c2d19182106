"""One scaling for each band of a layer, found from all of its files on the project's grid, and what to know about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.raster.mosaic import Mosaic, Report, report_strip

LOW, HIGH = 0.5, 99.5  # percentiles of the valid samples that become 0 and 255, see `_ends`
MOST_READ, MOST_KEPT = 1 << 26, 1 << 22  # pixels of the grid: those read, those of them that percentiles are taken of
PIECE_ROWS, PIECE_COLUMNS = 256, 4096
MANY_EQUAL = 0.01  # share of valid samples that are exactly the lowest, from which on they may be undeclared no data


@dataclass(frozen=True)
class Scaling:
    """How the samples of a layer become 8 bits.

    Attributes:
        bands: (low, high) of each band, mapped to 0 and 255, in the unit of `Mosaic.read_values`; low < high.
        lowest: (value, share of the valid samples that are exactly it) of each band.
        is_constant: of each band, whether all of its samples are equal.
    """

    bands: tuple[tuple[float, float], ...]
    lowest: tuple[tuple[float, float], ...]
    is_constant: tuple[bool, ...]


def find_scaling(
    mosaic: Mosaic, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> Scaling | None:
    """Return the scaling of an open layer by the 0.5th and 99.5th percentile of each band; None where it has no data on the grid.

    Of a band that mostly has one value, such as a map of damage, percentiles are of its other samples.

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
        if sum(part.shape[1] for part in found):
            return _of_samples(np.concatenate(found, axis=1))
    return None


def _samples(mosaic: Mosaic, row: int, step: int) -> Iterator[NDArray[np.float32]]:
    """Yield the valid samples of a strip, float32 [B, n] each, of every `step`-th pixel."""
    rows = min(PIECE_ROWS, mosaic.grid.height - row)
    for col in range(0, mosaic.grid.width, PIECE_COLUMNS):
        values, valid = mosaic.read_values(col, row, min(PIECE_COLUMNS, mosaic.grid.width - col), rows)
        yield values[:, ::step, ::step][:, valid[::step, ::step]]


def _of_samples(found: NDArray[np.float32]) -> Scaling:
    """Return the scaling of samples [B, n], n > 0."""
    bands, lowest, constant = [], [], []
    for band in found:
        bands.append(_ends(band))
        least = band.min()
        lowest.append((float(least), float((band == least).mean())))
        constant.append(bool(band.max() == least))
    return Scaling(tuple(bands), tuple(lowest), tuple(constant))


def _ends(band: NDArray[np.float32]) -> tuple[float, float]:
    """Return what becomes 0 and 255 of a band's samples [n].

    Where more than half of them are one value, as the undamaged in a map of damage are, percentiles are of the others, and that
    value lies within: else rare damage would all be 255.
    """
    usual = np.partition(band, len(band) // 2)[len(band) // 2]
    others = band[band != usual]
    is_mostly_one = 0 < len(others) < len(band) / 2
    low, high = np.percentile((others if is_mostly_one else band).astype(np.float64), [LOW, HIGH]).tolist()
    if is_mostly_one:
        low, high = min(low, float(usual)), max(high, float(usual))
    return low, high if high > low else low + max(1.0, abs(low) * 1e-6)
