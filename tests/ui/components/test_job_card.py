"""Jobs on a screen: a line once one is done, and a note where one ends while another screen is open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from app_parts import checked, show_panel, words
from small_parts import unheld_job
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project import events, locks
from pu_geo.project.layout import Layout
from pu_geo.ui.components import job_card

DONE = ("done", {"result": {}, "seconds": 75.0})


def job_with(layout: Layout, task: str, *log: tuple[str, dict[str, object]]) -> Path:
    folder = unheld_job(layout, task, {"method": "ncpu", "preset": "quick"} if task == "train" else {})
    for kind, values in (("launched", {}), *log):
        events.append(folder, kind, values)
    return folder


def announced(layout: Layout) -> AppTest:
    return show_panel("components.job_card", layout, "announce(layout)")


def toasts(app: AppTest) -> list[str]:
    return [each.value for each in app.toast]


@pytest.mark.usefixtures("home")
def test_a_job_that_ended_since_is_announced_once_with_a_link_to_its_screen(project: Layout) -> None:
    job_with(project, "embed", DONE)
    app = announced(project)
    assert toasts(app) == [], "it ended before this session began"
    folder = job_with(project, "train")
    lock = jobs.take_lock(folder)
    assert toasts(checked(app.run())) == [], "it is running"
    events.append(folder, *DONE)
    os.close(lock)
    (toast,) = toasts(checked(app.run()))
    assert toast.startswith("Training NcPU, quick is done. [Open Train](/train?project=")
    assert toasts(checked(app.run())) == []


@pytest.mark.usefixtures("home")
def test_a_job_that_was_resumed_is_announced_again_and_says_how_it_ended(project: Layout) -> None:
    folder = job_with(project, "train", ("paused", {}))
    app = announced(project)
    lock = jobs.take_lock(folder)
    events.append(folder, "launched")
    assert toasts(checked(app.run())) == []
    events.append(folder, "failed", {"problem": "x", "hint": "y"})
    os.close(lock)
    assert toasts(checked(app.run()))[0].startswith("Training NcPU, quick failed.")


@pytest.mark.usefixtures("home")
def test_nothing_is_announced_of_the_screen_that_is_open(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    app = announced(project)
    monkeypatch.setattr(job_card, "_open_screen", lambda: "explore")
    job_with(project, "embed", DONE)
    assert toasts(checked(app.run())) == []
    job_with(project, "publish", DONE)
    assert "[Open Damage map](/damage_map?" in toasts(checked(app.run()))[0]


@pytest.mark.parametrize("call", ["watch(layout, ['train'])", "details(layout, ['train'], body=lambda job: None, most=3)"])
def test_a_job_that_is_done_is_one_line_without_its_id(project: Layout, call: str) -> None:
    folder = job_with(project, "train", DONE)
    app = show_panel("components.job_card", project, call)
    (line,) = [part.label for part in app.expander] or [part.value for part in app.markdown]
    assert "Training NcPU, quick: done in 75 s" in line
    assert folder.name not in line
    assert not app.button


def test_only_the_jobs_that_a_button_started_are_under_it(project: Layout) -> None:
    job_with(project, "train", ("failed", {"problem": "Too few.", "hint": "Click."}))
    call = "watch(layout, ['train'], only=lambda job: job.args['method'] == {!r})"
    assert "Too few" in words(show_panel("components.job_card", project, call.format("ncpu")))
    assert "Too few" not in words(show_panel("components.job_card", project, call.format("pucl")))


def test_a_job_on_a_cluster_shows_its_workers_the_parts_of_its_step_and_dasks_page(project: Layout) -> None:
    """Parts of the step before, chips, do not count for that of the features; an address that is none is no link."""
    workers = {"workers": [{"host": "a"}, {"host": "b"}], "dashboard": "http://127.0.0.1:8787/status"}
    plans = [("plan", {"step": "cutting chips", "shards": 4, "kept": 0}), ("shard", {})]
    plans += [("plan", {"step": "computing features", "shards": 9, "kept": 2}), ("shard", {})]
    folder = job_with(project, "chip", ("cluster", workers), *plans)
    lock = locks.take(folder / locks.JOB_LOCK)
    try:
        (words,) = [each.value for each in show_panel("components.job_card", project, "watch(layout, ['chip'])").caption]
        assert (
            words
            == "2 workers of the cluster · computing features: 3 of 9 parts done · [Dask's page](http://127.0.0.1:8787/status)"
        )
        events.append(folder, "cluster", {**workers, "dashboard": "javascript:alert(1)"})
        (words,) = [each.value for each in show_panel("components.job_card", project, "watch(layout, ['chip'])").caption]
        assert words == "2 workers of the cluster · computing features: 3 of 9 parts done"
    finally:
        os.close(lock)


def test_a_job_whose_workers_have_come_is_not_shown_as_one_that_still_starts_them(project: Layout) -> None:
    came = {"message": "working on 2 workers", "workers": [{}, {}], "dashboard": ""}
    folder = job_with(project, "chip", ("stage", {"message": "starting 2 workers"}), ("cluster", came))
    lock = locks.take(folder / locks.JOB_LOCK)
    try:
        assert jobs.view(folder).message == "working on 2 workers"
    finally:
        os.close(lock)
