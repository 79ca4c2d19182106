"""Backups of the open project, the way back to one, and the check of the project."""

from __future__ import annotations

import streamlit as st

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.lifecycle import daily_backups, projects, recovery
from pu_geo.store import backups
from pu_geo.store.backups import Backup
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.project import texts
from pu_geo.wording import day_and_time, size

_MARKS = {"problem": ":red[:material/error:]", "note": ":orange[:material/info:]"}


def draw(layout: Layout) -> None:
    """Draw the newest backup, what can be done about backups, and the last check; a backup that failed stands above."""
    failed = daily_backups.problem(layout)
    if failed is not None:
        st.warning(f"**{texts.DAILY_FAILED}** {frame.plain(failed.problem)}\n\n{frame.plain(failed.hint)}")
    found = backups.all_backups(layout)
    with st.expander(texts.SAFETY):
        st.markdown(texts.LAST_BACKUP.format(backup=_line(found[0])) if found else texts.NO_BACKUP)
        st.caption(texts.BACKUPS_ABOUT.format(folder=frame.plain(str(layout.backups)), kept=backups.KEPT))
        with st.container(horizontal=True, vertical_alignment="center"):
            frame.button(
                texts.BACK_UP, lambda: backups.make(layout, "asked"), key="back-up", icon=":material/save:",
            )  # fmt: skip
            if found:
                with st.popover(texts.RESTORE, icon=":material/history:"):
                    st.caption(texts.RESTORE_ABOUT)
                    folder = st.text_input(
                        texts.RESTORE_TO, str(recovery.restored_folder(layout)), key=frame.own("restore-to")
                    )
                    frame.button(texts.RESTORE_NOW, lambda: _restored(layout, folder), key="restore-now", type="primary")
            frame.button(
                texts.CHECK,
                lambda: jobs.start(layout, "doctor", {}),
                key="check-project",
                icon=":material/health_and_safety:",
                disabled=job_card.is_busy(layout, "safety"),
            )
        job_card.watch(layout, "safety", body=_findings)


def _line(backup: Backup) -> str:
    return texts.BACKUP.format(
        when=day_and_time(backup.made_at),
        reason=texts.REASONS[backup.reason],
        n=f"{backup.at_event:,}",
        size=size(backup.n_bytes),
    )


def _restored(layout: Layout, folder: str) -> None:
    done = recovery.restore(layout, to=str(projects.with_ending(folder)) if folder else None)
    frame.use(projects.open_project(str(done.layout.folder)))
    st.session_state["restored"] = done.notes


def news() -> None:
    """Draw what a restore did, once, in the project that it made."""
    notes = st.session_state.pop("restored", None)
    if notes:
        st.success(frame.plain(" ".join(notes)))


def _findings(job: JobView) -> None:
    """Draw what the check found; what is in order is counted."""
    rows = job.result.get("findings", ())
    for row in rows:
        if row["level"] in _MARKS:
            st.markdown(f"{_MARKS[row['level']]} {frame.plain(row['words'])} {frame.plain(row['hint'])}".strip())
    if job.state == "done":
        st.caption(texts.in_order(sum(row["level"] == "ok" for row in rows)))
