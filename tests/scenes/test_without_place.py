"""The whole way of a project without a place on the Earth: pictures, outlines in pixels, a map that says where it is not."""

import contextlib
import io
import json
import shutil
import sqlite3
from pathlib import Path

import cv2
import geopandas
import numpy as np
import pytest
import shapely
from cli_parts import CommandLine
from small_parts import small_grid, with_key

from pu_geo import cli
from pu_geo.errors import ImageryError, PuGeoError
from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.geo.local_space import check_coordinates
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

SIZE, PIXEL_M, COLUMNS, ROWS = 320, 0.5, 6, 5
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty houses on a picture before and one after, where every third is a heap of noise; outlines in pixels."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    pre = np.full((SIZE, SIZE, 3), 90, np.uint8) + rng.integers(0, 12, (SIZE, SIZE, 3), dtype=np.uint8)
    post = pre.copy()
    features = []
    for i in range(COLUMNS * ROWS):
        x, y = 20 + 50 * (i % COLUMNS), 20 + 60 * (i // COLUMNS)
        pre[y : y + 24, x : x + 24] = post[y : y + 24, x : x + 24] = (150, 160, 200)
        if i % 3 == 0:
            post[y : y + 24, x : x + 24] = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
        outline = json.loads(shapely.to_geojson(shapely.box(x, y, x + 24, y + 24)))
        properties = {"id": f"h{i}", "damage": "destroyed" if i % 3 == 0 else "no-damage"}
        features.append({"type": "Feature", "properties": properties, "geometry": outline})
    cv2.imwrite(str(folder / "pre.png"), pre)
    cv2.imwrite(str(folder / "post.png"), post)
    (folder / "houses.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return folder


@pytest.fixture(scope="module")
def made(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, object]]]:
    """A project of these pictures with a run, and what each step said."""
    path = tmp_path_factory.mktemp("made") / "odd.pugeo"
    both = ("--pre", pictures / "pre.png", "--post", pictures / "post.png", "--pixel-size", PIXEL_M)
    steps: tuple[tuple[object, ...], ...] = (
        ("init", path),
        ("add-scene", path, *both),
        ("add-footprints", path, pictures / "houses.geojson"),
        ("align", path),
        ("chip", path, "--size-px", 32),
        ("label", path, "--from-field", "damage", "--is", "destroyed", "--count", 5),
        ("rank", path),
    )
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PU_GEO_HOME", str(with_key(path.parent / "home")))
        for step in steps:
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                assert cli.main([*map(str, step), "--json"]) == 0
            said[str(step[0])] = json.loads(text.getvalue().splitlines()[-1])
    return path, said


@pytest.fixture
def ranked(made: tuple[Path, object], tmp_path: Path) -> Path:
    """A copy of that project."""
    return Path(shutil.copytree(made[0], tmp_path / "odd.pugeo"))


def test_every_step_works_in_local_meters(made: tuple[Path, dict[str, dict[str, object]]]) -> None:
    _, said = made
    scenes, added, moved = said["add-scene"], said["add-footprints"], said["align"]
    assert (scenes["width"], scenes["height"], scenes["gsd_m"], scenes["is_local"]) == (SIZE, SIZE, PIXEL_M, True)
    assert scenes["pre_share"] == 1.0
    assert (added["files"][0]["n_in"], added["added"]) == (COLUMNS * ROWS, COLUMNS * ROWS)
    assert abs(moved["shifts"]["Site 1"][0]) < PIXEL_M
    assert said["chip"]["n"] == COLUMNS * ROWS


def test_a_map_without_a_place_leaves_only_when_asked(run: CommandLine, ranked: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.gpkg"
    assert "--local-coordinates" in run.refused("export", ranked, "--format", "gpkg", "--out", out)
    assert not out.exists()
    run.json("export", ranked, "--format", "gpkg", "--out", out, "--local-coordinates")
    table = geopandas.read_file(out, layer="damage_map").set_index("building_id")
    assert table.crs is None or "Undefined Cartesian" in str(table.crs)
    # House h7: column 1, row 1 of the picture, pixels 70..94 x 80..104 of 0.5 m, y counted upwards.
    assert table.loc["h7"].geometry.bounds == (35.0, -52.0, 47.0, -40.0)
    assert (table.loc["h7"].x_m, table.loc["h7"].y_m, table.loc["h7"].area_m2) == (41.0, -46.0, 144.0)
    assert not {"lon", "lat"} & set(table.columns)
    with contextlib.closing(sqlite3.connect(out)) as db:
        asked = "SELECT description, srs_id FROM gpkg_contents WHERE table_name = 'damage_map'"
        description, srs_id = db.execute(asked).fetchone()
    assert srs_id == -1
    assert "no place on the Earth" in description
    assert "no place on the Earth" in json.loads((tmp_path / "map.run.json").read_text())["coordinates"]


def test_formats_that_are_read_as_degrees_are_refused(run: CommandLine, ranked: Path, tmp_path: Path) -> None:
    damage_map = build_damage_map(Layout(ranked), "latest", None)
    for format in ("geojson", "parquet", "fgb", "kml", "heat"):
        out = tmp_path / f"map.{format}"
        told = run.refused("export", ranked, "--format", format, "--out", out, "--local-coordinates")
        assert f"cannot be written as {format}" in told
        assert "gpkg or csv" in told
        with pytest.raises(ImageryError, match="cannot be written"):
            EXPORTERS[format](damage_map, out)  # the exporter itself knows better, too
        assert not out.exists()


def test_a_version_holds_what_can_be_told_without_a_place(run: CommandLine, ranked: Path) -> None:
    assert "--local-coordinates" in run.refused("publish", ranked, "--formats", "gpkg", "csv")
    assert "geojson" in run.refused("publish", ranked, "--local-coordinates")
    made = run.json("publish", ranked, "--formats", "gpkg", "csv", "--local-coordinates")
    folder = Path(str(made["out"]))
    names = {path.name for path in folder.iterdir()}
    assert {"damage_map.gpkg", "damage_map.csv", "report.html", "areas_grid500m.csv"} <= names
    assert not [name for name in names if name.endswith(".geojson")]
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "No place on the Earth" in report
    assert ">N</text>" not in report  # no north arrow
    assert "\u00b0 N" not in report


def test_labels_leave_as_csv_and_come_back(run: CommandLine, ranked: Path, tmp_path: Path) -> None:
    assert "longitude" in run.refused("export-labels", ranked, "--out", tmp_path / "labels.geojson")
    out = tmp_path / "labels.csv"
    assert run.json("export-labels", ranked, "--out", out)["n"] == 5
    assert "x_m,y_m" in out.read_text(encoding="utf-8-sig").splitlines()[0]
    points = tmp_path / "points.geojson"
    point = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [16.0, 16.0]}}
    points.write_text(json.dumps({"type": "FeatureCollection", "features": [point]}))
    assert "no place on the Earth" in run.refused("label", ranked, "--import", points)
    assert run.json("label", ranked, "--import", out)["unchanged"] == 5


def test_what_needs_a_place_is_refused(
    run: CommandLine, ranked: Path, pictures: Path, project: Layout, tmp_path: Path
) -> None:
    run.json("init", tmp_path / "new.pugeo")
    assert "size of its pixels" in run.refused("add-scene", tmp_path / "new.pugeo", "--post", pictures / "post.png")
    cells = run.json("add-grid", ranked, "--size-m", 40)
    assert (cells["n_in"], cells["added"]) == (16, 16)  # 160 m in cells of 40 m, both ways
    told = run.refused("next-round", ranked, "--new", tmp_path / "two.pugeo", "--post", pictures / "post.png")
    assert "no place on the Earth" in told
    cv2.imwrite(str(tmp_path / "more.png"), np.full((SIZE, SIZE, 3), 7, np.uint8))
    told = run.refused("add-scene", ranked, "--post", tmp_path / "more.png", "--pixel-size", PIXEL_M)
    assert "more than one post picture" in told
    for layout, srs_id in ((Layout(ranked), -1), (project, 32615)):
        with store.connect(layout) as db:
            rows = dict(db.execute("SELECT table_name, srs_id FROM gpkg_geometry_columns"))
            assert contents.grid(db).has_place == (srs_id > 0)
        assert (rows["footprints"], rows["damage_map"]) == (srs_id, srs_id)
    check_coordinates(small_grid().crs, ["geojson", "heat"], local=False)
    with pytest.raises(PuGeoError, match="has a place on the Earth"):
        check_coordinates(small_grid().crs, ["gpkg"], local=True)
