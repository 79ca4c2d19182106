"""Damaged files by the thousand: each must end in success or in one clear refusal; `make test-long PART=fuzz`."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import geopandas
import numpy as np
import rasterio
import shapely
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import Affine

from pu_geo.errors import PuGeoError
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.readers import in_child
from pu_geo.geo.vector.footprints import describe_footprints

SIDE_PX = 48
IN_PROCESS = (".tif", ".png", ".jpg", ".geojson", ".json")
IN_CHILD = (".gpkg", ".shp", ".zip", ".fgb", ".parquet", ".csv")  # one process a case: about half a second
PARTS = {
    ".shp": (".shp", ".shx", ".dbf", ".prj", ".cpg"),
    ".zip": (".shp", ".shx", ".dbf", ".prj", ".cpg"),
    ".png": (".png", ".json"),
    ".jpg": (".jpg", ".jgw", ".prj"),
}
ODD_NUMBERS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0", b"\0\0\x01\0", b"nan ")


def write_good_files(folder: Path) -> list[Path]:
    """Write small good scenes and footprint files, of every format and with every feature that readers look at."""
    rng = np.random.default_rng(1)
    picture = rng.integers(1, 255, (4, SIDE_PX, SIDE_PX), dtype=np.uint8)
    scenes: dict[str, dict[str, object]] = {
        "plain": {"count": 3},
        "tiled": {"count": 3, "tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate", "predictor": 2},
        "jpeg": {"count": 3, "compress": "jpeg", "photometric": "ycbcr"},
        "alpha": {"count": 4, "compress": "lzw", "alpha": "yes"},
        "wide": {"count": 4, "dtype": "uint16", "nodata": 0, "BIGTIFF": "YES"},
        "float": {"count": 3, "dtype": "float32", "interleave": "band", "compress": "zstd"},
    }
    place = {"crs": "EPSG:32633", "transform": Affine(0.5, 0, 500_000, 0, -0.5, 4_600_000)}
    for name, options in scenes.items():
        profile = {"driver": "GTiff", "width": SIDE_PX, "height": SIDE_PX, "dtype": "uint8", **place, **options}
        with rasterio.open(folder / f"{name}.tif", "w", **profile) as file:
            file.write(picture[: int(str(options["count"]))].astype(str(profile["dtype"])))
    x = np.arange(20) * 15.0 + 500_000
    table = geopandas.GeoDataFrame(
        {"uid": [f"u{i}" for i in range(20)], "storeys": range(20), "height": x / 7, "name": "Häuser"},
        geometry=[*shapely.box(x[:19], 4_599_900, x[:19] + 10, 4_599_912), None],
        crs=32633,
    )
    table.to_crs(4326).to_file(folder / "a.geojson")
    for suffix in (".gpkg", ".fgb", ".shp"):
        table.to_file(folder / f"a{suffix}", **({"SPATIAL_INDEX": "NO"} if suffix == ".fgb" else {}))
    table.to_parquet(folder / "a.parquet")
    table.to_crs(4326).to_wkt().to_csv(folder / "a.csv", index=False)
    pack(folder / "a.shp", folder / "a.zip")
    write_pictures(folder, picture[:3], table)
    return sorted(path for path in folder.iterdir() if path.suffix in (*IN_PROCESS, *IN_CHILD))


def write_pictures(folder: Path, picture: np.ndarray, table: geopandas.GeoDataFrame) -> None:
    """Write a PNG with xBD labels and a JPEG with a world file; neither format holds a place."""
    shape = {"count": 3, "width": SIDE_PX, "height": SIDE_PX, "dtype": "uint8"}
    for name, driver in (("picture.png", "PNG"), ("photo.jpg", "JPEG")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(folder / name, "w", driver=driver, **shape) as file:
                file.write(picture)
    (folder / "photo.jgw").write_text("0.5\n0\n0\n-0.5\n500000.25\n4599999.75\n")
    (folder / "photo.prj").write_text(table.crs.to_wkt("WKT1_ESRI"))
    buildings = table[:19]
    in_pixels = shapely.transform(buildings.geometry.values, lambda xy: (xy - [500_000, 4_600_000]) * [2, -2])
    in_degrees = buildings.to_crs(4326).geometry.values
    features = {
        key: [{"properties": {"uid": f"u{i}", "subtype": "destroyed"}, "wkt": shape.wkt} for i, shape in enumerate(shapes)]
        for key, shapes in (("xy", in_pixels), ("lng_lat", in_degrees))
    }
    (folder / "picture.json").write_text(json.dumps({"features": features, "metadata": {"capture_date": "2011-05-29"}}))


def pack(shapes: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for part in sorted(shapes.parent.glob(f"{shapes.stem}.*")):
            if part.suffix in PARTS[".shp"]:
                file.write(part, part.name)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file in one of five ways: bytes changed, an odd number put in, a part cut off, doubled, or taken out."""
    out = bytearray(data)
    way = rng.integers(5)
    at = int(rng.integers(len(out)))
    if rng.random() < 0.5:  # headers break more than data does
        at = at % 400
    size = int(rng.integers(1, 64))
    if way == 0:
        for place in rng.integers(max(0, at - 200), min(len(out), at + 200), rng.integers(1, 9)):
            out[place] = rng.integers(256)
    elif way == 1:
        out[at : at + 4] = ODD_NUMBERS[rng.integers(len(ODD_NUMBERS))]
    elif way == 2:
        del out[max(1, at) :]
    elif way == 3:
        out[at:at] = out[at : at + size]
    else:
        del out[at : at + size]
    return bytes(out)


def make_case(good: Path, folder: Path, rng: np.random.Generator) -> Path:
    """Write a damaged copy of a good file into an empty folder; where several files belong together, one is damaged."""
    target = folder / good.name
    if good.suffix not in PARTS or (good.suffix == ".zip" and rng.random() < 0.3):
        target.write_bytes(mutated(good.read_bytes(), rng))
        return target
    parts = [good.with_suffix(suffix) for suffix in PARTS[good.suffix]]
    chosen = rng.integers(len(parts))
    for i, part in enumerate(parts):
        data = part.read_bytes()
        (folder / part.name).write_bytes(mutated(data, rng) if i == chosen else data)
    if good.suffix == ".zip":
        pack(folder / good.with_suffix(".shp").name, target)
    return target


def outcome(path: Path) -> str:
    """Read all of a file and say how it ended: "read", or the kind of refusal. Any other exception is passed on."""
    try:
        if path.suffix not in (".tif", ".tiff", ".png", ".jpg"):
            # Formats that GDAL or Arrow reads may end the process; the others must not, and are many times quicker here.
            (in_child.describe_footprints if path.suffix in IN_CHILD else describe_footprints)(path)
            return "read"
        scene = describe(path, "post", "fuzz")
        with Mosaic([scene], project_grid([scene])) as mosaic:
            mosaic.read(0, 0, min(mosaic.grid.width, 4 * SIDE_PX), min(mosaic.grid.height, 4 * SIDE_PX))
    except PuGeoError as refusal:
        return refusal.kind
    return "read"


def fuzz(
    goods: Sequence[Path], folder: Path, n_cases: Callable[[int], bool], rng: np.random.Generator
) -> tuple[Counter[str], list[str]]:
    """Damage and read good files in turn for as long as `n_cases(number so far)` says.

    Returns:
        How often each format ended in which way, and a line for each case that ended otherwise; its file stays in `folder`.
    """
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    number = 0
    while n_cases(number):
        case = folder / f"{number:06d}"
        case.mkdir()
        path = make_case(goods[number % len(goods)], case, rng)
        try:
            ends[f"{path.name}: {outcome(path)}"] += 1
            shutil.rmtree(case)
        except Exception as error:  # anything is what we look for
            wrong.append(f"{path}: {type(error).__name__}: {error}")
        number += 1
    return ends, wrong
