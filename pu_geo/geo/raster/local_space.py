"""Projects without a place on the Earth: pictures whose pixel size a person states, laid over one another.

Coordinates are local meters: 0, 0 is the upper left corner of the picture, x runs to the right, y upwards, so that all of
the picture lies at y <= 0. Outlines: see `local_outlines`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import rasterio

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.checks import MAX_GSD_M, MIN_GSD_M
from pu_geo.geo.raster.places import Place, has_world_file
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Scene

PLACE = "no place: local coordinates"
MAX_EXTENT_MISFIT = 0.01  # by how much two pictures of the same ground may differ in the width that was stated


def local_place(source: rasterio.DatasetReader, path: Path, pixel_m: float) -> Place:
    """Return the place of a picture that has none: local meters by the size of a pixel that a person stated.

    Raises:
        ImageryError: kind "local" if the picture has a place, "geotransform" if pixels cannot be of that size.
    """
    if not MIN_GSD_M <= pixel_m <= MAX_GSD_M:  # False for NaN too
        raise ImageryError(
            f"Pixels of {pixel_m:g} m cannot be used; from {MIN_GSD_M} to {MAX_GSD_M:.0f} m can.",
            "State the size of one pixel on the ground in meters, such as 0.5.",
            kind="geotransform",
        )
    if source.crs or source.gcps[0] or not source.transform.is_identity or has_world_file(path):
        raise ImageryError(
            f"{path.name} has a georeference of its own; a pixel size is stated for pictures without one.",
            "Leave the pixel size away, and add it with its coordinate system.",
            kind="local",
        )
    return Place(systems.LOCAL, (pixel_m, 0.0, 0.0, 0.0, -pixel_m, 0.0), PLACE)


def laid_over(known: Sequence[Scene], new: Sequence[Scene]) -> list[Scene]:
    """Return new scenes ready for a project that holds `known` ones: those without a place laid over one another.

    The post picture sets the size of the ground; where it comes together with a pre picture, the stated pixel size is that of
    the post picture and the other's follows. A scene that comes later must agree with the ground within 1 %.

    Raises:
        ImageryError: kind "local" if some scenes have a place and others none, if there are two pictures of one date, or if
            two pictures cannot show the same ground.
    """
    everything = [*known, *new]
    local = [scene for scene in everything if systems.is_local(scene.crs)]
    if not local:
        return list(new)
    placed = next((scene for scene in everything if not systems.is_local(scene.crs)), None)
    if placed is not None:
        raise _refusal(
            f"{_name(placed)} has a place on the Earth and {_name(local[0])} has none; they cannot be laid over one another.",
            "Make a project for each, or give both a georeference.",
        )
    roles = [scene.role for scene in local]
    if len(set(roles)) < len(roles):
        twice = "post" if roles.count("post") > 1 else "pre"
        raise _refusal(
            f"There is more than one {twice} picture without a place; nothing says how they lie beside one another.",
            "Join them to one picture, or give them a georeference.",
        )
    ground = known[0] if known else next((scene for scene in new if scene.role == "post"), new[0])
    return [scene if scene is ground else _fitted(scene, ground, is_stated=bool(known)) for scene in new]


def _fitted(scene: Scene, ground: Scene, *, is_stated: bool) -> Scene:
    """Stretch a picture over the same ground as another, if their shapes say that it may show it."""
    width_m, height_m = ground.width * ground.transform[0], -ground.height * ground.transform[4]
    other_height = scene.width * ground.height / ground.width
    if abs(other_height - scene.height) >= max(1.0, scene.width / ground.width):
        raise _refusal(
            f"{_name(scene)} has {scene.width} x {scene.height} pixels and {_name(ground)} {ground.width} x {ground.height}: "
            "pictures of one piece of ground have the same ratio of width to height.",
            "Cut them to the same piece of ground, corner to corner.",
        )
    stated_m = scene.width * scene.transform[0]
    if is_stated and abs(stated_m / width_m - 1) > MAX_EXTENT_MISFIT:
        raise _refusal(
            f"{_name(scene)} would be {stated_m:,.1f} m wide, and {_name(ground)} is {width_m:,.1f} m wide.",
            f"State pixels of {width_m / scene.width:.4g} m if both show the same piece of ground.",
        )
    a, e = width_m / scene.width, -height_m / scene.height
    return replace(scene, transform=(a, 0.0, 0.0, 0.0, e, 0.0), gsd_m=math.sqrt(-a * e))


def _name(scene: Scene) -> str:
    return Path(scene.path).name


def _refusal(problem: str, hint: str) -> ImageryError:
    return ImageryError(problem, hint, kind="local")
