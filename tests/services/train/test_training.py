"""What the Train screen asks for: what it recommends, what methods and runs are called, held-out clicks, and the start."""

from __future__ import annotations

import json
import os
import sys

import pytest
from small_parts import add_chips, click, unheld_job

from pu_geo import jobs
from pu_geo.errors import JobError, TrainingError
from pu_geo.methods import catalog
from pu_geo.project import events
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects
from pu_geo.services.train import training
from pu_geo.services.train.training import TrainingRequest


def test_the_default_is_a_method_and_the_first_card_of_the_open_group() -> None:
    first_of_all = next(iter(training.cards_by_group().values()))[0]
    assert first_of_all.name == training.DEFAULT_METHOD == "propagation"


def test_the_recommendation_names_the_default_before_there_is_any_run() -> None:
    words = training.recommendation()
    assert words.startswith("Train the propagated ranking: on seven sets")
    assert "%" not in words  # clicks alone cannot say how much is damaged


@pytest.mark.parametrize(
    ("method", "name"),
    [("propagation", "propagated ranking"), ("ncpu", "NcPU"), ("pucl", "PUCL + PUPL"), ("nnpu", "nnPU"), ("gone", "gone")],
)
def test_only_titles_that_are_plain_words_begin_small_in_a_sentence(method: str, name: str) -> None:
    assert method == "gone" or method in catalog.METHODS
    assert training.name_within(method) == name


@pytest.fixture
def clicked(project: Layout) -> Layout:
    add_chips(project, [f"b{i}" for i in range(20)])
    click(project, *(f"b{i}" for i in range(8)))
    return project


@pytest.mark.parametrize(("n", "proposed"), [(0, 0), (49, 0), (50, 10), (99, 19), (500, 100), (5000, 100)])
def test_one_in_five_is_proposed_from_fifty_on(n: int, proposed: int) -> None:
    assert training.proposed_hold_out(n) == proposed


def test_the_summary_tells_what_is_proposed(clicked: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert training.data_summary(clicked).n_held_out == 0
    monkeypatch.setattr(training, "HOLD_OUT_FROM", 5)
    assert training.data_summary(clicked).n_held_out == 1


def test_too_many_are_refused_before_anything_starts(clicked: Layout) -> None:
    assert training.why_not(clicked, "ncpu", 3) is None
    assert "4 held-out clicks would leave 4 of 8" in str(training.why_not(clicked, "ncpu", 4))
    with pytest.raises(TrainingError, match="4 held-out clicks"):
        training.start(clicked, TrainingRequest("ncpu", "quick", hold_out=4))
    assert not jobs.all_jobs(clicked)


def test_a_job_keeps_the_request_as_plain_values(clicked: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: asked.append(args) or "id")
    request = TrainingRequest("ncpu", "quick", 7, {"epochs": "3"}, None, 3)
    training.start(clicked, request)
    training.start(clicked, TrainingRequest("ncpu", "quick"))
    assert asked[0] == {
        "method": "ncpu", "preset": "quick", "seed": 7, "overrides": {"epochs": "3"}, "types_from": None, "hold_out": 3,
        "feature_set": "", "devices": 1,
    }  # fmt: skip
    assert asked[1]["hold_out"] == 0
    assert TrainingRequest(**json.loads(json.dumps(asked[0]))) == request


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hold_out": -1}, "hold_out is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"preset": "slow"}, "no preset 'slow'"),
        ({"method": "magic"}, "no method 'magic'"),
        ({"overrides": {"epochs": "many"}}, "epochs is 'many'"),
    ],
)
def test_a_request_is_refused_where_it_is_made(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(TrainingError, match=words):
        TrainingRequest(**{"method": "ncpu", "preset": "quick", **wrong})  # type: ignore[arg-type]


def test_counts_of_what_is_learned_from_add_up(clicked: Layout) -> None:
    click(clicked, "b9", label="not_damaged")
    click(clicked, "b10", label="not_assessable")
    data = training.data_summary(clicked)
    counted = (data.n_positive, data.n_not_damaged, data.n_not_reviewed, data.n_left_out)
    assert sum(counted) == projects.summary(clicked).n_buildings
    assert (data.n_not_damaged, data.n_left_out) == (1, 1)


def test_a_training_goes_on_with_another_number_of_devices_that_its_method_takes(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was asked for otherwise stays; nothing is written where it is refused."""
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    folders = {}
    for method in ("ncpu", "linear"):
        request = TrainingRequest(
            method, "quick", 3, {"epochs": 5} if method == "ncpu" else {}, devices=2 if method == "ncpu" else 1
        )
        folders[method] = unheld_job(project, "train", request.as_args())
        events.append(folders[method], "failed", {"problem": "No memory.", "hint": "Get some."})
    before = json.loads((folders["ncpu"] / "spec.json").read_text())
    training.resume_on(project, folders["ncpu"].name, 4)
    after = json.loads((folders["ncpu"] / "spec.json").read_text())
    assert after == {**before, "args": {**before["args"], "devices": 4}}
    with pytest.raises(TrainingError, match="trains on one device; 2 were asked for"):
        training.resume_on(project, folders["linear"].name, 2)
    assert json.loads((folders["linear"] / "spec.json").read_text())["args"]["devices"] == 1
    other = unheld_job(project, "rank", {})
    with pytest.raises(JobError, match="no training"):
        training.resume_on(project, other.name, 2)
