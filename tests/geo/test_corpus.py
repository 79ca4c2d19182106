"""Every hostile or broken file ends in one clear refusal, and nothing but the file itself is touched."""

from __future__ import annotations

import builtins
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_parts import REPOSITORY

from pu_geo.geo.raster import inspect_file


def cases(shared: Path) -> list[dict[str, str]]:
    return json.loads((shared / "bad_inputs" / "MANIFEST_geo.json").read_text())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.mark.usefixtures("no_network")
def test_every_case_is_refused_or_accepted_as_the_manifest_says(shared: Path) -> None:
    wrong = []
    for case in cases(shared):
        name, expect = case["file"], case["expect"]
        started = time.monotonic()
        report = inspect_file(shared / "bad_inputs" / name)
        assert time.monotonic() - started < 5, name
        assert set(report) == {"file", "ok", "kind", "problem", "hint"}
        kind = expect.partition(":")[2]
        if expect.startswith("reject") and "_or_" not in expect and case["cls"] != "pair":
            if report["ok"] or (kind and report["kind"] != kind):
                wrong.append((name, expect, report["kind"]))
        elif expect.split("_")[0] == "accept" and "reject" not in expect and not report["ok"]:
            wrong.append((name, expect, report["kind"]))
    assert wrong == []


def test_refusals_name_the_file_and_the_next_step(shared: Path) -> None:
    for case in cases(shared):
        report = inspect_file(shared / "bad_inputs" / case["file"])
        if not report["ok"]:
            assert Path(case["file"]).name in str(report["problem"])
            assert str(report["hint"]).endswith((".", "tif"))


def peak_growth_mb(work: str, *arguments: str) -> float:
    """Run Python code in a fresh process, after one good file of each sort, and tell by how much its peak of memory grew."""
    program = f"""
import re, sys
from pathlib import Path
def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
from pu_geo.geo.raster import inspect_file
bad, names = Path(sys.argv[1]), sys.argv[2:]
for name in ("raster/ok_cog_tiled.tif", "vector/ok.geojson", "vector/gpkg_trigger.gpkg"):
    assert inspect_file(bad / name)["ok"], name
before = peak_mb()
{work}
print(peak_mb() - before)
"""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return float(done.stdout)


linux_only = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of one process is read from /proc")


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["raster", "vector"])
def test_the_corpus_is_looked_at_in_bounded_memory(shared: Path, folder: str) -> None:
    names = [case["file"] for case in cases(shared) if case["file"].startswith(f"{folder}/")]
    assert len(names) > 20
    work = "for name in names:\n    inspect_file(bad / name)"
    assert peak_growth_mb(work, str(shared / "bad_inputs"), *names) < 300


@linux_only
@pytest.mark.slow
def test_the_peak_of_memory_is_noticed_after_it_is_over(shared: Path) -> None:
    assert peak_growth_mb("len(b'x' * 400_000_000)", str(shared / "bad_inputs")) > 300


def test_no_file_beside_the_inspected_one_is_opened(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    true_open = builtins.open

    def noting(file: object, *args: object, **kwargs: object) -> object:
        opened.append(str(file))
        return true_open(file, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(builtins, "open", noting)
    for name in ("raster/raw_local_as.tif", "vector/ogrvrt_as.geojson", "vector/kml_xxe.kml"):
        inspect_file(shared / "bad_inputs" / name)
    assert [name for name in opened if "passwd" in name] == []


def test_every_odd_file_of_other_projects_ends_in_a_report(shared: Path) -> None:
    folders = (shared / "data" / "stress_tiff", shared / "data" / "odd_geojson")
    reports = [inspect_file(path) for folder in folders for path in sorted(folder.iterdir()) if path.suffix != ".csv"]
    assert len(reports) > 90
    assert {report["kind"] for report in reports if report["ok"]} == {"raster", "vector"}


def test_a_folder_a_pipe_a_missing_file_and_an_address_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.tif")
    for path in (tmp_path, tmp_path / "pipe.tif", tmp_path / "none.tif"):
        assert inspect_file(path)["kind"] == "missing"
    for address in ("http://127.0.0.1:9/x.tif", "/vsicurl/http://127.0.0.1:9/x.tif", "/vsimem/x.tif"):
        assert inspect_file(address)["kind"] == "driver"


def test_a_link_to_another_folder_is_refused_and_one_to_a_neighbour_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "far.geojson").symlink_to(tmp_path / "real.geojson")
    (tmp_path / "near.geojson").symlink_to(tmp_path / "real.geojson")
    assert inspect_file(folder / "far.geojson")["kind"] == "link"
    assert inspect_file(tmp_path / "near.geojson")["kind"] == "empty"
