"""A training packed here, done on a bare machine and brought in again is the run that would have been trained here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import job_of, with_chips
from small_parts import REPOSITORY, small_project

from pu_geo.errors import JobCancelled, ModelError, PuGeoError, TrainingError
from pu_geo.jobs import worker
from pu_geo.methods import catalog
from pu_geo.project import events, labels, model_files, runs, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.tasks.job import Job
from pu_geo.tasks.train import apart
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.apart import train_apart
from pu_geo.tasks.train.bring_in import bring_in
from pu_geo.tasks.train.pack import pack
from pu_geo.training.checkpoints import Checkpoints

pytestmark = pytest.mark.slow
WAYS: dict[str, dict[str, Any]] = {
    "ncpu": {"method": "ncpu", "overrides": {"epochs": "3", "max_steps": "6", "batch_size": "10"}},
    "pucl": {"method": "pucl", "overrides": {"epochs": "2", "max_steps": "4", "batch_size": "10"}},
    "prior": {"method": "nnpu", "overrides": {"epochs": "2", "max_steps": "4", "batch_size": "10"}},
    "chips": {
        "method": "ncpu",
        "overrides": {"epochs": "2", "max_steps": "10", "batch_size": "10", "backbone": "small", "precision": "bf16"},
    },
    "types": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "name"},
    "recommended": {"method": catalog.DEFAULT_METHOD},
    "held out": {"method": "ncpu", "overrides": {"epochs": "2", "max_steps": "4"}, "hold_out": 1},
}
USUAL = {"preset": "quick", "seed": 5}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Both trainings of a comparison share this process: the first one must not leave the other fewer threads than it had."""
    torch.set_num_threads(1)


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Path]:
    """A project, and what came back from the other machine."""
    room = tmp_path_factory.mktemp("apart")
    layout = with_chips(small_project(room / "event.pugeo"))
    folder = packed_for(layout, room / "there", WAYS["ncpu"])
    train_apart(Job(Layout(folder), folder))
    return layout, folder


def packed_for(layout: Layout, folder: Path, way: Mapping[str, Any]) -> Path:
    return Path(str(pack(layout, str(folder), **USUAL, **way)["out"]))


def facts_of(layout: Layout, run_id: object) -> dict[str, Any]:
    with store.connect(layout) as db:
        return asdict(runs.find(db, str(run_id)))


@pytest.mark.parametrize("way", WAYS)
def test_it_is_the_run_that_would_have_been_trained_here(way: str, chipped: Layout, tmp_path: Path) -> None:
    folder = packed_for(chipped, tmp_path / "there", WAYS[way])
    here = train_task.train(job_of(chipped, "here"), **USUAL, **WAYS[way])
    train_apart(Job(Layout(folder), folder))
    came = bring_in(job_of(chipped, "came"), folder=str(folder))
    ours, theirs = (chipped.run(str(result["run_id"])) for result in (here, came))
    same = ["scores.npy", "embeddings.npy", "clusters.npy", "building_ids.json", "model.safetensors"]
    same += ["held_out.npy"] if way == "held out" else []
    for name in same:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    told, wanted = facts_of(chipped, came["run_id"]), facts_of(chipped, here["run_id"])
    assert sum(words.startswith("Trained on another machine (CPU, ") for words in told["warnings"]) == 1
    told["warnings"] = [words for words in told["warnings"] if not words.startswith("Trained on another machine")]
    assert told["warnings"] == list(wanted["warnings"])
    changing = ("run_id", "created_at", "seconds", "warnings")
    assert {k: v for k, v in told.items() if k not in changing} == {k: v for k, v in wanted.items() if k not in changing}


def test_the_brought_run_has_a_model_and_its_curve(trained_folder: tuple[Layout, Path]) -> None:
    layout, folder = trained_folder
    run_id = str(bring_in(job_of(layout, "with-curve"), folder=str(folder))["run_id"])
    assert model_files.is_there(layout, run_id)
    curve = json.loads((layout.run(run_id) / "curve.json").read_text())
    assert [report["epoch"] for report in curve] == [1, 2, 3]
    assert all(np.isfinite(report["loss"]) for report in curve)


def test_clicks_made_meanwhile_change_nothing(chipped: Layout, tmp_path: Path) -> None:
    folder = packed_for(chipped, tmp_path / "there", WAYS["ncpu"])
    train_apart(Job(Layout(folder), folder))
    with store.connect(chipped) as db:
        labels.append(db, [LabelOp("later", "b9", "positive")], analyst="ann", screen="map")
    came = bring_in(job_of(chipped, "came"), folder=str(folder))
    assert (came["n_positive"], facts_of(chipped, came["run_id"])["at_event"]) == (6, 12)


@pytest.mark.parametrize("way", ["chips", "recommended"])
def test_a_bare_machine_is_enough(way: str, chipped: Layout, tmp_path: Path) -> None:
    folder = packed_for(chipped, tmp_path / "there", WAYS[way])
    command = [sys.executable, str(REPOSITORY / "tests" / "tasks" / "bare_worker.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + json.dumps(events.read(folder)[-1:])
    assert (folder / "outcome.json").is_file()
    assert bring_in(job_of(chipped, "came"), folder=str(folder))["n_positive"] == 6


def test_killed_it_goes_on_to_the_same_bits(chipped: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight, cut = (packed_for(chipped, tmp_path / name, WAYS["ncpu"]) for name in ("straight", "cut"))
    train_apart(Job(Layout(straight), straight))
    monkeypatch.setattr(apart, "Checkpoints", lambda folder: Checkpoints(folder, seconds_between=0.0))
    asked = iter([False, False, True])  # two batches an epoch: it ends in the second one
    monkeypatch.setattr(Job, "is_cancelled", lambda _: next(asked))
    with pytest.raises(JobCancelled):
        train_apart(Job(Layout(cut), cut))
    monkeypatch.setattr(Job, "is_cancelled", lambda _: False)
    assert (cut / "checkpoints").is_dir()
    assert not (cut / "outcome.json").exists()
    train_apart(Job(Layout(cut), cut))
    for name in ("scores.npy", "embeddings.npy", "model.safetensors"):
        assert (cut / name).read_bytes() == (straight / name).read_bytes(), name
    curves = [json.loads((folder / "curve.json").read_text())["curve"] for folder in (cut, straight)]
    first, second = ([report["loss"] for report in curve] for curve in curves)
    assert first == second
    epochs = [event["epoch"] for event in events.read(cut) if event["event"] == "epoch"]
    assert epochs == [1, 2, 3]  # the first one was not done again
    assert not (cut / "checkpoints").exists()


def test_called_once_more_it_does_nothing_again(trained_folder: tuple[Layout, Path]) -> None:
    _, folder = trained_folder
    before = (folder / "outcome.json").read_bytes(), len(events.read(folder))
    assert train_apart(Job(Layout(folder), folder))["device"] == json.loads(before[0])["device_name"]
    assert ((folder / "outcome.json").read_bytes(), len(events.read(folder))) == before


def test_the_worker_runs_a_folder_without_a_project(chipped: Layout, tmp_path: Path) -> None:
    folder = packed_for(chipped, tmp_path / "there", WAYS["ncpu"])
    assert worker.main([str(folder)]) == 0
    assert events.read(folder)[-1]["event"] == "done"


def test_a_start_from_another_model_travels_along(chipped: Layout, tmp_path: Path) -> None:
    small = {"backbone": "small", "epochs": "2", "max_steps": "4", "batch_size": "10"}
    first = str(train_task.train(job_of(chipped, "first"), method="ncpu", **USUAL, overrides=small)["run_id"])
    given = tmp_path / "first.pugeo-model.zip"
    model_files.write(given, *model_files.of_run(chipped, first))
    way = {"method": "ncpu", "overrides": {**small, "weights_file": str(given)}}
    folder = packed_for(chipped, tmp_path / "there", way)
    here = train_task.train(job_of(chipped, "here"), **USUAL, **way)
    given.unlink()
    train_apart(Job(Layout(folder), folder))
    came = bring_in(job_of(chipped, "came"), folder=str(folder))
    scores = [np.asarray(runs.array(chipped, str(result["run_id"]), "scores")) for result in (here, came)]
    np.testing.assert_array_equal(*scores)
    assert str(tmp_path) not in (folder / "pack.json").read_text()


def test_what_cannot_be_packed_is_refused(chipped: Layout, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no setting 'epoch'"):
        packed_for(chipped, tmp_path / "there", {"method": "ncpu", "overrides": {"epoch": "1"}})
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"x")
    with pytest.raises(TrainingError, match="cannot be packed"):
        packed_for(chipped, tmp_path / "there", {"method": "ncpu", "overrides": {"weights_file": str(weights)}})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(PuGeoError, match="not empty"):
        packed_for(chipped, tmp_path / "full", WAYS["ncpu"])
    with pytest.raises(PuGeoError, match="cannot be written"):
        packed_for(chipped, weights / "below", WAYS["ncpu"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["event.pugeo", "full", "w.safetensors"]


def test_too_few_positives_are_refused(project: Layout, tmp_path: Path) -> None:
    layout = with_chips(project, is_clicked=False)
    with pytest.raises(TrainingError, match="needs at least 5 positives"):
        packed_for(layout, tmp_path / "there", WAYS["ncpu"])


def test_a_folder_that_has_not_ended_is_refused(chipped: Layout, tmp_path: Path) -> None:
    folder = packed_for(chipped, tmp_path / "there", WAYS["ncpu"])
    with pytest.raises(ModelError, match="has not ended"):
        bring_in(job_of(chipped, "came"), folder=str(folder))
    with pytest.raises(ModelError, match="is not there"):
        bring_in(job_of(chipped, "other"), folder=str(tmp_path / "nowhere"))


def test_another_project_refuses_it(trained_folder: tuple[Layout, Path], tmp_path: Path) -> None:
    _, folder = trained_folder
    other = with_chips(small_project(tmp_path / "other.pugeo", name="Other"), seed=1)
    with pytest.raises(ModelError, match="is not what this project has"):
        bring_in(job_of(other, "came"), folder=str(folder))


def test_the_same_chips_with_other_labels_refuse_it(trained_folder: tuple[Layout, Path], tmp_path: Path) -> None:
    _, folder = trained_folder
    other = with_chips(small_project(tmp_path / "other.pugeo", name="Other"), is_clicked=False)
    clicks = [LabelOp(f"op-{i}", f"b{i}", "positive") for i in range(12)]
    with store.connect(other) as db:
        labels.append(db, clicks, analyst="bob", screen="map")
    with pytest.raises(ModelError, match="other labels than this project had after event 12"):
        bring_in(job_of(other, "came"), folder=str(folder))
