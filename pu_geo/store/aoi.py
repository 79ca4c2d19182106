"""The area of interest: one polygon in the project CRS that footprints added from then on have to touch.

What was drawn is never lost: a log keeps every area, and the layer `aoi` of the GeoPackage shows its last entry.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import shapely

from pu_geo.errors import ProjectError
from pu_geo.store.contents import blobs, footprints, register_layer, wkb_from_blob
from pu_geo.store.store import now, transaction


@dataclass(frozen=True)
class Aoi:
    """An area of interest.

    Attributes:
        wkb: polygon or multipolygon, project CRS.
        source: the file it came from, or what a person typed.
        at: when it was put in, RFC 3339 UTC.
    """

    wkb: bytes
    source: str
    at: str


def current(db: sqlite3.Connection) -> Aoi | None:
    """Return the area of interest, or None where there is none."""
    return _area(db, "SELECT geom, source, at FROM aoi")


def in_force(db: sqlite3.Connection, at: str) -> Aoi | None:
    """Return the area of interest that stood at a moment, RFC 3339 UTC; None where there was none."""
    return _area(db, "SELECT geom, source, at FROM aoi_log WHERE at <= ? ORDER BY step DESC LIMIT 1", at)


def _area(db: sqlite3.Connection, query: str, *given: str) -> Aoi | None:
    """Return the area of a row; None where there is no row, or it takes an area away."""
    row = db.execute(query, given).fetchone()
    return None if row is None or row[0] is None else Aoi(wkb_from_blob(row[0]), row[1], row[2])


def outside(db: sqlite3.Connection) -> list[str]:
    """Return the ids of the footprints that do not touch the area of interest. Raises ProjectError where there is none."""
    area = current(db)
    if area is None:
        raise ProjectError("This project has no area of interest.", "Set one on the Imagery page, or with `pu-geo add-aoi`.")
    table, polygon = footprints(db), shapely.from_wkb(area.wkb)
    shapely.prepare(polygon)
    touches = shapely.intersects(polygon, shapely.from_wkb(list(table.wkb)))
    return [building for building, is_in in zip(table.building_ids, touches, strict=True) if not is_in]


def put(db: sqlite3.Connection, wkb: bytes, source: str) -> bool:
    """Make a polygon the area of interest; returns whether it took the place of another."""
    with transaction(db):
        replaced = current(db) is not None
        _append(db, wkb, source)
    return replaced


def remove(db: sqlite3.Connection) -> bool:
    """Remove the area of interest, and nothing else; returns whether there was one."""
    with transaction(db):
        if current(db) is None:
            return False
        _append(db, None, "taken away")
    return True


def before(db: sqlite3.Connection) -> Aoi | None:
    """Return the area that stood before the last change, which `put_back` brings back; None where there was none."""
    return _area(
        db,
        "SELECT geom, source, at FROM aoi_log WHERE geom IS NOT NULL "
        "AND geom IS NOT (SELECT geom FROM aoi_log ORDER BY step DESC LIMIT 1) ORDER BY step DESC LIMIT 1",
    )


def put_back(db: sqlite3.Connection) -> Aoi | None:
    """Undo the last change that took an area away or replaced it; returns the area that counts again, None if none does."""
    with transaction(db):
        found = before(db)
        if found is not None:
            _append(db, found.wkb, found.source)
        return current(db) if found is not None else None


def _append(db: sqlite3.Connection, wkb: bytes | None, source: str) -> None:
    """Write an entry, and keep the GeoPackage's own registry true: coordinate system and extent."""
    (srs_id,) = db.execute("SELECT srs_id FROM gpkg_geometry_columns WHERE table_name = 'footprints'").fetchone()
    box = None if wkb is None else shapely.bounds(shapely.from_wkb(wkb))
    blob = None if wkb is None else blobs(db, [wkb])[0]
    db.execute("INSERT INTO aoi_log (geom, source, at) VALUES (?, ?, ?)", (blob, source, now()))
    register_layer(db, "aoi", srs_id, [None] * 4 if box is None else box.tolist())
