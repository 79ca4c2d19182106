"""Scenes joined on the project grid and read by window, each file opened once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from pu_geo.errors import ImageryError
from pu_geo.geo import samples
from pu_geo.geo.guard import GDAL_ERRORS, gdal_env, quiet_open, regular_file, scene_driver, unreadable
from pu_geo.geo.placement import ALIGNED_PX, border_in
from pu_geo.records import Grid, Scene

WARP_MEMORY_MB = 64
DEFAULT_ROWS, MAX_ROWS = 256, 2048


@dataclass(frozen=True)
class _Layer:
    """One scene of a mosaic: what to read it from, and the grid pixels it can fill.

    Attributes:
        source: the file itself, or a warped view of it that starts at (col, row).
        col, row: grid pixel of the source's first pixel.
    """

    scene: Scene
    source: rasterio.DatasetReader | WarpedVRT
    is_warped: bool
    col: int
    row: int

    def read(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read pixels counted from the source's own corner; the window lies inside it."""
        try:
            values, valid = self._read_samples(Window(col, row, width, height))
        except GDAL_ERRORS as cause:
            raise unreadable(Path(self.scene.path).name, cause) from cause
        return samples.to_uint8(values, valid, self.scene.stretch), valid

    def _read_samples(self, window: Window) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        if not self.is_warped:
            return samples.read_samples(self.source, self.scene.rgb, window)
        alpha = self.source.colorinterp.index(ColorInterp.alpha) + 1
        values = self.source.read([*self.scene.rgb, alpha], window=window)
        # Of a scene with an alpha band of its own, the warp leaves out the nodata value.
        nodata = self.source.src_dataset.nodata if ColorInterp.alpha in self.source.src_dataset.colorinterp else None
        return values[:3], (values[3] > 0) & samples.holds_data(values[:3], nodata)


class Mosaic:
    """Scenes joined on the project grid. Use it as a context manager; not for use by two threads at a time.

    A scene that lies exactly on the grid is read as it is; any other goes through a bilinear warp. Where scenes
    overlap, the first one that has data at a pixel is shown.
    """

    def __init__(self, scenes: Sequence[Scene], grid: Grid) -> None:
        self.scenes = tuple(scenes)
        self.grid = grid
        self._layers: list[_Layer] = []
        self._stack = ExitStack()

    def __enter__(self) -> Mosaic:
        with ExitStack() as stack:
            stack.enter_context(gdal_env())
            layers = [layer for scene in self.scenes if (layer := _open_layer(scene, self.grid, stack))]
            self._layers, self._stack = layers, stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._layers = []
        self._stack.close()

    @property
    def preferred_block_rows(self) -> int:
        """Rows to read at once, so that an ordered pass decodes each block once."""
        tall = [layer.source.block_shapes[0][0] for layer in self._layers if not layer.is_warped]
        rows = max(tall, default=DEFAULT_ROWS)
        return min(MAX_ROWS, -(-DEFAULT_ROWS // rows) * rows)

    def read(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read a window of the grid; it may reach over the grid's border.

        Returns:
            picture, uint8 [3, height, width], 0 where there is no data; and valid, bool [height, width].

        Raises:
            ImageryError: kind "corrupt" if a part of a scene cannot be decoded.
        """
        picture = np.zeros((3, height, width), dtype=np.uint8)
        valid = np.zeros((height, width), dtype=bool)
        for layer in self._layers:
            x0, y0 = max(col, layer.col, 0), max(row, layer.row, 0)
            x1 = min(col + width, layer.col + layer.source.width, self.grid.width)
            y1 = min(row + height, layer.row + layer.source.height, self.grid.height)
            if x0 >= x1 or y0 >= y1:
                continue
            part = np.s_[y0 - row : y1 - row, x0 - col : x1 - col]
            if valid[part].all():
                continue
            pixels, holds = layer.read(x0 - layer.col, y0 - layer.row, x1 - x0, y1 - y0)
            fresh = holds & ~valid[part]
            if fresh.all():
                picture[:, *part] = pixels
            else:
                np.copyto(picture[:, *part], pixels, where=fresh)
            valid[part] |= holds
        return picture, valid


def _open_layer(scene: Scene, grid: Grid, stack: ExitStack) -> _Layer | None:
    """Open a scene for as long as `stack` lives; None if no pixel of it lies on the grid."""
    path = regular_file(scene.path, ImageryError)
    source = stack.enter_context(quiet_open(path, scene_driver(path)))
    own = tuple(Affine.identity())[:6] if scene.place else tuple(scene.transform)  # a placed picture has none
    seen = (source.width, source.height, source.count, source.dtypes[0], tuple(source.transform)[:6])
    if seen != (scene.width, scene.height, scene.bands, scene.dtype, own):
        raise ImageryError(
            f"{path.name} has changed since it was added to the project.",
            "Put the original file back, or add this one as a new scene.",
            kind="changed",
        )
    offset = aligned_offset(scene, grid)
    if offset is not None:
        return _Layer(scene, source, False, *offset)
    box = _grid_box(scene, grid)
    if box is None:
        return None
    col, row, width, height = box
    a, _, c, _, e, f = grid.transform
    vrt = WarpedVRT(
        source,
        crs=rasterio.crs.CRS.from_string(grid.crs),
        src_crs=rasterio.crs.CRS.from_string(scene.crs),
        src_transform=Affine(*scene.transform) if scene.place else None,
        transform=Affine(a, 0.0, c + col * a, 0.0, e, f + row * e),
        width=width,
        height=height,
        resampling=Resampling.bilinear,
        warp_mem_limit=WARP_MEMORY_MB,
        **_mask_options(source),
    )
    return _Layer(scene, stack.enter_context(vrt), True, col, row)


def _mask_options(source: rasterio.DatasetReader) -> dict[str, object]:
    """Tell the warp which pixels have no data, so that it neither shows nor mixes them."""
    if ColorInterp.alpha in source.colorinterp:
        return {"nodata": None}  # with one, the warp would turn samples that equal it into their neighbors
    options: dict[str, object] = {"add_alpha": True}
    if source.nodata is not None:
        options |= {"src_nodata": source.nodata, "UNIFIED_SRC_NODATA": "YES"}
    elif np.dtype(source.dtypes[0]).kind == "f":
        options |= {"src_nodata": math.nan, "UNIFIED_SRC_NODATA": "PARTIAL"}
    return options


def aligned_offset(scene: Scene, grid: Grid) -> tuple[int, int] | None:
    """Return the grid pixel (column, row) of a scene's first pixel if the scene lies on the grid exactly, else None.

    Exactly means: same CRS, north-up, and no pixel of it off by more than 0.05 of a pixel.
    """
    a, b, c, d, e, f = scene.transform
    grid_a, _, grid_c, _, grid_e, grid_f = grid.transform
    if scene.crs != grid.crs or b != 0 or d != 0 or a <= 0 or e >= 0:
        return None
    start = np.array([(c - grid_c) / grid_a, (f - grid_f) / grid_e])
    size = np.array([scene.width, scene.height])
    growth = size * np.array([a / grid_a - 1.0, e / grid_e - 1.0])
    whole = np.rint(start)
    if max(np.abs(start - whole).max(), np.abs(start + growth - whole).max()) > ALIGNED_PX:
        return None
    return int(whole[0]), int(whole[1])


def _grid_box(scene: Scene, grid: Grid) -> tuple[int, int, int, int] | None:
    """Return (column, row, width, height) of the grid pixels a scene may touch, or None."""
    px = grid.to_px(border_in(scene, grid.crs))
    col, row = np.maximum(np.floor(px.min(axis=0)) - 1, 0).astype(int)
    right, bottom = np.minimum(np.ceil(px.max(axis=0)) + 1, [grid.width, grid.height]).astype(int)
    return (int(col), int(row), int(right - col), int(bottom - row)) if right > col and bottom > row else None
