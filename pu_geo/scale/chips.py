"""Chips on a cluster: a shard is the buildings of a part of a strip, which its worker cuts out of the scenes as one process
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.features.views import Report
from pu_geo.geo.chips import Outlines, cut_chips, whole_pixels
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.records import Facts, Floats, Grid, Scene, Singles, scene_of
from pu_geo.scale import inputs, shards
from pu_geo.scale.cluster import JobCluster

ROWS = 1024
"""Buildings of a shard: chips of 64 px with 6 bands are 25 MB."""
STRIP_PX = 2048
"""Height of a strip, grid pixels: buildings of a shard are near each other, so that few blocks are decoded by two
workers.
"""


def cut(
    windows: Floats, outlines: Outlines, scenes: Mapping[str, Sequence[Sequence[Scene]]], grid: Grid,
    pre_shift_px: Floats | None, out: NDArray[np.uint8], *, quicklooks: Path, cluster: JobCluster,
    report: Report, is_cancelled: Callable[[], bool],
) -> Singles:  # fmt: skip
    """Do what `geo.chips.cut_chips` does, on a cluster, and return what it returns.

    Args:
        windows: float64 [N, 4], as `chip_windows` gives them.
        outlines: of the same buildings; filled in.
        scenes: mosaics by what they show: {"pre": none or one, "post": one, "layers": any number}, each a list of scenes.
        pre_shift_px: float64 [N, 2]; None moves nothing.
        out: uint8 [N, B, S, S], what is written into.
        quicklooks: the project's folder of them, which keeps what is known of the scenes' fill.

    Raises:
        JobError, PuGeoError, JobCancelled: see `shards.run`.
    """
    folder, project = shards.folder_of(cluster.folder), cluster.folder.parents[1]
    order = np.lexsort((windows[:, 0], windows[:, 1] // STRIP_PX))
    wkb = shapely.to_wkb(outlines.shapes)
    arrays: dict[str, NDArray[Any]] = {
        "windows": windows, "order": order, "wkb": np.frombuffer(b"".join(wkb), np.uint8),
        "ends": np.cumsum([len(one) for one in wkb]),
        "shift": np.zeros((0, 2)) if pre_shift_px is None else pre_shift_px,
    }  # fmt: skip
    about = {
        "scenes": {name: [[asdict(scene) for scene in each] for each in mosaics] for name, mosaics in scenes.items()},
        "grid": asdict(grid), "fills": str((quicklooks / FILLS).relative_to(project)),
    }  # fmt: skip
    name = inputs.write(folder, "windows", arrays, about)
    share = np.ones_like(outlines.missing)
    spec = {"windows": name, "shards": str(folder.relative_to(project)), "bands": out.shape[1], "size_px": out.shape[2]}

    def take(shard: shards.Shard, found: shards.Arrays) -> None:
        rows = order[shard.start : shard.stop]
        out[rows], share[rows] = found["chips"], found["share"]
        outlines.missing[rows], outlines.scene[rows] = found["missing"], found["scene"]

    shards.run(
        cut_part, shards.planned(len(windows), ROWS, spec), take, cluster=cluster, report=report,
        is_cancelled=is_cancelled,
    )  # fmt: skip
    return share


def cut_part(spec: Facts, start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    """Cut the chips of buildings start..stop of the order in which they lie: see `cut`.

    Returns:
        {"chips": uint8 [n, B, S, S], "share", "missing": float32 [n, K], "scene": int64 [n, K]}
    """
    project = Path(spec["project"])
    arrays, about = inputs.read(project / spec["shards"] / spec["windows"])
    rows = arrays["order"][start:stop]
    grid = Grid.from_json(about["grid"])
    mosaics = {name: [[scene_of(one) for one in each] for each in found] for name, found in about["scenes"].items()}
    ends = arrays["ends"]
    starts = ends - np.diff(ends, prepend=0)
    shapes = shapely.from_wkb(np.array([arrays["wkb"][starts[row] : ends[row]].tobytes() for row in rows], dtype=object))
    n = len(rows), sum(map(len, mosaics.values()))
    outlines = Outlines(shapes, np.ones(n, np.float32), np.full(n, -1, np.int64))
    out = np.empty((len(rows), spec["bands"], spec["size_px"], spec["size_px"]), np.uint8)
    shift = arrays["shift"][rows] if len(arrays["shift"]) else None
    how: dict[str, Any] = {"decode_threads": 1, "within": _reach(arrays["windows"][rows], shift)}
    fills = project / about["fills"]
    with ExitStack() as stack:
        post = stack.enter_context(Mosaic(mosaics["post"][0], grid, fills=fills, **how))
        before = mosaics["pre"]
        pre = stack.enter_context(Mosaic(before[0], grid, fills=fills, **how) if before else nullcontext())
        layers = [stack.enter_context(Mosaic(each, grid, **how)) for each in mosaics["layers"]]
        share = cut_chips(
            pre, post, arrays["windows"][rows], spec["size_px"], out, layers=layers,
            pre_shift_px=shift, outlines=outlines, is_cancelled=is_cancelled,
        )  # fmt: skip
    return {"chips": out, "share": share, "missing": outlines.missing, "scene": outlines.scene}


def _reach(windows: Floats, shift: Floats | None) -> tuple[int, int, int, int]:
    """Return the grid pixels that chips are cut from: so a worker opens these buildings' scenes, and not those of all the
    event.
    """
    boxes = whole_pixels(windows)
    if shift is not None:
        boxes = np.concatenate([boxes, boxes - np.tile(np.rint(shift).astype(np.int64), 2)])
    low, high = boxes[:, :2].min(axis=0).tolist(), boxes[:, 2:].max(axis=0).tolist()
    return low[0], low[1], high[0], high[1]
