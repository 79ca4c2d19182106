"""Trainings that stop and go on, by torchrun too: one run is stored, and a death ends it in words."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from model_parts import array_of, job_of
from small_parts import click, facts_of, with_key

from pu_geo.errors import JobCancelled, JobPaused, TrainingError
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.records import View
from pu_geo.runs import torchrun_job
from pu_geo.runs import train_job as train_task
from pu_geo.runs.train_job import train
from pu_geo.store import events, locks, training_times
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_json
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.ui.components import texts

ASKED: dict[str, Any] = {"method": "ncpu", "preset": "quick", "overrides": {"epochs": "12", "batch_size": "10"}}
LISTED = """
  rank      : {} (local_rank: 1)
  exitcode  : {} (pid: 4711)
"""


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return torchrun and the ranks that work for a job, by their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.cmdline() and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found


def rank_of(folder: Path, number: int) -> psutil.Process:
    (found,) = (each for each in processes_of(folder) if each.environ().get("RANK") == str(number))
    return found


def ends_as(job: Job, act: Callable[[], object], words: str) -> None:
    """Let something happen once all ranks are there and none has trained, which ends the job."""
    left = [act]
    job.echo = lambda line: left.pop()() if left and "loading chips" in line and processes_of(job.folder) else None
    with pytest.raises(TrainingError, match=words) as caught:
        torchrun_job.train_on(job, TrainingRequest(**ASKED, devices=2), 2)
    assert caught.value.kind == "rank"
    for found in (texts.RESUME, texts.START_AGAIN, "pu-geo jobs P.pugeo resume ID"):
        assert found in caught.value.hint
    assert processes_of(job.folder) == []
    job.echo = None


def held(job: Job) -> int:
    lock = locks.take(job.folder / locks.JOB_LOCK)
    assert lock is not None
    return lock


@pytest.mark.long(part="slow")
@pytest.mark.slow
def test_it_pauses_survives_deaths_and_goes_on_with_one_device_to_the_same_scores(clicked: Layout) -> None:
    straight = train(job_of(clicked, "straight"), **ASKED)
    job = job_of(clicked, "shared")
    lock = held(job)
    (job.folder / "pause").touch()
    with pytest.raises(JobPaused):
        train(job, **ASKED, devices=2)
    assert processes_of(job.folder) == []
    (job.folder / "pause").unlink()
    ends_as(job, lambda: rank_of(job.folder, 1).kill(), r"on 2 devices ended early: process 2 of 2 was killed \(signal 9\)")
    ends_as(job, lambda: os.close(lock), "on 2 devices ended early")  # as where the job's own process was killed
    result = train(job, **ASKED)
    found, wanted = (array_of(clicked, str(each["run_id"])) for each in (result, straight))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    epochs = [event["epoch"] for event in events.read(job.folder) if event["event"] == "epoch"]
    assert sorted(set(epochs)) == [*range(1, 13)]  # a rank that trained until it was killed did an epoch that is done again
    facts = facts_of(clicked, str(result["run_id"]))
    assert any("went on with 1 process after 2" in words for words in facts.warnings)


@pytest.mark.ci
@pytest.mark.slow
def test_one_run_is_stored_by_the_first_rank_and_progress_is_said(clicked: Layout) -> None:
    job = job_of(clicked, "shared")
    lock = held(job)
    echoed: list[str] = []
    job.echo = echoed.append
    result = train(job, **ASKED, devices=2)
    os.close(lock)
    facts = facts_of(clicked, str(result["run_id"]))
    assert (facts.device, facts.warnings) == ("2 x CPU, 1 thread", ())
    assert [path.name for path in (clicked.folder / "runs").iterdir()] == [facts.run_id]
    assert sum("loading chips" in line for line in echoed) == 2  # of the job, and of the first rank
    assert any("of 12" in line for line in echoed)  # not each epoch is reported
    assert train(job, **ASKED, devices=2) == result  # it is done


def request(method: str = "pucl", devices: int = 1, **overrides: Any) -> TrainingRequest:
    return TrainingRequest(method, "quick", overrides=overrides, devices=devices)


def test_devices_are_counted_and_those_that_are_missing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from_chips = {"backbone": "small"}
    pair, layers = [View("pre", "pre", 0, 3), View("post", "post", 3, 6)], [View("sar", "", 0, 2)]
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for n_cuda, asked, views, found in (
        (0, request(), (), 1),
        (0, request(devices=4), (), 4),
        (4, request(**from_chips), pair, 1),  # only where it was asked for
        (4, request(devices=2, **from_chips), pair, 2),
        (4, request("ncl", **from_chips), pair, 1),
        (4, request("herocon", **from_chips), [*pair, *layers], 1),
    ):
        monkeypatch.setattr(torch.cuda, "device_count", lambda n=n_cuda: n)
        assert torchrun_job.n_devices(asked, views) == (found, "")
    for n_cuda, asked, views, n, words in (
        (4, request(devices=8), (), 4, "8 devices were asked for, and this machine has 4"),
        (4, request("herocon", devices=2), layers, 1, "HeroCon learns from layers on one device"),
        (0, request(devices=8), (), 4, "this machine has no GPU and 4 cores, so 4 trained."),
    ):
        monkeypatch.setattr(torch.cuda, "device_count", lambda n=n_cuda: n)
        found, warning = torchrun_job.n_devices(asked, views)
        assert (found, words in warning) == (n, True)


@pytest.mark.parametrize(
    ("raised", "exit_codes", "wanted", "words"),
    [
        ({1: TrainingError("It diverged.", "Use less.")}, {}, TrainingError, "It diverged"),
        ({0: RuntimeError("Connection closed by peer")}, {1: -9}, TrainingError, r"process 2 of 2 was killed \(signal 9\)"),
        ({0: RuntimeError("closed"), 1: TrainingError("Little memory.", "Use less.")}, {}, TrainingError, "Little memory"),
        ({0: OSError(28, "No space left on device", "/x/y")}, {0: 1}, OSError, "No space left"),
        ({1: ValueError("a fault"), 0: RuntimeError("closed")}, {1: 1}, RuntimeError, "ValueError: a fault"),
        ({0: JobCancelled()}, {0: 1, 1: -signal.SIGTERM}, JobCancelled, "^$"),
        ({0: JobPaused(), 1: JobPaused()}, {}, JobPaused, "^$"),
        ({}, {}, TrainingError, "its processes were killed"),
    ],
)
def test_what_ended_a_rank_ends_the_job(
    raised: dict[int, Exception], exit_codes: dict[int, int], wanted: type[Exception], words: str, tmp_path: Path
) -> None:
    for number, error in raised.items():
        torchrun_job.note_end(tmp_path, number, error)
    log = "".join(LISTED.format(*each) for each in exit_codes.items())
    with pytest.raises(wanted, match=words) as caught:
        torchrun_job._raise_end(torchrun_job._read_ends(tmp_path / "ranks"), 1, 2, log)
    if isinstance(caught.value, OSError):
        assert caught.value.filename == "/x/y"


def test_a_rank_reads_its_arguments_and_shares_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    args = request(devices=2).as_args()
    assert torchrun_job.facts_of(["/p.pugeo", "/p.pugeo/jobs/j", json.dumps(args)]) == (
        Path("/p.pugeo"), Path("/p.pugeo/jobs/j"), args,
    )  # fmt: skip
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    found = torchrun_job._environment(2)
    assert (found["OMP_NUM_THREADS"], found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("4", "eth7", "lo")
    assert torchrun_job._environment(99)["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_a_cancelled_training_goes_on_where_it_was(clicked: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_task, "Checkpoints", lambda folder: Checkpoints(folder, 0.0))
    chosen: dict[str, Any] = {"method": "ncpu", "preset": "quick", "overrides": {"epochs": "12", "batch_size": "10"}}
    straight = train(job_of(clicked, "straight"), **chosen)
    job, epochs = job_of(clicked, "cut"), []
    record = job.epoch

    def stop_after_five(values: Any) -> None:
        record(values)
        epochs.append(values["epoch"])
        if len(epochs) == 5:
            (job.folder / "cancel").touch()

    monkeypatch.setattr(job, "epoch", stop_after_five)
    with pytest.raises(JobCancelled):
        train(job, **chosen)
    (job.folder / "cancel").unlink()
    click(clicked, "b10", "b11", "b12")  # what is clicked in between belongs to the next training
    resumed = train(job, **chosen)
    assert epochs[:6] == [1, 2, 3, 4, 5, 6]
    assert resumed["n_positive"] == straight["n_positive"] == 6
    np.testing.assert_array_equal(array_of(clicked, str(resumed["run_id"])), array_of(clicked, str(straight["run_id"])))
    assert not (job.folder / "checkpoints").exists()
    again = train(job_of(clicked, "next"), method="nnpu+noisncl", preset="quick", overrides={"epochs": "1"})
    assert again["n_positive"] == 9
    assert str(again["run_id"]).startswith("nnpu-noisncl-"), "a name that can be one of a folder"


@pytest.mark.slow
def test_a_whole_training_by_a_preset_is_remembered_for_the_next_estimate(
    clicked: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(with_key(tmp_path / "home")))
    result = train(job_of(clicked, "whole"), method="linear", preset="quick")
    train(job_of(clicked, "other"), method="linear", preset="quick", overrides={"l2": "0.3"})  # not the preset's
    job_of(clicked, "half")
    write_json(clicked.jobs / "half" / "checkpoints" / "began_with.json", {"chip_set": "set", "at_event": 6})
    train(Job(clicked, clicked.jobs / "half"), method="linear", preset="quick")  # goes on: its time is a part
    assert training_times.past("linear", "quick") == [training_times.PastTraining(20, float(str(result["seconds"])))]
