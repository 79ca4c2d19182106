"""Alignment on a cluster: a shard is the buildings that end in a part of a strip, matched as one process matches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.alignment import N_PEAKS, Search, matched, reach_of
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.records import Grid, Scene, scene_of
from pu_geo.scale import inputs, shards
from pu_geo.scale.cluster import JobCluster

STRIP_PX = 2048
"""Height of what a shard reads, grid pixels, beside what its windows need above: a tenth more where windows are 200 px high."""


def match(
    search: Search, pre: Sequence[Scene], post: Sequence[Scene], grid: Grid, *, quicklooks: Path, cluster: JobCluster,
    report: Callable[[Mapping[str, object]], None], is_cancelled: Callable[[], bool],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Do what `geo.alignment.matched` does for all buildings, on a cluster, and return what it returns.

    Args:
        quicklooks: the project's folder of them, which keeps what is known of the scenes' fill.

    Raises:
        JobError, PuGeoError, JobCancelled: see `shards.run`.
    """
    folder, project = shards.folder_of(cluster.folder), cluster.folder.parents[1]
    part = search.boxes[:, 3] // STRIP_PX
    order = np.argsort(part, kind="stable")
    name = inputs.write(
        folder, "search", {"middle": search.middle, "size": search.size, "coarse": search.coarse, "order": order},
        {
            "pre": [asdict(scene) for scene in pre], "post": [asdict(scene) for scene in post], "grid": asdict(grid),
            "fills": str((quicklooks / FILLS).relative_to(project)), "reach": search.reach, "far": search.far,
            "shrink": search.shrink, "noise": search.noise, "strip_rows": search.strip_rows,
        },
    )  # fmt: skip
    spec = {"search": name, "shards": str(folder.relative_to(project))}
    ends = np.flatnonzero(np.diff(part[order], append=part.max() + 1)) + 1
    plan = [shards.Shard(int(start), int(stop), spec) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
    found, worth = np.zeros((len(order), N_PEAKS, 2)), np.zeros(len(order))

    def take(shard: shards.Shard, arrays: shards.Arrays) -> None:
        rows = order[shard.start : shard.stop]
        found[rows], worth[rows] = arrays["found"], arrays["worth"]

    shards.run(match_part, plan, take, cluster=cluster, report=report, is_cancelled=is_cancelled)
    return found, worth


def match_part(spec: Mapping[str, Any], start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    """Match buildings start..stop of the order in which they lie, see `match`.

    Returns:
        {"found": float64 [n, 4, 2], "worth": float64 [n]}
    """
    project = Path(spec["project"])
    arrays, about = inputs.read(project / spec["shards"] / spec["search"])
    search = Search(
        arrays["middle"], arrays["size"], arrays["coarse"], about["reach"], about["far"], about["shrink"],
        tuple(about["noise"]), about["strip_rows"],
    )  # fmt: skip
    grid, fills = inputs.grid_of(about["grid"]), project / about["fills"]
    scenes = {role: [scene_of(one) for one in about[role]] for role in ("pre", "post")}
    rows = arrays["order"][start:stop]
    within = reach_of(search, grid, rows)  # so a worker opens its strip's scenes, and not those of all the event
    with (
        Mosaic(scenes["pre"], grid, fills=fills, decode_threads=1, within=within) as pre,
        Mosaic(scenes["post"], grid, fills=fills, decode_threads=1, within=within) as post,
    ):
        found, worth = matched(pre, post, search, rows, n_threads=1, is_cancelled=is_cancelled)
    return {"found": found, "worth": worth}
