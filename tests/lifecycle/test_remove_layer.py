"""Layers that are removed, replaced, brought back, moved and lost."""

import shutil
from pathlib import Path

import pytest
from cli_parts import CommandLine
from layer_parts import speckle, town_layer
from small_parts import job_of

from pu_geo.errors import ImageryError, ProjectError
from pu_geo.lifecycle import removing
from pu_geo.lifecycle.remove_job import remove_scene, replace_layer
from pu_geo.scenes import scene_files
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.layers_job import add_layer
from pu_geo.store import contents, freshness, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.usefixtures("without_features", "home")


@pytest.fixture
def sar(town: Path, tmp_path: Path) -> Path:
    return town_layer(town, tmp_path / "sar.tif", speckle(256, 320))


@pytest.fixture
def layered(chipped_town: Layout, sar: Path) -> Layout:
    """A town with the layers sar-post and height, in this order."""
    add_layer(job_of(chipped_town), name="sar-post", paths=[str(sar)], kind="sar-db")
    shutil.copy(sar, sar.with_name("height.tif"))
    add_layer(job_of(chipped_town), name="height", paths=[str(sar.with_name("height.tif"))], when="none")
    return chipped_town


def names_of(layout: Layout) -> list[str]:
    return [layer.name for layer in store.call(layout, contents.layers)]


def test_removing_a_layer_makes_its_chips_out_of_date_and_says_so(layered: Layout, sar: Path) -> None:
    chip(job_of(layered), size_px=32)
    assert freshness.of_chips(layered).words == ""
    lines = removing.plan(layered, "layer", "height").lines
    assert any("out of date until you cut chips again" in line for line in lines)
    assert any("abels" in line for line in lines)
    removing.start(layered, removing.plan(layered, "layer", "height"), "Ada")
    assert not layered.layer_tiles("height").exists()
    assert sar.with_name("height.tif").is_file()
    assert "height of the layer height" in freshness.of_chips(layered).former
    made = chip(job_of(layered), size_px=32)
    facts = contents.chip_facts(layered, str(made["chip_set"]))
    assert [view.name for view in contents.views_of(facts)] == ["pre", "post", "sar-post"]


def test_a_replaced_layer_keeps_its_place_date_and_kind(layered: Layout, town: Path, tmp_path: Path) -> None:
    before = store.call(layered, contents.layers)[0]
    with pytest.raises(ImageryError, match="has these files already"):
        replace_layer(job_of(layered), name="sar-post", paths=[scene.path for scene in before.scenes], analyst="Ada")
    new = town_layer(town, tmp_path / "new.tif", speckle(256, 320, bands=1, seed=5) + 40)
    replace_layer(job_of(layered), name="sar-post", paths=[str(new)], analyst="Ada")
    after = store.call(layered, contents.layers)
    assert [layer.name for layer in after] == ["sar-post", "height"]
    assert (after[0].when, after[0].kind, after[0].bands) == ("post", "sar-db", 1)
    assert after[0].scaling != before.scaling
    assert after[0].scaling[0][0] > 10
    removing.undo(layered, "Ada")
    assert store.call(layered, contents.layers)[0] == before


def test_copies_in_the_project_go_with_the_layer(chipped_town: Layout, sar: Path, town: Path) -> None:
    left, right = chipped_town.folder / "sources" / "left.tif", chipped_town.folder / "sources" / "right.tif"
    left.parent.mkdir(exist_ok=True)
    for path, box in ((left, (0.0, 0.0, 0.5, 1.0)), (right, (0.5, 0.0, 1.0, 1.0))):
        town_layer(town, path, speckle(256, 160, seed=int(box[0] * 2)), box=box)
    add_layer(job_of(chipped_town), name="sar", paths=[str(left), str(right)])
    replace_layer(job_of(chipped_town), name="sar", paths=[str(left), str(sar)], analyst="Ada")
    assert left.is_file()
    assert not right.is_file()
    removing.start(chipped_town, removing.plan(chipped_town, "layer", "sar"), "Ada")
    assert not left.is_file()
    removing.undo(chipped_town, "Ada")
    assert left.is_file()


def test_removing_a_scene_draws_the_tiles_of_layers_anew_and_the_last_post_scene_stays(layered: Layout) -> None:
    before = (layered.layer_tiles("sar-post") / "0" / "0" / "0.jpg").read_bytes()
    remove_scene(job_of(layered), name="pre", analyst="Ada")
    assert (layered.layer_tiles("sar-post") / "0" / "0" / "0.jpg").read_bytes() == before
    assert names_of(layered) == ["sar-post", "height"]
    with pytest.raises(ProjectError, match="2 layers are placed on it"):
        removing.plan(layered, "scene", "post")
    with pytest.raises(ProjectError, match="its layers are: sar-post, height"):
        removing.plan(layered, "layer", "dem")


def test_a_lost_file_is_found_again(layered: Layout, sar: Path, town: Path, run: CommandLine, tmp_path: Path) -> None:
    moved = Path(shutil.move(sar, tmp_path / "elsewhere.tif"))
    (group,) = scene_files.lost(store.call(layered, contents.all_scenes))
    assert [scene.scene_id for scene, _ in group.scenes] == ["sar"]
    with pytest.raises(ImageryError, match=r"^sar \("):
        chip(job_of(layered), size_px=32)
    assert any("The scene sar is not at" in line for line in run("repair", "doctor", layered.folder)[1].splitlines())
    run.text("repair", "relink", layered.folder, sar, moved)
    assert scene_files.lost(store.call(layered, contents.all_scenes)) == []
    chip(job_of(layered), size_px=32)
    town_layer(town, moved, speckle(256, 320, seed=9))
    with pytest.raises(ImageryError, match="has changed since") as error:
        chip(job_of(layered), size_px=32)
    assert "layer sar-post FILE" in error.value.hint


def test_commands_remove_replace_and_bring_back(layered: Layout, run: CommandLine, town: Path, tmp_path: Path) -> None:
    assert "The layer height (2 bands, 1 file) goes" in run.text("remove", layered.folder, "layer", "height", "--dry-run")
    run.text("remove", layered.folder, "layer", "height", "--yes")
    assert names_of(layered) == ["sar-post"]
    run.text("repair", "undo-removal", layered.folder)
    assert names_of(layered) == ["sar-post", "height"]
    files = [town_layer(town, tmp_path / f"{k}.tif", speckle(256, 320, bands=3, seed=k)) for k in (2, 3)]
    assert "replaced by 2.tif and 3.tif" in run.text("replace", layered.folder, "layer", "sar-post", *files, "--yes")
    assert [len(layer.scenes) for layer in store.call(layered, contents.layers)] == [2, 1]
    assert "the name of a layer and its files" in run.refused("replace", layered.folder, "layer", "sar-post", "--yes")
