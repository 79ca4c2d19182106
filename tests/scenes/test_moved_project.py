"""A project and the files of its scenes, moved, renamed, copied, linked and replaced."""

import os
import shutil
from pathlib import Path

import pytest
import rasterio
from cli_parts import CommandLine
from small_parts import job_of

from pu_geo.errors import ImageryError, ProjectError
from pu_geo.lifecycle.rounds_job import next_round
from pu_geo.maps.damage_map_job import sources
from pu_geo.records import Scene
from pu_geo.scenes import preparation, scene_pair
from pu_geo.scenes.align_job import align
from pu_geo.scenes.chip_job import chip, prepare
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import alignment, contents, store
from pu_geo.store.layout import Layout, sha256_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_features", "home")]


@pytest.fixture(scope="module")
def built(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two projects of the town, with chips: `inside.pugeo` has its scenes in itself, `outside.pugeo` in the folder `imagery`."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "imagery").mkdir()
    for name in ("pre.tif", "post.tif"):  # not compressed
        with rasterio.open(town / name) as source:
            kept = ("driver", "width", "height", "count", "dtype", "crs", "transform")
            profile = {key: source.profile[key] for key in kept}
            with rasterio.open(folder / "imagery" / name, "w", photometric="RGB", **profile) as target:
                target.write(source.read())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pu_geo.scenes.chip_job._compute_features", lambda *_: ())
        for name, inside in (("inside", True), ("outside", False)):
            layout = store.create(folder / f"{name}.pugeo", "Town")
            files = {role: [str(folder / "imagery" / f"{role}.tif")] for role in ("pre", "post")}
            prepare(job_of(layout, "prepare"), **files, footprints=[str(town / "footprints.geojson")], copy_sources=inside)
    return folder


@pytest.fixture
def inside(built: Path, tmp_path: Path) -> Layout:
    """A project with its scenes in `sources/`, which was moved and renamed since they were added."""
    return Layout(Path(shutil.copytree(built / "inside.pugeo", tmp_path / "renamed.pugeo")))


@pytest.fixture
def outside(built: Path, tmp_path: Path) -> Layout:
    """A project whose scenes are in `imagery` beside it; `imagery` of the project that it is a copy of has other files."""
    shutil.copytree(built / "imagery", tmp_path / "imagery")
    layout = Layout(Path(shutil.copytree(built / "outside.pugeo", tmp_path / "event.pugeo")))
    set_paths(layout, {"pre": tmp_path / "imagery/pre.tif", "post": tmp_path / "imagery/post.tif"})
    return layout


def set_paths(layout: Layout, paths: dict[str, object]) -> None:
    """Store paths of scenes as they are, as somebody else may have written them."""
    with store.connect(layout) as db:
        for scene_id, path in paths.items():
            change = "UPDATE scene SET path = ?1, facts = json_set(facts, '$.path', ?1) WHERE scene_id = ?2"
            assert db.execute(change, (str(path), scene_id)).rowcount == 1


def scenes_of(layout: Layout) -> dict[str, Scene]:
    return {scene.scene_id: scene for scene in store.call(layout, contents.scenes)}


def stored(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return dict(db.execute("SELECT scene_id, json_extract(facts, '$.path') FROM scene"))


def everything_works(layout: Layout, more: Path) -> None:
    """Use the scenes of a project in every way in which a job reads them."""
    align(job_of(layout, "a"))
    assert chip(job_of(layout, "b"), size_px=32)["bands"] == "pre+post"
    assert add_scenes(job_of(layout, "c"), pre=[], post=[str(more)])["added"] == ["second"]
    assert sources(layout, list(scenes_of(layout).values())) == {"sources_changed": [], "sources_missing": []}


def other_picture(built: Path, path: Path) -> Path:
    """Write the post picture with another byte in the middle: its size, its first and its last 64 kB stay."""
    content = bytearray((built / "imagery/post.tif").read_bytes())
    assert len(content) > 3 * 65_536, "the middle must be in neither end"
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    return path


def test_a_project_that_was_moved_and_renamed_works_at_once(inside: Layout, built: Path, tmp_path: Path) -> None:
    assert stored(inside) == {"pre": "sources/pre.tif", "post": "sources/post.tif"}
    with store.connect(inside) as db:
        assert {row[0] for row in db.execute("SELECT path FROM scene")} == {"sources/pre.tif", "sources/post.tif"}
    assert stored(Layout(built / "outside.pugeo"))["pre"] == str(built / "imagery/pre.tif")
    assert {Path(scene.path).parent for scene in scenes_of(inside).values()} == {inside.folder / "sources"}
    everything_works(inside, other_picture(built, tmp_path / "second.tif"))


def test_a_copy_with_new_times_is_read_in_full_once(inside: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in inside.folder.rglob("*"):
        os.utime(path)
    read: list[str] = []
    monkeypatch.setattr(
        "pu_geo.geo.scene_state.sha256_of", lambda path, each=None: read.append(path.name) or sha256_of(path)
    )
    assert chip(job_of(inside, "a"), size_px=32)["n"]
    assert sorted(read) == ["post.tif", "pre.tif"]
    assert scene_pair.judge(inside, preparation.overview(inside).chips).stale == ""
    assert chip(job_of(inside, "b"), size_px=48)["n"]
    assert len(read) == 2
    # a copied alignment is no newer than the chips
    assert scene_pair.judge(inside, preparation.overview(inside).chips).stale == ""
    os.utime(alignment.path_of(inside))  # as `cp -r` does
    assert scene_pair.judge(inside, preparation.overview(inside).chips).stale == ""
    align(job_of(inside))
    assert scene_pair.judge(inside, preparation.overview(inside).chips).stale == "", "it found the same"


def test_the_next_round_has_its_own_copy_of_pre_scenes(inside: Layout, built: Path, tmp_path: Path) -> None:
    later = store.create(tmp_path / "later.pugeo", "Town")
    post = other_picture(built, tmp_path / "second.tif")
    next_round(job_of(later), previous=str(inside.folder), post=[str(post)])
    shutil.rmtree(inside.folder)
    assert stored(later)["pre"] == "sources/pre.tif"
    assert chip(job_of(later), size_px=32)["bands"] == "pre+post"


@pytest.mark.parametrize(
    "path", ["../post.tif", "sources/../../post.tif", r"sources\..\post.tif", "C:post.tif", "sources//x", ""]
)
def test_a_stored_path_that_leads_out_of_the_project_is_refused(inside: Layout, path: str) -> None:
    set_paths(inside, {"post": path})
    with pytest.raises(ProjectError, match="not a path inside the project") as refused:
        scenes_of(inside)
    assert refused.value.kind == "corrupt"


def test_a_link_in_place_of_a_folder_leads_no_scene_out_of_the_project(inside: Layout, tmp_path: Path) -> None:
    (inside.folder / "sources").rename(tmp_path / "elsewhere")
    (inside.folder / "sources").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ImageryError, match="a link leads out of the project"):
        chip(job_of(inside))


def test_every_job_refuses_another_file_of_the_same_shape(outside: Layout, built: Path, tmp_path: Path) -> None:
    other_picture(built, tmp_path / "imagery/post.tif")
    assert_refused(outside, "changed", f"pu-geo repair relink {outside.folder} {tmp_path}/imagery/post.tif NEW_FILE", built)


def test_every_job_that_misses_a_file_names_the_command_that_finds_it(outside: Layout, built: Path, tmp_path: Path) -> None:
    (tmp_path / "imagery").rename(tmp_path / "other place")
    assert_refused(outside, "missing", f"pu-geo repair relink {outside.folder} {tmp_path}/imagery NEW_FOLDER", built)
    later = store.create(tmp_path / "later.pugeo", "Town")
    with pytest.raises(ImageryError, match=f"relink {outside.folder}"):
        next_round(job_of(later), previous=str(outside.folder), post=[str(built / "imagery/post.tif")])
    shutil.copytree(tmp_path / "other place", tmp_path / "imagery")
    (tmp_path / "imagery/pre.tif").unlink()
    assert chip(job_of(outside), bands="post")["n"], "chips of post alone need no pre file"


def assert_refused(layout: Layout, kind: str, command: str, built: Path) -> None:
    for act in (align, chip, lambda job: add_scenes(job, pre=[], post=[str(built / "imagery/pre.tif")])):
        with pytest.raises(ImageryError) as refused:
            act(job_of(layout))
        assert refused.value.kind == kind
        assert f"`{command}`" in refused.value.hint
    wanted = ["post"] if kind == "changed" else ["pre", "post"]
    assert sources(layout, list(scenes_of(layout).values()))[f"sources_{kind}"] == wanted


def test_one_command_finds_a_folder_again(outside: Layout, built: Path, tmp_path: Path, run: CommandLine) -> None:
    (tmp_path / "imagery").rename(tmp_path / "other place")
    made = run.json("repair", "relink", outside.folder, tmp_path / "imagery", tmp_path / "other place")
    olds, news = ([f"{tmp_path}/{name}/{role}.tif" for role in ("pre", "post")] for name in ("imagery", "other place"))
    assert made["relinked"] == [
        {"scene_id": role, "role": role, "old": old, "new": new}
        for role, old, new in zip(("pre", "post"), olds, news, strict=True)
    ]
    scene, is_at = scenes_of(outside)["post"], (tmp_path / "other place/post.tif").stat()
    assert (scene.size_bytes, scene.mtime_ns) == (is_at.st_size, is_at.st_mtime_ns)
    everything_works(outside, other_picture(built, tmp_path / "second.tif"))


def test_another_file_changes_nothing(outside: Layout, built: Path, tmp_path: Path, run: CommandLine) -> None:
    before, target = stored(outside), tmp_path / "new"
    shutil.copytree(tmp_path / "imagery", target)
    other_picture(built, target / "post.tif")
    err = run.refused("repair", "relink", outside.folder, tmp_path / "imagery", target)
    for part in (
        sha256_of(target / "post.tif"),
        scenes_of(outside)["post"].sha256,
        "`pu-geo replace P.pugeo scene post FILE`",
    ):
        assert part in err
    assert stored(outside) == before, "pre.tif is the right one, and is not taken alone"
    (target / "post.tif").write_bytes(b"x" * 7)
    err = run.refused("repair", "relink", outside.folder, tmp_path / "imagery/post.tif", target / "post.tif")
    assert "it has 7 bytes, and the file that was added has " in err
    assert f"{scenes_of(outside)['post'].size_bytes:,} bytes" in err
    (target / "post.tif").unlink()
    assert "There is no file" in run.refused("repair", "relink", outside.folder, tmp_path / "imagery", target)
    assert "has no scene at /nowhere" in run.refused("repair", "relink", outside.folder, "/nowhere", target)
    assert stored(outside) == before
