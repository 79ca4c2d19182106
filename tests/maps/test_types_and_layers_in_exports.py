"""Damage types and layers reach every export: safe columns, what decides them, counts by area, and an audit or that there is none."""

import csv
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from layer_parts import speckle, town_layer
from mapped_parts import RUN, TRUTH, answer_audit
from small_parts import job_of
from typed_parts import COLUMNS, TYPED, name_types, typed_project

from pu_geo.geo.export.codebook import fields_of
from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.maps import damage_types, run_card
from pu_geo.maps.actions import Publish
from pu_geo.maps.areas_job import area_tables
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.maps.export_job import rows_of
from pu_geo.maps.publish_job import publish
from pu_geo.runs.train_job import rank
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.layers_job import add_layer
from pu_geo.store import contents, runs, store
from pu_geo.store.layout import Layout

CLICKED = [row for row in np.flatnonzero(TRUTH).tolist() if row > 1][:25]
LIMIT = 0.3


@pytest.fixture
def typed(tmp_path: Path) -> Layout:
    layout = typed_project(tmp_path)
    name_types(layout, CLICKED)
    return layout


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream))


def test_columns_follow_the_rule_and_the_codebook_says_it(typed: Layout) -> None:
    plain = build_damage_map(typed, RUN, LIMIT)
    assert not [name for name in plain.columns if name.startswith("type_")]
    assert "types" not in plain.metadata
    found = build_damage_map(typed, TYPED, LIMIT)
    for column in COLUMNS:
        names = (column, f"{column}_score", "triage", "label")
        rows = zip(*(found.columns[name] for name in names), strict=True)
        for state, score, triage, label in rows:
            assert (state == "unknown") == (triage == "not_assessed")
            assert (score is None) == (triage == "not_assessed")
            assert state != "yes" or triage in ("flagged", "confirmed")
            assert label != "no_visible_damage" or state == "no"
        assert set(found.columns[column]) == {"yes", "no", "unknown"}
    fields = {field.name: field for field in fields_of(found)}
    assert (fields["type_roof_score"].kind, fields["type_roof"].allowed) == ("float", "yes; no; unknown")
    assert "'flooded = wet'" in fields[COLUMNS[1]].meaning
    assert "no proof that the type is absent" in fields["type_roof"].meaning
    assert f"Threshold: {found.metadata['types'][0]['threshold']:.4f}." in fields["type_roof"].meaning


def test_a_type_that_nobody_can_judge_is_unknown_and_the_map_says_so(tmp_path: Path) -> None:
    layout = typed_project(tmp_path)
    name_types(layout, CLICKED[:4])
    found = build_damage_map(layout, TYPED, LIMIT)
    rows = zip(found.columns["type_roof"], found.columns["triage"], strict=True)
    assert {state for state, triage in rows if triage == "flagged"} == {"unknown"}
    (words,) = [one for one in found.metadata["cannot_say"] if "Too few damaged buildings are known to have" in one]
    assert "roof" in words
    assert "Threshold: None" in next(one.meaning for one in fields_of(found) if one.name == "type_roof")
    assert next(one.kind for one in fields_of(rows_of(found, [])) if one.name == "type_roof_score") == "float"


def test_qgis_has_a_style_for_each_type_with_a_name_of_its_own(typed: Layout, tmp_path: Path) -> None:
    """QGIS keeps 30 characters of a style's name; two of one name hide each other."""

    def styles(layout: Layout) -> list[tuple[str, int, str]]:
        path = tmp_path / "map.gpkg"
        EXPORTERS["gpkg"](build_damage_map(layout, TYPED, LIMIT), path)
        with closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT styleName, useAsDefault, styleQML FROM layer_styles ORDER BY id").fetchall()

    rows = styles(typed)
    assert [row[:2] for row in rows] == [("triage", 1), (COLUMNS[0], 0), (COLUMNS[1], 0)]
    for name, _, qml in rows[1:]:
        renderer = ElementTree.fromstring(qml).find("renderer-v2")
        assert renderer.get("attr") == name
        assert [one.get("value") for one in renderer.iter("category")] == ["yes", "no", "unknown"]
    (tmp_path / "long").mkdir()
    names = ("collapsed outer wall and roof of brick", "collapsed outer wall and roof of wood")
    found = [row[0] for row in styles(typed_project(tmp_path / "long", types=names))]
    assert found == ["triage", "type_collapsed_outer_wall__1", "type_collapsed_outer_wall__2"]


def test_areas_leave_a_type_empty_that_too_few_answers_name(tmp_path: Path) -> None:
    """What people answered is no count of those that have it; nor is a 0."""
    typed = typed_project(tmp_path)
    name_types(typed, CLICKED[:3])
    damage_types.choose_threshold(typed, TYPED, "roof", 0.4)
    found = build_damage_map(typed, TYPED, LIMIT)
    (table,) = list(area_tables(typed, found, cell_m=100))
    states = [state for state, seen in zip(found.columns[COLUMNS[1]], found.columns["assessed"], strict=True) if seen]
    sums = {name: sum(row[name] or 0 for row in table.rows) for name in table.rows[0] if name.startswith("type_")}
    assert {row["type_flooded_wet_yes"] for row in table.rows} == {None}
    assert sums["type_flooded_wet_unknown"] == states.count("unknown") > 0
    assert sums["type_roof_unknown"] == 0 < sums["type_roof_yes"]
    assert all((row["type_roof_unknown"] is None) == (not row["assessed"]) for row in table.rows)


def test_a_version_says_types_thresholds_and_audits(typed: Layout) -> None:
    damage_types.choose_threshold(typed, TYPED, "roof", 0.4)
    answer_audit(typed, 200, run_id=TYPED)
    args = Publish(("csv",), run=TYPED, threshold=LIMIT).args(typed)
    publish(job_of(typed), **json.loads(json.dumps(args)))
    folder = typed.exports / "v1"
    facts = json.loads((folder / "version.json").read_text())
    roof, wet = facts["types"]
    assert (roof["name"], roof["threshold"], roof["threshold_origin"]) == ("roof", 0.4, "person")
    assert wet["threshold_origin"].startswith("start:")
    states = [row["type_roof"] for row in cells(folder / "damage_map.csv")]
    assert states.count("yes") == roof["by_people"] + roof["by_score"]
    assert states.count("unknown") == roof["unknown"]
    assert roof["audit"]["n_silent"] > 0  # the audit's answers say nothing of types
    report = (folder / "report.html").read_text()
    assert "Damage types" in report
    assert "0.4000, by a person" in report
    fields = {row["field"]: row for row in cells(folder / "damage_map.codebook.csv")}
    assert fields["type_roof"]["allowed_values"] == "yes; no; unknown"
    (areas,) = folder.glob("areas_grid*.csv")
    assert "type_roof_yes" in cells(areas)[0]


@pytest.fixture
def learned(ranked_town: Layout, town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A town whose newest run counts as one that learned from the layer half, and whose chips hold the layer whole, too."""
    half = town_layer(town, tmp_path / "h.tif", speckle(256, 160), box=(0, 0, 0.5, 1))
    whole = town_layer(town, tmp_path / "w.tif", speckle(256, 320, bands=1))
    add_layer(job_of(ranked_town), name="half", paths=[str(half)], kind="sar-db")
    add_layer(job_of(ranked_town), name="whole", paths=[str(whole)], when="none")
    chip(job_of(ranked_town), size_px=32)
    rank(job_of(ranked_town))
    found = runs.find
    maker = {"kind": "layers", "views": [{"name": "pre+post"}, {"name": "half"}]}
    monkeypatch.setattr(runs, "find", lambda db, name: replace(found(db, name), feature_maker=maker))
    return ranked_town


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_map_its_version_report_and_card_name_layers_their_scaling_and_who_lacks_them(learned: Layout) -> None:
    found = build_damage_map(learned, "latest", None)
    chips = contents.chip_facts(learned, str(store.call(learned, contents.latest_chip_set)))
    lacks = contents.is_missing(chips)[2]
    assert 0 < lacks.sum() < len(lacks)
    half, whole = found.metadata["layers"]
    assert (half["name"], half["is_used"], half["n_missing"], half["unit"]) == ("half", True, lacks.sum(), "dB")
    assert (whole["name"], whole["is_used"], whole["when"]) == ("whole", False, "")
    assert half["scaling"] == chips["scaling"]["half"]["bands"]
    assert len(half["files"][0]["sha256"]) == 64
    assert found.columns["layers_missing"] == [["half"] if lack else [] for lack in lacks]
    (field,) = (field for field in fields_of(found) if field.name == "layers_missing")
    assert field.kind == "list"
    assert (
        f"{lacks.sum()} buildings have no half: their scores rest on the other layers alone." in found.metadata["cannot_say"]
    )
    folder = Path(str(publish(job_of(learned), run_id="latest", formats=["geojson"], threshold=0.5)["out"]))
    facts = json.loads((folder / "version.json").read_text())
    assert [one["name"] for one in facts["layers"]] == ["half", "whole"]
    report = (folder / "report.html").read_text()
    assert "Learned from: half (after the event, SAR in decibels" in report
    assert "In the chips, and not used: whole" in report
    row = json.loads((folder / "damage_map.run.json").read_text())
    assert row["layers"][0]["scaling"] == facts["layers"][0]["scaling"]
    assert [one["name"] for one in run_card.card(learned, "latest")["data"]["layers"]] == ["half", "whole"]
