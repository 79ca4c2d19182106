"""Small pictures of files that are not scenes of a project yet, for the file picker. Runs in the child process."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import rasterio
from rasterio.windows import Window

from pu_geo.errors import ImageryError
from pu_geo.geo.raster import samples
from pu_geo.geo.raster.guard import gdal_env, quiet_open
from pu_geo.geo.raster.scene_files import choose_bands
from pu_geo.geo.readers.file_kinds import regular_file, scene_driver

MOST_PIXELS = 25_000_000  # decoded in about half a second


def thumbnail(path: Path, side_px: int) -> bytes:
    """Return a small JPEG picture of a file; of a large one without overviews, of a window in its middle.

    Args:
        side_px: longer side of the picture.

    Raises:
        ImageryError: if the file cannot be opened, or none of its bands can be shown.
    """
    real = regular_file(path, ImageryError)
    with gdal_env(), quiet_open(real, scene_driver(real)) as source:
        rgb = choose_bands(source, real, None)
        window = _affordable(source)
        shrink = max(1.0, max(window.width, window.height) / side_px)
        size = (max(1, round(window.height / shrink)), max(1, round(window.width / shrink)))
        values, valid = samples.read_samples(source, rgb, window, out_hw=size)
        if values.dtype != np.uint8 and not valid.any():
            raise ImageryError(f"{path.name} has no data where its picture is taken.", "Choose another file.", kind="empty")
        stretch = None if values.dtype == np.uint8 else samples.find_stretch(values, valid)
    picture = samples.to_uint8(values, valid, stretch).transpose(1, 2, 0)
    return cv2.imencode(".jpg", np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes()


def _affordable(source: rasterio.DatasetReader) -> Window:
    """Return the window of which a decimated read is fast: all of it, or the middle where it is large and has no overviews."""
    width, height = source.width, source.height
    if source.overviews(1) or width * height <= MOST_PIXELS:
        return Window(0, 0, width, height)
    across = min(width, math.isqrt(MOST_PIXELS))
    down = min(height, across, max(1, MOST_PIXELS // (width if source.block_shapes[0][1] == width else across)))
    return Window((width - across) // 2, (height - down) // 2, across, down)
