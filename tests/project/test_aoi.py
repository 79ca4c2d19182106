"""The area of interest in the project file: replaced, taken away, put back; a layer that other programs read."""

from __future__ import annotations

from sqlite3 import Connection

import shapely

from pu_geo.project import aoi, contents

WEST = shapely.to_wkb(shapely.box(499_900, 3_999_000, 500_100, 4_001_000))
EAST = shapely.to_wkb(shapely.box(500_100, 3_999_000, 501_000, 4_001_000))
EXTENT = "SELECT min_x, min_y, max_x, max_y, srs_id FROM gpkg_contents WHERE table_name = 'aoi'"


def test_an_area_is_put_replaced_taken_away_and_put_back(db: Connection) -> None:
    before = contents.footprints(db).building_ids
    assert (aoi.current(db), aoi.before(db), aoi.remove(db), aoi.put_back(db)) == (None, None, False, None)
    assert aoi.put(db, WEST, "west.geojson") is False
    assert aoi.before(db) is None
    assert aoi.put(db, EAST, "east.geojson") is True
    now = aoi.current(db)
    assert (now.wkb, now.source) == (EAST, "east.geojson")
    assert db.execute(EXTENT).fetchone() == (500_100, 3_999_000, 501_000, 4_001_000, 32615)
    assert aoi.remove(db) is True
    assert aoi.current(db) is None
    assert db.execute(EXTENT).fetchone() == (None, None, None, None, 32615)
    for expected in ("east.geojson", "west.geojson", "east.geojson"):  # undone, and again: the one before it, and back
        assert aoi.put_back(db).source == expected
    assert contents.footprints(db).building_ids == before
    assert db.execute("SELECT count(*) FROM aoi_log").fetchone() == (6,)
