"""xBD as NcPU uses it: one crop of the post picture per building, damaged or not."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.datasets.classified import ClassifiedChips, as_chip
from pu_geo.errors import DatasetError, ImageryError
from pu_geo.geo.chips import chip_windows, whole_pixels
from pu_geo.geo.readers import xbd
from pu_geo.records import Grid

SUBTYPES = ("no-damage", "minor-damage", "major-damage", "destroyed")
PARTS = ("train", "tier1", "tier3", "test", "hold")
_PIXELS = Grid("", "", (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), 1024, 1024, 1.0, 1.0, 1.0)  # of a picture, row 0 above


def read_xbd(folder: Path, size_px: int = 64) -> ClassifiedChips:
    """Cut every classified building out of the post pictures of xBD.

    Source: NcPU, Appendix D: bounding rectangle of the outline buffered by 0.5 times its size.

    Args:
        folder: holds images/ and labels/, or any of train/, tier1/, tier3/, test/ and hold/ which do; test/ is for testing.

    Returns:
        chips [N, 3, size_px, size_px]; a place is a picture, since neighbors in one would leak into each other.

    Raises:
        DatasetError: kind "missing" if there is no picture with labels, "corrupt" if one cannot be read.
    """
    parts = [folder / name for name in PARTS if (folder / name).is_dir()] or [folder]
    chips, classes, place, is_test = [], [], [], []
    n_pictures = 0
    for part in parts:
        try:
            found = xbd.find_xbd(part)
        except ImageryError as cause:
            raise DatasetError(cause.problem, cause.hint, kind="missing") from cause
        for picture, labels in zip(found.post, found.labels, strict=True):
            own, damage = _crops(picture, labels, size_px)
            chips.append(own)
            classes.append(damage)
            place.append(np.full(len(damage), n_pictures))
            is_test.append(np.full(len(damage), part.name == "test"))
            n_pictures += 1
    where = np.concatenate(place).astype(np.int64)
    return ClassifiedChips(np.concatenate(chips), np.concatenate(classes), SUBTYPES, np.concatenate(is_test), where)


def _crops(picture: Path, labels: Path, size_px: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the buildings of one picture, uint8 [K, 3, size_px, size_px], and the class of each; un-classified ones not."""
    try:
        rows = orjson.loads(labels.read_bytes())["features"]["xy"]
        known = [row for row in rows if row["properties"].get("subtype") in SUBTYPES]
        outlines = shapely.to_wkb(shapely.from_wkt([row["wkt"] for row in known]))
        damage = np.array([SUBTYPES.index(row["properties"]["subtype"]) for row in known], np.int64)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, shapely.errors.GEOSException, OSError) as cause:
        raise DatasetError(f"{labels.name} is no label file of xBD ({type(cause).__name__}).", "Download it again.",
                           kind="corrupt") from cause  # fmt: skip
    chips = np.empty((len(known), 3, size_px, size_px), np.uint8)
    if not known:
        return chips, damage
    pixels = cv2.imread(str(picture), cv2.IMREAD_COLOR)
    if pixels is None:
        raise DatasetError(f"{picture.name} cannot be decoded.", "Download it again.", kind="corrupt")
    boxes = whole_pixels(chip_windows([bytes(one) for one in outlines], _PIXELS))
    height, width = pixels.shape[:2]
    for (left, top, right, bottom), out in zip(boxes.tolist(), chips, strict=True):
        columns = np.clip(np.arange(left, right), 0, width - 1)  # buildings at the border overshoot it by a fraction
        out[:] = as_chip(np.asarray(pixels[np.clip(np.arange(top, bottom), 0, height - 1)][:, columns], np.uint8), size_px)
    return chips, damage
