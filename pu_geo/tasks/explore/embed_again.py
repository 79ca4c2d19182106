"""Embeddings of buildings that a run has not seen, by the run's own model, so that they can be shown among those it has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis import ranker
from pu_geo.errors import ModelError
from pu_geo.features import rcf
from pu_geo.project import model_files, runs
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.restored_model import restore
from pu_geo.tasks.train.train import RANKER_NAME, _ranker_axes, _ranker_embeddings
from pu_geo.training.run import best_device

ROWS_TRIED, LEAST_COSINE = 64, 0.99
_Chips = NDArray[np.uint8]
_Embedder = Callable[[_Chips], NDArray[np.float32]]


def embed_again(job: Job, facts: RunFacts, chips: _Chips) -> NDArray[np.float32]:
    """Embed chips by the model of a run.

    Args:
        chips: uint8 [M, C, H, W].

    Returns:
        float32 [M, D], unit rows, to be compared with the run's own embeddings.

    Raises:
        ModelError: if the run has no model that can, the chips are of another kind than its own, or the model does not give
            its own buildings the embeddings that the run stored.
    """
    own = np.load(job.layout.chips(facts.chip_set), mmap_mode="r", allow_pickle=False)
    if own.shape[1:] != chips.shape[1:]:
        raise ModelError(
            f"The chips of run {facts.run_id} are {list(own.shape[1:])}; the newest are {list(chips.shape[1:])}.",
            "Train again on the new chips to see all buildings.",
            kind="bands",
        )
    embed = _of_ranker(job, facts) if facts.method == RANKER_NAME else _of_model(job, facts)
    rows = np.unique(np.linspace(0, len(own) - 1, ROWS_TRIED).astype(np.int64))
    stored = np.asarray(runs.array(job.layout, facts.run_id, "embeddings"), np.float32)[rows]
    cosine = (_unit(embed(np.asarray(own[rows]))) * _unit(stored)).sum(axis=1)
    if not float(np.median(cosine)) >= LEAST_COSINE:
        raise ModelError(
            f"The model of run {facts.run_id} gives its own buildings other embeddings than it stored (cosine "
            f"{float(np.median(cosine)):.2f}).",
            "Train again to see all buildings.",
        )
    return embed(chips)


def _of_model(job: Job, facts: RunFacts) -> _Embedder:
    device = best_device()
    restored = restore(model_files.from_parts(*model_files.of_run(job.layout, facts.run_id), facts.run_id), device)
    if restored.bank is None:
        return restored.model.embed
    bank = restored.bank

    def embed(chips: _Chips) -> NDArray[np.float32]:
        torch.set_num_threads(1)
        return restored.model.embed(_plain(job, bank, chips))

    return embed


def _of_ranker(job: Job, facts: RunFacts) -> _Embedder:
    """Embed as the instant ranker did: filters, mean and axes are those of the chips that it knew."""
    known = _known_features(job.layout, facts.chip_set)
    mean, spread = known.mean(0), known.std(0)
    axes = _ranker_axes(ranker.prepare(known).values)
    with np.load(job.layout.filters(facts.chip_set), allow_pickle=False) as arrays:
        bank = rcf.RcfBank.from_arrays(dict(arrays))

    def embed(chips: _Chips) -> NDArray[np.float32]:
        values = (_plain(job, bank, chips).astype(np.float32) - mean) / np.where(spread > 1e-6, spread, np.inf)
        return _ranker_embeddings(values.astype(np.float32), axes)

    return embed


def _known_features(layout: Layout, chip_set: str) -> NDArray[np.float32]:
    if not (layout.features(chip_set).is_file() and layout.filters(chip_set).is_file()):
        raise ModelError(f"The features of the chips {chip_set} are gone.", "Rank again to see all buildings.")
    return np.asarray(np.load(layout.features(chip_set), mmap_mode="r", allow_pickle=False)[0], np.float32)


def _plain(job: Job, bank: rcf.RcfBank, chips: _Chips) -> NDArray[np.float16]:
    views = rcf.extract_views(chips, bank, 1, seed=0, device=best_device(), is_cancelled=job.is_cancelled)
    return views[0]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
    return found
