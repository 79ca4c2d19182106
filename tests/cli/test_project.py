"""Verbs of the Project screen."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine
from small_parts import click

from pu_geo import cli, jobs
from pu_geo.cli import project as project_verbs
from pu_geo.jobs import control
from pu_geo.project import events, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.train import training


def test_init_makes_a_project_and_says_so_in_json(run: CommandLine, tmp_path: Path) -> None:
    code, out, _ = run("init", str(tmp_path / "a.pugeo"), "--name", "A", "--json")
    assert code == 0
    assert json.loads(out) == {"project": str(tmp_path / "a.pugeo"), "name": "A"}


def test_copy_says_where_it_is_and_what_comes_next(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.pugeo")
    code, out, _ = run("project", "copy", str(project.folder), target)
    assert (code, f"pu-geo runs import {project.folder} COPY latest" in out) == (0, True)
    assert "exists already" in run("project", "copy", str(project.folder), target)[2]
    found = json.loads(
        run("project", "copy", str(project.folder), str(tmp_path / "b.pugeo"), "--without-exports", "--json")[1]
    )
    assert (found["out"], found["at_event"]) == (str(tmp_path / "b.pugeo"), 0)


@pytest.mark.parametrize("words", [("pack", "a.pugeo", "--method", "ncpu", "--out", "f"), ("bring-in", "a.pugeo", "f")])
def test_verbs_that_are_gone_name_what_came_instead(words: tuple[str, ...], run: CommandLine) -> None:
    code, out, errors = run(*words)
    assert (code, out) == (2, "")
    assert "pu-geo project copy" in errors


@pytest.mark.parametrize("task", ["train", "discover"])
def test_jobs_verb_asks_what_trains_to_pause_and_stop(
    run: CommandLine, project: Layout, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 0.1)  # nobody answers
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    folder, lock = jobs.create_held(project, task, {"method": "ncpu"})
    events.append(folder, "launched")
    assert "pauses after this epoch" in run("jobs", str(project.folder), "pause", folder.name)[1]
    assert (folder / "pause").exists()
    assert "was asked to stop" in run("jobs", str(project.folder), "cancel", folder.name)[1]
    assert "is running" in run("jobs", str(project.folder), "dismiss", folder.name)[2]
    os.close(lock)
    assert "cancelled" in run("jobs", str(project.folder))[1]
    assert "--all alone" in run("jobs", str(project.folder), "dismiss", folder.name)[1]
    assert run("jobs", str(project.folder))[1] == ""
    assert folder.name in run("jobs", str(project.folder), "--all")[1]
    answer = run.json("jobs", str(project.folder), "retry", folder.name)
    assert json.loads((project.jobs / answer["job_id"] / "spec.json").read_text())["args"] == {"method": "ncpu"}


def test_the_map_it_exports_is_that_of_the_recommended_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def run_job(layout: object, task: str, args: dict[str, Any], as_json: bool) -> dict[str, Any]:
        asked.append((task, args))
        return {"run_id": f"run-{args.get('method', task)}", "n": 3}

    def evaluate(layout: object, run_id: str, **_: object) -> dict[str, Any]:
        return {"run_id": run_id, "method": run_id.removeprefix("run-"), "auc": 0.9, "ap": 0.8}

    monkeypatch.setattr(project_verbs, "run_job", run_job)
    monkeypatch.setattr("pu_geo.tasks.train.evaluate.evaluate", evaluate)
    monkeypatch.setattr(project_verbs.labeling, "simulate", lambda *_, **__: None)
    assert cli.main(["demo", "--out", str(tmp_path), "--json"]) == 0
    *trained, (task, exported) = asked
    assert (task, exported["run_id"]) == ("export", f"run-{training.DEFAULT_METHOD}")
    assert {args.get("method") for _, args in trained} >= {training.DEFAULT_METHOD, "ncpu", "pucl"}
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 4


def test_backup_and_restore_bring_labels_back(project: Layout, run: CommandLine, tmp_path: Path) -> None:
    click(project, "b1")
    made = run.json("backup", project.folder)
    assert (made["at_event"], made["reason"]) == (1, "asked")
    assert hashlib.sha256(Path(made["path"]).read_bytes()).hexdigest() == made["sha256"]
    words = run.text("backup", project.folder, "--to", tmp_path / "stick")
    assert "labels up to event 1" in words
    assert len(list((tmp_path / "stick").glob("event-*-asked.gpkg"))) == 1
    click(project, "b2")
    words = run.text("restore", project.folder)
    assert "1 newer label event was recovered" in words
    assert "None that is known of is lost" in words
    copied = run.json("restore", project.folder, Path(made["path"]).stem, "--to", tmp_path / "again.pugeo")
    assert copied["recovered"] == 1
    with store.connect(Layout(tmp_path / "again.pugeo")) as db:
        assert sorted(labels.current_labels(db)) == ["b1", "b2"]
    placed = run.json("restore", project.folder, "--in-place")
    assert Path(placed["damaged"]).is_file()
    assert "exclude each other" in run.refused("restore", project.folder, "--in-place", "--to", "x.pugeo")
    assert "not a PU-Geo project" in run.refused("restore", tmp_path)
