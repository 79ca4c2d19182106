"""The project's GeoPackage: made, opened, refused, and losing nothing, footprints included: in = kept + repaired + dropped."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pytest
import shapely
from small_parts import square_table

from pu_geo.errors import ProjectError
from pu_geo.store import contents, import_log, store
from pu_geo.store.layout import Layout, checked_id


def test_new_project_is_a_geopackage_without_scenes(tmp_path: Path) -> None:
    layout = store.create(tmp_path / "a.pugeo", "A")
    assert layout.gpkg.read_bytes()[68:72] == b"GPKG"  # SQLite's application id
    with store.connect(layout) as db:
        assert store.project_name(db) == "A"
        with pytest.raises(ProjectError, match="no post-event scene"):
            contents.grid(db)


def test_create_refuses_other_endings_full_folders_and_names_too_long(tmp_path: Path) -> None:
    (tmp_path / "b.pugeo").mkdir()
    (tmp_path / "b.pugeo" / "x").write_text("x")
    long = f"{'x' * 300}.pugeo"
    for name, words in (("a", "does not end in"), ("b.pugeo", "not empty"), (long, "cannot be made: File name too long")):
        with pytest.raises(ProjectError, match=words):
            store.create(tmp_path / name, "A")
    for name, words in ((long, "the name of a project's folder: File name too long"), ("b.pugeo", "not a PU-Geo project")):
        with pytest.raises(ProjectError, match=words):
            store.open_project(tmp_path / name)
    for bad in ("../x", "/etc", "", "A b", "x" * 65, "a/b"):  # ids cannot lead out of the project
        with pytest.raises(ProjectError, match="not an id"):
            checked_id(bad)


def test_footprints_keep_ids_outlines_and_attributes_and_are_stored_once(db: Connection) -> None:
    table, expected = contents.footprints(db), square_table(20)
    for name in ("building_ids", "wkb", "attributes"):
        assert list(getattr(table, name)) == list(getattr(expected, name))
    assert contents.add_footprints(db, expected) == 0
    assert contents.add_footprints(db, replace(expected, wkb=[shapely.to_wkb(shapely.box(0, 0, 1, 1))] * 20)) == 1
    assert contents.building_ids(db) == [*expected.building_ids, "b000021"], "its id is another building's"


def test_footprints_without_id_get_unused_ones_and_are_known_again_by_their_outline(db: Connection) -> None:
    nameless = replace(square_table(23), building_ids=[""] * 23)
    assert contents.add_footprints(db, nameless) == 3  # the first 20 squares are here already
    assert contents.building_ids(db)[-3:] == ["b000021", "b000022", "b000023"]
    assert contents.add_footprints(db, nameless) == 0
    later = replace(square_table(25), building_ids=[*[""] * 24, "b000024"])
    assert contents.add_footprints(db, later) == 2
    assert contents.building_ids(db)[-2:] == ["b000025", "b000024"], "it avoids one that comes later in the file"


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
    assert (contents.count_footprints(db), len(import_log.all_records(db))) == (24, 3)


def test_two_who_make_the_same_project_at_once_get_one_whole_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        makers = [threads.submit(store.create, tmp_path / "a.pugeo", "A") for _ in range(6)]
    assert sorted(type(maker.exception()).__name__ for maker in makers) == ["NoneType"] + ["ProjectError"] * 5
    store.open_project(tmp_path / "a.pugeo")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pugeo"]


def test_busy_and_missing_files_are_not_called_damaged(project: Layout) -> None:
    with store.connect(project) as db, store.transaction(db):
        with store.connect(project, patience_s=0.05) as other, pytest.raises(sqlite3.OperationalError):
            other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ProjectError, match="could not be read or written") as caught:  # noqa: SIM117
            with store.connect(project, patience_s=0.05) as other:
                other.execute("BEGIN IMMEDIATE")
        assert "backup" not in caught.value.hint
    project.gpkg.rename(project.folder / "elsewhere")
    with pytest.raises(ProjectError, match="is gone"), store.connect(project):
        pass
    assert not project.gpkg.exists()


def test_one_connection_is_shared_by_its_thread_alone_and_closed(project: Layout, tmp_path: Path) -> None:
    other = store.create(tmp_path / "other.pugeo", "Other")
    with store.one_connection():
        with store.connect(project) as first, store.connect(other) as elsewhere:
            assert first is not elsewhere
        with store.one_connection(), store.connect(project) as again:
            assert again is first
        assert first.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL, for clicks as well
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(lambda: store.open_project(project.folder)).result() == project
        with pytest.raises(sqlite3.OperationalError), store.connect(project) as db:
            db.execute("SELECT nonsense FROM")
        with store.connect(project) as db:
            assert store.project_name(db) == "Event", "an error leaves it open for the next question"
    with pytest.raises(sqlite3.ProgrammingError):
        first.execute("SELECT 1")
