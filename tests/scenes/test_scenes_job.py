"""Scenes into a project: an xBD folder in one step, files of one name in several folders, the sample event with its radar."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely
from pyproj import Transformer
from small_parts import job_of, small_scene

from pu_geo.errors import ImageryError, JobCancelled, PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.scenes import layers, preparation
from pu_geo.scenes.actions import AddXbd
from pu_geo.scenes.chip_job import prepare
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.scenes.scenes_job import add_scenes, add_xbd, with_ids
from pu_geo.store import contents, import_log, labels, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

SIZE = 64
TO_UTM15 = Transformer.from_crs(4326, 32615, always_xy=True)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_of(store.create(tmp_path / "p.pugeo", "P"))


def pair(folder: Path, name: str, east: float, north: float = 4_100_000.0, n: int = 4) -> None:
    """A pre and a post picture of 64 x 64 pixels of 0.5 m with n buildings each, from (east, north) in UTM 15."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "labels").mkdir(exist_ok=True)
    for role in ("pre", "post"):
        pixels = np.random.default_rng(len(name) + int(east) % 1000).integers(0, 255, (3, SIZE, SIZE), dtype=np.uint8)
        pixels[0, 0] = int(east) % 251  # no two alike
        cv2.imwrite(str(folder / "images" / f"{name}_{role}_disaster.png"), pixels.transpose(1, 2, 0) + (role == "pre"))
        rows: dict[str, list[object]] = {"xy": [], "lng_lat": []}
        for i in range(n):
            ring = shapely.get_coordinates(shapely.box(12 * i + 2, 10 * (i % 3) + 5, 12 * i + 10, 10 * (i % 3) + 12))
            degrees = TO_UTM15.transform(east + 0.5 * ring[:, 0], north - 0.5 * ring[:, 1], direction="INVERSE")
            properties = {"uid": f"{name}-{i}", "subtype": ("destroyed", "no-damage", "un-classified")[i % 3]}
            for key, corners in (("xy", ring), ("lng_lat", np.stack(degrees, axis=-1))):
                rows[key].append({"properties": properties, "wkt": shapely.Polygon(corners).wkt})
        document = {"features": rows, "metadata": {"capture_date": "2011-05-29T17:29:25.433Z"}}
        (folder / "labels" / f"{name}_{role}_disaster.json").write_text(json.dumps(document))


@pytest.fixture
def xbd(tmp_path: Path) -> Path:
    """Two adjoining pairs, and one whose only building is too little to place it."""
    folder = tmp_path / "town"
    pair(folder, "joplin-tornado_00000000", 400_000)
    pair(folder, "joplin-tornado_00000001", 400_032)
    pair(folder, "joplin-tornado_00000002", 400_064, n=0)
    return folder


def stored(layout: Layout) -> tuple[list[str], dict[str, object]]:
    with store.connect(layout) as db:
        table = contents.footprints(db)
        damage = {b: row.get("damage") for b, row in zip(table.building_ids, table.attributes, strict=True)}
        return [scene.scene_id for scene in contents.scenes(db)], damage


def test_pictures_become_scenes_and_labels_become_footprints_once(job: Job, xbd: Path) -> None:
    result = add_xbd(job, folder=str(xbd))
    before = scenes, damage = stored(job.layout)
    assert scenes == [f"joplin-tornado_0000000{n}_{role}_disaster" for role in ("pre", "post") for n in (0, 1)]
    assert (result["width"], result["height"]) == (128, 64)  # two squares of 64 side by side
    assert (result["n_pictures"], result["n_left_out"], result["pre_share"]) == (6, 2, pytest.approx(1.0, abs=1e-3))
    assert "joplin-tornado_00000002_post_disaster.png" in str(result["notes"])
    footprints = result["footprints"]
    assert (footprints["n_in"], footprints["added"]) == (8, 8)
    kinds = ("destroyed", "no-damage", "un-classified", "destroyed")
    assert damage == {f"joplin-tornado_0000000{k}-{i}": kinds[i] for k in (0, 1) for i in range(4)}
    assert (job.layout.quicklooks / "pre" / "pyramid.json").is_file()
    assert store.call(job.layout, labels.last_event) == 0, "what xBD knows of damage is nobody's answer"
    assert add_xbd(job, folder=str(xbd))["added"] == []
    assert stored(job.layout) == before


def test_places_far_apart_are_refused_and_some_pictures_are_chosen_by_a_pattern(job: Job, xbd: Path) -> None:
    pair(xbd, "hurricane-harvey_00000007", 400_000, 3_300_000)
    with pytest.raises(ImageryError, match="one place") as refusal:
        add_xbd(job, folder=str(xbd))
    assert re.search(r"span \d+ x 8\d\d km", refusal.value.problem)  # 800 km of northing
    assert "joplin-tornado (2 pictures)" in refusal.value.hint
    with pytest.raises(ImageryError, match="'santa'") as refusal:
        add_xbd(job, folder=str(xbd), chosen="santa")
    assert "joplin-tornado" in refusal.value.hint
    assert stored(job.layout) == ([], {})
    result = add_xbd(job, folder=str(xbd), chosen="*_00000001_*")
    assert (result["n_pictures"], len(stored(job.layout)[1])) == (2, 4)
    assert len(add_xbd(job, folder=str(xbd), chosen="joplin-tornado")["added"]) == 2


def test_a_folder_without_xbd_or_a_place_is_refused_and_a_job_stops_when_asked(job: Job, tmp_path: Path, xbd: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, words in ((tmp_path / "empty", "no xBD picture"), (tmp_path / "missing", "is no folder")):
        with pytest.raises(ImageryError, match=words):
            add_xbd(job, folder=str(folder))
    with pytest.raises(PuGeoError, match="No xBD folder"):
        AddXbd(" ")
    pair(tmp_path / "x", "a_00000001", 400_000, n=0)
    with pytest.raises(ImageryError, match="too few"):
        add_xbd(job, folder=str(tmp_path / "x"))
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        add_xbd(job, folder=str(xbd))
    assert stored(job.layout) == ([], {})


@pytest.fixture
def folders(town: Path, tmp_path: Path) -> list[Path]:
    """Two folders with scenes and footprints of equal names; the pre scenes differ, the post scenes are the same bytes."""
    west, east = tmp_path / "west", tmp_path / "east"
    for folder, pre in ((west, "pre.tif"), (east, "post.tif")):
        folder.mkdir()
        for name, source in (("pre.tif", pre), ("post.tif", "post.tif"), ("footprints.geojson", "footprints.geojson")):
            shutil.copy(town / source, folder / name)
    return [west, east]


def test_equal_names_become_scenes_and_equal_contents_a_note(folders: list[Path], tmp_path: Path) -> None:
    layout = store.create(tmp_path / "e.pugeo", "E")
    paths = {role: [str(folder / f"{role}.tif") for folder in folders] for role in ("pre", "post")}
    done = add_scenes(job_of(layout), pre=paths["pre"], post=paths["post"])
    assert done["added"] == ["west/pre", "east/pre", "west/post"]
    assert done["notes"] == [
        "Scenes east/pre and west/post are one and the same picture: it shows no change.",
        "east/post was not added: it has the same content as west/post.",
    ]
    again = add_scenes(job_of(layout), pre=[], post=paths["post"][:1])
    assert (again["added"], len(again["notes"])) == ([], 1)
    for folder in folders:
        add_footprints(job_of(layout), paths=[str(folder / "footprints.geojson")])
    with store.connect(layout) as db:
        assert [Path(scene.path).parent.name for scene in contents.scenes(db)] == ["west", "east", "west"]
        assert [one.file for one in import_log.all_records(db)] == ["east/footprints.geojson", "footprints.geojson"]


def test_scenes_are_called_by_their_files_whatever_their_order(tmp_path: Path) -> None:
    layout, long = store.create(tmp_path / "e.pugeo", "E"), "x" * 300
    inside = [layout.folder / "sources" / folder / "post.tif" for folder in ("0f3a", "77aa")]
    names = {
        "/d/68/post.tif": "68/post", "/d/69/post.tif": "69/post-1", "/e/69/post.tif": "69/post-2", "/d/two/one.png": "two/one",
        "/d/20110529.tif": "20110529", "/d/gr\u00fc\u00df*[x]\u202e\n.tif": "gr\u00fc\u00df*[x]??", f"/d/{long}.tif": long[:80],
        **{str(path): f"post-{i}" for i, path in enumerate(inside, start=1)},
    }  # fmt: skip
    here = [replace(small_scene(), scene_id=one) for one in ("one", "post")]
    for paths in (list(names), list(reversed(names))):
        new = with_ids([replace(small_scene(), scene_id="", path=path) for path in paths], here, layout)
        assert {scene.path: scene.scene_id for scene in new} == names


@pytest.mark.slow
@pytest.mark.usefixtures("without_features", "home")
def test_preparing_the_sample_event_adds_its_radar(town: Path, tmp_path: Path) -> None:
    layout, arguments = store.create(tmp_path / "sample.pugeo", projects.SAMPLE_NAME), projects.sample_arguments()
    (radar,) = arguments["layers"]
    for one in (arguments["pre"], arguments["post"], arguments["footprints"], radar["paths"]):
        assert all(Path(path).is_file() for path in one)
        one[:] = [str(town / Path(path).name) for path in one]  # of the small town, which the same program drew
    done = prepare(job_of(layout), **arguments)
    (row,) = layers.rows(layout)
    assert (row["name"], row["when"], row["kind"], row["bands"], row["unit"]) == ("sar-post", "post", "sar-db", 1, "dB")
    assert [Path(path).parent for path in row["files"]] == [layout.folder / "sources"], "its folder may move"
    assert 0 < row["n_missing"] < row["n_buildings"] / 2, "a part of the town has no radar"
    assert done["chips"]["n_missing"] == {"sar-post": row["n_missing"]}
    facts = preparation.chip_set_facts(layout)
    assert [view.name for view in contents.views_of(facts)] == ["pre", "post", "sar-post"]
