"""Damage maps as KML 2.2, for Google Earth and phones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.atomic_write import write_export
from pu_geo.geo.export.codebook import Field, fields_of
from pu_geo.geo.export.geometry import rings_of
from pu_geo.geo.export.pieces import Cell, Piece, caption, flat_cells, pieces_of
from pu_geo.geo.export.styles import STYLES, kml_styles
from pu_geo.records import DamageMap

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_KML_TYPES = {"bool": "bool", "int": "int", "float": "double"}
_SCHEMA_ID = "damage_map"
_STYLED = {style.triage for style in STYLES}


def export_kml(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as KML 2.2: a placemark per building, colored by `triage`, its fields as typed extended data.

    A null field is left out. Characters that XML cannot hold become U+FFFD. A footprint that rounding leaves nothing of has
    no geometry.
    """
    write_export(out, (text.encode() for text in _texts(damage_map)))


def _texts(damage_map: DamageMap) -> Iterator[str]:
    fields = fields_of(damage_map)
    title, disclaimer = caption(damage_map)
    schema = "".join(
        f'<SimpleField type="{_KML_TYPES.get(field.kind, "string")}" name={quoteattr(_xml(field.name))}/>'
        for field in fields
    )
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
        f"<name>{_escaped(title)}</name><description>{_escaped(disclaimer)}</description>{kml_styles()}"
        f'<Schema name="{_SCHEMA_ID}" id="{_SCHEMA_ID}">{schema}</Schema>\n'
    )
    for piece in pieces_of(damage_map, "kml"):
        yield "".join(_placemarks(piece, fields))
    yield "</Document></kml>\n"


def _placemarks(piece: Piece, fields: Sequence[Field]) -> Iterator[str]:
    names = [f"<SimpleData name={quoteattr(_xml(field.name))}>" for field in fields]
    triage = piece.columns.get("triage", [None] * len(piece.ids))
    rows = zip(*flat_cells(piece, fields), strict=True)
    shapes = rings_of(piece.shapes).nested(len(piece.ids))
    for building, polygons, style, row in zip(piece.ids, shapes, triage, rows, strict=True):
        geometry = "".join(_polygon(rings) for rings in polygons)
        geometry = f"<MultiGeometry>{geometry}</MultiGeometry>" if len(polygons) > 1 else geometry
        cells = zip(names, row, strict=True)
        data = "".join(f"{name}{_escaped(_value(cell))}</SimpleData>" for name, cell in cells if cell is not None)
        style = f"<styleUrl>#{style}</styleUrl>" if style in _STYLED else ""
        yield (
            f"<Placemark><name>{_escaped(building)}</name>{style}<ExtendedData>"
            f'<SchemaData schemaUrl="#{_SCHEMA_ID}">{data}</SchemaData></ExtendedData>{geometry}</Placemark>\n'
        )


def _value(cell: Cell) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _escaped(text: str) -> str:
    return escape(_xml(text), {"\r": "&#13;"})


def _polygon(rings: list[NDArray[np.float64]]) -> str:
    written = []
    for side, ring in zip(["outerBoundaryIs", *["innerBoundaryIs"] * (len(rings) - 1)], rings, strict=True):
        text = orjson.dumps(np.ascontiguousarray(ring), option=orjson.OPT_SERIALIZE_NUMPY).decode()[2:-2].replace("],[", " ")
        written.append(f"<{side}><LinearRing><coordinates>{text}</coordinates></LinearRing></{side}>")
    return f"<Polygon>{''.join(written)}</Polygon>"
