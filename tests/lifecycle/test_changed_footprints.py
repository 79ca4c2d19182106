"""After footprints went or others came, nothing of a building stands at another one: no id, no score, no color."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely
from small_parts import add_run, click, job_of, replace_footprints, small_grid, small_scene, table_of

from pu_geo.answers import ranking
from pu_geo.lifecycle import recovery, removing
from pu_geo.lifecycle import remove_job as task
from pu_geo.records import FootprintTable
from pu_geo.scenes.footprints_job import store_footprints
from pu_geo.store import backups, contents, labels, store
from pu_geo.store.layout import Layout


def nameless(n: int, metres_east: float) -> FootprintTable:
    """n squares without ids, so far from where the first file's are."""
    shapes = [shapely.box(x, 4_000_000, x + 8, 4_000_008) for x in 500_000 + metres_east + 16 * np.arange(n)]
    return replace(table_of(shapes), building_ids=[""] * n)


@pytest.fixture
def numbered(tmp_path: Path) -> Layout:
    """A project of 10 buildings that were numbered here."""
    layout = store.create(tmp_path / "numbered.pugeo", "Event")
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], small_grid())
    layout.quicklooks.mkdir()
    add(layout, nameless(10, 0), "first.geojson")
    return layout


def add(layout: Layout, table: FootprintTable, file: str) -> None:
    store_footprints(job_of(layout), table, small_grid(), file)


def ids_of(layout: Layout) -> Sequence[str]:
    return store.call(layout, contents.building_ids)


def test_numbers_of_removed_buildings_are_not_given_to_others(numbered: Layout) -> None:
    first = ids_of(numbered)
    click(numbered, first[0])
    add_run(numbered, ids=first, scores=np.linspace(0, 1, 10))
    task.remove_footprints(job_of(numbered), name=json.dumps(["b000009", "b000010"]), analyst="ann")
    task.remove_footprints(job_of(numbered), name="all", analyst="ann")
    add(numbered, nameless(10, 200), "second.geojson")
    assert list(ids_of(numbered)) == [f"b{number:06d}" for number in range(11, 21)]
    assert not store.call(numbered, labels.pu_set).is_positive.any()
    names, shown = store.call(numbered, contents.live_map)
    assert {row[names.index("score")] for row in shown} == {None}
    # long numbers of a file are left out of the count
    add(numbered, replace(nameless(1, 400), building_ids=["b" + 30 * "9"]), "third.geojson")
    add(numbered, nameless(1, 500), "fourth.geojson")
    assert ids_of(numbered)[-1] == "b000021"


def write_replacement(path: Path, n: int) -> Path:
    """A file of n other squares of the same place, without ids."""
    geopandas.GeoDataFrame(geometry=list(shapely.from_wkb(list(nameless(n, 4).wkb))), crs=32615).to_file(path)
    return path


def test_each_change_of_footprints_names_them_anew(numbered: Layout, tmp_path: Path) -> None:
    names = [store.call(numbered, contents.geometry_v)]

    def note() -> None:
        names.append(store.call(numbered, contents.geometry_v))

    made = backups.make(numbered, "asked")
    add(numbered, nameless(2, 200), "second.geojson")
    note()
    add(numbered, nameless(2, 200), "second.geojson")
    assert store.call(numbered, contents.geometry_v) == names[-1], "nothing was new"
    task.remove_footprints(job_of(numbered), name=json.dumps(["b000003"]), analyst="ann")
    note()
    removing.undo(numbered, "ann")
    note()
    replace_footprints(numbered, write_replacement(tmp_path / "new.geojson", 12))
    note()
    names.append(store.call(recovery.restore(numbered, made.path).layout, contents.geometry_v))
    assert len({*names}) == len(names)
    assert [*ranking.positions(numbered)] == [*ids_of(numbered)]
