"""The Imagery page, without a browser: what is next, accounts of files, the area of interest, dates, refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import field, plain, press, show
from small_parts import small_grid, small_project, small_scene, square_table

from pu_geo import jobs
from pu_geo.files import sha256_of
from pu_geo.geo.scene_state import ends_sha256
from pu_geo.lifecycle import browsing, projects
from pu_geo.records import Scene
from pu_geo.store import aoi, contents, import_log, store
from pu_geo.store.layout import Layout, write_json
from pu_geo.ui.imagery import texts

pytestmark = pytest.mark.usefixtures("home")

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"


def own(layout: Layout, name: str) -> str:
    return f"{name}-{projects.token_of(layout)}"


def wait(layout: Layout, task: str) -> jobs.JobView:
    newest = next(job for job in jobs.all_jobs(layout) if job.task == task)
    return jobs.wait(layout, newest.job_id, seconds=60)


def test_the_account_of_each_file_is_shown_with_its_reasons(project: Layout) -> None:
    facts = {"n_in": 25, "n_dropped": 3, "dropped": {"empty": 3}, "notes": ("3 were empty.",)}
    table = replace(square_table(22), is_repaired=np.arange(22) == 21, **facts)
    with store.connect(project) as db:
        import_log.import_footprints(db, table, "houses_*.geojson")
    app = show("imagery", project)
    shown = next(frame.value for frame in app.dataframe if "Features in the file" in frame.value.columns)
    columns = ["File", "Features in the file", "Added unchanged", "Added repaired", "Left out", "Why left out"]
    assert shown[columns].to_numpy().tolist() == [["houses_*.geojson", 25, 1, 1, 23, "3 empty, 20 here already"]]
    assert "houses_*.geojson: 3 were empty. 20 footprint(s) are in the project already" in plain(app)


def test_an_area_is_typed_taken_away_and_put_back(project: Layout) -> None:
    app = show("imagery", project)
    app.text_input(key=own(project, "aoi_text")).input(WEST).run()
    app.text_input(key=own(project, "aoi_path")).input("/nowhere.geojson").run()
    assert "named once" in plain(press(app, "Set the area"))
    assert jobs.all_jobs(project) == []
    app.text_input(key=own(project, "aoi_path")).input("").run()
    press(app, "Set the area")
    assert wait(project, "add_aoi").state == "done"
    app = show("imagery", project)
    assert f"{WEST} is the area of interest, 34,000 m2." in plain(app)
    assert "15 of the 20 footprints that are here lie outside it and stay" in plain(app)
    for button, is_there in (("Remove the area", False), ("restore-aoi", True)):
        press(app, button)
        assert (store.call(project, aoi.current) is not None) == is_there
        app = show("imagery", project)


def test_what_was_written_of_one_projects_files_is_not_there_in_another(project: Layout, tmp_path: Path) -> None:
    """Bands, CRS and pixel size in a closed list went with the next project's scenes."""
    other = small_project(tmp_path / "other.pugeo")
    key = {name: own(project, name) for name in ("post_paths", "rgb_bands", "file_crs", "pixel_m")}
    app = show("imagery", project, **{key["post_paths"]: f"{small_scene().path}\n/nowhere.tif"})
    assert app.text_area(key=key["post_paths"]).value == "/nowhere.tif", "what was added leaves its field"
    app.text_input(key=key["rgb_bands"]).input("3, 2").run()
    app = press(app, "add-scenes")
    assert "does not name three bands" in plain(app)
    assert (app.text_area(key=key["post_paths"]).value, jobs.all_jobs(project)) == ("/nowhere.tif", [])
    app.text_input(key=key["file_crs"]).input("3, 2, 1")
    app.number_input(key=key["pixel_m"]).set_value(0.5).run()
    labels = [each.proto.popover.label for each in app.get("popover")]
    assert "Bands 3, 2 · 3, 2, 1 · 0.5 m" in labels, "a closed list says what is in it"
    app.session_state["project"] = str(other.folder)
    app.run()
    fields = [field(app, label) for label in (texts.POST_PATHS, texts.RGB, texts.CRS_MISSING, texts.PIXEL_M)]
    assert [each.value for each in fields] == ["", "", "", None]


def test_a_pair_shows_what_was_repaired_and_what_comes_next(project: Layout) -> None:
    here = project.folder / "sources" / "0f3a" / "pre.tif"
    pre = replace(small_scene("pre"), crs="EPSG:4326", gsd_m=1.5, path="/data/joplin_00/pre.tif")
    others = [replace(pre, scene_id=f"pre-{i}", path=path) for i, path in ((2, "/data/joplin_01/pre.tif"), (3, str(here)))]
    with store.connect(project) as db:
        contents.add_scenes(db, [pre, *others], small_grid(), 0.6)
    app = show("imagery", project)
    assert [button.key for button in app.button if button.proto.type == "primary" and not button.disabled] == ["main-chip"]
    for wanted in (
        "Check this imagery before you rely on it",
        "60 %",
        "from EPSG:4326 to EPSG:32615",
        "from 1.50 to 0.50 m",
    ):
        assert wanted in plain(app)
    table = next(frame.value for frame in app.dataframe if "CRS" in frame.value.columns)
    assert table[["Scene", "Pre or post"]].to_numpy().tolist()[:2] == [["post-1", "Post-event"], ["pre-1", "Pre-event"]]
    app.toggle(key="change-scenes").set_value(True).run()
    app.text_area(key=own(project, "scene_new_paths")).set_value("/data/new.tif").run()
    assert "new.tif takes its place" in plain(press(app, "replace-scene"))


def test_sites_are_shown_with_what_they_lack_and_named(tmp_path: Path, started: list[tuple[str, dict[str, Any]]]) -> None:
    event, far = small_project(tmp_path / "event.pugeo", sites=(20, 5)), (0.5, 0.0, 500_320.0, 0.0, -0.5, 4_000_020.0)
    with store.connect(event) as db:
        contents.add_scenes(db, [replace(small_scene(), scene_id="post-2", transform=far)], contents.grid(db))
    pyramid = {"tile_px": 256, "max_zoom": 4, "width": 480, "height": 2128, "resolutions": [16, 8, 4, 2, 1]}
    write_json(event.quicklooks / "post" / "pyramid.json", pyramid)
    app = show("imagery", event)
    assert "1 of 2 sites has no buildings." in plain(app)
    assert "**Scenes without buildings: 1 of 2.** Add footprints for post-2, or nothing is mapped there." in plain(app)
    assert any("20 buildings · 1 of 2 scenes have none" in each.label for each in app.expander)
    assert [button.key for button in app.button if button.proto.type == "primary"] == ["main-footprints-browse"]
    drawn = next(part.proto.body for part in app.get("html") if "pugeo-sites" in part.proto.body)
    assert "<b>Site 2</b> 0 buildings, 1 post and 0 pre scenes in pixels of 0.5 m; no pre-event scene; no buildings" in drawn
    assert drawn.count("<section>") == drawn.count("<figure>") == 2
    app.toggle(key="change-sites").set_value(True).run()
    app.multiselect(key="site-what").set_value(["Site 2", "post-1"]).run()
    app.text_input(key=own(event, "site-name")).set_value(" Town ").run()
    press(app, "put-in-site")
    assert started == [("put_in_site", {"what": ["Site 2", "post-1"], "name": "Town"})]


def test_scenes_are_picked_in_several_folders_and_added_by_their_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[tuple[str, dict[str, Any]]]
) -> None:
    """Joplin's two folders hold a pre.tif and a post.tif each."""
    root = tmp_path / "scenes"
    for name in ("00/pre.tif", "00/post.tif", "00/other_post.tif", "01/pre.tif", "01/post.tif"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"II*\0")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, str(root))
    app = press(show("imagery", store.create(tmp_path / "empty.pugeo", "Empty")), "all-scenes-browse")

    def box(name: str) -> Any:
        return next(box for box in app.checkbox if box.label.replace("\\", "") == name)

    press(app, "00")
    box("pre.tif").check().run()
    assert [one.value for one in (box("pre.tif"), box("post.tif"))] == [True, False]
    old = {box.key for box in app.checkbox}
    press(app, "all-scenes-all")
    assert all(box.value for box in app.checkbox)
    assert not old & {box.key for box in app.checkbox}, "what a browser still sends of the old boxes counts for nothing"
    box("other_post.tif").uncheck().run()
    press(app, "all-scenes-way-0")
    press(app, "01")
    press(app, "all-scenes-all")
    assert "2 pre and 2 post, by their names." in plain(app)
    press(app, "all-scenes-add")
    ((task, args),) = started
    assert task == "add_scenes"
    for role in ("pre", "post"):
        assert args[role] == [str(root / folder / f"{role}.tif") for folder in ("00", "01")]
    assert "all-scenes-add" not in [button.key for button in app.button], "the dialog is closed"


def test_a_date_that_no_name_tells_is_asked_for_and_a_refused_folder_says_how_to_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[tuple[str, dict[str, Any]]]
) -> None:
    for name in ("scenes/a/20110529.tif", "scenes/b/pre.tif"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"II*\0")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, str(tmp_path / "scenes"))
    app = press(show("imagery", store.create(tmp_path / "empty.pugeo", "Empty")), "all-scenes-browse")
    app.text_input(key="all-scenes-filter").input(str(tmp_path)).run()
    assert f"{browsing.ROOTS_VARIABLE}={tmp_path} pu-geo app" in plain(app)
    app.text_input(key="all-scenes-filter").input(str(tmp_path / "scenes")).run()
    app = press(app, "all-scenes-below")
    assert "0 post, by their names" in plain(app)
    assert next(button for button in app.button if button.key == "all-scenes-add").disabled
    app.radio(key="all-scenes-rest").set_value("post").run()
    press(app, "all-scenes-add")
    assert {role: [Path(path).name for path in started[0][1][role]] for role in ("pre", "post")} == {
        "pre": ["pre.tif"],
        "post": ["20110529.tif"],
    }


def scenes_in(folder: Path, *names: str) -> list[Scene]:
    """Write small files, and return made-up post scenes of them."""
    folder.mkdir(parents=True)
    found = []
    for name in names:
        path = folder / name
        path.write_bytes(name.encode() * 100)
        known = {"size_bytes": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns, "ends_sha256": ends_sha256(path)}
        found.append(replace(small_scene(), scene_id=path.stem, path=str(path), sha256=sha256_of(path), **known))
    return found


def test_files_that_were_moved_are_found_again_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    layout, there = store.create(tmp_path / "event.pugeo", "Event"), tmp_path / "imagery"
    with store.connect(layout) as db:
        contents.add_scenes(db, scenes_in(there, "a.tif", "b_[link](x.y).tif"), small_grid())
    app = show("imagery", layout)
    assert "missing or changed" not in plain(app)
    there.rename(tmp_path / "elsewhere")
    app = show("imagery", layout)
    assert f"a and b_[link](x.y)**: no longer in {there}." in plain(app)
    assert "No file or folder was named." in plain(press(app, "Find the files"))
    field(app, "The folder where these files are now").input(str(tmp_path / "elsewhere")).run()
    press(app, "Find the files")
    assert wait(layout, "relink").state == "done"
    assert "missing or changed" not in plain(show("imagery", layout))
    changed = tmp_path / "elsewhere" / "a.tif"
    changed.write_bytes(b"b.tif" * 100)
    app = show("imagery", layout)
    assert "a**: changed." in plain(app)
    field(app, "Where the file is now").input(str(changed)).run()
    press(app, "Find the file")
    assert (job := wait(layout, "relink")).state == "failed"
    assert "is not the file of a:" in job.problem
    assert "is not the file of a:" in plain(show("imagery", layout))
