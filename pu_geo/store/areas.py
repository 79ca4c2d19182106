"""Areas that damage is summed up by, such as districts: layers of polygons with a name and a code, in the project CRS."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import shapely

from pu_geo.errors import ProjectError
from pu_geo.store.contents import blobs, register_layer, wkb_from_blob
from pu_geo.store.store import transaction

_LAYER = re.compile(r"[^\W_][\w-]{0,39}")  # letters of every script; it is part of file names
_OURS = re.compile(r"grid\d.*", re.IGNORECASE)


@dataclass(frozen=True)
class AreaLayer:
    """The areas of one layer, in the order in which they were added.

    Attributes:
        layer: name that a person gave, such as "adm2".
        names: [A], not unique.
        pcodes: [A]; None where an area has no code.
        wkb: [A], polygons and multipolygons, project CRS.
    """

    layer: str
    names: Sequence[str]
    pcodes: Sequence[str | None]
    wkb: Sequence[bytes]


def checked_layer(text: str) -> str:
    """Return `text` if it may name a layer.

    Raises:
        ProjectError: unless it is 1 to 40 letters, digits, - and _ that begin with a letter or digit, and no grid's name.
    """
    if not _LAYER.fullmatch(text) or _OURS.fullmatch(text):
        raise ProjectError(
            f"{text[:60]!r} cannot name a layer of areas. Names have up to 40 letters, digits, '-' and '_'; "
            "'grid' with a number is kept for regular cells.",
            "Call it adm2, for example.",
            kind="layer",
        )
    return text


def put_areas(db: sqlite3.Connection, areas: AreaLayer) -> int:
    """Store a layer; one of the same name is replaced as a whole. Returns how many areas it had.

    Raises:
        ProjectError: if the name cannot name a layer.
    """
    layer = checked_layer(areas.layer)
    with transaction(db):
        (srs_id,) = db.execute("SELECT srs_id FROM gpkg_geometry_columns WHERE table_name = 'footprints'").fetchone()
        replaced = db.execute("DELETE FROM areas WHERE layer = ?", (layer,)).rowcount
        rows = zip(blobs(db, areas.wkb), [layer] * len(areas.wkb), areas.names, areas.pcodes, strict=True)
        db.executemany("INSERT INTO areas (geom, layer, name, pcode) VALUES (?, ?, ?, ?)", rows)
        stored = [wkb_from_blob(row[0]) for row in db.execute("SELECT geom FROM areas")]
        box = shapely.total_bounds(shapely.from_wkb(stored)).tolist() if stored else [None] * 4
        register_layer(db, "areas", srs_id, box)
    return replaced


def layers(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many areas each layer has, in the order in which the layers were stored."""
    return dict(db.execute("SELECT layer, count(*) FROM areas GROUP BY layer ORDER BY min(fid)"))


def load_areas(db: sqlite3.Connection, layer: str) -> AreaLayer:
    """Return a layer. Raises ProjectError if there is none of that name."""
    rows = db.execute("SELECT name, pcode, geom FROM areas WHERE layer = ? ORDER BY fid", (layer,)).fetchall()
    if not rows:
        known = ", ".join(layers(db)) or "none yet"
        raise ProjectError(f"There is no layer of areas {layer!r} in this project; there are: {known}.", "Add it first.")
    return AreaLayer(layer, [row[0] for row in rows], [row[1] for row in rows], [wkb_from_blob(row[2]) for row in rows])
