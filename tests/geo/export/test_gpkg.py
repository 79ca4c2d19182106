"""The GeoPackage around its layer: style, metadata, and an index that outlives edits by other programs."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pyogrio
import pytest
import shapely
from small_parts import REPOSITORY

from pu_geo.geo.export import styles as export_styles
from pu_geo.geo.export.codebook import known_fields
from pu_geo.geo.export.exporters import export_kml
from pu_geo.geo.export.layers import export_gpkg
from pu_geo.geo.readers.footprint_files import load_features
from pu_geo.records import DamageMap

TRIAGE = ["confirmed", "flagged", "high_precision", "high_recall", "below", "not_assessed"]


def exported(folder: Path, n: int = 6) -> Path:
    x = [15 + 0.001 * i for i in range(n)]
    shapes = [shapely.box(at, 41.5, at + 0.0002, 41.5002) for at in x]
    columns = {"triage": TRIAGE[:n]}
    ids = [f"b{i}" for i in range(n)]
    meta = {"title": "Quake", "disclaimer": "preliminary", "run_id": "r1"}
    export_gpkg(DamageMap(ids, [shapely.to_wkb(s) for s in shapes], columns, "EPSG:4326", meta), folder / "map.gpkg")
    return folder / "map.gpkg"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_the_database_is_sound_readable_and_styled_for_qgis(tmp_path: Path) -> None:
    path = exported(tmp_path)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert rows(path, "PRAGMA application_id") == [(int.from_bytes(b"GPKG", "big"),)]
    assert rows(path, "SELECT count(*) FROM rtree_damage_map_geom") == [(6,)]
    assert rows(path, "SELECT rtreecheck('rtree_damage_map_geom')") == [("ok",)]
    assert [tuple(layer) for layer in pyogrio.list_layers(path)] == [("damage_map", "MultiPolygon"), ("layer_styles", None)]
    assert pyogrio.read_info(path, layer="damage_map")["layer_metadata"]["DESCRIPTION"] == "Quake. preliminary"
    assert '"run_id":"r1"' in str(rows(path, "SELECT metadata FROM gpkg_metadata"))
    raw = load_features(path)
    assert [row["building_id"] for row in raw.attributes] == [f"b{i}" for i in range(6)]
    assert raw.crs == "EPSG:4326"
    assert shapely.is_valid(raw.geometries).all()
    names = "f_table_name, f_geometry_column, useAsDefault, styleQML, styleSLD"
    ((table, column, is_default, qml, sld),) = rows(path, f"SELECT {names} FROM layer_styles")
    assert (table, column, is_default) == ("damage_map", "geom", 1)
    renderer = ElementTree.fromstring(str(qml)).find("renderer-v2")
    assert (renderer.get("type"), renderer.get("attr")) == ("categorizedSymbol", "triage")
    fills = {}
    for category in renderer.iter("category"):
        symbol = renderer.find(f"symbols/symbol[@name='{category.get('symbol')}']")
        options = {option.get("name"): option.get("value") for option in symbol.iter("Option") if option.get("name")}
        fills[category.get("value")] = (options["color"], options["style"])
    assert list(fills) == TRIAGE
    assert fills["confirmed"] == ("213,94,0,217", "solid")
    assert fills["not_assessed"][1] == "b_diagonal"
    red, green, blue, _ = map(int, str(fills["below"][0]).split(","))
    assert red == green == blue
    root = ElementTree.fromstring(str(sld))
    assert [node.text for node in root.iter("{http://www.opengis.net/ogc}Literal")] == TRIAGE
    assert len(list(root.iter("{http://www.opengis.net/sld}GraphicFill"))) == 1


def test_styles_know_the_values_of_the_codebook_and_the_color_of_a_positive_on_the_annotate_screen() -> None:
    assert [look.value for look in export_styles.STYLES] == TRIAGE == known_fields()["triage"].allowed.split("; ")
    source = (REPOSITORY / "pu_geo/ui/frontend/src/colors.js").read_text(encoding="utf-8")
    colors = re.search(r"LABEL_COLORS = \[(.*?)\]", source)
    assert export_styles.STYLES[0].color == colors[1].split(",")[1].strip(' "')


@pytest.mark.parametrize("n", [0, 6])
def test_kml_is_colored_too_and_is_xml_whatever_the_texts_hold(n: int, tmp_path: Path) -> None:
    ids = [f"b{i}\x00\x0b\ufffe<&\r" for i in range(n)]
    wkb = [shapely.to_wkb(shapely.box(15, 41, 15.1, 41.1))] * n
    export_kml(DamageMap(ids, wkb, {"triage": TRIAGE[:n]}, "EPSG:4326", {"title": "A & B"}), tmp_path / "map.kml")
    name = "{http://www.opengis.net/kml/2.2}"
    root = ElementTree.fromstring((tmp_path / "map.kml").read_bytes())
    assert [node.text for node in root.iter(f"{name}styleUrl")] == [f"#{value}" for value in TRIAGE[:n]]
    assert {f"#{node.get('id')}" for node in root.iter(f"{name}Style")} >= {f"#{value}" for value in TRIAGE}
    found = [node.findtext(f"{name}name") for node in root.iter(f"{name}Placemark")]
    assert found == [f"b{i}\ufffd\ufffd\ufffd<&\r" for i in range(n)]
    style = next(root.iter(f"{name}Style"))
    assert style.findtext(f"{name}PolyStyle/{name}color") == "d9005ed5"  # alpha, blue, green, red
