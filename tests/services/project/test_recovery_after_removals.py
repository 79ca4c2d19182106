"""A restore from a backup made before something was removed or replaced: one state as a whole, never a mixture of two."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from functools import partial

import pytest
from damage_parts import overwrite, page_of
from small_parts import add_chips, add_run, click, job_of, small_grid, square_table

from pu_geo.project import backups, contents, import_log, labels, removals, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import FootprintTable, LabelOp
from pu_geo.services.project import recovery, removing
from pu_geo.services.project.recovery import Restored
from pu_geo.tasks.project import remove as task

PICTURES = "quicklooks/pyramid.json"  # of what goes and comes with footprints, any file will do


def replace_all(layout: Layout, table: FootprintTable) -> None:
    """Put others into the place of all footprints, as the job does."""
    gone = store.call(layout, contents.building_ids)
    layout.quicklooks.mkdir(exist_ok=True)
    (layout.folder / PICTURES).write_text("before")
    made = layout.quicklooks / "pyramid.new.json"
    made.write_text("after")

    def change(db: sqlite3.Connection) -> None:
        contents.remove_footprints(db, gone)
        import_log.import_footprints(db, table, "new.geojson", replaces=True)

    found = removing.footprint_plan(layout, "new.geojson", "footprints", [], gone, change)
    removing.carry_out(layout, replace(found, files=[PICTURES]), "ann", new={PICTURES: made})


def restore(layout: Layout, backup: str | None = None, *, in_place: bool) -> Restored:
    given = [] if backup is None else [backup]
    return recovery.restore_in_place(layout, *given) if in_place else recovery.restore(layout, *given)


@pytest.mark.parametrize(("damaged", "in_place"), [("", False), ("areas", True)])
def test_replaced_footprints_stay_replaced_and_come_back_by_undo(project: Layout, damaged: str, *, in_place: bool) -> None:
    click(project, "b1", "b2")
    before = store.call(project, contents.footprints)
    replace_all(project, square_table(15, prefix="n"))
    click(project, "n1")
    if damaged:
        overwrite(project, page_of(project, damaged))
    done = restore(project, in_place=in_place)
    assert done.backup is not None
    assert done.backup.reason == "removal"
    layout = done.layout
    assert store.call(layout, contents.building_ids) == [f"n{i}" for i in range(15)]
    assert (layout.folder / PICTURES).read_text() == "after"
    assert store.call(layout, labels.last_event) == 3
    removing.undo(layout, "ann")
    assert store.call(layout, contents.footprints).wkb == before.wkb
    assert (layout.folder / PICTURES).read_text() == "before"


@pytest.mark.parametrize("in_place", [False, True])
def test_where_new_footprints_cannot_be_read_all_is_as_in_the_backup(project: Layout, *, in_place: bool) -> None:
    replace_all(project, square_table(15, prefix="n"))
    replace_all(project, square_table(15, prefix="m"))  # wrote "before" and "after" once more
    (project.folder / PICTURES).write_text("third")
    oldest = backups.all_backups(project)[-1]
    overwrite(project, page_of(project, "footprints"))
    done = restore(project, str(oldest.path), in_place=in_place)
    assert store.call(done.layout, contents.building_ids) == [f"b{i}" for i in range(20)]
    assert (done.layout.folder / PICTURES).read_text() == "before"
    assert store.call(done.layout, removals.all_removals) == []
    assert done.rows.is_older
    assert any("what the project has of them since cannot be read as a whole" in note for note in done.notes)


def test_a_replaced_scene_stays_replaced_with_its_grid_and_comes_back_by_undo(project: Layout) -> None:
    old, wider = store.call(project, contents.scenes)[0], replace(small_grid(), width=small_grid().width + 7)
    new = replace(old, scene_id="post-2", path="/nowhere/better.tif", sha256="x")
    found = removing.plan(project, "scene", old.scene_id, [new.path])
    change = partial(contents.exchange_scenes, gone=[old], new=[new], grid=wider, pre_share=None)
    removing.carry_out(project, replace(found, change=change), "ann")
    layout = recovery.restore(project).layout
    assert (store.call(layout, contents.scenes), store.call(layout, contents.grid)) == ([new], wider)
    removing.undo(layout, "ann")
    assert (store.call(layout, contents.scenes), store.call(layout, contents.grid)) == ([old], small_grid())


def test_label_events_of_removed_buildings_come_over_from_a_damaged_database(project: Layout) -> None:
    oldest = backups.make(project, "asked")
    click(project, "b1", "b9")
    task.remove_footprints(job_of(project), name='["b9"]', analyst="ann")
    with store.connect(project) as db:
        labels.undo(db, "u1", analyst="ann", screen="map")  # of both
        labels.append(db, [LabelOp("r1", step="redo")], analyst="ann", screen="map")
        before = labels.current(db, at=labels.last_event(db))
    assert list(before) == ["b1", "b9"]
    overwrite(project, page_of(project, "areas"))
    done = restore(project, str(oldest.path), in_place=False)
    assert (done.rows.left_out, done.rows.unreadable) == (0, 0)
    with store.connect(done.layout) as db:
        assert labels.current(db, at=labels.last_event(db)) == before


def test_a_removed_run_and_chips_stay_removed_and_come_back_by_undo(project: Layout) -> None:
    add_run(project, "gone")
    add_run(project, "kept")
    add_chips(project, ["b1"], "unused")
    for kind, name in (("run", "gone"), ("chips", "unused")):
        removing.start(project, removing.plan(project, kind, name), "ann")
    oldest = backups.all_backups(project)[-1]
    click(project, "b1")
    layout = restore(project, str(oldest.path), in_place=True).layout
    with store.connect(layout) as db:
        assert [facts.run_id for facts in runs.all_runs(db)] == ["kept"]
        assert {row[0] for row in db.execute("SELECT DISTINCT run_id FROM score")} == {"kept"}
        assert contents.latest_chip_set(db) is None
        assert labels.current_labels(db) == {"b1": "positive"}
    for _ in range(2):
        removing.undo(layout, "ann")
    with store.connect(layout) as db:
        assert {facts.run_id for facts in runs.all_runs(db)} == {"gone", "kept"}
        assert db.execute("SELECT count(*) FROM score WHERE run_id = 'gone'").fetchone() == (20,)
    assert (layout.run("gone") / "scores.npy").is_file()
    assert layout.chip_facts("unused").is_file()


def test_a_number_of_the_project_never_goes_back(project: Layout) -> None:
    with store.connect(project) as db:
        db.execute("INSERT INTO pugeo_meta VALUES ('made_up', '9')")
    backups.make(project, "asked")
    with store.connect(project) as db:
        db.execute("UPDATE pugeo_meta SET value = '10' WHERE key = 'made_up'")
    with store.connect(recovery.restore(project).layout) as db:
        assert db.execute("SELECT value FROM pugeo_meta WHERE key = 'made_up'").fetchone() == ("10",)
