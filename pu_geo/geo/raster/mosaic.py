"""Scenes joined on the project grid: read by window, or strip by strip down the grid, each file opened once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import cv2
import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from pu_geo.errors import ImageryError, JobCancelled
from pu_geo.geo.raster import samples
from pu_geo.geo.raster.fill import Fill, fill_of, warped
from pu_geo.geo.raster.guard import GDAL_ERRORS, allow_files, check_memory, gdal_env, quiet_open, unreadable, without_alpha
from pu_geo.geo.raster.placement import ALIGNED_PX, check_ratio
from pu_geo.geo.readers.file_kinds import regular_file, scene_driver
from pu_geo.geo.scene_state import refusal, state_of
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.sites import border_in
from pu_geo.records import Grid, Scene, misses_by_band

Box = tuple[int, int, int, int]  # first column and row, and one past the last column and row, in grid pixels
Shown = NDArray[np.uint8 | np.uint32]
"""1 + the number of the scene that each pixel shows, 0 without data, [H, W]."""
Report = Callable[[Mapping[str, object]], None]
FILLS = "fill"  # folder beside the quicklooks that keeps what is known of scenes' fill
WARP_MEMORY_MB = 64
HELD_BYTES = 80 * 1024**2  # pixels held back in `passes`, of all mosaics together
DEFAULT_ROWS, MAX_ROWS = 256, 2048
PIECE_COLUMNS = 2048
NEARLY_ONE = 0.67  # grid pixels a pixel of a scene, from which on a warp does not widen its kernel
_MASK_BYTES = 5  # a pixel, while it is read


@dataclass(frozen=True)
class _Layer:
    """One scene of a mosaic: what to read it from, and the grid pixels it can fill.

    Attributes:
        number: 1 + the scene's place in the mosaic.
        source: the file itself, or a warped view of it that starts at (col, row).
        col, row: grid pixel of the source's first pixel.
        site: the grid of the site that it fills.
        fills: folder that keeps what is known of fill, or None.
    """

    scene: Scene
    number: int
    source: rasterio.DatasetReader | WarpedVRT
    is_warped: bool
    col: int
    row: int
    site: Grid
    fills: Path | None

    @cached_property
    def fill(self) -> Fill | None:
        """The parts in one constant color, in pixels of the source. Where it is not known yet, all of the scene is read.

        None of a layer: a lake has one height, and most of a map of damage is 0.
        """
        if self.scene.role == "layer":
            return None
        with self._decode_errors():
            if not self.is_warped:
                return fill_of(self.source, self.scene, self.fills)
            found = fill_of(self.source.src_dataset, self.scene, self.fills)
            return None if found is None else warped(found, self.scene, self.source)

    def is_plain(self, box: Box) -> bool:
        """Return whether a box's samples can be shown as they are, and no pixel of it is without data."""
        if self.is_warped or self.scene.stretch is not None or samples.may_have_holes(self.source):
            return False
        return self.fill is None or not self.fill.touches(*self._in_source(box))

    def read(self, box: Box) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | bool]:
        """Read a box of grid pixels that lies inside the source, uint8 [B, height, width], and which hold data; True:
        all.
        """
        if self.is_plain(box):
            with self._decode_errors():
                window = Window(*self._in_source(box))
                return np.asarray(self.source.read(list(self.scene.rgb), window=window), dtype=np.uint8), True
        values, valid = self.read_values(box)
        return samples.to_uint8(values, valid, self.scene.stretch), valid

    def read_values(self, box: Box) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        """Read a box as `read` does, as samples [B, height, width] in the unit of the scene's stretch."""
        with self._decode_errors():
            values, valid = self._read_samples(Window(*self._in_source(box)))
        if self.fill is not None and self.fill.touches(*self._in_source(box)):
            valid &= ~self.fill.covers(values, box[0] - self.col, box[1] - self.row)
        return samples.decibels(values, valid) if self.scene.kind == "sar-amplitude" else (values, valid)

    def _in_source(self, box: Box) -> Box:
        """Return column, row, width and height of a box in the source."""
        return box[0] - self.col, box[1] - self.row, box[2] - box[0], box[3] - box[1]

    @contextmanager
    def _decode_errors(self) -> Iterator[None]:
        try:
            yield
        except GDAL_ERRORS as cause:
            raise unreadable(Path(self.scene.path).name, cause) from cause

    def _read_samples(self, window: Window) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        every, n = misses_by_band(self.scene), len(self.scene.rgb)
        if not self.is_warped:
            return samples.read_samples(self.source, self.scene.rgb, window, nodata=self.scene.nodata, every=every)
        alpha = self.source.colorinterp.index(ColorInterp.alpha) + 1
        values = self.source.read([*self.scene.rgb, alpha], window=window)
        # Of a scene with an alpha band of its own, the warp leaves out the nodata value.
        has_alpha = ColorInterp.alpha in self.source.src_dataset.colorinterp
        nodata = (
            _nodata_of(self.scene, self.source.src_dataset) if has_alpha else _unknown(self.scene, self.source.src_dataset)
        )
        return values[:n], (values[n] > 0) & samples.holds_data(values[:n], nodata, every=every)


class Mosaic:
    """Scenes joined on the project grid. Use it as a context manager; not for use by two threads at a time.

    A scene that lies exactly on the grid is read as it is; any other goes through a bilinear warp. Where scenes
    overlap, the first one that has data at a pixel is shown. Parts in one constant color hold no data; see `fill`. All
    scenes have one number of bands: three of pre and of post, those of its layer.

    Args:
        fills: folder that keeps what is known of the scenes' fill; without one, each scene that is read from is first read
            from end to end.
        decode_threads: threads that GDAL decodes with, None for one a core. They cost a tenth to a fifth more processor
            time, so take 1 where other work keeps the cores busy.
        within: column, row, right and bottom of grid pixels that all reads lie in; scenes that do not reach into them are
            not opened, and keep their numbers. None opens all.
    """

    def __init__(
        self, scenes: Sequence[Scene], grid: Grid, *, fills: Path | None = None, decode_threads: int | None = None,
        within: Box | None = None,
    ) -> None:  # fmt: skip
        self.scenes = tuple(scenes)
        self.fills = fills
        self.grid = grid
        self.decode_threads = decode_threads
        self.within = within
        self._layers: list[_Layer] = []
        self._stack = ExitStack()

    def __enter__(self) -> Mosaic:
        reached = [
            (number, scene, site)
            for number, scene in enumerate(self.scenes, start=1)
            for site in self.grid.parts
            if self._reaches(scene, site)
        ]
        allow_files(len(reached))
        with ExitStack() as stack:
            stack.enter_context(gdal_env())
            threads = {} if self.decode_threads is None else {"GDAL_NUM_THREADS": str(self.decode_threads)}
            with rasterio.Env(**threads):  # only as they are opened: a warp goes on with all cores
                layers = [layer for one in reached if (layer := _open_layer(*one, self.fills, stack))]
            self._layers, self._stack = layers, stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._layers = []
        self._stack.close()

    def _reaches(self, scene: Scene, site: Grid) -> bool:
        """Return whether a scene may show a part of what is read of a site, without opening it."""
        if self.within is None and not self.grid.sites:
            return True
        own = np.array(site.span)
        within = own if self.within is None else np.array(self.within)
        span = np.maximum(own[:2], within[:2]), np.minimum(own[2:], within[2:])
        low, high = _touched(scene, site) + np.array([0, site.row])
        return bool((low < span[1]).all() and (high > span[0]).all())

    @cached_property
    def bytes_a_pixel(self) -> int:
        """Memory that `read` takes for each pixel at its peak, which the widest samples of the scenes decide.

        That is all bands and alpha as they are read, decibels of amplitudes, the picture twice, and masks.
        """
        widest = max((np.dtype(scene.dtype).itemsize for scene in self.scenes), default=1)
        of_decibels = 4 if any(scene.kind == "sar-amplitude" for scene in self.scenes) else 0
        return (self.n_bands + 1) * widest + self.n_bands * (2 + of_decibels) + _MASK_BYTES

    @property
    def n_bands(self) -> int:
        """Number of bands that are read of each scene."""
        return len(self.scenes[0].rgb) if self.scenes else 3

    @property
    def preferred_block_rows(self) -> int:
        """Rows to read at once, so that an ordered pass decodes each block once."""
        tall = [layer.source.block_shapes[0][0] for layer in self._layers if not layer.is_warped]
        rows = max(tall, default=DEFAULT_ROWS)
        return min(MAX_ROWS, -(-DEFAULT_ROWS // rows) * rows)

    @property
    def preferred_block_columns(self) -> int:
        """Width of the widest block: a window whose sides are multiples of it decodes each block once."""
        return max((layer.source.block_shapes[0][1] for layer in self._layers if not layer.is_warped), default=DEFAULT_ROWS)

    def read(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read a window of the grid; it may reach over the grid's border.

        Returns:
            picture, uint8 [B, height, width], 0 where there is no data; and valid, bool [height, width].

        Raises:
            ImageryError: kind "corrupt" if a part of a scene cannot be decoded.
        """
        check_memory("A window of the scenes", width * height * self.bytes_a_pixel)
        picture, shown = self._read(col, row, width, height)
        return picture, shown > 0

    def read_values(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.float32], Shown]:
        """Read a window as `read` does, as samples in the unit of the scenes' stretch, float32 [B, height, width]; and which
        scene each pixel shows, as `read_into` returns it.
        """
        n_bytes = width * height * (self.bytes_a_pixel + 4 * self.n_bands)
        check_memory("A window of the scenes", n_bytes)
        values = np.zeros((self.n_bands, height, width), dtype=np.float32)
        return values, self._join(values, col, row, self._parts(col, row, width, height), _Layer.read_values)

    def read_into(self, picture: NDArray[np.uint8], col: int, row: int) -> Shown:
        """Fill `picture`, uint8 [height, width, B], from grid pixel (col, row) on, as `read` does.

        Returns:
            1 + the number of the scene that each pixel shows, 0 without data, [height, width].

        Raises:
            ImageryError: kind "corrupt" if a part of a scene cannot be decoded.
        """
        height, width = picture.shape[:2]
        step = self._piece_columns
        shown = np.empty((height, width), dtype=self.shown_type)
        for start in range(0, width, step):  # a piece at a time, so that the bands next to the picture take little memory
            part = np.s_[:, start : start + step]
            bands, shown[part] = self._read(col + start, row, min(step, width - start), height)
            if len(bands) == 1:
                picture[part][..., 0] = bands[0]
            else:
                cv2.merge(tuple(bands), picture[part])
        return shown

    @property
    def _piece_columns(self) -> int:
        return max(PIECE_COLUMNS, self.preferred_block_columns)

    def piece_bytes(self, width: int, height: int) -> int:
        """Return the memory that `read_into` takes beside a picture of that size."""
        return min(self._piece_columns, width) * height * self.bytes_a_pixel

    @property
    def shown_type(self) -> type[np.uint8 | np.uint32]:
        """The smallest type that holds the number of each scene."""
        return np.uint8 if len(self.scenes) < 256 else np.uint32

    def _read(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.uint8], Shown]:
        """Read bands as `read` does, and what is shown as `read_into` does."""
        whole = (col, row, col + width, row + height)
        parts = self._parts(col, row, width, height)
        if parts and parts[0][1] == whole and parts[0][0].is_plain(whole):
            return parts[0][0].read(whole)[0], np.full((height, width), parts[0][0].number, dtype=self.shown_type)
        picture = np.zeros((self.n_bands, height, width), dtype=np.uint8)
        return picture, self._join(picture, col, row, parts, _Layer.read)

    def _join(
        self, picture: NDArray[Any], col: int, row: int, parts: Sequence[tuple[_Layer, Box]],
        read: Callable[[_Layer, Box], tuple[NDArray[Any], NDArray[np.bool_] | bool]],
    ) -> Shown:  # fmt: skip
        """Fill a window [B, H, W] from (col, row) on with what its parts hold, the first scene first; return what is
        shown.
        """
        shown = np.zeros(picture.shape[1:], dtype=self.shown_type)
        for layer, box in parts:
            part = np.s_[box[1] - row : box[3] - row, box[0] - col : box[2] - col]
            fresh = shown[part] == 0
            if not fresh.any():
                continue
            pixels, holds = read(layer, box)
            fresh &= holds
            np.copyto(picture[:, *part], pixels, where=fresh)
            shown[part][fresh] = layer.number
            del pixels, holds  # before the next scene is read
        return shown

    def _parts(self, col: int, row: int, width: int, height: int) -> list[tuple[_Layer, Box]]:
        """Return the layers that can fill a part of a window of the grid, each with that part."""
        return [(layer, box) for layer in self._layers if (box := self._part_of(layer, col, row, width, height))]

    def _part_of(self, layer: _Layer, col: int, row: int, width: int, height: int) -> Box | None:
        """Return the part of a window of the grid that a layer can fill, or None."""
        site = layer.site
        x0, y0 = max(col, layer.col, 0), max(row, layer.row, site.row)
        x1 = min(col + width, layer.col + layer.source.width, site.width)
        y1 = min(row + height, layer.row + layer.source.height, site.row + site.height)
        return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _open_layer(number: int, scene: Scene, grid: Grid, fills: Path | None, stack: ExitStack) -> _Layer | None:
    """Open a scene for as long as `stack` lives; None if no pixel of it lies on the grid, which is that of a site."""
    state = state_of(scene)
    if state == "missing":
        raise refusal([scene], [])
    if state == "changed":
        raise refusal([], [scene])
    path = regular_file(scene.path, ImageryError)
    source = stack.enter_context(quiet_open(path, scene_driver(path)))
    own = tuple(Affine.identity())[:6] if scene.place else tuple(scene.transform)  # a placed picture has none
    if systems.is_local(scene.crs):  # whatever the file claims, a placeholder perhaps
        own = tuple(source.transform)[:6]
    found = (source.width, source.height, source.count, source.dtypes[0], tuple(source.transform)[:6])
    if found != (scene.width, scene.height, scene.bands, scene.dtype, own):
        raise refusal([], [scene])
    source, scene = stack.enter_context(without_alpha(source, scene))
    offset = aligned_offset(scene, grid)
    if offset is not None:
        return _Layer(scene, number, source, False, offset[0], offset[1] + grid.row, grid, fills)
    check_ratio(scene, grid)
    if scene.nodata is not None and source.nodata not in (None, scene.nodata) and math.isfinite(source.nodata):
        raise ImageryError(
            f"{path.name} was given {scene.nodata:.6g} for no data beside {source.nodata:.6g}, which the file names; its "
            "pixels have to be resampled onto the first post scene, and that takes one such value.",
            "Write one value for both into the file, or correct the one it names with gdal_edit -a_nodata.",
            kind="nodata",
        )
    whole = np.array([[0, 0], [grid.width, grid.height]])
    (col, row), (right, bottom) = np.clip(_touched(scene, grid), whole[0], whole[1]).astype(int).tolist()
    if right <= col or bottom <= row:
        return None
    a, _, c, _, e, f = grid.transform
    vrt = WarpedVRT(
        source,
        crs=rasterio.crs.CRS.from_string(grid.crs),
        src_crs=rasterio.crs.CRS.from_string(scene.crs),
        src_transform=Affine(*scene.transform) if scene.place else None,
        transform=Affine(a, 0.0, c + col * a, 0.0, e, f + row * e),
        width=right - col,
        height=bottom - row,
        resampling=Resampling.bilinear,
        warp_mem_limit=WARP_MEMORY_MB,
        **_kernel_options(scene, grid),
        **_mask_options(source, scene),
    )
    return _Layer(scene, number, stack.enter_context(vrt), True, col, row + grid.row, grid, fills)


def _touched(scene: Scene, grid: Grid) -> NDArray[np.float64]:
    """Return the first grid pixel that a scene may touch, and one past the last, [2, 2]; not cut off at the grid."""
    if (offset := aligned_offset(scene, grid)) is not None:
        return np.array(offset) + np.array([[0.0, 0.0], [scene.width, scene.height]])
    px = grid.to_px(border_in(scene, grid.crs))
    return np.stack([np.floor(px.min(axis=0)) - 1, np.ceil(px.max(axis=0)) + 1])


def _kernel_options(scene: Scene, grid: Grid) -> dict[str, str]:
    """Return how wide the bilinear kernel is, which GDAL takes from the outer sizes of pictures: for one that is turned, too
    wide.

    Pixels of about the grid's size are not averaged at all: that would blur one date and not the other.
    """
    a, b, c, d, e, f = scene.transform
    step = min(scene.width, scene.height) / 4
    col, row = scene.width / 2 + np.array([0, step, 0]), scene.height / 2 + np.array([0, 0, step])
    xy = np.stack([a * col + b * row + c, d * col + e * row + f], axis=-1)
    middle, across, down = grid.to_px(systems.to_project(xy, scene.crs, grid))
    sizes = [float(np.hypot(*(other - middle))) / step for other in (across, down)]
    return {
        name: f"{size:.6f}" if size < NEARLY_ONE else "1" for name, size in zip(("XSCALE", "YSCALE"), sizes, strict=True)
    }


def _nodata_of(scene: Scene, source: rasterio.DatasetReader) -> float | None:
    return source.nodata if scene.nodata is None else scene.nodata


def _unknown(scene: Scene, source: rasterio.DatasetReader) -> float | None:
    """Return the sample that the warp writes where a single band of a layer has no data; None where bands have data
    together.

    Its alpha tells of pixels where all bands have none. Elsewhere it would leave a 0 in the one band, which may be a height.
    """
    if not misses_by_band(scene):
        return None
    nodata = _nodata_of(scene, source)
    if nodata is not None and math.isfinite(nodata):
        return float(nodata)
    return float(np.finfo(np.float32).min) if scene.dtype == "float32" else None


def _mask_options(source: rasterio.DatasetReader, scene: Scene) -> dict[str, object]:
    """Return the options that let the warp know which pixels have no data, so that it neither shows nor mixes them."""
    if ColorInterp.alpha in source.colorinterp:
        return {"nodata": None}  # with one, the warp would turn samples that equal it into their neighbors
    options: dict[str, object] = {"add_alpha": True}
    if (unknown := _unknown(scene, source)) is not None:
        options |= {"init_dest_nodata": False, "INIT_DEST": repr(unknown)}
    if (nodata := _nodata_of(scene, source)) is not None:
        options |= {"src_nodata": nodata, "UNIFIED_SRC_NODATA": "YES" if unknown is None else "PARTIAL"}
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


# Strip by strip down the grid


def report_strip(report: Report | None, is_cancelled: Callable[[], bool] | None, stage: str, done: int, total: int) -> None:
    """Raise JobCancelled if the user cancelled, else report {"stage", "done", "total"}."""
    if is_cancelled is not None and is_cancelled():
        raise JobCancelled
    if report is not None:
        report({"stage": stage, "done": done, "total": total})


class Strips(Protocol):
    """What can be read strip by strip: a mosaic, or its pixels in another size."""

    @property
    def grid(self) -> Grid: ...
    @property
    def n_bands(self) -> int: ...
    @property
    def shown_type(self) -> type[np.uint8 | np.uint32]: ...
    @property
    def preferred_block_rows(self) -> int: ...
    @property
    def preferred_block_columns(self) -> int: ...
    def read_into(self, picture: NDArray[np.uint8], col: int, row: int) -> Shown: ...
    def piece_bytes(self, width: int, height: int) -> int: ...


@dataclass
class Ring:
    """The last rows read of a mosaic: a new strip takes the place of the oldest, so that no pixel is moved.

    Attributes:
        col: first grid column held.
        offset: grid rows less this, modulo the ring's length, give the row of the ring.
        picture: uint8 [rows, width, B].
        shown: which scene each pixel shows, as `Mosaic.read_into` returns it, [rows, width].
    """

    mosaic: Strips
    col: int
    picture: NDArray[np.uint8]
    shown: Shown

    def read(self, start: int, stop: int, offset: int) -> None:
        """Read grid rows `start` to `stop`, a strip that does not go around the ring's end."""
        first = (start - offset) % len(self.picture)
        part = np.s_[first : first + stop - start]
        self.shown[part] = self.mosaic.read_into(self.picture[part], self.col, start)

    def cut(self, box: Sequence[int], offset: int) -> tuple[NDArray[np.uint8], Shown]:
        """Return a box of held rows, uint8 [H, W, B], and which scene each pixel shows, as `Mosaic.read_into` returns it."""
        x0, y0, x1, y1 = box
        columns, length = slice(x0 - self.col, x1 - self.col), len(self.picture)
        top = (y0 - offset) % length
        bottom = top + y1 - y0

        def part(held: NDArray[Any]) -> NDArray[Any]:
            if bottom <= length:
                return held[top:bottom, columns]
            return np.concatenate([held[top:, columns], held[: bottom - length, columns]])

        return part(self.picture), part(self.shown)


def passes(
    mosaics: Sequence[Strips], boxes: NDArray[np.int64], pool: Executor
) -> Iterator[tuple[list[Ring], int, NDArray[np.int64]]]:
    """Go down the grid; while the caller cuts the windows that are complete, `pool` reads the next strip.

    What does not fit into `HELD_BYTES` is read in panels of columns, one after the other.

    Args:
        boxes: int64 [N, 4]: what windows need of all the mosaics together.
        pool: where strips are read; to be shut down before the mosaics are closed.

    Yields:
        (a ring per mosaic, the offset for `Ring.cut`, the boxes complete now). Done with a yield's rings before the next.
    """
    rows = max(mosaic.preferred_block_rows for mosaic in mosaics)
    for panel in _panels(mosaics, boxes, rows):
        for rings, offset, ready in _pass(mosaics, boxes[panel], rows, pool):
            yield rings, offset, panel[ready]


def _pass(
    mosaics: Sequence[Strips], boxes: NDArray[np.int64], rows: int, pool: Executor
) -> Iterator[tuple[list[Ring], int, NDArray[np.int64]]]:
    """Do what `passes` does with one panel, in strips of `rows`."""
    left, right = _columns_of(boxes, mosaics[0].grid)
    steps = list(_row_order(boxes, mosaics[0].grid, rows))
    offsets = [start - rows * k for k, (_, start, _, _) in enumerate(steps)]  # strips that are not read take no room
    oldest = [(keep_from - offset) // rows for (keep_from, *_), offset in zip(steps, offsets, strict=True)]
    size = rows * max(min(k + 2, len(steps)) - first for k, first in enumerate(oldest)), right - left
    pieces = sum(one.piece_bytes(right - left, rows) for one in mosaics)
    check_memory("A strip of the scenes", size[0] * size[1] * _pixel_bytes(mosaics) + pieces)
    rings = [
        Ring(one, left, np.empty((*size, one.n_bands), dtype=np.uint8), np.empty(size, one.shown_type)) for one in mosaics
    ]

    def begin(k: int) -> list[Future[None]]:
        _, start, stop, _ = steps[k]
        return [pool.submit(ring.read, start, stop, offsets[k]) for ring in rings]

    reads = begin(0)
    for k, (_, _, _, ready) in enumerate(steps):
        for read in reads:
            read.result()
        reads = begin(k + 1) if k + 1 < len(steps) else []
        yield rings, offsets[k], ready


def _pixel_bytes(mosaics: Sequence[Strips]) -> int:
    return sum(mosaic.n_bands + np.dtype(mosaic.shown_type).itemsize for mosaic in mosaics)


def _panels(mosaics: Sequence[Strips], boxes: NDArray[np.int64], rows: int) -> Iterator[NDArray[np.int64]]:
    """Divide boxes into panels of columns narrow enough for `HELD_BYTES`, int64 [n], n > 0.

    Blocks as wide as the scene cannot be divided: each panel would decode them anew.
    """
    if len(boxes) == 0:
        return
    columns, grid = max(mosaic.preferred_block_columns for mosaic in mosaics), mosaics[0].grid
    left, right = _columns_of(boxes, grid)
    width, height = (boxes[:, 2:] - boxes[:, :2]).max(axis=0).tolist()
    widest = HELD_BYTES // _pixel_bytes(mosaics) // (rows * (2 - (-height // rows))) - width
    if right - left <= widest + width or columns > widest:
        yield np.arange(len(boxes))
        return
    n = -(-(right - left) // (widest // columns * columns))
    step = -(-(right - left) // (n * columns)) * columns
    panel = (np.clip(boxes[:, 0], 0, grid.width - 1) - left // columns * columns) // step
    for k in np.unique(panel):
        yield np.flatnonzero(panel == k)


def _columns_of(boxes: NDArray[np.int64], grid: Grid) -> tuple[int, int]:
    """Return the first grid column that boxes, int64 [N, 4], reach, and one past the last."""
    left = int(np.clip(boxes[:, 0].min(), 0, grid.width - 1))
    return left, int(np.clip(boxes[:, 2].max(), left + 1, grid.width))


def _row_order(boxes: NDArray[np.int64], grid: Grid, rows: int) -> Iterator[tuple[int, int, int, NDArray[np.int64]]]:
    """Yield which rows to read, in strips of `rows`, so that each is read once and those without boxes never.

    Yields:
        (first row still needed, first row to read, one past the last, boxes complete once it is read).
    """
    top = np.clip(boxes[:, 1], 0, grid.height - 1)
    last = (np.clip(boxes[:, 3], 1, grid.height) - 1) // rows
    for k in range(int((top // rows).min()), int(last.max()) + 1):
        start, stop = k * rows, min((k + 1) * rows, grid.height)
        needed = (top < stop) & (last >= k)
        if needed.any():
            yield int(top[needed].min()), start, stop, np.flatnonzero(last == k)
