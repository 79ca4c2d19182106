"""Which bands of a file are read: those shown as red, green and blue, and those that a layer measures."""

from __future__ import annotations

from pathlib import Path

import rasterio
from rasterio.enums import ColorInterp

from pu_geo.errors import ImageryError
from pu_geo.records import MAX_LAYER_BANDS, BandTriple

LAYER_DTYPES = ("uint8", "uint16", "float32")
DTYPES = ("uint8", "int8", "uint16", "int16", "float32", "float64")
BANDS = "bands"  # what a note is about


def choose_bands(source: rasterio.DatasetReader, path: Path, wanted: BandTriple | None) -> BandTriple:
    """Return the bands, from 1, that are shown as red, green and blue, or refuse the scene.

    Unless a person chose them: those that the file calls red, green and blue, in its color interpretation or in their
    descriptions; else bands 1 to 3, or the only band thrice.
    """
    if ColorInterp.palette in source.colorinterp:
        raise ImageryError(
            f"{path.name} stores a colour palette. Scenes need bands of red, green and blue.",
            "Expand it: gdal_translate -expand rgb in.tif out.tif",
            kind="bands",
        )
    strange = sorted({d for d in source.dtypes if d not in DTYPES})
    if strange:
        raise ImageryError(
            f"{path.name} has samples of type {', '.join(strange)}; readable are {', '.join(DTYPES)}.",
            "Export the scene as 8- or 16-bit red, green, blue.",
            kind="dtype",
        )
    usable = [band for band, kind in enumerate(source.colorinterp, 1) if kind != ColorInterp.alpha]
    if wanted is not None:
        if len(wanted) != 3 or any(band not in usable for band in wanted):
            raise ImageryError(
                f"Bands {', '.join(map(str, wanted))} of {path.name} cannot be shown as red, green, blue; "
                f"it has bands {', '.join(map(str, usable))}.",
                "Name three of these, such as 3, 2, 1.",
                kind="bands",
            )
        return wanted
    named = _named_bands(source)
    if named is None and (not usable or len(usable) == 2 or (len(usable) > 2 and usable[:3] != [1, 2, 3])):
        raise ImageryError(
            f"{path.name} has {source.count} band(s) and no red, green, blue. Scenes need these three, or one band of gray.",
            "Export the scene with red, green and blue as bands 1 to 3.",
            kind="bands",
        )
    return named or ((1, 2, 3) if len(usable) > 2 else (usable[0],) * 3)


def _named_bands(source: rasterio.DatasetReader) -> BandTriple | None:
    """Return the first bands that the file itself calls red, green and blue, None unless it has all three."""
    colors = [kind.name for kind in source.colorinterp]
    words = [(text or "").strip().lower() for text in source.descriptions]
    for names in (colors, words):
        if all(color in names for color in ("red", "green", "blue")):
            return (names.index("red") + 1, names.index("green") + 1, names.index("blue") + 1)
    return None


def unnamed_bands(source: rasterio.DatasetReader, rgb: BandTriple) -> tuple[tuple[str, str], ...]:
    """Return a note where a file has several bands and names none of them red, green and blue."""
    if len(set(rgb)) == 1 or _named_bands(source) is not None:
        return ()
    words = f"the bands have no names; {', '.join(map(str, rgb))} of {source.count} are taken as red, green, blue."
    return ((BANDS, f"{words} Should colors look wrong, replace the scene and state its bands (--bands)."),)


def layer_bands(source: rasterio.DatasetReader, path: Path) -> tuple[int, ...]:
    """Return the bands, from 1, that a layer has of a file: all but one of transparency; or refuse the file."""
    if ColorInterp.palette in source.colorinterp:
        raise ImageryError(
            f"{path.name} stores a colour palette: its samples are numbers of colours, which measure nothing.",
            "Expand it: gdal_translate -expand rgb in.tif out.tif",
            kind="bands",
        )
    if strange := sorted({dtype for dtype in source.dtypes if dtype not in LAYER_DTYPES}):
        is_complex = any(dtype.startswith("complex") for dtype in strange)
        raise ImageryError(
            f"{path.name} has samples of type {', '.join(strange)}; a layer has {', '.join(LAYER_DTYPES[:-1])} or "
            f"{LAYER_DTYPES[-1]}.",
            "Export its amplitude, or decibels, as float32."
            if is_complex
            else "Convert it: gdal_translate -ot Float32 in.tif out.tif",
            kind="dtype",
        )
    bands = tuple(band for band, kind in enumerate(source.colorinterp, 1) if kind != ColorInterp.alpha)
    if not 1 <= len(bands) <= MAX_LAYER_BANDS:
        raise ImageryError(
            f"{path.name} has {len(bands)} bands; a layer has 1 to {MAX_LAYER_BANDS}.",
            "Export some of them: gdal_translate -b 1 -b 2 in.tif out.tif",
            kind="bands",
        )
    return bands
