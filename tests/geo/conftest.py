"""Made-up scenes: small GeoTIFFs written into the test's own folder."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
from geo_parts import NORTH_UP
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.geo.raster.scene_files import describe
from pu_geo.records import Role, Scene


@pytest.fixture
def write_tif(tmp_path: Path) -> Callable[..., Path]:
    """Write an array [bands, H, W] as GeoTIFF; north-up, 0.5 m, EPSG:32633 unless told otherwise."""

    def write(
        name: str,
        data: NDArray[np.generic],
        transform: Affine = NORTH_UP,
        crs: str | None = "EPSG:32633",
        mask: NDArray[np.uint8] | None = None,
        **options: object,
    ) -> Path:
        path = tmp_path / f"{name}.tif"
        if data.dtype == np.uint8 and len(data) in (3, 4):
            options.setdefault("photometric", "RGB")
        if len(data) == 4:
            options.setdefault("alpha", "YES")
        profile = {"driver": "GTiff", "count": len(data), "height": data.shape[1], "width": data.shape[2]}
        with (
            rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"),
            rasterio.open(path, "w", **profile, dtype=data.dtype, transform=transform, crs=crs, **options) as file,
        ):
            file.write(data)
            if mask is not None:
                file.write_mask(mask)
        return path

    return write


@pytest.fixture
def make_scene(write_tif: Callable[..., Path]) -> Callable[..., Scene]:
    """As `write_tif`, described as a scene."""

    def make(name: str, data: NDArray[np.generic], *args: object, role: Role = "post", **options: object) -> Scene:
        return describe(write_tif(name, data, *args, **options), role, name)

    return make


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[..., Path]:
    """Write features, pairs of a geometry and properties, as a GeoJSON file."""

    def write(features: list[tuple[object, dict[str, object]]], name: str = "f.geojson", **members: object) -> Path:
        collection = [{"type": "Feature", "geometry": g, "properties": p} for g, p in features]
        path = tmp_path / name
        path.write_text(json.dumps({"type": "FeatureCollection", "features": collection, **members}))
        return path

    return write
