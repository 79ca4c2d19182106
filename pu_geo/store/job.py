"""What a task is handed by the worker: its project, someone to report to, and a way to hear that it should stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pu_geo.errors import JobCancelled
from pu_geo.store import events
from pu_geo.store.layout import Layout

_SECONDS_BETWEEN_REPORTS = 0.2


@dataclass
class Job:
    """One execution of a task.

    Attributes:
        layout: the project's files.
        folder: the job's own folder.
        echo: also gets every report, as words; the command line prints them.
        waits: what was reported last of whom it waits for.
        then: tasks and their arguments that a worker in the background starts once this job is done.
    """

    layout: Layout
    folder: Path
    echo: Callable[[str], None] | None = None
    waits: Mapping[str, object] = field(default_factory=dict)
    then: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    _last_report: float = field(default=0.0, repr=False)

    def report(self, share: float, message: str, *, is_news: bool = False) -> None:
        """Report how far the task is: `share` 0..1, `message` in words. Cheap: most calls write nothing, unless it is
        news.
        """
        due = is_news or time.monotonic() - self._last_report > _SECONDS_BETWEEN_REPORTS
        if due or share >= 1:
            self._last_report = time.monotonic()
            events.append(self.folder, "progress", {"share": round(share, 4), "message": message})
            if self.echo:
                self.echo(f"{share:4.0%}  {message}")

    def part(self, start: float, end: float, message: str) -> Callable[[Mapping[str, object]], None]:
        """Return a reporter for one part of the task, `start`..`end` of the whole; it takes {"done", "total"}."""

        def report(values: Mapping[str, object]) -> None:
            share = float(str(values["done"])) / max(float(str(values["total"])), 1.0)
            self.report(start + (end - start) * share, message)

        return report

    def epoch(self, values: Mapping[str, object]) -> None:
        """Record one point of the training curves."""
        events.append(self.folder, "epoch", values)

    def is_cancelled(self) -> bool:
        return (self.folder / "cancel").exists()

    def stop_if_cancelled(self) -> None:
        """Raise JobCancelled once the user asked to stop."""
        if self.is_cancelled():
            raise JobCancelled

    def is_paused(self) -> bool:
        """Return whether it should keep its state and stop where it can go on from."""
        return (self.folder / "pause").exists()


class Part(Job):
    """A job that is a part of another: its 0..1 is `start`..`end` of the whole."""

    def __init__(self, whole: Job, start: float, end: float) -> None:
        super().__init__(whole.layout, whole.folder, whole.echo, then=whole.then)
        self._whole, self._start, self._end = whole, start, end

    def report(self, share: float, message: str, *, is_news: bool = False) -> None:
        self._whole.report(self._start + (self._end - self._start) * min(share, 0.999), message, is_news=is_news)
