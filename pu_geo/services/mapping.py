"""What the Damage map screen asks for: how many buildings a threshold flags, and the export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pu_geo import jobs
from pu_geo.project import labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import MOST_NODATA, RunFacts
from pu_geo.services.imagery import chip_facts

EXPORT_TASKS = ("export",)


@dataclass(frozen=True)
class ThresholdView:
    """What a threshold means in a run. Counts are of buildings.

    Attributes:
        n_flagged: unlabeled with at least this score.
        n_confirmed: positives.
    """

    n: int
    n_flagged: int
    n_confirmed: int


def run(layout: Layout, run_id: str) -> RunFacts:
    """Return one run; "latest" is the newest."""
    with store.connect(layout) as db:
        return runs.find(db, run_id)


def at_threshold(layout: Layout, run_id: str, threshold: float) -> ThresholdView:
    """Count what a threshold flags, with the labels of this moment."""
    scores = np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
    with store.connect(layout) as db:
        answers = labels.current_labels(db)
    said = [answers.get(building) for building in runs.building_ids_of(layout, run_id)]
    above = scores.round(4) >= round(threshold, 4)
    nodata = np.array(chip_facts(layout, run(layout, run_id).chip_set)["nodata_share"]) > MOST_NODATA
    is_open = np.array([label is None for label in said]) & ~nodata
    return ThresholdView(
        n=len(scores),
        n_flagged=int((above & is_open).sum()),
        n_confirmed=said.count("positive"),
    )


def histogram(layout: Layout, run_id: str, n_bins: int = 50) -> tuple[Sequence[float], Sequence[int]]:
    """Return the left edges and counts of the scores of all buildings."""
    scores = np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32)
    counts, edges = np.histogram(scores, bins=n_bins, range=(0.0, 1.0))
    return edges[:-1].tolist(), counts.tolist()


def default_export(layout: Layout, run_id: str, suffix: str = "geojson") -> Path:
    """Return where an export goes unless the analyst says otherwise; never a file that exists."""
    layout.exports.mkdir(exist_ok=True)
    version = 1
    while (path := layout.exports / f"{run_id}-v{version}.{suffix}").exists():
        version += 1
    return path


def start_export(layout: Layout, run_id: str, *, threshold: float, out: str) -> str:
    """Start the job that writes the damage map as GeoJSON; return its id."""
    return jobs.start(layout, "export", {"run_id": run_id, "format": "geojson", "out": out, "threshold": threshold})
