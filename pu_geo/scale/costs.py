"""What steps cost, as `benchmarks/costs.py` measured and fitted it: seconds, bytes and memory by the size of a project.

The table is `costs.json` beside this file. A cost is a sum of few terms, a coefficient times a unit: so many seconds a
footprint. Nothing here is a guess; what was not measured has no entry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("costs.json")
CHIP_VIEWS = 17
"""Views of features where nobody names a number. `features.bank.N_VIEWS` is the same, and loads torch; a test compares them."""
MOST_SAMPLED = 2000
"""Chips that filters are drawn from, at most: `RcfSettings.n_chips`; a test compares them."""
UNITS: Mapping[str, str] = {
    "start": "once",
    "workers": "a worker",
    "cluster": "once, where workers compute: of the job's process, which holds the scheduler of Dask",
    "megapixels": "a megapixel of scenes, pre and post counted each",
    "root_megapixels": "a square root of these megapixels: a strip across the scenes grows with it",
    "footprints": "a footprint",
    "view_footprints": "a footprint and view",
    "augmented_footprints": "a footprint and view after the first, which alone is not augmented",
    "chip_megapixels": "a megapixel of chips",
    "sampled_megapixels": "a megapixel of the chips that filters are drawn from",
    "view_megapixels": "a megapixel of chips in all views",
    "epoch_footprints": "a footprint and epoch",
    "epoch_megapixels": "a megapixel of chips and epoch",
}


@dataclass(frozen=True)
class Work:
    """How large a project is.

    Attributes:
        footprints: buildings or cells, N.
        megapixels: of all scenes, of both dates, in 1e6 pixels.
        size_px: side of a chip.
        chip_views: of the features that come with chips.
        n_views: of a second set of features.
        n_banks: of filters of that set; the maker "layers" has several.
    """

    footprints: int
    megapixels: float
    size_px: int = 64
    chip_views: int = CHIP_VIEWS
    n_views: int = CHIP_VIEWS
    n_banks: int = 1


@dataclass(frozen=True)
class Cost:
    """What a step costs.

    Attributes:
        driver_s: seconds of the job's own process, one thread.
        workers_s: seconds that all workers compute together; 0 where they have no part.
        seconds: on the clock, if nobody else computes there.
        kept_bytes: that stay in the project.
        shard_bytes: that workers write meanwhile, until the step ends; as many as stay.
        memory_mb: largest of the job's process, without pages of mapped files.
        worker_mb: largest of a worker; 0 where they have no part.
    """

    driver_s: float
    workers_s: float
    seconds: float
    kept_bytes: float
    shard_bytes: float
    memory_mb: float
    worker_mb: float

    @property
    def processor_s(self) -> float:
        """Processor time of all processes, seconds."""
        return self.driver_s + self.workers_s


class Table:
    """The coefficients.

    Args:
        facts: {"measured_at", "machine": {"processor", "cores", "memory_gb", "torch", "python"}, "footprints": sizes it was fitted
            to, "held_out": the size it was checked on, "efficiency_of_2", "known_piece_s": see `tasks.project.speed`,
            "steps": {step: {"alone_s", "driver_s", "workers_s", "kept_bytes", "memory_mb": each {unit: coefficient},
            "worker_mb": number, "fitted_to": footprints}}}
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts

    @classmethod
    def shipped(cls) -> Table:
        """Return the one that comes with PU-Geo."""
        return cls(json.loads(TABLE.read_text(encoding="utf-8")))

    def has(self, step: str) -> bool:
        return step in self.facts["steps"]

    def fitted_to(self, step: str) -> int:
        """Return the most footprints that a step was fitted to: beyond them its cost is an extrapolation."""
        return int(self.facts["steps"][step]["fitted_to"])

    def cost(self, step: str, units: Mapping[str, float], workers: int = 0, *, speed: float = 1.0) -> Cost:
        """Return what a step costs.

        On the clock, what workers compute is shared evenly among them. Their efficiency was measured for two; that many more are as good is
        an assumption. The job's own seconds are added, though some of them pass while workers compute.

        Args:
            step: one that the table has.
            units: as the function of that name returns them.
            workers: of a cluster, of one thread each; 0 for one process, and for steps that take no cluster.
            speed: how many times as fast as the measured machine this one is.
        """
        found = self.facts["steps"][step]
        kept = _sum(found["kept_bytes"], units)
        if not workers or not found["workers_s"]:
            alone = _sum(found["alone_s"], units) / speed
            return Cost(alone, 0.0, alone, kept, 0.0, _sum(found["memory_mb"], units), 0.0)
        start = found["workers_s"].get("workers", 0.0) / speed
        driver, shared = _sum(found["driver_s"], units) / speed, _sum(found["workers_s"], units) / speed
        clock = driver + start + shared / workers / (self.facts["efficiency_of_2"] if workers > 1 else 1.0)
        memory = _sum(found["memory_mb"], {**units, "cluster": 1.0})
        return Cost(driver, shared + start * workers, clock, kept, kept, memory, float(found["worker_mb"]))


def units(work: Work, step: str, *, epochs: float = 0.0) -> dict[str, float]:
    """Return how many units a step has in a project, see `UNITS`.

    Args:
        epochs: of a training.

    Example:
        >>> units(Work(1000, 8.0), "chip")["view_megapixels"]
        69.632
    """
    n, chip_megapixels = work.footprints, work.footprints * work.size_px**2 / 1e6
    n_views, n_banks = (work.chip_views, 1) if step == "chip" else (work.n_views, work.n_banks)
    views = float(n_views * n_banks)
    return {
        "start": 1.0, "megapixels": work.megapixels, "root_megapixels": math.sqrt(work.megapixels), "footprints": float(n), "view_footprints": n * views,
        "augmented_footprints": float(n * (n_views - 1) * n_banks),
        "chip_megapixels": round(chip_megapixels, 6),
        "sampled_megapixels": round(min(n, MOST_SAMPLED) * work.size_px**2 / 1e6, 6),
        "view_megapixels": round(chip_megapixels * views, 6), "epoch_footprints": n * epochs,
        "epoch_megapixels": round(chip_megapixels * epochs, 6),
    }  # fmt: skip


def _sum(coefficients: Mapping[str, float], units: Mapping[str, float]) -> float:
    return sum(value * units.get(name, 0.0) for name, value in coefficients.items())
