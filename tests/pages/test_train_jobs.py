"""The jobs on the Train page: how each state is told, what can be asked of it, and the line of all projects."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from app_parts import plain, show, words
from model_parts import with_chips
from small_parts import click, small_project, unheld_job
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.jobs import control, device_queue
from pu_geo.jobs.status import CANCEL, PAUSE
from pu_geo.project import events
from pu_geo.project.layout import Layout

pytestmark = pytest.mark.usefixtures("home")

NCPU = {"method": "ncpu", "preset": "quick"}


def labels_of(app: AppTest) -> set[str]:
    return {button.label for button in app.button} & {"Pause", "Cancel", "Resume", "Start again", "Start over", "Dismiss"}


def job_with(layout: Layout, *log: tuple[str, dict[str, object]]) -> Path:
    folder = unheld_job(layout, "train", NCPU)
    for kind, values in (("launched", {}), *log):
        events.append(folder, kind, values)
    return folder


EPOCH = ("epoch", {"stage": "training", "epoch": 7, "epochs": 60, "loss": 0.5})
ENDS = {
    "interrupted": ((EPOCH,), {"Resume", "Start over", "Dismiss"}, "ended without an error message"),
    "paused": ((EPOCH, ("paused", {})), {"Resume", "Start over", "Dismiss"}, "7 epochs of training done"),
    "cancelled": ((("cancelled", {}),), {"Start again", "Dismiss"}, "Training NcPU"),
    "failed": ((("failed", {"problem": "Too *few*.", "hint": "Click."}),), {"Start again", "Dismiss"}, "Too \\*few\\*"),
}


@pytest.mark.parametrize("state", ENDS)
def test_an_ended_job_says_how_and_offers_what_can_be_done(project: Layout, state: str) -> None:
    log, buttons, told = ENDS[state]
    job_with(project, *log)
    app = show("train", project)
    assert f"-badge[{state}]" in words(app)
    assert told in words(app)
    assert labels_of(app) == buttons


def test_a_running_job_can_be_paused_and_cancelled_once(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_end_if_hung", lambda folder: None)
    folder = job_with(project, ("turn", {}), ("progress", {"share": 0.4, "message": "NcPU: epoch 3 of 8"}))
    lock = jobs.take_lock(folder)
    app = show("train", project)
    assert labels_of(app) == {"Pause", "Cancel"}
    app.button(key=f"pause-{folder.name}").click().run()
    assert (folder / PAUSE).exists()
    assert app.button(key=f"pause-{folder.name}").disabled
    assert not app.button(key=f"cancel-{folder.name}").disabled
    app.button(key=f"cancel-{folder.name}").click().run()
    assert (folder / CANCEL).exists()
    assert app.button(key=f"cancel-{folder.name}").disabled
    os.close(lock)
    assert "-badge[cancelled]" in words(show("train", project))


def test_where_damage_types_come_from_is_chosen_with_their_counts(project: Layout) -> None:
    with_chips(project)
    click(project, "b0", "b1", damage_types=["roof", "flooded"], absent_types=["burned"])
    app = show("train", project, **{"group-1": True})
    assert "Damage types on Annotate: flooded 2 yes; roof 2 yes; burned 0 yes, 2 no." in plain(app)
    field = app.selectbox(key="types-herocon")
    assert field.value is None
    assert field.options == [
        "Types given on Annotate",
        "Attribute of the footprints: damage",
        "Attribute of the footprints: name",
    ]
    assert "choose them in the settings" in plain(app)
    field.set_value("answers").run()
    assert "Damage types: Types given on Annotate" in plain(app)
    assert "flooded 2 yes; roof 2 yes; burned 0 yes, 2 no" in plain(app)


def test_a_training_that_can_go_on_is_shown_whatever_came_after(project: Layout) -> None:
    paused = job_with(project, EPOCH, ("paused", {}))
    for _ in range(4):
        job_with(project, EPOCH, ("done", {"result": {"run_id": "r"}, "seconds": 2.0}))
    app = show("train", project)
    assert app.button(key=f"resume-{paused.name}")
    assert sum(part.label.startswith("Training NcPU, quick: done in 2 s · ") for part in app.expander) == 3


def test_a_dismissed_job_is_gone_and_starting_over_makes_a_new_one(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    folder = job_with(project, EPOCH)
    app = show("train", project)
    app.button(key=f"start-over-{folder.name}").click().run()
    (fresh,) = jobs.all_jobs(project)
    assert (fresh.job_id != folder.name, fresh.args) == (True, NCPU)
    app.button(key=f"dismiss-{fresh.job_id}").click().run()
    assert not app.exception
    assert jobs.all_jobs(project) == []


def test_all_active_jobs_have_a_card_and_their_log_can_be_read(project: Layout) -> None:
    folders = [job_with(project, EPOCH) for _ in range(5)]
    locks = [jobs.take_lock(folder) for folder in folders]
    app = show("train", project)
    assert sum("-badge[running]" in part.value for part in app.markdown) == 5
    assert "epoch: stage training, epoch 7" in words(app)
    for lock in locks:
        os.close(lock)


def test_the_line_names_who_works_and_who_waits_in_which_project(project: Layout, tmp_path: Path) -> None:
    other = small_project(tmp_path / "a*b.pugeo")
    first, second = job_with(other, ("turn", {}), ("progress", {"share": 0.25, "message": ""})), job_with(project)
    locks = [jobs.take_lock(folder) for folder in (first, second)]
    events.append(second, "waiting", {"message": f"waiting for job {first.name} of a*b.pugeo"})
    with device_queue.acquire_device(first, lambda before: None):
        assert [ticket.folder for ticket in device_queue.line()] == [first]
        waiting = device_queue._take(second)[0]
        app = show("train", project)
        os.close(waiting)
    assert "Device queue of this machine" in words(app)
    assert "1. Training NcPU, quick in project *a\\*b* · 25%\n2. Training NcPU, quick · waits" in words(app)
    assert "-badge[waiting]" in words(app)
    assert labels_of(app) == {"Pause", "Cancel"}
    assert "Device queue of this machine" not in words(show("train", project))
    for lock in locks:
        os.close(lock)
