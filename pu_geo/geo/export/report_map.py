"""The maps of a printed report: the scene in grey, with buildings colored by triage; of many, those that matter alone.

Of an event of several sites there is a map for each; of one large site, one of all, and one of each hot spot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.geo.export.styles import STYLES
from pu_geo.geo.ground import read_level
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.sites import in_px
from pu_geo.records import DamageMap, Grid

LONG_SIDE_PX = 1600
MOST_FULL = 4  # so many maps of the full size have as many pixels as all sites together: a report stays below some 6 MB
SIDE_PX = 740  # of a site among several, and of a hot spot
LARGE_M, SPOT_M = 1_200.0, 300.0  # longer side of a site that has hot spots, and their shortest side
N_SPOTS, FEWEST_MARKED = 4, 12
MOST_OUTLINES = 12_000  # one building in 200 pixels; beyond it those that are not flagged are left out
SMALLEST_MARK_PX = 7.0  # 0.8 mm in print
MARKED = ("confirmed", "flagged", "high_precision")
_DRAWN_FIRST_TO_LAST = ("below", "not_assessed", "high_recall", "flagged", "high_precision", "confirmed")
_SHIFT = 4  # cv2 draws with coordinates in sixteenths of a pixel
_INK, _HATCH = (40, 40, 40), (110, 110, 110)
_LIGHT, _DARK = {"below": "#FFFFFF", "high_recall": "#F0E442"}, {"below": "#9A9A9A", "high_recall": "#A08C00"}
_WORDS = {
    "high_recall": "Not flagged, but above the threshold for high recall",
    "not_assessed": "Not assessed: nothing is known",
}
_FARTHEST_PX = 20_000.0
_KINDS = {"below": "outline", "high_recall": "outline", "not_assessed": "hatch", "high_precision": "heavy"}
_DARKEST, _LIGHTEST = 90, 240  # colors and black lines must stand out from it

Picture = NDArray[np.uint8]
Spot = NDArray[np.int64]
"""First column and row of a part of the only site, and its width and height, pixels of the project, [4]."""
Outlines = NDArray[np.object_]
"""Outlines of all buildings of a map, shapely geometries [N] in pixels of the project."""


@dataclass(frozen=True)
class LegendRow:
    """One mark: its color "#rrggbb", words, and kind: "fill", "heavy" (a fill with a strong edge), "outline" or "hatch"."""

    color: str
    words: str
    kind: str = "fill"


@dataclass(frozen=True)
class MapPicture:
    """A map of the whole grid of a site, or of a hot spot, as square on the ground as on paper.

    Attributes:
        data: the file, JPEG with a background, PNG without.
        width, height: pixels; the longer is 1,600; 740 of a hot spot and of one of several sites, 716 of one of 20.
        m_per_px: meters on the ground.
        north_deg: where true north is at the center, degrees clockwise from up; NaN without a place on the Earth.
        corners: (longitude, latitude) in degrees WGS 84: upper left, upper right, lower left, lower right; NaN where the
            site's CRS does not reach one of them; none without a place on the Earth.
        rows: which buildings of the map lie in it.
    """

    data: bytes
    media_type: str
    width: int
    height: int
    m_per_px: float
    north_deg: float
    corners: tuple[tuple[float, float], ...]
    legend: tuple[LegendRow, ...]
    has_scene: bool
    rows: Sequence[int]


@dataclass(frozen=True)
class _Frame:
    """How pixels of the project become pixels of the map of a site."""

    grid: Grid  # of the site, or as if the hot spot were one
    width: int
    height: int
    m_per_px: float
    column: int = 0

    @property
    def scale(self) -> NDArray[np.float64]:
        return np.array([self.width / self.grid.width, self.height / self.grid.height])

    def to_map(self, px: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((px - (self.column, self.grid.row)) * self.scale)


def outlines(damage_map: DamageMap, grid: Grid) -> Outlines:
    """Return the outlines that the maps of a report are drawn of."""
    return in_px(np.asarray(shapely.from_wkb(np.array(list(damage_map.wkb), dtype=object))), grid)


def hot_spots(damage_map: DamageMap, shapes: Outlines, grid: Grid) -> list[Spot]:
    """Return where the confirmed and flagged buildings of a large site crowd, the fullest part first.

    Four groups by k-means, each in a square without its outermost 2 % on each side. None where the site is small, few
    buildings are marked, or there are several sites.
    """
    places = _middles(shapes)[[str(value) in MARKED for value in damage_map.columns["triage"]]]
    places = places[np.isfinite(places).all(axis=1)]
    if grid.sites or _frame(grid, 1).m_per_px < LARGE_M or len(places) < FEWEST_MARKED:
        return []
    cv2.setRNGSeed(0)
    until = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 50, 1.0)
    _, group, _ = cv2.kmeans(places.astype(np.float32), N_SPOTS, None, until, 3, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    group, ends = group.ravel(), np.array([grid.width, grid.height])
    m_per_px, found = np.abs(grid.m_per_px[0]), list[Spot]()
    for k in np.argsort(-np.bincount(group)):
        low, high = np.percentile(places[group == k], [2, 98], axis=0)
        size = np.minimum(np.maximum((1.15 * (high - low) * m_per_px).max(), SPOT_M) / m_per_px, ends)
        found.append(np.hstack([np.clip((low + high - size) / 2, 0, ends - size), size]).astype(np.int64))
    return found


def _middles(shapes: Outlines) -> NDArray[np.float64]:
    """Return the middle of the box of each shape, float64 [N, 2]; NaN of those that are nowhere."""
    return np.asarray(shapely.bounds(shapes).reshape(-1, 2, 2).mean(axis=1))


def draw_map(
    damage_map: DamageMap, shapes: Outlines, grid: Grid, background: Path | None, number: int = 0, spot: Spot | None = None
) -> MapPicture:  # fmt: skip
    """Draw the map of a site for a report; of the only site there is, it is the map of the project.

    Args:
        damage_map: of all sites; needs the column `triage`, and `site` where there are several. Outlines are in the project
            CRS.
        grid: of the project.
        background: folder of a tile pyramid of this grid, see `raster.quicklooks`; plain white where there is none.
        shapes: see `outlines`.
        number: of the site in `grid.parts`.
        spot: the part of it to draw; all of it if None.

    Raises:
        ValueError: if the pyramid belongs to a grid of another size.
    """
    site, n = grid.parts[number], len(grid.parts)
    frame = _frame(site, LONG_SIDE_PX if n == 1 else round(min(SIDE_PX, LONG_SIDE_PX * (MOST_FULL / n) ** 0.5)))
    if spot is not None:
        column, row, width, height = spot.tolist()
        a, b, c, d, e, f = site.transform
        part = replace(site, transform=(a, b, c + a * column, d, e, f + e * row), row=row, width=width, height=height)
        frame = replace(_frame(part, SIDE_PX), column=column)
    scene = None if background is None else _grey_scene(background, grid, frame)
    picture = np.full((frame.height, frame.width, 3), 255, np.uint8) if scene is None else scene
    triage = np.array([str(value) for value in damage_map.columns["triage"]], dtype=object)
    of = damage_map.columns.get("site", [site.name] * len(triage))
    here = [row for row, name in enumerate(of) if name == site.name]
    if spot is not None:
        at = frame.to_map(_middles(shapes))
        here = np.flatnonzero(((at >= 0) & (at <= [frame.width, frame.height])).all(axis=1)).tolist()
    legend = _draw_buildings(picture, shapes[here], triage[here], frame, _DARK if scene is None else _LIGHT)
    data, media_type = _encode(picture, is_photo=scene is not None)
    where = (_north_deg(frame), _corners(frame.grid)) if grid.has_place else (math.nan, ())
    return MapPicture(data, media_type, frame.width, frame.height, frame.m_per_px, *where, legend, scene is not None, here)


def middles(grid: Grid) -> NDArray[np.float64]:
    """Return longitude and latitude (WGS 84) of the middle of each site, float64 [S, 2], without a jump at 180 degrees."""
    places = np.concatenate([systems.to_lonlat(systems.middle_of(site), site.crs) for site in grid.parts])
    places[:, 0] = systems.near_longitude(places[:, 0], places[0, 0])
    return places


def _frame(grid: Grid, long_side_px: int) -> _Frame:
    a, _, _, _, e, _ = grid.transform
    width_m, height_m = grid.width * abs(a) * grid.x_unit_m, grid.height * abs(e) * grid.y_unit_m
    m_per_px = max(width_m, height_m) / long_side_px
    return _Frame(grid, max(1, round(width_m / m_per_px)), max(1, round(height_m / m_per_px)), m_per_px)


def _encode(picture: Picture, *, is_photo: bool) -> tuple[bytes, str]:
    name, options = ".png", [cv2.IMWRITE_PNG_COMPRESSION, 9]
    if is_photo:  # full color resolution: marks are a few pixels wide
        sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
        name, options = ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 85, *sampling]
    _, data = cv2.imencode(name, picture, options)
    return data.tobytes(), "image/jpeg" if is_photo else "image/png"


def _corners(grid: Grid) -> tuple[tuple[float, float], ...]:
    nodes = systems.lonlat_nodes(grid, 2)
    lon, lat = np.full((2, 4), np.nan) if nodes is None else nodes.reshape(4, 2).T
    return tuple(zip(systems.near_longitude(lon, 0.0).tolist(), lat.tolist(), strict=True))


def _north_deg(frame: _Frame) -> float:
    """Measure true north at the center; 0 where the CRS does not reach."""
    center = systems.middle_of(frame.grid)
    place = systems.to_lonlat(center, frame.grid.crs)
    if not np.isfinite(place).all():
        return 0.0
    step = -1e-4 if place[0, 1] > 89 else 1e-4
    ahead = systems.convert(place + np.array([[0.0, step]]), systems.LONLAT, frame.grid.crs)
    right, down = ((frame.grid.to_px(ahead) - frame.grid.to_px(center)) * frame.scale)[0] * np.sign(step)
    return math.degrees(math.atan2(right, -down)) if np.isfinite(right + down) else 0.0


# Buildings one by one


def _draw_buildings(
    picture: Picture, shapes: NDArray[np.object_], triage: NDArray[np.object_], frame: _Frame, edges: Mapping[str, str]
) -> tuple[LegendRow, ...]:
    """Draw each building; what matters most comes last, so that nothing hides it.

    Args:
        edges: color of the buildings that are outlines alone, by triage.
    """
    styles = {style.value: style for style in STYLES}
    legend = []
    for value in _DRAWN_FIRST_TO_LAST:
        rows = np.flatnonzero(triage == value)
        if not len(rows):
            continue
        kind, color = _KINDS.get(value, "fill"), edges.get(value, styles[value].color)
        words = f"{_WORDS.get(value, styles[value].label)}: {len(rows):,}"
        if kind == "outline" and len(triage) > MOST_OUTLINES * (max(picture.shape) / LONG_SIDE_PX) ** 2:
            words += ", not drawn: there are too many"
        else:
            _draw_group(picture, list(_outlines(shapes[rows], frame, is_marked=kind != "outline")), kind, color)
        legend.append(LegendRow(color, words, kind))
    return tuple(reversed(legend))


def _outlines(
    shapes: NDArray[np.object_], frame: _Frame, *, is_marked: bool
) -> Iterator[tuple[list[NDArray[np.int32]], bool]]:
    """Return the rings of each building that reaches into the map, as cv2 takes them, and whether it became a square."""
    for shape in shapes:
        rings = [frame.to_map(shapely.get_coordinates(ring)) for ring in shapely.get_rings(shapely.get_parts(shape))]
        rings = [ring for ring in rings if len(ring) and np.isfinite(ring).all()]
        if not rings:
            continue
        every = np.concatenate(rings)
        low, high = every.min(axis=0), every.max(axis=0)
        if (high < 0).any() or (low > [frame.width, frame.height]).any():
            continue
        is_small = is_marked and bool((high - low).max() < SMALLEST_MARK_PX)
        if is_small:
            around, half = (low + high) / 2, SMALLEST_MARK_PX / 2
            rings = [around + half * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])]
        near = [np.clip(ring - 0.5, -_FARTHEST_PX, _FARTHEST_PX) for ring in rings]  # cv2 counts from the middle of a pixel
        yield [np.round(ring * 2**_SHIFT).astype(np.int32) for ring in near], is_small


def _draw_group(
    picture: Picture, outlines: Sequence[tuple[Sequence[NDArray[np.int32]], bool]], kind: str, color: str
) -> None:
    if kind == "hatch":
        mask = np.zeros(picture.shape[:2], np.uint8)
        for rings, _ in outlines:
            cv2.fillPoly(mask, rings, 255, cv2.LINE_8, _SHIFT)
        rows, columns = np.nonzero(mask)
        picture[rows, columns] = np.where(((rows + columns) % 5 == 0)[:, None], _HATCH, 255)
    elif kind != "outline":
        for rings, _ in outlines:
            cv2.fillPoly(picture, rings, _bgr(color), cv2.LINE_AA, _SHIFT)
    for rings, is_small in outlines:
        if not (is_small and kind == "fill"):  # an edge would leave little of the color
            edge = {"outline": _bgr(color), "hatch": _HATCH}.get(kind, _INK)
            cv2.polylines(picture, rings, True, edge, 2 if kind == "heavy" and not is_small else 1, cv2.LINE_AA, _SHIFT)


def _bgr(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return blue, green, red


def round_length(length_m: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... (and their tenths) that is at least `length_m`, meters."""
    power = 10.0 ** math.floor(math.log10(length_m))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= length_m * (1 - 1e-9))


# The scene in grey


def _grey_scene(folder: Path, grid: Grid, frame: _Frame) -> Picture | None:
    """Return the scene of a site in grey, white where it has no data, uint8 [height, width, 3]; None without a pyramid.

    Raises:
        ValueError: if the pyramid belongs to a grid of another size.
    """
    if not (folder / "pyramid.json").is_file():
        return None
    pyramid, site = orjson.loads((folder / "pyramid.json").read_bytes()), frame.grid
    if (pyramid["width"], pyramid["height"]) != (grid.width, grid.height):
        raise ValueError(
            f"the pyramid is of {pyramid['width']} x {pyramid['height']} pixels, the grid of {grid.width} x {grid.height}."
        )
    zoom = next((z for z, px in enumerate(pyramid["resolutions"]) if px * frame.scale.max() <= 1), pyramid["max_zoom"])
    px = pyramid["resolutions"][zoom]
    first = round(frame.column / px), round(site.row / px)
    colors, holds = read_level(folder / str(zoom), *first, math.ceil(site.width / px), math.ceil(site.height / px))
    grey, is_empty = np.asarray(cv2.cvtColor(colors, cv2.COLOR_RGB2GRAY), np.uint8), ~holds
    size = np.round(np.array(grey.shape[::-1]) * px * frame.scale).astype(int).tolist()
    if not is_empty.all():
        low, top = np.percentile(grey[~is_empty], [1, 99])
        share = np.clip((grey.astype(np.float32) - low) / max(top - low, 1.0), 0.0, 1.0)
        grey = (_DARKEST + (_LIGHTEST - _DARKEST) * share).astype(np.uint8)
    grey[is_empty] = 255
    fitted = cv2.resize(grey, size, interpolation=cv2.INTER_AREA if size[0] < grey.shape[1] else cv2.INTER_LINEAR)
    return np.repeat(fitted[: frame.height, : frame.width, None], 3, axis=2)
