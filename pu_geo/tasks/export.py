"""Turn a run and the analysts' labels into the damage map that leaves the house."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pu_geo import __version__
from pu_geo.errors import PuGeoError
from pu_geo.geo.exporters import EXPORTERS, lonlat
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import SUFFIX
from pu_geo.records import MOST_NODATA, DamageMap, FootprintTable, LabelEvent, RunFacts, Scene
from pu_geo.tasks.chip import load_chip_set
from pu_geo.tasks.job import Job

SCHEMA_VERSION = "0.1"
DISCLAIMER = "Preliminary damage map from satellite or aerial imagery; not field-validated."
_LABEL_NAMES = {"positive": "damaged", "not_damaged": "no_visible_damage", "not_assessable": "not_assessable"}


def export(job: Job, *, run_id: str, format: str, out: str, threshold: float | None = None) -> dict[str, object]:
    """Write a damage map with one feature per building.

    Args:
        run_id: id of a finished run, or "latest".
        format: a key of `EXPORTERS`.
        out: path of the file to write; replaced if it exists.
        threshold: buildings with at least this score are flagged, 0..1; the run's own if None.

    Returns:
        {"out", "n", "flagged", "confirmed", "not_assessed", "run_id", "threshold"}

    Raises:
        PuGeoError: if the format, the threshold or the place is not usable.
    """
    if format not in EXPORTERS:
        raise PuGeoError(f"Format {format!r} is not known; these are: {', '.join(EXPORTERS)}.", "Choose one of them.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise PuGeoError(f"The threshold is {threshold}; scores lie between 0 and 1.", "Choose a value in between.")
    target = _checked_target(job, out)
    job.report(0.1, "collecting scores and labels")
    damage_map = build_damage_map(job, run_id, threshold)
    job.report(0.4, f"writing {len(damage_map.building_ids)} buildings")
    EXPORTERS[format](damage_map, target)
    binary, label = damage_map.columns["damage_binary"], damage_map.columns["label"]
    return {
        "out": str(target),
        "n": len(damage_map.building_ids),
        "flagged": sum(value == "damaged" for value in binary),
        "confirmed": sum(value == "damaged" for value in label),
        "not_assessed": sum(value == "not_assessed" for value in binary),
        "run_id": damage_map.metadata["run_id"],
        "threshold": damage_map.metadata["threshold"],
    }


def _checked_target(job: Job, out: str) -> Path:
    """Refuse places where an export would destroy something else."""
    target = Path(out).expanduser().resolve()
    if not target.parent.is_dir():
        raise PuGeoError(f"The folder {target.parent} does not exist.", "Make it first, or choose another place.")
    if target.is_dir():
        raise PuGeoError(f"{target} is a folder, not a file.", "Add a file name, such as damage_map.geojson.")
    inside = next((folder for folder in target.parents if folder.suffix == SUFFIX), None)
    with store.connect(job.layout) as db:
        sources = {scene.path for scene in contents.scenes(db)}
    if str(target) in sources or (inside is not None and inside / "exports" not in target.parents):
        raise PuGeoError(
            f"{target} belongs to a project or is one of its scenes; an export would replace it.",
            "Choose a file in the project's exports folder, or outside the project.",
        )
    if not os.access(target.parent, os.W_OK):
        raise PuGeoError(f"You may not write into {target.parent}.", "Choose another place.")
    return target


def build_damage_map(job: Job, run_id: str, threshold: float | None) -> DamageMap:
    """Collect every building with its score, label and provenance."""
    with store.connect(job.layout) as db:
        facts = runs.find(db, run_id)
        table, grid, scenes = contents.footprints(db), contents.grid(db), contents.scenes(db)
        events, name, newest = labels.current(db), store.project_name(db), labels.last_event(db)
        sources = contents.footprint_sources(db)
    limit = facts.threshold if threshold is None else threshold
    rows = {building: i for i, building in enumerate(runs.building_ids_of(job.layout, facts.run_id))}
    scores = np.asarray(runs.array(job.layout, facts.run_id, "scores"), dtype=np.float32)
    nodata = load_chip_set(job.layout, facts.chip_set).nodata_share
    columns: dict[str, Sequence[object]] = {
        **_identity(table, sources, grid.crs),
        **_results(table.building_ids, rows, scores, nodata, events, limit, facts),
        **_human(table.building_ids, events),
        **_provenance(len(table.wkb), scenes, facts),
        "source_attributes": list(table.attributes),
    }
    metadata = {**_metadata(name, columns, scenes, facts, limit), "labels_up_to_event": newest}
    return DamageMap(table.building_ids, table.wkb, columns, grid.crs, metadata)


def _identity(table: FootprintTable, sources: Sequence[str], crs: str) -> dict[str, Sequence[object]]:
    lon, lat = lonlat(table.wkb, crs)
    return {
        "building_id": list(table.building_ids),
        "source_footprint": list(sources),
        "area_m2": [round(float(area), 1) for area in table.area_m2],
        "lon": lon.tolist(),
        "lat": lat.tolist(),
    }


def _results(
    ids: Sequence[str], rows: Mapping[str, int], scores: np.ndarray, nodata: np.ndarray,
    events: Mapping[str, LabelEvent], limit: float, facts: RunFacts,
) -> dict[str, Sequence[object]]:  # fmt: skip
    ranks = runs.ranks(scores)
    reasons = [_why_not_assessed(building, rows, nodata, events) for building in ids]
    shown = [None if reason else rows.get(building) for building, reason in zip(ids, reasons, strict=True)]
    binary = [
        "not_assessed" if reason else _binary(None if row is None else scores[row], limit, events.get(building))
        for building, reason, row in zip(ids, reasons, shown, strict=True)
    ]
    return {
        "assessed": [reason is None for reason in reasons],
        "not_assessed_reason": reasons,
        "damage_binary": binary,
        "score": [None if row is None else round(float(scores[row]), 4) for row in shown],
        "score_type": [facts.score_type] * len(ids),
        "rank": [None if row is None else int(ranks[row]) for row in shown],
        "threshold": [round(limit, 4)] * len(ids),
        "triage": [_triage(value, events.get(building)) for building, value in zip(ids, binary, strict=True)],
    }


def _why_not_assessed(
    building: str, rows: Mapping[str, int], nodata: np.ndarray, events: Mapping[str, LabelEvent]
) -> str | None:
    """Return why a building has no result, or None if it has one. A person's answer wins over the picture.

    A building that was added after the chips were cut has none; nobody looked at its picture, so it counts as nodata.
    """
    event = events.get(building)
    if event is not None:
        return (event.reason or "unclear") if event.label == "not_assessable" else None
    return "nodata" if building not in rows or nodata[rows[building]] > MOST_NODATA else None


def _binary(score: float | None, limit: float, event: LabelEvent | None) -> str:
    """Compare score and threshold as they are written into the file, so that nobody who compares them there is puzzled."""
    if event is not None:
        return "damaged" if event.label == "positive" else "not_flagged"
    return "damaged" if score is not None and round(float(score), 4) >= round(limit, 4) else "not_flagged"


def _triage(binary: str, event: LabelEvent | None) -> str:
    if binary == "not_assessed":
        return "not_assessed"
    if event is not None and event.label == "positive":
        return "confirmed"
    return "flagged" if binary == "damaged" else "below"


def _human(ids: Sequence[str], events: Mapping[str, LabelEvent]) -> dict[str, Sequence[object]]:
    found = [events.get(building) for building in ids]
    return {
        "label": [None if event is None else _LABEL_NAMES[event.label] for event in found],
        "label_source": [None if event is None else event.kind for event in found],
        "labeller": [None if event is None else event.analyst for event in found],
        "labelled_at": [None if event is None else event.at for event in found],
        "damage_types": [[] if event is None else list(event.damage_types) for event in found],
    }


def _provenance(n: int, scenes: Sequence[Scene], facts: RunFacts) -> dict[str, Sequence[object]]:
    same: dict[str, object] = {}
    for role in ("pre", "post"):
        own = [scene for scene in scenes if scene.role == role]
        same[f"{role}_image_id"] = "+".join(scene.scene_id for scene in own) or None
        same[f"{role}_date"] = next((scene.date for scene in own if scene.date), None)
    post = next(scene for scene in scenes if scene.role == "post")
    same |= {
        "post_gsd_m": round(post.gsd_m, 3),
        "method": facts.method,
        "run_id": facts.run_id,
        "run_at": facts.created_at,
        "schema_version": SCHEMA_VERSION,
    }
    return {key: [value] * n for key, value in same.items()}


def _metadata(
    name: str, columns: Mapping[str, Sequence[object]], scenes: Sequence[Scene], facts: RunFacts, limit: float
) -> dict[str, object]:
    binary = list(columns["damage_binary"])
    return {
        "title": f"Damage map: {name}",
        "disclaimer": DISCLAIMER,
        "made_with": f"PU-Geo {__version__}",
        "schema_version": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "method": facts.method,
        "preset": facts.preset,
        "seed": facts.seed,
        "trained_on_labels_up_to_event": facts.at_event,
        "n_positive_clicks": facts.n_positive,
        "threshold": round(limit, 4),
        "counts": {value: binary.count(value) for value in ("damaged", "not_flagged", "not_assessed")},
        "estimate": {
            "N": len(binary),
            "estimate": None if facts.estimated_share is None else round(facts.estimated_share * facts.n_unlabeled),
            "low": None,
            "high": None,
            "method": "Elkan-Noto on positives and unlabeled; no interval without an audit",
        },
        "sha256": {scene.scene_id: scene.sha256 for scene in scenes},
    }
