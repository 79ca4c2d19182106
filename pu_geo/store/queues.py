"""Queues on disk: what each analyst is to answer, and what the next queue has to know of those before.

One state for all analysts of a project, so that no building is shown to two of them; a queue of its own for each.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.store.layout import Layout, read_arrays, read_json, write_arrays, write_json
from pu_geo.store.locks import one_at_a_time

KEPT = 3  # queues of an analyst that are remembered: an answer may arrive after the next one was handed out


@dataclass(frozen=True)
class QueueItem:
    """One building to review; see `analysis.queue.Item`."""

    building_id: str
    kind: Literal["exploit", "explore", "audit"]
    why: str
    inclusion: float | None = None


@dataclass(frozen=True)
class StoredQueue:
    """What one analyst is to answer, in this order. `id` stays where a queue is renewed by newer answers.

    Attributes:
        event: the newest answer that it follows.
        is_second: these are another reader's answers, to be given once more without seeing them.
    """

    chip_set: str
    items: Sequence[QueueItem]
    is_second: bool = False
    event: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(6))


def _folder(layout: Layout) -> Path:
    return layout.path("queues")


def locked(layout: Layout) -> AbstractContextManager[None]:
    """Let one process at a time read the state and write the next one."""
    return one_at_a_time(_folder(layout) / "lock")


def load_state(layout: Layout, chip_set: str) -> dict[str, NDArray[Any]]:
    """Return the arrays that `save_state` wrote for a chip set; none if there are none."""
    path = _folder(layout) / f"{chip_set}.npz"
    return read_arrays(path) if path.is_file() else {}


def save_state(layout: Layout, chip_set: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the state; whoever reads it sees the old one or the new one."""
    write_arrays(_folder(layout) / f"{chip_set}.npz", arrays)


def load_queues(layout: Layout, analyst: str) -> list[StoredQueue]:
    """Return the newest queues of an analyst, newest first."""
    path = _path_of(layout, analyst)
    found = read_json(path) if path.is_file() else []
    return [StoredQueue(**{**one, "items": [QueueItem(**item) for item in one["items"]]}) for one in found]


def all_queued(layout: Layout, chip_set: str) -> set[str]:
    """Return the buildings in the newest queue of each analyst, as far as it can be read and is of a chip set."""
    found: set[str] = set()
    for path in _folder(layout).glob("*.json"):
        with suppress(ProjectError, OSError, LookupError, TypeError):  # its analyst gets the error; the others go on
            newest = read_json(path)[0]
            if newest["chip_set"] == chip_set:
                found |= {item["building_id"] for item in newest["items"]}
    return found


def save_queue(layout: Layout, analyst: str, queue: StoredQueue) -> None:
    """Store a queue before those that an analyst had, in the place of one with its id."""
    others = (one for one in load_queues(layout, analyst) if one.id != queue.id)
    write_json(_path_of(layout, analyst), [asdict(one) for one in (queue, *others)][:KEPT])


def _path_of(layout: Layout, analyst: str) -> Path:
    return _folder(layout) / f"{hashlib.sha256(analyst.encode()).hexdigest()[:16]}.json"
