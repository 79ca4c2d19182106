"""Scores of a network that takes chips, on a cluster: shards end where one process starts another block of chips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.methods import catalog
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project.layout import read_array, sha256_of
from pu_geo.scale import inputs, shards
from pu_geo.scale.cluster import JobCluster
from pu_geo.training.network import IMAGES_AT_ONCE, TrainedModel
from pu_geo.training.run import best_device

ROWS = 4 * IMAGES_AT_ONCE
"""Chips of a shard."""
_STATE = "state."  # before the names of the network's tensors


def answers(
    model: TrainedModel, method: str, settings: NetworkSettings, chips: Path, bands: NDArray[np.int64],
    is_missing: NDArray[np.bool_] | None, *, cluster: JobCluster, report: Callable[[Mapping[str, object]], None],
    is_cancelled: Callable[[], bool],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32] | None]:  # fmt: skip
    """Return what the model answers for the chips of a set: scores [N], embeddings [N, E], scores of types [N, c] where it judges any.

    Bit for bit what it answers in one process where all processors are of one kind.

    Args:
        method, settings: that its network was built by.
        chips: file of uint8 [N, C, H, W], on a disk that all workers have.
        bands: of the C bands those that the network takes, in its order.
        is_missing: views that a building lacks, bool [V, N], for a network that takes them.

    Raises:
        JobError, PuGeoError, JobCancelled: see `shards.run`.
    """
    folder, project = shards.folder_of(cluster.folder), cluster.folder.parents[1]
    arrays: dict[str, NDArray[Any]] = {f"{_STATE}{name}": tensor.numpy() for name, tensor in model.state().items()}
    if is_missing is not None:
        arrays["is_missing"] = is_missing
    name = inputs.write(folder, "model", arrays, {"method": method, "settings": asdict(settings)})
    spec = {
        "model": name, "shards": str(folder.relative_to(project)), "chips": str(chips.relative_to(project)),
        "sha256": sha256_of(chips), "bands": bands.tolist(),
    }  # fmt: skip
    plan = shards.planned(len(read_array(chips)), ROWS, spec)
    found: dict[int, shards.Arrays] = {}

    def take(shard: shards.Shard, part: shards.Arrays) -> None:
        found[shard.start] = part

    shards.run(score_part, plan, take, cluster=cluster, report=report, is_cancelled=is_cancelled)
    parts = [found[shard.start] for shard in plan]
    scores, embeddings = (np.concatenate([part[name] for part in parts]) for name in ("scores", "embeddings"))
    return scores, embeddings, np.concatenate([part["types"] for part in parts]) if model.n_types else None


def score_part(spec: Mapping[str, Any], start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    """Let the network answer for the chips start..stop, see `answers`.

    Returns:
        {"scores": float32 [n], "embeddings": float32 [n, E], "types": float32 [n, c], only where it judges any}
    """
    project = Path(spec["project"])
    path = project / spec["shards"] / spec["model"]
    model, is_missing = _model(path)
    chips = read_array(project / spec["chips"])[start:stop][:, spec["bands"]]
    gone = None if is_missing is None else is_missing[:, start:stop]
    found = {"scores": model.score(chips, gone), "embeddings": model.embed(chips, gone)}
    return {**found, "types": model.type_scores(chips, gone)} if model.n_types else found


@lru_cache(maxsize=1)
def _model(path: Path) -> tuple[TrainedModel, NDArray[np.bool_] | None]:
    arrays, about = inputs.read(path)
    settings = catalog.card(about["method"]).settings(**about["settings"])
    state = {name.removeprefix(_STATE): torch.from_numpy(arrays[name]) for name in arrays if name.startswith(_STATE)}
    model: TrainedModel = catalog.load_from_state(about["method"])(state, settings, best_device())
    return model, arrays.get("is_missing")
