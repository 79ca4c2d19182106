"""Files of one name in several folders, as xBD has them: each a scene of its own; the same file twice is noted, not added."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_parts import job_of

from pu_geo.project import contents, import_log, store
from pu_geo.tasks.imagery.footprints import add_footprints
from pu_geo.tasks.imagery.scenes import add_scenes


@pytest.fixture
def folders(town: Path, tmp_path: Path) -> list[Path]:
    """Two folders with scenes and footprints of equal names; the pre scenes differ, the post scenes are the same bytes."""
    west, east = tmp_path / "west", tmp_path / "east"
    for folder, pre in ((west, "pre.tif"), (east, "post.tif")):
        folder.mkdir()
        for name, source in (("pre.tif", pre), ("post.tif", "post.tif"), ("footprints.geojson", "footprints.geojson")):
            shutil.copy(town / source, folder / name)
    return [west, east]


def test_equal_names_become_scenes_and_footprints_of_their_own_and_equal_contents_a_note(
    folders: list[Path], tmp_path: Path
) -> None:
    layout = store.create(tmp_path / "e.pugeo", "E")
    paths = {role: [str(folder / f"{role}.tif") for folder in folders] for role in ("pre", "post")}
    done = add_scenes(job_of(layout), pre=paths["pre"], post=paths["post"])
    assert done["added"] == ["pre-1", "pre-2", "post-1"]
    assert done["notes"] == ["east/post.tif was not added: it has the same content as post-1, west/post.tif."]
    again = add_scenes(job_of(layout), pre=[], post=paths["post"][:1])
    assert (again["added"], len(again["notes"])) == ([], 1)
    for folder in folders:
        add_footprints(job_of(layout), path=str(folder / "footprints.geojson"))
    with store.connect(layout) as db:
        assert [Path(scene.path).parent.name for scene in contents.scenes(db)] == ["west", "east", "west"]
        assert [one.file for one in import_log.all_records(db)] == ["east/footprints.geojson", "footprints.geojson"]


def test_a_downloaded_scene_is_named_by_its_file_and_an_id_that_a_scene_has_is_given_to_no_other(
    folders: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "fetched" / "data.example.org" / "e97cd0b207aff8c4"
    shutil.copytree(folders[0], folder)
    (folder / "post.json").write_text("{}", encoding="utf-8")
    layout = store.create(tmp_path / "e.pugeo", "E")
    for notes in ([], ["post.tif was not added: it has the same content as post-1, post.tif."]):
        assert add_scenes(job_of(layout), pre=[], post=[str(folder / "post.tif")])["notes"] == notes
    with store.connect(layout) as db:  # however it came that the number of scenes and their ids do not agree
        db.execute("UPDATE scene SET scene_id = 'post-2', facts = json_set(facts, '$.scene_id', 'post-2')")
    done = add_scenes(job_of(layout), pre=[], post=[str(folders[0] / "pre.tif")])
    assert done["added"] == ["post-3"]
