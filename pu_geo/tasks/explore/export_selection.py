"""Write the buildings of a saved selection, with all that the damage map says of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pu_geo.errors import PuGeoError
from pu_geo.geo.export.exporters import EXPORTERS, write_side_files
from pu_geo.project import decisions, store
from pu_geo.project.choices import PERSON
from pu_geo.records import DamageMap
from pu_geo.tasks.damage_map.damage_map import build_damage_map
from pu_geo.tasks.damage_map.export import counts_of
from pu_geo.tasks.job import Job


def export_selection(
    job: Job, *, run_id: str, decision: int, formats: Sequence[str], threshold: float | None = None,
    threshold_origin: str = PERSON,
) -> dict[str, object]:  # fmt: skip
    """Write `exports/selections/<decision>-<name>.<format>`, one feature a building of the selection.

    Args:
        run_id: id of a finished run, "chosen" or "latest".
        decision: number of the decision that saved the selection; what it holds never changes.
        formats: keys of `EXPORTERS`.
        threshold, threshold_origin: see `build_damage_map`.

    Returns:
        {"out": paths, "name", and what `counts_of` returns}

    Raises:
        PuGeoError: if no selection has this number.
    """
    with store.connect(job.layout) as db:
        found = decisions.entry(db, decision)
    if found is None or found.kind != "selection" or not found.facts:
        raise PuGeoError(f"Decision {decision} saved no selection.", "Save the selection, then export it.")
    job.report(0.1, "collecting scores and labels")
    whole = build_damage_map(job.layout, run_id, threshold, threshold_origin=threshold_origin)
    part = rows_of(whole, set(found.facts["building_ids"]))
    part = replace(part, metadata=_metadata_of(part, found.name) | {"selection_saved_at": found.at})
    folder = job.layout.exports / "selections"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for k, name in enumerate(formats):
        job.report(0.3 + 0.7 * k / len(formats), f"writing {len(part.building_ids)} buildings as {name}")
        target = folder / f"{decision}-{_file_name(found.name)}.{name}"
        EXPORTERS[name](part, target)
        write_side_files(part, target)
        written.append(str(target))
    return {"out": written, "name": found.name, **counts_of(part)}


def rows_of(damage_map: DamageMap, building_ids: Collection[str]) -> DamageMap:
    """Return the part of a damage map that some buildings are in, in its own order."""
    rows = [row for row, building in enumerate(damage_map.building_ids) if building in building_ids]
    columns = {name: [values[row] for row in rows] for name, values in damage_map.columns.items()}
    ids, wkb = [damage_map.building_ids[row] for row in rows], [damage_map.wkb[row] for row in rows]
    return replace(damage_map, building_ids=ids, wkb=wkb, columns=columns)


def _metadata_of(part: DamageMap, name: str) -> dict[str, object]:
    """Count the buildings of the part; counts, estimate and audit of all the map say so."""
    told: dict[str, Any] = dict(part.metadata)
    whole = {key: told.pop(key) for key in ("counts", "estimate", "audit")}
    binary = list(part.columns["damage_binary"])
    title = told["title"]
    return told | {
        "title": f"Selection {name} of the {title[:1].lower()}{title[1:]}",
        "counts": {kind: binary.count(kind) for kind in whole["counts"]},
        "of_whole_map": whole,
        "selection": name,
    }


def _file_name(name: str) -> str:
    """Return a name with letters, digits and - alone."""
    return re.sub(r"[\W_]+", "-", name).strip("-").lower()[:40] or "selection"
