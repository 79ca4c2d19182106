"""The map of a printed report: the scene in grey, with buildings colored by triage or, where they are many, cells of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.geo import crs as systems
from pu_geo.geo.export_styles import LOOKS, Look
from pu_geo.geo.quicklooks import NO_DATA_GREY
from pu_geo.records import DamageMap, Grid

LONG_SIDE_PX = 1600
MOST_OUTLINES = 12_000  # one building in 200 pixels; beyond it outlines run into blots where a town is dense
SMALLEST_MARK_PX = 6.0  # half a millimeter in print
CELL_PX = 18.0
MARKED = ("confirmed", "flagged", "high_precision")
_DRAWN_FIRST_TO_LAST = ("below", "not_assessed", "high_recall", "flagged", "high_precision", "confirmed")
_RAMP = ("#FEE391", "#FE9929", "#CC4C02", "#662506")  # YlOrBr of ColorBrewer: told apart by every eye, and in grey
_DARKEST, _LIGHTEST = 90, 240  # of the scene: colors and black lines must stand out from it
_NODATA_NEAR, _NODATA_SIDE_PX = 3, 9  # a real picture has no area of this size in exactly this grey
_SHIFT = 4  # cv2 draws with coordinates in sixteenths of a pixel
_INK = (40, 40, 40)
_FARTHEST_PX = 20_000.0

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class LegendRow:
    """One mark of the map: its color "#rrggbb" and words. A "hatch" is in dark lines, an "outline" has no fill."""

    color: str
    words: str
    kind: str = "fill"


@dataclass(frozen=True)
class MapPicture:
    """A map of the whole grid, as square on the ground as on paper.

    Attributes:
        data: the file, JPEG with a background, PNG without.
        width, height: pixels; the longer is 1,600.
        m_per_px: meters on the ground.
        north_deg: where true north is at the center, degrees clockwise from up.
        corners: (longitude, latitude) in degrees WGS 84: upper left, upper right, lower left, lower right; NaN where the
            project CRS does not reach.
        cell_m: side of a cell in meters; None where buildings are drawn one by one.
        has_scene: whether a background was there.
    """

    data: bytes
    media_type: str
    width: int
    height: int
    m_per_px: float
    north_deg: float
    corners: tuple[tuple[float, float], ...]
    legend: tuple[LegendRow, ...]
    cell_m: float | None
    has_scene: bool


@dataclass(frozen=True)
class _Frame:
    """How pixels of the grid become pixels of the map."""

    grid: Grid
    width: int
    height: int
    m_per_px: float

    @property
    def scale(self) -> NDArray[np.float64]:
        return np.array([self.width / self.grid.width, self.height / self.grid.height])

    def to_map(self, xy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.grid.to_px(xy) * self.scale)


def draw_map(damage_map: DamageMap, grid: Grid, background: Path | None) -> MapPicture:
    """Draw the map of a report.

    Args:
        damage_map: needs the column `triage`; its outlines are in the grid's CRS.
        grid: of the project; all of it is drawn.
        background: folder of a tile pyramid of this grid, see `geo.quicklooks`; plain white where there is none.

    Raises:
        ValueError: if the pyramid belongs to a grid of another size.
    """
    frame = _frame(grid)
    scene = None if background is None else _scene(background, frame)
    picture = np.full((frame.height, frame.width, 3), 255, np.uint8) if scene is None else scene
    triage = np.array([str(value) for value in damage_map.columns["triage"]], dtype=object)
    shapes = np.asarray(shapely.from_wkb(np.array(list(damage_map.wkb), dtype=object)))
    cell_m = None
    if len(triage) > MOST_OUTLINES:
        cell_m, legend = _draw_cells(picture, shapes, triage, frame)
    else:
        legend = _draw_buildings(picture, shapes, triage, frame)
    data, media_type = _encode(picture, is_photo=scene is not None)
    return MapPicture(
        data, media_type, frame.width, frame.height, frame.m_per_px, _north_deg(frame), _corners(grid), legend, cell_m,
        scene is not None,
    )  # fmt: skip


def _frame(grid: Grid) -> _Frame:
    a, _, _, _, e, _ = grid.transform
    width_m, height_m = grid.width * abs(a) * grid.x_unit_m, grid.height * abs(e) * grid.y_unit_m
    m_per_px = max(width_m, height_m) / LONG_SIDE_PX
    return _Frame(grid, max(1, round(width_m / m_per_px)), max(1, round(height_m / m_per_px)), m_per_px)


def _encode(picture: Picture, *, is_photo: bool) -> tuple[bytes, str]:
    name, options = ".png", [cv2.IMWRITE_PNG_COMPRESSION, 9]
    if is_photo:  # full color resolution: marks are a few pixels wide
        sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
        name, options = ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 85, *sampling]
    done, data = cv2.imencode(name, picture, options)
    if not done:
        raise ValueError(f"the map of {picture.shape} pixels could not be encoded as {name}.")
    return data.tobytes(), "image/jpeg" if is_photo else "image/png"


def _corners(grid: Grid) -> tuple[tuple[float, float], ...]:
    a, _, c, _, e, f = grid.transform
    right, bottom = c + a * grid.width, f + e * grid.height
    places = systems.to_lonlat(np.array([[c, f], [right, f], [c, bottom], [right, bottom]]), grid.crs)
    places[~np.isfinite(places).all(axis=1)] = np.nan
    lon = systems.near_longitude(places[:, 0], 0.0)
    return tuple((float(x), float(y)) for x, y in zip(lon, places[:, 1], strict=True))


def _north_deg(frame: _Frame) -> float:
    """Measure true north at the center; 0 where the CRS does not reach."""
    a, _, c, _, e, f = frame.grid.transform
    center = np.array([[c + a * frame.grid.width / 2, f + e * frame.grid.height / 2]])
    place = systems.to_lonlat(center, frame.grid.crs)
    if not np.isfinite(place).all():
        return 0.0
    step = -1e-4 if place[0, 1] > 89 else 1e-4
    ahead = systems.convert(place + [[0.0, step]], systems.LONLAT, frame.grid.crs)
    right, down = (frame.to_map(ahead) - frame.to_map(center))[0] * np.sign(step)
    return math.degrees(math.atan2(right, -down)) if np.isfinite(right + down) else 0.0


# The scene


def _scene(folder: Path, frame: _Frame) -> Picture | None:
    """Return the scene in grey, uint8 [height, width, 3], white where it has no data; None without a pyramid."""
    facts = folder / "pyramid.json"
    if not facts.is_file():
        return None
    pyramid = orjson.loads(facts.read_bytes())
    grid = frame.grid
    if (pyramid["width"], pyramid["height"]) != (grid.width, grid.height):
        raise ValueError(
            f"the pyramid is of {pyramid['width']} x {pyramid['height']} pixels, the grid of {grid.width} x {grid.height}."
        )
    finest_needed = 1.0 / frame.scale.max()
    zoom = next((z for z, px in enumerate(pyramid["resolutions"]) if px <= finest_needed), pyramid["max_zoom"])
    px = pyramid["resolutions"][zoom]
    grey, is_empty = _level(folder / str(zoom), pyramid["tile_px"], math.ceil(grid.width / px), math.ceil(grid.height / px))
    wide, high = (round(length * px * scale) for length, scale in zip(grey.shape[::-1], frame.scale, strict=True))
    if not is_empty.all():
        low, top = np.percentile(grey[~is_empty], [1, 99])
        share = np.clip((grey.astype(np.float32) - low) / max(top - low, 1.0), 0.0, 1.0)
        grey = (_DARKEST + (_LIGHTEST - _DARKEST) * share).astype(np.uint8)
    grey[is_empty] = 255
    fitted = cv2.resize(grey, (wide, high), interpolation=cv2.INTER_AREA if wide < grey.shape[1] else cv2.INTER_LINEAR)
    return np.repeat(fitted[: frame.height, : frame.width, None], 3, axis=2)


def _level(folder: Path, tile_px: int, width: int, height: int) -> tuple[Picture, NDArray[np.bool_]]:
    """Put the tiles of one zoom together: grey uint8 [height, width], and where there is no data."""
    across, down = -(-width // tile_px), -(-height // tile_px)
    grey = np.full((down * tile_px, across * tile_px), NO_DATA_GREY, np.uint8)
    is_empty = np.ones(grey.shape, np.bool_)
    for x in range(across):
        for y in range(down):
            path = folder / str(x) / f"{y}.jpg"
            data = np.frombuffer(path.read_bytes(), np.uint8) if path.is_file() else np.empty(0, np.uint8)
            tile = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
            if tile is not None and tile.shape[:2] == (tile_px, tile_px):
                part = np.s_[y * tile_px : (y + 1) * tile_px, x * tile_px : (x + 1) * tile_px]
                grey[part] = cv2.cvtColor(tile, cv2.COLOR_BGR2GRAY)
                is_empty[part] = (np.abs(tile.astype(np.int16) - NO_DATA_GREY) <= _NODATA_NEAR).all(axis=2)
    kernel = np.ones((_NODATA_SIDE_PX, _NODATA_SIDE_PX), np.uint8)
    opened = cv2.morphologyEx(is_empty.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0
    return grey[:height, :width], opened[:height, :width]


# Buildings one by one


def _draw_buildings(picture: Picture, shapes: NDArray[np.object_], triage: NDArray[np.object_], frame: _Frame) -> tuple[LegendRow, ...]:
    """Draw each building; what matters most comes last, so that nothing hides it."""
    looks = {look.triage: look for look in LOOKS}
    legend = []
    for value in _DRAWN_FIRST_TO_LAST:
        rows = np.flatnonzero(triage == value)
        if not len(rows):
            continue
        hatch = _hatch(picture.shape[:2]) if looks[value].is_hatched else None
        for rings in _rings_on_map(shapes[rows], frame):
            _draw_building(picture, rings, looks[value], hatch)
        legend.append(_legend_row(looks[value], len(rows)))
    return tuple(reversed(legend))


def _legend_row(look: Look, n: int) -> LegendRow:
    kind = "hatch" if look.is_hatched else "outline" if look.triage == "below" else "fill"
    kind = "heavy" if look.triage == "high_precision" else kind  # the same color as flagged, told apart by its edge
    return LegendRow(look.color, f"{look.label}: {n:,}", kind)


def _rings_on_map(shapes: NDArray[np.object_], frame: _Frame) -> Iterator[list[NDArray[np.float64]]]:
    """Return the rings of each building that reaches into the map, float [points, 2] in pixels of the map."""
    for shape in shapes:
        rings = [frame.to_map(shapely.get_coordinates(ring)) for ring in shapely.get_rings(shapely.get_parts(shape))]
        rings = [ring for ring in rings if len(ring) and np.isfinite(ring).all()]
        if rings:
            low, high = np.min([r.min(axis=0) for r in rings], axis=0), np.max([r.max(axis=0) for r in rings], axis=0)
            if (high >= 0).all() and (low <= [frame.width, frame.height]).all():
                yield rings


def _draw_building(picture: Picture, rings: Sequence[NDArray[np.float64]], look: Look, hatch: NDArray[np.bool_] | None) -> None:
    every = np.concatenate(rings)
    low, high = every.min(axis=0), every.max(axis=0)
    is_small = (high - low).max() < SMALLEST_MARK_PX
    if is_small and look.triage != "below":
        around, half = (low + high) / 2, SMALLEST_MARK_PX / 2
        rings = [np.array([around + half * np.array(way) for way in ((-1, -1), (1, -1), (1, 1), (-1, 1))])]
    points = [_sixteenths(ring) for ring in rings]
    line = cv2.LINE_AA
    if hatch is not None:
        mask = np.zeros(picture.shape[:2], np.uint8)
        cv2.fillPoly(mask, points, 255, cv2.LINE_8, _SHIFT)
        picture[mask > 0] = 255
        picture[(mask > 0) & hatch] = _INK
    elif look.triage != "below":
        cv2.fillPoly(picture, points, _bgr(look.color), line, _SHIFT)
    edge = (255, 255, 255) if look.triage == "below" else _INK
    if look.triage == "below" or hatch is not None or look.triage in ("confirmed", "high_precision") or not is_small:
        cv2.polylines(picture, points, True, edge, 2 if look.triage == "high_precision" else 1, line, _SHIFT)


def _sixteenths(ring: NDArray[np.float64]) -> NDArray[np.int32]:
    near = np.clip(ring - 0.5, -_FARTHEST_PX, _FARTHEST_PX)  # cv2 counts from the middle of a pixel
    return np.round(near * 2**_SHIFT).astype(np.int32)


def _hatch(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    rows, columns = np.indices(shape[:2], dtype=np.int32)
    return np.asarray((rows + columns) % 5 == 0)


def _bgr(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return blue, green, red
