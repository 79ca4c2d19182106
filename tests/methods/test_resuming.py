"""Each part of a checkpoint is needed: a training that goes on without it ends elsewhere. So the bit-equal test can fail."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
import torch
from methods.test_contract import NAMES, fit, made_up
from small_parts import mostly_long

from pu_geo.errors import JobCancelled
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.network import TrainedModel

AT_ONCE = ("linear", "propagation")  # one solution, no epochs
CONSTANT = {"weight"}  # a setting that travels along
WITHOUT_PAIRS = {"ce", "upu", "nnpu", "supervised"}  # their losses do not look at the EMA target


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_long([name for name in NAMES if name not in AT_ONCE], "ncpu"))
def test_leaving_any_part_out_shows(name: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    straight, n_batches = _straight(name)
    asked = [0]

    def kill() -> bool:
        asked[0] += 1
        return asked[0] > 0.6 * n_batches

    with contextlib.suppress(JobCancelled):
        fit(name, made_up()[0], is_cancelled=kill, checkpoints=Checkpoints(kept, 0.0))
    found = Checkpoints(kept).newest("training")
    assert found is not None
    epoch, state = found
    without_effect = set()
    for part in state:
        folder = tmp_path / part
        shutil.copytree(kept, folder)
        checkpoints = Checkpoints(folder, 0.0)
        checkpoints.offer("training", epoch, {key: value for key, value in state.items() if key != part}, is_last=True)
        if _same(fit(name, made_up()[0], checkpoints=checkpoints), straight):
            without_effect.add(part)
    assert without_effect <= CONSTANT | ({"target"} if name in WITHOUT_PAIRS else set())
    assert len(state) - len(without_effect) >= 2


def _straight(name: str) -> tuple[TrainedModel, int]:
    """Train without an interruption; return the model and how many batches it took."""
    asked = [0]

    def count() -> bool:
        asked[0] += 1
        return False

    return fit(name, made_up()[0], is_cancelled=count), asked[0]


def _same(one: TrainedModel, other: TrainedModel) -> bool:
    first, second = one.state(), other.state()
    return all(torch.equal(first[key], second[key]) for key in first)
