"""Verbs of the Annotate screen: simulated clicks, the stream, files in and out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout


def test_simulated_clicks_follow_field_count_and_seed(run: Callable[..., tuple[int, str, str]], project: Layout) -> None:
    arguments = ("label", str(project.folder), "--from-field", "damage", "--is", "destroyed", "--count", "3", "--json")
    assert json.loads(run(*arguments)[1]) == {"stored": 3, "positives": 3}
    with store.connect(project) as db:
        chosen = labels.current_labels(db)
    assert set(chosen) <= {"b0", "b4", "b8", "b12", "b16"}
    code, _, err = run(*arguments)
    assert code == 2
    assert "there are 2 unlabeled" in err


@pytest.mark.slow
def test_label_stream_stores_each_click_once_and_goes_on_after_a_bad_line(project: Layout) -> None:
    click = '{"op": "a", "building_id": "b1", "label": "positive"}'
    lines = [click, "not json", '{"op": "e", "building_id": "b2", "label": "not_damaged"}', click]
    command = [sys.executable, "-m", "pu_geo.cli", "label", str(project.folder), "--stdin"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    first, refused, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first, list(refused), others) == ({"ack": "a", "event": 1}, ["error"], [{"ack": "e", "event": 2}, first])
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b2": "not_damaged"}


def test_csv_import_is_one_act_and_importing_again_stores_nothing(
    run: Callable[..., tuple[int, str, str]], project: Layout, tmp_path: Path
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("building_id,label\nb1,positive\nb2,damaged\nb3,not_damaged\nb4,\n")  # b4 has none: skipped
    first = json.loads(run("label", str(project.folder), "--import", str(table), "--json")[1])
    again = json.loads(run("label", str(project.folder), "--import", str(table), "--json")[1])
    assert (first["stored"], again["stored"]) == (3, 0)
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b2": "positive", "b3": "not_damaged"}
        analyst = next(iter(labels.current(db).values())).analyst
        assert len(labels.undo(db, "u", analyst=analyst, screen="cli")) == 3
    assert json.loads(run("label", str(project.folder), "--import", str(table), "--json")[1])["stored"] == 3


def test_labels_are_exported_with_their_history_beside_them(
    run: Callable[..., tuple[int, str, str]], project: Layout, tmp_path: Path
) -> None:
    simulated = ("label", str(project.folder), "--from-field", "damage", "--is", "destroyed", "--count", "3")
    assert run(*simulated)[0] == 0
    out = tmp_path / "labels.geojson"
    result = json.loads(run("export-labels", str(project.folder), "--out", str(out), "--json")[1])
    history = tmp_path / "labels.events.csv"
    assert result == {
        "out": str(out), "events_out": str(history), "n": 3, "n_events": 3, "labels_up_to_event": 3,
    }  # fmt: skip
    assert len(json.loads(out.read_text())["features"]) == 3
    again = run("label", str(project.folder), "--import", str(history), "--json")[1]
    assert json.loads(again) == {"rows": 3, "stored": 0, "unchanged": 3, "skipped": 0}
    code, words, _ = run("export-labels", str(project.folder), "--out", str(tmp_path / "labels.csv"))
    assert (code, words.startswith("Wrote 3 labels to")) == (0, True)
    code, _, err = run("export-labels", str(project.folder), "--out", str(tmp_path / "labels.txt"))
    assert code == 2
    assert "ends in .txt" in err


def test_points_are_laid_onto_footprints_and_misses_are_counted(
    run: Callable[..., tuple[int, str, str]], project: Layout, tmp_path: Path
) -> None:
    def point(lon: float, lat: float, **properties: str) -> dict[str, object]:
        return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [lon, lat]}}

    # (500004, 4000004) in UTM 15N is on the central meridian, 93 degrees west; b0 covers it
    points = [point(-92.9999555, 36.1447542), point(-93.5, 36.0)]
    path = tmp_path / "points.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": points}))
    result = json.loads(run("label", str(project.folder), "--import", str(path), "--json")[1])
    notes = ["1 label(s) lie on no footprint of this project and were left out."]
    assert result == {"rows": 2, "stored": 1, "unchanged": 0, "skipped": 1, "placed": 0, "notes": notes}
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b0": "positive"}


@pytest.mark.parametrize(
    ("text", "word"),
    [("a,b\n1,2\n", "no column building_id"), ("building_id,label\nb1,burnt\n", "1 of 1 labels"), ("\xff\xfe", "no column")],
)
def test_bad_csv_is_refused_in_words(
    run: Callable[..., tuple[int, str, str]], project: Layout, tmp_path: Path, text: str, word: str
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text(text, encoding="utf-8")
    code, _, err = run("label", str(project.folder), "--import", str(table))
    assert code == 2
    assert word in err


@pytest.mark.parametrize("count", ["-1", "0", "many"])
def test_count_that_is_no_count_is_refused(run: Callable[..., tuple[int, str, str]], project: Layout, count: str) -> None:
    words = ("label", str(project.folder), "--from-field", "damage", "--is", "destroyed", f"--count={count}")
    code, _, err = run(*words)
    assert code == 2
    assert "Invalid value for '--count'" in err


@pytest.mark.parametrize("more", [(), ("--stdin", "--import", "x.csv"), ("--from-field", "damage", "--stdin")])
def test_labels_come_in_one_way_only(
    run: Callable[..., tuple[int, str, str]], project: Layout, more: tuple[str, ...]
) -> None:
    code, _, err = run("label", str(project.folder), *more)
    assert (code, "in one way" in err) == (2, True)
