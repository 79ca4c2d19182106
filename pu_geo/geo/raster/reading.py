"""How scenes are read that belong together: with the same bands, one stretch a date and sensor; and how sharp each of them is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.raster import samples
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import border_in
from pu_geo.geo.raster.scaling import is_cut, sampled
from pu_geo.geo.raster.scene_files import BANDS
from pu_geo.records import Grid, Scene, Stretch
from pu_geo.wording import listed

OTHER_PIXEL = 1.25  # ratio of pixel sizes from which on files of one date and kind are not of one sensor
PATCH_PX, PATCHES, LATTICE = 64, 3, 8  # patches along a window's side, windows along a scene's
LEAST_PATCHES, LEAST_SPREAD, MOST_EMPTY = 12, 8.0, 0.05  # gray levels; share of a patch without data


def are_of_one_take(one: Scene, other: Scene) -> bool:
    """Return whether two files are of one date and one sensor, as far as they say."""
    sizes = sorted((one.gsd_m, other.gsd_m))
    alike = all(getattr(one, name) == getattr(other, name) for name in ("role", "date", "dtype", "bands", "rgb"))
    return alike and sizes[1] < OTHER_PIXEL * sizes[0]


def with_bands(new: Sequence[Scene], known: Sequence[Scene]) -> list[Scene]:
    """Return new scenes; one that does not name its bands is read as the first known one of as many bands of its type, which is noted.

    Args:
        known: scenes that are here; those of its own date come first.
    """
    return [_with_bands(scene, [*known, *(one for one in new if not _is_guess(one))]) for scene in new]


def _is_guess(scene: Scene) -> bool:
    return any(about == BANDS for about, _ in scene.notes)


def _with_bands(scene: Scene, known: Sequence[Scene]) -> Scene:
    if not _is_guess(scene):
        return scene
    alike = [one for one in known if (one.bands, one.dtype) == (scene.bands, scene.dtype) and one.role != "layer"]
    like = min(alike, key=lambda one: one.role != scene.role, default=None)
    if like is None or like.rgb == scene.rgb:
        return scene
    numbers = ", ".join(map(str, like.rgb))
    return _noted(
        replace(scene, rgb=like.rgb), BANDS, f"the bands have no names; {numbers} are red, green, blue as in {_name(like)}."
    )


def _noted(scene: Scene, about: str, words: str) -> Scene:
    """Return a scene with a note in place of what was noted about the same."""
    return replace(scene, notes=(*(note for note in scene.notes if note[0] != about), (about, words)))


def with_nodata(new: Sequence[Scene], old: Scene) -> list[Scene]:
    """Return new files of a layer; one that names no value for no data has that of the file before it, which is noted."""
    if old.nodata is None:
        return list(new)
    words = f"no value for no data is named; {old.nodata:.9g} is taken, as in {_name(old)} before."
    return [
        _noted(replace(scene, nodata=old.nodata), "nodata", words)
        if scene.nodata is None and samples.can_be(old.nodata, np.dtype(scene.dtype))
        else scene
        for scene in new
    ]


def with_crs(scene: Scene, old: Scene) -> Scene:
    """Return a scene that was given the coordinate system of the one before it with a note."""
    return _noted(scene, "crs", f"no coordinate system is named; {old.crs[:40]} is taken, as in {_name(old)} before.")


def words_of(scenes: Sequence[Scene]) -> list[str]:
    """Return what was assumed of scenes in sentences, one for all files of which the same was."""
    names: dict[str, list[str]] = {}
    for scene in scenes:
        for _, words in scene.notes:
            names.setdefault(words, []).append(_name(scene))
    return [f"{listed(files, 3)}: {words}" for words, files in names.items()]


def _name(scene: Scene) -> str:
    return Path(scene.path).name


def with_stretch(
    new: Sequence[Scene],
    known: Sequence[Scene],
    grid: Grid,
    fills: Path | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> tuple[list[Scene], list[str]]:
    """Return new scenes with one stretch a date and sensor, and notes on those that are cut off by it.

    Of 16-bit samples and the like it is that of the known scenes of the same take; else the 2nd and 98th percentile of all new files of
    the take together, on the grid. A take in tiles so looks as it would in one file, whatever each of them shows.

    Args:
        fills: as for `Mosaic`.

    Raises:
        JobCancelled: if `is_cancelled()`.
        ImageryError: if a part of a file cannot be decoded.
    """
    found: list[Scene] = []
    notes = []
    for scene in new:
        like = next((one for one in (*known, *found) if one.stretch is not None and are_of_one_take(one, scene)), None)
        if scene.stretch is None:
            found.append(scene)
        elif like is None:
            together = [one for one in new if are_of_one_take(one, scene)]
            found.append(replace(scene, stretch=_stretch_of(together, grid, fills, is_cancelled) or scene.stretch))
        else:
            found.append(replace(scene, stretch=like.stretch))
            notes += _cut_off(scene, like)
    return found, notes


def _stretch_of(
    scenes: Sequence[Scene], grid: Grid, fills: Path | None, is_cancelled: Callable[[], bool] | None
) -> Stretch | None:
    """Return the stretch of files together; None where nothing of them lies on the grid."""
    with Mosaic(scenes, grid, fills=fills) as mosaic:
        values = sampled(mosaic, None, is_cancelled)
    if values is None:
        return None
    return samples.find_stretch(values[:, None], np.ones((1, values.shape[1]), dtype=np.bool_))


def _cut_off(scene: Scene, like: Scene) -> list[str]:
    """Return a note on the bands that a scene alone would have stretched otherwise."""
    pairs = enumerate(zip(like.stretch or (), scene.stretch or (), strict=True), start=1)
    if not (bands := [band for band, (wide, own) in pairs if is_cut(wide, own)]):
        return []
    low, high = (like.stretch or ())[bands[0] - 1]
    least, most = (scene.stretch or ())[bands[0] - 1]
    return [
        f"{_name(scene)} has samples of {least:g} to {most:g} in band {bands[0]} as shown, and is stretched from {low:g} to "
        f"{high:g}, as {_name(like)} of the same date and sensor is. Check that they have the same unit."
    ]


# Sharpness


def sharpness(scene: Scene, grid: Grid, fills: Path | None = None) -> float | None:
    """Return how fine the detail is that a scene shows on the grid: the variance of the Laplacian in parts of that of the gradients.

    It does not follow contrast. About 0.9 to 3 in files as sold; 0.4 of that after a blur of 0.8 pixels. None where too little of it has
    any texture.

    Source: ours; the variance of the Laplacian is the usual measure of focus (Pech-Pacheco et al., ICPR 2000).
    """
    px = grid.to_px(border_in(scene, grid.crs))
    low, high = np.maximum(px.min(axis=0), 0), np.minimum(px.max(axis=0), [grid.width, grid.height])
    side = PATCH_PX * PATCHES
    starts = [np.unique(np.linspace(a, max(a, b - side), LATTICE).astype(int)) for a, b in zip(low, high, strict=True)]
    found: list[float] = []
    with Mosaic([scene], grid, fills=fills) as mosaic:
        for row in starts[1].tolist():
            for col in starts[0].tolist():
                picture, valid = mosaic.read(col, row, side, side)
                found += _of_patches(picture.mean(axis=0, dtype=np.float32), valid)
    return float(np.median(found)) if len(found) >= LEAST_PATCHES else None


def _of_patches(gray: NDArray[np.float32], valid: NDArray[np.bool_]) -> list[float]:
    found = []
    for row in range(0, gray.shape[0], PATCH_PX):
        for col in range(0, gray.shape[1], PATCH_PX):
            part = np.s_[row : row + PATCH_PX, col : col + PATCH_PX]
            patch = gray[part]
            if 1 - valid[part].mean() > MOST_EMPTY or patch.std() < LEAST_SPREAD:
                continue
            second = cv2.Laplacian(patch, cv2.CV_32F)[1:-1, 1:-1].var()
            found.append(float(second / (np.diff(patch, axis=0).var() + np.diff(patch, axis=1).var())))
    return found
