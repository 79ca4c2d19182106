"""The export panel of a project without a place on the Earth: nothing leaves unless it is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely
from app_parts import field, press, show
from small_parts import add_chips, add_run, table_of
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.geo.vector.crs import LOCAL
from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.records import Grid, Scene

N = 12


@pytest.fixture
def nowhere(tmp_path: Path, home: Path) -> Layout:
    """A project of 100 x 80 pixels in local meters, with a run over twelve squares."""
    layout, ids = store.create(tmp_path / "nowhere.pugeo", "Nowhere"), [f"b{i}" for i in range(N)]
    grid = Grid(LOCAL, LOCAL, (0.5, 0.0, 0.0, 0.0, -0.5, 0.0), 100, 80, 0.5)
    scene = Scene("post-1", "post", "/nowhere/x.png", LOCAL, grid.transform, 100, 80, 3, "uint8", 0.5, place="no place")
    with store.connect(layout) as db:
        contents.add_scenes(db, [scene], grid)
        contents.add_footprints(db, table_of([shapely.box(4 * i, -8, 4 * i + 3, -5) for i in range(N)]))
    sheets = {"per_sheet": 64, "columns": 8, "cell_w": 64, "cell_h": 64, "n": N, "n_sheets": 1, "has_pre": False}
    add_chips(layout, ids, chips=np.zeros((N, 3, 16, 16), np.uint8), sheets=sheets)
    add_run(layout, ids=ids)
    return layout


def test_the_map_is_exported_once_the_box_is_ticked(nowhere: Layout) -> None:
    app = press(show("damage_map", nowhere), "export")
    assert field(app, "Formats").options == ["GeoPackage (opens colored in QGIS)", "CSV"]
    assert not is_ready(app)
    app.checkbox(key="local_coordinates").check().run()
    assert is_ready(app)
    press(app, "Export version 1")
    assert jobs.wait(nowhere, jobs.all_jobs(nowhere)[0].job_id, seconds=60).state == "done"
    assert (nowhere.exports / "v1" / "damage_map.gpkg").is_file()


def is_ready(app: AppTest) -> bool:
    return not next(button for button in app.button if button.label == "Export version 1").disabled


def test_a_project_with_a_place_is_not_asked(project: Layout, home: Path) -> None:
    ids = [f"b{i}" for i in range(20)]
    add_chips(project, ids)
    add_run(project)
    app = press(show("damage_map", project), "export")
    assert field(app, "Formats").options[0] == "GeoJSON"
    assert not [box for box in app.checkbox if box.key == "local_coordinates"]
