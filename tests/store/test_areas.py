"""Layers of areas and the area of interest in the project file, and the styles that QGIS finds there."""

import json
import sqlite3
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from contextlib import closing
from sqlite3 import Connection

import pytest
import shapely

from pu_geo.errors import ProjectError
from pu_geo.records import LabelOp
from pu_geo.store import aoi, areas, contents, labels, schema, store
from pu_geo.store.areas import AreaLayer
from pu_geo.store.layout import Layout

WEST, EAST = shapely.box(499_900, 3_999_000, 500_100, 4_001_000), shapely.box(500_100, 3_999_000, 501_000, 4_001_000)
ADM2 = AreaLayer("adm2", ["West", "東"], ["P1", None], [shapely.to_wkb(WEST), shapely.to_wkb(EAST)])
ONE = AreaLayer("район_1", ["all"], ["P"], [shapely.to_wkb(shapely.MultiPolygon([WEST]))])
EXTENT = "SELECT min_x, min_y, max_x, max_y, srs_id FROM gpkg_contents WHERE table_name = 'aoi'"
READER = """
    import json, sys, pyogrio
    def read(layer, **more):
        return pyogrio.read_dataframe(sys.argv[1], layer=layer, **more)
    areas, aoi, buildings, styles = read("areas", fid_as_index=True), read("aoi"), read("damage_map"), read("layer_styles")
    few = read("footprints", bbox=(500000, 4000000, 500020, 4000008))
    default = styles[styles.useAsDefault.astype(bool)]
    answers = buildings.set_index("building_id")[["label", "labeller", "reason", "damage_types", "comment"]].replace("", None)
    print(json.dumps({
        "layers": [layer[0] for layer in pyogrio.list_layers(sys.argv[1])],
        "aoi": [aoi.source.tolist(), aoi.total_bounds.tolist(), aoi.crs.to_epsg()],
        "areas": [areas.name.tolist(), areas.total_bounds.tolist(), areas.crs.to_epsg()],
        "buildings": [len(buildings), len(few), buildings.crs.to_epsg(), buildings.total_bounds.tolist()],
        "answers": answers.fillna("-").loc[["b3", "b4"]].values.tolist(),
        "styles": dict(zip(default.f_table_name, default.styleQML)),
    }))
"""


def test_layers_come_back_as_stored_and_one_of_the_same_name_is_replaced(db: Connection) -> None:
    assert areas.layers(db) == {}
    assert [areas.put_areas(db, ADM2), areas.put_areas(db, ONE)] == [0, 0]
    assert areas.layers(db) == {"adm2": 2, "район_1": 1}
    assert areas.load_areas(db, "adm2") == ADM2
    question = "SELECT min_x, min_y, max_x, max_y, srs_id FROM gpkg_contents WHERE table_name = 'areas'"
    assert db.execute(question).fetchone() == (499_900, 3_999_000, 501_000, 4_001_000, 32615)
    assert db.execute("SELECT srs_id FROM gpkg_geometry_columns WHERE table_name = 'areas'").fetchone() == (32615,)
    with pytest.raises(ValueError):  # it is stored as a whole or not at all
        areas.put_areas(db, AreaLayer("adm2", ["x", "y", "z"], [None, None], ADM2.wkb))
    assert areas.load_areas(db, "adm2") == ADM2
    smaller = AreaLayer("adm2", ["East"], [None], [shapely.to_wkb(EAST)])
    assert areas.put_areas(db, smaller) == 2
    assert [areas.load_areas(db, "adm2"), areas.load_areas(db, "район_1")] == [smaller, ONE]
    assert areas.layers(db) == {"adm2": 1, "район_1": 1}
    with pytest.raises(ProjectError, match="no layer of areas 'adm3' in this project; there are: район_1, adm2"):
        areas.load_areas(db, "adm3")


@pytest.mark.parametrize("layer", ["", "a b", "../x", "-a", "a" * 41, "GRID1", "a\n"])
def test_names_that_cannot_be_names_of_files_are_refused(db: Connection, layer: str) -> None:
    with pytest.raises(ProjectError, match="cannot name a layer of areas"):
        areas.put_areas(db, AreaLayer(layer, ADM2.names, ADM2.pcodes, ADM2.wkb))


CONFIRMED, INTACT, NOT_ASSESSED, FLAGGED, NOT_FLAGGED, NO_SCORE = "012345"
STATES = {  # label, run, damage_binary of a building: a person's answer decides before a score
    (None, None, "not_assessed"): NO_SCORE,
    (None, "ranker-1", "damaged"): FLAGGED,
    (None, "ranker-1", "not_flagged"): NOT_FLAGGED,
    (None, "ranker-1", "not_assessed"): NOT_ASSESSED,
    ("not_assessable", None, "not_assessed"): NOT_ASSESSED,
    ("positive", "ranker-1", "damaged"): CONFIRMED,
    ("not_damaged", "ranker-1", "not_flagged"): INTACT,
}


def test_every_state_of_a_building_has_exactly_one_rule() -> None:
    style = ET.fromstring(schema.damage_map_qml())
    rules = list(style.iter("rule"))
    assert {rule.get("symbol") for rule in rules} <= {symbol.get("name") for symbol in style.iter("symbol")}
    with closing(sqlite3.connect(":memory:")) as db:
        for (label, run_id, binary), expected in STATES.items():
            row = {"label": label, "run_id": run_id, "damage_binary": binary, "assessed": int(binary != "not_assessed")}
            columns = ", ".join(f":{name} AS {name}" for name in row)
            questions = {rule.get("symbol"): f"SELECT {rule.get('filter')} FROM (SELECT {columns})" for rule in rules}
            assert [name for name, question in questions.items() if db.execute(question, row).fetchone()[0]] == [expected]
    assert "Confirmed" in str(rules[0].get("label"))


def test_an_area_is_put_replaced_taken_away_and_put_back(db: Connection) -> None:
    before = contents.footprints(db).building_ids
    assert (aoi.current(db), aoi.before(db), aoi.remove(db), aoi.put_back(db)) == (None, None, False, None)
    assert aoi.put(db, ADM2.wkb[0], "west.geojson") is False
    assert aoi.before(db) is None
    assert aoi.put(db, ADM2.wkb[1], "east.geojson") is True
    now = aoi.current(db)
    assert (now.wkb, now.source) == (ADM2.wkb[1], "east.geojson")
    assert db.execute(EXTENT).fetchone() == (500_100, 3_999_000, 501_000, 4_001_000, 32615)
    assert aoi.remove(db) is True
    assert aoi.current(db) is None
    assert db.execute(EXTENT).fetchone() == (None, None, None, None, 32615)
    for expected in ("east.geojson", "west.geojson", "east.geojson"):  # undone, and again: the one before it, and back
        assert aoi.put_back(db).source == expected
    assert contents.footprints(db).building_ids == before
    assert db.execute("SELECT count(*) FROM aoi_log").fetchone() == (6,)


@pytest.mark.slow
def test_other_programs_read_all_layers_while_the_project_is_written(project: Layout) -> None:
    with store.connect(project) as db:
        areas.put_areas(db, ADM2)
        aoi.put(db, ADM2.wkb[0], "west")
        aoi.put(db, ADM2.wkb[1], "east")
        damaged = LabelOp("1", "b3", "positive", damage_types=["roof"], comment="half")
        labels.append(db, [damaged, LabelOp("2", "b4", "not_assessable", reason="cloud")], analyst="ann", screen="map")
        db.execute("BEGIN IMMEDIATE")  # somebody is in the middle of writing
        db.execute("INSERT INTO areas (geom, layer, name) SELECT geom, 'x', 'x' FROM footprints")
        code = [sys.executable, "-W", "error::RuntimeWarning", "-c", textwrap.dedent(READER), str(project.gpkg)]
        done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=120)
        db.execute("COMMIT")
        assert done.returncode == 0, done.stderr
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = json.loads(done.stdout)
    layers = {"aoi", "areas", "damage_map", "footprints", "label_event", "layer_styles", "run", "scene"}
    assert set(found.pop("layers")) >= layers
    lines = schema.areas_qml()
    assert found == {
        "aoi": [["east"], [500_100, 3_999_000, 501_000, 4_001_000], 32615],
        "areas": [["West", "東"], [499_900, 3_999_000, 501_000, 4_001_000], 32615],
        "buildings": [20, 2, 32615, [500_000, 4_000_000, 500_000 + 16 * 19 + 8, 4_000_008]],
        "answers": [["positive", "ann", "-", '["roof"]', "half"], ["not_assessable", "ann", "cloud", "-", "-"]],
        "styles": {"damage_map": schema.damage_map_qml(), "areas": lines, "aoi": lines},
    }
