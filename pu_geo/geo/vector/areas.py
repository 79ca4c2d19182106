"""Areas that buildings are counted in: read from a polygon file, or regular cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError, PuGeoError
from pu_geo.geo.readers.in_child import read_footprints
from pu_geo.geo.vector.grid import squares
from pu_geo.records import FootprintTable, Grid

CELL_M = 500.0
MIN_CELL_M, MAX_CELL_M = 10.0, 100_000.0
_LEAST_FILLED = 0.5  # share of the areas that an attribute chosen by us must name

# Source: field names of OCHA's common operational datasets (adm2_en, older admin2Name_en; 2025 on adm2_name), GADM (NAME_2,
# GID_2), geoBoundaries (shapeName, shapeID), Eurostat (NUTS_NAME, NUTS_ID) and the US Census (NAMELSAD, GEOID).
_NAME_FIELDS = (
    r"adm(\d)_name", r"adm(\d)_en", r"admin(\d)name(?:_en)?", r"adm(\d)_[a-z]{2}", r"admin(\d)name_[a-z]{2}", r"name_(\d)",
    r"shapename", r"nuts_name", r"namelsad", r"name", r"name[_:]en", r"area_?name",
)  # fmt: skip
_CODE_FIELDS = (
    r"adm(\d)_pcode", r"admin(\d)pcode?", r"adm(\d)_code", r"gid_(\d)", r"shapeid", r"nuts_id", r"geoid", r"pcode", r"code",
)  # fmt: skip
_WORDS = (
    ("building outline", "area"), ("building polygons", "area polygons"), ("footprint(s)", "area(s)"),
    ("footprints", "areas"), ("Footprints", "Areas"),
)  # fmt: skip


@dataclass(frozen=True)
class Areas:
    """Polygons with names, in the project CRS.

    Attributes:
        names: [A], not unique.
        pcodes: [A]; None where an area has no code.
        wkb: [A], valid 2-D polygons or multipolygons, little-endian.
        notes: one sentence for each kind of repair, drop or choice.
    """

    names: Sequence[str]
    pcodes: Sequence[str | None]
    wkb: Sequence[bytes]
    notes: tuple[str, ...] = ()


def read_areas(
    path: Path | str, grid: Grid, *, layer: str, name_field: str | None = None, code_field: str | None = None
) -> Areas:
    """Read the areas of a GeoJSON or GeoPackage file that reach into the post scenes.

    The file passes the same guards and repairs as footprints do. Without `name_field` the name is searched under the usual
    names of attributes, the deepest administrative level first; an area without a name is called by its code, or numbered.

    Args:
        layer: what the layer is called; names numbered areas.
        name_field, code_field: attributes with name and code; chosen if None.

    Returns:
        Areas in the file's order, in the project CRS, not cut off at the scenes.

    Raises:
        FootprintError: as `read_footprints`; kind "field" if a named attribute is not in the file.
    """
    name = Path(path).name
    table = read_polygons(path, grid)
    asked = re.search(r"adm(?:in)?[ _-]?(\d)(?!\d)", layer, re.IGNORECASE)
    wanted = int(asked[1]) if asked else None
    names, name_note = _column(table.attributes, name_field, _NAME_FIELDS, name, wanted)
    level = wanted
    if wanted is None:
        level, _ = _rank(name_note, _NAME_FIELDS) or (None, 0)
    codes, code_note = _column(table.attributes, code_field, _CODE_FIELDS, name, level)
    keys = {key for row in table.attributes for key in row}
    is_leveled = any((rank := _rank(key, _NAME_FIELDS + _CODE_FIELDS)) and rank[0] is not None for key in keys)
    if wanted is not None and is_leveled and not (name_note or code_note):
        raise FootprintError(
            f"{name} has no name and no code of administrative level {wanted}, which the layer {layer} is of. It has: "
            f"{_fields(table.attributes)}.",
            "Call the layer by its own level, or say which attributes to take (--name-field, --code-field).",
            kind="field",
        )
    notes = [note for note in table.notes if "new ids" not in note]
    if not name_note:
        notes.append(
            f"No attribute looks like a name, so areas go by code or number. The file has: {_fields(table.attributes)}."
        )
    else:
        notes.append(f"Names are from {name_note}, codes from {code_note or 'nowhere'}.")
    called = [text or code or f"{layer} {i}" for i, (text, code) in enumerate(zip(names, codes, strict=True), 1)]
    found = Areas(called, [code or None for code in codes], table.wkb, tuple(notes))
    is_of_level = wanted is not None and (_rank(code_note, _CODE_FIELDS) or (None,))[0] == wanted
    return _joined(found, wanted) if wanted is not None and is_of_level else found


def _fields(attributes: Sequence[Mapping[str, object]]) -> str:
    return ", ".join(sorted({key for row in attributes for key in row})[:12]) or "none at all"


def _joined(areas: Areas, level: int) -> Areas:
    """Return areas of one administrative level, parts of one code joined: a file of wards has the codes of their districts,
    too.
    """
    first: dict[object, int] = {}
    of_area = [first.setdefault((code, areas.names[i]) if code else i, i) for i, code in enumerate(areas.pcodes)]
    if len(first) == len(of_area):
        return areas
    shapes, rows = shapely.from_wkb(np.array(list(areas.wkb), dtype=object)), list(first.values())
    union = [shapely.union_all(shapes[np.array(of_area) == row]) for row in rows]
    words = (
        f"{len(of_area):,} areas of the file have {len(rows):,} codes and names of level {level}; those of one were joined."
    )
    return Areas(
        [areas.names[row] for row in rows],
        [areas.pcodes[row] for row in rows],
        [bytes(one) for one in shapely.to_wkb(union, byte_order=1)],
        (*areas.notes, words),
    )


def read_polygons(path: Path | str, grid: Grid, *, crs: str | None = None) -> FootprintTable:
    """Read polygons as `read_footprints` does, with notes and refusals that speak of areas."""
    return speaking_of_areas(lambda: read_footprints(path, grid, crs=crs, are_buildings=False), Path(path).name)


def speaking_of_areas(read: Callable[[], FootprintTable], name: str) -> FootprintTable:
    """Return what `read` does, with notes and refusals that speak of areas; `name` in them stays as it is."""
    try:
        table = read()
    except FootprintError as error:
        raise FootprintError(_of_areas(error.problem, name), _of_areas(error.hint, name), kind=error.kind) from error
    return replace(table, notes=tuple(_of_areas(note, name) for note in table.notes))


def _of_areas(text: str, name: str) -> str:
    """Rephrase a sentence about footprints for areas; the file's own name in it stays."""
    parts = text.split(name)
    for theirs, ours in _WORDS:
        parts = [part.replace(theirs, ours) for part in parts]
    return name.join(parts)


def _column(
    attributes: Sequence[Mapping[str, object]],
    wanted: str | None,
    patterns: Sequence[str],
    name: str,
    level: int | None = None,
) -> tuple[list[str], str]:
    """Return one attribute as texts, "" where it is missing, and which one it is; "" if none fits.

    Args:
        wanted: the attribute that a person named.
        level: administrative level that the attribute must belong to, if it belongs to any.
    """
    keys = list(dict.fromkeys(key for row in attributes for key in row))
    if wanted is not None:
        found = [key for key in keys if key == wanted] or [key for key in keys if key.lower() == wanted.lower()]
        if not found:
            raise FootprintError(
                f"{name} has no attribute {wanted[:60]!r}; it has: {', '.join(keys[:20]) or 'none'}.",
                "Choose one of these, or none to have it chosen.",
                kind="field",
            )
        return [_text(row.get(found[0])) for row in attributes], found[0]
    fitting = []
    for key in keys:
        rank = _rank(key, patterns)
        if rank is not None and (level is None or rank[0] in (level, None)):
            texts = [_text(row.get(key)) for row in attributes]
            if sum(map(bool, texts)) >= _LEAST_FILLED * len(texts):
                fitting.append((-1 if rank[0] is None else rank[0], -rank[1], key, texts))
    *_, key, texts = max(fitting, key=lambda found: found[:2], default=("", [""] * len(attributes)))
    return texts, key


def _rank(key: str, patterns: Sequence[str]) -> tuple[int | None, int] | None:
    """Return the administrative level in an attribute's name, None without one, and which pattern it fits; None if none."""
    for i, pattern in enumerate(patterns):
        if match := re.fullmatch(pattern, key, re.IGNORECASE):
            return int(match[1]) if match.groups() else None, i
    return None


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def centroids(wkb: Sequence[bytes]) -> NDArray[np.float64]:
    """Return the centroids of footprints, float64 [N, 2], in their own CRS."""
    return shapely.get_coordinates(shapely.centroid(shapely.from_wkb(np.array(list(wkb), dtype=object))))


def assign(points: NDArray[np.float64], areas: Sequence[bytes]) -> tuple[NDArray[np.int64], int]:
    """Return the area that each point is in, int64 [N]; -1 outside all, the first one where areas overlap or touch.

    With it comes how many points are in several areas.

    Args:
        points: finite, float [N, 2], in the CRS of the areas; `centroids` of the footprints.
        areas: WKB [A].
    """
    found = np.full(len(points), len(areas), dtype=np.int64)
    # The tree holds the points, not the areas: GEOS then prepares each area once, and borders of many points cost little.
    tree = shapely.STRtree(shapely.points(points))
    area, point = tree.query(shapely.from_wkb(np.array(list(areas), dtype=object)), predicate="intersects")
    np.minimum.at(found, point, area)
    found[found == len(areas)] = -1
    return found, int((np.bincount(point, minlength=len(points)) > 1).sum())


def grid_cells(points: NDArray[np.float64], grid: Grid, size_m: float = CELL_M) -> tuple[Areas, NDArray[np.int64]]:
    """Lay square cells over buildings; only cells with a building exist, from north to south, then west to east.

    Edges are whole multiples of the size in metres of the project grid, so that cells of two projects in one UTM zone match.
    Codes are like those of European statistical grids: 500mN8000E1000 begins 8000 cells north and 1000 cells east of 0, 0.

    Args:
        points: finite, float [N, 2], project CRS.
        size_m: side of a cell, metres on the ground, 10 to 100,000.

    Returns:
        The cells, and the cell of each building, int64 [N].

    Raises:
        PuGeoError: if the size is out of range.
    """
    if not MIN_CELL_M <= size_m <= MAX_CELL_M:
        raise PuGeoError(
            f"Cells of {size_m:g} m cannot be used; from {MIN_CELL_M:g} to {MAX_CELL_M:,.0f} m can.", "Use 500, for example."
        )
    side = size_m / np.array([grid.x_unit_m, grid.y_unit_m])
    place = np.floor(points / side).astype(np.int64)
    cells, index = np.unique(np.column_stack([-place[:, 1], place[:, 0]]), axis=0, return_inverse=True)
    codes, boxes = squares(-cells[:, 0], cells[:, 1], size_m, grid)
    return Areas(codes, list(codes), list(shapely.to_wkb(boxes, byte_order=1))), index.reshape(-1)
