"""Coordinate systems: their names, their metres, and ways from one to another. Longitude, easting and x come first."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pyproj import CRS, Geod, Transformer
from pyproj.aoi import AreaOfInterest
from pyproj.exceptions import CRSError, ProjError
from pyproj.transformer import TransformerGroup

from pu_geo.errors import ImageryError
from pu_geo.records import Grid
from pu_geo.wording import short_crs

LONLAT = "OGC:CRS84"
# Of projects without a place on the Earth. Stored in them: this text is never changed.
LOCAL = (
    'ENGCRS["Local meters of a picture without a place",EDATUM["Upper left corner of the picture"],CS[Cartesian,2],'
    'AXIS["x to the right",east],AXIS["y up",north],LENGTHUNIT["metre",1]]'
)
_GEOD = Geod(ellps="WGS84")
_SAFE_NAME = re.compile(r"^(?:urn:ogc:def:crs:)?(EPSG|OGC|ESRI)(?::[0-9.]*)?:([A-Za-z0-9]+)$", re.IGNORECASE)
_GRID_FILE = re.compile(r'PARAMETERFILE|"PROJ4_GRIDS"\s*,\s*"(?!@null")', re.IGNORECASE)
_PROJ_TEXT = re.compile(r'PROJ CRS string:|EXTENSION\s*[\[(]\s*"PROJ4"', re.IGNORECASE)
_PROJ_FILE = re.compile(r'(?:grids|init|model|file|catalog)\s*=(?!@null[\s"])', re.IGNORECASE)
NEAR_DEGREES = 0.01
DOUBTFUL_M = 5.0  # half a house: conversions that may be off by as much are said
_NEAR_ONE = 0.003  # UTM's scale is 0.9996 to 1.001 inside its zone: there, a map metre is called a metre


@lru_cache(maxsize=64)
def load_crs(text: str) -> CRS:
    """Turn "EPSG:n" or WKT into a pyproj CRS; never fetches anything, and takes none that names a file.

    Raises:
        ValueError: if the text is neither, or is not known.
    """
    try:
        match = _SAFE_NAME.match(text.strip())
        if match:
            return CRS.from_authority(match[1].upper(), match[2])
        if names_a_file(text):
            raise ValueError(f"{text[:60]!r} asks for a file with a grid, which is not opened.")
        return CRS.from_wkt(text)
    except CRSError as error:
        raise ValueError(f"{text[:60]!r} is not a known coordinate system.") from error


def names_a_file(wkt: str) -> bool:
    """Return whether WKT asks for a grid or a model, which PROJ would open by its path; "@null" stands for none."""
    extension = _PROJ_TEXT.search(wkt)
    return bool(_GRID_FILE.search(wkt) or (extension and _PROJ_FILE.search(wkt, extension.end())))


def name_of(crs: CRS) -> str:
    """Return "EPSG:n" where the code stands for exactly this system, otherwise WKT."""
    code = crs.to_epsg(min_confidence=70)
    if code is not None and CRS.from_epsg(code).equals(crs, ignore_axis_order=True):
        return f"EPSG:{code}"
    return str(crs.to_wkt())


def is_local(source: str) -> bool:
    """Return whether this is the system of projects without a place on the Earth; see `local_space`."""
    return source == LOCAL


def _check_on_earth(*sources: str) -> None:
    if any(map(is_local, sources)):
        raise ImageryError(
            "This project has no place on the Earth: its pictures came without a georeference, and its coordinates are "
            "local meters. This step needs longitude and latitude.",
            "Make a project from scenes with a georeference for it.",
            kind="local",
        )


@lru_cache(maxsize=64)
def transformer(source: str, target: str) -> Transformer:
    """Return the way from one CRS to another, x before y on both sides; each CRS as "EPSG:n", "OGC:CRS84" or WKT."""
    return Transformer.from_crs(load_crs(source), load_crs(target), always_xy=True)


def convert(xy: NDArray[np.float64], source: str, target: str) -> NDArray[np.float64]:
    """Convert coordinates, float [N, 2]; what cannot be converted comes back as infinity.

    Raises:
        ImageryError: kind "local" if one of the two is the system of projects without a place, and the other is not.
    """
    if len(xy) == 0 or source == target:
        return xy
    _check_on_earth(source, target)
    x, y = transformer(source, target).transform(xy[:, 0], xy[:, 1])
    return np.stack([x, y], axis=-1)


def doubt_of(source: str, target: str, xy: NDArray[np.float64]) -> str:
    """Return how far off a conversion may be, in a clause; "" where it is as good as the numbers.

    Args:
        xy: some places in `source`, float64 [N, 2].
    """
    if source == target or is_local(source) or is_local(target) or not len(xy):
        return ""
    lonlat = to_lonlat(xy, source)
    lonlat = lonlat[np.isfinite(lonlat).all(axis=1)]
    if not len(lonlat):
        return ""
    box = AreaOfInterest(*(lonlat.min(axis=0) - NEAR_DEGREES).tolist(), *(lonlat.max(axis=0) + NEAR_DEGREES).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of grids that are missing, which is said below
        ways = TransformerGroup(load_crs(source), load_crs(target), always_xy=True, area_of_interest=box)  # type: ignore[arg-type]  # as documented
    accuracy_m = next((way.accuracy for way in ways.transformers if way.accuracy >= 0), -1.0)
    is_alike = load_crs(source).geodetic_crs is not None and "China 2000" in str(
        load_crs(source).datum
    )  # as WGS 84, within decimeters
    if 0 <= accuracy_m < DOUBTFUL_M or is_alike:
        return ""
    grids = [grid.short_name for way in ways.unavailable_operations[:1] for grid in way.grids]
    better = f"; the grid {grids[0]}, which would do better, is not installed" if grids else ""
    how = f"within {accuracy_m:.0f} m alone" if accuracy_m >= 0 else "without a known accuracy"
    return (
        f"its coordinate system, {short_crs(source)}, is converted into {short_crs(target)} {how}{better}. Check it "
        "against the scenes."
    )


def to_lonlat(xy: NDArray[np.float64], source: str) -> NDArray[np.float64]:
    """Convert coordinates in `source`, float [N, 2], to WGS 84 longitude and latitude in degrees (CRS84).

    Longitudes of geographic systems may leave -180..180 (a scene across the antimeridian); they are kept as they are.

    Raises:
        ImageryError: kind "local" in a project without a place.
    """
    _check_on_earth(source)
    if load_crs(source).is_geographic:
        rounds = np.round(xy[:, 0] / 360.0) * 360.0
        inside = convert(np.stack([xy[:, 0] - rounds, xy[:, 1]], axis=-1), source, LONLAT)
        inside[:, 0] += rounds + 360.0 * np.round((xy[:, 0] - rounds - inside[:, 0]) / 360.0)
        return inside
    return convert(xy, source, LONLAT)


def lonlat_nodes(grid: Grid, n: int = 5) -> NDArray[np.float64] | None:
    """Return longitude and latitude of n x n nodes, float64 [n, n, 2], rows from the top, evenly spread over the grid.

    A polynomial through them gives those of any place of the grid: with 5 x 5, to a centimeter over 60 km in UTM, which is
    what the browser shows beside its pixels. Longitudes have no jump at 180 degrees. None where the project has no place on
    the Earth, or a node has none.
    """
    if not grid.has_place:
        return None
    a, _, c, _, e, f = grid.transform
    columns, rows = np.meshgrid(np.linspace(0, grid.width, n), np.linspace(0, grid.height, n))
    nodes = to_lonlat(np.stack([c + a * columns.ravel(), f + e * rows.ravel()], axis=-1), grid.crs)
    if not np.isfinite(nodes).all():
        return None
    nodes[:, 0] = near_longitude(nodes[:, 0], nodes[0, 0])
    return nodes.reshape(n, n, 2)


def middle_of(grid: Grid) -> NDArray[np.float64]:
    """Return the middle of the grid, of its first site where there are several, in the project CRS, float64 [1, 2]."""
    one = grid.parts[0]
    a, _, c, _, e, f = one.transform
    return convert(np.array([[c + a * one.width / 2, f + e * one.height / 2]]), one.crs, grid.crs)


def to_project(xy: NDArray[np.float64], source: str, grid: Grid) -> NDArray[np.float64]:
    """Convert to the project CRS, float [N, 2]; in degrees, also move longitudes to the grid's side of the antimeridian."""
    out = np.array(convert(xy, source, grid.crs))
    if load_crs(grid.crs).is_geographic and len(out):
        out[:, 0] = near_longitude(out[:, 0], middle_of(grid)[0, 0])
    return out


def unit_metres(source: str, x: float, y: float, step: float) -> tuple[float, float]:
    """Measure how many metres on the ground one unit of `source` has along x and along y at a place.

    Args:
        step: length of the measured stretch, in units of `source`; about the size of a scene or a pixel.

    Returns:
        (x_unit_m, y_unit_m). Exactly the system's own unit (1.0 for UTM) where the ground differs by less than 0.3 %;
        NaN where the place is outside the system's domain.
    """
    if is_local(source):
        return 1.0, 1.0
    here = np.array([[x - step / 2, y], [x + step / 2, y], [x, y - step / 2], [x, y + step / 2]])
    lon, lat = to_lonlat(here, source).T
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        return float("nan"), float("nan")
    _, _, metres = _GEOD.inv(lon[[0, 2]], lat[[0, 2]], lon[[1, 3]], lat[[1, 3]])
    crs = load_crs(source)
    nominal = 0.0 if crs.is_geographic else float(crs.axis_info[0].unit_conversion_factor)
    units = [float(metre) / step for metre in metres]
    near = nominal > 0 and all(abs(unit / nominal - 1) < _NEAR_ONE for unit in units)
    return (nominal, nominal) if near else (units[0], units[1])


def equal_area(lon: float, lat: float) -> str:
    """Return the WKT of an equal-area system in metres around a place, given in degrees."""
    text = f"+proj=laea +lat_0={lat:.6f} +lon_0={lon:.6f} +datum=WGS84 +units=m +type=crs"
    return str(CRS.from_proj4(text).to_wkt())


def known_crs(text: str) -> str:
    """Return the name of a system given as such or as WKT, "EPSG:n" or WKT; of a compound one, of its horizontal part.

    Raises:
        ValueError: if it is not known, or cannot be converted to WGS 84 longitude and latitude.
    """
    crs = load_crs(text)
    crs = crs.sub_crs_list[0] if crs.is_compound else crs
    try:
        name = name_of(crs)
        if crs.is_geographic or crs.is_projected:
            transformer(name, LONLAT)
            return name
    except ProjError as error:
        raise ValueError(f"{text[:60]!r} cannot be converted to longitude and latitude.") from error
    raise ValueError(f"{text[:60]!r} has no place on the Earth.")


def outline(corners: NDArray[np.float64], n: int = 21) -> NDArray[np.float64]:
    """Return a polygon with `n` points on every side, float [K, 2] without its closing point, as float [K * n, 2]."""
    share = np.linspace(0.0, 1.0, n, endpoint=False)[:, None]
    following = np.roll(corners, -1, axis=0)
    return np.concatenate([a + share * (b - a) for a, b in zip(corners, following, strict=True)])


def near_longitude(lon: NDArray[np.float64], center: float) -> NDArray[np.float64]:
    """Move longitudes in degrees by multiples of 360 until they are within 180 degrees of `center`."""
    return np.asarray(lon - 360.0 * np.round((lon - center) / 360.0))
