"""Each part of a checkpoint is needed: a training that goes on without it ends elsewhere. So the bit-equal test can fail."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from method_parts import NAMES, fit, is_same, long_but, made_up

from pu_geo.errors import JobCancelled
from pu_geo.training.checkpoints import Checkpoints

AT_ONCE = ("linear", "propagation")  # one solution, no epochs
CONSTANT = {"weight", "share_pairs"}  # a setting that travels along, and what a warning says
WITHOUT_MOMENTUM = {"fedaws"}  # off by default, and its velocity empty; test_fedaws.py resumes with it
WITHOUT_PAIRS = {"ce", "upu", "nnpu", "supervised"}  # their losses do not look at the EMA target
CASES = long_but([], [name for name in NAMES if name not in (*AT_ONCE, "ncpu")])


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("ncpu", marks=pytest.mark.ci), *CASES])
def test_leaving_any_part_out_shows(name: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    def is_cancelled() -> bool:
        found = Checkpoints(kept).newest("training")
        return found is not None and found[0] >= 2

    straight = fit(name, made_up()[0]).state()
    with contextlib.suppress(JobCancelled):
        fit(name, made_up()[0], is_cancelled=is_cancelled, checkpoints=Checkpoints(kept, 0.0))
    found = Checkpoints(kept).newest("training")
    assert found is not None
    epoch, state = found
    without_effect = set()
    for part in state:
        folder = tmp_path / part
        shutil.copytree(kept, folder)
        checkpoints = Checkpoints(folder, 0.0)
        checkpoints.offer("training", epoch, {key: value for key, value in state.items() if key != part}, is_last=True)
        if is_same(fit(name, made_up()[0], checkpoints=checkpoints).state(), straight):
            without_effect.add(part)
    unused = ({"target"} if name in WITHOUT_PAIRS else set()) | ({"velocity"} if name in WITHOUT_MOMENTUM else set())
    assert without_effect <= CONSTANT | unused
    assert len(state) - len(without_effect) >= 2
