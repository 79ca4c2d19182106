"""Write the damage map into one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pu_geo.errors import PuGeoError
from pu_geo.geo.export.exporters import EXPORTERS, write_side_files
from pu_geo.geo.export.local_exports import check_coordinates
from pu_geo.project import contents, store
from pu_geo.project.choices import PERSON
from pu_geo.project.layout import SUFFIX
from pu_geo.records import DamageMap
from pu_geo.tasks.damage_map.damage_map import build_damage_map
from pu_geo.tasks.job import Job


def export(
    job: Job, *, run_id: str, format: str, out: str, threshold: float | None = None,
    threshold_origin: str = PERSON, local: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Write a damage map with one feature per building.

    Args:
        run_id: id of a finished run, "chosen" or "latest".
        format: a key of `EXPORTERS`.
        out: path of the file to write; replaced if it exists.
        threshold, threshold_origin: see `build_damage_map`.
        local: write the map of a project without a place on the Earth, in local meters; see `check_coordinates`.

    Returns:
        {"out", and what `counts_of` returns}

    Raises:
        PuGeoError: if the format, the threshold or the place is not usable.
    """
    if format not in EXPORTERS:
        raise PuGeoError(f"Format {format!r} is not known; these are: {', '.join(EXPORTERS)}.", "Choose one of them.")
    if threshold is not None:
        check_threshold(threshold)
    with store.connect(job.layout) as db:
        check_coordinates(contents.grid(db).crs, [format], local=local)
    target = _checked_target(job, out)
    job.report(0.1, "collecting scores and labels")
    damage_map = build_damage_map(job.layout, run_id, threshold, threshold_origin=threshold_origin)
    job.report(0.4, f"writing {len(damage_map.building_ids)} buildings")
    EXPORTERS[format](damage_map, target)
    write_side_files(damage_map, target)
    return {"out": str(target), **counts_of(damage_map)}


def check_threshold(threshold: float) -> None:
    """Refuse what is no score."""
    if not 0 <= threshold <= 1:
        raise PuGeoError(f"The threshold is {threshold}; scores lie between 0 and 1.", "Choose a value in between.")


def counts_of(damage_map: DamageMap) -> dict[str, Any]:
    """Return what a map counts and which choices it rests on.

    Returns:
        {"n", "flagged" with the confirmed, "confirmed", "not_assessed", "run_id", "method", "threshold", "threshold_origin",
        "audit_id", "doubts", "units": the words for what is counted, such as "buildings" or "cells of 30 m"}
    """
    binary, label = damage_map.columns["damage_binary"], damage_map.columns["label"]
    return {
        "n": len(damage_map.building_ids),
        "flagged": sum(value == "damaged" for value in binary),
        "confirmed": sum(value == "damaged" for value in label),
        "not_assessed": sum(value == "not_assessed" for value in binary),
        **{name: damage_map.metadata[name] for name in ("run_id", "method", "threshold", "threshold_origin", "audit_id")},
        "doubts": [row["doubt"] for row in damage_map.metadata["scenes"] if row["doubt"]],  # type: ignore[attr-defined]
        "units": damage_map.units.full,
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
