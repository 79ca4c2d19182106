"""How well UMAP on the neighbors that we give it keeps neighborhoods, against umap-learn finding its own: trustworthiness on the ranker's embeddings of real chips.

`python -m benchmarks.umap_quality`; the figures are in docs/methods.md.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.inspector import embeddings
from benchmarks.queue_simulation import harvey, joplin, kept
from pu_geo.analysis import projection, ranker

N_SEEDS, N_NEIGHBORS = 3, 15


def quality(rows: NDArray[np.float32], lay_out: Callable[[int], NDArray[np.float32]]) -> float:
    """Mean trustworthiness of all rows over the seeds, 0..1; 1 says that who lies near also looks alike."""
    from sklearn.manifold import trustworthiness

    found = [trustworthiness(rows, lay_out(seed), n_neighbors=N_NEIGHBORS) for seed in range(N_SEEDS)]
    return float(np.mean(found))


def measured(rows: NDArray[np.float32]) -> dict[str, float]:
    """Trustworthiness as shipped, of umap-learn alone, and of the two widest axes."""
    import umap

    def ours(seed: int) -> NDArray[np.float32]:
        return projection.umap_2d(rows, seed=seed)

    found = {"n": len(rows), "shipped": quality(rows, ours)}
    found["umap_learn"] = quality(rows, lambda seed: umap.UMAP(random_state=seed).fit_transform(rows))
    return {**found, "pca": quality(rows, lambda _: projection.pca_2d(rows))}


def main() -> None:
    """Print one line an event."""
    warnings.simplefilter("ignore")  # of umap-learn, about its threads
    for name, make in (("Harvey", harvey), ("Joplin", joplin)):
        rows = embeddings(ranker.prepare(kept(make).features).values)
        print(json.dumps({"event": name, **{key: round(value, 4) for key, value in measured(rows).items()}}), flush=True)


if __name__ == "__main__":
    main()
