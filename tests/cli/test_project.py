"""Verbs of the Project screen."""

import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine
from small_parts import click

from pu_geo import cli, jobs
from pu_geo.answers import labeling
from pu_geo.cli import project as project_verbs
from pu_geo.jobs import control
from pu_geo.jobs.actions import Action
from pu_geo.runs import training
from pu_geo.store import events
from pu_geo.store.layout import Layout


def test_init_makes_a_project_and_copy_says_what_comes_next(run: CommandLine, tmp_path: Path) -> None:
    folder, target = tmp_path / "a.pugeo", tmp_path / "copy.pugeo"
    assert run.json("init", folder, "--name", "A") == {"project": str(folder), "name": "A"}
    assert f"pu-geo model apply {folder} COPY" in run.text("project", "copy", folder, target)
    assert "exists already" in run.refused("project", "copy", folder, target)
    found = run.json("project", "copy", folder, tmp_path / "b.pugeo", "--without-exports")
    assert (found["out"], found["at_event"]) == (str(tmp_path / "b.pugeo"), 0)


@pytest.mark.parametrize("task", ["train", "discover"])
def test_jobs_asks_to_pause_and_stop(run: CommandLine, project: Layout, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 0.1)  # nobody answers
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    job, lock = jobs.create_held(project, task, {"method": "ncpu"})
    events.append(job, "launched")
    of_jobs = ("jobs", project.folder)
    assert "pauses after this epoch" in run.text(*of_jobs, "pause", job.name)
    assert (job / "pause").exists()
    assert "was asked to stop" in run.text(*of_jobs, "cancel", job.name)
    assert "is running" in run.refused(*of_jobs, "dismiss", job.name)
    os.close(lock)
    assert "cancelled" in run.text(*of_jobs)
    assert "--all alone" in run.text(*of_jobs, "dismiss", job.name)
    assert run.text(*of_jobs) == ""
    assert job.name in run.text(*of_jobs, "--all")
    answer = run.json(*of_jobs, "retry", job.name)
    assert json.loads((project.jobs / answer["job_id"] / "spec.json").read_text())["args"] == {"method": "ncpu"}


def test_what_demo_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def run_job(layout: object, task: str | Action, as_json: bool, args: Any = None) -> dict[str, Any]:
        task, args = (task.task.name, asdict(task)) if isinstance(task, Action) else (task, args)
        asked.append((task, args))
        return {"run_id": f"run-{args.get('method', task)}", "n": 3}

    def evaluate(layout: object, run_id: str, **_: object) -> dict[str, Any]:
        return {"run_id": run_id, "method": run_id.removeprefix("run-"), "auc": 0.9, "ap": 0.8}

    monkeypatch.setattr(project_verbs, "run_job", run_job)
    monkeypatch.setattr("pu_geo.runs.evaluate_job.evaluate", evaluate)
    monkeypatch.setattr(project_verbs.labeling, "simulate", lambda *_, **__: None)
    assert cli.main(["demo", "--out", str(tmp_path), "--json"]) == 0
    *trained, (task, exported) = asked
    assert (task, exported["run"]) == ("export", f"run-{training.DEFAULT_METHOD}")
    assert {args.get("method") for _, args in trained} >= {training.DEFAULT_METHOD, "ncpu", "pucl"}
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 4


def test_backup_and_restore_bring_labels_back(project: Layout, run: CommandLine, tmp_path: Path) -> None:
    click(project, "b1")
    made = run.json("repair", "backup", project.folder)
    assert (made["at_event"], made["reason"]) == (1, "asked")
    assert hashlib.sha256(Path(made["path"]).read_bytes()).hexdigest() == made["sha256"]
    assert "labels up to event 1" in run.text("repair", "backup", project.folder, "--to", tmp_path / "stick")
    assert len(list((tmp_path / "stick").glob("event-*-asked.gpkg"))) == 1
    click(project, "b2")
    words = run.text("repair", "restore", project.folder)
    assert "1 newer label event was taken from the journal; none is missing there." in words
    again = tmp_path / "again.pugeo"
    assert run.json("repair", "restore", project.folder, Path(made["path"]).stem, "--to", again)["newer_events"] == 1
    assert sorted(labeling.current_labels(Layout(again))) == ["b1", "b2"]
    assert Path(run.json("repair", "restore", project.folder, "--in-place")["damaged"]).is_file()
    assert "exclude each other" in run.refused("repair", "restore", project.folder, "--in-place", "--to", "x.pugeo")
    assert "not a PU-Geo project" in run.refused("repair", "restore", tmp_path)
