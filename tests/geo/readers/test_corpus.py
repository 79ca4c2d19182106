"""Every hostile, broken or odd file, given or made by chance, ends in an answer or one clear refusal; see test_canaries for what it must not reach."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from small_parts import in_tiers

from benchmarks import fuzz
from pu_geo.errors import FootprintError, PuGeoError
from pu_geo.geo.child_process import Answer, ReaderEnded, ask_each
from pu_geo.geo.readers.file_kinds import footprint_kind, is_vector
from pu_geo.geo.readers.in_child import FOOTPRINTS, SCENES, inspect_file

SCENE = {"role": "post", "scene_id": "a"}
Found = Answer | PuGeoError | ReaderEnded


def looked_at(paths: Sequence[Path]) -> dict[Path, Found]:
    """What children say of files: one child for all scenes, one for all footprints, so that one crash would show in many."""
    scenes = [path for path in paths if not is_vector(path)]
    vectors = [path for path in paths if is_vector(path)]
    found = ask_each("scene", scenes, [SCENE] * len(scenes), SCENES)
    found += ask_each("summary", vectors, [{}] * len(vectors), FOOTPRINTS)
    return dict(zip([*scenes, *vectors], found, strict=True))


@pytest.mark.slow
def test_every_case_is_accepted_or_refused_with_its_name_and_a_hint_as_the_manifest_says(shared: Path) -> None:
    cases = json.loads((shared / "bad_inputs" / "MANIFEST_geo.json").read_text())
    found = looked_at([shared / "bad_inputs" / case["file"] for case in cases])
    wrong, n_refused = [], 0
    for case in cases:
        answer, expect = found[shared / "bad_inputs" / case["file"]], case["expect"]
        ok, kind, wanted = isinstance(answer, Answer), getattr(answer, "kind", ""), expect.partition(":")[2]
        if expect.startswith("reject") and "_or_" not in expect and case["cls"] != "pair":
            if ok or (wanted and kind != wanted):
                wrong.append((case["file"], expect, kind))
        elif expect.split("_")[0] == "accept" and "reject" not in expect and not ok:
            wrong.append((case["file"], expect, kind))
        if not ok:
            n_refused += 1
            assert isinstance(answer, PuGeoError), case["file"]
            assert Path(case["file"]).name in answer.problem
            assert answer.hint.endswith((".", "tif"))
    assert wrong == []
    assert len(found) > 90
    assert n_refused > 50


@pytest.mark.parametrize(
    ("file", "kind"),
    [("raster/ok_rgb8.tif", "raster"), ("vector/ok_shp.zip", "vector"), ("raster/geo_nan.tif", "geotransform")],
)
def test_a_file_is_inspected_by_the_door_that_it_belongs_to(shared: Path, file: str, kind: str) -> None:
    report = inspect_file(shared / "bad_inputs" / file)
    assert set(report) == {"file", "ok", "kind", "problem", "hint"}
    assert (report["ok"], report["kind"]) == (kind in ("raster", "vector"), kind)
    assert bool(report["hint"]) != report["ok"]


@pytest.mark.slow
def test_every_odd_file_of_other_projects_ends_in_an_answer_or_a_refusal(shared: Path) -> None:
    for folder in ("stress_tiff", "odd_geojson"):
        paths = [path for path in sorted((shared / "data" / folder).iterdir()) if path.suffix != ".csv"]
        found = looked_at(paths).values()
        assert len(found) == len(paths) > 40
        assert not any(isinstance(answer, ReaderEnded) for answer in found)
        assert 5 < sum(isinstance(answer, Answer) for answer in found) < len(found)


def test_a_folder_a_pipe_a_missing_file_an_address_and_a_link_elsewhere_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tif")
    (tmp_path / "real.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    (tmp_path / "inner").mkdir()
    for link in ("inner/far.geojson", "near.geojson"):
        (tmp_path / link).symlink_to(tmp_path / "real.geojson")
    for path in (tmp_path, tmp_path / "pipe.tif", tmp_path / "none.tif"):
        assert inspect_file(path)["kind"] == "missing"
    for address in ("http://127.0.0.1:9/x.tif", "/vsicurl/http://127.0.0.1:9/x.tif", "/vsimem/x.tif"):
        assert inspect_file(address)["kind"] == "driver"
    assert inspect_file(tmp_path / "inner" / "far.geojson")["kind"] == "link"
    assert inspect_file(tmp_path / "near.geojson")["kind"] == "empty"


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return fuzz.write_good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.slow
def test_the_undamaged_files_can_all_be_read(goods: list[Path]) -> None:
    assert {path.name: fuzz.outcome(path) for path in goods} == {path.name: "read" for path in goods}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffixes", "n"),
    in_tiers(
        [(fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3), (fuzz.IN_PROCESS, 180), (fuzz.IN_CHILD, 15)], "fuzz",
        quick=[(fuzz.IN_PROCESS, 30), (fuzz.IN_CHILD, 3)],
    ),
)  # fmt: skip
def test_damaged_files_are_read_or_refused(goods: list[Path], tmp_path: Path, suffixes: tuple[str, ...], n: int) -> None:
    chosen = [path for path in goods if path.suffix in suffixes]
    ends, wrong = fuzz.fuzz(chosen, tmp_path, lambda number: number < n, np.random.default_rng(5))
    assert wrong == []
    assert sum(ends.values()) == n
    assert sum(times for end, times in ends.items() if end.endswith(": read")) <= 0.8 * n  # damage is noticed


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", b'\xef\xbb\xbf {"type": 1}', "json"),
        ("a.txt", b"id;wkt\n", "csv"),
        ("a.csv", b"id,lat\n", "csv"),
        ("a.csv", b" \n", "parse"),
        ("a.geojson", b"hello", "parse"),
        ("a.gpkg", b"<kml>", "parse"),
        ("a.geojson", b"<kml>", "driver"),
        ("a.txt", b"hello", "driver"),
    ],
)
def test_footprints_are_known_by_content_or_refused(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    if kind in ("json", "csv"):
        assert footprint_kind(tmp_path / name) == kind
        return
    with pytest.raises(FootprintError) as refused:
        footprint_kind(tmp_path / name)
    assert refused.value.kind == kind
