"""The card of a background job: what it does, how far it is, how long still, and buttons to stop, pause or repeat it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.project.layout import Layout
from pu_geo.services.train import training
from pu_geo.ui.frame import act_and_rerun, plain

TITLES = {
    "prepare": "Loading scenes, footprints and chips",
    "add_scenes": "Adding scenes",
    "add_xbd": "Adding an xBD folder",
    "add_footprints": "Adding footprints",
    "add_aoi": "Setting the area of interest",
    "add_grid": "Laying a grid of cells",
    "align": "Aligning pre and post",
    "chip": "Cutting chips and computing features",
    "features": "Making a set of features",
    "train": "Training",
    "rank": "Ranking",
    "import_run": "Importing a run of another copy",
    "bring_in": "Bringing in a training from elsewhere",  # a task of versions before
    "ensemble": "Averaging ranks",
    "apply_model": "Scoring by a model",
    "compare_features": "Comparing features",
    "embed": "UMAP",
    "cluster": "Clustering",
    "outliers": "Looking for odd chips and duplicates",
    "discover": "Looking for further kinds of damage",
    "export": "Export",
    "export_selection": "Exporting a selection",
    "publish": "Export",
    "add_areas": "Adding areas",
    "sum_up": "Summing up by area",
    "next_round": "Prepare the next round",
}
COLORS = {
    "waiting": "violet", "running": "blue", "done": "green", "failed": "red", "cancelled": "gray", "paused": "violet",
    "interrupted": "orange",
}  # fmt: skip
_SECONDS_BETWEEN_READS = 1.0
_MOST_TO_GO_ON = 10


def watch(
    layout: Layout,
    tasks: Sequence[str],
    *,
    body: Callable[[JobView], None] | None = None,
    most: int = 1,
    with_log: bool = False,
) -> bool:
    """Draw the active jobs of some kinds and the newest others, refreshed while one is active.

    Args:
        body: draws more inside the card, such as curves.
        most: how many cards; more where more are active, or trainings can go on.
        with_log: let people read what a job noted.

    Returns:
        whether one is active. When one ends, the whole page is drawn anew.
    """
    found = [job for job in jobs.all_jobs(layout) if job.task in tasks]
    active = [job for job in found if job.is_active]
    shown = sorted(active, key=lambda job: (job.state == "waiting", job.job_id)) + _ended(found, most, len(active))

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if active else None)
    def cards() -> None:
        n_active = 0
        for known in shown:
            job = jobs.view(jobs.folder_of(layout, known.job_id))
            if job.is_asked_to == "cancel":
                jobs.end_overdue(jobs.folder_of(layout, job.job_id))
            n_active += job.is_active
            card(layout, job, body, with_log=with_log)
        if n_active < len(active):
            st.rerun()

    if shown:
        cards()
    return bool(active)


def _ended(found: Sequence[JobView], most: int, n_active: int) -> list[JobView]:
    """Choose the newest of those that have ended; a training that can go on is shown until somebody dismisses it."""
    ended = [job for job in found if not job.is_active]
    can_go_on = [job for job in ended if job.task in jobs.CAN_PAUSE and job.state != "done"][:_MOST_TO_GO_ON]
    newest = [job for job in ended if job not in can_go_on][: max(most - n_active, 0)]
    return sorted([*can_go_on, *newest], key=lambda job: job.job_id, reverse=True)


def card(layout: Layout, job: JobView, body: Callable[[JobView], None] | None = None, *, with_log: bool = False) -> None:
    """Draw one job."""
    with st.container(border=True):
        words, buttons = st.columns([3, 2], vertical_alignment="center")
        words.markdown(f"**{title(job)}** · :{COLORS[job.state]}-badge[{job.state}] :small[:gray[{job.job_id}]]")
        with buttons.container(horizontal=True, horizontal_alignment="right"):
            _draw_buttons(layout, job)
        if job.state == "waiting":
            st.caption(_progress_words(job))
            return
        if job.is_active:
            st.progress(min(job.progress or 0.0, 1.0), text=_progress_words(job))
        else:
            _draw_end(job)
        if body is not None:
            body(job)
        if with_log:
            _draw_log(layout, job)


def title(job: JobView) -> str:
    """Name a job by what it does."""
    words, method, preset = TITLES.get(job.task, job.task), job.args.get("method"), job.args.get("preset")
    return f"{words} {training.name_within(method)}" + (f", {preset}" if preset else "") if method else words


def _draw_buttons(layout: Layout, job: JobView) -> None:
    """Draw what can be asked of a job as it stands."""
    if job.is_active:
        if job.task in jobs.CAN_PAUSE:
            _button(
                layout, job, "Pause", ":material/pause:", jobs.pause, "Stops after this epoch and keeps its state on disk."
            )
        _button(layout, job, "Cancel", ":material/stop_circle:", jobs.cancel)
    elif job.state != "done":
        is_begun = bool(_epochs_done(job))
        again = "Go on" if is_begun or job.state == "paused" else "Start again"
        _button(layout, job, again, ":material/play_arrow:", jobs.resume)
        if is_begun:
            words = "A new job with the same settings, from the first epoch, with the labels as they are now."
            _button(layout, job, "Start over", ":material/restart_alt:", jobs.retry, words)
        words = "Show it no more. `pu-geo jobs P.pugeo --all` still lists it."
        _button(layout, job, "Dismiss", ":material/close:", jobs.dismiss, words)


def _button(
    layout: Layout, job: JobView, label: str, icon: str, act: Callable[[Layout, str], object], help: str | None = None
) -> None:
    is_asked = job.is_asked_to is not None and (label == "Pause" or job.is_asked_to == "cancel")
    key = f"{label.lower().replace(' ', '-')}-{job.job_id}"
    if st.button(label, key=key, icon=icon, help=help, disabled=is_asked):
        act_and_rerun(lambda: act(layout, job.job_id))


def _epochs_done(job: JobView) -> int:
    return int(job.curve[-1]["epoch"]) if job.task in jobs.CAN_PAUSE and job.curve else 0


def _draw_end(job: JobView) -> None:
    if job.state == "failed":
        st.error(f"{plain(job.problem)}\n\n{plain(job.hint)}")
    if job.state == "interrupted":
        st.warning("Its process ended without a word: the machine was restarted, or it was killed. Nothing else is lost.")
    if job.state != "done" and (done := _epochs_done(job)):
        stage = job.curve[-1].get("stage", "training")
        st.caption(f"{done} epochs of {stage} are done; it goes on after the last one kept on disk.")


def _progress_words(job: JobView) -> str:
    if job.is_asked_to == "cancel":
        return "stopping"
    parts = [plain(job.message), "pauses after this epoch" if job.is_asked_to == "pause" else ""]
    if job.seconds is not None:
        parts.append(f"{_duration(job.seconds)} so far")
    if job.seconds_left is not None:
        parts.append(f"about {_duration(job.seconds_left)} left")
    return " · ".join(text for text in parts if text)


def _draw_log(layout: Layout, job: JobView) -> None:
    folder = jobs.folder_of(layout, job.job_id)
    with st.expander("Log", icon=":material/article:"):
        st.code("\n".join(jobs.event_lines(folder)[::-1]) or "nothing yet", language=None, height=220)
        st.caption(f"Newest first. Job {job.job_id}.")
        st.download_button(
            "Whole log", lambda: "\n".join([*jobs.event_lines(folder), jobs.worker_log(folder)]), f"{job.job_id}.log",
            "text/plain", key=f"log-{job.job_id}", icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def run_caption(job: JobView) -> None:
    """Draw which run a job made, in its card."""
    if job.state == "done":
        st.caption(f"Run {job.result['run_id']} · {job.result['seconds']} s")


def watch_unless_done(layout: Layout, tasks: Sequence[str]) -> bool:
    """Draw the card of a job whose result is shown elsewhere, unless it ended well; return whether one is active."""
    newest = next((job for job in jobs.all_jobs(layout) if job.task in tasks), None)
    return newest is not None and newest.state != "done" and watch(layout, tasks)
