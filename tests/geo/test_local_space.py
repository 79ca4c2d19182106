"""Pictures without a place on the Earth: what is taken, how two are laid over one another, outlines in pixels."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import geopandas
import numpy as np
import pytest
import shapely
from geo_parts import pattern
from pyproj import CRS

from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo import local_space
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.footprints import read_footprints
from pu_geo.records import Grid, Role, Scene

WIDTH, HEIGHT = 60, 40
Write = Callable[..., Path]


def save(path: Path, width: int = WIDTH, height: int = HEIGHT) -> Path:
    cv2.imwrite(str(path), pattern(height, width).transpose(1, 2, 0)[:, :, ::-1])
    return path


def scene(folder: Path, name: str, role: Role, pixel_m: float, width: int = WIDTH, height: int = HEIGHT) -> Scene:
    return describe(save(folder / name, width, height), role, f"{role}-1", pixel_m=pixel_m)


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    """A grid of 60 x 40 pixels of 0.5 m: 30 x 20 m."""
    return project_grid([scene(tmp_path, "post.png", "post", 0.5)])


def refused(path: Path, pixel_m: float | None) -> ImageryError:
    with pytest.raises(ImageryError) as refusal:
        describe(path, "post", "s", pixel_m=pixel_m)
    return refusal.value


# Scenes


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif"])
def test_a_picture_lies_with_its_upper_left_corner_at_the_origin(tmp_path: Path, name: str) -> None:
    found = scene(tmp_path, name, "post", 0.5)
    assert (found.crs, found.place, found.gsd_m) == (systems.LOCAL, "no place: local coordinates", 0.5)
    grid = project_grid([found])
    assert (grid.transform, grid.width, grid.height) == ((0.5, 0.0, 0.0, 0.0, -0.5, 0.0), WIDTH, HEIGHT)
    assert (grid.gsd_m, grid.x_unit_m, grid.y_unit_m, grid.has_place) == (0.5, 1.0, 1.0, False)
    with Mosaic([found], grid) as mosaic:
        pixels, valid = mosaic.read(0, 0, WIDTH, HEIGHT)
    assert valid.all()
    if name != "a.jpg":
        np.testing.assert_array_equal(pixels, pattern(HEIGHT, WIDTH))


def test_the_place_of_a_picture_is_that_of_its_file_or_of_a_size_that_can_be(tmp_path: Path, write_tif: Write) -> None:
    assert refused(write_tif("a", pattern(HEIGHT, WIDTH)), 0.5).kind == "local"
    assert refused(write_tif("b", pattern(HEIGHT, WIDTH), crs=None), 0.5).kind == "local"
    path = save(tmp_path / "c.png")
    (tmp_path / "c.pgw").write_text("1\n0\n0\n-1\n500000\n4600000\n")
    assert refused(path, 0.5).kind == "local"
    for pixel_m in (None, 0.0, -1.0, 0.001, 1000.0, float("nan")):
        assert refused(save(tmp_path / "a.png"), pixel_m).kind == "geotransform"
    assert scene(tmp_path, "a.png", "post", 1.0).gsd_m == 1.0  # as good a size as any


def test_two_dates_must_show_the_same_ground(tmp_path: Path) -> None:
    pre, post = scene(tmp_path, "pre.png", "pre", 0.5, 30, 20), scene(tmp_path, "post.png", "post", 0.5)
    pre, post = local_space.laid_over([], [pre, post])
    assert (post.gsd_m, pre.gsd_m) == (0.5, 1.0)
    assert pre.transform == (1.0, 0.0, 0.0, 0.0, -1.0, 0.0)  # 30 pixels of 1 m are 60 of 0.5 m
    with Mosaic([pre], project_grid([post])) as mosaic:
        pixels, valid = mosaic.read(0, 0, WIDTH, HEIGHT)
    assert valid.all()
    blocks = pixels.astype(float).reshape(3, 20, 2, 30, 2).mean(axis=(2, 4))  # a pre pixel covers 2 x 2 grid pixels
    assert np.corrcoef(blocks[:, 1:-1, 1:-1].ravel(), pattern(20, 30)[:, 1:-1, 1:-1].ravel())[0, 1] > 0.97
    post = scene(tmp_path, "post.png", "post", 0.5)
    (fitting,) = local_space.laid_over([post], [scene(tmp_path, "pre.png", "pre", 1.004, 30, 20)])
    assert fitting.gsd_m == 1.0
    with pytest.raises(ImageryError, match=r"15\.0 m wide, and post\.png is 30\.0 m") as refusal:
        local_space.laid_over([post], [scene(tmp_path, "pre.png", "pre", 0.5, 30, 20)])
    assert "pixels of 1 m" in refusal.value.hint


def test_scenes_with_and_without_a_place_of_other_shape_or_of_one_date_do_not_mix(tmp_path: Path, write_tif: Write) -> None:
    placed = describe(write_tif("a", pattern(HEIGHT, WIDTH)), "post", "post-1")
    pre, post = scene(tmp_path, "pre.png", "pre", 0.5, 60, 44), scene(tmp_path, "post.png", "post", 0.5)
    for known, new, words in (
        ([placed], [pre], r"a\.tif has a place on the Earth and pre\.png has none"),
        ([pre], [placed], r"a\.tif has a place on the Earth and pre\.png has none"),
        ([], [pre, post], r"60 x 44 pixels and post\.png 60 x 40"),
        ([], [post, scene(tmp_path, "b.png", "post", 0.5)], "more than one post picture"),
    ):
        with pytest.raises(ImageryError, match=words):
            local_space.laid_over(known, new)
    assert local_space.laid_over([], [placed]) == [placed]


# The system


def test_the_local_system_is_one_that_other_programs_know_and_is_nowhere() -> None:
    assert CRS.from_wkt(systems.LOCAL).type_name == "Engineering CRS"
    assert systems.unit_metres(systems.LOCAL, 0.0, 0.0, 10.0) == (1.0, 1.0)
    here = np.zeros((1, 2))
    for way in (
        lambda: systems.to_lonlat(here, systems.LOCAL),
        lambda: systems.convert(here, systems.LOCAL, "EPSG:32633"),
        lambda: systems.convert(here, systems.LONLAT, systems.LOCAL),
    ):
        with pytest.raises(ImageryError, match="no place on the Earth"):
            way()


# Outlines


INSIDE, OUTSIDE = shapely.box(10, 4, 20, 10), shapely.box(70, 4, 80, 10)


def write_outlines(path: Path, shapes: list[shapely.Polygon], crs: int | None = None) -> Path:
    """Write outlines with the ids h0, h1, ... as GeoPackage, CSV or GeoJSON."""
    table = geopandas.GeoDataFrame({"id": [f"h{i}" for i in range(len(shapes))]}, geometry=shapes, crs=crs)
    if path.suffix == ".csv":
        table.to_wkt().rename(columns={"geometry": "wkt"}).to_csv(path, index=False)
    else:
        table.to_file(path)
    return path


@pytest.mark.filterwarnings("ignore:'crs' was not provided:UserWarning")
@pytest.mark.parametrize("kind", ["gpkg", "csv"])
def test_outlines_are_in_pixels_with_y_down(tmp_path: Path, grid: Grid, kind: str) -> None:
    table = read_footprints(write_outlines(tmp_path / f"h.{kind}", [INSIDE, OUTSIDE]), grid)
    # Pixels 10..20 x 4..10 of 0.5 m: meters 5..10 x -5..-2, 15 square meters.
    assert shapely.bounds(shapely.from_wkb(table.wkb[0])).tolist() == [5.0, -5.0, 10.0, -2.0]
    assert table.area_m2.tolist() == [15.0]
    assert (list(table.building_ids), table.n_in, table.n_dropped) == (["h0"], 2, 1)
    assert any("outside the post scenes" in note for note in table.notes)


def test_xbd_labels_give_their_pixels(tmp_path: Path, grid: Grid) -> None:
    row = {"properties": {"uid": "u", "subtype": "destroyed"}}
    lnglat = "POLYGON ((15 41, 15.1 41, 15.1 41.1, 15 41))"
    path = tmp_path / "x_post_disaster.json"
    path.write_text(json.dumps({"features": {"xy": [{**row, "wkt": INSIDE.wkt}], "lng_lat": [{**row, "wkt": lnglat}]}}))
    table = read_footprints(path, grid)
    assert shapely.bounds(shapely.from_wkb(table.wkb[0])).tolist() == [5.0, -5.0, 10.0, -2.0]
    assert table.attributes[0]["damage"] == "destroyed"


def test_degrees_places_beside_the_picture_and_systems_on_the_earth_are_refused(tmp_path: Path, grid: Grid) -> None:
    # Longitude 15, latitude 33 would be a place on this picture.
    degrees = [shapely.box(15 + i / 1e3, 33, 15 + i / 1e3 + 1e-4, 33 + 1e-4) for i in range(5)]
    for name, shapes, crs, given, words in (
        ("a.csv", degrees, None, None, "look like degrees"),
        ("b.csv", [OUTSIDE], None, None, r"60 x 40 pixels\. They are at x 70 to 80, y 4 to 10"),
        ("c.geojson", [INSIDE], 32633, None, "is in EPSG:32633"),
        ("d.gpkg", [INSIDE], 32633, None, "is in EPSG:32633"),
        ("e.csv", [INSIDE], None, "EPSG:32633", "is in EPSG:32633"),
    ):
        with pytest.raises(FootprintError, match=words) as refusal:
            read_footprints(write_outlines(tmp_path / name, shapes, crs), grid, crs=given)
        assert refusal.value.kind == ("outside" if "pixels" in words else "local")
        assert "x to the right, y down" in refusal.value.hint
