"""Uploaded files: inside the project, under harmless names, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pu_geo.errors import ProjectError
from pu_geo.project import contents
from pu_geo.project.layout import Layout


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ann\\a b.geojson", "a_b.geojson"),
        ("..", "file"),
        (".hidden", "hidden"),
        ("a\0b\n.tif", "a_b_.tif"),
        ("家屋.gpkg", "家屋.gpkg"),
        ("x" * 300 + ".tif", "x" * 120 + ".tif"),
    ],
)
def test_names_lead_nowhere_else(given: str, expected: str) -> None:
    assert contents.safe_name(given) == expected


def test_files_that_belong_together_stay_together_and_come_once(project: Layout) -> None:
    long = "建" * 90 + ".geojson"  # more bytes than a name may have
    first = contents.keep(project, [("a/post.png", b"picture"), ("post.pgw", b"world")])
    again = contents.keep(project, [("a/post.png", memoryview(b"picture")), ("post.pgw", memoryview(b"world"))])
    other = contents.keep(project, [("post.png", b"another picture"), ("post.pgw", b"world"), (long, b"{}")])
    assert first == again
    assert [path.name for path in first] == ["post.png", "post.pgw"]
    assert first[0].parent == first[1].parent != other[0].parent
    assert first[0].parents[1] == project.folder / "sources"
    assert [path.read_bytes() for path in (*first, *other)] == [b"picture", b"world", b"another picture", b"world", b"{}"]
    assert other[2].suffix == ".geojson"


def test_empty_and_large_files_are_refused(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_BYTES", 10)
    for files in ([("a.tif", b"")], [("a.tif", b"x" * 11)]):
        with pytest.raises(ProjectError):
            contents.keep(project, files)
    assert not Path(project.folder / "sources").exists()


def test_pictures_of_one_name_get_a_folder_each_and_the_same_one_is_stored_once(project: Layout) -> None:
    files = [("pre.tif", b"west"), ("x/pre.tif", b"east"), ("pre.tif", b"west"), ("post.png", b"p"), ("post.pgw", b"w")]
    kept = contents.keep(project, files)
    assert [path.read_bytes() for path in kept] == [content for _, content in files]
    assert [path.name for path in kept] == ["pre.tif", "pre.tif", "pre.tif", "post.png", "post.pgw"]
    assert kept[0] == kept[2]
    assert len({path.parent for path in kept}) == 3
    assert kept[3].parent == kept[4].parent
    with pytest.raises(ProjectError, match="2 different files are called post"):  # whose world file is it?
        contents.keep(project, [("post.png", b"west"), ("post.png", b"east"), ("post.pgw", b"1")])


def test_a_disk_that_takes_nothing_is_a_refusal(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contents, "atomic_write", full)
    with pytest.raises(ProjectError, match="No space left"):
        contents.keep(project, [("a.geojson", b"{}")])
