"""Footprints ready for a project: in the project CRS, on the grid, valid, two-dimensional, each change counted."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo import local_space
from pu_geo.geo.readers.footprint_files import load_features
from pu_geo.geo.readers.raw_footprints import OUTSIDE_SCENES, RawFootprints
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.duplicates import without_twins
from pu_geo.geo.vector.sites import in_px
from pu_geo.records import ID_KEYS, FootprintTable, Grid

MAX_ID_LENGTH, MAX_DEPTH = 200, 16
GAP_SHARE, GAP_M = 0.05, 0.25
"""Of the smaller part's side, and in any case: parts of a multipolygon further from one another are different buildings."""
MANY_HALVES = 0.6  # share of the outlines from which on they are no halves, but houses in rows
MOST_ROWS = 10**8
PARALLEL = 1e-4  # by how much of its length a border that runs along an axis may depart from it
LEAST_BORDER = 0.5  # share of the shorter side along which two halves of a house meet
MIN_AREA_PX = 0.01  # a line that was moved into another system has a little area, too
_POLYGON, _MULTIPOLYGON, _COLLECTION = 3, 6, 7
_LOST = {  # why a feature is left out, and the words for several
    "empty": "had no geometry or an empty one",
    "unreadable": "had an unreadable geometry",
    "not a polygon": "are points or lines",
    "not finite": "have coordinates that are not finite",
    "too small": "are smaller than a hundredth of a pixel",
    OUTSIDE_SCENES: "lie outside the post scenes",
}
_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read_footprints(path: Path | str, grid: Grid, *, crs: str | None = None, are_buildings: bool = True) -> FootprintTable:
    """Read the footprints of a file that lie on the project grid; formats as in `footprint_files.load_features`.

    Args:
        crs: "EPSG:n" or WKT, for a file that does not name its own.
        are_buildings: split distant parts, and leave out what comes twice. A district has islands, and may hold another.

    Returns:
        Footprints in the file's order, in the project CRS.

    Raises:
        FootprintError: kind as in `load_features`, or type, coords, bounds, empty, outside.
    """
    raw = load_features(path, crs, in_pixels=systems.is_local(grid.crs))
    return footprint_table(raw, Path(path).name, grid, are_buildings=are_buildings)


def footprint_table(raw: RawFootprints, name: str, grid: Grid, *, are_buildings: bool = True) -> FootprintTable:
    """Do the same with features that were read already; messages call them `name`."""
    geometries, notes, taken_out, dropped = _polygons(raw, name)
    if systems.is_local(grid.crs):
        placed = local_space.from_pixels(geometries, raw.crs, name, grid)
    else:
        placed = np.asarray(shapely.transform(geometries, lambda xy: systems.to_project(xy, raw.crs, grid)))
    mended, is_mended = _make_valid(placed)
    whole = mended, np.arange(len(mended)), np.zeros(len(mended), dtype=np.int64)
    parts, of_part, number, n_joined = _split(mended, grid) if are_buildings else (*whole, np.zeros(len(mended), np.int64))
    keep, is_tiny = _on_grid(parts, grid)
    is_kept, is_any_tiny = (_any_part(rows, of_part, len(mended)) for rows in (keep, is_tiny))
    is_outside = _any_part(~shapely.is_missing(parts) & ~keep & ~is_tiny, of_part, len(mended)) & ~is_kept
    lost = {"too small": is_any_tiny & ~is_kept & ~is_outside, OUTSIDE_SCENES: is_outside}
    dropped |= {reason: int(rows.sum()) for reason, rows in lost.items() if rows.any()}
    if OUTSIDE_SCENES not in dropped and not keep.any():
        raise _nothing_usable(name, dropped)
    if not keep.any():
        raise _all_outside(name, geometries, raw.crs, grid)
    if is_mended[is_kept].any():
        notes.append(f"{int(is_mended[is_kept].sum())} footprint(s) crossed themselves and were repaired.")
    notes += [f"{dropped[reason]} footprint(s) {_LOST[reason]} and were left out." for reason in lost if reason in dropped]
    rows = np.flatnonzero(is_kept).tolist()
    ids, id_notes = _building_ids(raw.attributes, raw.feature_ids, rows)
    id_of = dict(zip(rows, ids, strict=True))
    kept, feature, number = parts[keep], of_part[keep], number[keep]
    is_split = _any_part(number > 0, feature, len(mended))
    if is_split.any():
        n, n_left_out = int(is_split.sum()), int((~keep & is_kept[of_part]).sum())
        rest = f" {n_left_out:,} more parts lie outside the scenes or are too small." if n_left_out else ""
        notes.append(
            f"{n:,} multipolygon(s) whose parts stand apart were split into {int(is_split[feature].sum()):,} buildings, "
            "whose ids end in "
            f"-1, -2, ...; each counts once, as repaired.{rest}"
        )
    is_several = is_kept & (shapely.get_type_id(raw.geometries) == _MULTIPOLYGON)
    doubts = _doubts(raw, name, grid, kept, int(n_joined[is_several].sum())) if are_buildings else []
    is_repaired = (is_mended | taken_out | is_split)[feature]
    table = FootprintTable(
        building_ids=_ids_of_parts(id_of, feature, number),
        wkb=list(shapely.to_wkb(kept, byte_order=1, output_dimension=2)),
        area_m2=ground_area(kept, grid),
        attributes=[clean_attributes(_named(raw.attributes[i], id_of[i]), name) for i in feature.tolist()],
        source="user",
        n_in=len(raw.geometries),
        n_repaired=len(np.unique(feature[is_repaired])),
        n_dropped=len(raw.geometries) - len(rows),
        notes=tuple(notes + id_notes),
        doubts=tuple(doubts),
        dropped=dropped,
        is_repaired=is_repaired,
        feature=feature if is_split.any() else None,
    )
    return without_twins(table) if are_buildings else table


def describe_footprints(path: Path | str) -> str:
    """Check a file without a grid and describe its content in one line; refusals as in `read_footprints`."""
    raw = load_features(path)
    geometries, notes, *_ = _polygons(raw, Path(path).name)
    for attributes in raw.attributes:
        clean_attributes(attributes, Path(path).name)
    return " ".join([f"{int((~shapely.is_missing(geometries)).sum())} footprints in {raw.crs[:40]}.", *notes])


def _polygons(raw: RawFootprints, name: str) -> tuple[NDArray[np.object_], list[str], NDArray[np.bool_], dict[str, int]]:
    """Keep polygons only, in two dimensions; everything else becomes None and is counted.

    Returns:
        geometries [N] in the file's CRS; notes; which rows had their polygons taken out of a collection, bool [N]; and how
        many were left out for which reason.
    """
    geometries = np.asarray(shapely.force_2d(raw.geometries))
    kinds = shapely.get_type_id(geometries)
    is_collection = kinds == _COLLECTION
    for i in np.flatnonzero(is_collection):
        geometries[i] = _polygons_of(geometries[i])
    kinds = shapely.get_type_id(geometries)
    is_empty = shapely.is_missing(raw.geometries) & ~raw.is_unreadable | (shapely.is_empty(geometries) & (kinds != -1))
    is_polygon = np.isin(kinds, (_POLYGON, _MULTIPOLYGON)) & ~is_empty
    is_other = (kinds != -1) & ~is_polygon & ~is_empty
    bounds = shapely.bounds(geometries)
    is_infinite = is_polygon & ~_is_finite(geometries)
    keep = is_polygon & ~is_infinite
    found = {"empty": is_empty, "unreadable": raw.is_unreadable, "not a polygon": is_other, "not finite": is_infinite}
    dropped = {reason: int(rows.sum()) for reason, rows in found.items() if rows.any()}
    if not keep.any():
        raise _nothing_usable(name, dropped)
    _check_domain(bounds[keep], raw.crs, name)
    notes = [f"{n} feature(s) {_LOST[reason]} and were left out." for reason, n in dropped.items()]
    taken_out = is_collection & keep
    if taken_out.any():
        notes.append(f"{int(taken_out.sum())} geometry collection(s) were reduced to their polygons.")
    geometries[~keep] = None
    return geometries, notes, taken_out, dropped


def _is_finite(geometries: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark geometries all of whose coordinates are finite, bool [N]; so are those of a missing one."""
    xy, row = shapely.get_coordinates(geometries, return_index=True)
    return np.asarray(np.bincount(row[~np.isfinite(xy).all(axis=1)], minlength=len(geometries)) == 0)


def _polygons_of(collection: shapely.Geometry) -> shapely.Geometry | None:
    """Join the polygons of a collection, nested ones too; None where there are none."""
    parts = shapely.get_parts(collection)
    while (shapely.get_type_id(parts) >= 4).any():
        parts = shapely.get_parts(parts)
    parts = parts[(shapely.get_type_id(parts) == _POLYGON) & ~shapely.is_empty(parts)]
    if len(parts) == 0:
        return shapely.from_wkt("POLYGON EMPTY") if shapely.is_empty(collection) else shapely.from_wkt("POINT (0 0)")
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)


def _nothing_usable(name: str, counts: Mapping[str, int]) -> FootprintError:
    kinds = {"empty": "empty", "unreadable": "parse", "not a polygon": "type", "not finite": "coords", "too small": "type"}
    lost = "; ".join(f"{n} {_LOST[reason]}" for reason, n in counts.items()) or "it has no features"
    return FootprintError(
        f"{name} holds no usable building outline: {lost}. Footprints are polygons.",
        "Choose a file with building polygons.",
        kind=kinds[max(counts, key=lambda reason: counts[reason])] if counts else "empty",
    )


def _check_domain(bounds: NDArray[np.float64], crs: str, name: str) -> None:
    """Refuse coordinates that cannot belong to the CRS the file claims."""
    x0, y0 = bounds[:, :2].min(axis=0)
    x1, y1 = bounds[:, 2:].max(axis=0)
    if systems.load_crs(crs).is_geographic and (x0 < -360 or x1 > 360 or y0 < -90 or y1 > 90):
        raise FootprintError(
            f"{name} has coordinates from x {x0:.6g}, y {y0:.6g} to x {x1:.6g}, y {y1:.6g}, "
            "which are not degrees of longitude (-180 to 180) and latitude (-90 to 90).",
            "They look like metres: save the file in EPSG:4326, or as GeoPackage with its true coordinate system. "
            "A CSV can name it in a column epsg."
            if max(abs(x0), abs(x1), abs(y0), abs(y1)) > 1000
            else "Latitude and longitude look swapped: export it again with longitude first.",
            kind="bounds",
        )


def _make_valid(geometries: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """Repair polygons that cross themselves; returns them and which ones were repaired, bool [N]."""
    mended = geometries.copy()
    mended[~_is_finite(geometries)] = None
    is_broken = ~shapely.is_missing(mended) & ~shapely.is_valid(mended)
    for i in np.flatnonzero(is_broken):
        mended[i] = _polygons_of(shapely.make_valid(geometries[i], method="structure", keep_collapsed=False))
    return mended, is_broken


def _any_part(rows: NDArray[np.bool_], feature: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """Return which of n features have a part that is marked, bool [n]."""
    return np.bincount(feature[rows], minlength=n).astype(bool)


def _split(
    geometries: NDArray[np.object_], grid: Grid
) -> tuple[NDArray[np.object_], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Split multipolygons whose parts stand apart: they are several buildings, and one chip of all would show the ground
    between.

    Parts that touch or nearly do for their size, such as those around a yard, stay together: huts stand closer than halls
    do.

    Returns:
        geometries [M] in the order of the features; the feature of each, int64 [M]; its number among the buildings of that
        feature from 1 on, int64 [M], 0 where the feature was not split; and how many parts of each feature were joined with
        others.
    """
    several = np.flatnonzero(shapely.get_num_geometries(geometries) > 1)
    pieces, of_row = shapely.get_parts(geometries[several], return_index=True)
    owner = several[of_row]
    in_m = shapely.transform(pieces, lambda xy: xy * [grid.x_unit_m, grid.y_unit_m])
    side_m = np.sqrt(shapely.area(in_m))
    one, other = shapely.STRtree(in_m).query(in_m, predicate="dwithin", distance=np.fmax(GAP_SHARE * side_m, GAP_M))
    near = (owner[one] == owner[other]) & (side_m[one] <= side_m[other])  # as far as the smaller one of two reaches
    one, other = np.concatenate([one[near], other[near]]), np.concatenate([other[near], one[near]])
    group, before = np.arange(len(pieces)), np.empty(0, dtype=np.int64)
    while not np.array_equal(group, before):  # each part takes the first one that it is connected with
        before = group.copy()
        np.minimum.at(group, one, group[other])
        group = group[group]
    is_split = np.bincount(owner[np.unique(group)], minlength=len(geometries)) > 1
    rows = np.flatnonzero(is_split[owner])
    firsts, building = np.unique(group[rows], return_inverse=True)
    order = np.argsort(building, kind="stable")
    added = np.asarray(shapely.multipolygons(pieces[rows[order]], indices=building[order]), dtype=object)
    is_single = np.bincount(building, minlength=len(firsts)) == 1
    added[is_single] = pieces[firsts[is_single]]
    feature = np.concatenate([np.flatnonzero(~is_split), owner[firsts]])
    number = np.arange(len(firsts)) - np.searchsorted(owner[firsts], owner[firsts]) + 1
    number = np.concatenate([np.zeros(len(feature) - len(firsts), dtype=np.int64), number])
    order = np.lexsort((number, feature))
    return (
        np.concatenate([geometries[~is_split], added])[order],
        feature[order],
        number[order],
        _joined_in(owner, group, len(geometries)),
    )


def _joined_in(owner: NDArray[np.int64], group: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return how many parts of each of n features are in a group with an earlier one, int64 [n]."""
    return np.bincount(owner, minlength=n) - np.bincount(owner[np.unique(group)], minlength=n)


def _doubts(raw: RawFootprints, name: str, grid: Grid, kept: NDArray[np.object_], n_joined: int) -> list[str]:
    """Return what the outlines of a file may say wrongly, in sentences."""
    found = []
    if n_joined:
        found.append(
            f"{n_joined:,} part(s) of multipolygons in {name} nearly touch another and count as one building with it."
        )
    if n_halves := _halves(kept, {raw.crs, grid.crs, systems.LONLAT, "EPSG:3857"}, grid):
        found.append(
            f"{n_halves:,} pair(s) of footprints in {name} meet along a line that runs exactly north to south or west to "
            "east: where it is the "
            "border of a tile, they are halves of one house and count twice."
        )
    corners = shapely.get_coordinates(raw.geometries[~shapely.is_missing(raw.geometries)])
    if doubt := systems.doubt_of(raw.crs, grid.crs, corners[:: max(1, len(corners) // 100)]):
        found.append(f"{name}: {doubt}")
    return found


def _halves(shapes: NDArray[np.object_], systems_of_tiles: set[str], grid: Grid) -> int:
    """Return how many pairs of outlines share an edge that is parallel to an axis, in a system that tiles are cut in.

    And is most of a side of the smaller one. 0 where many do: these are houses in rows.
    """
    one, other = shapely.STRtree(shapes).query(shapes, predicate="touches")
    one, other = one[one < other], other[one < other]
    borders = shapely.intersection(shapes[one], shapes[other])
    side = np.sqrt(np.fmin(shapely.area(shapes[one]), shapely.area(shapes[other])))
    borders = borders[shapely.length(borders) >= LEAST_BORDER * side]
    is_straight = np.zeros(len(borders), dtype=np.bool_)
    for system in [grid.crs] if systems.is_local(grid.crs) else systems_of_tiles:
        placed = shapely.transform(borders, lambda xy, system=system: systems.convert(xy, grid.crs, system))
        x0, y0, x1, y1 = shapely.bounds(placed).T
        is_straight |= np.fmin(x1 - x0, y1 - y0) <= PARALLEL * np.fmax(x1 - x0, y1 - y0)
    n = int(is_straight.sum())
    return n if n <= max(1, MANY_HALVES * len(shapes)) else 0


def _ids_of_parts(ids: Mapping[int, str], feature: NDArray[np.int64], number: NDArray[np.int64]) -> list[str]:
    """Return the id of each building: that of its feature, with a number where the feature was split; unique if those
    are.
    """
    taken = set(ids.values())
    ends = {i: "-" for i in np.unique(feature[number > 0]).tolist() if ids[i]}
    for i in ends:
        numbers = number[feature == i].tolist()
        while any(f"{ids[i]}{ends[i]}{k}" in taken for k in numbers):
            ends[i] += "-"
        taken |= {f"{ids[i]}{ends[i]}{k}" for k in numbers}
    pairs = zip(feature.tolist(), number.tolist(), strict=True)
    return [f"{ids[i]}{ends[i]}{k}" if k and ids[i] else ids[i] for i, k in pairs]


def _on_grid(geometries: NDArray[np.object_], grid: Grid) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark polygons whose bounding box shares some area with the grid, and those with next to no area; bool [N] each."""
    is_polygon = np.isin(shapely.get_type_id(geometries), (_POLYGON, _MULTIPOLYGON))
    px = in_px(geometries, grid)
    x0, y0, x1, y1 = shapely.bounds(px).T
    left, top, right, bottom = grid.limits(np.rint(np.nan_to_num(shapely.bounds(px), posinf=0, neginf=0)).astype(np.int64)).T
    touches = (x1 > left) & (x0 < right) & (y1 > top) & (y0 < bottom)
    is_tiny = ~shapely.is_missing(geometries) & ~(shapely.area(px) > MIN_AREA_PX)
    return is_polygon & touches & ~is_tiny, is_tiny


def _all_outside(name: str, geometries: NDArray[np.object_], crs: str, grid: Grid) -> FootprintError:
    """Return the error for footprints beyond the scenes: how far off they are, and whether swapping the axes would help."""
    x0, y0, x1, y1 = shapely.total_bounds(geometries)
    lon, lat = systems.to_lonlat(systems.middle_of(grid), grid.crs)[0]
    hint = "Choose footprints of the same place as the post scenes."
    if systems.load_crs(crs).is_geographic and abs((y0 + y1) / 2 - lon) < 1 and abs((x0 + x1) / 2 - lat) < 1:
        hint = "Latitude and longitude are swapped in this file: export it again with longitude first."
    return FootprintError(
        f"None of the footprints in {name} lies on the post scenes. They are at x {x0:.6g} to {x1:.6g}, "
        f"y {y0:.6g} to {y1:.6g} ({crs[:20]}); the scenes are around longitude {lon:.4f}, latitude {lat:.4f}.",
        hint,
        kind="outside",
    )


def ground_area(geometries: NDArray[np.object_], grid: Grid) -> NDArray[np.float64]:
    """Measure ground areas in square metres, float64 [N], in an equal-area projection centered on the grid."""
    if systems.is_local(grid.crs):
        return np.asarray(shapely.area(geometries), dtype=np.float64)
    flat = systems.equal_area(*systems.to_lonlat(systems.middle_of(grid), grid.crs)[0].tolist())
    placed = shapely.transform(geometries, lambda xy: systems.convert(systems.to_lonlat(xy, grid.crs), systems.LONLAT, flat))
    return np.asarray(shapely.area(placed), dtype=np.float64)


def _building_ids(
    attributes: Sequence[Mapping[str, object]], feature_ids: Sequence[object], rows: Sequence[int]
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Choose the key that names most buildings of some rows uniquely; what is missing or double becomes "" and is noted.

    Numbers of features, and of rows, name none: a file that is saved again may give them to others.
    """
    lower = [{str(key).lower(): value for key, value in row.items()} for row in attributes]
    named = [(key, [_id_text(row.get(key)) for row in lower]) for key in ID_KEYS]
    named += [("feature id", [_id_text(value) if isinstance(value, str) else "" for value in feature_ids])]
    best: list[str] = [""] * len(rows)
    best_n, doubles, used, notes = 0, 0, "id", []
    for key, texts in named:
        if _counts_rows(texts):
            notes.append(f"{key} counts the rows of the file and names no building; footprints get ids of the project.")
            continue
        texts = [texts[i] for i in rows]
        counts = Counter(texts)
        unique = [text if counts[text] == 1 else "" for text in texts]
        n = sum(map(bool, unique))
        n_double = sum(n for text, n in counts.items() if text and n > 1)
        if n > best_n or (best_n == 0 and n_double > doubles):
            best, best_n, doubles, used = unique, n, n_double, key
    if best_n:
        notes.clear()
    if doubles:
        notes.append(f"{doubles} footprint(s) share their {used} with another; they get new ids.")
    if (missing := len(best) - best_n - doubles) and not notes:
        notes.append(f"{missing} footprint(s) have no usable id; they get new ids.")
    return best, notes


def _named(attributes: Mapping[str, object], own: str) -> Mapping[str, object]:
    """Return the attributes with the id of the feature, where it has one that is none of them."""
    return {"id": own, **attributes} if own and own not in map(_id_text, attributes.values()) else attributes


def _counts_rows(texts: Sequence[str]) -> bool:
    """Return whether ids are whole numbers with few gaps, no larger than rows are many."""
    numbers = {int(text) for text in texts if text.isascii() and text.isdigit()}
    is_dense = len(numbers) == sum(map(bool, texts)) > 1 and max(numbers) - min(numbers) < 2 * len(numbers)
    return is_dense and min(numbers) < MOST_ROWS


def _id_text(value: object) -> str:
    """Turn an id into text, "" where it cannot serve as one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return _clean_text(str(value)).strip()[:MAX_ID_LENGTH]


def _clean_text(text: str) -> str:
    """Remove control characters and marks that turn the reading direction, and compose accents (NFC)."""
    return text if text.isascii() and text.isprintable() else unicodedata.normalize("NFC", _UNWANTED.sub("", text))


def clean_attributes(attributes: Mapping[str, object], name: str) -> dict[str, object]:
    """Return attributes fit for JSON: numbers that are not finite and binary values become None, text is cleaned.

    Raises:
        FootprintError: kind "parse" if values are nested over 16 levels deep.
    """
    return {_clean_text(str(key)): _clean_value(value, name, 0) for key, value in attributes.items()}


def _clean_value(value: object, name: str, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise FootprintError(
            f"{name} has attributes nested over {MAX_DEPTH} levels deep.", "Export it with flat attributes.", kind="parse"
        )
    if isinstance(value, str):
        return _clean_text(value)
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict):
        return {_clean_text(str(k)): _clean_value(v, name, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean_value(v, name, depth + 1) for v in value]
    return None
