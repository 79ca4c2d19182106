"""A run of a copy is taken as if it had been trained here; one of other chips or labels counts as from elsewhere."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import array_of, copy_of, job_of, parts, with_chips
from small_parts import click, facts_of, in_tiers, small_project

from pu_geo.answers import labeling
from pu_geo.errors import PuGeoError
from pu_geo.methods import catalog
from pu_geo.records import RunFacts
from pu_geo.runs import train_job as train_task
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.store import decisions, pseudo_positives, runs, store
from pu_geo.store.layout import Layout
from pu_geo.training import model_files

pytestmark = pytest.mark.slow
QUICK = {"preset": "quick", "seed": 5}
FEW = {"epochs": "2", "max_steps": "4", "batch_size": "10"}
WAYS: dict[str, dict[str, Any]] = {
    "chips": {"method": "ncpu", "overrides": {**FEW, "backbone": "small", "precision": "bf16"}},
    "several types": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "answers"},
    "grades": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "grades"},
    "recommended": {"method": catalog.DEFAULT_METHOD, "overrides": {"neighbors": "off"}},  # with: see test_place.py
    "held out": {"method": "nnpu", "overrides": FEW, "hold_out": 1},
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Both trainings of a comparison share this process: the first one must not leave the other fewer threads than it had."""
    torch.set_num_threads(1)


def trained(layout: Layout, way: dict[str, Any]) -> str:
    return str(train_task.train(job_of(layout, "train"), **{**QUICK, **way})["run_id"])


def taken(layout: Layout, path: Path, job: str = "came") -> RunFacts:
    return facts_of(layout, str(apply_model(job_of(layout, job), path=str(path))["run_id"]))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Layout]:
    """A project, and a copy with a run; tests only read them."""
    layout = with_chips(small_project(tmp_path_factory.mktemp("pair") / "event.pugeo"))
    other = copy_of(layout)
    trained(other, {**WAYS["held out"], "method": "ncpu"})
    return layout, other


@pytest.mark.parametrize("way", in_tiers(WAYS, "contract", quick=("chips", "several types", "held out")))
def test_it_is_the_run_that_would_have_been_trained_here(way: str, chipped: Layout) -> None:
    click(chipped, "b0", "b1", damage_types=["roof"], absent_types=["mud"], grade="minor")
    click(chipped, "b2", "b3", damage_types=["roof", "mud"], grade="major")
    with store.connect(chipped) as db:
        decide(db, "first", ["b8", "b11"])
    other = copy_of(chipped)
    here, there = trained(chipped, WAYS[way]), trained(other, WAYS[way])
    click(chipped, "b9")  # what was clicked and decided since counts for nothing
    with store.connect(chipped) as db:
        decide(db, "later", ["b10"])
    came = taken(chipped, other.folder)
    for name in ("scores", "embeddings", "clusters", *(["held_out"] if way == "held out" else [])):
        np.testing.assert_array_equal(array_of(chipped, came.run_id, name), array_of(chipped, here, name))
    if came.types:
        np.testing.assert_array_equal(*(array_of(chipped, one, runs.TYPE_SCORES) for one in (came.run_id, here)))
    assert model_files.of_run(chipped.run(came.run_id)) == model_files.of_run(other.run(there))
    told, wanted = asdict(came), asdict(facts_of(chipped, here))
    (where,) = {*told["warnings"]} - {*wanted["warnings"]}
    assert "was trained on the chips and answers of this project, as they were then (CPU, 1 thread)" in where
    changing = ("run_id", "created_at", "seconds", "warnings", "place")
    if wanted["evidence"]:  # of clicks held out, which only a training knows: a card can claim anything
        assert told["evidence"] is None
        changing += ("evidence", "start_k", "threshold")
    assert {k: v for k, v in told.items() if k not in changing} == {k: v for k, v in wanted.items() if k not in changing}


def decide(db: Any, op: str, ids: list[str]) -> None:
    facts = {"run_id": "run", "decision": "accept", "building_ids": ids}
    decisions.decide(db, op, pseudo_positives.KIND, op, facts, analyst="ann")


def other_chips(layout: Layout) -> None:
    np.load(layout.chips("set"), mmap_mode="r+")[3] += 1


def clicks(layout: Layout) -> None:
    click(layout, "b9", analyst="bob")


def another_seed(layout: Layout) -> None:
    (path,) = layout.folder.glob("runs/*/model.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed": 7}))


@pytest.mark.parametrize(
    ("here", "there"), [(other_chips, None), (None, clicks), (None, another_seed)]
)  # fmt: skip
def test_a_run_of_other_chips_or_labels_counts_as_from_elsewhere_and_labels_are_never_taken(
    here: Callable[[Layout], None] | None, there: Callable[[Layout], None] | None, chipped: Layout
) -> None:
    other = copy_of(chipped)
    if there is clicks:
        clicks(other)
    trained(other, WAYS["held out"])
    if there is another_seed:
        another_seed(other)
    if here is not None:
        here(chipped)
    before = labeling.current_labels(chipped)
    facts = taken(chipped, other.folder)
    assert facts.from_model is not None
    assert facts.judgement is None
    assert "nothing was learned from the answers in this project" in " ".join(facts.warnings)
    assert labeling.current_labels(chipped) == before


def test_the_newest_run_with_a_model_is_taken_or_the_one_that_is_named(chipped: Layout, tmp_path: Path) -> None:
    other = copy_of(chipped)
    first = trained(other, WAYS["held out"])
    train_task.rank(job_of(other, "rank"))
    assert model_files.read(other.folder).card["run_id"] == first
    later = str(train_task.train(job_of(other, "later"), **{**QUICK, **WAYS["held out"], "seed": 6})["run_id"])
    assert model_files.read(other.folder).card["run_id"] == later
    assert model_files.read(other.run(first)).card["run_id"] == first
    (other.run(later) / model_files.WEIGHTS).write_bytes(b"x")
    with pytest.raises(PuGeoError, match="its weights have another sha256"):
        model_files.read(other.folder)
    with pytest.raises(PuGeoError, match="holds no run with a model"):
        model_files.read(tmp_path)


LIES = {"at_event": [10**30, -1, True, "3"], "types_from": [[1]], "n_held_out": [10**6, None], "at_decision": [1.5]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LIES.items() for value in values])
def test_a_card_that_lies_of_what_was_learned_makes_no_run_of_here(
    name: str, value: object, pair: tuple[Layout, Layout], tmp_path: Path
) -> None:
    layout, good = pair
    card, weights = parts(good, facts_of(good).run_id)
    told = json.loads(card)
    told["learned_from"][name] = value
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    assert taken(layout, tmp_path / "m.zip", job=f"{name}-{LIES[name].index(value)}").from_model is not None
