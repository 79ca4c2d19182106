"""How long trainings took on this machine, by method and preset: one small file beside the user's list of projects."""

from __future__ import annotations

import json
import math
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pu_geo import wording
from pu_geo.store.layout import home, write_json

_MOST_KEPT = 500
_NAMES = {"machine", "method", "preset", "n_chips", "seconds"}
_ALIKE = 1.25  # trainings whose numbers of chips differ by no more than this factor are of one size


@dataclass(frozen=True)
class PastTraining:
    """A training that ended well on this machine, with the settings of its preset."""

    n_chips: int
    seconds: float

    @property
    def words(self) -> str:
        return f"{wording.duration(self.seconds)} for {self.n_chips:,} chips"


def times_file() -> Path:
    return home() / "training_times.json"


def remember(method: str, preset: str, n_chips: int, seconds: float) -> None:
    """Keep how long a training by a preset took from its start to its stored run."""
    row = {"machine": machine(), "method": method, "preset": preset, "n_chips": n_chips, "seconds": seconds}
    with suppress(OSError):  # a run is not lost for want of this
        write_json(times_file(), [*_rows(), row][-_MOST_KEPT:])


def machine() -> str:
    """Return the name of this machine; several may share a home."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


def past(method: str, preset: str) -> list[PastTraining]:
    """Return the trainings by a preset that ended on this machine, oldest first."""
    wanted = machine(), method, preset
    return [
        PastTraining(int(row["n_chips"]), float(row["seconds"]))
        for row in _rows()
        if (row["machine"], row["method"], row["preset"]) == wanted
    ]


def _rows() -> list[dict[str, Any]]:
    """Read the file; none where it is none of ours."""
    try:
        found: list[dict[str, Any]] = json.loads(times_file().read_text(encoding="utf-8"))
        is_ours = all(row.keys() >= _NAMES and row["n_chips"] > 0 and 0 < row["seconds"] < math.inf for row in found)
    except (OSError, ValueError, TypeError, AttributeError):
        return []
    return found if is_ours else []


def expected_seconds(method: str, preset: str, n_chips: int) -> tuple[float, float] | None:
    """Return the shortest and the longest time that past trainings let expect; None without any.

    Those nearest in size count. A time grows with the number of chips, and no faster: steps are bounded in many presets, and
    some of it is a start. So a past training bounds it by its own time and by that time in proportion.
    """
    known = past(method, preset)
    if not known or n_chips < 1:
        return None
    factors = [max(one.n_chips, n_chips) / min(one.n_chips, n_chips) for one in known]
    nearest = [one for one, factor in zip(known, factors, strict=True) if factor <= min(factors) * _ALIKE]
    bounds = [one.seconds * factor for one in nearest for factor in (1.0, n_chips / one.n_chips)]
    return min(bounds), max(bounds)
