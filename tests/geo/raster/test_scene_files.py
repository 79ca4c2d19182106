"""Whether a file can be a scene, its description, and its place from a world file or xBD labels."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from geo_parts import NORTH_UP, ORIGIN, pattern
from numpy.typing import NDArray
from pyproj import CRS, Transformer
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import Affine

from pu_geo.errors import ImageryError, PuGeoError
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import at_places_of, project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.readers import xbd
from pu_geo.geo.vector.footprints import read_footprints
from pu_geo.records import BandTriple, Grid, Scene

Make = Callable[..., Scene]
Write = Callable[..., Path]
pytestmark = pytest.mark.filterwarnings(f"ignore::{NotGeoreferencedWarning.__module__}.NotGeoreferencedWarning")
PICTURE = pattern(40, 60)
TURNED = NORTH_UP @ Affine.rotation(20)
TO_UTM15 = Transformer.from_crs(4326, 32615, always_xy=True)


def test_describe_tells_place_size_date_and_hash(write_tif: Write) -> None:
    path = write_tif("a", pattern(40, 48))
    scene = describe(path, "pre", "pre-1", "2011-05-29")
    assert (scene.crs, scene.width, scene.height, scene.bands, scene.dtype) == ("EPSG:32633", 48, 40, 3, "uint8")
    assert scene.transform == (0.5, 0.0, *ORIGIN[:1], 0.0, -0.5, ORIGIN[1])
    assert scene.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (scene.role, scene.date, scene.stretch, scene.path) == ("pre", "2011-05-29", None, str(path))
    for tag, date in (("2031:05:29 17:00:00", "2031-05-29"), ("0000:00:00 00:00:00", None)):
        with rasterio.open(path, "r+") as target:
            target.update_tags(TIFFTAG_DATETIME=tag)
        assert describe(path, "post", "post-1").date == date
        assert describe(path, "post", "post-1", "2020-01-02").date == "2020-01-02"
    corner = np.zeros((3, 2100, 2100), dtype=np.uint8)
    corner[:, 1, 1] = 9  # the decimated look takes every second pixel and misses it, but it is not empty
    assert describe(write_tif("corner", corner, nodata=0, compress="deflate"), "post", "c").width == 2100


def test_pixel_size_is_measured_on_the_ground_and_the_stretch_without_outliers(make_scene: Make) -> None:
    # At 60 degrees north one Web Mercator metre is cos(60) = 0.5 m on the sphere, 0.5016 m on the ellipsoid along x.
    mercator = make_scene("m", pattern(32, 32), Affine(1, 0, 1_000_000.0, 0, -1, 8_399_737.89), "EPSG:3857")
    assert mercator.gsd_m == pytest.approx(0.501, abs=0.002)
    # Geod("WGS84") between neighbors at 41.49984 north: 0.83496 m along x, 1.11064 m along y
    degrees = make_scene("d", pattern(32, 32), Affine(1e-5, 0, 15.0, 0, -1e-5, 41.5), "EPSG:4326")
    assert degrees.gsd_m == pytest.approx((0.83496 * 1.11064) ** 0.5, rel=1e-4)
    data = np.tile(np.arange(1000, 1100, dtype=np.uint16).repeat(10), (3, 40, 1))
    data[:, :, 0], data[:, 0, 5] = 0, 65535
    stretch = make_scene("u", data, nodata=0).stretch
    assert stretch is not None
    assert all(1000 <= low <= 1004 and 1095 <= high <= 1099 for low, high in stretch)
    constant = make_scene("c", np.full((3, 20, 20), 7, dtype=np.float32)).stretch
    assert constant is not None
    assert all(high > low for low, high in constant)


@pytest.mark.parametrize(
    ("data", "options", "kind"),
    [
        (np.zeros((3, 32, 32), np.uint8), {"nodata": 0}, "empty"),
        (pattern(32, 32, bands=2), {}, "bands"),
        (pattern(8, 32), {}, "small"),
        (pattern(32, 32).astype(np.complex64), {}, "dtype"),
        (pattern(32, 32), {"crs": None}, "crs"),
        (pattern(32, 32), {"transform": Affine(500, 0, ORIGIN[0], 0, -500, ORIGIN[1])}, "geotransform"),
        (pattern(32, 32), {"transform": Affine(1e-5, 0, 41.0, 0, -1e-5, 139.0), "crs": "EPSG:4326"}, "bounds"),
        (np.ones((3, 5000, 5000), np.uint8), {"sparse_ok": True, "compress": "zstd", "tiled": True}, "size"),
    ],
)
def test_unusable_scenes_are_refused_with_their_kind(
    make_scene: Make, data: np.ndarray, options: dict[str, object], kind: str
) -> None:
    with pytest.raises(ImageryError) as refused:
        make_scene("bad", data, **options)
    assert refused.value.kind == kind
    assert refused.value.hint


@pytest.mark.parametrize(
    ("names", "colors", "wanted", "expected"),
    [
        ((), "rgb", None, (1, 2, 3)),
        ((), "bgr", (1, 1, 2), (1, 1, 2)),
        (("NIR", "Red ", "green", "blue"), "????", None, (2, 3, 4)),
        ((), "ga", None, (1, 1, 1)),
        ((), "argb", None, (2, 3, 4)),
        ((), "rgb?????", (8, 4, 3), (8, 4, 3)),
    ],
)
def test_bands_are_those_that_a_person_or_the_file_calls_red_green_blue(
    write_tif: Write, names: tuple[str, ...], colors: str, wanted: BandTriple | None, expected: BandTriple
) -> None:
    hole = np.full((30, 30), 255, np.uint8)
    hole[10:20, 10:20] = 0
    data = np.stack([hole if color == "a" else np.full((30, 30), 10 * i, np.uint8) for i, color in enumerate(colors, 1)])
    kinds = {"r": "red", "g": "green" if len(colors) > 2 else "gray", "b": "blue", "a": "alpha", "?": "undefined"}
    for name, transform in (("aligned", NORTH_UP), ("warped", NORTH_UP @ Affine.translation(0.3, 0.4))):
        path = write_tif(name, data, transform, photometric="MINISBLACK", **({"alpha": "NO"} if len(colors) == 4 else {}))
        with rasterio.open(path, "r+") as file:
            file.colorinterp = [ColorInterp[kinds[color]] for color in colors]
            if names:
                file.descriptions = names
        scene = describe(path, "post", "s", bands=wanted)
        assert scene.rgb == expected
        pixels, valid = whole(scene, replace(project_grid([scene]), transform=tuple(NORTH_UP)[:6]))
        assert pixels[:, 5, 5].tolist() == [10 * band for band in expected]
        assert (valid[5, 5], valid[15, 15]) == (True, "a" not in colors)


@pytest.mark.parametrize("wanted", [(0, 1, 2), (1, 2, 4), (1, 2)])
def test_bands_that_are_not_there_or_transparency_are_refused(write_tif: Write, wanted: BandTriple) -> None:
    path = write_tif("rgba", pattern(20, 20, bands=4))
    with pytest.raises(ImageryError, match=r"^Bands .* it has bands 1, 2, 3") as refused:
        describe(path, "post", "s", bands=wanted)
    assert refused.value.kind == "bands"


def save(path: Path, data: NDArray[np.generic] = PICTURE) -> Path:
    driver = {".png": "PNG", ".jpg": "JPEG", ".tif": "GTiff"}[path.suffix]
    shape = {"count": len(data), "height": data.shape[1], "width": data.shape[2], "dtype": data.dtype}
    with rasterio.open(path, "w", driver=driver, **shape) as file:
        file.write(data)
    return path


def world(path: Path, transform: Affine = NORTH_UP) -> Path:
    a, b, c, d, e, f, *_ = transform
    path.write_text("".join(f"{number!r}\n" for number in (a, d, b, e, c + (a + b) / 2, f + (d + e) / 2)))
    return path


def refused(path: Path, crs: str | None = None) -> ImageryError:
    with pytest.raises(ImageryError) as refusal:
        describe(path, "post", "s", crs=crs)
    return refusal.value


def whole(scene: Scene, grid: Grid) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    with Mosaic([scene], grid) as mosaic:
        return mosaic.read(0, 0, grid.width, grid.height)


@pytest.mark.parametrize(
    ("picture", "beside"), [("a.png", "a.PGW"), ("a.png", "a.wld"), ("a.jpg", "a.jgw"), ("a.tif", "a.tfw")]
)
def test_a_picture_lies_where_its_world_file_says(tmp_path: Path, picture: str, beside: str) -> None:
    save(tmp_path / picture)
    file = world(tmp_path / beside)
    if beside == "a.wld":
        file.write_text(file.read_text().replace(".", ","))  # as some programs write decimals
    scene = describe(tmp_path / picture, "post", "s", crs="EPSG:32633")
    assert scene.transform == pytest.approx(tuple(NORTH_UP)[:6], abs=1e-6)
    assert (scene.crs, scene.place) == ("EPSG:32633", f"world file {beside}")
    pixels, valid = whole(scene, project_grid([scene]))
    assert valid.all()
    if picture != "a.jpg":
        np.testing.assert_array_equal(pixels, PICTURE)
    world(file, TURNED)
    (tmp_path / "a.prj").write_text(CRS.from_epsg(32633).to_wkt("WKT1_ESRI"))
    turned = describe(tmp_path / picture, "post", "s")
    assert (turned.crs, turned.transform) == ("EPSG:32633", pytest.approx(tuple(TURNED)[:6], abs=1e-6))


def test_a_geotiff_takes_a_system_from_a_person_and_no_place_from_side_files(tmp_path: Path, write_tif: Write) -> None:
    path = write_tif("a", PICTURE)
    world(path.with_suffix(".tfw"), TURNED)
    aux = "<PAMDataset><SRS>EPSG:3857</SRS><GeoTransform>1,9,0,1,0,-9</GeoTransform></PAMDataset>"
    Path(f"{path}.aux.xml").write_text(aux)
    scene = describe(path, "post", "s", crs="EPSG:3857")
    assert (scene.transform, scene.crs, scene.place) == (tuple(NORTH_UP)[:6], "EPSG:32633", "")
    path = write_tif("b", PICTURE, crs=None)
    assert refused(path).kind == "crs"
    scene = describe(path, "post", "s", crs="EPSG:32633")
    assert scene.crs == "EPSG:32633"
    np.testing.assert_array_equal(whole(scene, project_grid([scene]))[0], PICTURE)
    assert refused(path, "EPSG:99999").kind == "crs"


@pytest.mark.parametrize(
    ("world_file", "prj", "kind"),
    [
        ("1 2 3", "EPSG:32633", "geotransform"),
        ("0.5 0 0 -0.5 nan 1", "EPSG:32633", "geotransform"),
        (None, "EPSG:32633", "geotransform"),
        ("0.5 0 0 -0.5 500000 4600000", None, "crs"),
        ("0.5 0 0 -0.5 500000 4600000", 'LOCAL_CS["x",UNIT["m",1]]', "crs"),
        ("0.5 0 0 -0.5 500000 4600000", "http://127.0.0.1:9/crs", "crs"),
        ("0.5 0 0 -0.5 500000 4600000", "EPSG:4978", "crs"),  # of the Earth's center
    ],
)
def test_side_files_that_are_damaged_missing_or_lead_elsewhere_are_refused(
    tmp_path: Path, world_file: str | None, prj: str | None, kind: str
) -> None:
    path = save(tmp_path / "a.png")
    for suffix, text in ((".pgw", world_file), (".prj", prj)):
        if text is not None:
            path.with_suffix(suffix).write_text(text)
    error = refused(path)
    assert error.kind == kind
    if None in (world_file, prj):
        assert (".pgw" if world_file is None else ".prj") in error.hint
    path.with_suffix(".pgw").unlink(missing_ok=True)
    (tmp_path / "inner").mkdir()
    path.with_suffix(".pgw").symlink_to(world(tmp_path / "inner" / "far.pgw"))
    assert refused(path, "EPSG:32633").kind == "link"


# xBD


def labels(folder: Path, name: str = "x_post_disaster", off: float = 0.0, n: int = 6, matrix: Affine | None = None) -> Path:
    """Labels of n squares; `off` moves every second one by so many pixels."""
    place = matrix or Affine(0.5, 0, 400_000, 0, -0.5, 4e6)
    rows: dict[str, list[dict[str, object]]] = {"xy": [], "lng_lat": []}
    for i in range(n):
        ring = shapely.get_coordinates(shapely.box(20 * i, 30 * (i % 3), 20 * i + 8, 30 * (i % 3) + 6))
        metres = np.stack([place @ (x + off * (i % 2), y) for x, y in ring])
        degrees = np.stack(TO_UTM15.transform(*metres.T, direction="INVERSE"), axis=-1)
        properties = {"uid": f"u{i}", "subtype": "destroyed" if i % 2 else "no-damage"}
        for key, corners in (("xy", ring), ("lng_lat", degrees)):
            rows[key].append({"properties": properties, "wkt": shapely.Polygon(corners).wkt})
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"features": rows, "metadata": {"capture_date": "2011-05-29T17:29:25.433Z"}}))
    return path


def test_a_picture_is_placed_by_its_labels(tmp_path: Path) -> None:
    path = save(tmp_path / "x_post_disaster.png", pattern(64, 128))
    labels(tmp_path)
    scene = describe(path, "post", "s")
    assert scene.transform == pytest.approx((0.5, 0, 400_000, 0, -0.5, 4e6), abs=1e-4)
    assert (scene.crs, scene.date, scene.transform[1], scene.transform[3]) == ("EPSG:32615", "2011-05-29", 0.0, 0.0)
    assert scene.place.startswith("xBD labels (6 buildings, off by ")
    turned = Affine.translation(400_000, 4e6) @ Affine.rotation(-10) @ Affine.scale(0.5, -0.5)
    cut_off = labels(tmp_path, matrix=turned)
    document = json.loads(cut_off.read_text())
    document["features"]["xy"][0]["wkt"] = "POLYGON ((0 0, 4 0, 8 2, 8 6, 0 6, 0 0))"  # one corner more than in degrees
    cut_off.write_text(json.dumps(document))
    place = xbd.place_of(cut_off, "x")
    assert place.transform == pytest.approx(tuple(turned)[:6], abs=1e-4)
    assert place.n_polygons == 5
    assert place.residual_px < 1e-4


@pytest.mark.parametrize(
    "document",
    [
        {"features": {"xy": [{"properties": {}, "wkt": "x"}], "lng_lat": [5, None, {"properties": 1, "wkt": 7}]}},
        {"features": {"xy": [{"wkt": "GEOMETRYCOLLECTION(" * 100_000}], "lng_lat": [{"wkt": "POLYGON((((((((0 0"}]}},
        {"features": []},
    ],
)
def test_labels_that_are_damaged_do_not_fit_or_are_too_few_are_refused(tmp_path: Path, document: object) -> None:
    path = save(tmp_path / "x_post_disaster.png", pattern(64, 128))
    (tmp_path / "x_post_disaster.json").write_text(json.dumps(document))
    assert refused(path).kind == "geotransform"
    with pytest.raises(PuGeoError):
        read_footprints(tmp_path / "x_post_disaster.json", Grid("EPSG:32615", "", (1, 0, 0, 0, -1, 0), 9, 9, 1.0))
    for options in ({"off": 5.0}, {"n": 0}):
        labels(tmp_path, **options)  # type: ignore[arg-type]
        error = refused(path)
        assert (error.kind, "labels" in error.problem) == ("geotransform", True)


def test_the_official_layout_is_found_and_pictures_without_labels_are_left_out(tmp_path: Path) -> None:
    for part in ("images", "labels"):
        (tmp_path / part).mkdir()
    for name in ("a_00_pre_disaster", "a_00_post_disaster", "a_01_post_disaster"):
        save(tmp_path / "images" / f"{name}.png", pattern(64, 128))
    for name in ("a_00_pre_disaster", "a_00_post_disaster"):
        labels(tmp_path / "labels", name)
    found = xbd.find_xbd(tmp_path)
    assert [path.name for path in (*found.pre, *found.post)] == ["a_00_pre_disaster.png", "a_00_post_disaster.png"]
    assert list(found.labels) == [tmp_path / "labels" / "a_00_post_disaster.json"]
    assert describe(found.post[0], "post", "s").crs == "EPSG:32615"
    with pytest.raises(ImageryError):
        xbd.find_xbd(tmp_path / "labels")


def test_other_scenes_of_an_event_are_of_the_sites_at_their_places(make_scene: Make) -> None:
    port, hill, near_hill = (
        replace(make_scene(f"s{k}", PICTURE, NORTH_UP @ Affine.translation(shift, 0)), scene_id=f"post-{k}")
        for k, shift in enumerate((0, 40_000, 40_030))
    )
    first = project_grid([port, hill])
    before = replace(first, sites=tuple(replace(one, name=name) for one, name in zip(first.sites, "PH", strict=True)))
    later = [replace(near_hill, scene_id="post-1"), replace(port, scene_id="post-2"), replace(hill, scene_id="post-3")]
    assert [(one.name, one.scenes) for one in project_grid(later, at_places_of(before, later)).sites] == [
        ("H", ("post-1", "post-3")), ("P", ("post-2",)),
    ]  # fmt: skip
