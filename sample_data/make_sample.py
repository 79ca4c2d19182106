"""Make the sample event: a made-up town before and after a made-up tornado, with a radar layer, footprints and true damage.

    python sample_data/make_sample.py

Every pixel is drawn by this program; no real imagery goes in. The same seed gives the same arrays.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cv2
import numpy as np
import rasterio
from pyproj import Transformer
from rasterio.enums import Resampling
from rasterio.transform import Affine
from shapely import affinity, set_precision
from shapely.geometry import Polygon, mapping
from shapely.geometry.polygon import orient
from shapely.ops import unary_union

from sample_data import _flood, _ground, _radar, _roofs, _things, _tornado, _trees
from sample_data._canvas import MARGIN_M, POST, PRE, SCALE, Canvas, Look, smooth_noise
from sample_data._plan import plan_town
from sample_data._town import Town

CRS = "EPSG:32615"
ORIGIN = (540_000.0, 2_990_000.0)  # open water in the Gulf, so that nobody takes the town for a real place
GSD_M = 0.5
SIZE_PX = (2816, 2560)
N_BUILDINGS = 1600
TAKEN = {"pre": "2031:09:12 16:48:00", "post": "2032:05:06 17:32:00", "sar-post": "2032:05:06 23:51:00"}


def make_sample(out: Path, *, seed: int = 7, size_px: tuple[int, int] = SIZE_PX, n_buildings: int = N_BUILDINGS) -> None:
    """Write `pre.tif`, `post.tif`, `sar-post.tif` and `footprints.geojson` into `out`.

    Args:
        out: folder; made if missing.
        seed: picks the town, the tornado and every grain of noise.
        size_px: width and height of both scenes.
        n_buildings: largest number of footprints. A small scene may hold fewer.
    """
    size_m = (size_px[0] * GSD_M, size_px[1] * GSD_M)
    town, tornado, flood = plan_event(size_m, n_buildings, seed)
    out.mkdir(parents=True, exist_ok=True)
    for name, look in (("pre", PRE), ("post", POST)):
        canvas = draw_scene(town, tornado, flood, look, seed)
        pixels = observe(canvas, look, size_px, np.random.default_rng([seed, 20, int(look.is_post)]))
        write_scene(out / f"{name}.tif", pixels, TAKEN[name])
    write_radar(out / "sar-post.tif", _radar.draw_radar(town, tornado, flood, seed), TAKEN["sar-post"])
    write_footprints(out / "footprints.geojson", town, np.random.default_rng([seed, 4]))


def plan_event(size_m: tuple[float, float], n_buildings: int, seed: int) -> tuple[Town, _tornado.Tornado, _flood.Flood]:
    """Lay out the town, send the tornado and the water through it and grade the damage; nothing is drawn yet."""
    town = plan_town(size_m, n_buildings, np.random.default_rng([seed, 1]))
    tornado = _tornado.Tornado(size_m, np.random.default_rng([seed, 2]))
    _tornado.grade_damage(town, tornado, np.random.default_rng([seed, 3]))
    flood = _flood.Flood(size_m, np.random.default_rng([seed, 5]))
    flood.mark(town)
    return town, tornado, flood


def draw_scene(town: Town, tornado: _tornado.Tornado, flood: _flood.Flood, look: Look, seed: int) -> Canvas:
    """Draw everything of one date, from the ground up."""
    rng = np.random.default_rng([seed, 10, int(look.is_post)])
    canvas = Canvas(town.size_m)
    _ground.paint_ground(town, canvas, look, np.random.default_rng([seed, 11]))
    if look.is_post:
        _tornado.scour(canvas, tornado, rng)
        _things.build_sites(canvas, town, look, np.random.default_rng([seed, 12]))
    _things.drop_clutter(canvas, town, look, np.random.default_rng([seed, 13]))
    _things.park_cars(canvas, town, look, rng)
    places = np.array(town.trees).reshape(-1, 3)
    strength = tornado.strength(places[:, 0], places[:, 1])
    trees, felled = _trees.make_trees(town.trees, look, seed, strength, look.is_post)
    bank = _trees.TreeBank(look, seed)
    shade = np.zeros(canvas.shape, np.uint8)
    for building in town.buildings:
        _roofs.shadow_of(shade, building, look)
    _trees.tree_shadows(shade, canvas, trees, bank, look, 1.0)
    _ground.darken(canvas, shade)
    on_roofs = np.zeros(canvas.shape, np.uint8)
    _trees.tree_shadows(on_roofs, canvas, [t for t in trees if t.radius > 3], bank, look, 0.5)
    before = canvas.pixels.copy()
    for index, building in enumerate(town.buildings):
        _roofs.draw_building(canvas, building, look, seed, index)
    on_roofs[(before == canvas.pixels).all(-1)] = 0
    _ground.darken(canvas, on_roofs, 0.5)
    if look.is_post:
        _trees.draw_felled(canvas, felled, tornado.heading, rng)
        _tornado.throw_debris(canvas, town, tornado, rng)
        _things.litter(canvas, town, tornado, rng)
        _flood.pour(canvas, town, flood, look, np.random.default_rng([seed, 14]))
    _trees.draw_trees(canvas, trees, bank, look)
    return canvas


def observe(canvas: Canvas, look: Look, size_px: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Turn the drawing into what a camera delivers, uint8 [rows, columns, 3]: blur, shift, light, color, noise."""
    width, height = size_px
    blurred = cv2.GaussianBlur(canvas.pixels, (0, 0), 1.25)
    step = GSD_M * SCALE
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    wave = 0.35 if look.is_post else 0.1
    x_wave, y_wave = (wave * smooth_noise((height, width), 700, rng) for _ in range(2))
    x = (x + 0.5 + look.shift_px[0] + x_wave) * step + MARGIN_M * SCALE - 0.5
    y = (y + 0.5 + look.shift_px[1] + y_wave) * step + MARGIN_M * SCALE - 0.5
    scene = cv2.remap(blurred, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    if look.is_post:
        scene = _things.haze(scene, (0.86, 0.60), rng)
    light = 1 + 0.025 * smooth_noise((height, width), 900, rng)
    for top in range(0, height, 512):
        part = scene[top : top + 512].astype(np.float32)
        part = part * light[top : top + 512, :, None] * np.array(look.gain, np.float32) + look.offset
        grain = rng.standard_normal(part.shape[:2], dtype=np.float32)[..., None]
        part += look.noise * (0.75 * grain + 0.5 * rng.standard_normal(part.shape, dtype=np.float32))
        scene[top : top + 512] = np.clip(part + 0.5, 0, 255).astype(np.uint8)
    return scene


def write_scene(path: Path, pixels: np.ndarray, taken: str) -> None:
    """Write uint8 [rows, columns, 3] as a tiled GeoTIFF with JPEG inside and overviews."""
    height, width = pixels.shape[:2]
    profile = {
        "driver": "GTiff", "width": width, "height": height, "count": 3, "dtype": "uint8", "crs": CRS,
        "transform": Affine(GSD_M, 0, ORIGIN[0], 0, -GSD_M, ORIGIN[1]), "tiled": True, "blockxsize": 256, "blockysize": 256,
        "compress": "JPEG", "jpeg_quality": 84, "photometric": "YCBCR", "interleave": "pixel",
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as scene:
        scene.write(pixels.transpose(2, 0, 1))
        scene.update_tags(
            TIFFTAG_DATETIME=taken,
            ACQUISITIONDATETIME=taken,
            TIFFTAG_IMAGEDESCRIPTION="PU-Geo sample event: drawn by a program, shows no real place",
            TIFFTAG_COPYRIGHT="CC0-1.0",
        )
        if min(width, height) >= 1024:
            scene.build_overviews([2, 4, 8], Resampling.average)


def write_radar(path: Path, db: np.ndarray, taken: str) -> None:
    """Write float32 [rows, columns] in dB as a tiled GeoTIFF of one band, NaN where there are no data."""
    height, width = db.shape
    gsd_m, (right, down) = _radar.GSD_M, _radar.OFFSET_M
    profile = {
        "driver": "GTiff", "width": width, "height": height, "count": 1, "dtype": "float32", "crs": CRS, "nodata": np.nan,
        "transform": Affine(gsd_m, 0, ORIGIN[0] + right, 0, -gsd_m, ORIGIN[1] - down), "tiled": True, "blockxsize": 256,
        "blockysize": 256, "compress": "DEFLATE", "predictor": 3, "zlevel": 9,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as scene:
        scene.write(db, 1)
        scene.set_band_description(1, "VV")
        scene.units = ("dB",)
        scene.update_tags(
            TIFFTAG_DATETIME=taken,
            ACQUISITIONDATETIME=taken,
            TIFFTAG_IMAGEDESCRIPTION="PU-Geo sample event: radar backscatter drawn by a program, shows no real place",
            TIFFTAG_COPYRIGHT="CC0-1.0",
        )


def write_footprints(path: Path, town: Town, rng: np.random.Generator) -> None:
    """Write the listed buildings as RFC 7946 GeoJSON; outlines are a few decimetres off, as real ones are."""
    to_lonlat = Transformer.from_crs(CRS, "EPSG:4326", always_xy=True)
    features = []
    for b in town.buildings:
        if not b.is_listed:
            continue
        outline = unary_union([Polygon(c) for c in b.corners()])
        outline = affinity.translate(outline, *rng.normal(0, 0.3, 2))
        on_map = affinity.affine_transform(outline, [1, 0, 0, -1, *ORIGIN])
        ring = np.stack(to_lonlat.transform(*np.array(on_map.exterior.coords).T), -1)
        lonlat = orient(set_precision(Polygon(ring), 1e-7))
        properties = {
            "uid": f"S-{b.number:05d}",
            "damage": b.grade,
            "types": "; ".join(b.types),
            "use": b.use,
            "storeys": b.storeys,
            "roof": b.roof,
        }
        geometry = json.loads(json.dumps(mapping(lonlat)), parse_float=lambda text: round(float(text), 7))
        features.append({"type": "Feature", "id": properties["uid"], "properties": properties, "geometry": geometry})
    head = '{"type": "FeatureCollection", "features": [\n'
    lines = ",\n".join(json.dumps(f, separators=(",", ":")) for f in features)
    path.write_text(f"{head}{lines}\n]}}\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--size", type=int, nargs=2, default=SIZE_PX, metavar=("WIDTH", "HEIGHT"), help="in pixels")
    parser.add_argument("--buildings", type=int, default=N_BUILDINGS)
    options = parser.parse_args(argv)
    started = time.monotonic()
    make_sample(options.out, seed=options.seed, size_px=tuple(options.size), n_buildings=options.buildings)
    features = json.loads((options.out / "footprints.geojson").read_text(encoding="utf-8"))["features"]
    print(f"{len(features)} footprints in {time.monotonic() - started:.0f} s: {options.out}")
    for damage, count in Counter(f["properties"]["damage"] for f in features).most_common():
        print(f"  {damage:<13} {count}")


if __name__ == "__main__":
    main()
