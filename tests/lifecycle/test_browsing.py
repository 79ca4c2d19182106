"""The file picker: lists what is below its roots, and nothing else, whatever names and links ask for."""

import os
import sys
from pathlib import Path

import pytest

from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import browsing


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with scenes, footprints, a project, hidden things and folders, beside a folder that is none."""
    folder = tmp_path / "data"
    of_b2 = ("pre.tif", "post.TIF", "houses.geojson", "notes.txt", ".old.tif")
    for name in ("b10/pre.tif", ".secret/key.tif", *(f"b2/{name}" for name in of_b2)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1234)
    (folder / "joplin.pugeo").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.tif").write_bytes(b"x")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, os.pathsep.join([str(folder), str(tmp_path / "not there")]))
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "no home"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nobody")
    monkeypatch.setattr(browsing, "MEDIA", ())
    monkeypatch.chdir(folder / "b2")
    return folder


def names(places) -> list[str]:
    return [place.name for place in places]


def test_roots_that_are_not_there_or_come_twice_are_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(place.name, place.path) for place in browsing.roots()] == [("data", root), ("Working folder", root / "b2")]
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, f"{root}{os.pathsep}{root / 'b2'}{os.pathsep}{root}/")
    assert [place.path for place in browsing.roots()] == [root, root / "b2"]


def test_a_server_in_the_root_folder_hides_the_machine(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr(Path, "home", lambda: Path("/"))  # as in containers
    assert Path("/") not in [place.path for place in browsing.roots()]
    with pytest.raises(PuGeoError, match="outside"):
        browsing.browse(Path("/etc"), "scenes")
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, "/")
    assert Path("/") in [place.path for place in browsing.roots()], "whoever names it wants it"


def test_each_kind_lists_its_own_files_and_hides_what_is_hidden(root: Path) -> None:
    found = browsing.browse(root / "b2", "scenes")
    assert names(found.files) == ["post.TIF", "pre.tif"]
    assert names(found.way) == ["Working folder"]  # the nearest root
    assert names(browsing.browse(root / "b2", "vectors").files) == ["houses.geojson"]
    assert names(browsing.browse(root, "scenes").folders) == ["b2", "b10"]  # b2 before b10, no project, nothing hidden
    assert names(browsing.browse(root / "b10", "scenes").way) == ["data", "b10"]
    projects = browsing.browse(root, "projects")
    assert (names(projects.files), names(projects.folders)) == (["joplin.pugeo"], ["b2", "b10"])


@pytest.mark.parametrize("asked", ["..", "b2/../../outside", "/etc", ".secret"])
def test_no_path_leads_out_of_the_roots_or_to_what_is_hidden(asked: str, root: Path) -> None:
    for act in (lambda path: browsing.browse(path, "scenes"), lambda path: browsing.picked([str(path)], "folders")):
        with pytest.raises(PuGeoError, match="outside"):
            act(root / asked)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_lead_out_are_neither_listed_nor_followed(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "way_out").symlink_to(outside)
    (root / "file_out.tif").symlink_to(outside / "private.tif")
    (root / "hidden.tif").symlink_to(root / ".secret" / "key.tif")
    (root / "loop").symlink_to(root / "loop")
    (root / "broken.tif").symlink_to(root / "gone.tif")
    (root / "inner.tif").symlink_to(root / "b2" / "pre.tif")
    found = browsing.browse(root, "scenes")
    assert names(found.folders) == ["b2", "b10"]
    assert [(file.name, file.path) for file in found.files] == [("inner.tif", root / "b2" / "pre.tif")]
    for name in ("way_out", "file_out.tif", "hidden.tif", "loop", "broken.tif"):
        with pytest.raises(PuGeoError):
            browsing.picked([str(root / name)], "scenes")
    with pytest.raises(PuGeoError, match="outside"):
        browsing.browse(root / "way_out", "scenes")


def test_a_folder_that_may_not_be_read_is_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(browsing.os, "scandir", refuse)
    assert browsing.browse(root, "scenes").problem == "data cannot be read: Permission denied."


def test_a_huge_folder_can_be_filtered_and_what_is_below_it_is_found_at_once(root: Path) -> None:
    many = root / "many"
    many.mkdir()
    for i in range(40):
        (many / f"scene{i}_{'post' if i % 2 else 'pre'}.tif").touch()
    found = browsing.browse(many, "scenes")
    assert names(found.files)[:3] == ["scene0_pre.tif", "scene1_post.tif", "scene2_pre.tif"]
    assert len(found.files) == 40
    found = browsing.browse(many, "scenes", filter=" E39_P")
    assert names(found.files) == ["scene39_post.tif"]
    assert names(browsing.below(root, "scenes", filter="PRE."))[:2] == ["pre.tif", "pre.tif"], "in b2 and b10"
    assert len(browsing.below(root, "scenes")) == 3 + 40


def test_the_picker_opens_where_somebody_was_last_while_that_is_there(root: Path) -> None:
    (root.parent / "no home").mkdir()
    browsing.remember("scenes", root / "b10")
    assert (browsing.first_folder("vectors"), browsing.first_folder("projects")) == (root / "b10", root.parent / "no home")
    browsing.remember("scenes", root.parent / "outside")
    assert browsing.first_folder("scenes") == root, "no memory leads out of the roots"


def test_drives_are_places_of_their_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = root.parent / "media" / "ann" / "STICK"
    (drive / "event").mkdir(parents=True)
    monkeypatch.setattr(browsing, "MEDIA", (str(root.parent / "media"),))
    monkeypatch.setattr(Path, "is_mount", lambda path: path == drive)
    assert names(browsing.roots())[-2:] == [str(drive), str(root.parent / "media")]


def test_what_is_no_file_is_neither_listed_nor_picked_as_one(root: Path) -> None:
    wrong = (
        ("b2", "scenes", "is a folder"),
        ("b2/pre.tif", "folders", "is a file"),
        ("gone.tif", "scenes", "not there any"),
    )
    for name, kind, words in wrong:
        with pytest.raises(PuGeoError, match=words):
            browsing.picked([str(root / name)], kind)  # type: ignore[arg-type]
    assert browsing.picked([str(root / "b2" / "pre.tif")], "scenes") == [str(root / "b2" / "pre.tif")]
    if hasattr(os, "mkfifo"):
        os.mkfifo(root / "b10" / "pipe.tif")
        assert names(browsing.browse(root / "b10", "scenes").files) == ["pre.tif"]
