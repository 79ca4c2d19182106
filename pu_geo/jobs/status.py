"""How a job stands: never stored, but worked out from its events, its lock, and what it was asked.

The starter of a job takes the lock on `alive.lock` and hands it to the worker, open; so there is no moment at which a
starting worker could be taken for a dead one, and the kernel frees it however the worker ends.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pu_geo.errors import JobError, ProjectError
from pu_geo.files import checked, signature
from pu_geo.store import events
from pu_geo.store.layout import Layout, checked_id, read_json, reading, write_json
from pu_geo.store.locks import JOB_LOCK, is_held

State = Literal["waiting", "running", "done", "failed", "cancelled", "paused", "interrupted"]
ACTIVE = ("waiting", "running")
SPEC = "spec.json"
LOCK, CANCEL, PAUSE, DISMISSED = JOB_LOCK, "cancel", "pause", "dismissed"
"""Files in a job's folder: its lock, and what a person asked of it."""
_ENDS: dict[str, State] = {"done": "done", "failed": "failed", "cancelled": "cancelled", "paused": "paused"}
UNREADABLE = "unreadable"  # in the place of a task
STARTING_PYTHON = "starting Python"
_LOG_LINES, _LOG_BYTES = 200, 1 << 16
_MOST_ENDED = 2000
_ended: dict[Path, tuple[tuple[int, int, int], JobView]] = {}  # job's folder -> how its log was, and its view, of ended ones
_ended_lock = threading.Lock()


@dataclass(frozen=True)
class JobView:
    """What is known about a job right now.

    Attributes:
        state: "waiting" is for the device; "interrupted" means that its worker is gone and left no reason.
        progress: share done, 0..1, or None before the first report.
        curve: the reports of a training, oldest first: {"epoch", "loss", ...}.
        result: what the task returned, once done.
        problem, hint: why it failed.
        seconds, seconds_left: that it has worked since it was started, and will by its pace; None where nobody can know.
        ended_at, took_s: when it ended, RFC 3339, and the seconds from its start to there; "" and None where nobody noted
            it.
        is_asked_to: what a person asked of it that it has not done yet.
    """

    job_id: str
    task: str
    args: Mapping[str, Any]
    state: State
    progress: float | None
    message: str
    curve: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    hint: str = ""
    seconds: float | None = None
    seconds_left: float | None = None
    is_asked_to: Literal["cancel", "pause"] | None = None
    ended_at: str = ""
    took_s: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether a worker is alive for it."""
        return self.state in ACTIVE


def is_alive(folder: Path) -> bool:
    """Return whether a worker holds the lock of a job."""
    return is_held(folder / LOCK)


def view(folder: Path) -> JobView:
    """Work out how a job stands. Of one that has ended this is done once: until its log grows, nothing of it changes."""
    stamp = _stamp(folder)
    with _ended_lock:
        known = _ended.get(folder)
    if known is not None and known[0] == stamp:
        return known[1]
    found = _worked_out(folder)
    if stamp is not None and found.state in _ENDS.values() and found.ended_at and not is_alive(folder):
        with _ended_lock:
            _ended.pop(folder, None)
            _ended[folder] = (stamp, found)
            while len(_ended) > _MOST_ENDED:
                del _ended[next(iter(_ended))]
    return found


def _stamp(folder: Path) -> tuple[int, int, int] | None:
    """Return what changes with each event of a job, and where another file takes its log's place."""
    try:
        facts = (folder / events.FILE_NAME).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _worked_out(folder: Path) -> JobView:
    alive = is_alive(folder)  # before the log is read: a worker logs its end first and frees the lock then
    try:
        spec = read_json(folder / SPEC)
        task, args = str(spec["task"]), dict(spec["args"])
    except (ProjectError, TypeError, KeyError, ValueError):
        words, hint = (
            "What this job was asked to do cannot be read: its spec.json is damaged.",
            "Dismiss it, and start it anew.",
        )
        return JobView(folder.name, UNREADABLE, {}, "running" if alive else "failed", None, "", problem=words, hint=hint)
    log = events.read(folder)
    first = max((i for i, event in enumerate(log) if event["event"] == "launched"), default=0)
    current: list[dict[str, Any]] = log[first:]
    end: Mapping[str, Any] = next((event for event in current if event["event"] in _ENDS), {})
    is_cancelled = (folder / CANCEL).exists()
    state = _state(alive, current, end, is_cancelled)
    kinds = (
        ("progress", "stage", "waiting", "turn") if state in ACTIVE else ("progress",)
    )  # while it works, since it got the device
    reports = [event for event in (current if state in ACTIVE else log) if event["event"] in kinds]
    last: Mapping[str, Any] = reports[-1] if reports and reports[-1]["event"] != "turn" else {}
    asked: Literal["pause"] | None = "pause" if (folder / PAUSE).exists() else None
    seconds, seconds_left = _times(log, current, state)
    return JobView(
        job_id=folder.name,
        task=task,
        args=args,
        state=state,
        progress=1.0 if state == "done" else last.get("share"),
        message=str(last.get("message", _first_stage(current) if alive else "")),
        curve=tuple(events.curve(log)),  # over all launches: one that goes on does not report what is done
        result=end.get("result", {}),
        problem=str(end.get("problem", "")),
        hint=str(end.get("hint", "")),
        seconds=seconds,
        seconds_left=seconds_left,
        is_asked_to=None if state not in ACTIVE else "cancel" if is_cancelled else asked,
        ended_at=str(end.get("at", "")),
        took_s=end.get("seconds"),
    )


def _first_stage(current: Sequence[Mapping[str, Any]]) -> str:
    """Return what a worker that has reported nothing yet is doing."""
    return "starting" if any(event["event"] == "started" for event in current) else STARTING_PYTHON


def _state(alive: bool, current: Sequence[Mapping[str, Any]], end: Mapping[str, Any], is_cancelled: bool) -> State:
    if end:
        return _ENDS[end["event"]]
    if not alive:
        return "cancelled" if is_cancelled else "interrupted"
    queued = [event["event"] for event in current if event["event"] in ("waiting", "turn")]
    return "waiting" if queued and queued[-1] == "waiting" else "running"


def _times(
    log: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]], state: State
) -> tuple[float | None, float | None]:
    """Return the seconds that a running job has worked since it got the device, and those left by its pace since then."""
    turn = next((event for event in current if event["event"] == "turn"), current[0] if current else None)
    if state != "running" or turn is None:
        return None, None
    now = datetime.now(UTC)
    seconds, left = (now - datetime.fromisoformat(turn["at"])).total_seconds(), None
    epochs = _epochs(log, current)
    points = epochs or [(event["at"], event["share"]) for event in current if event["event"] == "progress"]
    if points:
        (begun, first), (newest, last) = (
            (datetime.fromisoformat(at), float(share)) for at, share in (points[0], points[-1])
        )
        if (gained := last - first) > (0 if epochs else 0.02):
            pace = (newest - begun).total_seconds() / gained  # one that goes on did not do its first part now
            left = max(pace * (1 - last) - (now - newest).total_seconds(), 0.0)
    return seconds, left


def _epochs(log: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return when and how far a training began this time, 0..1, and the same after each epoch since; [] before the first."""
    places = [place for place, event in enumerate(current) if event["event"] == "epoch" and "progress" in event]
    if not places or not places[0]:
        return []
    first = current[places[0]]["progress"]
    before = [event.get("progress", 0) for event in log[: len(log) - len(current)] if event["event"] == "epoch"]
    done = max((share for share in before if share < first), default=0.0)
    return [(current[places[0] - 1]["at"], done), *((current[place]["at"], current[place]["progress"]) for place in places)]


def write_spec(folder: Path, task: str, args: Mapping[str, Any], project: str) -> None:
    """Write what a job is asked to do, signed, so that no other installation's job is ever started; see `signed_spec`."""
    asked = json.loads(json.dumps(dict(args)))
    write_json(folder / SPEC, {"task": task, "args": asked, "project": project, "signed": _signed(folder, task, asked)})


def signed_spec(folder: Path) -> dict[str, Any]:
    """Return what this installation asked a job to do.

    Raises:
        JobError: of kind "elsewhere" if another one did.
        ProjectError: if it cannot be read.
    """
    spec: dict[str, Any] = read_json(folder / SPEC)
    with reading(folder / SPEC):
        is_ours = hmac.compare_digest(str(spec.get("signed")), _signed(folder, str(spec["task"]), spec["args"]))
    if not is_ours:
        raise JobError(
            f"Job {folder.name} was not started by this installation of PU-Geo, so it is not started again.",
            "Start a new one from its screen or by its command; this one can be dismissed.",
            kind="elsewhere",
        )
    return spec


def _signed(folder: Path, task: str, args: object) -> str:
    return signature("job", folder.name, task, json.dumps(args, sort_keys=True))


def folder_of(layout: Layout, job_id: str) -> Path:
    """Return a job's folder. Raises JobError if there is no such job."""
    folder = layout.jobs / checked_id(job_id)
    if not (folder / SPEC).is_file():
        raise JobError(f"This project has no job {job_id!r}.", "`pu-geo jobs` lists them.")
    return folder


def all_jobs(layout: Layout, *, with_dismissed: bool = False) -> list[JobView]:
    """Return the jobs of a project, newest first; those that a person dismissed on request alone."""
    if not layout.jobs.is_dir():
        return []
    found = []
    for folder in sorted(layout.jobs.iterdir(), reverse=True):
        if (folder / SPEC).exists() and (with_dismissed or not (folder / DISMISSED).exists()):
            found.append(view(folder))
    return found


def event_lines(folder: Path) -> list[str]:
    """Return the last events of a job in words, a line each, oldest first."""
    lines = []
    for event in events.read(folder)[-_LOG_LINES:]:
        facts = [
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in event.items()
            if name not in ("at", "event") and value not in (None, "", [], {})
        ]
        lines.append(f"{str(event.get('at', ''))[11:19]}  {event.get('event')}{': ' if facts else ''}{', '.join(facts)}")
    return lines


def worker_log(folder: Path) -> str:
    """Return the end of what a worker and its libraries printed, tracebacks included."""
    try:
        with checked(folder / "log.txt").open("rb") as stream:
            stream.seek(max(stream.seek(0, 2) - _LOG_BYTES, 0))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
