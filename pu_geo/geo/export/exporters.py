"""Damage maps as files for other people's programs: the table of formats, and those that are text or tables.

Each takes a damage map with its geometry in `grid_crs`, and the file to write, which is replaced if it exists; it appears
under its name only once it is complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import orjson

from pu_geo.files import write_export
from pu_geo.geo.export.codebook import SHORT, Field, fields_of, shortened
from pu_geo.geo.export.geometry import geojson_of
from pu_geo.geo.export.heat import export_heat
from pu_geo.geo.export.layers import export_fgb, export_gpkg, export_parquet
from pu_geo.geo.export.pieces import BYTE_ORDER_MARK, Piece, caption, csv_lines, geojson_lines, pieces_of, write_csv
from pu_geo.geo.export.styles import STYLES, kml_styles
from pu_geo.geo.local_space import centroid_places, place_names
from pu_geo.records import DamageMap
from pu_geo.spreadsheets import guarded

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_KML_TYPES = {"bool": "bool", "int": "int", "float": "double"}
_STYLED = {style.value for style in STYLES}


def export_geojson(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoJSON after RFC 7946.

    Longitude and latitude of WGS 84 (CRS84) without a `crs` member, outer rings counter-clockwise, at most 7 decimals,
    polygons split at the antimeridian and valid after rounding, null for numbers that are not finite, the metadata as
    foreign member `pu_geo`. A footprint that rounding leaves nothing of has a null geometry. One feature a line.
    """
    pieces = ((piece.columns["building_id"], piece.shapes, _properties(piece)) for piece in pieces_of(damage_map, "geojson"))
    write_export(out, geojson_lines(damage_map.metadata, pieces))


def export_short_geojson(damage_map: DamageMap, out: Path) -> None:
    """Write the same with the columns that people read, see `codebook.SHORT`; `pu_geo` has all metadata."""
    export_geojson(shortened(damage_map), out)


def _properties(piece: Piece) -> Iterator[dict[str, object]]:
    return (dict(zip(piece.columns, row, strict=True)) for row in zip(*piece.columns.values(), strict=True))


def export_csv(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as CSV for spreadsheets: no outlines, `lon` and `lat` of each centroid in degrees WGS 84.

    Of a map without a place on the Earth, `x_m` and `y_m` in local meters.

    UTF-8 with a byte order mark, which Excel needs; RFC 4180 otherwise. A text that a spreadsheet could take for a formula
    (after any apostrophes, = + - @ tab or a line break) gets an apostrophe in front, here and in no other format. Null is an
    empty cell, true and false are written out, lists are joined by ";".
    """
    fields, names = fields_of(damage_map), place_names(damage_map.grid_crs)
    missing = [name for name in names if name not in damage_map.columns]

    def rows() -> Iterator[Iterable[object]]:
        for piece in pieces_of(damage_map, "csv"):
            columns = [
                _spreadsheet(column, field) for field, column in zip(fields, piece.cells(fields, joins=False), strict=True)
            ]
            if missing:
                place = dict(zip(names, centroid_places(piece.wkb, damage_map.grid_crs), strict=True))
                columns += [place[name].tolist() for name in missing]
            yield from zip(*columns, strict=True)

    write_csv(out, [*(field.name for field in fields), *missing], rows())


def _spreadsheet(cells: Sequence[Any], field: Field) -> Sequence[object]:
    if field.kind == "bool":
        return [None if cell is None else str(cell).lower() for cell in cells]
    if field.kind == "list":  # where ";" parts the cells, each item but the first has a cell of its own
        return [None if cell is None else ";".join([*cell[:1], *map(guarded, cell[1:])]) for cell in cells]
    return cells


def export_kml(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as KML 2.2, for Google Earth and phones: a placemark per building, colored by `triage`.

    The fields are typed extended data; a null field is left out. Characters that XML cannot hold become U+FFFD. A footprint
    that rounding leaves nothing of has no geometry. GDAL's LIBKML takes 2.4 times as long, and knows no styles by field.
    """
    write_export(out, (text.encode() for text in _kml(damage_map)))


def _kml(damage_map: DamageMap) -> Iterator[str]:
    fields = fields_of(damage_map)
    names = [quoteattr(_xml(field.name)) for field in fields]
    types = [_KML_TYPES.get(field.kind, "string") for field in fields]
    schema = "".join(f'<SimpleField type="{kind}" name={name}/>' for kind, name in zip(types, names, strict=True))
    title, disclaimer = map(_escaped, caption(damage_map))
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
        f"<name>{title}</name><description>{disclaimer}</description>{kml_styles()}"
        f'<Schema name="damage_map" id="damage_map">{schema}</Schema>\n'
    )
    for piece in pieces_of(damage_map, "kml"):
        triage = piece.columns.get("triage", [None] * len(piece.wkb))
        rows = zip(*piece.cells(fields), strict=True)
        for building, geometry, style, row in zip(
            piece.columns["building_id"], geojson_of(piece.shapes), triage, rows, strict=True
        ):
            cells = zip(names, row, strict=True)
            data = "".join(
                f"<SimpleData name={name}>{_value(cell)}</SimpleData>" for name, cell in cells if cell is not None
            )
            style_url = f"<styleUrl>#{style}</styleUrl>" if style in _STYLED else ""
            yield (
                f"<Placemark><name>{_escaped(building)}</name>{style_url}<ExtendedData>"
                f'<SchemaData schemaUrl="#damage_map">{data}</SchemaData></ExtendedData>{_outline(geometry)}</Placemark>\n'
            )
    yield "</Document></kml>\n"


def _value(cell: object) -> str:
    return _escaped(str(cell).lower() if isinstance(cell, bool) else str(cell))


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _escaped(text: str) -> str:
    return escape(_xml(text), {"\r": "&#13;"})


def _outline(geometry: dict[str, Any] | None) -> str:
    """Return a GeoJSON geometry as KML writes it, "" for none."""
    if geometry is None:
        return ""
    polygons = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    found = ""
    for outer, *holes in polygons:
        sides = [("outerBoundaryIs", outer), *(("innerBoundaryIs", hole) for hole in holes)]
        rings = "".join(
            f"<{side}><LinearRing><coordinates>{_places(ring)}</coordinates></LinearRing></{side}>" for side, ring in sides
        )
        found += f"<Polygon>{rings}</Polygon>"
    return f"<MultiGeometry>{found}</MultiGeometry>" if len(polygons) > 1 else found


def _places(ring: list[list[float]]) -> str:
    return orjson.dumps(ring).decode()[2:-2].replace("],[", " ")


EXPORTERS: dict[str, Callable[[DamageMap, Path], None]] = {
    "geojson": export_short_geojson,
    "geojson-full": export_geojson,
    "gpkg": export_gpkg,
    "parquet": export_parquet,
    "fgb": export_fgb,
    "csv": export_csv,
    "kml": export_kml,
    "heat": export_heat,
}


def write_side_files(damage_map: DamageMap, out: Path) -> list[Path]:
    """Write `<name>.codebook.csv` and `<name>.run.json` beside an export, each whole or not at all.

    Args:
        out: the export; `<name>` is its name without the last suffix, so that exports of one version share the two files.

    Returns:
        The two paths.
    """
    header = ("field", "type", "unit", "meaning", "allowed_values", "in_short_geojson")
    is_short = set(shortened(damage_map).columns) | {SHORT[0]}
    rows = [
        (f.name, f.kind, f.unit, f.meaning, f.allowed, "yes" if f.name in is_short else "no") for f in fields_of(damage_map)
    ]
    codebook, run = out.with_name(f"{out.stem}.codebook.csv"), out.with_name(f"{out.stem}.run.json")
    write_export(codebook, [BYTE_ORDER_MARK, csv_lines([header, *rows])])
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    write_export(run, [orjson.dumps(dict(damage_map.metadata), option=options), b"\n"])
    return [codebook, run]
