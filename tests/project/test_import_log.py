"""The account of a footprint file: in = kept + repaired + dropped, exact, and still there tomorrow."""

from __future__ import annotations

from dataclasses import replace
from sqlite3 import Connection

import numpy as np
import pytest
import shapely
from small_parts import square_table

from pu_geo.errors import FootprintError
from pu_geo.project import contents, import_log, store
from pu_geo.project.layout import Layout


def test_every_feature_of_a_file_is_counted_once(project: Layout) -> None:
    # 25 squares, of which the first 20 are in the project; 3 of the file were dropped before; rows 3 and 22 were mended.
    table = replace(
        square_table(25), n_in=28, n_repaired=2, n_dropped=3, dropped={"empty": 1, "outside the scenes": 2},
        is_repaired=np.isin(np.arange(25), (3, 22)), notes=("1 was empty.",),
    )  # fmt: skip
    with store.connect(project) as db:
        found = import_log.import_footprints(db, table, "houses.geojson")
        assert contents.count_footprints(db) == 25
    assert (found.n_in, found.kept, found.repaired, found.n_dropped) == (28, 4, 1, 23)
    assert found.dropped == {"empty": 1, "outside the scenes": 2, "here already": 20}
    assert found.n_in == found.kept + found.repaired + found.n_dropped
    assert found.notes == ["1 was empty.", "20 footprint(s) are in the project already and were left out."]
    with store.connect(project) as db:
        assert import_log.all_records(db) == [found]


def test_accounts_come_newest_first_and_what_is_here_already_is_counted(db: Connection) -> None:
    import_log.import_footprints(db, square_table(22), "a.gpkg")
    again = import_log.import_footprints(db, square_table(22), "b.gpkg")
    assert [one.file for one in import_log.all_records(db)] == ["b.gpkg", "a.gpkg"]
    assert (again.kept, again.repaired, again.dropped) == (0, 0, {"here already": 22})
    wkb = square_table(24).wkb
    twice = replace(square_table(3), building_ids=[""] * 3, wkb=[wkb[22], wkb[23], wkb[22]])  # one without id comes twice
    found = import_log.import_footprints(db, twice, "x.geojson")
    assert (found.kept, found.dropped) == (2, {"here already": 1})
    moved = replace(square_table(25), wkb=[shapely.to_wkb(shapely.box(0, 0, 1, 1))] * 25)
    with pytest.raises(FootprintError, match="another outline"):
        import_log.import_footprints(db, moved, "c.geojson")
    assert (contents.count_footprints(db), len(import_log.all_records(db))) == (24, 3)
