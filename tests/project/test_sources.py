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
        ("post.tif", "post.tif"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ann\\a b.geojson", "a_b.geojson"),
        ("..", "file"),
        ("", "file"),
        (".hidden", "hidden"),
        ("a\0b\n.tif", "a_b_.tif"),
        ("家屋.gpkg", "家屋.gpkg"),
        ("-rf.tif", "rf.tif"),
        ("x" * 300 + ".tif", "x" * 120 + ".tif"),
    ],
)
def test_names_lead_nowhere_else(given: str, expected: str) -> None:
    assert contents.safe_name(given) == expected


def test_files_that_belong_together_stay_together_and_come_once(project: Layout) -> None:
    first = contents.keep(project, [("a/post.png", b"picture"), ("post.pgw", b"world")])
    again = contents.keep(project, [("a/post.png", memoryview(b"picture")), ("post.pgw", memoryview(b"world"))])
    other = contents.keep(project, [("post.png", b"another picture"), ("post.pgw", b"world")])
    assert first == again
    assert [path.name for path in first] == ["post.png", "post.pgw"]
    assert first[0].parent == first[1].parent != other[0].parent
    assert first[0].parents[1] == project.folder / "sources"
    assert [path.read_bytes() for path in (*first, *other)] == [b"picture", b"world", b"another picture", b"world"]


def test_empty_large_and_ambiguous_files_are_refused(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_BYTES", 10)
    for files in ([("a.tif", b"")], [("a.tif", b"x" * 11)], [("a b.tif", b"1"), ("a_b.tif", b"2")]):
        with pytest.raises(ProjectError):
            contents.keep(project, files)
    assert not Path(project.folder / "sources").exists()


def test_long_names_of_every_script_can_be_stored(project: Layout) -> None:
    name = "建" * 90 + ".geojson"
    (path,) = contents.keep(project, [(name, b"{}")])
    assert path.read_bytes() == b"{}"
    assert path.suffix == ".geojson"


def test_a_disk_that_takes_nothing_is_a_refusal(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contents, "atomic_write", full)
    with pytest.raises(ProjectError, match="No space left"):
        contents.keep(project, [("a.geojson", b"{}")])
