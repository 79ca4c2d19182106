"""Joplin as other people's imagery may be: filled, clouded, cut, in other numbers; with what is then hidden, for sure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import shapely
from cloud_parts import disc, under_clouds
from numpy.typing import NDArray
from rasterio.transform import Affine
from rasterio.warp import transform_geom
from rasterio.windows import Window
from shapely.geometry import mapping, shape

from pu_geo.geo.chips import outline_mask
from pu_geo.scenes.chip_job import Bands, chip
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

NAMES = ("joplin-tornado_00000000", "joplin-tornado_00000001")
DAMAGED = ("destroyed", "major-damage")
SIDE, GSD_M = 1024, 0.45128
Mask = NDArray[np.bool_]
REGION = np.s_[300:700, 250:750]
"""Rows and columns of each scene where many houses were destroyed."""


@dataclass
class Place:
    """One Joplin scene: pictures uint8 [1024, 1024, 3], what hides them, bool [1024, 1024], and outlines (px) and damage by uid."""

    name: str
    pre: NDArray[Any]
    post: NDArray[Any]
    transform: Affine
    crs: str
    houses: dict[str, tuple[shapely.Geometry, str]]
    hidden: dict[str, Mask] = field(default_factory=dict)
    touched: dict[str, Mask] = field(default_factory=dict)

    def hide(self, role: str, mask: Mask, touched: Mask | None = None) -> None:
        """Note which pixels of a date are hidden, and which ones at least partly, such as below a thin cloud."""
        self.hidden[role] = mask
        self.touched[role] = mask if touched is None else touched

    def middles(self, n: int, apart_px: float = 90.0) -> list[tuple[str, tuple[float, float]]]:
        """Return uid and middle of up to n damaged houses that lie away from each other and from the border."""
        found: list[tuple[str, tuple[float, float]]] = []
        for uid, (outline, damage) in self.houses.items():
            x, y = outline.centroid.x, outline.centroid.y
            is_inside = 60 < x < SIDE - 60 and 60 < y < SIDE - 60
            is_free = all(np.hypot(x - a, y - b) > apart_px for _, (a, b) in found)
            if damage in DAMAGED and is_inside and is_free and len(found) < n:
                found.append((uid, (x, y)))
        return found


@dataclass(frozen=True)
class Variant:
    """Files of a variant, and which share of each house's outline they hide for sure, or at least partly, by role and uid."""

    pre: Sequence[Path]
    post: Sequence[Path]
    buildings: Path
    damage: dict[str, str]
    hidden: dict[str, dict[str, float]]
    touched: dict[str, dict[str, float]]


def read_places(joplin: Path) -> list[Place]:
    places = []
    for name in NAMES:
        pictures = []
        for role in ("pre", "post"):
            with rasterio.open(joplin / name / f"{role}.tif") as source:
                pictures.append(source.read().transpose(1, 2, 0))
                transform, crs = source.transform, source.crs.to_string()
        features = json.loads((joplin / name / "buildings.geojson").read_text())["features"]
        houses = {}
        for feature in features:
            outline = shape(transform_geom("EPSG:4326", crs, feature["geometry"]))
            in_px = shapely.transform(outline, lambda xy, t=transform: np.stack((~t) @ xy.T, axis=-1))
            houses[feature["properties"]["uid"]] = (in_px, feature["properties"]["damage"])
        places.append(Place(name, pictures[0], pictures[1], transform, crs, houses))
    return places


def sample_places(sample: Path, folder: Path) -> Path:
    """Write two adjoining parts of the sample event's tornado path as Joplin's scenes lie on disk; return the folder."""
    features = json.loads((sample / "footprints.geojson").read_text())["features"]
    for number, name in enumerate(NAMES):
        window = Window(256 + SIDE * number, 896, SIDE, SIDE)
        (folder / name).mkdir(parents=True)
        for role in ("pre", "post"):
            with rasterio.open(sample / f"{role}.tif") as source:
                picture = source.read(window=window).transpose(1, 2, 0)
                corner = source.transform @ Affine.translation(window.col_off, window.row_off)
                place = Place(name, picture, picture, corner, source.crs.to_string(), {})
                inverse = ~place.transform
            write_picture(folder / name / f"{role}.tif", place, place.pre)
        inside = []
        for feature in features:
            middle = shape(transform_geom("EPSG:4326", place.crs, feature["geometry"])).centroid
            column, row = inverse @ (middle.x, middle.y)
            if 0 <= column < SIDE and 0 <= row < SIDE:
                inside.append(feature)
        (folder / name / "buildings.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": inside}))
    return folder


def write_picture(path: Path, place: Place, picture: NDArray[Any], **options: Any) -> Path:
    """Write a picture [H, W, bands] where a scene lies, in pixels as much larger as it has fewer of them."""
    height, width, count = picture.shape
    a, _, c, _, e, f, *_ = place.transform
    transform = Affine(a * SIDE / width, 0, c, 0, e * SIDE / height, f)
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": picture.dtype.name,
               "crs": place.crs, "transform": transform, "tiled": True, "blockxsize": 256, "blockysize": 256,
               "photometric": "RGB", "compress": "deflate"} | options  # fmt: skip
    with rasterio.open(path, "w", **profile) as target:
        target.write(picture.transpose(2, 0, 1))
    return path


def write_variant(
    joplin: Path, folder: Path, change: Callable[[Place, int], None] = lambda place, number: None, *,
    options: dict[str, Any] | None = None, roles: Sequence[Sequence[str]] = (("pre", "post"),) * 2,
) -> Variant:  # fmt: skip
    """Write the dates `roles` of both scenes after `change` got each with its number; `options` are of the post files."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[Path]] = {"pre": [], "post": []}
    damage: dict[str, str] = {}
    hidden: dict[str, dict[str, float]] = {"pre": {}, "post": {}}
    touched: dict[str, dict[str, float]] = {"pre": {}, "post": {}}
    features = []
    for number, place in enumerate(read_places(joplin)):
        change(place, number)
        for role in roles[number]:
            path = folder / f"{role}_{number}.tif"
            own = (options or {}) if role == "post" else {}
            files[role].append(write_picture(path, place, getattr(place, role), **own))
        for feature in json.loads((joplin / place.name / "buildings.geojson").read_text())["features"]:
            outline = place.houses[feature["properties"]["uid"]][0]
            placed = shapely.transform(outline, lambda xy, t=place.transform: np.stack(t @ xy.T, axis=-1))
            features.append({**feature, "geometry": transform_geom(place.crs, "EPSG:4326", mapping(placed))})
        for uid, (outline, what) in place.houses.items():
            damage[uid] = what
            covers = outline_mask(outline, np.zeros(2), 1.0, (SIDE, SIDE))
            for masks, shares in ((place.hidden, hidden), (place.touched, touched)):
                for role, of_role in shares.items():
                    all_of_it = 0.0 if role in roles[number] else 1.0
                    of_role[uid] = float(masks[role][covers].mean()) if role in masks and covers.any() else all_of_it
    buildings = folder / "buildings.geojson"
    buildings.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return Variant(files["pre"], files["post"], buildings, damage, hidden, touched)


def unaltered(joplin: Path, folder: Path) -> Variant:
    return write_variant(joplin, folder)


def apart(joplin: Path, folder: Path, crs: str = "EPSG:32615") -> Variant:
    """Write the second scene 100 km to the east of the first one, in a UTM zone."""

    def change(place: Place, number: int) -> None:
        if number:
            a, b, c, d, e, f, *_ = place.transform
            (x, y) = transform_geom(place.crs, crs, {"type": "Point", "coordinates": (c + 1e5, f)})["coordinates"]
            place.transform, place.crs = Affine(a, b, x, d, e, y), crs

    return write_variant(joplin, folder, change)


def filled(joplin: Path, folder: Path, color: int = 0, *, role: str = "post") -> Variant:
    """Write a region of each scene in one color, without a nodata tag."""

    def change(place: Place, number: int) -> None:
        getattr(place, role)[REGION] = color
        mask = np.zeros((SIDE, SIDE), dtype=bool)
        mask[REGION] = True
        place.hide(role, mask)

    return write_variant(joplin, folder, change)


def clouded(
    joplin: Path, folder: Path, *, role: str = "post", diameter_m: float = 200.0, soft_m: float = 30.0, thick: float = 1.0
) -> Variant:
    """Write one large cloud over each scene's worst part; what it covers by more than half of its thickness is hidden."""

    def change(place: Place, number: int) -> None:
        cover = disc(SIDE, (500, 500), diameter_m / 2 / GSD_M, soft_m / GSD_M, thick)
        setattr(place, role, under_clouds(getattr(place, role), cover, seed=number))
        place.hide(role, cover > 0.5, cover > 0.2)

    return write_variant(joplin, folder, change)


def small_clouded(
    joplin: Path, folder: Path, *, role: str = "post", diameter_m: float = 30.0, soft_m: float = 10.0, n: int = 12
) -> Variant:
    """Write a small thick cloud over each of some damaged houses, not quite in their middle."""
    rng = np.random.default_rng(int(diameter_m))

    def change(place: Place, number: int) -> None:
        cover = np.zeros((SIDE, SIDE))
        for _, (x, y) in place.middles(n):
            dx, dy = rng.uniform(-3, 3, 2) / GSD_M
            cover = np.maximum(cover, disc(SIDE, (x + dx, y + dy), diameter_m / 2 / GSD_M, soft_m / GSD_M))
        setattr(place, role, under_clouds(getattr(place, role), cover, seed=number))
        place.hide(role, cover > 0.5, cover > 0.2)

    return write_variant(joplin, folder, change)


def cut_through(joplin: Path, folder: Path, *, role: str = "post", n: int = 25) -> Variant:
    """Write tagged nodata over half to four fifths of some damaged houses, from the west, and less of their windows."""
    rng = np.random.default_rng(0)

    def change(place: Place, number: int) -> None:
        missing = np.zeros((SIDE, SIDE), dtype=bool)
        for uid, _ in place.middles(n, 60):
            west, north, east, south = (int(one) for one in np.rint(place.houses[uid][0].bounds))
            missing[north - 2 : south + 2, west - 2 : west + round((east - west) * rng.uniform(0.6, 0.8))] = True
        picture = getattr(place, role)
        np.maximum(picture, 1, out=picture)
        picture[missing] = 0
        place.hide(role, missing)

    return write_variant(joplin, folder, change, options={"nodata": 0})


def hazy(joplin: Path, folder: Path, *, thick: float = 0.35, scenes: Sequence[int] = (0, 1)) -> Variant:
    """Write post scenes under even haze, through which houses show: nothing is hidden."""

    def change(place: Place, number: int) -> None:
        if number in scenes:
            place.post = under_clouds(place.post, np.full((SIDE, SIDE), thick), seed=number)

    return write_variant(joplin, folder, change)


def half_before(joplin: Path, folder: Path) -> Variant:
    """Write pre of the first scene alone."""
    return write_variant(joplin, folder, roles=(("pre", "post"), ("post",)))


def chipped(variant: Variant, folder: Path, bands: Bands = "pre+post") -> tuple[Layout, dict[str, Any]]:
    """Make a project of a variant, cut its chips, and return it with the chip set's facts."""
    layout = store.create(folder, "Joplin")
    job = Job(layout, layout.jobs / "1")
    job.folder.mkdir(parents=True, exist_ok=True)
    add_scenes(job, pre=[str(path) for path in variant.pre], post=[str(path) for path in variant.post])
    add_footprints(job, paths=[str(variant.buildings)])
    made = chip(job, bands=bands)
    facts: dict[str, Any] = json.loads(layout.chip_facts(str(made["chip_set"])).read_text())
    return layout, facts
