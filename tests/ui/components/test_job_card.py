"""Jobs on a screen: how each stands, what can be asked of it, a line once one is done, and a note where one ends while another screen is open."""

import os
import sys
from pathlib import Path

import pytest
from app_parts import checked, press, show_panel, words
from small_parts import logged_job
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.jobs import control
from pu_geo.jobs.status import CANCEL, PAUSE
from pu_geo.store import events
from pu_geo.store.layout import Layout
from pu_geo.ui.components import job_card

pytestmark = pytest.mark.usefixtures("home")
DONE = ("done", {"result": {}, "seconds": 75.0})
EPOCH = ("epoch", {"stage": "training", "epoch": 7, "epochs": 60, "loss": 0.5})
ENDS = {
    "interrupted": ((EPOCH,), {"resume", "start-over", "dismiss"}, "ended without an error message"),
    "paused": ((EPOCH, ("paused", {})), {"resume", "start-over", "dismiss"}, "7 epochs of training done"),
    "cancelled": ((("cancelled", {}),), {"resume", "dismiss"}, "Training NcPU"),
    "failed": ((("failed", {"problem": "Too *few*.", "hint": "Click."}),), {"resume", "dismiss"}, "Too \\*few\\*"),
}


def job_with(layout: Layout, task: str, *log: tuple[str, dict[str, object]]) -> Path:
    return logged_job(layout, task, *log, **({"method": "ncpu", "preset": "quick"} if task == "train" else {}))


def toasts(app: AppTest) -> list[str]:
    """Draw a page once more; return the notes that come up."""
    return [each.value for each in checked(app.run()).toast]


def test_a_job_that_ended_is_announced_once_and_again_once_resumed(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    job_with(project, "look", DONE)
    app = show_panel("components.job_card", project, "announce(layout)")
    assert not app.toast, "it ended before this session began"
    folder = job_with(project, "train")
    lock = jobs.take_lock(folder)
    assert toasts(app) == [], "it is running"
    events.append(folder, "paused")
    os.close(lock)
    assert len(toasts(app)) == 1
    lock = jobs.take_lock(folder)
    events.append(folder, "launched")
    assert toasts(app) == []
    events.append(folder, *DONE)
    os.close(lock)
    (toast,) = toasts(app)
    assert toast.startswith("Training NcPU, quick is done. [Open Train](/train?project=")
    assert toasts(app) == []
    monkeypatch.setattr(job_card, "_open_screen", lambda: "explore")
    job_with(project, "look", DONE)
    assert toasts(app) == [], "of the screen that is open"
    job_with(project, "publish", ("failed", {"problem": "x", "hint": "y"}))
    (toast,) = toasts(app)
    assert "failed. [Open Damage map](/damage_map?" in toast


def cards(layout: Layout) -> AppTest:
    return show_panel("components.job_card", layout, "watch(layout, 'methods', most=3)")


def acts_on(app: AppTest, folder: Path) -> set[str]:
    """Return what can be done with a job that can be done now."""
    shown = {str(button.key): button.disabled for button in app.button}
    acts = ("pause", "cancel", "resume", "start-over", "dismiss")
    return {act for act in acts if shown.get(f"{act}-{folder.name}") is False}


def test_an_ended_job_says_how_and_offers_what_can_be_done(project: Layout) -> None:
    folders = {state: job_with(project, "train", *log) for state, (log, _, _) in ENDS.items()}
    for _ in range(4):
        job_with(project, "train", EPOCH, DONE)
    app = cards(project)
    assert words(app).count("Training NcPU, quick: done in 75 s") == 3
    for state, (_, acts, said) in ENDS.items():
        assert f"-badge[{state}]" in words(app)
        assert said in words(app)
        assert acts_on(app, folders[state]) == acts, state


def test_a_running_job_can_be_paused_and_cancelled_once(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_end_if_hung", lambda folder: None)
    folder = job_with(project, "train", ("turn", {}), ("progress", {"share": 0.4, "message": "NcPU: epoch 3 of 8"}))
    lock = jobs.take_lock(folder)
    app = cards(project)
    assert acts_on(app, folder) == {"pause", "cancel"}
    app.button(key=f"pause-{folder.name}").click().run()
    assert ((folder / PAUSE).exists(), acts_on(app, folder)) == (True, {"cancel"})
    app.button(key=f"cancel-{folder.name}").click().run()
    assert ((folder / CANCEL).exists(), acts_on(app, folder)) == (True, set())
    os.close(lock)
    assert "-badge[cancelled]" in words(cards(project))


def test_a_dismissed_job_is_gone_and_starting_over_makes_a_new_one(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", lambda folder, lock: os.close(lock))
    folder = job_with(project, "train", EPOCH)
    app = press(cards(project), f"start-over-{folder.name}")
    (fresh,) = jobs.all_jobs(project)
    assert (fresh.job_id != folder.name, fresh.args) == (True, {"method": "ncpu", "preset": "quick"})
    press(app, f"dismiss-{fresh.job_id}")
    assert jobs.all_jobs(project) == []
