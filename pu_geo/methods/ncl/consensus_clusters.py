"""Several NCL trainings as one sorting: which kinds of building are there, as far as the trainings agree?

A single training's groups hang on its seed. All of their groups together hang on it much less. A
training can be read in two ways, and neither is the better one everywhere: groups that follow the few clicks rather than the
buildings change with the clicks. So each training does without some of them, and the reading is taken that changes less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from pu_geo.analysis.clustering import adjusted_rand, k_means
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl import ncl
from pu_geo.methods.ncl.discovery import seed_of
from pu_geo.training.data import UNKNOWN, Bools, FeatureViews, Ints, PUData
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

MEMBERSHIPS, EMBEDDINGS = "memberships", "embeddings"
FIRST_AXES = 64
MOST_ROWS = 20_000
_DRAW, _SORT = 21, 22  # streams of random numbers
_DONE = "done"  # stage of a checkpoint: what a training came to


@dataclass(frozen=True)
class ConsensusClusters:
    """What several trainings make of the M rows that may be trained on.

    Attributes:
        groups: int64 [M], 0..K-1, large ones first.
        points: what the groups were found by, float32 [M, D] of unit length.
        alone: of each reading, the groups of each training by itself, int64 [M].
        reading: how the groups were found: "memberships" (k-means on the output of the heads of new clusters) or
            "embeddings".
        agreement: of each reading, adjusted Rand between the trainings, mean over pairs; empty with one training.
    """

    groups: Ints
    points: NDArray[np.float32]
    alone: Mapping[str, Sequence[Ints]]
    reading: str
    agreement: Mapping[str, float]

    @property
    def sortings(self) -> Sequence[Ints]:
        """The groups of each training by itself, read as the common groups were."""
        return self.alone[self.reading]


@one_thread_on_features
def find_consensus(data: PUData, settings: NclSettings, runs: Sequence[Run]) -> ConsensusClusters:
    """Train once a run, and sort all chips by all the trainings together into `n_new` groups.

    Source: NCL for the trainings; that the stable one of several sortings is to be preferred is Lange et al. 2004,
    Stability-based validation of clustering solutions. Reading trainings together, and which readings there are, is ours.

    Args:
        runs: one a training, with seeds of their own; the first one's generator draws what is held out, and sorts. With
            checkpoints, of a folder each, what was interrupted goes on where it was.

    Raises:
        as `ncl.fit`.
    """
    generator = runs[0].generator(_SORT)
    part = held_out_parts(data.classes, len(runs), runs[0].generator(_DRAW))
    found: dict[str, list[NDArray[np.float32]]] = {MEMBERSHIPS: [], EMBEDDINGS: []}
    for number, run in enumerate(runs):
        learned = _trained(_without(data, part == number), settings, run)
        found[MEMBERSHIPS].append(np.sqrt(learned[MEMBERSHIPS]))
        found[EMBEDDINGS].append(learned[EMBEDDINGS])
    alone: dict[str, list[Ints]] = {way: [] for way in found}
    for way, points in found.items():
        for each in points:
            runs[0].stop_if_cancelled()
            alone[way].append(sort_into_groups(each, settings.n_new, generator))
    agreed = {way: adjusted_rand(groups) for way, groups in alone.items()}
    agreement = {way: value for way, value in agreed.items() if value is not None}
    reading = max(agreement, key=lambda way: agreement[way]) if agreement else MEMBERSHIPS
    together = concatenated(found[reading])
    runs[0].stop_if_cancelled()
    return ConsensusClusters(sort_into_groups(together, settings.n_new, generator), together, alone, reading, agreement)


def _trained(data: PUData, settings: NclSettings, run: Run) -> Mapping[str, NDArray[np.float32]]:
    """Train once; return the memberships and embeddings of the trained rows. What a run's checkpoints keep is not done
    again.
    """
    kept = run.checkpoints.newest(_DONE) if run.checkpoints else None
    if kept is not None:
        return {way: tensor.numpy() for way, tensor in kept[1].items()}
    model = ncl.fit(data, settings, run)
    found: dict[str, NDArray[np.float32]] = {way: model.findings[way] for way in (MEMBERSHIPS, EMBEDDINGS)}
    if run.checkpoints:
        run.checkpoints.finish(_DONE, {way: torch.from_numpy(array) for way, array in found.items()})
    return found


def held_out_parts(classes: Ints, n_parts: int, generator: torch.Generator) -> Ints:
    """Deal the clicks of every class out into equal parts.

    Args:
        classes: int64 [N], -1 for chips without a click.
        n_parts: from 1 on; with one, nothing is held out.

    Returns:
        The part of each chip, int64 [N]; -1 for chips without a click, and for classes of which a part would be empty.
    """
    found = np.full(len(classes), -1)
    for one in np.unique(classes[classes != UNKNOWN]):
        own = np.flatnonzero(classes == one)
        if 1 < n_parts <= len(own):
            found[own[torch.randperm(len(own), generator=generator).numpy()]] = np.arange(len(own)) % n_parts
    return found


def _without(data: PUData, is_held_out: Bools) -> PUData:
    """Count some clicks as unlabeled."""
    classes = np.where(is_held_out, UNKNOWN, data.classes)
    return replace(data, known_class=classes, is_positive=classes >= 1)


def concatenated(points: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Describe chips by the output of several trainings, which needs no matching of their groups.

    Args:
        points: of each training, unit rows, float [N, D]. Roots of memberships are such; their distance is Hellinger's.

    Returns:
        float32 [N, the sum of D] of unit length; a squared distance is the mean of the trainings'.
    """
    return (np.concatenate(points, axis=1) / np.sqrt(len(points))).astype(np.float32)


def sort_into_groups(points: NDArray[np.floating], n_groups: int, generator: torch.Generator) -> Ints:
    """Sort chips into groups with k-means, the best of several seedings; large ones come first.

    Args:
        points: float [N, D], compared by Euclidean distance. Beyond 20,000 rows, means are learned from as many of them.
        n_groups: K, at least 1.

    Returns:
        Groups 0..K-1 in the order of their size, int64 [N]; the last ones may be empty: where
        points coincide, or are fewer than K.
    """
    some = points[torch.randperm(len(points), generator=generator)[:MOST_ROWS].numpy()]
    centers = k_means(some.astype(np.float64), min(n_groups, len(some)), seed=seed_of(generator)).cluster_centers_
    nearest = cdist(points, centers).argmin(axis=1)
    order = np.argsort(-np.bincount(nearest, minlength=n_groups), kind="stable")
    place = np.empty(n_groups, np.int64)
    place[order] = np.arange(n_groups)
    return place[nearest]


def principal_axes(features: FeatureViews) -> NDArray[np.float32]:
    """Describe chips without any training: the first 64 principal axes of their standardised features, unit length.

    Args:
        features: cached ones; their views are averaged.

    Returns:
        float32 [N, up to 64].
    """
    mean = np.mean(features.views, axis=0, dtype=np.float32)
    standard = (mean - mean.mean(axis=0)) / np.maximum(mean.std(axis=0), 1e-6)
    _, _, axes = np.linalg.svd(standard[:: max(1, len(standard) // 4000)], full_matrices=False)
    first = standard @ axes[:FIRST_AXES].T
    return (first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12)).astype(np.float32)
