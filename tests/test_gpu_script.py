"""What waits for a GPU is ready before one is lent: it runs on a bare machine, and can be called again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model_parts import with_chips
from small_parts import REPOSITORY

from benchmarks import gpu, gpu_data
from pu_geo.lifecycle.copying import copy_project
from pu_geo.store.layout import HOME_VARIABLE, Layout

BARE = """
import os, sys
from importlib import machinery
sys.path[:] = [each for each in sys.path if not os.path.isdir(each + "/pu_geo") or each in os.environ["PYTHONPATH"].split(":")]
sys.path.append({here!r})
import bare_box
bare_box.BARE += ("opencv-python-headless", "psutil", "filelock")
gone, find = bare_box.blocked(), machinery.PathFinder.find_spec
assert {{"shapely", "rasterio", "streamlit", "geopandas", "pytest"}} <= gone
machinery.PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] in gone else find(name, *where)
"""  # as each Python process there, the job's worker too, begins; PU-Geo is not installed


@pytest.mark.parametrize("is_packed", [False, pytest.param(True, marks=pytest.mark.long(part="slow"))])
def test_all_of_it_runs_on_a_bare_machine_and_what_is_done_is_not_done_again(
    is_packed: bool, project: Layout, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data = tmp_path / "data"
    if is_packed:
        assert gpu_data.pack(data, request.getfixturevalue("shared")) <= gpu_data.MOST_MB
    else:
        data.mkdir()
        copy_project(with_chips(project), str(data / "project.pugeo"))
    words = ["--dry", "--minutes", "10", "--data", str(data), "--out", str(tmp_path / "out")]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BARE.format(here=str(REPOSITORY / "tests" / "runs")))
    places = {HOME_VARIABLE: str(tmp_path / "home"), "PYTHONPATH": str(tmp_path / "site")}
    how: Any = {"env": {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", **places}, "cwd": REPOSITORY}
    command = [sys.executable, "-m", "benchmarks.gpu", *words]
    first, again = (subprocess.run(command, capture_output=True, text=True, check=False, **how) for _ in range(2))
    assert first.returncode == 0, first.stdout + first.stderr
    rows = gpu.read(tmp_path / "out" / "rows.jsonl")
    assert [row.problem for row in rows] == [""] * len(rows)
    assert {row.part for row in rows} == set(gpu.PARTS)
    assert all(row.is_dry and row.seconds >= 0 and row.memory_mb > 0 and row.figures for row in rows)
    assert (again.returncode, again.stdout) == (0, ""), again.stderr


def test_what_failed_is_done_again_and_no_case_begins_that_cannot_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: gpu.Place) -> gpu.Figures:
        raise gpu.Wrong("too slow", {"share": 0.4})

    good = gpu.Case("d", "good", 0.0, lambda _: {"ap": 1})
    made = [gpu.Case("b", "slow", 0.0, wrong), gpu.Case("c", "long", 90.0, wrong), good]
    monkeypatch.setattr(gpu, "cases", lambda parts, is_dry: iter(made))
    for _ in range(2):
        assert gpu.main(["--dry", "--minutes", "1", "--out", str(tmp_path)]) == 1
    rows = gpu.read(tmp_path / "rows.jsonl")
    assert [(row.case, row.problem, row.figures) for row in rows] == [
        ("slow", "too slow", {"share": 0.4}), ("good", "", {"ap": 1}), ("slow", "too slow", {"share": 0.4}),
    ]  # fmt: skip
    assert "c long: not done, " in capsys.readouterr().out
    monkeypatch.setattr(gpu, "KEPT", tmp_path / "gpu.jsonl")
    assert gpu.tables() == []
    row = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    (tmp_path / "gpu.jsonl").write_text(json.dumps({**row, "is_dry": False}) + '\n{"part": "cut off')
    assert "| b | slow | too slow | share 0.4 |" in gpu.tables()[0]
