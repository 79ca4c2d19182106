"""Do a job in this process, for the command line and for `Project`: with its folder, lock and events, like any other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pu_geo.errors import JobCancelled, stops_as_interrupts
from pu_geo.jobs import tasks
from pu_geo.jobs.actions import Action
from pu_geo.jobs.control import JOB_VARIABLE
from pu_geo.jobs.start import create_held, spec_of, take_lock
from pu_geo.jobs.status import write_spec
from pu_geo.store import events, store
from pu_geo.store.layout import Layout


def run(
    layout: Layout, task: str | Action, args: Mapping[str, Any] | None = None, *, echo: Callable[[str], None] | None = None,
    is_guest: bool = False, named: Callable[[str], None] = lambda job_id: None,
) -> Mapping[str, Any]:  # fmt: skip
    """Do an action, or a task by its name, as a job of this process; return what it returned.

    In a project that may not be changed, a task that only reads has its folder in a temporary place.

    An interrupt of the process cancels the job: Ctrl+C, and unless the process is a guest SIGTERM and a closed terminal too.

    Args:
        echo: gets each report in words; `share_of` reads how far it is.
        is_guest: the process does more than this job, as a notebook does: whoever cancels the job must never end it.
        named: called with the job's id where it was interrupted.

    Raises:
        JobError: if it cannot start, see `create_held`.
        PuGeoError, JobCancelled, KeyboardInterrupt: see `worker.run`.
    """
    from pu_geo.jobs import worker

    with _held(layout, task, args) as (folder, lock):
        try:
            os.environ[JOB_VARIABLE] = str(folder)  # processes that this one starts are known by it
            events.append(folder, "launched")
            with nullcontext() if is_guest else stops_as_interrupts():
                return worker.run(folder, layout, echo=echo, is_guest=is_guest)
        except (JobCancelled, KeyboardInterrupt):
            named(folder.name)
            raise
        finally:
            os.environ.pop(JOB_VARIABLE, None)
            os.close(lock)


@contextmanager
def _held(
    layout: Layout, task: str | Action, args: Mapping[str, Any] | None
) -> Iterator[tuple[Path, int]]:  # fmt: skip
    """Yield the folder of a new job and the file descriptor of its lock, which is to be closed."""
    name, args = spec_of(layout, task, args)
    if not tasks.of(name).only_reads or store.is_writable(layout):
        yield create_held(layout, name, args)
        return
    with tempfile.TemporaryDirectory(prefix="pu-geo-job-") as place:
        write_spec(Path(place), name, args, layout.folder.name)
        yield Path(place), take_lock(Path(place))


def share_of(report: str) -> int | None:
    """Return the percentage in a report; None for one without.

    >>> share_of(" 45%  cutting chips")
    45
    """
    share = report.partition("%")[0].strip()
    return int(share) if share.isdigit() else None
