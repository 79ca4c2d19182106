"""The codebook, the side files, and the classes of other services."""

import csv
import json
from pathlib import Path
from typing import get_args

import pytest
import shapely

from pu_geo.geo.export.codebook import PROFILES, Kind, fields_of, known_fields, with_classes
from pu_geo.geo.export.exporters import write_side_files
from pu_geo.records import DamageMap


def made(**columns: list[object]) -> DamageMap:
    n = len(next(iter(columns.values())))
    ids = [f"b{i}" for i in range(n)]
    wkb = [shapely.to_wkb(shapely.box(15, 41, 15.001, 41.001))] * n
    return DamageMap(ids, wkb, {"building_id": ids, **columns}, "EPSG:4326", {"title": "Quake", "seed": 3})


def test_side_files_stand_beside_the_export(tmp_path: Path) -> None:
    damage_map = made(score=[0.5], damage_binary=["damaged"], color=["red"])
    paths = write_side_files(damage_map, tmp_path / "map.v1.geojson")
    assert [path.name for path in paths] == ["map.v1.codebook.csv", "map.v1.run.json"]
    assert sorted(tmp_path.iterdir()) == paths
    assert json.loads(paths[1].read_bytes()) == {"title": "Quake", "seed": 3}
    with paths[0].open(encoding="utf-8-sig", newline="") as file:
        rows = {row["field"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["building_id", "score", "damage_binary", "color"]
    assert rows["score"]["type"] == "float"
    assert rows["damage_binary"]["allowed_values"] == "damaged; not_flagged; not_assessed"
    assert rows["color"]["meaning"] == "Not part of the schema."
    assert all(row["meaning"] for row in rows.values())


def test_the_codebook_has_the_whole_export_schema() -> None:
    schema = """
        building_id source_footprint area_m2 lon lat adm1_pcode adm2_pcode adm2_name
        assessed not_assessed_reason damage_binary damage_class score score_type p_damaged p_low p_high rank threshold triage
        damage_types absent_types discovered_type label label_source labeller labelled_at n_labels agreement review_status audit_weight
        pre_image_id pre_date post_image_id post_date post_gsd_m pre_hidden_share post_hidden_share
        off_nadir_deg shift_dx_m shift_dy_m shift_quality
        method run_id run_at round product_version schema_version source_attributes ems_class unosat_class
        unosat_class_name xbd_class xbd_class_name fema_class x_m y_m site
    """
    assert list(known_fields()) == schema.split()
    assert all(field.meaning and field.name == name for name, field in known_fields().items())
    assert {field.kind for field in known_fields().values()} == set(get_args(Kind))
    for column, names in ((column, names) for profile in PROFILES.values() for column, names in profile.items()):
        assert {str(value) for value in names.values()} == set(known_fields()[column].allowed.split("; "))


NONE = "Damaged, not graded"
KINDS = {"score": "float", "rank": "int", "label": "text", "damage_types": "list"}


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ({"score": [None], "rank": [None], "label": [None], "damage_types": [[]]}, KINDS),
        ({"score": [1], "rank": [2], "label": ["damaged"], "damage_types": [["a"]]}, KINDS),
        # a column that breaks its promise gets the kind it holds
        (
            {"rank": ["first"], "score": [True], "new": [{"a": 1}], "mixed": [1]},
            {"rank": "text", "score": "bool", "new": "json", "mixed": "int"},
        ),
    ],
)
def test_kinds_do_not_change_with_what_a_column_holds(columns: dict[str, list[object]], kinds: dict[str, str]) -> None:
    assert {field.name: field.kind for field in fields_of(made(**columns))} == {"building_id": "text", **kinds}


@pytest.mark.parametrize(
    ("damage_class", "label", "binary", "ems", "unosat", "name", "xbd", "fema"),
    [
        ("destroyed", "damaged", "damaged", "Destroyed", 1, "Destroyed", 3, "Destroyed"),
        ("major", "damaged", "damaged", "Damaged", 2, "Major damage", 2, "Major"),
        ("minor", "damaged", "damaged", "Possibly damaged", 3, "Minor damage", 1, "Minor"),
        ("possible", None, "damaged", "Possibly damaged", 4, "Possible damage", None, None),
        ("damaged_not_graded", "damaged", "damaged", NONE, None, NONE, None, NONE),
        ("no_visible_damage", None, "not_flagged", "No visible damage", 6, "No visible damage", 0, "No visible damage"),
        ("not_assessed", None, "not_assessed", "Not analysed", None, "Not assessed", None, "Not assessed"),
        (None, "damaged", "damaged", NONE, None, NONE, None, NONE),  # never the weakest class
        (None, "no_visible_damage", "not_flagged", "No visible damage", 6, "No visible damage", 0, "No visible damage"),
        (None, "not_assessable", "not_assessed", "Not analysed", None, "Not assessed", None, "Not assessed"),
        (None, None, "not_assessed", "Not analysed", None, "Not assessed", None, "Not assessed"),
        (None, None, "damaged", None, None, None, None, None),  # a flag of the model is no grade
        (None, None, "not_flagged", None, None, None, None, None),  # and no flag is not "no visible damage"
    ],
)
def test_only_people_give_classes(
    damage_class: str | None, label: str | None, binary: str, ems: str | None, unosat: int | None, name: str | None,
    xbd: int | None, fema: str | None,
) -> None:  # fmt: skip
    plain = made(damage_class=[damage_class], label=[label], damage_binary=[binary])
    every = plain
    for profile in PROFILES:
        every = with_classes(every, profile)
    expected = {"ems_class": ems, "unosat_class": unosat, "unosat_class_name": name, "xbd_class": xbd, "fema_class": fema}
    assert {column: every.columns[column] for column in expected} == {column: [value] for column, value in expected.items()}
    assert "ems_class" not in plain.columns
