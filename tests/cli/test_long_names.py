"""Names of 300 characters: taken where that does no harm, refused in words elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_parts import CommandLine
from mapped_parts import RUN, mapped_project

from pu_geo import cli
from pu_geo.project.layout import Layout

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]
LONG = "n" * 300


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return mapped_project(tmp_path_factory.mktemp("long"), 40)


@pytest.mark.parametrize(
    "words",
    [
        "label P --import {}.csv", "export P --out {}.geojson", "export P --out {}/map.geojson", "export-labels P --out {}.csv",
        "model export P latest --out {}.zip", "model check {}.zip", "model apply P {}.zip", "restore P {}", "restore P --to {}.pugeo",
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


@pytest.mark.parametrize("length", [200, 250])
def test_a_name_at_the_edge_is_written_or_refused_in_words(
    project: Layout, capsys: pytest.CaptureFixture[str], length: int, tmp_path: Path
) -> None:
    path = tmp_path / f"{'n' * (length - 8)}.geojson"
    code = cli.main(["export", str(project.folder), "--run", RUN, "--out", str(path)])
    assert "fault in PU-Geo" not in capsys.readouterr().err
    assert path.exists() == (code == 0)
    assert length > 200 or code == 0


def test_an_area_may_have_a_long_name(project: Layout, run: CommandLine, tmp_path: Path) -> None:
    ring = [[-94, 35], [-92, 35], [-92, 37], [-94, 37], [-94, 35]]
    feature = {"type": "Feature", "properties": {"name": LONG}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    path = tmp_path / "areas.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    assert run.json("add-areas", project.folder, path, "--layer", "districts")["n_areas"] == 1
    assert run.json("publish", project.folder, "--run", RUN, "--formats", "csv")["n"] == 40
