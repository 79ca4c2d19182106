"""How scenes are read that belong together: with the same bands, and one stretch a date and sensor."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.ground import read_level
from pu_geo.geo.raster import samples
from pu_geo.geo.raster.bands import BANDS
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.scaling import is_cut, is_flat, sampled
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.sites import corners_of, sites_under
from pu_geo.records import Grid, Scene, Stretch
from pu_geo.wording import listed, short_crs

COARSE_ZOOM, MUCH_BLUER, MOST_ALIKE = 2, 0.02, 0.2
OTHER_PIXEL = 1.25  # ratio of pixel sizes from which on files of one date and kind are not of one sensor


def are_of_one_take(one: Scene, other: Scene) -> bool:
    """Return whether two files are of one date and one sensor, as far as they say."""
    sizes = sorted((one.gsd_m, other.gsd_m))
    alike = all(getattr(one, name) == getattr(other, name) for name in ("role", "dtype", "rgb"))
    return alike and (one.date == other.date or not one.date or not other.date) and sizes[1] < OTHER_PIXEL * sizes[0]


def with_bands(new: Sequence[Scene], known: Sequence[Scene]) -> list[Scene]:
    """Return new scenes; one that does not name its bands is read as the first known one of as many bands of its type, which
    is noted.

    Args:
        known: scenes that are here; those of its own date come first.
    """
    return [_with_bands(scene, [*known, *(one for one in new if not is_guess(one))]) for scene in new]


def is_guess(scene: Scene) -> bool:
    """Return whether a scene's bands were taken for red, green and blue though nothing says so."""
    return any(about == BANDS for about, _ in scene.notes)


def _with_bands(scene: Scene, known: Sequence[Scene]) -> Scene:
    if not is_guess(scene):
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
        if (scene.nodata is None or (scene.kind == "sar-amplitude" and scene.nodata == 0 != old.nodata))
        and samples.can_be(old.nodata, np.dtype(scene.dtype))
        else scene
        for scene in new
    ]


def with_datum(scene: Scene, grid: Grid) -> Scene:
    """Return a scene with a note where its place on the project's grid may be some meters off."""
    corners = corners_of(scene.transform, scene.width, scene.height)
    doubt = next(filter(None, (systems.doubt_of(scene.crs, site.crs, corners) for site in sites_under(scene, grid))), "")
    return _noted(scene, "place", doubt) if doubt else scene


def with_crs(scene: Scene, old: Scene) -> Scene:
    """Return a scene that was given the coordinate system of the one before it with a note."""
    return _noted(scene, "crs", f"no coordinate system is named; {short_crs(old.crs)} is taken, as in {_name(old)} before.")


def _name(scene: Scene) -> str:
    return Path(scene.path).name


def with_stretch(
    known: Sequence[Scene], new: Sequence[Scene], grid: Grid, fills: Path | None = None,
    is_cancelled: Callable[[], bool] | None = None, *, anew: bool = False,
) -> tuple[list[Scene], list[str]]:  # fmt: skip
    """Return known and new scenes with one stretch a date and sensor, and notes on what looks odd in it.

    Of 16-bit samples and the like it is the 2nd and 98th percentile of all files of the take together, on the grid: a take
    in tiles looks as it would in one file, whatever each of them shows. Files that come later have the stretch of those that
    are here, unless much of them would be cut off: then it is found anew for all of them.

    Args:
        fills: as for `Mosaic`.
        anew: find it anew in any case.

    Raises:
        JobCancelled: if `is_cancelled()`.
        ImageryError: if a part of a file cannot be decoded.
    """
    found: dict[str, Stretch] = {}
    notes: list[str] = []
    are_new = {scene.scene_id for scene in new}
    for take in _takes([*known, *new]):
        fresh, here = ([scene for scene in take if (scene.scene_id in are_new) == is_new] for is_new in (True, False))
        if not fresh:
            continue
        stretch, own = here[0].stretch if here and not anew else None, dict[str, Stretch]()
        if stretch is not None:
            _, own = _stretches(fresh, grid, fills, is_cancelled)
        if stretch is None or any(_is_cut_off(stretch, one) for one in own.values()):
            stretch, own = _stretches(take, grid, fills, is_cancelled)
        if stretch is None:  # nothing of it lies on the grid
            continue
        found |= dict.fromkeys([scene.scene_id for scene in take], stretch)
        if changed := [scene for scene in here if scene.stretch != stretch]:
            notes.append(f"{_names(changed)}: stretched anew together with {_names(fresh)}.")
        notes += [words for scene in take for words in _odd(scene, stretch, own.get(scene.scene_id, stretch))]
    return [replace(scene, stretch=found.get(scene.scene_id, scene.stretch)) for scene in (*known, *new)], notes


def _is_cut_off(stretch: Stretch, own: Stretch) -> bool:
    """Return whether much of a file that would have a stretch of its `own` is cut off, though it spans something."""
    return any(is_cut(wide, one) and not is_flat(wide, one) for wide, one in zip(stretch, own, strict=True))


def _names(scenes: Sequence[Scene]) -> str:
    return listed([scene.scene_id for scene in scenes])


def _takes(scenes: Sequence[Scene]) -> list[list[Scene]]:
    """Return the scenes that are stretched, those of one take together."""
    takes: list[list[Scene]] = []
    for scene in scenes:
        if scene.stretch is not None:
            take = next((take for take in takes if are_of_one_take(take[0], scene)), None)
            if take is None:
                takes.append([scene])
            else:
                take.append(scene)
    return takes


def _stretches(
    scenes: Sequence[Scene], grid: Grid, fills: Path | None, is_cancelled: Callable[[], bool] | None
) -> tuple[Stretch | None, dict[str, Stretch]]:
    """Return the stretch of files together, None where nothing of them lies on the grid; and that of each alone, by scene
    id.
    """
    with Mosaic(scenes, grid, fills=fills) as mosaic:
        found = sampled(mosaic, None, is_cancelled)
    if found is None:
        return None, {}
    values, numbers = found
    parts = {scene.scene_id: values[:, numbers == number] for number, scene in enumerate(scenes)}
    return _stretch(values), {name: _stretch(part) for name, part in parts.items() if part.shape[1]}


def _stretch(values: NDArray[np.float32]) -> Stretch:
    return samples.find_stretch(values[:, None], np.ones((1, values.shape[1]), dtype=np.bool_))


def _odd(scene: Scene, stretch: Stretch, own: Stretch) -> list[str]:
    """Return a note on a file that is nearly black, white or of one gray in the stretch of its take."""
    for (low, high), (least, most) in zip(stretch, own, strict=True):
        if is_cut((low, high), (least, most)) or is_flat((low, high), (least, most)):
            return [
                f"{scene.scene_id} has samples of {least:g} to {most:g}, and its date and sensor are stretched from {low:g} "
                f"to {high:g}: it shows "
                "next to nothing. Open water is so; if there are houses, it has another unit than the other files."
            ]
    return []


# What map tiles show of both dates

Pictures = dict[str, tuple[NDArray[np.uint8], NDArray[np.bool_]]]
"""Coarse pictures by date, "pre" and "post", uint8 [H, W, 3], and where they hold data, bool."""


def coarse_pictures(folder: Path) -> Pictures:
    """Read coarse map tiles, at most 16 a date, from the folder that has those of "pre" and "post"."""
    found: Pictures = {}
    for role in ("pre", "post"):
        if (folder / role / "pyramid.json").is_file():
            info = json.loads((folder / role / "pyramid.json").read_text(encoding="utf-8"))
            zoom = min(COARSE_ZOOM, info["max_zoom"])
            width, height = (-(-info[side] // info["resolutions"][zoom]) for side in ("width", "height"))
            found[role] = read_level(folder / role / str(zoom), 0, 0, width, height)
    return found


def color_doubts(pictures: Pictures, *, are_named: bool) -> list[str]:
    """Return whether red and blue seem to be exchanged at one date, or at both, in sentences.

    Land is redder than blue on average, in every scene that we know: roofs, soil and dry plants are. Water and haze are
    bluer, so this is a doubt and no more.

    Args:
        are_named: all bands have names, or somebody stated them: then dates that disagree alone are a ground for a doubt.
    """
    redness = {role: _redness(picture) for role, (picture, _) in pictures.items()}
    mean = {role: float(redness[role][holds].mean()) for role, (_, holds) in pictures.items() if holds.any()}
    blue = [role for role, value in mean.items() if value < 0]
    if len(mean) == 2 and len(blue) == 1 and abs(mean["pre"] - mean["post"]) > MUCH_BLUER:
        both = pictures["pre"][1] & pictures["post"][1]
        if both.any() and not np.corrcoef(redness["pre"][both], redness["post"][both])[0, 1] > MOST_ALIKE:
            return [
                f"Red and blue seem to be exchanged in the {blue[0]} scenes: what is red at one date is blue at the "
                "other. Compare the dates, and replace the scene that looks wrong, with its bands stated (--bands 3,2,1)."
            ]
    if mean and not are_named and len(blue) == len(mean) and max(mean.values()) < -MUCH_BLUER:
        return [
            "All scenes are bluer than land usually is. If roofs and soil look blue, replace the scenes with their bands "
            "stated (--bands 3,2,1)."
        ]
    return []


def _redness(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how much redder than blue each pixel is, -1 to 1."""
    red, green, blue = np.moveaxis(picture.astype(np.float32), 2, 0)
    return np.asarray((red - blue) / (red + green + blue + 1))


def cover(pictures: Pictures) -> float:
    """Return the share of the pixels with data after the event that have data before it, too, 0..1; 0 without any."""
    before, after = (pictures[role][1] for role in ("pre", "post"))
    return int((before & after).sum()) / max(int(after.sum()), 1)
