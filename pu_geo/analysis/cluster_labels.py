"""Soft pseudo labels from many small clusters, for scenes of which two means follow something else than damage."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.lloyd import Floats
from pu_geo.analysis.pupl import over_cluster, pupl

ROWS_A_CLUSTER = 30
MOST_CLUSTERS, FEWEST_CLUSTERS = 60, 2
N_CLUSTERINGS = 4
_PASSES = 30
_LEAST = 1e-9
DOUBT = 4.4
"""Small clusters must do 1 + DOUBT / sqrt(number of positives) times as well, as the criterion is uncertain with few: 2.4 times with
10, 1.8 with 30, 1.14 with 1,000. Joplin, where two means are right, gives 1.3 to 1.8 with 10 and 1.0 to 1.1 with 30 positives; Harvey
2.0 to 3.0 with 30; one draw of FMNIST-II 1.7 with 1,000."""


@dataclass(frozen=True)
class ClusterLabels:
    """What many small clusters say of each row.

    Attributes:
        labels: chance that a row is damaged, float32 [N], 0..1; 1 for positives.
        share: mean of it over the unlabeled.
        recall: mean of what positives would have got had they been unlabeled, 0..1.
        n_clusters: clusters of each clustering.
    """

    labels: NDArray[np.float32]
    share: float
    recall: float
    n_clusters: int


def cluster_labels(
    embeddings: Floats, is_positive: NDArray[np.bool_], *, seed: int, n_clusterings: int = N_CLUSTERINGS
) -> ClusterLabels:
    """Give each row the chance of damage of the small cluster it lies in, averaged over clusterings.

    Source: ours, after Elkan and Noto (KDD 2008): where clicks are an even draw of the damage, the share of clicked rows in
    a cluster is its chance of damage times c, and c is the share that a clicked row meets around itself on average.

    Args:
        embeddings: float [N, D], finite.
        is_positive: bool [N]; everything else is unlabeled. At least one of both.
        seed: of the clusterings.
        n_clusterings: averaged over, since the edges of clusters are a matter of chance.

    Returns:
        Soft pseudo labels. No positive counts for its own cluster when `recall` and c are worked out.

    Raises:
        ShapeError(ValueError), TrainingError: as in `pupl.over_cluster`.
    """
    n = len(is_positive)
    k = usual_k(n)
    base = float(is_positive.mean())
    total, met = np.zeros(n), np.zeros(n)
    for number in range(n_clusterings):
        found = over_cluster(embeddings, is_positive, k=k, seed=seed + number, n_seedings=1, max_iterations=_PASSES)
        counts, sizes = found.positive_counts, np.maximum(found.sizes, 1)
        without_itself = np.clip((counts - 1 + base) / sizes, _LEAST, None)
        c = float(np.average(without_itself, weights=counts))
        total += np.clip((counts + base) / (sizes + 1) / c, 0, 1)[found.labels]
        met += np.clip(without_itself / c, 0, 1)[found.labels]
    labels = np.where(is_positive, 1.0, total / n_clusterings).astype(np.float32)
    return ClusterLabels(labels, float(labels[~is_positive].mean()), float(met[is_positive].mean() / n_clusterings), k)


def usual_k(n: int) -> int:
    """Return how many small clusters n rows are split into: one for 30 rows, 2 to 60."""
    return min(n, int(np.clip(n // ROWS_A_CLUSTER, FEWEST_CLUSTERS, MOST_CLUSTERS)))


def two_means_miss(embeddings: Floats, is_positive: NDArray[np.bool_], many: ClusterLabels, *, seed: int) -> bool:
    """Say whether two means follow something else than the positives, which small clusters follow.

    Source of the criterion: Lee and Liu (ICML 2003), recall squared by the share called damaged, which ranks classifiers as
    F1 would and needs no undamaged building. The rule is ours, see `DOUBT`.

    Args:
        embeddings, is_positive: as in `cluster_labels`.
        many: made of them.
        seed: of the two means; positives are not pinned to their cluster here.
    """
    is_called = pupl(embeddings, is_positive, seed=seed, is_pinned=False).labels == 1
    recall, share = float(is_called[is_positive].mean()), float(is_called[~is_positive].mean())
    two, small = recall**2 / max(share, _LEAST), many.recall**2 / max(many.share, _LEAST)
    return small > two * (1 + DOUBT / math.sqrt(is_positive.sum()))
