"""What a file does not say is stated where it is taken for granted: at intake, on Imagery, in `doctor` and in what a map can't say."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.transform import Affine
from small_parts import job_of

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.readers import in_child
from pu_geo.lifecycle import doctor_job
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.runs.train_job import rank
from pu_geo.scenes import scene_pair
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

Pixels = NDArray[Any]
Change = Callable[[Pixels], Pixels]


@dataclass(frozen=True)
class Odd:
    """A scene pair of the town with something odd, and the words that say so.

    Attributes:
        pre, post: what is done to the pixels, uint8 [3, H, W].
        options, tags: of both files; tags by role.
    """

    words: str
    pre: Change = lambda pixels: pixels
    post: Change = lambda pixels: pixels
    options: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)


def four(order: str) -> Change:
    """16 bits of four bands in an order such as "bgrn", without names."""
    return lambda pixels: pixels[["rgbn".index(one) % 3 for one in order]].astype(np.uint16) * 10 + 300


def with_infrared(pixels: Pixels) -> Pixels:
    infrared = (pixels[0] // 2 + 40)[None]
    infrared[:, 100:] = 0  # water takes all of it
    return np.concatenate([pixels, infrared])


DATE = "TIFFTAG_DATETIME"
CASES = {
    "no band has a name": Odd("the bands have no names; 1, 2, 3 of 4 are taken as red, green, blue", four("rgbn"), four("rgbn")),
    "bands of two orders": Odd("Red and blue seem to be exchanged in the post scenes", four("rgbn"), four("bgrn")),
    "both in the other order": Odd("All scenes are bluer than land usually is", four("bgrn"), four("bgrn")),
    "infrared as transparency": Odd("is not used: nothing is hidden by it", with_infrared, with_infrared, {"alpha": "YES"}),
    "a date of processing": Odd("the date 2026-01-02 is the TIFF's DateTime", tags={"post": {DATE: "2026:01:02 10:00:00"}, "pre": {"ACQUISITIONDATETIME": "2020-01-01"}}),
    "pre after post": Odd(
        "A pre-event scene is dated 3 Feb 2021, after a post-event one, 2 Jan 2020",
        tags={"pre": {"ACQUISITION_DATE": "2021-02-03"}, "post": {"ACQUISITIONDATETIME": "2020-01-02T10:00:00Z", DATE: "2026:01:02 10:00:00"}},
    ),
}  # fmt: skip


def write(town: Path, folder: Path, role: str, odd: Odd) -> str:
    with rasterio.open(town / f"{role}.tif") as scene:
        pixels, place = getattr(odd, role)(scene.read()), {"transform": scene.transform, "crs": scene.crs}
    size = {"count": len(pixels), "height": pixels.shape[1], "width": pixels.shape[2], "dtype": pixels.dtype}
    kind = {"photometric": "RGB"} if pixels.dtype == np.uint8 else {}
    with rasterio.open(folder / f"{role}.tif", "w", driver="GTiff", **size, **place, **kind, **odd.options) as target:
        target.write(pixels)
        target.update_tags(**odd.tags.get(role, {}))
    return str(folder / f"{role}.tif")


def said_in(layout: Layout) -> dict[str, str]:
    """Return what Imagery and `doctor` say of a project."""
    checks = scene_pair.judge(layout, None).checks
    findings = doctor_job.examine(layout)
    imagery = " ".join(f"{one.worry} {one.words}" for one in checks)
    return {"Imagery": imagery, "doctor": " ".join(one.words for one in findings if one.level == "note")}


@pytest.mark.parametrize("case", CASES)
def test_it_is_said_at_intake_on_imagery_and_by_the_doctor(case: str, town: Path, tmp_path: Path) -> None:
    odd, layout = CASES[case], store.create(tmp_path / "p.pugeo", "P")
    paths = {role: write(town, tmp_path, role, odd) for role in ("pre", "post")}
    done: Any = add_scenes(job_of(layout), pre=[paths["pre"]], post=[paths["post"]])
    said = {"intake": " ".join(done["notes"]), **said_in(layout)}
    assert [where for where, words in said.items() if odd.words not in words] == []
    if case in ("no band has a name", "infrared as transparency", "a date of processing"):
        assert odd.words.lower() in str(in_child.inspect_file(paths["post"])["hint"]).lower()
    with store.connect(layout) as db:
        scenes, grid = contents.scenes(db), contents.grid(db)
    with Mosaic(scenes[1:], grid) as mosaic:
        assert mosaic.read(0, 0, grid.width, grid.height)[1].all(), "near infrared hides nothing"
    plain = store.create(tmp_path / "plain.pugeo", "Plain")
    usual: Any = add_scenes(job_of(plain), pre=[str(town / "pre.tif")], post=[str(town / "post.tif")])
    assert usual["notes"] == []


def test_one_picture_at_both_dates_is_said(town: Path, tmp_path: Path) -> None:
    for other in (["pre.tif"], ["post.tif", "pre.tif"]):
        layout = store.create(tmp_path / f"{len(other)}.pugeo", "P")
        done: Any = add_scenes(job_of(layout), pre=[str(town / "pre.tif")], post=[str(town / name) for name in other])
        assert any("one and the same picture: it shows no change" in note for note in done["notes"])


@pytest.mark.parametrize(("east", "north"), [(0.0, 0.0), (-16.0, 12.8), (16.0, 12.8), (0.0, 25.6)])
def test_a_placeholder_of_a_place_is_refused_with_a_way_out(east: float, north: float, town: Path, tmp_path: Path) -> None:
    with rasterio.open(town / "post.tif") as scene:
        pixels, profile = scene.read(), dict(scene.profile)
    profile |= {"crs": "EPSG:32630", "transform": Affine(0.1, 0, east, 0, -0.1, north)}
    path = tmp_path / "odm_orthophoto.tif"
    with rasterio.open(path, "w", **profile) as target:
        target.write(pixels)
    layout = store.create(tmp_path / "p.pugeo", "P")
    with pytest.raises(ImageryError, match="placeholder for a georeference") as refused:
        add_scenes(job_of(layout, "a"), pre=[], post=[str(path)])
    assert "--pixel-size 0.1" in refused.value.hint
    done = add_scenes(job_of(layout, "b"), pre=[], post=[str(path)], pixel_m=0.1)
    assert (done["is_local"], done["gsd_m"]) == (True, 0.1)


def test_what_outlines_may_say_wrongly_is_said_on_the_map_too(ranked_town: Layout, town: Path, tmp_path: Path) -> None:
    houses = geopandas.read_file(town / "footprints.geojson").to_crs(32615)
    x0, y0, _, y1 = houses.total_bounds
    left, right = (shapely.box(x, y1 - 9, x + 4, y1 - 5) for x in (x0 + 1, x0 + 5))
    close = shapely.MultiPolygon([shapely.box(x, y0 + 1, x + 5, y0 + 6) for x in (x0 + 40, x0 + 45.1)])
    rows = [left, right, close]
    geopandas.GeoDataFrame({"name": list("abc")}, geometry=rows, crs=32615).to_crs(26715).to_file(tmp_path / "more.gpkg")
    geopandas.GeoDataFrame({"name": list("abc")}, geometry=rows, crs=32615).to_file(tmp_path / "cut.gpkg")
    wanted = {
        "more.gpkg": ["more.gpkg: its coordinate system, EPSG:26715, is converted into EPSG:32615 within"],
        "cut.gpkg": ["1 pair(s) of footprints in cut.gpkg meet along a line", "1 part(s) of multipolygons in cut.gpkg nearly touch"],
    }  # fmt: skip
    for name, words in wanted.items():
        layout = Layout(Path(shutil.copytree(ranked_town.folder, tmp_path / f"{name}.pugeo")))
        done: Any = add_footprints(job_of(layout, name), paths=[str(tmp_path / name)])["files"][0]
        chip(job_of(layout, "chips"), size_px=32)
        rank(job_of(layout, "rank"))
        shown: Any = build_damage_map(layout, "latest", 0.5).metadata["cannot_say"]
        for one in words:
            assert one in " ".join(done["notes"])
            assert any(one in line for line in shown)
            assert one in said_in(layout)["doctor"]
