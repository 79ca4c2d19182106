"""What comes back from the child is what its reader found, or why it refused, or how it ended."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from geo_parts import CRS_MEMBER
from small_parts import REPOSITORY

from pu_geo.errors import FootprintError, ImageryError, PuGeoError
from pu_geo.geo import child_process
from pu_geo.geo.raster import scene_files
from pu_geo.geo.readers import in_child, xbd
from pu_geo.geo.vector import footprints
from pu_geo.records import Grid

GRID = Grid("EPSG:32633", "", (0.5, 0.0, 500_000.0, 0.0, -0.5, 4_600_000.0), 200, 200, 0.5)
Write = Callable[..., Path]
not_on_windows = pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these limits and signals")


def picture(bands: int = 3, dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(3).integers(1, 200, (bands, 32, 40)).astype(dtype)


def outlines(n: int) -> list[tuple[object, dict[str, object]]]:
    shapes = [shapely.box(500_010 + 3 * i, 4_599_950, 500_012 + 3 * i, 4_599_955) for i in range(n)]
    properties = [{"uid": f"u{i}", "name": "Häuser", "x": [1, None, {"a": 0.1}]} for i in range(n)]
    corners = [(10, 90), (15, 95), (15, 90), (10, 95)]
    bowtie = shapely.Polygon([(500_000 + x, 4_599_900 + y) for x, y in corners])
    mapping = shapely.geometry.mapping
    return [*zip(map(mapping, shapes), properties, strict=True), (mapping(bowtie), {"uid": "tie"}), (None, {"uid": "none"})]


@pytest.mark.parametrize(("dtype", "bands"), [("uint16", (4, 2, 1)), ("float32", None)])
def test_a_scene_is_described_as_without_a_child(write_tif: Write, dtype: str, bands: tuple[int, int, int] | None) -> None:
    path = write_tif("a", picture(4, dtype), alpha="NO", photometric="MINISBLACK")
    expected = scene_files.describe(path, "post", "", bands=bands)
    (found,) = in_child.describe_each([path], bands=bands)
    assert found == expected
    assert [type(value) for value in vars(found).values()] == [type(value) for value in vars(expected).values()]


def test_footprints_are_read_as_without_a_child(write_json: Write) -> None:
    path = write_json(outlines(5), crs=CRS_MEMBER)
    expected = footprints.read_footprints(path, GRID)
    found = in_child.read_footprints(path, GRID)
    for name, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            assert getattr(found, name).dtype == value.dtype
            np.testing.assert_array_equal(getattr(found, name), value)
        else:
            assert getattr(found, name) == value, name
    assert (found.n_in, found.n_repaired, found.n_dropped) == (7, 1, 1)
    assert in_child.describe_footprints(path) == footprints.describe_footprints(path)


def test_a_refusal_comes_over_whole(write_tif: Write, write_json: Write) -> None:
    tif, point = write_tif("a", picture(2)), write_json([({"type": "Point", "coordinates": [1, 2]}, {})])
    for here, there in (
        (lambda: scene_files.describe(tif, "post", "a"), lambda: next(in_child.describe_each([tif]))),
        (lambda: footprints.read_footprints(point, GRID), lambda: in_child.read_footprints(point, GRID)),
    ):
        with pytest.raises(PuGeoError) as wanted:
            here()
        with pytest.raises(type(wanted.value)) as found:
            there()
        assert vars(found.value) == vars(wanted.value)


def test_many_scenes_are_described_in_order_and_the_first_bad_one_ends_it(
    write_tif: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child, "MAX_TOGETHER", 2)
    paths = [write_tif(f"s{i}", picture() + i) for i in range(3)]
    bad = paths[0].with_name("bad.tif")
    bad.write_bytes(paths[0].read_bytes()[:3000])
    described = in_child.describe_each([*paths, bad, paths[0]])
    assert [Path(next(described).path) for _ in paths] == paths
    with pytest.raises(ImageryError, match=r"bad\.tif"):
        next(described)


def test_scenes_share_a_child_up_to_a_number_and_a_size_and_large_ones_get_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child, "MAX_TOGETHER", 3)
    monkeypatch.setattr(in_child, "MAX_TOGETHER_BYTES", 100)
    paths = [tmp_path / f"{i}" for i in range(8)]
    for path, size in zip(paths, [10, 10, 10, 10, 90, 10, 500, 1], strict=True):
        path.write_bytes(bytes(size))
    groups = [[path.name for path in group] for group in in_child._in_groups(paths)]
    assert groups == [["0", "1", "2"], ["3", "4"], ["5"], ["6"], ["7"]]
    large = in_child._for_scenes(5_000_000_000)  # 500 s for its hash at 10 MB/s, 1000 s for the search at 5 MB/s
    assert large == replace(in_child.SCENES, seconds=180 + 1500, cpu_seconds=120 + 1000)


def test_places_of_labels_come_in_order_with_refusals_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_child, "MAX_LABELS", 2)
    ring = np.array([[2, 5], [30, 5], [30, 40], [2, 40]])
    both = {"xy": ring, "lng_lat": ring * [5e-6, -4e-6] + [-94.5, 37.1]}
    features = {key: [{"properties": {"uid": "a"}, "wkt": shapely.Polygon(corners).wkt}] for key, corners in both.items()}
    good, bad, link = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "elsewhere" / "link.json"
    good.write_text(json.dumps({"features": features}))
    bad.write_text("{")
    link.parent.mkdir()
    link.symlink_to(good)
    found = list(in_child.place_each([good, bad, link, good, good], [f"picture {i}" for i in range(5)]))
    assert [getattr(place, "kind", "placed") for place in found] == ["placed", "geotransform", "link", "placed", "placed"]
    assert found[0] == found[4] == xbd.place_of(good, "picture 0")
    assert "picture 1" in str(found[1])


def test_a_name_that_is_not_unicode_is_refused_in_words(write_tif: Write, tmp_path: Path) -> None:
    ours = write_tif("häuser 家", picture())
    assert next(in_child.describe_each([ours])).path == str(ours)
    name = tmp_path / os.fsdecode(b"h\xe4user.tif")
    try:
        shutil.copyfile(ours, name)
    except OSError:
        pytest.skip("file names must be Unicode here")
    for read in (lambda: next(in_child.describe_each([name])), lambda: in_child.describe_footprints(name)):
        with pytest.raises(PuGeoError, match=r"h\\udce4user\.tif") as refused:
            read()
        assert refused.value.problem.isprintable()


# How a child ends


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program that runs the given shell code in the place of the child."""

    def does(code: str) -> None:
        program = tmp_path / "child"
        program.write_text(f"#!/bin/sh\n{code}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return does


@not_on_windows
@pytest.mark.parametrize(
    ("code", "scene_kind", "footprint_kind", "words"),
    [
        ("kill -SEGV $$", "corrupt", "parse", f"stopped with -{int(signal.SIGSEGV)}"),
        ("kill -XCPU $$", "timeout", "timeout", "too much processor time"),
        ("echo 'numpy._core._exceptions._ArrayMemoryError: Unable to allocate' >&2; exit 1", "size", "size", "memory"),
        ("echo terminate called after throwing an instance of std::bad_alloc >&2; exit 1", "size", "size", "memory"),
        ("echo one >&2; echo 'ValueError: two' >&2; exit 1", "corrupt", "parse", "ValueError: two"),
        ("exit 0", "corrupt", "parse", "without a word"),
        ("exec sleep 60", "timeout", "timeout", "over 0.5 s"),
    ],
)
def test_whatever_ends_the_child_becomes_a_refusal(
    child: Callable[[str], None], code: str, scene_kind: str, footprint_kind: str, words: str,
    write_tif: Write, write_json: Write, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    child(code)
    if "sleep" in code:
        monkeypatch.setattr(in_child, "SCENES", replace(in_child.SCENES, seconds=0.5 - 1e-9))
        monkeypatch.setattr(in_child, "FOOTPRINTS", replace(in_child.FOOTPRINTS, seconds=0.5))
    scene, outline = write_tif("a", picture()), write_json(outlines(1))
    with pytest.raises(ImageryError, match=r"a\.tif") as refused:
        next(in_child.describe_each([scene]))
    assert refused.value.kind == scene_kind
    assert words in refused.value.problem or "sleep" in code
    with pytest.raises(FootprintError, match=r"f\.geojson") as refused_too:
        in_child.describe_footprints(outline)
    assert refused_too.value.kind == footprint_kind
    assert words in refused_too.value.problem


@not_on_windows
def test_what_a_child_says_without_end_is_not_taken_into_memory(
    child: Callable[[str], None], write_tif: Write, write_json: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child, "FOOTPRINTS", replace(in_child.FOOTPRINTS, answer_bytes=100))
    with pytest.raises(FootprintError, match="memory") as refused:
        in_child.read_footprints(write_json(outlines(5), crs=CRS_MEMBER), GRID)
    assert refused.value.kind == "size"
    child("head -c 100000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo 'the end' >&2; exit 1")
    with pytest.raises(ImageryError, match="the end"):
        next(in_child.describe_each([write_tif("a", picture())]))


@not_on_windows
@pytest.mark.parametrize(
    ("limit", "small", "code", "words"),
    [
        ("memory_bytes", 300_000_000, "bytearray(400_000_000)", "MemoryError"),
        ("file_bytes", 1_000, "import pathlib; pathlib.Path('x').write_bytes(bytes(2_000))", "File too large"),
        ("cpu_seconds", 1, "while True: pass", ""),
    ],
)
def test_the_child_limits_itself(tmp_path: Path, limit: str, small: int, code: str, words: str) -> None:
    limits = {**asdict(in_child.SCENES), limit: small}
    program = f"import resource; from pu_geo.geo import child_process; child_process._limit({limits!r})\n"
    program += f"assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == (1 if words else -signal.SIGXCPU)
    assert words in done.stderr


@not_on_windows
def test_a_limit_that_a_system_does_not_take_or_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    resource, taken = pytest.importorskip("resource"), []

    def refuse_memory(limit: int, pair: tuple[int, int]) -> None:
        if limit == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        taken.append(limit)

    monkeypatch.setattr(resource, "setrlimit", refuse_memory)
    child_process._limit(asdict(in_child.SCENES))
    assert set(taken) == {resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE}
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows: importing it fails
    child_process._limit(asdict(in_child.SCENES))


def test_files_of_other_people_are_read_by_the_child_alone() -> None:
    """Outside the child, nobody may call the readers that work in their own process."""
    readers = {
        "pu_geo.geo.raster.scene_files.describe",
        "pu_geo.geo.readers.footprint_files.load_features",
        "pu_geo.geo.readers.xbd.place_of",
    }
    readers |= {f"pu_geo.geo.vector.footprints.{name}" for name in ("read_footprints", "describe_footprints")}
    calling = []
    for path in sorted((REPOSITORY / "pu_geo").rglob("*.py")):
        if "node_modules" in path.parts or path.name in ("footprints.py", "scene_files.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                calling += [path.name for alias in node.names if f"{node.module}.{alias.name}" in readers]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                calling += [path.name for name in readers if name.endswith(f".{node.value.id}.{node.attr}")]
    assert calling == []
