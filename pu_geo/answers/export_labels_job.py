"""Write the current labels for other programs, and beside them the whole log, from which another project can be filled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from pu_geo import __version__
from pu_geo.errors import LabelError
from pu_geo.files import write_export
from pu_geo.geo.export.pieces import geojson_lines, write_csv
from pu_geo.geo.local_space import place_names, points_inside
from pu_geo.geo.vector import crs as systems
from pu_geo.records import LABEL_NAMES, FootprintTable
from pu_geo.store import contents, grades, history, labels, store
from pu_geo.store.layout import Layout, writable_target

FORMATS = (".csv", ".geojson")
DECISIONS, DECISIONS_FORMAT = ".decisions.json", "pu-geo decisions 1"
TYPES = ("damage_types", "absent_types")  # lists
_BUILDING = [*history.COLUMNS].index("building_id")


def export_labels(layout: Layout, path: str) -> dict[str, object]:
    """Write the current label of each labelled building, and the complete history as `<stem>.events.csv` beside it.

    With it comes `<stem>.decisions.json`: decisions about groups of buildings, the scale of grades, and undos that found
    nothing. From these two a project can be rebuilt: `import_labels` with `rebuild`.

    Both files can be imported again: the first one as labels, the second one with who answered what, when, and what was
    undone. Both have the place of each building, so that an import knows it again where another project calls it something
    else.

    Args:
        path: .csv, or .geojson (RFC 7946) with a point inside each building, longitude and latitude of WGS 84; replaced if
            it exists, like the others.

    Returns:
        {"out", "events_out", "decisions_out", "n": labelled buildings, "n_events", "labels_up_to_event"}

    Raises:
        LabelError: if the place or the ending is not usable; kind "local" for GeoJSON of a project without a place.
    """
    out = _checked_target(path)
    events_out = _checked_target(str(out.with_name(f"{out.stem}.events.csv")))
    decisions_out = out.with_name(f"{out.stem}{DECISIONS}")
    with store.connect(layout) as db:
        newest = labels.last_event(db)
        current, table, name = labels.current(db, at=newest), contents.footprints(db), store.project_name(db)
        past = list(history.rows(db, at=newest))
        decided = decided_of(db)
        scale = grades.known(db)
        kept = [i for i, building in enumerate(table.building_ids) if building in current]
        crs = contents.grid(db).crs if past or decided["decisions"] else systems.LONLAT
        if systems.is_local(crs) and out.suffix.lower() != ".csv":
            raise LabelError(
                f"This project has no place on the Earth, and {out.name} would be read as longitude and latitude.",
                f"Write CSV: {out.stem}.csv.",
                kind="local",
            )
    lonlat = points_inside([table.wkb[i] for i in kept], crs) if kept else np.empty((0, 2))
    events = [current[table.building_ids[i]] for i in kept]
    rows: list[dict[str, object]] = [{field: getattr(event, field) for field in FIELDS} for event in events]
    for row, event in zip(rows, events, strict=True):
        row |= {"label": LABEL_NAMES[event.label], **{name: list(getattr(event, name)) for name in TYPES}}
        row["grade"] = grades.name_of(scale, event.grade)
    places = place_names(crs)
    place_of = _places((str(row[_BUILDING]) for row in past), table, crs)
    rows_out = [[*row, *place_of.get(str(row[_BUILDING]), ("", ""))] for row in past]
    decided["places"] = _places(named_in(decided["decisions"]), table, crs)
    write_export(decisions_out, [json.dumps(decided, ensure_ascii=False, indent=1).encode()])
    write_csv(events_out, [*history.COLUMNS, *places], rows_out, has_mark=False)
    if out.suffix.lower() == ".csv":
        for row in rows:
            row |= {name: json.dumps(row[name], ensure_ascii=False) if row[name] else "" for name in TYPES}
        placed = ([*row.values(), *place] for row, place in zip(rows, lonlat.tolist(), strict=True))
        write_csv(out, [*FIELDS, *places], placed, has_mark=False)
    else:
        head = {"title": f"Labels: {name}", "made_with": f"PU-Geo {__version__}", "labels_up_to_event": newest}
        properties = ({key: None if value == "" else value for key, value in row.items()} for row in rows)
        pieces = [([row["building_id"] for row in rows], shapely.points(lonlat), properties)] if rows else []
        write_export(out, geojson_lines(head, pieces, has_box=False))
    n = {"n": len(rows), "n_events": len(past), "labels_up_to_event": newest}
    return {"out": str(out), "events_out": str(events_out), "decisions_out": str(decisions_out), **n}


def _places(buildings: Iterable[str], table: FootprintTable, crs: str) -> dict[str, list[float]]:
    """Return building id -> a point inside it, for those that are in the project."""
    row_of = {building: i for i, building in enumerate(table.building_ids)}
    named = [building for building in dict.fromkeys(buildings) if building in row_of]
    found = points_inside([table.wkb[row_of[building]] for building in named], crs).tolist() if named else []
    return dict(zip(named, found, strict=True))


def decided_of(db: sqlite3.Connection) -> dict[str, Any]:
    """Return what people decided beside answers: the logs of decisions and of the scale of grades, and undos that found
    nothing.
    """
    columns = ("op", "kind", "name", "analyst", "at", "facts")
    rows = db.execute(f"SELECT {', '.join(columns)} FROM decision ORDER BY decision").fetchall()
    decisions = [{**dict(zip(columns, row, strict=True)), "facts": json.loads(row[-1])} for row in rows]
    scales = db.execute("SELECT value, at FROM choice WHERE name = ? ORDER BY choice", (grades.CHOICE,)).fetchall()
    return {
        "format": DECISIONS_FORMAT,
        "decisions": decisions,
        "grades": [{"at": at, "scale": json.loads(value)} for value, at in scales],
        "empty_steps": [row[0] for row in db.execute("SELECT op FROM empty_step ORDER BY rowid")],
    }


def named_in(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids under every "building_ids" of some decisions."""
    found: list[str] = []

    def note(one: dict[str, Any]) -> None:
        ids = one.get("building_ids")
        found.extend(map(str, ids if isinstance(ids, list) else ()))

    json.loads(json.dumps(decisions), object_hook=note)
    return found


def _checked_target(path: str) -> Path:
    """Return the absolute path to write labels to; see `writable_target`."""
    out = writable_target(path, LabelError)
    if out.suffix.lower() not in FORMATS:
        raise LabelError(
            f"{out.name} ends in {out.suffix or 'nothing'}; labels are written as {' or '.join(FORMATS)}.", "Rename it."
        )
    return out


FIELDS = (
    "building_id",
    "label",
    "grade",
    "reason",
    "damage_types",
    "absent_types",
    "comment",
    "shown",
    "inclusion",
    "analyst",
    "at",
    "screen",
    "kind",
)
