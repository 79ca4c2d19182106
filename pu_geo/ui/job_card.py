"""The card of a background job: what it does, how far it is, how long still, and a button to stop or repeat it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import streamlit as st

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.project.layout import Layout
from pu_geo.services import training
from pu_geo.ui.frame import plain, telling_errors

TITLES = {
    "prepare": "Loading scenes, footprints and chips",
    "add_scenes": "Adding scenes",
    "add_xbd": "Adding an xBD folder",
    "add_footprints": "Adding footprints",
    "add_aoi": "Setting the area of interest",
    "add_grid": "Laying a grid of cells",
    "align": "Aligning pre and post",
    "chip": "Cutting chips and computing features",
    "train": "Training",
    "rank": "Ranking",
    "apply_model": "Scoring by a model",
    "embed": "UMAP",
    "probe": "Measuring this machine",
    "export": "Export",
    "publish": "Export",
    "add_areas": "Adding areas",
    "sum_up": "Summing up by area",
    "next_round": "Prepare the next round",
}
_SECONDS_BETWEEN_LOOKS = 1.0


def watch(layout: Layout, tasks: Sequence[str], *, body: Callable[[JobView], None] | None = None, most: int = 1) -> bool:
    """Draw the newest jobs of some kinds, refreshed while one runs.

    Args:
        body: draws more inside the card, such as curves.
        most: how many cards.

    Returns:
        whether one is running. When it ends, the whole page is drawn anew.
    """
    shown = [job for job in jobs.all_jobs(layout) if job.task in tasks][:most]
    running = any(job.state == "running" for job in shown)

    @st.fragment(run_every=_SECONDS_BETWEEN_LOOKS if running else None)
    def cards() -> None:
        still = False
        for known in shown:
            job = jobs.view(jobs.folder_of(layout, known.job_id))
            still = still or job.state == "running"
            card(layout, job, body)
        if running and not still:
            st.rerun()

    if shown:
        cards()
    return running


def card(layout: Layout, job: JobView, body: Callable[[JobView], None] | None = None) -> None:
    """Draw one job."""
    with st.container(border=True):
        st.markdown(f"**{_title(job)}** · {_state_words(job)}")
        if job.state == "running":
            st.progress(min(job.progress or 0.0, 1.0), text=f"{job.message} · {_time_words(job)}")
            if st.button("Cancel", key=f"cancel-{job.job_id}", icon=":material/stop_circle:"):
                with telling_errors():
                    jobs.cancel(layout, job.job_id)
        elif job.state in ("interrupted", "failed", "cancelled"):
            _draw_end(layout, job)
        if body is not None:
            body(job)


def _title(job: JobView) -> str:
    title, method, preset = TITLES.get(job.task, job.task), job.args.get("method"), job.args.get("preset")
    return f"{title} {training.method_title(method)}" + (f", {preset}" if preset else "") if method else title


def _draw_end(layout: Layout, job: JobView) -> None:
    if job.state == "failed":
        st.error(f"{plain(job.problem)}\n\n{plain(job.hint)}")
    if job.state == "interrupted":
        st.warning("Its process ended without a word: the machine was restarted, or it was killed. Nothing else is lost.")
    done = job.curve[-1]["epoch"] if job.task == "train" and job.curve else None
    if done:
        st.caption(
            f"{done} epochs of {job.curve[-1].get('stage', 'training')} are done; it goes on after the last one kept on disk."
        )
    if st.button("Go on" if done else "Start again", key=f"resume-{job.job_id}", icon=":material/restart_alt:"):
        with telling_errors():
            jobs.resume(layout, job.job_id)
            st.rerun(scope="app")


def _state_words(job: JobView) -> str:
    colors = {"running": "blue", "done": "green", "failed": "red", "cancelled": "gray", "interrupted": "orange"}
    return f":{colors[job.state]}-badge[{job.state}]"


def _time_words(job: JobView) -> str:
    elapsed = (datetime.now(UTC) - datetime.fromisoformat(job.started_at)).total_seconds()
    words = f"{_duration(elapsed)} so far"
    if job.progress and job.progress > 0.05:
        words += f", about {_duration(elapsed / job.progress - elapsed)} left"
    return words


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
