"""Projects in a folder that one may not write to are exported and checked, untouched; names of 300 characters do no harm."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_parts import CommandLine
from mapped_parts import RUN, mapped_project
from small_parts import REPOSITORY, click

from pu_geo.store import labels, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.slow
WITHOUT_RIGHTS = """
import ctypes, os, sys
if os.geteuid() == 0:
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: with them root writes everywhere
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP; holds from the next exec
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
IS_CLOSED = "import os, sys; sys.exit(os.access(sys.argv[1], os.W_OK))"


def without_rights(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as a user who must keep to the rights of files, also where the tests are run by root."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS, *words], cwd=cwd, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PU_GEO_HOME": str(cwd), "TMPDIR": str(cwd)},
    )  # fmt: skip


def contents_of(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--run", RUN, "--out", "map.geojson"], ["export-labels", "--out", "labels.csv"], ["repair doctor"],
        ["repair backup", "--to", "kept"], ["project copy", "copied.pugeo"],
    ], ids=lambda words: words[0],
)  # fmt: skip
def test_a_closed_folder_is_exported_and_left_as_it_is(tmp_path: Path, words: list[str]) -> None:
    layout, mine = mapped_project(tmp_path, 40), tmp_path / "mine"
    click(layout, "b3")
    mine.mkdir()
    every = (layout.folder, *layout.folder.rglob("*"))
    for path in every:
        path.chmod(0o555 if path.is_dir() else 0o444)
    if without_rights("-c", IS_CLOSED, str(layout.folder), cwd=mine).returncode:
        pytest.skip("this user writes where the rights of a folder forbid it")
    before = contents_of(layout.folder)
    verb, *more = words
    done = without_rights("-m", "pu_geo.cli", *verb.split(), str(layout.folder), *more, cwd=mine)
    for path in every:
        path.chmod(0o755)
    assert "Traceback" not in done.stderr
    assert contents_of(layout.folder) == before
    if verb == "repair doctor":
        assert "may not" in done.stdout
        return
    assert done.returncode == 0, done.stderr
    if verb == "repair backup":
        assert len([*(mine / "kept").glob("*-asked.gpkg")]) == 1
    if "copy" in verb:
        assert store.call(Layout(mine / "copied.pugeo"), labels.last_event) == 1
    if "--out" in more:
        assert (mine / more[-1]).stat().st_size
        assert not list(mine.glob("pu-geo-job-*"))


LONG = "n" * 300


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return mapped_project(tmp_path_factory.mktemp("long"), 40)


@pytest.mark.parametrize(
    "words",
    [
        "label P --import {}.csv", "export P --out {}.geojson", "export P --out {}/map.geojson", "export-labels P --out {}.csv",
        "model export P latest --out {}.zip", "model apply P {}.zip", "restore P {}", "restore P --to {}.pugeo",
        "project copy P {}.pugeo", "doctor {}.pugeo", "demo --out {}", "init {}.pugeo", "card P --out {}.html", "backup P --to {}",
        "add-scene P --post {}.tif", "add-areas P {}.geojson --layer a", "runs rename P latest {}", "grades P --set {}=destroyed",
        "types P --of {}", "jobs P log {}", "features P --use {}", "publish P --profile {}", "choose P --run {}",
    ],
)  # fmt: skip
def test_a_name_that_does_not_fit_is_refused_in_words(
    project: Layout, run: CommandLine, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    err = run.refused(*(str(project.folder) if word == "P" else word.format(LONG) for word in words.split()))
    assert "fault in PU-Geo" not in err


def test_an_area_may_have_a_long_name(project: Layout, run: CommandLine, tmp_path: Path) -> None:
    ring = [[-94, 35], [-92, 35], [-92, 37], [-94, 37], [-94, 35]]
    feature = {"type": "Feature", "properties": {"name": LONG}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    path = tmp_path / "areas.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    assert run.json("add-areas", project.folder, path, "--layer", "districts")["n_areas"] == 1
    assert run.json("publish", project.folder, "--run", RUN, "--formats", "csv")["n"] == 40
