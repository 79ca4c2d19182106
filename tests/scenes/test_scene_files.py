"""Whether the files of scenes are those that were added: what is read, when, and what is found."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from small_parts import small_grid, small_scene

from pu_geo.errors import JobCancelled
from pu_geo.files import sha256_of
from pu_geo.geo import scene_state
from pu_geo.geo.scene_state import END_BYTES, ends_sha256, state_at_once, state_of
from pu_geo.records import Scene
from pu_geo.scenes import scene_files
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

SIZE = 3 * END_BYTES


def scene_at(path: Path, scene_id: str = "post-1", content: bytes = bytes(SIZE)) -> Scene:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    found = path.stat()
    return replace(
        small_scene(), scene_id=scene_id, path=str(path), sha256=sha256_of(path), size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns, ends_sha256=ends_sha256(path),
    )  # fmt: skip


def change_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"x")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return scene_at(tmp_path / "imagery/post.tif")


@pytest.fixture
def layout(tmp_path: Path, scene: Scene) -> Layout:
    made = store.create(tmp_path / "event.pugeo", "Event")
    store.call(made, contents.add_scenes, [scene], small_grid())
    return made


def test_a_file_is_the_same_touched_changed_or_missing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> tuple[str, str]:
        return state_at_once(scene), state_of(scene)

    path = Path(scene.path)
    assert states() == ("same", "same")
    os.utime(path, ns=(1, 1))
    with monkeypatch.context() as patch:  # a screen reads no file in full
        patch.setattr(scene_state, "sha256_of", lambda *_: pytest.fail("read in full"))
        assert scene_files.lost([scene]) == []
    assert states() == ("touched", "same")
    change_middle(path)
    assert states() == ("touched", "changed")
    os.utime(path, ns=(scene.mtime_ns, scene.mtime_ns))
    assert (state_of(scene), state_of(scene, full=True)) == ("same", "changed")
    path.write_bytes(b"short")
    assert states() == ("changed",) * 2
    path.unlink()
    assert states() == ("missing",) * 2


def test_files_of_one_folder_are_lost_together(tmp_path: Path) -> None:
    scenes = [scene_at(tmp_path / name, name, name.encode()) for name in ("a/1.tif", "a/2.tif", "b/3.tif", "c/4.tif")]
    (tmp_path / "a/1.tif").unlink()
    (tmp_path / "a/2.tif").write_bytes(b"other content")
    (tmp_path / "b/3.tif").unlink()
    first, second = scene_files.lost(scenes)
    assert (first.old, first.is_folder, [state for _, state in first.scenes]) == (
        str(tmp_path / "a"), True, ["missing", "changed"],
    )  # fmt: skip
    assert (second.old, second.is_folder) == (str(tmp_path / "b/3.tif"), False)


def test_a_cancelled_check_stops_and_stores_nothing(layout: Layout, scene: Scene) -> None:
    os.utime(scene.path, ns=(1, 1))
    with pytest.raises(JobCancelled):
        scene_files.settle(layout, [scene], is_cancelled=lambda: True)
    assert store.call(layout, contents.scenes)[0].mtime_ns == scene.mtime_ns
    seen: list[tuple[float, str]] = []
    assert scene_files.settle(layout, [scene], report=lambda share, words: seen.append((share, words))) == {"post-1": "same"}
    assert seen[-1] == (1.0, "reading post.tif in full, to check that it is the file that was added")
    assert store.call(layout, contents.scenes)[0].mtime_ns == 1
