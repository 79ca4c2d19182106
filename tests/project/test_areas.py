"""Layers of areas in the project file, and the styles QGIS finds there; read from outside by other programs."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from sqlite3 import Connection

import pytest
import shapely

from pu_geo.errors import ProjectError
from pu_geo.project import aoi, areas, labels, schema, store
from pu_geo.project.areas import AreaLayer
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp

WEST, EAST = shapely.box(499_900, 3_999_000, 500_100, 4_001_000), shapely.box(500_100, 3_999_000, 501_000, 4_001_000)
ADM2 = AreaLayer("adm2", ["West", "東"], ["P1", None], [shapely.to_wkb(WEST), shapely.to_wkb(EAST)])
ONE = AreaLayer("район_1", ["all"], ["P"], [shapely.to_wkb(shapely.MultiPolygon([WEST]))])
READER = """
    import json, sys, pyogrio
    layers = [list(layer) for layer in pyogrio.list_layers(sys.argv[1])]
    frame = pyogrio.read_dataframe(sys.argv[1], layer="areas", fid_as_index=True)
    styles = pyogrio.read_dataframe(sys.argv[1], layer="layer_styles")
    default = styles[styles.useAsDefault.astype(bool)]
    n = len(pyogrio.read_dataframe(sys.argv[1], layer="damage_map"))
    aoi = pyogrio.read_dataframe(sys.argv[1], layer="aoi")
    print(json.dumps([layers, [aoi.source.tolist(), aoi.total_bounds.tolist(), aoi.crs.to_epsg()], frame.name.tolist(), frame.total_bounds.tolist(), frame.crs.to_epsg(),
        dict(zip(default.f_table_name, default.styleQML)), n]))
"""


def test_layers_come_back_as_stored_and_one_of_the_same_name_is_replaced(db: Connection) -> None:
    assert areas.layers(db) == {}
    assert [areas.put_areas(db, ADM2), areas.put_areas(db, ONE)] == [0, 0]
    assert areas.layers(db) == {"adm2": 2, "район_1": 1}
    assert areas.load_areas(db, "adm2") == ADM2
    smaller = AreaLayer("adm2", ["East"], [None], [shapely.to_wkb(EAST)])
    assert areas.put_areas(db, smaller) == 2
    assert [areas.load_areas(db, "adm2"), areas.load_areas(db, "район_1")] == [smaller, ONE]
    assert areas.layers(db) == {"adm2": 1, "район_1": 1}
    with pytest.raises(ProjectError, match="no layer of areas 'adm3' in this project; there are: район_1, adm2"):
        areas.load_areas(db, "adm3")


def test_the_registry_tells_extent_and_coordinate_system(db: Connection) -> None:
    areas.put_areas(db, ADM2)
    question = "SELECT min_x, min_y, max_x, max_y, srs_id FROM gpkg_contents WHERE table_name = 'areas'"
    assert db.execute(question).fetchone() == (499_900, 3_999_000, 501_000, 4_001_000, 32615)
    assert db.execute("SELECT srs_id FROM gpkg_geometry_columns WHERE table_name = 'areas'").fetchone() == (32615,)


@pytest.mark.parametrize("layer", ["", " ", "a b", "../x", "-a", "_a", "a" * 41, "grid500m", "GRID1", "a/b", "a\n"])
def test_names_that_cannot_be_names_of_files_are_refused(db: Connection, layer: str) -> None:
    with pytest.raises(ProjectError, match="cannot name a layer of areas"):
        areas.put_areas(db, AreaLayer(layer, ADM2.names, ADM2.pcodes, ADM2.wkb))
    assert areas.layers(db) == {}


def test_a_layer_is_stored_whole_or_not_at_all(db: Connection) -> None:
    areas.put_areas(db, ADM2)
    with pytest.raises(ValueError):
        areas.put_areas(db, AreaLayer("adm2", ["x", "y", "z"], [None, None], ADM2.wkb))
    assert areas.load_areas(db, "adm2") == ADM2


def rules() -> list[ET.Element]:
    return list(ET.fromstring(schema.damage_map_qml()).iter("rule"))


def test_every_state_of_a_building_has_exactly_one_rule() -> None:
    found = {}
    with sqlite3.connect(":memory:") as db:
        for label, run_id, binary in itertools.product(
            (None, "positive", "not_damaged", "not_assessable"),
            (None, "ranker-1"),
            ("damaged", "not_flagged", "not_assessed"),
        ):
            if label and binary != {"positive": "damaged", "not_damaged": "not_flagged"}.get(label, "not_assessed"):
                continue  # a person's answer decides
            if label is None and run_id is None and binary != "not_assessed":
                continue  # nobody and nothing spoke of it
            row = {"label": label, "run_id": run_id, "damage_binary": binary, "assessed": int(binary != "not_assessed")}
            columns = ", ".join(f":{name} AS {name}" for name in row)
            hits = [
                rule.get("label")
                for rule in rules()
                if db.execute(f"SELECT {rule.get('filter')} FROM (SELECT {columns})", row).fetchone()[0]
            ]
            assert len(hits) == 1, (row, hits)
            found[label, run_id, binary] = hits[0]
    db.close()
    assert len(found) == 10
    assert found["positive", None, "damaged"] == "Confirmed by a person"
    assert found["not_assessable", None, "not_assessed"] == found[None, "ranker-1", "not_assessed"] == "Not assessed"
    assert found[None, "ranker-1", "damaged"] == "Flagged by score"
    assert found[None, None, "not_assessed"] == "No score yet"


@pytest.mark.parametrize("text", [schema.damage_map_qml(), schema.areas_qml()])
def test_styles_are_well_formed_and_name_symbols_that_exist(text: str) -> None:
    root = ET.fromstring(text)
    symbols = {symbol.get("name") for symbol in root.iter("symbol")}
    assert {rule.get("symbol") for rule in root.iter("rule") if rule.get("symbol")} <= symbols
    assert len({rule.get("key") for rule in root.iter("rule")}) == len(list(root.iter("rule")))
    assert root.findtext("layerGeometryType") == "2"


def test_confirmed_buildings_have_the_color_of_the_annotate_screen() -> None:
    root = ET.fromstring(schema.damage_map_qml())
    options = {option.get("name"): option.get("value") for option in root.find(".//symbol[@name='0']").iter("Option")}
    assert options["color"].startswith(",".join(str(value) for value in bytes.fromhex("D55E00")))


@pytest.mark.slow
def test_other_programs_read_areas_and_styles_while_the_project_is_written(project: Layout) -> None:
    with store.connect(project) as db:
        areas.put_areas(db, ADM2)
        aoi.put(db, ADM2.wkb[0], "west")
        aoi.put(db, ADM2.wkb[1], "east")
        labels.append(db, [LabelOp("1", "b1", "positive")], analyst="ann", screen="map")
        db.execute("BEGIN IMMEDIATE")  # somebody is in the middle of writing
        db.execute("INSERT INTO areas (geom, layer, name) SELECT geom, 'x', 'x' FROM footprints")
        code = [sys.executable, "-c", textwrap.dedent(READER), str(project.gpkg)]
        done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=120)
        db.execute("COMMIT")
        assert done.returncode == 0, done.stderr
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    layers, area_of_interest, names, bounds, epsg, styles, n = json.loads(done.stdout)
    assert area_of_interest == [["east"], [500_100, 3_999_000, 501_000, 4_001_000], 32615]
    assert {name for name, _ in layers} >= {"aoi", "areas", "damage_map", "footprints", "layer_styles"}
    assert dict(map(tuple, layers))["layer_styles"] is None
    assert (names, bounds, epsg, n) == (["West", "東"], [499_900, 3_999_000, 501_000, 4_001_000], 32615, 20)
    lines = schema.areas_qml()
    assert styles == {"damage_map": schema.damage_map_qml(), "areas": lines, "aoi": lines}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ogrinfo") is None, reason="ogrinfo is not on this machine")
def test_ogrinfo_lists_the_project_without_a_warning(project: Layout) -> None:
    with store.connect(project) as db:
        areas.put_areas(db, ADM2)
        command = ["ogrinfo", "-ro", "-so", "-al", str(project.gpkg)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("Layer name: areas", "Layer name: layer_styles", "styleQML: String", "Layer name: damage_map"):
        assert words in done.stdout
