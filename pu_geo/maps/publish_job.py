"""One version of the damage map with everything that belongs to it: all formats, areas, report, codebook, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pu_geo.errors import PuGeoError
from pu_geo.geo.export.codebook import PROFILES, with_classes
from pu_geo.geo.export.exporters import EXPORTERS, write_side_files
from pu_geo.geo.local_space import check_coordinates
from pu_geo.maps import changes_job
from pu_geo.maps.areas_job import area_tables, write_area_files
from pu_geo.maps.damage_map_job import check_threshold, map_for
from pu_geo.maps.export_job import counts_of
from pu_geo.maps.report_job import write_report
from pu_geo.records import DamageMap, Facts
from pu_geo.store import choices, contents, rounds, runs, store, versions
from pu_geo.store.job import Job

FILE_NAMES = {name: f"damage_map.{name}" for name in EXPORTERS} | {
    "geojson-full": "damage_map.full.geojson", "heat": "damage_heat.tif",
}  # fmt: skip


def publish(
    job: Job,
    *,
    run_id: str,
    formats: Sequence[str],
    threshold: float,
    threshold_origin: str = choices.PERSON,
    profiles: Sequence[str] = (),
    local: bool = False,
) -> Facts:
    """Write the next version into `exports/vN`; there is no such folder until all of it is written.

    Unless a person chose another run, the live map shows this one from then on.

    Args:
        run_id: id of a finished run, "chosen" or "latest".
        formats: keys of `EXPORTERS`.
        threshold: buildings with at least this score are flagged, 0..1; it is the run's threshold from then on.
        threshold_origin: see `build_damage_map`.
        profiles: keys of `codebook.PROFILES` whose columns are added.
        local: as for `export`.

    Returns:
        {"out", "version", "n_changes": buildings that changed, "files", and what `counts_of` returns}

    Raises:
        PuGeoError: if a format, a profile or the threshold is not usable.
    """
    _check(formats, profiles, threshold)
    grid = store.call(job.layout, contents.grid)
    if not store.call(job.layout, contents.count_footprints):
        raise PuGeoError("This project has no footprints, so there is nothing to export.", "Add them on the Imagery page.")
    check_coordinates(grid.crs, formats, local=local)
    with versions.new_version(job.layout) as (number, folder):
        damage_map = map_for(job, run_id, threshold, threshold_origin, f"v{number}")
        for profile in profiles:
            damage_map = with_classes(damage_map, profile)  # type: ignore[arg-type]
        for i, name in enumerate(formats):
            job.report(0.1 + 0.7 * i / len(formats), f"writing {FILE_NAMES[name]}")
            EXPORTERS[name](damage_map, folder / FILE_NAMES[name])
        write_side_files(damage_map, folder / "damage_map.geojson")
        job.report(0.82, "summing up by area")
        tables = list(area_tables(job.layout, damage_map))
        write_area_files(damage_map, tables, folder)
        job.report(0.88, "writing the report")
        named = tables[0].rows if len(tables) > 1 else []  # the last are cells, whose names say nothing to a reader
        write_report(folder / "report.html", damage_map, named, job.layout.quicklooks / "post", grid=grid)
        past = rounds.read(job.layout)
        if past.number > 1:
            changes_job.write_history(folder, past, damage_map)
        facts = counts_of(damage_map) | {name: damage_map.metadata[name] for name in ("labels_up_to_event", "estimate")}
        facts |= {"version": f"v{number}", "formats": list(formats)}
        facts |= {"n_changes": _compare(job, folder, number, damage_map)}
        versions.put_facts(folder, facts)
        files = sorted(path.name for path in folder.iterdir())
    with store.connect(job.layout) as db, store.transaction(db):
        choices.set_threshold(db, str(facts["run_id"]), threshold, threshold_origin)
        runs.settle(db, job.layout)
    return {**facts, "out": str(job.layout.exports / f"v{number}"), "files": files}


def _check(formats: Sequence[str], profiles: Sequence[str], threshold: float) -> None:
    for what, wanted, known in (("format", formats, EXPORTERS), ("profile", profiles, PROFILES)):
        wrong = [name for name in wanted if name not in known]
        if wrong:
            raise PuGeoError(f"The {what} {wrong[0]!r} is not known; these are: {', '.join(known)}.", "Choose among them.")
    if not formats:
        raise PuGeoError("No format was chosen.", f"Choose at least one of: {', '.join(EXPORTERS)}.")
    check_threshold(threshold)


def _compare(job: Job, folder: Path, number: int, damage_map: DamageMap) -> int | None:
    """Write what changed since the version before; return how many buildings did, None for the first version."""
    job.report(0.9, "comparing with the version before")
    versions.write_state(folder, damage_map.building_ids, {name: damage_map.columns[name] for name in changes_job.COMPARED})
    before = versions.numbers(job.layout)
    if not before:
        return None
    rows = changes_job.changes_since(job.layout, before[-1], damage_map)
    changes_job.write(folder / "changes.csv", changes_job.CHANGE, rows)
    return len({row["building_id"] for row in rows})
