"""What the inspector's clusters are worth on real chips: intervals, enrichment, accepted clusters, wrong clicks found.

`python -m benchmarks.inspector`; the table is in docs/methods.md. Joplin, and Harvey thinned to a share of damaged chips.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy.typing import NDArray

from benchmarks.queue_simulation import Event, harvey, joplin, kept, thinned
from pu_geo.analysis import estimates, inspecting, outliers, ranker
from pu_geo.analysis.metrics import average_precision
from pu_geo.analysis.pupl import over_cluster, pupl, usual_k

N_SEEDS, N_WRONG, N_FIRST = 6, 3, 6
ACCEPT_FROM = 0.5
"""Clusters are accepted whose estimate, or the lower end of whose interval, is so high, as one who trusts the table might."""
BY_EYE_FROM = 0.8
"""Or clusters of which so much is damaged in truth, as one who looks at the chips might."""


def embeddings(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Embed as the instant ranker's run does: 64 widest axes, unit rows."""
    _, _, axes = np.linalg.svd(values[:: max(1, len(values) // 4000)], full_matrices=False)
    reduced = values @ axes[:64].T
    return (reduced / np.linalg.norm(reduced, axis=1, keepdims=True)).astype(np.float32)


def inspected(event: Event, n_clicks: int, seed: int) -> dict[str, float]:
    """Click some of the damaged, cluster, and hold what the inspector says against the truth."""
    truth, rng = event.is_damaged, np.random.default_rng(seed)
    is_positive = np.zeros(len(truth), np.bool_)
    is_positive[rng.choice(np.flatnonzero(truth), n_clicks, replace=False)] = True
    prepared = ranker.prepare(event.features)
    rows, is_open = embeddings(prepared.values), ~is_positive
    share = estimates.elkan_noto_share(prepared, is_positive)
    many = over_cluster(rows, is_positive, k=usual_k(len(rows)), seed=seed)
    chance = inspecting.damaged_share(many.positive_counts, many.sizes, n_damaged=share * is_open.sum() + n_clicks)
    real = np.bincount(many.labels[truth], minlength=len(many.sizes)) / np.maximum(many.sizes, 1)
    has = many.positive_counts > 0
    held = (chance.low <= real) & (real <= chance.high)
    is_in = has[many.labels]
    before, _ = estimates.rank_with_estimate(prepared, is_positive)
    ways = {"estimate": chance.share >= ACCEPT_FROM, "low_end": chance.low >= ACCEPT_FROM, "eye": real >= BY_EYE_FROM}
    accepted = {}
    for way, is_chosen in ways.items():
        taken = is_open & (is_chosen & has)[many.labels]
        after, _ = estimates.rank_with_estimate(prepared, is_positive, is_accepted=taken)
        accepted |= {
            f"accepted_by_{way}": float(taken.sum()), f"damaged_by_{way}": float((truth & taken).sum()),
            f"ap_by_{way}": average_precision(after[is_open], truth[is_open]),
        }  # fmt: skip
    two = pupl(rows, is_positive, seed=seed, is_pinned=False).labels == 1
    return {
        "interval": float(held.mean()), "interval_clicked": float(held[has].mean()),
        "damage_in_clicked": float(is_in[truth & is_open].mean()), "all_in_clicked": float(is_in[is_open].mean()),
        "damage_in_two_means": float(two[truth & is_open].mean()), "all_in_two_means": float(two[is_open].mean()),
        "ap_before": average_precision(before[is_open], truth[is_open]), **accepted,
        **doubted(event, n_clicks, seed),
    }  # fmt: skip


def doubted(event: Event, n_clicks: int, seed: int) -> dict[str, float]:
    """Plant three wrong clicks: how many come among the first six, and are asked about; and what share of only right ones is."""
    truth, rng = event.is_damaged, np.random.default_rng([seed, 1])
    prepared = ranker.prepare(event.features)
    found = {}
    for n_wrong in (N_WRONG, 0):
        is_positive = np.zeros(len(truth), np.bool_)
        for n, mask in ((n_clicks - n_wrong, truth), (n_wrong, ~truth)):
            is_positive[rng.choice(np.flatnonzero(mask), n, replace=False)] = True
        share = estimates.elkan_noto_share(prepared, is_positive, n_folds=3)
        rows, places = outliers.places_held_out(prepared, is_positive, l2=estimates.l2_for_share(share))
        is_asked = places < outliers.doubtful_below(share)
        if n_wrong:
            found["wrong_found"] = float((~truth[rows[np.argsort(places, kind="stable")[:N_FIRST]]]).sum())
            found["wrong_asked"] = float((is_asked & ~truth[rows]).sum())
        else:
            found["right_asked"] = float(is_asked.mean())
    return found


def main() -> None:
    """Print one line a setting: means over seeds."""
    flood, tornado = kept(harvey), kept(joplin)
    settings = [("Harvey 1 %", 0.01, 15), ("Harvey 5 %", 0.05, 30), ("Harvey 20 %", 0.2, 30), ("Joplin", None, 30)]
    for name, share, n_clicks in settings:
        events = (tornado if share is None else thinned(flood, share, seed) for seed in range(N_SEEDS))
        found = [inspected(event, n_clicks, seed) for seed, event in enumerate(events)]
        means = {key: round(float(np.mean([one[key] for one in found])), 3) for key in found[0]}
        print(json.dumps({"setting": name, "clicks": n_clicks, **means}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
