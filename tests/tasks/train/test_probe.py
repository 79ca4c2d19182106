"""Measuring a machine: what is found, where it is kept, and that it can be stopped. No test looks at how fast this one is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from pu_geo import jobs
from pu_geo.errors import JobCancelled
from pu_geo.jobs import worker
from pu_geo.methods.expected_time import LIKE, REFERENCE
from pu_geo.project.layout import Layout
from pu_geo.services.train import training_times
from pu_geo.tasks.train import probe


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the slow ones out."""
    monkeypatch.setattr(probe, "EPOCHS", 4)
    monkeypatch.setattr(probe, "SECONDS_A_NETWORK", 0.01)
    methods = {name: probe.catalog.METHODS[name] for name in ("ncpu", "fedaws", "ce", "upu")}
    monkeypatch.setattr(probe.catalog, "METHODS", methods)
    monkeypatch.setattr(probe, "BACKBONES", {"small": probe.BACKBONES["small"]})


def test_what_is_measured_is_what_times_are_worked_out_from() -> None:
    assert {name for name in probe.catalog.METHODS if name not in LIKE} == set(REFERENCE.steps)
    names = {f"{backbone} {precision}" for backbone in probe.BACKBONES for precision in probe.PRECISIONS}
    assert names == set(REFERENCE.trained)
    assert names | {"features"} == set(REFERENCE.seen)


@pytest.mark.slow
@pytest.mark.usefixtures("fewer")
def test_all_figures_are_times_and_threads_are_as_before() -> None:
    threads, told = torch.get_num_threads(), []
    found = probe.measure(lambda share, words: told.append(share))
    assert torch.get_num_threads() == threads
    assert set(found.steps) == {"ncpu", "fedaws", "ce"}
    assert told == sorted(told)
    assert not found.is_shipped
    times = [found.start, *found.trained.values(), *found.seen.values(), *(sum(each) for each in found.steps.values())]
    assert all(math.isfinite(each) and each > 0 for each in times)
    assert all(part >= 0 for each in found.steps.values() for part in each)


@pytest.mark.usefixtures("fewer")
def test_measuring_can_be_cancelled_and_threads_are_as_before() -> None:
    threads, asked = torch.get_num_threads(), []
    with pytest.raises(JobCancelled):
        probe.measure(is_cancelled=lambda: not asked.append(1))
    assert len(asked) == 1
    assert torch.get_num_threads() == threads


def test_the_job_keeps_what_it_found_where_the_service_looks(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    assert training_times.speed() is REFERENCE
    made_up = replace(REFERENCE, machine=probe.machine_name(), device="a slow machine", start=44.0)
    monkeypatch.setattr(probe, "measure", lambda *_: made_up)
    folder = jobs.create(project, training_times.PROBE_TASK, {"into": str(training_times.speed_file())})
    result = worker.run(folder)
    assert result["device"] == "a slow machine"
    assert training_times.speed() == made_up
    assert "a slow machine" in training_times.measured_words(training_times.speed())
