"""xBD labels: building polygons given in pixels and in longitude/latitude, which place the picture they belong to.

Source: Gupta et al. 2019, "xBD: A Dataset for Assessing Building Damage from Satellite Imagery": pairs
NAME_pre_disaster.png and NAME_post_disaster.png under images/, with labels of the same stems, .json, under labels/. The
pictures carry no georeference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ImageryError
from pu_geo.geo.readers.raw_footprints import RawFootprints
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Affine6

MAX_LABEL_BYTES = 50_000_000
MIN_POINTS, MAX_RESIDUAL_PX = 4, 1.0
_NORTH_UP_PX = 0.05  # a picture turned by less over its whole width is called north-up, as it is in truth
_PLAIN_WKT = re.compile(r"(MULTI)?POLYGON[\sZ]*\([-+0-9eE., ()]*\)")  # no nesting that GEOS would read by recursion


@dataclass(frozen=True)
class XbdFolder:
    """What lies in an xBD folder: pictures of both dates, and the labels of the post pictures with their damage."""

    pre: Sequence[Path]
    post: Sequence[Path]
    labels: Sequence[Path]


@dataclass(frozen=True)
class XbdPlace:
    """Where a picture lies, fitted to its labels.

    Attributes:
        crs: the UTM zone of WGS 84, "EPSG:n".
        n_polygons, residual_px: from how many polygons, and how far they miss it, 95th percentile in pixels.
        date: ISO 8601 date of acquisition, None where the labels hold none.
    """

    crs: str
    transform: Affine6
    n_polygons: int
    residual_px: float
    date: str | None


def find_xbd(folder: Path) -> XbdFolder:
    """List the pairs of an xBD folder: images/ and labels/, or all in one; a picture without its labels is left out.

    Raises:
        ImageryError: kind "empty" if there is no post picture with labels.
    """
    pictures = [path for part in (folder, folder / "images") for path in sorted(part.glob("*_disaster.png"))]
    labels = {picture: beside for picture in pictures if (beside := labels_of(picture))}
    pre, post = ([path for path in labels if path.stem.endswith(f"{role}_disaster")] for role in ("pre", "post"))
    if not post:
        raise ImageryError(
            f"{folder.name} holds no xBD picture *_post_disaster.png with its labels .json.",
            "Choose the folder that holds images/ and labels/.",
            kind="empty",
        )
    return XbdFolder(pre, post, [labels[picture] for picture in post])


def labels_of(picture: Path) -> Path | None:
    """Return the labels of a picture, beside it or in ../labels, None if there are none."""
    for folder in (picture.parent, picture.parent.parent / "labels"):
        if (path := folder / f"{picture.stem}.json").is_file() and path.stat().st_size <= MAX_LABEL_BYTES:
            return path
    return None


def is_xbd(root: object) -> bool:
    """Return whether a JSON document is an xBD label file."""
    features = root.get("features") if isinstance(root, dict) else None
    return isinstance(features, dict) and isinstance(features.get("lng_lat"), list) and isinstance(features.get("xy"), list)


def footprints_of(root: Mapping[str, Mapping[str, Sequence[object]]], *, in_pixels: bool = False) -> RawFootprints:
    """Return the buildings of an xBD label file; `damage` is their subtype, where they have one.

    Args:
        in_pixels: in pixels of their picture, `crs.LOCAL`; in longitude/latitude otherwise.
    """
    rows = [row if isinstance(row, dict) else {} for row in root["features"]["xy" if in_pixels else "lng_lat"]]
    geometries = _shapes([row.get("wkt") for row in rows])
    attributes = []
    for row in rows:
        properties = row.get("properties")
        properties = dict(properties) if isinstance(properties, dict) else {}
        if "subtype" in properties:
            properties["damage"] = properties.pop("subtype")
        attributes.append(properties)
    crs = systems.LOCAL if in_pixels else systems.LONLAT
    return RawFootprints(geometries, shapely.is_missing(geometries), attributes, [None] * len(rows), crs)


def place_of(labels: Path, name: str) -> XbdPlace:
    """Fit a picture's place to its labels: an affine map from pixels to the UTM zone, by least squares.

    Args:
        labels: a JSON file of at most 50 MB.

    Raises:
        ImageryError: kind "geotransform" if the labels are damaged, too few, or do not fit one affine map to a pixel.
    """
    try:
        root = orjson.loads(labels.read_bytes())
    except (orjson.JSONDecodeError, OSError) as cause:
        raise _no_place(name, f"its labels {labels.name} are damaged ({cause})") from cause
    if not is_xbd(root):
        raise _no_place(name, f"{labels.name} beside it holds no xBD labels")
    xy, lonlat, n_polygons = _pairs(root["features"]["xy"], root["features"]["lng_lat"])
    if n_polygons == 0 or np.linalg.matrix_rank(xy - xy.mean(axis=0), tol=MIN_POINTS) < 2:
        raise _no_place(name, f"its labels have {n_polygons} buildings, too few to place it")
    lon, lat = lonlat.mean(axis=0)
    if not (abs(lonlat) <= [180, 90]).all():
        raise _no_place(name, "its labels have coordinates that are no longitude and latitude")
    crs = f"EPSG:{32600 + 100 * int(lat < 0) + int((lon + 180) // 6) % 60 + 1}"
    transform, residual_px = _fit(xy, systems.convert(lonlat, systems.LONLAT, crs))
    if not residual_px <= MAX_RESIDUAL_PX:
        raise _no_place(
            name, f"its {n_polygons} labels miss one another by {residual_px:.1f} pixels, more than {MAX_RESIDUAL_PX:g}"
        )
    metadata = root.get("metadata")
    date = str(metadata.get("capture_date"))[:10] if isinstance(metadata, dict) else ""
    return XbdPlace(crs, transform, n_polygons, residual_px, date if re.fullmatch(r"\d{4}-[01]\d-[0-3]\d", date) else None)


def _no_place(name: str, why: str) -> ImageryError:
    return ImageryError(
        f"{name} has no georeference of its own, and {why}.", "Choose a GeoTIFF of the same scene.", kind="geotransform"
    )


def _shapes(texts: Sequence[object]) -> NDArray[np.object_]:
    """Read polygons of WKT; None where a text is none."""
    plain = [text if isinstance(text, str) and _PLAIN_WKT.fullmatch(text.strip()) else None for text in texts]
    with np.errstate(over="ignore"):  # 1e999 becomes infinite, which is refused later
        return np.asarray(shapely.from_wkt(np.array(plain, dtype=object), on_invalid="ignore"))


def _pairs(
    in_pixels: Sequence[object], in_degrees: Sequence[object]
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return corners of the same buildings in pixels and in degrees, float [K, 2] each, and the number of buildings."""
    by_uid: list[dict[str, shapely.Geometry]] = []
    for rows in (in_pixels, in_degrees):
        known = [row for row in rows if isinstance(row, dict) and isinstance(row.get("properties"), dict)]
        shapes = _shapes([row.get("wkt") for row in known])
        uids = [str(row["properties"].get("uid")) for row in known]
        by_uid.append({uid: shapely.force_2d(shape) for uid, shape in zip(uids, shapes, strict=True) if shape is not None})
    xy, lonlat = [np.empty((0, 2))], [np.empty((0, 2))]
    for uid, shape in by_uid[0].items():
        corners = shapely.get_coordinates(shape)
        others = shapely.get_coordinates(by_uid[1].get(uid))
        # A building cut off at the picture's border may have other corners in pixels.
        if len(corners) == len(others) and np.isfinite(corners).all() and np.isfinite(others).all():
            xy.append(corners)
            lonlat.append(others)
    return np.concatenate(xy), np.concatenate(lonlat), len(xy) - 1


def _fit(xy: NDArray[np.float64], target: NDArray[np.float64]) -> tuple[Affine6, float]:
    """Fit target = A xy + t; returns it and the 95th percentile of what is left, in pixels."""
    center, middle = xy.mean(axis=0), target.mean(axis=0)
    matrix = np.linalg.lstsq(xy - center, target - middle, rcond=None)[0].T
    pixel = np.sqrt(abs(np.linalg.det(matrix)))
    if pixel == 0 or not np.isfinite(pixel):
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), float("inf")
    far = np.abs(xy).max()
    if max(abs(matrix[0, 1]), abs(matrix[1, 0])) * far < _NORTH_UP_PX * pixel:
        matrix = np.diag(np.diag(matrix))
    start = middle - matrix @ center
    missed = np.hypot(*(xy @ matrix.T + start - target).T) / pixel
    (a, b), (d, e) = matrix.tolist()
    return (a, b, float(start[0]), d, e, float(start[1])), float(np.percentile(missed, 95))
