"""Workers that were killed with SIGKILL, and started again as a person does it, end to the bit as those that were not."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_parts import add_chips, click, in_tiers, small_project, unheld_job
from tasks import kill_driver

from pu_geo import jobs
from pu_geo.errors import JobError
from pu_geo.methods import catalog
from pu_geo.methods.pucl import JUDGING
from pu_geo.project import events, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp

pytestmark = pytest.mark.slow

PYTHON, DRIVER = sys.executable, Path(kill_driver.__file__)
N_CHIPS, N_EPOCHS = 40, 60
FILES = ("model.safetensors", "scores.npy", "embeddings.npy", "clusters.npy", "building_ids.json")
OF_THE_CLOCK = {
    "at", "seconds", "chips_per_s", "memory_mb", "look", "alarms", "share_called", "spread", "n_held_out", "recall",
}  # fmt: skip
SHORT = {"epochs": N_EPOCHS, "rounds": N_EPOCHS, "max_steps": 5 * N_EPOCHS, "batch_size": 16, "warmup_epochs": 5}
CHIPS_ALONE = {"backbone": "small", "pretrain_epochs": 2, "epochs": 6, "warmup_epochs": 2, "embedding_dim": 16}


@pytest.fixture(scope="module")
def clicked(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return made_up(tmp_path_factory.mktemp("kills") / "event.pugeo")


def made_up(folder: Path) -> Layout:
    """A project with 40 made-up chips and their features; twelve are clicked, half of them as not damaged."""
    layout, rng = small_project(folder, N_CHIPS), np.random.default_rng(0)
    ids, features = [f"b{i}" for i in range(N_CHIPS)], rng.normal(size=(4, N_CHIPS, 8)).astype(np.float16)
    chips = rng.integers(0, 255, (N_CHIPS, 6, 16, 16)).astype(np.uint8)
    add_chips(layout, ids, bands="pre+post", chips=chips, features=features)
    click(layout, *ids[:6])
    click(layout, *ids[6:12], label="not_damaged")
    return layout


def launcher(folder: Path, words: str) -> Path:
    """Write a stand-in for the interpreter that `jobs` starts; it gets `-P -m pu_geo.jobs.worker FOLDER`."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec "{PYTHON}" {words} "$4"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def warm_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts workers, each a process and a session of its own, without the seconds in which torch is imported."""
    folder = tmp_path_factory.mktemp("warm")
    address = folder / "socket"
    command = [PYTHON, str(DRIVER), "warm", str(address)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    yield launcher(folder, f'-I -S "{DRIVER}" ask "{address}"')
    process.kill()
    process.communicate()


@pytest.fixture
def warm(warm_launcher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(warm_launcher))


def until(condition: Callable[[], object], seconds: float = 500.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.001)


def arguments(method: str, **others: object) -> dict[str, Any]:
    known = {item.name for item in fields(catalog.card(method).settings)}
    chosen = {name: str(value) for name, value in {**SHORT, **others}.items() if name in known}
    return {"method": method, "preset": "quick", "seed": 3, "overrides": chosen}


def n_epochs(method: str) -> int:
    """Count the epochs of all stages; PUCL chooses its pseudo labels in a stage of its own."""
    return N_EPOCHS + (round(JUDGING * N_EPOCHS) if method == "pucl" else 0)


def of_kind(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in events.read(folder) if event["event"] in kinds]


def begin(layout: Layout, args: Mapping[str, Any], kill_at: str = "", fill_at: str = "") -> Path:
    """Start a training that is killed, or has its disk filled, at a moment as `kill_driver` knows them."""
    folder = unheld_job(layout, "train", args)
    for name, text in ((kill_driver.KILL_AT, kill_at), (kill_driver.FILL_AT, fill_at)):
        if text:
            (folder / name).write_text(text)
    jobs.launch(folder)
    return folder


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


def start_and_kill(
    layout: Layout, folder: Path, chance: random.Random, *, after: int, at_most: int, within_s: float
) -> None:
    """Start a job and kill its process group at any moment after as many epochs were reported, before it tells of one more.

    However quick the machine is, the worker kills itself right before it tells of the epoch `at_most` of this start.
    """
    n_before = len(of_kind(folder, "epoch"))
    (folder / kill_driver.KILL_AT).write_text(f"epoch {at_most}")
    jobs.resume(layout, folder.name)
    until(lambda: len(of_kind(folder, "epoch")) >= n_before + after)
    time.sleep(chance.uniform(0, within_s))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(of_kind(folder, "started")[-1]["pid"], signal.SIGKILL)
    assert ended(layout, folder).state == "interrupted"
    (folder / kill_driver.KILL_AT).unlink(missing_ok=True)


def told(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Every epoch's report in the order of the first ones; one that was repeated must say the same each time."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for event in of_kind(folder, "epoch"):
        values = {name: value for name, value in event.items() if name not in OF_THE_CLOCK}
        assert found.setdefault((event["stage"], event["epoch"]), values) == values
    return found


def facts_of(layout: Layout, run_id: str) -> dict[str, Any]:
    with store.connect(layout) as db:
        facts = asdict(runs.find(db, run_id))
    return {name: value for name, value in facts.items() if name not in {"run_id", "created_at", "seconds"}}


def assert_same_files(first: Path, second: Path) -> None:
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def n_runs(layout: Layout) -> int:
    with store.connect(layout) as db:
        return len(runs.all_runs(db))


def assert_same(layout: Layout, cut: Path, straight: Path) -> None:
    """Compare two jobs: files to the byte, facts, and what was reported of each epoch."""
    ids = [finished(layout, folder) for folder in (cut, straight)]
    assert_same_files(*(layout.run(run_id) for run_id in ids))
    assert facts_of(layout, ids[0]) == facts_of(layout, ids[1])
    assert list(told(cut).items()) == list(told(straight).items())
    assert not (cut / "checkpoints").exists()


@pytest.fixture(scope="module")
def straight_jobs() -> dict[str, Path]:
    return {}


@pytest.fixture
def straight(clicked: Layout, warm: None, straight_jobs: dict[str, Path]) -> Callable[[str], Path]:
    """Gives a job that nobody disturbed; one a method."""

    def job_of(method: str) -> Path:
        if method not in straight_jobs:
            straight_jobs[method] = begin(clicked, arguments(method))
            finished(clicked, straight_jobs[method])
        return straight_jobs[method]

    return job_of


AT_ONCE = ("linear", "propagation")
"""Rankings that are done in an instant, in one epoch."""


@pytest.mark.parametrize("method", in_tiers(catalog.METHODS, "kills", ci=["ncpu"]))
def test_killed_again_and_again_it_ends_as_if_nothing_had_been(
    method: str, clicked: Layout, straight: Callable[[str], Path]
) -> None:
    chance, expected, n_before = random.Random(method), straight(method), n_runs(clicked)
    folder = unheld_job(clicked, "train", arguments(method))
    for _ in range(0 if method in AT_ONCE else 2):
        after = chance.randint(1, 6)
        start_and_kill(clicked, folder, chance, after=after, at_most=after + chance.randint(2, 9), within_s=0.03)
    (folder / kill_driver.KILL_AT).write_text("manifest.json 1")
    jobs.resume(clicked, folder.name)
    assert ended(clicked, folder).state == "interrupted"
    assert n_runs(clicked) == n_before
    jobs.resume(clicked, folder.name)
    assert_same(clicked, folder, expected)
    assert len(told(folder)) == (1 if method in AT_ONCE else n_epochs(method))
    assert n_runs(clicked) == n_before + 1


@pytest.mark.long(part="kills")
@pytest.mark.parametrize("method", ["ncpu", "pucl"])
def test_a_killed_training_holds_the_same_clicks_out(method: str, tmp_path: Path, warm: None) -> None:
    layout, args = made_up(tmp_path / "event.pugeo"), {**arguments(method), "hold_out": 1}
    expected, folder = begin(layout, args), begin(layout, args, kill_at="epoch 20")
    assert ended(layout, folder).state == "interrupted"
    finished(layout, expected)  # a training reads the clicks when it starts: it must not see the late one
    with store.connect(layout) as db:  # of what is clicked in between nothing is held out
        labels.append(db, [LabelOp("late", "b30", "positive")], analyst="ann", screen="map")
    (folder / kill_driver.KILL_AT).write_text("manifest.json 1")
    for _ in range(2):
        jobs.resume(layout, folder.name)
        ended(layout, folder)
    assert_same(layout, folder, expected)
    rows = [runs.array(layout, finished(layout, each), "held_out").tolist() for each in (folder, expected)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1
    assert rows[0][0] < 6
    curve = json.loads((layout.run(finished(layout, folder)) / "curve.json").read_text())
    assert [report["epoch"] for report in curve if report["stage"] == "training"] == list(range(1, N_EPOCHS + 1))
    assert len(curve) == n_epochs(method)


MOMENTS = ["training-previous.pt 8", "training-newest.pt 8", "epoch 8", "model.safetensors 1", "done 1"]


@pytest.mark.long(part="kills")
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_it_goes_on_and_stores_one_run(
    moment: str, clicked: Layout, straight: Callable[[str], Path]
) -> None:
    expected, n_before = straight("ncpu"), n_runs(clicked)
    folder = begin(clicked, arguments("ncpu"), kill_at=moment)
    assert ended(clicked, folder).state == "interrupted"
    n_told = len(told(folder))
    jobs.resume(clicked, folder.name)
    assert_same(clicked, folder, expected)
    again = [event["epoch"] for event in of_kind(folder, "epoch")[n_told:]]
    assert not again or again[0] >= n_told, "it went further back than it had to"
    assert n_runs(clicked) == n_before + 1
    assert len(list(clicked.run("any").parent.iterdir())) == n_before + 1


@pytest.mark.long(part="kills")
@pytest.mark.parametrize("method", ["ncpu", "pucl", "fedaws"])
def test_paused_it_does_no_epoch_twice(method: str, clicked: Layout, straight: Callable[[str], Path]) -> None:
    folder = unheld_job(clicked, "train", arguments(method))
    for _ in range(3):
        jobs.resume(clicked, folder.name)
        jobs.pause(clicked, folder.name)
        assert ended(clicked, folder).state == "paused"
    jobs.resume(clicked, folder.name)
    assert_same(clicked, folder, straight(method))
    assert len(of_kind(folder, "epoch")) == n_epochs(method)


@pytest.mark.long(part="kills")
def test_kills_in_both_stages_from_chips(clicked: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker in an interpreter of its own."""
    args, chance = arguments("pucl", **CHIPS_ALONE), random.Random(1)
    monkeypatch.setattr(sys, "executable", str(launcher(tmp_path, f'-P "{DRIVER}" worker')))
    expected, folder = begin(clicked, args), unheld_job(clicked, "train", args)
    finished(clicked, expected)
    start_and_kill(clicked, folder, chance, after=1, at_most=2, within_s=0.2)
    assert {stage for stage, _ in told(folder)} == {"pretraining"}
    start_and_kill(clicked, folder, chance, after=3, at_most=5, within_s=0.1)
    jobs.resume(clicked, folder.name)
    assert_same(clicked, folder, expected)
    assert {stage for stage, _ in told(folder)} == {"pretraining", "training", "judging"}


@contextlib.contextmanager
def mounted(place: Path, size_mb: int) -> Iterator[Path]:
    """A disk of memory, of so many MB."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here: that needs Linux and root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("disk"), 4) as place:
        yield place


@pytest.fixture
def on_small_disk(small_disk: Path) -> Iterator[Layout]:
    layout = made_up(small_disk / "event.pugeo")
    yield layout
    shutil.rmtree(layout.folder)


FULL = ["started 1", "training-newest.pt 5", "epoch 9", "model.safetensors 1", "scores.npy 1", "manifest.json 1"]


@pytest.mark.long(part="disk")
@pytest.mark.parametrize("moment", FULL)
def test_full_disk_is_named(moment: str, on_small_disk: Layout, straight: Callable[[str], Path], clicked: Layout) -> None:
    folder = begin(on_small_disk, arguments("ncpu"), fill_at=moment)
    seen = ended(on_small_disk, folder)
    assert seen.state == "failed"
    assert re.search("disk .* full", f"{seen.problem} {seen.hint}")
    assert "PU-Geo" not in seen.problem, "it is no fault of ours"
    (folder / "filler").unlink()
    assert n_runs(on_small_disk) == 0
    assert not list(on_small_disk.folder.glob("runs/*"))
    assert not list(folder.rglob("*unfinished*"))
    jobs.resume(on_small_disk, folder.name)
    run_id = finished(on_small_disk, folder)
    assert_same_files(on_small_disk.run(run_id), clicked.run(finished(clicked, straight("ncpu"))))
    assert list(told(folder)) == list(told(straight("ncpu")))
    assert n_runs(on_small_disk) == 1


@pytest.mark.long(part="disk")
def test_a_job_that_is_done_says_so_on_a_full_disk(on_small_disk: Layout, warm: None) -> None:
    folder = begin(on_small_disk, arguments("linear"), fill_at="done 1")
    assert ended(on_small_disk, folder).state == "done"


def test_a_job_is_not_started_on_a_full_disk(on_small_disk: Layout) -> None:
    kill_driver.fill(on_small_disk.folder)
    with pytest.raises(JobError, match="cannot be started: No space left"):
        jobs.start(on_small_disk, "train", arguments("ncpu"))
