"""One building that comes twice counts once; neighbors that touch are no twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray
from small_parts import square_table

from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.vector.duplicates import twins, without_known, without_twins
from pu_geo.geo.vector.footprints import read_footprints
from pu_geo.records import FootprintTable


def shifted(table: FootprintTable, dx: float, dy: float, prefix: str = "n") -> FootprintTable:
    shapes = shapely.transform(shapely.from_wkb(list(table.wkb)), lambda xy: xy + np.array([dx, dy]))
    ids = [f"{prefix}{building}" for building in table.building_ids]
    return replace(table, building_ids=ids, wkb=list(shapely.to_wkb(shapes)))


def as_array(table: FootprintTable) -> NDArray[np.object_]:
    return np.array(list(table.wkb), dtype=object)


def test_the_same_houses_one_meter_off_are_left_out_and_counted() -> None:
    table, apart = square_table(20), shifted(square_table(3, prefix="far"), 0.0, 60.0)
    new = shifted(table, 1.0, 0.0)
    both = replace(
        new, building_ids=[*new.building_ids, *apart.building_ids], wkb=[*new.wkb, *apart.wkb], n_in=23,
        area_m2=np.full(23, 64.0), attributes=[*new.attributes, *apart.attributes], notes=("first",),
    )  # fmt: skip
    found = without_known(both, as_array(table), set(table.building_ids))
    assert list(found.building_ids) == ["nfar0", "nfar1", "nfar2"]
    assert (found.n_in, found.n_dropped, found.dropped) == (23, 20, {"duplicates": 20})
    assert found.notes[0] == "first"
    assert found.notes[1].startswith("20 footprint(s) are buildings that are in the project already")


def test_row_houses_that_touch_are_no_twins_and_of_a_chain_every_second_one_stays() -> None:
    row = np.array([shapely.box(5 * i, 0, 5 * i + 5.2, 10) for i in range(30)])
    assert not twins(row).any()
    wkb = list(shapely.to_wkb(row))
    table = FootprintTable([f"a{i}" for i in range(30)], wkb, np.full(30, 52.0), [{}] * 30, "user", 30, 0, 0)
    other_side = shifted(table, 0.0, 10.0)
    found = without_known(other_side, as_array(table), set())
    assert found is other_side
    # Each overlaps the next by 6 of 14 m, .43, and the one after next by 2 of 18 m, .11.
    chain = np.array([shapely.box(4 * i, 0, 4 * i + 10, 10) for i in range(4)])
    assert twins(chain).tolist() == [False, True, False, True]


def test_known_ids_split_features_and_a_house_within_a_block_are_counted_right() -> None:
    table = square_table(2)
    same = shifted(table, 1.0, 0.0, prefix="")
    assert without_known(same, as_array(table), {"b0", "b1"}) is same
    block = shapely.to_wkb(np.array([shapely.box(499_990, 3_999_990, 500_100, 4_000_050)], dtype=object))
    found = without_known(table, block, set())
    assert len(found.wkb) == 2
    assert found.notes[0].startswith("2 footprint(s) overlap one that is in the project, but were kept")
    table = replace(
        square_table(4), feature=np.array([0, 0, 1, 1]), n_in=2, is_repaired=np.ones(4, dtype=bool), n_repaired=2
    )
    found = table.without(np.array([True, False, True, True]), "duplicates", "note")
    assert (found.n_dropped, found.dropped, found.n_repaired, list(found.building_ids)) == (1, {"duplicates": 1}, 1, ["b1"])
    assert len(np.unique(found.feature_of)) + found.n_dropped == found.n_in


def test_a_shifted_copy_of_a_real_town_is_found_and_the_town_itself_stays(joplin: Path) -> None:
    folder = joplin / "joplin-tornado_00000001"
    grid = project_grid([describe(folder / "post.tif", "post", "post-1")])
    table = read_footprints(folder / "buildings.geojson", grid)
    assert len(table.wkb) == 198
    assert without_twins(table) is table
    for dx, dy, least in ((0.7, 0.7, 0.99), (2.0, 0.0, 0.85)):
        left = without_known(shifted(table, dx, dy), as_array(table), set(table.building_ids))
        assert left.dropped["duplicates"] >= least * 198
        assert left.n_in == len(left.wkb) + left.n_dropped
