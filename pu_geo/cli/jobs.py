"""The verb `jobs`: list background jobs, and ask them to stop, to pause and to go on."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pu_geo import jobs
from pu_geo.cli.run import say
from pu_geo.errors import PuGeoError
from pu_geo.project import events
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects


def _cancel(layout: Layout, options: argparse.Namespace) -> None:
    jobs.cancel(layout, options.job_id, wait=True)
    state = jobs.view(jobs.folder_of(layout, options.job_id)).state
    words = "has stopped" if state == "cancelled" else "was asked to stop, and does so as soon as it looks"
    say(options, {"cancelled": options.job_id, "state": state}, f"Job {options.job_id} {words}.")


def _pause(layout: Layout, options: argparse.Namespace) -> None:
    jobs.pause(layout, options.job_id)
    words = f"Job {options.job_id} pauses after this epoch. `pu-geo jobs {options.project} resume {options.job_id}` goes on."
    say(options, {"paused": options.job_id}, words)


def _resume(layout: Layout, options: argparse.Namespace) -> None:
    jobs.resume(layout, options.job_id)
    say(options, {"resumed": options.job_id}, f"Started job {options.job_id} again.")


def _retry(layout: Layout, options: argparse.Namespace) -> None:
    fresh = jobs.retry(layout, options.job_id)
    say(options, {"job_id": fresh}, f"Started job {fresh}, which does the same from the beginning.")


def _dismiss(layout: Layout, options: argparse.Namespace) -> None:
    jobs.dismiss(layout, options.job_id)
    say(options, {"dismissed": options.job_id}, f"Job {options.job_id} is listed with --all alone from now on.")


def _log(layout: Layout, options: argparse.Namespace) -> None:
    folder = jobs.folder_of(layout, options.job_id)
    lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events.read(folder)]
    print("".join(lines) + _printed(folder), end="")


def _printed(folder: Path) -> str:
    log = folder / "log.txt"
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""


def _list(layout: Layout, options: argparse.Namespace) -> None:
    for job in jobs.all_jobs(layout, with_dismissed=options.all):
        if job.is_asked_to == "cancel":
            jobs.end_overdue(jobs.folder_of(layout, job.job_id))
        facts = {key: getattr(job, key) for key in ("job_id", "task", "state", "progress", "message", "problem", "hint")}
        share = "" if job.progress is None else f"{job.progress:.0%}"
        line = f"{job.job_id}  {job.task:14} {job.state:12} {share:>4}  {job.problem or job.message}"
        say(options, {**facts, "result": dict(job.result)}, line)


ACTIONS = {
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "retry": _retry,
    "dismiss": _dismiss,
    "log": _log,
}


def _jobs(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    if options.action is None:
        _list(layout, options)
        return
    if not options.job_id:
        raise PuGeoError(f"`jobs {options.action}` needs the id of a job.", "`pu-geo jobs P.pugeo` lists them.")
    ACTIONS[options.action](layout, options)


COMMANDS = {"jobs": _jobs}
