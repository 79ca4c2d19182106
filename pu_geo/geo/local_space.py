"""Projects without a place on the Earth: everything in geo that differs for them.

A person states the size of a pixel, and pictures of two dates are laid over one another. Coordinates are local meters in the
system `crs.LOCAL`: 0, 0 is the upper left corner of the picture, x runs to the right, y upwards, so that all of the picture
lies at y <= 0. Outlines come in pixels of the post picture; maps leave in local meters, in formats that can state it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo.export.geometry import DECIMALS, to_crs84
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.crs import is_local
from pu_geo.records import Affine6, Grid, Scene

PLACE = "no place: local coordinates"
GROUND = "the post picture"
MAX_EXTENT_MISFIT = 0.01  # by how much two pictures of the same ground may differ in the width that was stated
CONVENTION = "in pixels of the post picture: x to the right, y down, 0, 0 its upper left corner"
LOCAL_FORMATS = ("gpkg", "csv")
COORDINATES = (
    "Local coordinates in meters from the upper left corner of the post picture, x to the right, y up. "
    "Not WGS 84: this map has no place on the Earth."
)


# Pictures


def local_transform(name: str, pixel_m: float, allowed_m: tuple[float, float], *, is_placed: bool) -> Affine6:
    """Return the transform of a picture without a place, by the size of a pixel that a person stated, meters.

    Args:
        allowed_m: the smallest and the largest pixel that can be used.

    Raises:
        ImageryError: kind "local" if the picture has a place, "geotransform" if pixels cannot be of that size.
    """
    least, most = allowed_m
    if not least <= pixel_m <= most:  # False for NaN too
        raise ImageryError(
            f"Pixels of {pixel_m:g} m cannot be used; from {least} to {most:.0f} m can.",
            "State the size of one pixel on the ground in meters, such as 0.5.",
            kind="geotransform",
        )
    if is_placed:
        raise _refusal(
            f"{name} has a georeference of its own; a pixel size is stated for pictures without one.",
            "Leave the pixel size away, and add it with its coordinate system.",
        )
    return (pixel_m, 0.0, 0.0, 0.0, -pixel_m, 0.0)


def laid_over(known: Sequence[Scene], new: Sequence[Scene]) -> list[Scene]:
    """Return new scenes ready for a project that holds `known` ones: those without a place laid over one another.

    The post picture sets the size of the ground; where it comes together with a pre picture, the stated pixel size is that
    of the post picture and the other's follows. A scene that comes later must agree with the ground within 1 %.

    Raises:
        ImageryError: kind "local" if some scenes have a place and others none, if there are two pictures of one date, or if
            two pictures cannot show the same ground.
    """
    everything = [*known, *new]
    local = [scene for scene in everything if is_local(scene.crs)]
    if not local:
        return list(new)
    placed = next((scene for scene in everything if not is_local(scene.crs)), None)
    if placed is not None:
        raise _refusal(
            f"{_name(placed)} has a place on the Earth and {_name(local[0])} has none; they cannot be laid over one "
            "another.",
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


def over_ground(scene: Scene, grid: Grid) -> Scene:
    """Return a picture of a layer laid over the ground of a project without a place, corner to corner.

    Raises:
        ImageryError: kind "local" if its shape does not allow it.
    """
    ground = replace(scene, path=GROUND, transform=grid.transform, width=grid.width, height=grid.height)
    return _fitted(scene, ground, is_stated=False)


def _fitted(scene: Scene, ground: Scene, *, is_stated: bool) -> Scene:
    """Stretch a picture over the same ground as another, if their shapes allow it."""
    width_m, height_m = ground.width * ground.transform[0], -ground.height * ground.transform[4]
    other_height = scene.width * ground.height / ground.width
    if abs(other_height - scene.height) >= max(1.0, scene.width / ground.width):
        raise _refusal(
            f"{_name(scene)} has {scene.width} x {scene.height} pixels and {_name(ground)} {ground.width} x "
            f"{ground.height}: "
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


# Outlines


def from_pixels(shapes: NDArray[np.object_], crs: str, name: str, grid: Grid) -> NDArray[np.object_]:
    """Convert outlines in pixels of the post picture into local meters; None stays None.

    Args:
        shapes: shapely [N], x to the right and y down.
        crs: of the file; anything but `systems.LOCAL` is refused.

    Raises:
        FootprintError: kind "local" if they are in a system on the Earth, or look like degrees; "outside" if all of them lie
            beside the picture.
    """
    if not is_local(crs):
        raise FootprintError(
            f"{name} is in {crs[:40]}, and this project has no place on the Earth.",
            f"Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="local",
        )
    x0, y0, x1, y1 = shapely.bounds(shapes[~shapely.is_missing(shapes)]).T
    if len(x0) and np.median(np.maximum(x1 - x0, y1 - y0)) < 1:
        raise FootprintError(
            f"Most outlines in {name} are smaller than a pixel; they look like degrees of longitude and latitude.",
            f"This project has no place on the Earth. Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="local",
        )
    if len(x0) and not ((x1 > 0) & (x0 < grid.width) & (y1 > 0) & (y0 < grid.height)).any():
        raise FootprintError(
            f"None of the outlines in {name} lies on the post picture of {grid.width} x {grid.height} pixels. They are at "
            f"x {x0.min():.6g} to {x1.max():.6g}, y {y0.min():.6g} to {y1.max():.6g}.",
            f"This project has no place on the Earth. Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="outside",
        )
    a, _, c, _, e, f = grid.transform
    return np.asarray(shapely.transform(shapes, lambda xy: np.stack([c + a * xy[:, 0], f + e * xy[:, 1]], axis=-1)))


# Exports


def check_coordinates(crs: str, formats: Sequence[str], *, local: bool) -> None:
    """Refuse an export that would be taken for a map of some place on the Earth.

    Args:
        local: whether a person asked that the map shall be written in local coordinates.

    Raises:
        ImageryError: kind "local" in a project without a place, unless `local` and a format that can state it; and where
            `local` is asked of a project that has a place.
    """
    if not is_local(crs):
        if local:
            raise _refusal(
                "This project has a place on the Earth; its maps are written in longitude and latitude.",
                "Leave local coordinates away.",
            )
        return
    check_format(crs, *formats)
    if not local:
        raise _refusal(
            "This project has no place on the Earth, so its map cannot be laid over others.",
            "Say that you want it nevertheless, in local meters: tick Local coordinates, or add --local-coordinates.",
        )


def check_format(crs: str, *formats: str) -> None:
    """Refuse formats that readers take for longitude and latitude, whatever is written beside."""
    wrong = [name for name in formats if name not in LOCAL_FORMATS]
    if is_local(crs) and wrong:
        raise _refusal(
            f"A map without a place on the Earth cannot be written as {', '.join(wrong)}: its readers expect longitude and "
            "latitude, and would put it somewhere else.",
            f"Choose {' or '.join(LOCAL_FORMATS)}.",
        )


def place_names(crs: str) -> tuple[str, str]:
    """Return the names of the two columns that hold a place: "lon" and "lat", or "x_m" and "y_m"."""
    return ("x_m", "y_m") if is_local(crs) else ("lon", "lat")


def centroid_places(wkb: Sequence[bytes], crs: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centroids of footprints, float64 [N] each: longitude and latitude of WGS 84 in
    degrees, rounded to 6 decimals, or x and y rounded to centimeters.

    Args:
        wkb: footprints in `crs`, "EPSG:n" or WKT.
    """
    found = shapely.centroid(shapely.from_wkb(np.array(list(wkb), dtype=object)))
    x, y = _placed(np.stack([shapely.get_x(found), shapely.get_y(found)], axis=-1).reshape(-1, 2), crs, 6).T
    return x, y


def points_inside(wkb: Sequence[bytes], crs: str) -> NDArray[np.float64]:
    """Return a point inside each footprint, float64 [N, 2]: longitude and latitude of WGS 84, rounded to 7 decimals.

    In a project without a place on the Earth, x and y in local meters.

    Args:
        wkb: footprints in `crs`, "EPSG:n" or WKT.
    """
    inside = shapely.get_coordinates(shapely.point_on_surface(shapely.from_wkb(np.array(list(wkb), dtype=object))))
    return _placed(inside, crs, DECIMALS)


def _placed(xy: NDArray[np.float64], crs: str, decimals: int) -> NDArray[np.float64]:
    """Return points of a project as exports have them: degrees with so many decimals, or local meters to the centimeter."""
    if is_local(crs):
        return np.round(xy, 2)
    points = systems.to_lonlat(xy, crs)
    points[:, 0] = systems.near_longitude(points[:, 0], 0.0)
    return np.round(points, decimals)


def export_shapes(wkb: Sequence[bytes], crs: str) -> NDArray[np.object_]:
    """Return footprints as exports carry them, shapely [N]: as `to_crs84` does, or in local meters as they are."""
    if not is_local(crs):
        return to_crs84(wkb, crs)
    return np.asarray(shapely.force_2d(shapely.from_wkb(np.array(list(wkb), dtype=object))))
