"""What the Train screen asks for: held-out clicks, types, the start of a training; and models that are handed on."""

import json
from pathlib import Path
from typing import Any

import pytest
from model_parts import parts, trained, with_chips
from small_parts import add_chips, click, facts_of, job_of, small_project

from pu_geo import jobs
from pu_geo.errors import ModelError, PuGeoError, TrainingError
from pu_geo.methods import catalog
from pu_geo.runs import models, training
from pu_geo.runs import train_job as train_task
from pu_geo.runs.actions import ApplyModel, Train
from pu_geo.runs.training import TrainingRequest
from pu_geo.store import training_times
from pu_geo.store.layout import Layout
from pu_geo.training import model_files


def test_only_titles_that_are_plain_words_begin_small_in_a_sentence() -> None:
    found = [catalog.name_within(method) for method in ("propagation", "ncpu", "pucl", "nnpu", "gone", "ranker")]
    assert found == ["propagated ranking", "NcPU", "PUCL + PUPL", "nnPU", "gone", "instant ranker"]


@pytest.fixture
def clicked(project: Layout) -> Layout:
    add_chips(project, [f"b{i}" for i in range(20)])
    click(project, *(f"b{i}" for i in range(8)))
    return project


def test_one_in_five_is_proposed_from_fifty_on(clicked: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [training.proposed_hold_out(n) for n in (0, 49, 50, 99, 500, 5000)]
    assert found == [0, 0, 10, 19, 100, 100]
    click(clicked, "b9", label="not_damaged")
    click(clicked, "b10", label="not_assessable")
    assert training.data_summary(clicked) == training.DataSummary(8, 10, 1, 1, 20, 8, 1)
    monkeypatch.setattr(training, "HOLD_OUT_FROM", 5)
    assert training.data_summary(clicked).n_held_out == 1


def test_times_are_of_this_machine_where_some_are_known_and_else_by_what_a_network_is_shown(home: Path) -> None:
    ncpu = catalog.card("ncpu")
    training_times.remember("ncpu", "quick", 400, 90.0)
    assert training.expected_time(ncpu, "quick", 400).words == "about 2 min on this machine, by past runs"
    # 100 epochs of two views, and 60 of two, of 388 chips: 124,160 views at 650,000 an hour; measured were 744 s
    assert training.expected_time(ncpu, "standard", 388).most == pytest.approx(124_160 / 650_000 * 3600)
    # 100 epochs of two views, and 1,000 steps of 64 chips: 200.1 million views
    assert training.expected_time(catalog.card("fedaws"), "standard", 10**6).short == "about 13 days"


def test_what_cannot_start_says_why(project: Layout) -> None:
    assert "no chips yet" in str(training.why_not(project, "ncpu"))
    add_chips(project, [f"b{i}" for i in range(20)])
    click(project, *(f"b{i}" for i in range(4)))
    assert "at least 5 damaged buildings; this project has 4" in str(training.why_not(project, "ncpu"))
    click(project, "b4")
    assert training.why_not(project, "ncpu") is None
    assert "called not damaged; this project has 0" in str(training.why_not(project, "supervised"))


def test_too_many_are_refused_before_anything_starts(clicked: Layout) -> None:
    assert training.why_not(clicked, "ncpu", 3) is None
    assert "4 held-out clicks would leave 4 of 8" in str(training.why_not(clicked, "ncpu", 4))
    with pytest.raises(TrainingError, match="4 held-out clicks"):
        jobs.start(clicked, Train("ncpu", "quick", hold_out=4))
    assert not jobs.all_jobs(clicked)


def test_a_job_keeps_the_request_as_plain_values(clicked: Layout, started: list[tuple[str, dict[str, Any]]]) -> None:
    request = Train("ncpu", "quick", seed=7, overrides={"epochs": "3"}, hold_out=3)
    jobs.start(clicked, request)
    jobs.start(clicked, Train("ncpu", "quick"))
    asked = [args for _, args in started]
    assert asked[0] == {
        "method": "ncpu", "preset": "quick", "seed": 7, "overrides": {"epochs": "3"}, "types_from": None, "hold_out": 3,
        "feature_set": "",
    }  # fmt: skip
    assert asked[1]["hold_out"] == 0
    assert Train(**json.loads(json.dumps(asked[0]))) == request


def test_types_come_from_answers_and_grades_of_damaged_buildings(clicked: Layout) -> None:
    found = [(one.name, one.is_enough) for one in training.type_sources(clicked)]
    assert found == [("answers", False), ("grades", False)]
    with pytest.raises(TrainingError, match="none so far"):
        training.require(clicked, TrainingRequest("herocon", "quick", types_from="answers"))
    with pytest.raises(TrainingError, match="types_from is 'roof'; it must be one of answers, grades"):
        TrainingRequest("herocon", "quick", types_from="roof")
    click(clicked, "b0", "b1", damage_types=["roof"], absent_types=["mud"])
    training.require(clicked, TrainingRequest("herocon", "quick", types_from="answers"))
    assert training.type_sources(clicked)[0].counts == "roof 2 yes; mud 0 yes, 2 no"


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str]:
    """A project with a run of a method, and a newer one of the ranker; tests add runs at most."""
    layout = with_chips(small_project(tmp_path_factory.mktemp("modelled") / "event.pugeo"))
    run_id = trained(layout, "linear")
    train_task.rank(job_of(layout, "rank"))
    return layout, run_id


@pytest.mark.slow
def test_a_model_is_exported_and_downloaded_as_the_same_file(modelled: tuple[Layout, str], tmp_path: Path) -> None:
    layout, run_id = modelled
    assert [run.run_id for run in models.runs_with_model(layout)] == [run_id]
    found = models.export(layout, "latest", str(tmp_path))
    path = tmp_path / f"{run_id}.pugeo-model.zip"
    assert found == {"run_id": run_id, "out": str(path), "bytes": path.stat().st_size}
    assert models.model_file(layout, run_id) == path.read_bytes()
    read = model_files.read(path)
    assert (read.card_bytes, read.weights) == parts(layout, run_id)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_job_gets_the_path_of_a_model_and_a_bad_file_starts_none(
    modelled: tuple[Layout, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, run_id = modelled
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "start", lambda _, *job: job)
        path = str(models.export(layout, run_id, str(tmp_path / "good.zip"))["out"])
        assert jobs.start(layout, ApplyModel(f" {path} "))[0].args(layout) == {"path": path}
    (tmp_path / "m.zip").write_bytes(b"\x80\x04hello")
    n_jobs = len(jobs.all_jobs(layout))
    for path, words in ((str(tmp_path / "m.zip"), "pickle"), (" ", "No model file was named")):
        with pytest.raises(PuGeoError, match=words):
            jobs.start(layout, ApplyModel(path))
    assert len(jobs.all_jobs(layout)) == n_jobs
