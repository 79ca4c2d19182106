"""Write the damage map, or the buildings of a saved selection, into one file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pu_geo.errors import PuGeoError
from pu_geo.files import make_folder
from pu_geo.geo.export.codebook import TYPE_STATES
from pu_geo.geo.export.exporters import EXPORTERS, write_side_files
from pu_geo.geo.local_space import check_coordinates
from pu_geo.maps.damage_map import OF_TRIAGE
from pu_geo.maps.damage_map_job import check_threshold, map_for
from pu_geo.records import DamageMap, Facts
from pu_geo.store import contents, decisions, store
from pu_geo.store.choices import PERSON
from pu_geo.store.job import Job
from pu_geo.store.layout import writable_target


def export(
    job: Job, *, run_id: str, format: str, out: str, threshold: float | None = None,
    threshold_origin: str = PERSON, local: bool = False,
) -> Facts:  # fmt: skip
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
    check_coordinates(store.call(job.layout, contents.grid).crs, [format], local=local)
    target = writable_target(out, sources={scene.path for scene in store.call(job.layout, contents.scenes)})
    damage_map = map_for(job, run_id, threshold, threshold_origin)
    job.report(0.4, f"writing {len(damage_map.building_ids)} buildings")
    EXPORTERS[format](damage_map, target)
    write_side_files(damage_map, target)
    return {"out": str(target), **counts_of(damage_map)}


def counts_of(damage_map: DamageMap) -> dict[str, Any]:
    """Return what a map counts and which choices it rests on.

    Returns:
        {"n", "confirmed", "flagged" by score alone, "not_assessed", "run_id", "method", "threshold", "threshold_origin",
        "audit_id", "types" where the run scores damage types, "layers" where its chips have some, "sites" where there are
        several, see `SITE_COLUMNS`, "doubts", "units": words for what is counted, such as "buildings" or "cells of 30 m"}
    """
    of_class = Counter(OF_TRIAGE[str(value)] for value in damage_map.columns["triage"])
    return {
        "n": len(damage_map.building_ids),
        **{kind: of_class[kind] for kind in ("confirmed", "flagged", "not_assessed")},
        **{name: damage_map.metadata[name] for name in ("run_id", "method", "threshold", "threshold_origin", "audit_id")},
        **{name: damage_map.metadata[name] for name in ("types", "layers", "sites") if damage_map.metadata.get(name)},
        "doubts": [row["doubt"] for row in damage_map.metadata["scenes"] if row["doubt"]],  # type: ignore[attr-defined]
        "units": damage_map.units.full,
    }


def export_selection(
    job: Job, *, run_id: str, decision: int, formats: Sequence[str], threshold: float | None = None,
    threshold_origin: str = PERSON,
) -> Facts:  # fmt: skip
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
    found = store.call(job.layout, decisions.entry, decision)
    if found is None or found.kind != "selection" or not found.facts:
        raise PuGeoError(f"Decision {decision} saved no selection.", "Save the selection, then export it.")
    whole = map_for(job, run_id, threshold, threshold_origin)
    part = rows_of(whole, set(found.facts["building_ids"]))
    part = replace(part, metadata=_metadata_of(part, found.name) | {"selection_saved_at": found.at})
    folder = job.layout.exports / "selections"
    make_folder(folder)
    stem = re.sub(r"[\W_]+", "-", found.name).strip("-").lower()[:40] or "selection"
    written = []
    for k, name in enumerate(formats):
        job.report(0.3 + 0.7 * k / len(formats), f"writing {len(part.building_ids)} buildings as {name}")
        target = folder / f"{decision}-{stem}.{name}"
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
    """Count the buildings of the part; counts, estimate, audit and sites of all the map say so."""
    facts: dict[str, Any] = dict(part.metadata)
    whole: dict[str, Any] = {key: facts.pop(key) for key in ("counts", "estimate", "audit", "sites") if key in facts}
    if "sites" in whole:
        facts["sites"] = [{name: one[name] for name in ("name", "pixel_m", "crs")} for one in whole["sites"]]
    if "types" in facts:
        whole["types"] = facts["types"]
        facts["types"] = [
            {**{name: one[name] for name in ("name", "column", "threshold", "threshold_origin")},
             "counts": {state: list(part.columns[one["column"]]).count(state) for state in TYPE_STATES}}
            for one in facts["types"]
        ]  # fmt: skip
    of_class = Counter(OF_TRIAGE[str(value)] for value in part.columns["triage"])
    title = facts["title"]
    return facts | {
        "title": f"Selection {name} of the {title[:1].lower()}{title[1:]}",
        "counts": {kind: of_class[kind] for kind in whole["counts"]},
        "of_whole_map": whole,
        "selection": name,
    }
