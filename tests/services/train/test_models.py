"""Models for people: which runs have one, the file they hand on, and the job that uses one."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_parts import CommandLine
from model_parts import parts, trained, with_chips
from small_parts import facts_of, job_of, small_project

from pu_geo import jobs
from pu_geo.errors import ModelError
from pu_geo.project import model_files
from pu_geo.project.layout import Layout
from pu_geo.services.train import models
from pu_geo.tasks.train import train as train_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str]:
    """A project with a run of a method, and a newer one of the ranker; tests add runs at most."""
    layout = with_chips(small_project(tmp_path_factory.mktemp("modelled") / "event.pugeo"))
    run_id = trained(layout, "linear")
    train_task.rank(job_of(layout, "rank"))
    return layout, run_id


def test_a_model_is_exported_and_downloaded_as_the_same_file(modelled: tuple[Layout, str], tmp_path: Path) -> None:
    layout, run_id = modelled
    assert [run.run_id for run in models.runs_with_model(layout)] == [run_id]
    found = models.export(layout, "latest", str(tmp_path))
    path = tmp_path / f"{run_id}.pugeo-model.zip"
    assert found == {"run_id": run_id, "out": str(path), "bytes": path.stat().st_size}
    assert models.model_file(layout, run_id) == path.read_bytes()
    read = model_files.read(path)
    assert (read.card_bytes, read.weights) == parts(layout, run_id)


def test_what_cannot_be_exported_is_refused(modelled: tuple[Layout, str], tmp_path: Path) -> None:
    layout, run_id = modelled
    with pytest.raises(ModelError, match="has no model"):
        models.export(layout, facts_of(layout).run_id, str(tmp_path))
    with pytest.raises(ModelError, match="cannot be written"):
        models.export(layout, run_id, "/proc/x/model.zip")
    path = layout.run(run_id) / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ModelError, match="has weights that are damaged"):
        models.export(layout, run_id, str(tmp_path))
    path.write_bytes(whole)
    assert not list(tmp_path.glob("*.zip"))


def test_a_job_gets_the_path_of_a_model_and_a_bad_file_starts_none(
    modelled: tuple[Layout, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, run_id = modelled
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "start", lambda _, *job: job)
        path = str(models.export(layout, run_id, str(tmp_path / "good.zip"))["out"])
        assert models.start_apply(layout, f" {path} ", cluster="local:2") == (
            "apply_model",
            {"path": path, "cluster": "local:2"},
        )
    (tmp_path / "m.zip").write_bytes(b"\x80\x04hello")
    n_jobs = len(jobs.all_jobs(layout))
    for path, words in ((str(tmp_path / "m.zip"), "pickle"), (" ", "No model file was named")):
        with pytest.raises(ModelError, match=words):
            models.start_apply(layout, path)
    assert len(jobs.all_jobs(layout)) == n_jobs


@pytest.mark.ci
def test_a_worker_scores_by_a_model(modelled: tuple[Layout, str], tmp_path: Path) -> None:
    layout, _ = modelled
    path = str(models.export(layout, "latest", str(tmp_path / "m.zip"))["out"])
    job = jobs.wait(layout, models.start_apply(layout, path), seconds=120)
    assert job.state == "done", job.problem
    assert facts_of(layout, str(job.result["run_id"])).from_model is not None


def test_the_command_line_exports_checks_and_applies(modelled: tuple[Layout, str], tmp_path: Path, run: CommandLine) -> None:
    layout, run_id = modelled
    path = tmp_path / "m.pugeo-model.zip"
    assert f"Wrote the model of {run_id}" in run.text("model", "export", layout.folder, "latest", "--out", path)
    said = run.text("model", "check", path)
    assert "can be used: Linear ranking (quick)" in said
    assert "needs chips of 16 x 16 px, bands pre+post with pixels of 0.50 m" in said
    applied = run.json("model", "apply", layout.folder, path)["run_id"]
    assert (layout.run(applied) / "scores.npy").read_bytes() == (layout.run(run_id) / "scores.npy").read_bytes()
    path.write_bytes(path.read_bytes()[:-9])
    assert "cut off" in run.refused("model", "check", path)
