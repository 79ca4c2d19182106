"""Features of chips on a cluster: shards end where makers start anew with random numbers, so they are those of one process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import __version__
from pu_geo.features.bank import ROWS_TOGETHER, Maker, from_state
from pu_geo.project.layout import SHARDS, Layout, read_array, read_arrays, read_json, sha256_of, write_array, write_json
from pu_geo.scale import inputs, shards
from pu_geo.scale.cluster import JobCluster
from pu_geo.training.run import best_device

ROWS = 16 * ROWS_TOGETHER
"""Chips of a shard: 17 views of 512 features are 18 MB."""


def transform(
    maker: Maker, chips: Path, n_bands: int, out: NDArray[np.float16], *, seed: int, cluster: JobCluster,
    report: Callable[[Mapping[str, object]], None], is_cancelled: Callable[[], bool], masks: NDArray[np.bool_] | None = None,
) -> None:  # fmt: skip
    """Do what `maker.transform` does, on a cluster.

    Bit for bit the same as in one process where all processors are of one kind; the job's log has a note where they are not.

    Args:
        chips: file of uint8 [N, C, H, W], on a disk that all workers have.
        n_bands: of the C bands, the first so many are taken.
        out: float16 [V, N, D], what is written into.
        masks: bool [N, H, W], the footprints, for makers that pool over them.

    Raises:
        JobError, PuGeoError, JobCancelled: see `shards.run`.
    """
    folder, project = shards.folder_of(cluster.folder), cluster.folder.parents[1]
    sha256 = sha256_of(chips)  # chips that are cut again may be the same, and have another time
    spec = {
        "chips": str(chips.relative_to(project)), "sha256": sha256, "n_bands": n_bands, "n_views": len(out),
        "seed": seed, **_written(maker, folder),
        "masks": "" if masks is None else _written_masks(masks, folder), "shards": str(folder.relative_to(project)),
    }  # fmt: skip

    def take(shard: shards.Shard, arrays: shards.Arrays) -> None:
        out[:, shard.start : shard.stop] = arrays["features"]

    shards.run(
        describe, shards.planned(out.shape[1], ROWS, spec), take, step="computing features", cluster=cluster, report=report,
        is_cancelled=is_cancelled,
    )  # fmt: skip


def describe(spec: Mapping[str, Any], start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    """Compute the features of the chips start..stop of a set: {"features": float16 [V, n, D]}. See `transform` for the spec."""
    project = Path(spec["project"])
    folder = project / spec["shards"]
    maker = _maker(folder / spec["maker"])
    chips = read_array(project / spec["chips"])[start:stop, : spec["n_bands"]]
    masks = read_array(folder / spec["masks"])[start:stop] if spec["masks"] else None
    found = maker.transform(
        chips, spec["n_views"], seed=spec["seed"], device=best_device(), first=start, is_cancelled=is_cancelled, masks=masks
    )
    return {"features": found}


def made_of(layout: Layout, chip_set: str, rows: NDArray[np.int64]) -> dict[str, str]:
    """Return what decides, beside the request, which maker a job makes: chips, facts and rows by their sha256, and the version.

    Args:
        rows: of the chips that the maker learns from, int64 [M].
    """
    return {
        "pu_geo": __version__, "chip_set": chip_set, "chips": sha256_of(layout.chips(chip_set)),
        "facts": sha256_of(layout.chip_facts(chip_set)), "rows": hashlib.sha256(rows.tobytes()).hexdigest(),
    }  # fmt: skip


def kept_maker(job_folder: Path, name: str, of: Mapping[str, str]) -> Maker | None:
    """Return the maker that this job made before it was interrupted, for the set of that name; None where there is none.

    Making it anew gives the same one, and takes minutes where it learns from the chips.

    Args:
        of: see `made_of`; a maker of anything else, such as chips that were cut again since, is not returned.
    """
    folder = job_folder / SHARDS
    if not (path := folder / f"{name}.kept.json").is_file():
        return None
    kept = read_json(path)
    return _maker(folder / kept["maker"]) if kept.get("of") == dict(of) else None


def keep_maker(maker: Maker, job_folder: Path, name: str, of: Mapping[str, str]) -> None:
    """Keep a maker for `kept_maker`."""
    folder = shards.folder_of(job_folder)
    write_json(folder / f"{name}.kept.json", {**_written(maker, folder), "of": dict(of)})


def _written(maker: Maker, folder: Path) -> dict[str, str]:
    """Write a maker for the workers, under a name made of its content; return {"maker": its name}."""
    return {"maker": inputs.write(folder, "maker", maker.state(), maker.facts())}


def _written_masks(masks: NDArray[np.bool_], folder: Path) -> str:
    path = folder / f"masks-{hashlib.sha256(np.packbits(masks).tobytes()).hexdigest()[:16]}.npy"
    write_array(path, masks)
    return path.name


@lru_cache(maxsize=2)
def _maker(path: Path) -> Maker:
    return from_state(read_arrays(path), read_json(path.with_suffix(".json")))
