"""A plan of a project: what is read of it, sums, the step that dominates, words, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine
from small_parts import add_chips, small_project

from pu_geo.errors import PuGeoError
from pu_geo.project import store
from pu_geo.scale.costs import Table
from pu_geo.services.project import planning
from pu_geo.services.project.planning import Request

STEPS = ["add-scene", "add-footprints", "align", "chip", "rank", "train", "export"]


def flat_table(**longer: float) -> Table:
    """Costs of one second a step and 1 kB a building; `longer` names others."""
    one = {"alone_s": {"start": 1.0}, "driver_s": {}, "workers_s": {}, "kept_bytes": {"footprints": 1000.0}}
    one |= {"memory_mb": {"start": 100.0}, "worker_mb": 0.0, "fitted_to": 1000}
    names = [*STEPS[:-2], "features", "train propagation", "train features", "train resnet18", "export"]
    steps: dict[str, Any] = {name: deepcopy(one) for name in names}
    for name, seconds in longer.items():
        steps[name]["alone_s"] = {"footprints": seconds}
    steps["chip"] |= {"driver_s": {"start": 1.0}, "workers_s": {"footprints": 0.01}, "worker_mb": 700.0}
    machine = {"processor": "Made-up 9000", "cores": 2, "memory_gb": 8, "torch": "2.15", "python": "3.11"}
    return Table({
        "measured_at": "2026-01-01", "machine": machine, "footprints": [500, 1000], "held_out": 2000, "efficiency_of_2": 0.9,
        "known_piece_s": 1.0, "steps": steps,
    })  # fmt: skip


def planned(**asked: Any) -> planning.Plan:
    return planning.plan(None, Request(**{"buildings": 1000, "megapixels": 8.0, **asked}), table=flat_table())


def test_a_plan_sums_all_steps() -> None:
    found = planned()
    assert [step.name for step in found.steps] == STEPS
    assert found.seconds == pytest.approx(7)
    assert found.kept_bytes == found.peak_bytes == pytest.approx(7e6)
    assert (found.memory_mb, found.worker_mb) == (100, 0)
    twice = planning.plan(None, Request(buildings=1000, megapixels=8.0), speed=2.0, table=flat_table())
    assert twice.seconds == pytest.approx(3.5)
    assert "this machine is 2.00 times as fast" in planning.words(twice)


def test_shards_take_room_until_their_step_ends() -> None:
    """After chips 4 MB stay, and their shards are another one; at the end 7 MB stay, which is more."""
    assert planned(workers=2).peak_bytes == pytest.approx(7e6)
    table = flat_table()
    table.facts["steps"]["chip"]["kept_bytes"] = {"footprints": 10_000.0}
    found = planning.plan(None, Request(buildings=1000, megapixels=8.0, workers=2), table=table)
    assert found.peak_bytes == pytest.approx(3e6 + 2 * 10e6)


def test_the_longest_step_dominates() -> None:
    found = planning.plan(None, Request(buildings=1000, megapixels=8.0), table=flat_table(align=0.014))
    assert found.dominates == ("align", pytest.approx(14 / 20))
    assert "align takes 70 % of it" in planning.words(found)


def test_a_maker_of_layers_adds_a_step_and_one_without_figures_stays_out_of_the_sums() -> None:
    assert "features" in [step.name for step in planned(maker="layers").steps]
    found = planned(maker="resnet50")
    assert found.seconds == pytest.approx(7)
    (unknown,) = (step for step in found.steps if step.cost is None)
    assert (unknown.name, unknown.note) == ("features", "resnet50: not measured")
    assert "Not measured and not in the sums: features." in planning.words(found)


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({}, ""),
        ({"preset": "paper"}, "pucl paper: not measured"),
        ({"preset": "standard", "overrides": {"pretrain_epochs": "5"}}, "pucl standard: not measured"),
    ],
)
def test_trainings_without_figures_are_named(more: dict[str, Any], note: str) -> None:
    (step,) = (step for step in planned(method="pucl", **more).steps if step.name == "train")
    assert (step.cost is None, step.note) == (bool(note), note)


def test_epochs_end_with_the_most_steps() -> None:
    """PUCL quick: 100 epochs, or 2,000 steps of 256: of 8,000 buildings 64 epochs; one epoch at least."""
    table = flat_table()
    table.facts["steps"]["train features"]["alone_s"] = {"epoch_footprints": 0.001}

    def seconds(n: int) -> float:
        found = planning.plan(None, Request(buildings=n, megapixels=8.0, method="pucl"), table=table)
        return next(step.cost.seconds for step in found.steps if step.name == "train" and step.cost)

    assert [seconds(n) for n in (1000, 8000, 1_000_000)] == pytest.approx([100, 512, 1000])


def test_words_say_whose_times_these_are_and_what_is_assumed() -> None:
    words = planning.words(planned(workers=8, gpus=2))
    assert "Measured on 2026-01-01 on one core of Made-up 9000, torch 2.15" in words
    assert "Two workers were 90 % busy" in words
    assert "An extrapolation" not in planning.words(planned(buildings=2000))
    table = flat_table()
    table.facts["steps"]["rank"]["fitted_to"] = 50_000
    far = planning.words(planning.plan(None, Request(buildings=2001, megapixels=8.0), table=table))
    assert "An extrapolation for add-scene, add-footprints, align, chip, train and export: fitted up to 1,000" in far


def test_a_project_gives_its_numbers_and_those_asked_for_win(tmp_path: Path) -> None:
    layout = small_project(tmp_path / "four.pugeo", 4)
    arrays = {"chips": np.zeros((4, 3, 16, 16), np.uint8), "features": np.zeros((1, 4, 4), np.float16)}
    add_chips(layout, [f"b{i}" for i in range(4)], **arrays)
    found = planning.plan(layout, Request(), table=flat_table()).work
    assert (found.footprints, found.size_px, found.chip_views) == (4, 16, 1)
    assert found.megapixels > 0
    found = planning.plan(layout, Request(buildings=9, megapixels=2.5, size_px=32), table=flat_table()).work
    assert (found.footprints, found.megapixels, found.size_px) == (9, 2.5, 32)
    with pytest.raises(PuGeoError, match="no scenes to plan for: the project has none"):
        planning.plan(store.create(tmp_path / "empty.pugeo", "Empty"), Request())


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"buildings": None}, "There are no footprints to plan for"),
        ({"megapixels": None}, "There are no scenes to plan for"),
        ({"workers": -1}, "--workers is -1; it must be between 0 and 100,000."),
        ({"size_px": 8}, "--size-px is 8; it must be between 16 and 256."),
        ({"method": "magic"}, "There is no method 'magic'"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_words(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(PuGeoError, match=problem):
        planned(**asked)


@pytest.mark.slow
def test_the_command_prints_words_or_json(tmp_path: Path, run: CommandLine) -> None:
    asked = ("--buildings", 1_000_000, "--megapixels", 5000, "--workers", 16)
    found = run.json("plan", *asked)
    assert [row["step"] for row in found["steps"]] == STEPS
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in found["steps"]))
    assert {"hours", "kept_bytes", "peak_bytes", "memory_mb", "worker_mb", "machine", "measured_at", "notes"} <= set(found)
    assert "1,000,000 buildings, 5,000 megapixels" in run.text("plan", *asked)
    assert "no project was named" in run.refused("plan", "--buildings", 5)
    assert "--set 'x' is not of the form" in run.refused("plan", "--buildings", 5, "--megapixels", 2, "--set", "x")
