"""Labels of a file that was not made with PU-Geo: what its values mean is stated by a person, and never guessed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import geopandas
import pytest
import shapely
from small_parts import click, small_project, square_table, table_of

from pu_geo.answers import labeling
from pu_geo.answers.export_labels_job import export_labels
from pu_geo.answers.import_labels_job import Meaning, import_labels
from pu_geo.errors import LabelError
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout

Values = Sequence[Any]


def points(path: Path, field: str, values: Values) -> str:
    """Write a point on each of the first buildings, with a value in one field; with none where `field` is ""."""
    squares = shapely.from_wkb(list(square_table(len(values)).wkb))
    places = geopandas.GeoSeries(shapely.point_on_surface(squares), crs=32615).to_crs(4326)
    features = [
        {"type": "Feature", "properties": {"team": "A", **({field: value} if field else {})}, "geometry": shapely.geometry.mapping(place)}
        for place, value in zip(places, values, strict=True)
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    return str(path)


def semicolons(path: Path, field: str, values: Values) -> str:
    rows = [f"b{i};{value};12,5" for i, value in enumerate(values)]
    path = path.with_suffix(".csv")
    path.write_text("\n".join([f"building_id;{field};height", *rows]) + "\n", encoding="utf-8")
    return str(path)


CASES: dict[str, tuple[Any, str, Values, Meaning]] = {
    "inspectors": (points, "DAMAGE", ["Destroyed (>50%)", "No Damage", "Inaccessible", None], Meaning("DAMAGE", ("Destroyed (>50%)",), ("No Damage",))),
    "Copernicus": (points, "damage_gra", ["Destroyed", "No visible damage", "Not Analysed"], Meaning("damage_gra", ("Destroyed",), ("No visible damage",))),
    "UNOSAT": (points, "Damage_Cls", [1, 4.0, 6], Meaning("damage_cls", ("1",), ("4",))),
    "words of others": (points, "class", ["Collapsed", "Intact", "Cloudy"], Meaning("class", ("Collapsed",), ("Intact",))),
    "a label in other words": (points, "Label", ["burnt", "fine", "?"], Meaning("", ("burnt",), ("fine",))),
    "a table with semicolons": (semicolons, "state", ["gone", "standing", ""], Meaning("state", ("gone",), ("standing",))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_count_once_somebody_said_what_they_mean(case: str, project: Layout, tmp_path: Path) -> None:
    write, field, values, meaning = CASES[case]
    path = write(tmp_path / "them.geojson", field, values)
    wrong = Meaning(meaning.field, ("no such value",), ("nor this",))
    for given in (Meaning(), Meaning(meaning.field), wrong, Meaning("nowhere", ("x",))):
        with pytest.raises(LabelError, match="Nothing was stored") as refused:
            import_labels(project, path, analyst="ann", meaning=given)
        assert refused.value.kind == "values"
        assert all(str(value).removesuffix(".0") in refused.value.problem for value in values if value)
        assert f"--field {field} --damaged" in refused.value.hint
        assert labeling.current_labels(project) == {}
    more = replace(meaning, damaged=(*meaning.damaged, "Gone"))
    done: Any = import_labels(project, path, analyst="ann", meaning=more)
    assert done["notes"][0].endswith(": Gone.")
    assert labeling.current_labels(project) == {"b0": "positive", "b1": "not_damaged"}
    assert (done["stored"], done["skipped"]) == (2, len(values) - 2)


def test_a_file_without_any_value_is_of_damaged_buildings_if_somebody_says_so(project: Layout, tmp_path: Path) -> None:
    path = points(tmp_path / "clicks.geojson", "", [None] * 3)
    with pytest.raises(LabelError, match="no column label, so nothing says"):
        import_labels(project, path, analyst="ann")
    assert import_labels(project, path, analyst="ann", meaning=Meaning(all_damaged=True))["stored"] == 3
    with pytest.raises(LabelError, match="All rows are called damaged"):
        import_labels(project, path, analyst="ann", meaning=Meaning("x", all_damaged=True))
    own = str(export_labels(project, str(tmp_path / "own.csv"))["events_out"])
    with pytest.raises(LabelError, match="is the history of a project"):
        import_labels(project, own, analyst="ann", meaning=Meaning("label", ("1",)))


@pytest.mark.parametrize(("at", "counts"), [("2020-01-01T00:00:00Z", False), ("2100-01-01T00:00:00Z", True), ("", True)])
def test_an_older_answer_overrides_none_and_others_say_so(at: str, counts: bool, project: Layout, tmp_path: Path) -> None:
    click(project, "b1", "b2", "b3", grade="destroyed")
    path = tmp_path / "theirs.csv"
    rows = ["building_id,label,grade,at", f"b1,no_visible_damage,,{at}", f"b2,damaged,,{at}", f"b3,damaged,minor,{at}"]
    path.write_text("\n".join(rows), encoding="utf-8")
    done: Any = import_labels(project, str(path), analyst="ann")
    with store.connect(project) as db:
        found = {building: (event.label, event.grade) for building, event in labels.current(db).items()}
    theirs = {"b1": ("not_damaged", ""), "b2": ("positive", "destroyed"), "b3": ("positive", "minor")}
    assert found == (theirs if counts else dict.fromkeys(theirs, ("positive", "destroyed")))
    words = "Older than the answers here, which say otherwise, and left out: 2 (b1 and b3)."
    assert done["notes"] == ["Took the place of answers that said otherwise: 1 (b1)." if counts else words]


def test_of_rows_that_contradict_each_other_the_newest_counts_and_it_is_said(project: Layout, tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    rows = ["b1,not_damaged,2026-06-01T00:00:00Z", "b1,damaged,2026-01-01T00:00:00Z", "b2,damaged,", "b2,damaged,"]
    path.write_text("\n".join(["building_id,label,at", *rows]), encoding="utf-8")
    done: Any = import_labels(project, str(path), analyst="ann")
    assert labeling.current_labels(project) == {"b1": "not_damaged", "b2": "positive"}
    assert done["notes"] == ["Named more than once with different labels, of which the newest or last counts: 1 (b1)."]


def test_usual_names_of_columns_say_nothing_where_a_meaning_is_stated(project: Layout, tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("building_id,labeller,event,label,DAMAGE\nb1,x,Harvey,7,Yes\nb2,y,Harvey,8,No\n,,,,No\n")
    done = import_labels(project, str(path), analyst="ann", meaning=Meaning("DAMAGE", ("Yes",), ("No",)))
    assert labeling.current_labels(project) == {"b1": "positive", "b2": "not_damaged"}
    assert (done["stored"], done["skipped"]) == (2, 1)


def test_an_id_that_two_files_give_is_none(tmp_path: Path) -> None:
    squares = shapely.from_wkb(list(square_table(4).wkb))
    table = table_of(squares, ["1", "2", "b000001", "b000002"], attributes=[{"id": i} for i in (1, 2, 1, 2)])
    layout = small_project(tmp_path / "two.pugeo", table=table)
    path = tmp_path / "labels.csv"
    path.write_text("building_id,label\n1,damaged\n", encoding="utf-8")
    with pytest.raises(LabelError) as refused:
        import_labels(layout, str(path), analyst="ann")
    assert refused.value.kind == "ids"
