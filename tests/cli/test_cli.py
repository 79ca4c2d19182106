"""The command line: verbs, exit codes, errors in words, and the label stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pu_geo import cli, jobs
from pu_geo.cli.parser import build_parser
from pu_geo.jobs import control, device_queue, worker
from pu_geo.project import contents, events, labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.services.train import training, training_times


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main([*arguments])
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_mistake_ends_in_exit_code_2_with_problem_and_hint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "rank", str(tmp_path / "no.pugeo"))
    assert (code, out) == (2, "")
    assert "is not a PU-Geo project" in err
    assert "pu-geo init" in err
    assert "Traceback" not in err


def test_init_makes_a_project_and_says_so_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "init", str(tmp_path / "a.pugeo"), "--name", "A", "--json")
    assert code == 0
    assert json.loads(out) == {"project": str(tmp_path / "a.pugeo"), "name": "A"}


def test_simulated_clicks_follow_field_count_and_seed(capsys: pytest.CaptureFixture[str], project: Layout) -> None:
    arguments = ("label", str(project.folder), "--from-field", "damage", "--is", "destroyed", "--count", "3", "--json")
    assert json.loads(run(capsys, *arguments)[1]) == {"stored": 3, "positives": 3}
    with store.connect(project) as db:
        chosen = labels.current_labels(db)
    assert set(chosen) <= {"b0", "b4", "b8", "b12", "b16"}
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "there are 2 unlabeled" in err


def stream(project: Layout, *lines: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "pu_geo.cli", "label", str(project.folder), "--stdin"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_label_stream_acknowledges_replays_and_survives_bad_lines(project: Layout) -> None:
    good = '{"op": "a", "building_id": "b1", "label": "positive"}'
    answers = stream(
        project,
        good,
        "not json",
        '{"op": "b"}',
        '["op"]',
        '{"op": "c", "building_id": "nobody", "label": "positive"}',
        '{"op": "d", "building_id": "b2", "label": "burnt"}',
        '{"op": "d", "building_id": "b2", "label": "positive", "reason": "cloud"}',
        "",
        '{"op": "e", "building_id": "b2", "label": "not_damaged"}',
        good,
    )
    assert answers[0] == {"ack": "a", "event": 1}
    assert ["error" in answer for answer in answers] == [False, True, True, True, True, True, True, False, False]
    assert answers[7:] == [{"ack": "e", "event": 2}, {"ack": "a", "event": 1}]
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b2": "not_damaged"}


def test_csv_import_is_one_act_and_importing_again_stores_nothing(
    capsys: pytest.CaptureFixture[str], project: Layout, tmp_path: Path
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("building_id,label\nb1,positive\nb2,damaged\nb3,not_damaged\nb4,\n")  # b4 has none: skipped
    first = json.loads(run(capsys, "label", str(project.folder), "--import", str(table), "--json")[1])
    again = json.loads(run(capsys, "label", str(project.folder), "--import", str(table), "--json")[1])
    assert (first["stored"], again["stored"]) == (3, 0)
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b2": "positive", "b3": "not_damaged"}
        analyst = next(iter(labels.current(db).values())).analyst
        assert len(labels.undo(db, "u", analyst=analyst, screen="cli")) == 3
    assert json.loads(run(capsys, "label", str(project.folder), "--import", str(table), "--json")[1])["stored"] == 3


def test_labels_are_exported_with_their_history_beside_them(
    capsys: pytest.CaptureFixture[str], project: Layout, tmp_path: Path
) -> None:
    simulated = ("label", str(project.folder), "--from-field", "damage", "--is", "destroyed", "--count", "3")
    assert run(capsys, *simulated)[0] == 0
    out = tmp_path / "labels.geojson"
    result = json.loads(run(capsys, "export-labels", str(project.folder), "--out", str(out), "--json")[1])
    history = tmp_path / "labels.events.csv"
    assert result == {
        "out": str(out), "events_out": str(history), "n": 3, "n_events": 3, "labels_up_to_event": 3,
    }  # fmt: skip
    assert len(json.loads(out.read_text())["features"]) == 3
    again = run(capsys, "label", str(project.folder), "--import", str(history), "--json")[1]
    assert json.loads(again) == {"rows": 3, "stored": 0, "unchanged": 3, "skipped": 0}
    code, words, _ = run(capsys, "export-labels", str(project.folder), "--out", str(tmp_path / "labels.csv"))
    assert (code, words.startswith("Wrote 3 labels to")) == (0, True)
    code, _, err = run(capsys, "export-labels", str(project.folder), "--out", str(tmp_path / "labels.txt"))
    assert code == 2
    assert "ends in .txt" in err


def test_points_are_laid_onto_footprints_and_misses_are_counted(
    capsys: pytest.CaptureFixture[str], project: Layout, tmp_path: Path
) -> None:
    def point(lon: float, lat: float, **properties: str) -> dict[str, object]:
        return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [lon, lat]}}

    # (500004, 4000004) in UTM 15N is on the central meridian, 93 degrees west; b0 covers it
    points = [point(-92.9999555, 36.1447542), point(-93.5, 36.0)]
    path = tmp_path / "points.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": points}))
    result = json.loads(run(capsys, "label", str(project.folder), "--import", str(path), "--json")[1])
    notes = ["1 label(s) lie on no footprint of this project and were left out."]
    assert result == {"rows": 2, "stored": 1, "unchanged": 0, "skipped": 1, "placed": 0, "notes": notes}
    with store.connect(project) as db:
        assert labels.current_labels(db) == {"b0": "positive"}


@pytest.mark.parametrize(
    ("text", "word"),
    [("a,b\n1,2\n", "no column building_id"), ("building_id,label\nb1,burnt\n", "1 of 1 labels"), ("\xff\xfe", "no column")],
)
def test_bad_csv_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], project: Layout, tmp_path: Path, text: str, word: str
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text(text, encoding="utf-8")
    code, _, err = run(capsys, "label", str(project.folder), "--import", str(table))
    assert code == 2
    assert word in err


@pytest.mark.parametrize("count", ["-1", "0", "many"])
def test_count_that_is_no_count_is_refused(capsys: pytest.CaptureFixture[str], project: Layout, count: str) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["label", str(project.folder), "--from-field", "damage", "--is", "destroyed", f"--count={count}"])
    assert end.value.code == 2
    assert "whole number" in capsys.readouterr().err


def test_jobs_verb_needs_an_id_and_a_job_that_exists(capsys: pytest.CaptureFixture[str], project: Layout) -> None:
    assert "needs the id" in run(capsys, "jobs", str(project.folder), "cancel")[2]
    assert "no job" in run(capsys, "jobs", str(project.folder), "log", "nothing")[2]


def test_jobs_verb_asks_a_training_to_pause_and_stop(
    capsys: pytest.CaptureFixture[str], project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 0.1)  # nobody answers
    monkeypatch.setattr(jobs, "launch", lambda folder, lock: os.close(lock))
    folder, lock = jobs.create_held(project, "train", {"method": "ncpu"})
    events.append(folder, "launched")
    assert "pauses after this epoch" in run(capsys, "jobs", str(project.folder), "pause", folder.name)[1]
    assert (folder / "pause").exists()
    assert "was asked to stop" in run(capsys, "jobs", str(project.folder), "cancel", folder.name)[1]
    assert "is running" in run(capsys, "jobs", str(project.folder), "dismiss", folder.name)[2]
    os.close(lock)
    assert "cancelled" in run(capsys, "jobs", str(project.folder))[1]
    assert "--all alone" in run(capsys, "jobs", str(project.folder), "dismiss", folder.name)[1]
    assert run(capsys, "jobs", str(project.folder))[1] == ""
    assert folder.name in run(capsys, "jobs", str(project.folder), "--all")[1]
    answer = json.loads(run(capsys, "jobs", str(project.folder), "retry", folder.name, "--json")[1])
    assert json.loads((project.jobs / answer["job_id"] / "spec.json").read_text())["args"] == {"method": "ncpu"}


def test_a_training_in_a_terminal_waits_its_turn_and_says_for_whom(
    capsys: pytest.CaptureFixture[str], project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(worker.TASKS, "train", "pu_geo.tasks.train.evaluate:evaluate")  # never reached
    monkeypatch.setattr(training, "require", lambda *_, **__: None)
    other, _ = jobs.create_held(project, "train", {})
    with device_queue.acquire_device(other, lambda before: None):

        def pressed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(device_queue.time, "sleep", pressed)
        code, _, err = run(capsys, "train", str(project.folder), "--method", "ncpu")
    assert code == 1
    assert "` goes on." in err
    assert f"waiting for train (job {other.name} of event.pugeo)" in err
    assert [job.state for job in jobs.all_jobs(project) if job.job_id != other.name] == ["cancelled"]
    assert device_queue.line() == []


@pytest.mark.parametrize("words", [("train", "p.pugeo"), ("pack", "p.pugeo", "--out", "there")])
def test_a_training_without_a_method_is_the_recommended_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_parser("1").parse_args(words).method == training.DEFAULT_METHOD
    assert build_parser("1").parse_args([*words, "--method", "pucl"]).method == "pucl"
    with pytest.raises(SystemExit):
        build_parser("1").parse_args([words[0], "--help"])
    assert f"(default {training.DEFAULT_METHOD})" in " ".join(capsys.readouterr().out.split())


def test_a_training_without_a_method_starts_the_recommended_one(
    capsys: pytest.CaptureFixture[str], project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "launch", lambda folder, lock: os.close(lock))
    with store.connect(project) as db:
        contents.add_chip_set(db, "set", "post", 16, 20)
        labels.append(db, [LabelOp(f"{i}", f"b{i}", "positive") for i in range(8)], analyst="ann", screen="map")
    answer = json.loads(run(capsys, "train", str(project.folder), "--detach", "--json")[1])
    asked = json.loads((project.jobs / answer["job_id"] / "spec.json").read_text())["args"]
    assert (asked["method"], asked["preset"]) == (training.DEFAULT_METHOD, "quick")


def test_set_wants_key_and_value(capsys: pytest.CaptureFixture[str], project: Layout) -> None:
    code, _, err = run(capsys, "train", str(project.folder), "--method", "ncpu", "--set", "epochs")
    assert code == 2
    assert "key=value" in err


def test_inspect_answers_every_file_and_never_stops(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = tmp_path / "points.geojson"
    good.write_text('{"type": "FeatureCollection", "features": []}')
    bad = tmp_path / "bad.tif"
    bad.write_bytes(b"no tiff at all")
    code, out, err = run(capsys, "inspect", str(bad), str(tmp_path / "missing.tif"), str(good), "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [set(answer) for answer in answers] == [{"file", "ok", "kind", "problem", "hint"}] * 3
    assert [answer["ok"] for answer in answers[:2]] == [False, False]


def test_every_verb_of_the_parser_does_something() -> None:
    subparsers = build_parser("0")._subparsers
    assert subparsers is not None
    assert set(subparsers._group_actions[0].choices or ()) == set(cli.COMMANDS)


def test_methods_tell_how_long_presets_took_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))
    training_times.remember(training.TrainingRequest("ncpu", "quick"), 383, 12.3)
    code, out, _ = run(capsys, "methods", "--json")
    told = json.loads(out)["methods"]
    assert code == 0
    assert [row["name"] for row in told if row["is_default"]] == [training.DEFAULT_METHOD]
    ncpu = next(row for row in told if row["name"] == "ncpu")
    assert ncpu["presets"] == ["quick", "standard", "paper"]
    assert ncpu["took_here"] == {"quick": [{"n_chips": 383, "seconds": 12.3}], "standard": [], "paper": []}
    words = run(capsys, "methods")[1]
    assert words.count(" (default).") == 1
    assert "quick    12 s for 383 chips here" in words
    assert training_times.NONE_YET in words
