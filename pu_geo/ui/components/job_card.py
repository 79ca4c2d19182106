"""Background jobs on a screen: progress where it was started, a line once it is done, and a note when one ends elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlencode, urlsplit

import streamlit as st

from pu_geo import jobs, wording
from pu_geo.jobs import JobView, tasks
from pu_geo.lifecycle import projects
from pu_geo.methods import catalog
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import texts
from pu_geo.ui.frame import chosen_analyst, plain
from pu_geo.ui.routes import PREFIX

COLORS = {
    "waiting": "violet", "running": "blue", "done": "green", "failed": "red", "cancelled": "gray", "paused": "violet",
    "interrupted": "orange",
}  # fmt: skip
_ICONS = {"running": ":material/monitoring:", "done": ":material/check_circle:", "failed": ":material/error:"}
_SECONDS_BETWEEN_READS = 1.0
_SECONDS_BETWEEN_NEWS = 2.0
_MOST_TO_GO_ON = 10


def watch(
    layout: Layout,
    panel: str,
    *,
    only: Callable[[JobView], bool] = lambda job: True,
    body: Callable[[JobView], None] | None = None,
    most: int = 1,
) -> bool:
    """Draw the active jobs of some kinds and the newest others, refreshed while one is active. Call it where they are
    started.

    Args:
        panel: the one of the tasks whose jobs are drawn; "" for all.
        only: leaves out the jobs for which it is false.
        body: draws more of a job, such as where its result is.
        most: how many are shown; more where more are active, or can be resumed.

    Returns:
        whether one is active. When one ends, the whole page is drawn anew.
    """
    found = [job for job in jobs.all_jobs(layout) if panel in ("", tasks.of(job.task).panel) and only(job)]
    active = [job for job in found if job.is_active]
    shown = sorted(active, key=lambda job: (job.state == "waiting", job.job_id)) + _ended(found, most, len(active))
    _refreshed(layout, shown, lambda job: card(layout, job, body))
    return bool(active)


def details(layout: Layout, panel: str, *, body: Callable[[JobView], None], most: int) -> None:
    """Draw what is known of jobs whose progress stands elsewhere: a line each, with body and log in it, open while active.

    Args:
        most: how many are shown; more where more are active, or can be resumed.
    """
    found = [job for job in jobs.all_jobs(layout) if tasks.of(job.task).panel == panel]
    active = [job for job in found if job.is_active and job.state != "waiting"]
    ended = _ended(found, most, len(active))

    def fold(job: JobView) -> None:
        with st.expander(_line(job), expanded=job.is_active, icon=_ICONS.get(job.state, ":material/history:")):
            body(job)
            _draw_log(layout, job)

    _refreshed(layout, active + ended, fold)


def _refreshed(layout: Layout, shown: Sequence[JobView], draw: Callable[[JobView], None]) -> None:
    """Draw jobs as they are, again and again while one is active; once one has ended, the whole page."""
    n_before = sum(job.is_active for job in shown)

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if n_before else None)
    def cards() -> None:
        n_active = 0
        for known in shown:
            job = jobs.view(jobs.folder_of(layout, known.job_id))
            if job.is_asked_to == "cancel":
                jobs.end_overdue(jobs.folder_of(layout, job.job_id))
            n_active += job.is_active
            draw(job)
        if n_active < n_before:
            st.rerun()

    if shown:
        cards()


def _ended(found: Sequence[JobView], most: int, n_active: int) -> list[JobView]:
    """Choose the newest of those that have ended; a training that can be resumed is shown until somebody dismisses it."""
    ended = [job for job in found if not job.is_active]
    can_go_on = [job for job in ended if tasks.of(job.task).can_pause and job.state != "done"][:_MOST_TO_GO_ON]
    newest = [job for job in ended if job not in can_go_on][: max(most - n_active, 0)]
    return sorted([*can_go_on, *newest], key=lambda job: job.job_id, reverse=True)


def card(layout: Layout, job: JobView, body: Callable[[JobView], None] | None = None) -> None:
    """Draw one job: a card, or a line once it is done."""
    if job.state == "done":
        st.markdown(f":green[:material/check_circle:] {_line(job)}", help=texts.JOB_ID.format(job_id=job.job_id))
        if body is not None:
            body(job)
        return
    with st.container(border=True, gap="small"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            badge = f" :{COLORS[job.state]}-badge[{texts.STATES[job.state]}]"
            st.markdown(f"**{title(job)}**{badge}", help=texts.JOB_ID.format(job_id=job.job_id), width="content")
            _draw_buttons(layout, job)
        if job.state == "waiting":
            st.caption(_progress_words(job))
        elif job.is_active:
            st.progress(min(job.progress or 0.0, 1.0), text=_progress_words(job))
        else:
            _draw_end(job)
        if job.state != "waiting" and body is not None:
            body(job)


def _line(job: JobView) -> str:
    """Return how a job stands, in a line."""
    if job.is_active:
        return title(job)
    time = texts.IN.format(time=wording.duration(job.took_s)) if job.state == "done" and job.took_s is not None else ""
    at = f" · {wording.day_and_time(job.ended_at)}" if job.ended_at else ""
    return f"{title(job)}: {texts.STATES[job.state]}{time}{at}"


def title(job: JobView) -> str:
    """Name a job by what it does."""
    words, method, preset = tasks.of(job.task).title or job.task, job.args.get("method"), job.args.get("preset")
    if name := job.args.get("class_name"):
        return f"{words} {plain(str(name))}"
    return f"{words} {catalog.name_within(method)}" + (f", {preset}" if preset else "") if method else words


def _draw_buttons(layout: Layout, job: JobView) -> None:
    """Draw what can be asked of a job as it stands."""
    if job.is_active:
        if tasks.of(job.task).can_pause:
            _button(layout, job, "pause", texts.PAUSE, "pause", jobs.pause, texts.PAUSE_HELP)
        _button(layout, job, "cancel", texts.CANCEL, "stop_circle", jobs.cancel)
        return
    is_begun = bool(_epochs_done(job))
    again = texts.RESUME if is_begun or job.state == "paused" else texts.START_AGAIN
    _button(layout, job, "resume", again, "play_arrow", jobs.resume)
    _button(layout, job, "dismiss", texts.DISMISS, "close", jobs.dismiss, texts.DISMISS_HELP)
    if is_begun:
        _button(layout, job, "start-over", texts.START_OVER, "restart_alt", jobs.retry, texts.START_OVER_HELP)


def _button(
    layout: Layout, job: JobView, name: str, label: str, icon: str, act: Callable[[Layout, str], object],
    help: str | None = None,
) -> None:  # fmt: skip
    is_asked = job.is_asked_to is not None and (name == "pause" or job.is_asked_to == "cancel")
    frame.press(
        label,
        lambda: act(layout, job.job_id),
        key=f"{name}-{job.job_id}",
        icon=f":material/{icon}:",
        help=help,
        disabled=is_asked,
    )


def _epochs_done(job: JobView) -> int:
    return int(job.curve[-1]["epoch"]) if tasks.of(job.task).can_pause and job.curve else 0


def _draw_end(job: JobView) -> None:
    if job.state == "failed":
        st.error(f"{plain(job.problem)}\n\n{plain(job.hint)}")
    if job.state == "interrupted":
        st.warning(texts.INTERRUPTED)
    if done := _epochs_done(job):
        stage = job.curve[-1].get("stage", "training")
        st.caption(texts.EPOCHS_DONE.format(epochs=wording.plural(done, "epoch"), stage=stage))


def _progress_words(job: JobView) -> str:
    if job.is_asked_to == "cancel":
        return texts.STOPPING
    parts = [plain(job.message), texts.PAUSES if job.is_asked_to == "pause" else ""]
    if job.seconds is not None:
        parts.append(texts.SO_FAR.format(time=wording.duration(job.seconds)))
    if job.seconds_left is not None and job.seconds_left >= 1:
        parts.append(texts.LEFT.format(time=wording.duration(job.seconds_left)))
    return " · ".join(text for text in parts if text)


def _draw_log(layout: Layout, job: JobView) -> None:
    folder = jobs.folder_of(layout, job.job_id)
    with st.popover(texts.LOG, icon=":material/article:", key=f"open-log-{job.job_id}"):
        st.code("\n".join(jobs.event_lines(folder)[::-1]) or texts.NO_LOG, language=None, height=220, width=700)
        st.caption(texts.LOG_CAPTION.format(job_id=job.job_id))
        address = f"{PREFIX}/{projects.token_of(layout)}/jobs/{job.job_id}.log"
        st.link_button(texts.WHOLE_LOG, address, key=f"log-{job.job_id}", icon=":material/download:")


def run_caption(layout: Layout, job: JobView) -> None:
    """Draw which run a job made."""
    if job.state == "done":
        st.caption(texts.RUN_MADE.format(name=plain(run_names.name(layout, str(job.result["run_id"])))))


def notes(job: JobView) -> None:
    """Draw what a job left out or chose, once it is done."""
    if job.state == "done":
        for note in job.result.get("notes", ()):
            frame.caption(str(note))


def is_busy(layout: Layout, panel: str) -> bool:
    """Return whether a job of some kinds is active: for a button that starts one, above its progress."""
    return any(job.is_active for job in jobs.all_jobs(layout) if tasks.of(job.task).panel == panel)


def watch_unless_done(layout: Layout, panel: str) -> bool:
    """Draw the card of a job whose result is shown elsewhere, unless it ended well; return whether one is active."""
    newest = next((job for job in jobs.all_jobs(layout) if tasks.of(job.task).panel == panel), None)
    return newest is not None and newest.state != "done" and watch(layout, panel)


# News from other screens


def announce(layout: Layout) -> None:
    """Toast each job that ended since this session last checked, once, with a link to its screen; none of the open screen.

    Draw it in the frame, where it stays while pages change.
    """

    @st.fragment(run_every=_SECONDS_BETWEEN_NEWS)
    def news() -> None:
        for job in _newly_ended(layout):
            screen = tasks.of(job.task).screen
            if screen == _open_screen():
                continue
            words = texts.ENDED[job.state].format(title=title(job))
            link = texts.OPEN.format(screen=texts.SCREENS[screen])
            known = {"project": projects.token_of(layout), "analyst": chosen_analyst()}
            address = (
                f"/{'' if screen == 'project' else screen}?{urlencode({key: name for key, name in known.items() if name})}"
            )
            icon = ":material/check_circle:" if job.state == "done" else ":material/error:"
            st.toast(f"{words} [{link}]({address})", icon=icon, duration="long")

    news()


def _newly_ended(layout: Layout) -> list[JobView]:
    """Return the jobs that have ended since the last call of this session, oldest first; none at the first call."""
    key = f"ended-jobs:{layout.folder}"
    known: set[str] | None = st.session_state.get(key)
    folders = {path.parent.name: path.parent for path in sorted(layout.jobs.glob("*/spec.json"))}
    ended = {name for name in known or () if name in folders and not jobs.is_alive(folders[name])}  # the rest was resumed
    views = [jobs.view(folder) for name, folder in folders.items() if name not in ended]
    new = [job for job in views if not job.is_active]
    st.session_state[key] = ended | {job.job_id for job in new}
    return [] if known is None else new


def _open_screen() -> str:
    """Return the screen that this session has open, by the page's address; "" where there is none."""
    path = urlsplit(st.context.url or "").path.strip("/")
    return "project" if st.context.url and not path else path.rpartition("/")[2]
