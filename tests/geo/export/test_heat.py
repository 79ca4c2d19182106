"""The heat raster: counts by hand, nodata where nothing is known, and a layout that web readers like."""

from pathlib import Path

import numpy as np
import pyproj
import pytest
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.warp import transform as to_other

from pu_geo.errors import PuGeoError
from pu_geo.geo.export import heat
from pu_geo.records import DamageMap


def heat_of(
    folder: Path, places: list[tuple[float, float]], binary: list[str], crs: str = "EPSG:32633", cell_m: float = 100.0
) -> Path:
    wkb = [shapely.to_wkb(shapely.box(x - 1e-5, y - 1e-5, x + 1e-5, y + 1e-5)) for x, y in places]
    ids = [f"b{i}" for i in range(len(wkb))]
    meta = {"title": "Quake", "disclaimer": "preliminary", "run_id": "r1"}
    heat.export_heat(DamageMap(ids, wkb, {"damage_binary": binary}, crs, meta), folder / "map.tif", cell_m)
    return folder / "map.tif"


def bands(path: Path) -> NDArray[np.float32]:
    with rasterio.open(path) as source:
        return source.read(masked=True)


PLACES = [(500_000 + x, 4_500_000 + y) for x, y in ((10, 10), (20, 20), (30, 30), (40, 40), (250, 150), (110, 110))]
BINARY = ["damaged", "not_flagged", "not_flagged", "not_assessed", "not_flagged", "not_assessed"]


def test_counts_by_hand_and_nothing_assessed_is_nodata_and_never_zero(tmp_path: Path) -> None:
    # Cells of 100 m from (500000, 4500200): lower left cell 1 of 3 assessed damaged, 3 of 4 assessed; 1 per hectare is 100 per km2.
    found = bands(heat_of(tmp_path, PLACES, BINARY))
    assert found.shape == (3, 2, 3)
    np.testing.assert_allclose(found[:, 1, 0], [100, 1 / 3, 3 / 4], rtol=1e-6)
    np.testing.assert_allclose(found[:, 0, 2], [0, 0, 1])
    # (500110, 4500110) holds one building that was not assessed; the other masked cells hold none.
    assert np.ma.getmaskarray(found)[0].tolist() == [[True, True, False], [False, True, True]]
    assert np.ma.getmaskarray(found).all(axis=0).sum() == 4
    assert np.ma.getmaskarray(bands(heat_of(tmp_path, PLACES[:2], ["not_assessed"] * 2))).all()
    with pytest.raises(PuGeoError, match="no buildings"):
        heat_of(tmp_path, [], [])


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    with rasterio.open(heat_of(tmp_path, PLACES, BINARY)) as source:
        assert source.dtypes == ("float32",) * 3
        assert source.crs == CRS.from_epsg(32633)
        assert source.descriptions == heat.BANDS
        assert source.transform.a == 100
        assert (source.transform.c, source.transform.f) == (500_000, 4_500_200)
        assert source.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        tags = source.tags()
    assert (tags["CELL_M"], tags["DISCLAIMER"]) == ("100", "preliminary")
    assert '"run_id":"r1"' in tags["PU_GEO"]


def test_overviews_average_what_is_known(tmp_path: Path) -> None:
    x = 500_050 + 100.0 * np.arange(600)
    binary = ["damaged" if i % 2 else "not_assessed" for i in range(600)]
    path = heat_of(tmp_path, [(float(at), 4_500_050.0) for at in x], binary)
    with rasterio.open(path) as source:
        assert source.overviews(1) == [2, 4]
    with rasterio.open(path, overview_level=0) as source:
        found = source.read(1, masked=True)
    np.testing.assert_allclose(found.compressed(), 100)  # 50 if what is not known counted as 0
    assert found.count() == 300


def test_cells_are_square_on_the_ground_in_any_system(tmp_path: Path) -> None:
    path = heat_of(tmp_path, [(10.0, 60.0), (10.01, 60.01)], ["damaged"] * 2, crs="EPSG:4326")
    with rasterio.open(path) as source:
        a, e, x, y = source.transform.a, source.transform.e, source.transform.c, source.transform.f
        assert source.read(1, masked=True).sum() == pytest.approx(200, rel=1e-5)
    east, north = to_other("EPSG:4326", "EPSG:32632", [x, x + a, x], [y, y, y + e])
    assert np.hypot(east[1] - east[0], north[1] - north[0]) == pytest.approx(100, rel=0.005)
    assert np.hypot(east[2] - east[0], north[2] - north[0]) == pytest.approx(100, rel=0.005)
    local = "+proj=tmerc +lat_0=41 +lon_0=15 +k=1 +x_0=0 +y_0=0 +ellps=WGS84 +units=m +type=crs"
    path = heat_of(tmp_path, [(0, 0), (300, 300)], ["damaged"] * 2, crs=pyproj.CRS.from_proj4(local).to_wkt())
    with rasterio.open(path) as source:
        assert source.crs.to_dict()["proj"] == "tmerc"
        assert (source.width, source.height) == (4, 4)


def test_a_wide_area_gets_larger_cells_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat, "MOST_CELLS", 100)
    with rasterio.open(heat_of(tmp_path, [(500_000, 4_500_000), (502_500, 4_502_500)], ["damaged"] * 2)) as source:
        assert source.tags()["CELL_M"] == "400"
        assert source.width * source.height <= 100
        assert source.read(1, masked=True).max() == pytest.approx(1 / 0.16)
