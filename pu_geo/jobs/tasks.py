"""What there is to know of each task before its code is imported: what does it, what people call it, what it needs and what
it changes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One kind of job.

    Attributes:
        work: module and function that do it, "package.module:function".
        title: what people call a job of it.
        screen: where it is started and its result shown.
        panel: the part of that screen that shows its progress.
        is_exclusive: it changes what the project is made of; one such job runs at a time.
        needs_torch: its import loads torch, which takes some seconds: a stage of its own for whoever waits.
        needs_device: it uses the device for long, so it waits in the line of this machine.
        can_pause: it keeps its state on the disk and goes on from there.
        only_reads: it writes nothing into the project.
    """

    work: str
    title: str
    screen: str = "imagery"
    panel: str = ""
    is_exclusive: bool = False
    needs_torch: bool = False
    needs_device: bool = False
    can_pause: bool = False
    only_reads: bool = False

    @property
    def name(self) -> str:
        """What jobs call it: the name of the function that does it."""
        return self.work.partition(":")[2]


UNKNOWN = Task("", "")
DOMAINS = ("runs", "scenes", "explore", "maps", "lifecycle", "federation")
"""Whose `actions.py` declare tasks; trainings first, which a bare machine with a GPU knows without the others."""
TASKS: dict[str, Task] = {}
"""Those that were declared by what is imported."""


def declare(*found: Task) -> None:
    """Make tasks known by their names."""
    TASKS.update((one.name, one) for one in found)


def of(name: str) -> Task:
    """Return a task; `UNKNOWN` for one that another version of PU-Geo wrote."""
    return every(name).get(name, UNKNOWN)


def every(until: str = "") -> Mapping[str, Task]:
    """Return all tasks by their names; actions are imported for it, as far as the task `until`."""
    for domain in DOMAINS:
        if until not in TASKS:
            importlib.import_module(f"pu_geo.{domain}.actions")
    return TASKS
