"""QGIS itself opens what we write, colored; where no QGIS is installed these tests are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
from mapped_parts import TRUTH, mapped_project, say

from pu_geo.geo.export.layers import export_gpkg
from pu_geo.project import store
from pu_geo.tasks.damage_map.damage_map import build_damage_map

LOOK = textwrap.dedent("""
    import json, sys
    from qgis.core import QgsApplication, QgsVectorLayer
    app = QgsApplication([], False)
    app.initQgis()
    layer = QgsVectorLayer(sys.argv[1] + "|layername=" + sys.argv[2], "x", "ogr")
    renderer = layer.renderer()
    if hasattr(renderer, "categories"):
        found = {one.value(): one.symbol().color().name() for one in renderer.categories()}
    else:
        found = {one.label(): one.filterExpression() for one in renderer.rootRule().children()}
    expression = [feature["building_id"] for feature in layer.getFeatures()][:3]
    print("FOUND" + json.dumps({"n": layer.featureCount(), "crs": layer.crs().authid(), "looks": found, "ids": expression}))
""")


def python_of_qgis() -> str:
    """Return a Python that has QGIS."""
    for program in ("/usr/bin/python3", "python3"):
        try:
            subprocess.run([program, "-c", "import qgis.core"], capture_output=True, timeout=60, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return program
    pytest.skip("QGIS is not installed")


def seen_by_qgis(program: str, path: Path) -> dict:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [program, "-c", LOOK, str(path), "damage_map"], capture_output=True, text=True, timeout=120, check=True,
        env={**known, "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip
    assert "Non-conformant" not in done.stderr
    return json.loads(done.stdout.split("FOUND")[1])


@pytest.mark.ci
@pytest.mark.slow
def test_a_map_and_the_live_project_open_colored_while_the_app_writes(tmp_path: Path) -> None:
    program, layout = python_of_qgis(), mapped_project(tmp_path)
    say(layout, "b5", "positive")
    export_gpkg(build_damage_map(layout, "latest", 0.5), tmp_path / "map.gpkg")
    found = seen_by_qgis(program, tmp_path / "map.gpkg")
    assert (found["n"], found["crs"]) == (400, "EPSG:4326")
    assert {"confirmed", "flagged", "below", "not_assessed"} <= set(found["looks"])
    assert found["looks"]["confirmed"] == "#d55e00"
    assert len(set(found["looks"].values())) > 3
    with store.connect(layout) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE pugeo_meta SET value = value WHERE key = 'name'")
        found = seen_by_qgis(program, layout.gpkg)
        db.execute("COMMIT")
    assert (found["n"], found["crs"]) == (400, "EPSG:32615")
    assert any("\"label\" = 'positive'" in rule for rule in found["looks"].values())
    say(layout, f"b{np.flatnonzero(TRUTH)[0]}", "positive")  # and the app writes on
