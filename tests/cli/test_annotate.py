"""Verbs of the Annotate screen: simulated clicks, the stream, files in and out."""

import json
from pathlib import Path

from cli_parts import CommandLine
from small_parts import small_project

from pu_geo.answers import labeling
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout


def test_simulated_clicks_follow_field_count_and_seed(run: CommandLine, project: Layout) -> None:
    arguments = ("label", project.folder, "--from-field", "damage", "--is", "destroyed")
    assert run.json(*arguments, "--count", "3") == {"stored": 3, "positives": 3}
    assert set(labeling.current_labels(project)) <= {"b0", "b4", "b8", "b12", "b16"}
    assert "2 of them are not reviewed yet" in run.refused(*arguments, "--count", "3")
    for count in ("-1", "0", "many"):
        assert "--count cannot be used" in run.refused(*arguments, f"--count={count}")
    for more in ((), ("--stdin", "--import", "x.csv"), ("--from-field", "damage", "--stdin")):
        assert "in one way" in run.refused("label", project.folder, *more)


def test_csv_import_is_one_act_and_importing_again_stores_nothing(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("building_id,label\nb1,positive\nb2,damaged\nb3,not_damaged\nb4,\n")  # b4 has none: skipped
    stored = [run.json("label", project.folder, "--import", table)["stored"] for _ in range(2)]
    assert stored == [3, 0]
    assert labeling.current_labels(project) == {"b1": "positive", "b2": "positive", "b3": "not_damaged"}
    with store.connect(project) as db:
        analyst = next(iter(labels.current(db).values())).analyst
        assert len(labels.undo(db, "u", analyst=analyst, screen="cli")) == 3
    assert run.json("label", project.folder, "--import", table)["stored"] == 3
    for text, word in (("a,b\n1,2\n", "no column building_id"), ("building_id,label\nb1,burnt\n", "--damaged 'burnt'")):
        table.write_text(text)
        assert word in run.refused("label", project.folder, "--import", table)


def test_labels_are_exported_with_their_history_beside_them(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    run.text("label", project.folder, "--from-field", "damage", "--is", "destroyed", "--count", "3")
    out, history = tmp_path / "labels.geojson", tmp_path / "labels.events.csv"
    assert run.json("export-labels", project.folder, "--out", out) == {
        "out": str(out), "events_out": str(history), "decisions_out": str(tmp_path / "labels.decisions.json"),
        "n": 3, "n_events": 3, "labels_up_to_event": 3,
    }  # fmt: skip
    assert len(json.loads(out.read_text())["features"]) == 3
    assert "is the history of a project" in run.refused("label", project.folder, "--import", history)
    fresh = small_project(tmp_path / "fresh.pugeo")
    rebuilt = run.json("label", fresh.folder, "--import", history, "--rebuild")
    assert (rebuilt["stored"], rebuilt["decisions"]) == (3, 0)
    assert run.text("export-labels", project.folder, "--out", tmp_path / "labels.csv").startswith("Wrote 3 labels to")
    assert "ends in .txt" in run.refused("export-labels", project.folder, "--out", tmp_path / "labels.txt")


def test_points_are_laid_onto_footprints_and_misses_are_counted(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    def point(lon: float, lat: float, **properties: str) -> dict[str, object]:
        return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [lon, lat]}}

    # (500004, 4000004) in UTM 15N is on the central meridian, 93 degrees west; b0 covers it
    points = [point(-92.9999555, 36.1447542), point(-93.5, 36.0)]
    path = tmp_path / "points.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": points}))
    result = run.json("label", str(project.folder), "--import", str(path), "--all-damaged")
    notes = ["1 label(s) lie on no footprint of this project and were left out."]
    assert result == {"rows": 2, "stored": 1, "unchanged": 0, "skipped": 1, "placed": 0, "notes": notes}
    assert labeling.current_labels(project) == {"b0": "positive"}


def test_grades_of_a_project_and_of_simulated_clicks(project: Layout, run: CommandLine) -> None:
    folder = str(project.folder)
    assert [one["name"] for one in run.json("grades", folder)["grades"]] == ["Destroyed", "Major", "Minor"]
    found = run.json("grades", folder, "--set", "Major=major", "Roof gone=major", "Total=destroyed")["grades"]
    assert [(one["id"], one["damage_class"]) for one in found] == [
        ("major", "major"), ("roof-gone", "major"), ("total", "destroyed"),
    ]  # fmt: skip
    assert "NAME=CLASS" in run.refused("grades", folder, "--set", "Total")
    assert "class 'worst'" in run.refused("grades", folder, "--set", "Total=worst")
    simulated = ("label", folder, "--from-field", "damage", "--is", "destroyed", "--count", "2")
    assert "grade 'Totl' is not one of" in run.refused(*simulated, "--grade", "Totl")
    assert run.json(*simulated, "--grade", "total")["stored"] == 2
    assert sorted(labeling.graded(project).values()) == ["Total", "Total"]
