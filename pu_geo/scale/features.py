"""Features of chips on a cluster: shards end where makers start anew with random numbers, so they are those of one
process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.features.bank import ROWS_TOGETHER, Maker, from_state
from pu_geo.features.views import Report
from pu_geo.records import Bools, Facts
from pu_geo.scale import inputs, shards
from pu_geo.scale.cluster import JobCluster
from pu_geo.store.layout import read_array, read_arrays, read_json, sha256_of, write_array
from pu_geo.training.run import best_device

ROWS = 16 * ROWS_TOGETHER
"""Chips of a shard: 17 views of 512 features are 18 MB."""


def transform(
    maker: Maker, chips: Path, n_bands: int, out: NDArray[np.float16], *, seed: int, cluster: JobCluster,
    report: Report, is_cancelled: Callable[[], bool], masks: Bools | None = None,
) -> None:  # fmt: skip
    """Do what `maker.transform` does, on a cluster.

    Bit for bit the same as in one process where all processors are of one kind.

    Args:
        chips: file of uint8 [N, C, H, W], on a disk that all workers have.
        n_bands: of the C bands, the first so many are taken.
        out: float16 [V, N, D], what is written into.
        masks: bool [N, H, W], the footprints, for makers that pool over them.

    Raises:
        JobError, PuGeoError, JobCancelled: see `shards.run`.
    """
    folder, project = shards.folder_of(cluster.folder), cluster.folder.parents[1]
    kept = ""
    if masks is not None:
        kept = f"masks-{hashlib.sha256(np.packbits(masks).tobytes()).hexdigest()[:16]}.npy"
        write_array(folder / kept, masks)
    sha256 = sha256_of(chips)  # chips that are cut again may be the same, and have another time
    spec = {
        "chips": str(chips.relative_to(project)), "sha256": sha256, "n_bands": n_bands, "n_views": len(out),
        "seed": seed, "maker": inputs.write(folder, "maker", maker.state(), maker.facts()),
        "masks": kept, "shards": str(folder.relative_to(project)),
    }  # fmt: skip

    def take(shard: shards.Shard, arrays: shards.Arrays) -> None:
        out[:, shard.start : shard.stop] = arrays["features"]

    shards.run(
        describe, shards.planned(out.shape[1], ROWS, spec), take, cluster=cluster, report=report,
        is_cancelled=is_cancelled,
    )  # fmt: skip


def describe(spec: Facts, start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    """Compute the features of the chips start..stop of a set: {"features": float16 [V, n, D]}. See `transform` for the
    spec.
    """
    project = Path(spec["project"])
    folder = project / spec["shards"]
    maker = _maker(folder / spec["maker"])
    chips = read_array(project / spec["chips"])[start:stop, : spec["n_bands"]]
    masks = read_array(folder / spec["masks"])[start:stop] if spec["masks"] else None
    found = maker.transform(
        chips, spec["n_views"], seed=spec["seed"], device=best_device(), first=start, is_cancelled=is_cancelled, masks=masks
    )
    return {"features": found}


@lru_cache(maxsize=2)
def _maker(path: Path) -> Maker:
    return from_state(read_arrays(path), read_json(path.with_suffix(".json")))
