"""The Imagery page, without a browser: what is next, accounts of files, the area of interest, dates, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_parts import plain, press, show
from small_parts import small_grid, small_project, small_scene, square_table

from pu_geo import jobs
from pu_geo.project import aoi, contents, import_log, store
from pu_geo.project.layout import Layout
from pu_geo.records import Scene
from pu_geo.scene_state import ends_sha256, sha256_of
from pu_geo.services.project import browsing

pytestmark = pytest.mark.usefixtures("home")

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"


def wait(layout: Layout, task: str) -> jobs.JobView:
    newest = next(job for job in jobs.all_jobs(layout) if job.task == task)
    return jobs.wait(layout, newest.job_id, seconds=60)


def test_an_empty_project_shows_one_step_and_what_the_others_need(tmp_path: Path) -> None:
    app = show("imagery", store.create(tmp_path / "empty.pugeo", "Empty"))
    assert [(step.label.split("**")[1], step.proto.expanded) for step in app.expander] == [
        ("1 · Scenes", True), ("2 · Footprints", False), ("3 · Chips", False),
    ]  # fmt: skip
    assert "Add a post-event scene first." in plain(app)
    assert "Add footprints first." in plain(app)
    labels = {field.label for field in [*app.text_area, *app.text_input, *app.number_input]}
    assert labels == {
        "Post-event images, one path a line", "Pre-event images, one path a line (optional)", "Red, green and blue bands",
        "CRS if missing", "Pixel size in m, for images without georeference", "Folder with images/ and labels/",
        "Only names that start with",
    }  # fmt: skip
    assert [button.key for button in app.button if button.proto.type == "primary" and not button.disabled] == [
        "all-scenes-browse"
    ]


def test_the_account_of_each_file_is_shown_with_its_reasons(project: Layout) -> None:
    table = replace(
        square_table(22),
        n_in=25,
        n_dropped=3,
        dropped={"empty": 3},
        is_repaired=np.arange(22) == 21,
        notes=("3 were empty.",),
    )
    with store.connect(project) as db:
        import_log.import_footprints(db, table, "houses_*.geojson")
    app = show("imagery", project)
    shown = next(frame.value for frame in app.dataframe if "Features in the file" in frame.value.columns)
    columns = ["File", "Features in the file", "Added unchanged", "Added repaired", "Left out", "Why left out"]
    assert shown[columns].to_numpy().tolist() == [["houses_*.geojson", 25, 1, 1, 23, "3 empty, 20 here already"]]
    assert "houses_*.geojson: 3 were empty. 20 footprint(s) are in the project already" in plain(app)


def test_an_area_is_typed_taken_away_and_put_back(project: Layout) -> None:
    app = show("imagery", project)
    app.text_input(key="aoi_text").input(WEST).run()
    press(app, "Set the area")
    assert wait(project, "add_aoi").state == "done"
    app = show("imagery", project)
    assert f"{WEST} is the area of interest, 34,000 m2." in plain(app)
    assert "15 of the 20 footprints that are here lie outside it and stay" in plain(app)
    press(app, "Remove the area")
    with store.connect(project) as db:
        assert aoi.current(db) is None
    app = show("imagery", project)
    assert "is the area of interest, 0.03" not in plain(app)
    press(app, "restore-aoi")
    with store.connect(project) as db:
        assert aoi.current(db) is not None


def test_an_area_named_by_file_and_text_at_once_is_refused_in_words(project: Layout) -> None:
    app = show("imagery", project)
    app.text_input(key="aoi_text").input(WEST).run()
    app.text_input(key="aoi_path").input("/nowhere.geojson").run()
    app = press(app, "Set the area")
    assert "or two were" in plain(app)
    assert jobs.all_jobs(project) == []


def test_headings_of_the_pairs_figures_are_never_cut(project: Layout) -> None:
    """The style that lets them take two lines names the container that the figures are in."""
    app = show("imagery", project)
    headings = [metric.label for metric in app.metric]
    assert headings
    (style,) = [part.proto.body for part in app.get("html") if "stMetricLabel" in part.proto.body]
    assert ".st-key-pair-figures " in style
    assert "white-space: normal" in style


def test_bands_that_are_no_bands_are_refused_in_words(project: Layout) -> None:
    app = show("imagery", project)
    app.text_area(key="post_paths").input("/nowhere.tif").run()
    app.text_input(key="rgb_bands").input("3, 2").run()
    app = press(app, "add-scenes")
    assert app.text_area(key="post_paths").value == "/nowhere.tif"
    assert "does not name three bands" in plain(app)
    assert jobs.all_jobs(project) == []


def test_what_was_written_of_one_projects_files_is_not_there_in_another(project: Layout, tmp_path: Path) -> None:
    """Bands, CRS and pixel size in a closed list went with the next project's scenes."""
    other = small_project(tmp_path / "other.pugeo")
    app = show("imagery", project)
    for field_of in (app.text_area(key="post_paths"), app.text_input(key="rgb_bands"), app.text_input(key="file_crs")):
        field_of.input("3, 2, 1")
    app.number_input(key="pixel_m").set_value(0.5).run()
    labels = [each.proto.popover.label for each in app.get("popover")]
    assert "Bands 3, 2, 1 · 3, 2, 1 · 0.5 m" in labels, "a closed list says what is in it"
    app.session_state["project"] = str(other.folder)
    app.run()
    fields = [app.text_area(key="post_paths"), app.text_input(key="rgb_bands"), app.text_input(key="file_crs")]
    assert [each.value for each in fields] == ["", "", ""]
    assert app.number_input(key="pixel_m").value is None


def test_a_pair_shows_what_was_repaired_and_what_comes_next(project: Layout) -> None:
    pre = replace(small_scene("pre"), crs="EPSG:4326", gsd_m=1.5)
    with store.connect(project) as db:
        contents.add_scenes(db, [pre], small_grid(), 0.6)
    app = show("imagery", project)
    assert [button.label for button in app.button if button.proto.type == "primary" and not button.disabled] == [
        "Align pre and post"
    ]
    assert "Check before you rely on the pair" in plain(app)
    assert "Pre covers post: 60 %" in plain(app)
    repaired = "pre-1 reprojected from EPSG:4326 to EPSG:32615; resampled from 1.50 to 0.50 m"
    assert f"Changes while reading: post-1 unchanged · {repaired}." in plain(app)


def test_scenes_are_picked_in_several_folders_and_sorted_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joplin's two folders hold a pre.tif and a post.tif each."""
    root = tmp_path / "scenes"
    for name in ("00/pre.tif", "00/post.tif", "01/pre.tif", "01/post.tif"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"II*\0")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, str(root))
    app = press(show("imagery", store.create(tmp_path / "empty.pugeo", "Empty")), "all-scenes-browse")
    for folder in ("00", "01"):
        press(app, folder)
        press(app, "all-scenes-all")
        press(app, "all-scenes-way-0")
    press(app, "all-scenes-add")
    for role in ("pre", "post"):
        found = app.text_area(key=f"{role}_paths").value
        assert found.splitlines() == [str(root / folder / f"{role}.tif") for folder in ("00", "01")]
    assert "all-scenes-add" not in [button.key for button in app.button], "the dialog is closed"


def test_boxes_of_the_picker_choose_one_by_one_and_hold_after_all_were_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.tif", "b.tif", "c.tif"):
        (tmp_path / name).write_bytes(b"II*\0")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, str(tmp_path))
    app = press(show("imagery", store.create(tmp_path / "empty.pugeo", "Empty")), "post_paths-picker-browse")

    def boxes() -> dict[str, bool]:
        return {box.label.replace("\\", ""): box.value for box in app.checkbox}

    next(box for box in app.checkbox if box.label.startswith("b")).check().run()
    assert boxes() == {"a.tif": False, "b.tif": True, "c.tif": False}
    old = [box.key for box in app.checkbox]
    press(app, "post_paths-picker-all")
    assert set(boxes().values()) == {True}
    assert not {*old} & {box.key for box in app.checkbox}, "what a browser still sends of the old boxes counts for nothing"
    next(box for box in app.checkbox if box.label.startswith("a")).uncheck().run()
    press(app, "post_paths-picker-add")
    assert app.text_area(key="post_paths").value.splitlines() == [str(tmp_path / "b.tif"), str(tmp_path / "c.tif")]


def test_what_was_added_leaves_its_field_and_what_was_not_stays(project: Layout) -> None:
    app = show("imagery", project, post_paths=f"{small_scene().path}\n/data/not there.tif")
    assert app.text_area(key="post_paths").value == "/data/not there.tif"


def test_scenes_of_equal_names_are_shown_with_their_folders(project: Layout) -> None:
    here = project.folder / "sources" / "0f3a" / "pre.tif"
    paths = ["/data/joplin_00/pre.tif", "/data/joplin_01/pre.tif", str(here)]
    with store.connect(project) as db:
        scenes = [replace(small_scene("pre"), scene_id=f"pre-{i}", path=path) for i, path in enumerate(paths)]
        contents.add_scenes(db, scenes, small_grid(), 1.0)
    app = show("imagery", project)
    table = next(frame.value for frame in app.dataframe if "File" in frame.value.columns and "CRS" in frame.value.columns)
    assert table["File"].tolist()[1:] == ["joplin_00/pre.tif", "joplin_01/pre.tif", "pre.tif (copied into the project)"]


def scenes_in(folder: Path, *names: str) -> list[Scene]:
    """Write small files, and return made-up post scenes of them."""
    folder.mkdir(parents=True)
    found = []
    for i, name in enumerate(names):
        path = folder / name
        path.write_bytes(name.encode() * 100)
        known = {"size_bytes": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns, "ends_sha256": ends_sha256(path)}
        found.append(replace(small_scene(), scene_id=f"post-{i + 1}", path=str(path), sha256=sha256_of(path), **known))
    return found


def test_files_that_were_moved_are_found_again_from_the_page(tmp_path: Path) -> None:
    layout, there = store.create(tmp_path / "event.pugeo", "Event"), tmp_path / "imagery"
    with store.connect(layout) as db:
        contents.add_scenes(db, scenes_in(there, "a.tif", "b_[link](x.y).tif"), small_grid())
    app = show("imagery", layout)
    assert "missing or changed" not in plain(app)
    there.rename(tmp_path / "elsewhere")
    app = show("imagery", layout)
    assert f"post-1 (a.tif), post-2 (b_[link](x.y).tif)**: no longer in {there}." in plain(app)
    press(app, "Find the files")
    assert "No file or folder was named." in plain(app)
    app = show("imagery", layout)
    (field,) = (field for field in app.text_input if field.label == "The folder where these files are now")
    field.input(str(tmp_path / "elsewhere")).run()
    press(app, "Find the files")
    assert wait(layout, "relink").state == "done"
    assert "missing or changed" not in plain(show("imagery", layout))


def test_a_file_that_was_replaced_is_shown_and_a_wrong_one_refused(tmp_path: Path) -> None:
    layout, there = store.create(tmp_path / "event.pugeo", "Event"), tmp_path / "imagery"
    with store.connect(layout) as db:
        contents.add_scenes(db, scenes_in(there, "a.tif"), small_grid())
    (there / "a.tif").write_bytes(b"b.tif" * 100)
    app = show("imagery", layout)
    assert f"post-1 (a.tif)**: changed. {there} has another file of this name now." in plain(app)
    (field,) = (field for field in app.text_input if field.label == "Where the file is now")
    field.input(str(there / "a.tif")).run()
    press(app, "Find the file")
    assert (job := wait(layout, "relink")).state == "failed"
    assert "is not the file of post-1" in job.problem
    assert "is not the file of post-1" in plain(show("imagery", layout))
