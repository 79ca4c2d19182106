"""Make a run: train a method on what the analyst has clicked, score every building, and store the result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from pu_geo.analysis import estimates, pupl, ranker
from pu_geo.engine.data import FeatureViews
from pu_geo.engine.run import Run, best_device
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.methods import catalog
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import replacing
from pu_geo.project.store import now
from pu_geo.records import PUSet, RunFacts
from pu_geo.tasks.chip import load_chip_set
from pu_geo.tasks.job import Job

RANKER_NAME = "ranker"
RANKER_EMBEDDING_DIM = 64


@dataclass(frozen=True)
class _Inputs:
    """What a run starts from: features [V, N, D] of a chip set, and the labels at one event."""

    chip_set: str
    views: NDArray[np.float16]
    pu: PUSet


def _inputs(job: Job) -> _Inputs:
    with store.connect(job.layout) as db:
        chip_set = contents.latest_chip_set(db)
        if chip_set is None:
            raise ProjectError(
                "This project has no chips yet, so there is nothing to learn from.",
                "Cut them on the Imagery page, or with `pu-geo chip`.",
                kind="no_chips",
            )
        pu = labels.pu_set(db, ids=load_chip_set(job.layout, chip_set).building_ids)
    return _Inputs(chip_set, np.load(job.layout.features(chip_set), mmap_mode="r"), pu)


def rank(job: Job) -> dict[str, object]:
    """Run the instant ranker on the features of the unaugmented chips and store the result as a run.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are no positives.
    """
    began = time.monotonic()
    inputs = _inputs(job)
    job.report(0.1, "ranking all buildings")
    plain = np.asarray(inputs.views[0], dtype=np.float32)
    scores = ranker.rank_positives(plain, inputs.pu.is_positive, is_left_out=inputs.pu.is_left_out)
    share = _estimated_share(inputs)
    threshold = float(np.quantile(scores, 1 - share)) if share is not None else 0.5
    arrays = {"embeddings": _ranker_embeddings(plain)}
    return _finish(
        job, inputs, began, method=RANKER_NAME, preset="instant", seed=0, settings={}, scores=scores, arrays=arrays,
        device="cpu", score_type="linear", threshold=threshold, share=share,
    )  # fmt: skip


def train(
    job: Job, *, method: str, preset: str, seed: int = 0, overrides: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Train a method from the catalog and store the run.

    Args:
        method: a name in `methods.catalog.METHODS`.
        preset: one of the method's presets.
        overrides: settings that differ from the preset, as text.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are too few positives, a setting is wrong, or the training diverged.
    """
    began = time.monotonic()
    card = catalog.card(method)
    settings = catalog.settings_for(method, preset, overrides or {})
    inputs = _inputs(job)
    n_positive = int(inputs.pu.is_positive.sum())
    if n_positive < card.min_positives:
        raise TrainingError(
            f"{card.title} needs at least {card.min_positives} positives; this project has {n_positive}.",
            "Mark more damaged buildings on the Annotate page.",
            kind="few_positives",
        )
    job.report(0.02, f"loading features for {card.title}")

    def report(values: Mapping[str, object]) -> None:
        job.epoch(values)
        done, all_epochs = int(str(values["epoch"])), int(str(values["epochs"]))
        job.report(0.05 + 0.9 * done / all_epochs, f"{card.title}: epoch {done} of {all_epochs}")

    run = Run(device=best_device(), seed=seed, report=report, is_cancelled=job.is_cancelled)
    views = np.asarray(inputs.views)
    model = catalog.load_fit(method)(FeatureViews(views, inputs.pu.is_positive, inputs.pu.is_left_out), settings, run)
    job.report(0.95, "scoring all buildings")
    return _finish(
        job, inputs, began, method=method, preset=preset, seed=seed, settings=asdict(settings),
        scores=model.score(views), arrays={"embeddings": model.embed(views[0])}, device=str(run.device),
        score_type="pu_probability", threshold=0.5, share=_estimated_share(inputs), weights=model.state(),
    )  # fmt: skip


def _estimated_share(inputs: _Inputs) -> float | None:
    if inputs.pu.is_positive.sum() < estimates.MIN_POSITIVES:
        return None
    return estimates.elkan_noto_share(
        np.asarray(inputs.views[0], dtype=np.float32), inputs.pu.is_positive, is_left_out=inputs.pu.is_left_out
    )


def _ranker_embeddings(plain: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce standardised features [N, D] to unit rows [N, 64] by PCA, so that ranker runs can be explored too."""
    centred = (plain - plain.mean(axis=0)) / (plain.std(axis=0) + 1e-6)
    _, _, axes = np.linalg.svd(centred[:: max(1, len(centred) // 4000)], full_matrices=False)
    reduced = centred @ axes[:RANKER_EMBEDDING_DIM].T
    unit: NDArray[np.float32] = reduced / (np.linalg.norm(reduced, axis=1, keepdims=True) + 1e-12)
    return unit.astype(np.float32)


def _finish(
    job: Job, inputs: _Inputs, began: float, *, method: str, preset: str, seed: int, settings: Mapping[str, object],
    scores: NDArray[np.float32], arrays: dict[str, NDArray[np.float32]], device: str, score_type: str,
    threshold: float, share: float | None, weights: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, object]:  # fmt: skip
    pu = inputs.pu
    run_id = f"{method}-{now()[5:16].replace('-', '').replace('T', '-').replace(':', '')}-{secrets.token_hex(2)}"
    clusters = pupl.pupl(arrays["embeddings"], pu.is_positive, seed=seed)
    facts = RunFacts(
        run_id=run_id, method=method, preset=preset, seed=seed, settings=settings, chip_set=inputs.chip_set,
        at_event=pu.at_event, n_positive=int(pu.is_positive.sum()),
        n_unlabeled=int((~pu.is_positive & ~pu.is_left_out).sum()), created_at=now(),
        seconds=round(time.monotonic() - began, 2), device=device, score_type=score_type,
        threshold=round(threshold, 4), estimated_share=share,
        versions={name: metadata.version(name) for name in ("torch", "numpy")},
    )  # fmt: skip
    files = []
    if weights:
        files.append(job.layout.run(run_id) / "model.safetensors")
        with replacing(files[0]) as temporary:
            save_file({name: tensor.contiguous().cpu() for name, tensor in weights.items()}, temporary)
    with store.connect(job.layout) as db:
        runs.finish(
            db, job.layout, facts, ids=pu.building_ids, scores=scores.astype(np.float32),
            arrays={**arrays, "clusters": clusters.labels.astype(np.int8)}, files=files,
        )  # fmt: skip
    return {"run_id": run_id, "n_positive": facts.n_positive, "n_unlabeled": facts.n_unlabeled, "seconds": facts.seconds}
