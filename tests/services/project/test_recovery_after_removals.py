"""A restore from a backup made before something was removed or replaced: one state as a whole, never a mixture of two."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
import shapely
import shapely.affinity
from small_parts import add_chips, add_run, click, job_of, small_grid, square_table

from pu_geo.errors import ProjectError
from pu_geo.project import backups, contents, import_log, in_use, labels, removals, runs, store, versions
from pu_geo.project.layout import Layout, write_json
from pu_geo.project.recovered import Recovered
from pu_geo.records import FootprintTable
from pu_geo.services.project import recovery, removing
from pu_geo.services.project.recovery import Restored
from pu_geo.tasks.project import remove as task

PICTURES = "quicklooks/pyramid.json"  # of what goes and comes with footprints, any file will do
IN_PLACE = pytest.mark.parametrize("in_place", [False, True])


def replace_footprints(layout: Layout, table: FootprintTable) -> int:
    """Put others into the place of all footprints, as the job does; return the removal's number."""
    gone = store.call(layout, contents.building_ids)
    layout.quicklooks.mkdir(exist_ok=True)
    (layout.folder / PICTURES).write_text("before")
    made = layout.quicklooks / "pyramid.new.json"
    made.write_text("after")

    def change(db: sqlite3.Connection) -> None:
        contents.remove_footprints(db, gone)
        import_log.import_footprints(db, table, "new.geojson", replaces=True)

    found = removing.footprint_exchange(layout, "new.geojson", gone, [], n_same=0, n_new=len(table.wkb))
    done = removing.carry_out(
        layout, found, "ann", watched=task._FOOTPRINTS, change=change, files=[PICTURES], new={PICTURES: made}
    )
    return done.number


def restore(layout: Layout, *, in_place: bool) -> Restored:
    return recovery.restore_in_place(layout) if in_place else recovery.restore(layout)


def damage(layout: Layout, table: str) -> None:
    in_use.let_go(layout)
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = int(db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0])
    with layout.gpkg.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\x77" * 4096)


@IN_PLACE
@pytest.mark.parametrize("damaged", ["", "areas"])
def test_replaced_footprints_stay_replaced_and_come_back_by_undo(project: Layout, damaged: str, *, in_place: bool) -> None:
    click(project, "b1", "b2")
    before = store.call(project, contents.footprints)
    number = replace_footprints(project, square_table(15, prefix="n"))
    click(project, "n1")
    if damaged:
        damage(project, damaged)
    done = restore(project, in_place=in_place)
    assert done.backup is not None
    assert done.backup.reason == "removal"
    layout = done.layout
    assert store.call(layout, contents.building_ids) == [f"n{i}" for i in range(15)]
    assert (layout.folder / PICTURES).read_text() == "after"
    assert store.call(layout, labels.last_event) == 3
    removing.undo(layout, number, "ann")
    assert store.call(layout, contents.footprints).wkb == before.wkb
    assert (layout.folder / PICTURES).read_text() == "before"


@IN_PLACE
def test_where_the_new_footprints_cannot_be_read_all_is_as_in_the_backup_and_it_says_so(
    project: Layout, *, in_place: bool
) -> None:
    replace_footprints(project, square_table(15, prefix="n"))
    replace_footprints(project, square_table(15, prefix="m"))  # wrote "before" and "after" once more
    (project.folder / PICTURES).write_text("third")
    oldest = backups.all_backups(project)[-1]
    damage(project, "footprints")
    done = recovery.restore_in_place(project, str(oldest.path)) if in_place else recovery.restore(project, str(oldest.path))
    assert store.call(done.layout, contents.building_ids) == [f"b{i}" for i in range(20)]
    assert (done.layout.folder / PICTURES).read_text() == "before"
    assert store.call(done.layout, removals.all_removals) == []
    assert done.rows.is_older
    assert any("what the project has of them since cannot be read as a whole" in note for note in done.notes)


@IN_PLACE
def test_a_lost_log_of_removals_takes_no_newer_footprints(project: Layout, *, in_place: bool) -> None:
    replace_footprints(project, square_table(15, prefix="n"))
    damage(project, "removal")
    done = restore(project, in_place=in_place)
    assert store.call(done.layout, contents.building_ids) == [f"b{i}" for i in range(20)]
    assert (done.layout.folder / PICTURES).read_text() == "before"
    assert done.rows.is_older


def test_a_replaced_scene_stays_replaced(project: Layout) -> None:
    old = store.call(project, contents.scenes)[0]
    new = replace(old, scene_id="post-2", path="/nowhere/better.tif", sha256="x")
    number = removing.carry_out(
        project, removing.replacement(project, "post-1", new.path), "ann", watched=task._SCENES,
        change=lambda db: contents.exchange_scenes(db, [old], [new], small_grid(), None),
    ).number  # fmt: skip
    layout = recovery.restore(project).layout
    assert [scene.path for scene in store.call(layout, contents.scenes)] == [new.path]
    assert store.call(layout, contents.grid) == small_grid()
    removing.undo(layout, number, "ann")
    assert [scene.path for scene in store.call(layout, contents.scenes)] == [old.path]


def test_changed_outlines_stay_changed(project: Layout) -> None:
    before = store.call(project, contents.footprints)
    shifted = [shapely.to_wkb(shapely.affinity.translate(shapely.from_wkb(wkb), 5, 0)) for wkb in before.wkb]
    moved = replace(before, wkb=[bytes(wkb) for wkb in shifted])
    ids = list(before.building_ids)
    found = removing.footprint_exchange(project, "n.geojson", [], ids, n_same=0, n_new=0)
    removing.carry_out(
        project, found, "ann", watched=task._FOOTPRINTS, change=lambda db: contents.change_outlines(db, moved, ids)
    )
    layout = recovery.restore(project).layout
    assert store.call(layout, contents.footprints).wkb == moved.wkb


@IN_PLACE
def test_a_removed_run_and_chips_stay_removed_and_come_back_by_undo(project: Layout, *, in_place: bool) -> None:
    add_run(project, "gone")
    add_run(project, "kept")
    add_chips(project, ["b1"], "unused")
    run = removing.remove(project, "run", "gone", "ann").number
    chips = removals.remove(
        project, "chips", "unused", analyst="ann", watched=[removals.Watched("chip_set")], files=["chips/unused.json"],
        change=lambda db: db.execute("DELETE FROM chip_set"), facts={"title": "chips", "chip_sets": ["unused"]},
    ).number  # fmt: skip
    oldest = backups.all_backups(project)[-1]
    click(project, "b1")
    in_use.let_go(project)
    name = str(oldest.path)
    layout = (recovery.restore_in_place(project, name) if in_place else recovery.restore(project, name)).layout
    with store.connect(layout) as db:
        assert [facts.run_id for facts in runs.all_runs(db)] == ["kept"]
        assert {row[0] for row in db.execute("SELECT DISTINCT run_id FROM score")} == {"kept"}
        assert contents.latest_chip_set(db) is None
        assert labels.current_labels(db) == {"b1": "positive"}
    for number in (chips, run):
        removing.undo(layout, number, "ann")
    with store.connect(layout) as db:
        assert {facts.run_id for facts in runs.all_runs(db)} == {"gone", "kept"}
        assert db.execute("SELECT count(*) FROM score WHERE run_id = 'gone'").fetchone() == (20,)
    assert (layout.run("gone") / "scores.npy").is_file()
    assert layout.chip_facts("unused").is_file()


def test_a_removal_that_was_undone_since_is_not_listed_again(project: Layout) -> None:
    add_run(project, "one")
    add_run(project, "two")
    number = removing.remove(project, "run", "one", "ann").number
    backups.make(project, "asked")
    removing.undo(project, number, "ann")
    layout = recovery.restore(project).layout
    assert removing.removed(layout) == []
    assert {run.run_id for run in store.call(layout, runs.all_runs)} == {"one", "two"}
    with pytest.raises(ProjectError, match="undone already"):
        removing.undo(layout, number, "ann")


@pytest.mark.parametrize("damaged", ["", "footprints"])
def test_a_version_that_was_removed_for_good_keeps_its_number(project: Layout, damaged: str) -> None:
    write_json(project.exports / "v1" / "version.json", {"version": "v1", "made_at": store.now(), "run_id": "r"})
    number = removing.remove(project, "export", "v1", "ann").number
    removing.reclaim(project, [number], "ann")
    if damaged:
        damage(project, damaged)
    layout = recovery.restore(project, str(backups.all_backups(project)[-1].path)).layout
    assert versions.next_number(layout) == 2
    assert removing.removed(layout) == []


@pytest.mark.parametrize("damaged", ["", "areas"])
@pytest.mark.parametrize("backup_first", [False, True])
def test_label_events_of_removed_buildings_come_over(project: Layout, damaged: str, *, backup_first: bool) -> None:
    oldest = backups.make(project, "asked")
    click(project, "b1", "b9")
    task.remove_footprints(job_of(project), name='["b9"]', analyst="ann")
    click(project, "b2")
    backup = oldest if backup_first else backups.make(project, "asked")
    with store.connect(project) as db:
        for op in ("u1", "u2"):  # of b2, then of b1 and b9
            labels.undo(db, op, analyst="ann", screen="map")
        before = labels.current(db, at=labels.last_event(db))
    if damaged:
        damage(project, damaged)
    done = recovery.restore(project, str(backup.path))
    assert (done.rows.left_out, done.rows.unreadable) == (0, 0)
    with store.connect(done.layout) as db:
        assert labels.current(db, at=labels.last_event(db)) == before


def test_none_is_lost_is_not_claimed_beside_events_that_were_left_out(project: Layout) -> None:
    claim = "None that is known of is lost"
    notes = [" ".join(Restored(project, None, Recovered(events=1, left_out=n), [], None).notes) for n in (0, 1)]
    assert [claim in words for words in notes] == [True, False]


def test_a_number_of_the_project_never_goes_back(project: Layout) -> None:
    with store.connect(project) as db:
        db.execute("INSERT INTO pugeo_meta VALUES ('made_up', '9')")
    backups.make(project, "asked")
    with store.connect(project) as db:
        db.execute("UPDATE pugeo_meta SET value = '10' WHERE key = 'made_up'")
    layout = recovery.restore(project).layout
    with store.connect(layout) as db:
        assert db.execute("SELECT value FROM pugeo_meta WHERE key = 'made_up'").fetchone() == ("10",)


def test_where_the_files_of_a_removal_are_gone_no_backup_is_promised_to_hold_them(project: Layout) -> None:
    add_run(project, "gone")
    number = removing.remove(project, "run", "gone", "ann").number
    shutil.rmtree(project.trash)
    with pytest.raises(ProjectError, match="are not in") as caught:
        removing.undo(project, number, "ann")
    assert "Backups of the project hold no such files" in caught.value.hint
