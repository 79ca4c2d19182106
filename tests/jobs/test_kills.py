"""Workers that were killed with SIGKILL, and started again as a person does it, end to the bit as those that were not."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import kill_driver
from scale_parts import of_kind
from small_parts import add_chips, click, in_tiers, small_project, unheld_job

from pu_geo import jobs
from pu_geo.methods import catalog
from pu_geo.methods.pucl import JUDGING
from pu_geo.store import runs, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.slow

PYTHON, DRIVER = sys.executable, Path(kill_driver.__file__)
N_CHIPS, N_EPOCHS = 40, 60
FILES = ("model.safetensors", "scores.npy", "embeddings.npy", "clusters.npy", "building_ids.json")
OF_THE_CLOCK = {
    "at", "seconds", "chips_per_s", "memory_mb", "look", "alarms", "share_called", "spread", "n_held_out", "recall",
}  # fmt: skip
SHORT = {"epochs": N_EPOCHS, "rounds": N_EPOCHS, "max_steps": 5 * N_EPOCHS, "batch_size": 16, "warmup_epochs": 5}


@pytest.fixture(scope="module")
def clicked(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A project with 40 made-up chips and their features; twelve are clicked, half of them as not damaged."""
    layout, rng = small_project(tmp_path_factory.mktemp("kills") / "event.pugeo", N_CHIPS), np.random.default_rng(0)
    ids, features = [f"b{i}" for i in range(N_CHIPS)], rng.normal(size=(4, N_CHIPS, 8)).astype(np.float16)
    chips = rng.integers(0, 255, (N_CHIPS, 6, 16, 16)).astype(np.uint8)
    add_chips(layout, ids, bands="pre+post", chips=chips, features=features)
    click(layout, *ids[:6])
    click(layout, *ids[6:12], label="not_damaged")
    return layout


@pytest.fixture(scope="module")
def warm_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stand-in for the interpreter that `jobs` starts with `-P -m pu_geo.jobs.worker FOLDER`; it imported torch before."""
    folder = tmp_path_factory.mktemp("warm")
    address = folder / "socket"
    command = [PYTHON, str(DRIVER), "warm", str(address)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec "{PYTHON}" -I -S "{DRIVER}" ask "{address}" "$4"\n')
    path.chmod(0o755)
    yield path
    process.kill()
    process.communicate()


def until(condition: Callable[[], object], seconds: float = 500.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.001)


def arguments(method: str) -> dict[str, Any]:
    known = {item.name for item in fields(catalog.card(method).settings)}
    chosen = {name: str(value) for name, value in SHORT.items() if name in known}
    return {"method": method, "preset": "quick", "seed": 3, "overrides": chosen}


def until_told(folder: Path, n_epochs: int) -> None:
    until(lambda: len(of_kind(folder, "epoch")) >= n_epochs)


def ended(layout: Layout, folder: Path) -> jobs.JobView:
    """Wait until a worker has ended, however it did."""
    jobs.wait(layout, folder.name, seconds=500)
    until(lambda: not jobs.is_alive(folder))
    return jobs.view(folder)


def finished(layout: Layout, folder: Path) -> str:
    """Wait for a job's end and return its run."""
    seen = ended(layout, folder)
    assert seen.state == "done", (seen.problem, (folder / "log.txt").read_text())
    return str(seen.result["run_id"])


def told(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Every epoch's report in the order of the first ones; one that was repeated must say the same each time."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for event in of_kind(folder, "epoch"):
        values = {name: value for name, value in event.items() if name not in OF_THE_CLOCK}
        assert found.setdefault((event["stage"], event["epoch"]), values) == values
    return found


AT_ONCE = ("linear", "propagation")
"""Rankings that are done in an instant, in one epoch."""


@pytest.mark.parametrize("method", in_tiers(catalog.METHODS, "kills", ci=["ncpu"]))
def test_killed_again_and_again(method: str, clicked: Layout, warm_launcher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(warm_launcher))
    chance, straight, cut = random.Random(method), *(unheld_job(clicked, "train", arguments(method)) for _ in range(2))
    jobs.launch(straight)
    ids, n_before = [finished(clicked, straight)], len(store.call(clicked, runs.all_runs))
    # at any moment after some epochs; a quick worker kills itself before too many
    for _ in range(0 if method in AT_ONCE else 2):
        n_epochs, after = len(of_kind(cut, "epoch")), chance.randint(1, 6)
        (cut / kill_driver.KILL_AT).write_text(f"epoch {after + chance.randint(2, 9)}")
        jobs.resume(clicked, cut.name)
        until_told(cut, n_epochs + after)
        time.sleep(chance.uniform(0, 0.03))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(of_kind(cut, "started")[-1]["pid"], signal.SIGKILL)
        assert ended(clicked, cut).state == "interrupted"
        (cut / kill_driver.KILL_AT).unlink(missing_ok=True)
    for moment, n_new in (("manifest.json 1", 0), ("done 1", 1)):
        (cut / kill_driver.KILL_AT).write_text(moment)
        jobs.resume(clicked, cut.name)
        assert ended(clicked, cut).state == "interrupted"
        assert len(store.call(clicked, runs.all_runs)) == n_before + n_new
    jobs.resume(clicked, cut.name)
    ids.append(finished(clicked, cut))
    assert len(store.call(clicked, runs.all_runs)) == n_before + 1
    for name in FILES:
        assert (clicked.run(ids[0]) / name).read_bytes() == (clicked.run(ids[1]) / name).read_bytes(), name
    first, second = (asdict(store.call(clicked, runs.find, run_id)) for run_id in ids)
    own = dict.fromkeys(("run_id", "created_at", "seconds"))
    assert {**first, **own} == {**second, **own}
    assert list(told(cut).items()) == list(told(straight).items())
    assert not (cut / "checkpoints").exists()
    n_judging = round(JUDGING * N_EPOCHS) if method == "pucl" else 0  # PUCL chooses its pseudo labels in a stage of its own
    assert len(told(cut)) == (1 if method in AT_ONCE else N_EPOCHS + n_judging)


@contextlib.contextmanager
def mounted(place: Path, size_mb: int) -> Iterator[Path]:
    """A disk of memory, of so many MB."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here: that needs Linux and root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
