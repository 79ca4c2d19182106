"""From a scene's own samples to 8-bit pictures and the mask of pixels that hold data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.windows import Window

Stretch = Sequence[tuple[float, float]]
_STRETCHED_PX = 1 << 18
FILLED_SHARE = 0.02  # of the valid pixels: fewer hardly move a percentile


def has_mask(source: rasterio.DatasetReader) -> bool:
    """Return whether the file carries its own mask: an alpha band or an internal mask."""
    return MaskFlags.per_dataset in source.mask_flag_enums[0] or ColorInterp.alpha in source.colorinterp


def may_have_holes(source: rasterio.DatasetReader) -> bool:
    """Return whether any pixel of the scene can be without data."""
    return has_mask(source) or source.nodata is not None or np.dtype(source.dtypes[0]).kind == "f"


def holds_data(samples: NDArray[np.generic], nodata: float | None, *, every: bool = False) -> NDArray[np.bool_]:
    """Mark pixels with finite samples of which at least one differs from nodata.

    Args:
        samples: [B, H, W] of any real type.
        every: mark those of which all differ from it: a measure that is missing in one band is no number there.

    Returns:
        bool [H, W].
    """
    valid = np.ones(samples.shape[1:], dtype=bool)
    if samples.dtype.kind == "f":
        for band in samples:
            valid &= np.isfinite(band)
    hole = _as_sample(nodata, samples.dtype)
    if hole is not None:
        differs = samples[0] != hole  # band by band: a mask of all bands would be three times as large
        for band in samples[1:]:
            differs = differs & (band != hole) if every else differs | (band != hole)
        valid &= differs
    return valid


def can_be(value: float, dtype: np.dtype[Any]) -> bool:
    """Return whether a sample of a type can have a value, such as one for no data."""
    return math.isnan(value) if dtype.kind == "f" and math.isnan(value) else _as_sample(value, dtype) is not None


def _as_sample(nodata: float | None, dtype: np.dtype[Any]) -> Any:
    """Return nodata as a sample of the given type, so that comparing needs no wider numbers; None if no sample equals it."""
    if nodata is None or math.isnan(nodata):
        return None
    if dtype.kind == "f":
        return np.float64(nodata).astype(dtype)
    info = np.iinfo(dtype)
    return dtype.type(int(nodata)) if info.min <= nodata <= info.max and float(nodata).is_integer() else None


def read_samples(
    source: rasterio.DatasetReader, bands: Sequence[int], window: Window | None = None,
    out_hw: tuple[int, int] | None = None, *, nodata: float | None = None, every: bool = False,
    has_alpha: bool = True,
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:  # fmt: skip
    """Read bands and the mask of pixels with data.

    Args:
        bands: from 1.
        out_hw: (height, width) of a decimated read, nearest neighbour.
        nodata: stands for no data beside the file's own value.
        every: as for `holds_data`.
        has_alpha: a band called transparency is one; see `Scene`.

    Returns:
        samples [B, H, W] in the file's own type, and valid, bool [H, W].
    """

    def holds(found: NDArray[np.generic]) -> NDArray[np.bool_]:
        own = holds_data(found, source.nodata, every=every)
        return own if nodata is None or nodata == source.nodata else own & holds_data(found, nodata, every=every)

    n = len(bands)
    if (
        has_alpha and ColorInterp.alpha in source.colorinterp
    ):  # read as a band: beside a nodata value, GDAL's mask would leave it out
        shape = None if out_hw is None else (n + 1, *out_hw)
        alpha = source.colorinterp.index(ColorInterp.alpha) + 1
        samples = source.read([*bands, alpha], window=window, out_shape=shape)  # in one go: each block is decoded once
        return samples[:n], holds(samples[:n]) & (samples[n] > 0)
    shape = None if out_hw is None else (n, *out_hw)
    samples = source.read(list(bands), window=window, out_shape=shape)
    valid = holds(samples)
    if has_alpha and has_mask(source):
        valid &= source.read_masks(1, window=window, out_shape=out_hw) > 0
    return samples, valid


def find_stretch(samples: NDArray[np.generic], valid: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """Return the 2nd and 98th percentile of each band's valid samples, [3] pairs; low < high always.

    Where all bands are at their lowest or highest in many pixels, these are fill, and left out.
    """
    for extreme in (np.min, np.max):
        is_there = valid.copy()
        for band in samples:
            is_there &= band == extreme(band[valid])
        if FILLED_SHARE * valid.sum() < is_there.sum() < valid.sum():
            valid = valid & ~is_there
    found = np.percentile(samples[:, valid].astype(np.float64), [2.0, 98.0], axis=1)
    return tuple((low, high if high > low else low + max(1.0, abs(low) * 1e-6)) for low, high in found.T.tolist())


def decibels(samples: NDArray[np.generic], valid: NDArray[np.bool_]) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return amplitudes [B, H, W] as 20 log10 of themselves, float32, and which pixels hold data: those above 0 in each
    band.

    Speckle multiplies an amplitude, so in decibels it is as large in a dark field as on a bright roof.
    """
    is_positive = np.ones(valid.shape, dtype=bool)
    for band in samples:
        is_positive &= band > 0
    found = np.maximum(samples, np.finfo(np.float32).tiny, dtype=np.float32)
    np.log10(found, out=found)
    found *= np.float32(20.0)
    return found, valid & is_positive


def to_uint8(samples: NDArray[np.generic], valid: NDArray[np.bool_], stretch: Stretch | None) -> NDArray[np.uint8]:
    """Map samples [B, H, W] to 0..255 and pixels without data to 0.

    Args:
        stretch: (low, high) per band; None means that the samples are uint8 already.
    """
    if stretch is None:
        out = np.asarray(samples, dtype=np.uint8)
        return out if valid.all() else out * valid
    out = np.empty(samples.shape, dtype=np.uint8)
    step = max(1, _STRETCHED_PX // max(1, valid.shape[1]))
    for start in range(0, len(valid), step):  # some rows at a time: their numbers are eight times as large as the picture's
        rows = slice(start, start + step)
        for band, (low, high), target in zip(samples, stretch, out, strict=True):
            clean = np.where(valid[rows], band[rows], low)  # what holds no data becomes low, and so 0
            target[rows] = np.rint((np.clip(clean, low, high) - low) * (255.0 / (high - low)))
    return out
