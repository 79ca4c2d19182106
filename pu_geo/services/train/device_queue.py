"""What the Train screen asks for about the line of jobs that wait for this machine's device, of all projects."""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo import jobs
from pu_geo.jobs import JobView, device_queue
from pu_geo.project.layout import SUFFIX, Layout


@dataclass(frozen=True)
class InLine:
    """One job in the line.

    Attributes:
        project: name of its project's folder.
        is_here: whether that is the project asked for.
    """

    project: str
    is_here: bool
    job: JobView


def line(layout: Layout) -> list[InLine]:
    """Return the jobs that work at this machine's device or wait for it, the one that has its turn first."""
    found = []
    for ticket in device_queue.line():
        job = jobs.of_folder(ticket.folder)
        if job is not None:
            found.append(InLine(ticket.project.name.removesuffix(SUFFIX), ticket.project == layout.folder, job))
    return found
