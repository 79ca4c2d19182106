"""The benchmark of a million buildings, with 400: all its stages end, and its comparison finds what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import million

RESULTS = {"chips", "facts", "features", "features_shared", "scores", "export"}


def test_a_new_event_removes_files_of_the_last_one_and_no_others(tmp_path: Path) -> None:
    million.ensure_event(tmp_path, n=8, n_scenes=3)
    others = {"joplin.tif", "pre-east.tif", "roads.geojson"}
    for name in others:
        (tmp_path / name).write_bytes(b"of others")
    million.ensure_event(tmp_path, n=4, n_scenes=1)
    event = {"pre-00.tif", "post-00.tif", "footprints-00.geojson"}
    assert {path.name for path in tmp_path.iterdir()} == {*event, *others, million.MADE}
    assert {path.name for path in million.event_files(tmp_path)} == event
    before = (tmp_path / "pre-00.tif").stat().st_mtime_ns
    million.ensure_event(tmp_path, n=4, n_scenes=1)  # is there
    assert (tmp_path / "pre-00.tif").stat().st_mtime_ns == before


def test_a_result_that_differs_or_that_one_run_lacks_is_named() -> None:
    both, one, none = {"sha256": {"chips": "a", "scores": "b"}}, {"sha256": {"chips": "a"}}, {"sha256": {}}
    assert million.compared(both, both) == "equal by sha256: chips, scores"
    for found, other in ((both, one), (one, both), (both, {"sha256": {"chips": "a", "scores": "c"}})):
        with pytest.raises(SystemExit, match="THEY DIFFER in scores"):
            million.compared(found, other)
    with pytest.raises(SystemExit, match="Neither run has results"):
        million.compared(none, none)


@pytest.mark.slow
@pytest.mark.long(part="million")
def test_all_stages_end_and_a_second_run_that_goes_on_does_none_of_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--folder", str(tmp_path), "--buildings", "400", "--scenes", "2", "--single"]
    million.main(words)
    stages = [json.loads(line)["stage"] for line in capsys.readouterr().out.splitlines()]
    assert stages == ["init", "scenes", "footprints 0", "chip", "features", "label", "rank", "export"]
    out = tmp_path / "event.json"
    found = json.loads(out.read_text())
    assert found["sha256"].keys() == RESULTS
    assert all(figures["job_mb"] > 50 and figures["cpu_s"] > 0 for figures in found["stages"].values())
    million.main([*words, "--resume", "--compare", str(out)])
    assert capsys.readouterr().out.startswith("equal by sha256: chips")
