"""Trainings that stop and go on: one run is stored, the same to the bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_parts import array_of, job_of
from small_parts import click, with_key

from pu_geo.errors import JobCancelled
from pu_geo.runs import train_job as train_task
from pu_geo.runs.train_job import train
from pu_geo.store import training_times
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_json
from pu_geo.training.checkpoints import Checkpoints


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
