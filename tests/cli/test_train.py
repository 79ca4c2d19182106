"""Verbs of the Train screen."""

import json
import os
import sys
from dataclasses import replace

import pytest
from cli_parts import CommandLine
from model_parts import job_of, with_chips
from small_parts import add_chips, click

from pu_geo import jobs
from pu_geo.jobs import device_queue, tasks
from pu_geo.records import RunFacts
from pu_geo.runs import training
from pu_geo.runs.train_job import rank
from pu_geo.store import runs, store, training_times
from pu_geo.store.layout import Layout


def test_a_training_waits_and_says_for_whom(run: CommandLine, project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    never = replace(tasks.of("train"), work="pu_geo.runs.evaluate_job:evaluate")
    monkeypatch.setitem(tasks.TASKS, "train", never)
    monkeypatch.setattr(training, "require", lambda *_, **__: None)
    other, _ = jobs.create_held(project, "train", {})
    with device_queue.acquire_device(other, lambda before: None):

        def pressed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(device_queue.time, "sleep", pressed)
        code, _, err = run("train", str(project.folder), "--method", "ncpu")
    assert code == 1
    assert "` goes on." in err
    assert f"waiting for train (job {other.name} of event.pugeo)" in err
    assert [job.state for job in jobs.all_jobs(project) if job.job_id != other.name] == ["cancelled"]
    assert device_queue.line() == []


def test_the_recommended_method_is_trained(run: CommandLine, project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    add_chips(project, [f"b{i}" for i in range(20)])
    click(project, *(f"b{i}" for i in range(8)))
    answer = run.json("train", project.folder, "--detach")
    asked = json.loads((project.jobs / answer["job_id"] / "spec.json").read_text())["args"]
    assert (asked["method"], asked["preset"]) == (training.DEFAULT_METHOD, "quick")
    assert "key=value" in run.refused("train", project.folder, "--method", "ncpu", "--set", "epochs")


def test_methods_tell_how_long_presets_took_here(run: CommandLine) -> None:
    training_times.remember("ncpu", "quick", 383, 12.3)
    told = run.json("methods")["methods"]
    assert [row["name"] for row in told if row["is_default"]] == [training.DEFAULT_METHOD]
    ncpu = next(row for row in told if row["name"] == "ncpu")
    assert ncpu["presets"] == ["quick", "standard", "paper"]
    assert ncpu["took_here"] == {"quick": [{"n_chips": 383, "seconds": 12.3}], "standard": [], "paper": []}
    words = run.text("methods")
    assert words.count(" (default).") == 1
    assert "quick    12 s for 383 chips here" in words
    assert "quick    under 1 min on two processor cores; not timed on this machine yet, for 1,000 chips" in words


@pytest.fixture
def ranked(project: Layout) -> tuple[Layout, RunFacts, RunFacts]:
    """A project with two runs of the instant ranker: the older one, and the newer one."""
    made = with_chips(project)
    for name in ("first", "second"):
        rank(job_of(made, name))
    with store.connect(made) as db:
        newer, older = runs.all_runs(db)
    return made, older, newer


def test_compare_tells_it_in_words_and_as_json(ranked: tuple[Layout, RunFacts, RunFacts], run: CommandLine) -> None:
    layout, older, newer = ranked
    said = run.text("compare", layout.folder, "--runs", older.run_id, "latest")
    assert f"A = {older.run_id}\nB = {newer.run_id}\n" in said
    assert "Rank correlation (Spearman) 1.00: nearly the same order, over 20 common buildings." in said
    assert "A: PU criterion not enough to judge.\n" in said
    assert said.endswith("A high, B low:\n  none\nB high, A low:\n  none\n")
    told = run.json("compare", layout.folder, "--runs", older.run_id, newer.run_id)
    assert (told["spearman"], told["n"], told["check_id"]) == (1.0, 20, None)
    assert [run["run_id"] for run in told["runs"]] == [older.run_id, newer.run_id]


def test_runs_are_listed_by_name_and_renamed(run: CommandLine, mapped: Layout) -> None:
    folder = mapped.folder
    assert "is called second opinion." in run.text("runs", "rename", folder, "latest", "second opinion")
    listed = "second opinion (ranker-1): shown\n  took 1 s, 5 damaged labels; recall on held-out clicks: none held"
    assert run.text("runs", "list", folder).startswith(listed)
    (row,) = run.json("runs", "list", folder)["runs"]
    assert (row["run_id"], row["name"], row["is_shown"]) == ("ranker-1", "second opinion", True)
    assert "is called Instant ranker, " in run.text("runs", "rename", folder, "latest", "")


def test_where_damage_types_come_from(run: CommandLine, project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    train = ("train", with_chips(project).folder, "--method", "herocon", "--types-from")
    words = run.refused(*train, "answers")
    assert "none so far. A type is learned that 2 damaged buildings or more have." in words
    click(project, "b0", "b1", damage_types=["roof"], absent_types=["burned"])
    click(project, "b2", absent_types=["roof"], grade="major")
    assert "'kind' is not one of" in run.refused(*train, "kind")
    code, _, err = run(*train, "grades", "--detach")
    assert code == 0
    assert "Damage types: at least Minor 6 yes; at least Major 1 yes; at least Destroyed 0 yes, 1 no." in err
