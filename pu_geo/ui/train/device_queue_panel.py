"""The line of jobs that wait for this machine's device, in this project and in others."""

from __future__ import annotations

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.train import training
from pu_geo.services.train.training import QueuedJob
from pu_geo.ui.components import job_card
from pu_geo.ui.frame import plain

_SECONDS_BETWEEN_LOOKS = 2.0


def draw(layout: Layout) -> None:
    """Draw the line where more than one job, or one of another project, is in it; refreshed while anybody is."""
    is_busy = bool(training.queued_jobs(layout))

    @st.fragment(run_every=_SECONDS_BETWEEN_LOOKS if is_busy else None)
    def panel() -> None:
        line = training.queued_jobs(layout)
        if not line or (len(line) == 1 and line[0].is_here):
            return
        with st.container(border=True):
            st.markdown("**Queue of this machine** · one job at a time, first in, first out")
            st.markdown("\n".join(f"{place}. {_words(each)}" for place, each in enumerate(line, 1)))

    panel()


def _words(each: QueuedJob) -> str:
    job, where = each.job, "" if each.is_here else f" in project *{plain(each.project)}*"
    how_far = "waits" if job.state == "waiting" else f"{job.progress or 0:.0%}"
    return f"{job_card.title(job)}{where} · {how_far}"
