"""Held-out clicks as the Train page and the command line ask for them."""

from __future__ import annotations

import pytest

from pu_geo import jobs
from pu_geo.errors import TrainingError
from pu_geo.project import contents, labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.services.train import training


@pytest.fixture
def clicked(project: Layout) -> Layout:
    with store.connect(project) as db:
        contents.add_chip_set(db, "set", "post", 16, 20)
        labels.append(db, [LabelOp(f"{i}", f"b{i}", "positive") for i in range(8)], analyst="ann", screen="map")
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
        training.start(clicked, "ncpu", preset="quick", seed=0, hold_out=4)
    assert not jobs.all_jobs(clicked)


def test_a_job_is_told_how_many(clicked: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: asked.append(args) or "id")
    training.start(clicked, "ncpu", preset="quick", seed=0, hold_out=3)
    training.start(clicked, "ncpu", preset="quick", seed=0)
    assert [args["hold_out"] for args in asked] == [3, 0]
