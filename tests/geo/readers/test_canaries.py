"""Hostile files that point at a server, at files elsewhere or out of their folder: none of it is contacted, read or written."""

import json
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from canaries import Server, WatchedFolder, snapshot
from pyproj import CRS, Transformer
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import Affine

from pu_geo.errors import PuGeoError
from pu_geo.geo.readers import in_child
from pu_geo.records import FootprintTable, Grid, Scene

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who opens a file is told by inotify, which is Linux's")
SIDE_PX = 64
PLACE = {"crs": "EPSG:32633", "transform": Affine(0.5, 0, 500_000, 0, -0.5, 4_600_000)}
GRID = Grid("EPSG:32633", CRS.from_epsg(32633).to_wkt(), tuple(PLACE["transform"])[:6], SIDE_PX, SIDE_PX, 0.5)
OUTLINE = shapely.box(500_005, 4_599_980, 500_015, 4_599_992)


class Lures(NamedTuple):
    """Where hostile files point: a server, and a folder with a picture, a grid and a text."""

    url: str
    outside: Path
    text: Path
    picture: Path
    grid: Path


Bait = Callable[[Path, Lures], Path]
BAITS: dict[str, Bait] = {}


def bait(make: Bait) -> Bait:
    BAITS[make.__name__] = make
    return make


def write_picture(path: Path, driver: str = "GTiff", **options: object) -> Path:
    profile = {"driver": driver, "width": SIDE_PX, "height": SIDE_PX, "count": 3, "dtype": "uint8"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile, **options) as file:
            file.write(np.random.default_rng(1).integers(1, 255, (3, SIDE_PX, SIDE_PX), dtype=np.uint8))
    return path


def write_tif(path: Path) -> Path:
    return write_picture(path, **PLACE, photometric="RGB")


def frame(crs: object = 32633) -> geopandas.GeoDataFrame:
    return geopandas.GeoDataFrame({"uid": ["a"], "name": ["x"]}, geometry=[OUTLINE], crs=crs)


def geojson(path: Path, **members: object) -> Path:
    return text(path, json.dumps({**json.loads(frame().to_crs(4326).to_json()), **members}))


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def wkt_with_grid(grid: object) -> str:
    return (
        'PROJCS["x",GEOGCS["x",DATUM["D",SPHEROID["b",6378137,298.257223563]],PRIMEM["Greenwich",0],'
        'UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],PARAMETER["central_meridian",15],'
        'PARAMETER["scale_factor",0.9996],PARAMETER["false_easting",500000],UNIT["metre",1]'
        f',EXTENSION["PROJ4","+proj=utm +zone=33 +ellps=bessel +nadgrids={grid} +units=m +no_defs"]]'
    )


def wkt_with_datum_grid(grid: object) -> str:
    return (
        f'GEOGCS["x",DATUM["D",SPHEROID["b",6378137,298.257223563],EXTENSION["PROJ4_GRIDS","{grid}"]],'
        'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
    )


# Scenes


def vrt(source: str) -> str:
    inner = f'<SourceFilename relativeToVRT="0">{source}</SourceFilename><SourceBand>1</SourceBand>'
    return f"""<VRTDataset rasterXSize="16" rasterYSize="16"><SRS>EPSG:32633</SRS>
<GeoTransform>500000,0.5,0,4600000,0,-0.5</GeoTransform>
<VRTRasterBand dataType="Byte" band="1"><SimpleSource>{inner}</SimpleSource></VRTRasterBand></VRTDataset>"""


@bait
def tif_with_side_files(home: Path, lures: Lures) -> Path:
    path = write_tif(home / "a.tif")
    for name in ("a.tif.ovr", "a.ovr", "a.tif.msk", "a.IMD", "a.RPB", "a_RPC.TXT", "a_rpc.txt", "METADATA.DIM", "a.tfw"):
        (home / name).symlink_to(lures.picture if name.endswith(("ovr", "msk")) else lures.text)
    overviews = f'<Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">/vsicurl/{lures.url}/o.tif</MDI></Metadata>'
    text(home / "a.tif.aux.xml", f"<PAMDataset><SRS>{wkt_with_grid(lures.grid)}</SRS>{overviews}</PAMDataset>")
    text(home / "a.prj", f"{lures.url}/crs")
    return path


# Footprints


def gpkg(home: Path, *statements: str) -> Path:
    frame().to_file(home / "a.gpkg", layer="b")
    with closing(sqlite3.connect(home / "a.gpkg")) as database:
        database.executescript(";\n".join(statements))
    return home / "a.gpkg"


def archive(home: Path, *more: tuple[str, str]) -> Path:
    frame().to_file(home / "a.shp")
    with zipfile.ZipFile(home / "a.zip", "w") as file:
        for part in sorted(home.glob("a.[sdpc]*")):
            file.write(part, part.name)
            part.unlink()
        for name, content in more:
            file.writestr(name, content)
    return home / "a.zip"


def saved(table: geopandas.GeoDataFrame, path: Path) -> Path:
    """Save outlines; a FlatGeobuf gets a long header, behind which its CRS must be found all the same."""
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_file(path, DESCRIPTION="x" * 200_000)
        assert b"PARAMETERFILE" in path.read_bytes()  # the writer kept the grid
    return path


BAITS |= {
    "vrt_of_an_address": lambda home, lures: text(home / "a.tif", vrt(f"/vsicurl/{lures.url}/x.tif")),
    "vrt_of_a_file": lambda home, lures: text(home / "a.tif", vrt(str(lures.picture))),
    "json_with_a_linked_crs": lambda home, lures: geojson(
        home / "a.geojson", crs={"type": "link", "properties": {"href": f"{lures.url}/crs", "type": "ogcwkt"}}
    ),
    "gpkg_with_a_view_that_loads_code": lambda home, lures: gpkg(
        home,
        f"CREATE VIEW v AS SELECT fid, geom, load_extension('{lures.text}') AS c FROM b",
        *(f"UPDATE {table} SET table_name = 'v'" for table in ("gpkg_contents", "gpkg_geometry_columns")),
    ),
    "gpkg_with_triggers": lambda home, lures: gpkg(
        home,
        "CREATE TRIGGER t AFTER INSERT ON b BEGIN "
        f"SELECT writefile('{lures.outside / 'made.txt'}', load_extension('{lures.text}')); END",
    ),
    "zip_that_climbs": lambda home, lures: archive(home, ("../../outside/made.txt", "x"), ("..\\..\\made.txt", "x")),
    "parquet_with_a_grid": lambda home, lures: saved(frame(wkt_with_datum_grid(lures.grid)), home / "a.parquet"),
    "flatgeobuf_with_a_grid": lambda home, lures: saved(frame(wkt_with_datum_grid(lures.grid)), home / "a.fgb"),
    "link_to_a_scene_elsewhere": lambda home, lures: linked(home / "a.tif", lures.picture),
}


# The tests


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def lures(tmp_path: Path, server: Server) -> Lures:
    outside = tmp_path / "outside"
    outside.mkdir()
    found = Lures(server.url, outside, *(outside / f"secret.{suffix}" for suffix in ("txt", "tif", "gsb")))
    found.text.write_text("0.5\n0\n0\n-0.5\n500000.25\n4599999.75\n")
    found.grid.write_bytes(b"NUM_OREC" + bytes(500))
    write_tif(found.picture)
    return found


@pytest.fixture
def watch(lures: Lures) -> Iterator[WatchedFolder]:
    watch = WatchedFolder(lures.outside)
    yield watch
    watch.close()


def outcome(read: Callable[[], Scene | FootprintTable]) -> str:
    try:
        return type(read()).__name__
    except PuGeoError as refusal:
        return refusal.kind if refusal.hint else "no hint"


@pytest.mark.slow
@pytest.mark.parametrize("name", BAITS)
def test_nothing_but_the_file_is_touched(
    name: str, tmp_path: Path, lures: Lures, watch: WatchedFolder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    path = BAITS[name](home, lures)
    before, _, already = snapshot(tmp_path), watch.touched(), len(server.asked)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    ends = {outcome(lambda: next(in_child.describe_each([path]))), outcome(lambda: in_child.read_footprints(path, GRID))}
    assert watch.touched() == []
    assert server.asked[already:] == []
    after = snapshot(tmp_path)
    assert after.pop("temporary")[0] == before.pop("temporary")[0]
    assert after == before
    # Only what is harmless as it is may pass: the lure in it was not followed.
    assert ends <= {"driver", "corrupt", "crs", "link", "geotransform", "parse", "view", "path", "symlink", "open"} | (
        {"Scene", "FootprintTable"} if name in HARMLESS else set()
    )
    assert bool(ends & {"Scene", "FootprintTable"}) == (name in HARMLESS)


HARMLESS = {"tif_with_side_files", "gpkg_with_triggers"}


def test_a_crs_that_a_person_gives_is_not_followed_either(
    tmp_path: Path, lures: Lures, watch: WatchedFolder, server: Server
) -> None:
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "a.shp"
    frame().to_file(path)
    path.with_suffix(".prj").unlink()
    already = len(server.asked)
    for crs in (f"{lures.url}/crs", wkt_with_grid(lures.grid), wkt_with_datum_grid(lures.grid)):
        assert outcome(lambda crs=crs: in_child.read_footprints(path, GRID, crs=crs)) == "crs"
    assert (watch.touched(), server.asked[already:]) == ([], [])


def test_what_watches_notices_and_baits_work_on_readers_without_guards(
    tmp_path: Path, lures: Lures, watch: WatchedFolder, server: Server
) -> None:
    """Were they stale, the tests above would prove nothing."""
    already = len(server.asked)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{lures.url}/seen", timeout=5)
    assert b"GET /seen" in server.asked[already]
    subprocess.run([sys.executable, "-c", f"open({str(lures.text)!r}).read()"], check=True)
    assert watch.touched() == ["opened secret.txt", "read secret.txt"]
    already = len(server.asked)
    with pytest.raises(rasterio.errors.RasterioError), rasterio.open(BAITS["vrt_of_an_address"](tmp_path, lures)) as file:
        file.read()
    assert server.asked[already:]
    with rasterio.open(BAITS["vrt_of_a_file"](tmp_path, lures)) as file:
        file.read()
    assert "opened secret.tif" in watch.touched()
    with pytest.raises(Exception, match="not found or invalid"):
        Transformer.from_crs(CRS.from_wkt(wkt_with_grid(lures.grid)), 4326)
    assert "opened secret.gsb" in watch.touched()
