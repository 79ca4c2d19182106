"""Is what Explore shows worth looking at? Pictures, "more like this", wrong answers, small groups and islands, on events of which the damage is known.

`python -m benchmarks.explore CACHE` writes benchmarks/results/explore.md in ten minutes; CACHE is what `benchmarks.ranking prepare` fills.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA

from benchmarks.kept import interval, row, table
from benchmarks.ranking_sets import CHOSEN, CONFOUNDED, REPORTED, Cell, Source, read_source
from pu_geo.analysis import looks, neighbors, projection
from pu_geo.analysis.clustering import k_means
from pu_geo.analysis.metrics import auc
from pu_geo.analysis.two_readings import DIM, POWER, Space, embedded, plain_and_roots, roots_of
from pu_geo.methods import catalog
from pu_geo.methods.fitting import Fitted, fit_and_score
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

SETS = {
    "Joplin": Cell("joplin", REPORTED, None, 30), "Santa Rosa": Cell("santa_rosa_a", REPORTED, None, 30),
    "sample": Cell("town", CHOSEN, None, 30), "Matthew*": Cell("matthew_wind", CHOSEN, None, 10),
    "Harvey, scene 0": Cell("harvey_flood", REPORTED, None, 30, scene=0),
    "Harvey D*": Cell("harvey_d", CONFOUNDED, 0.2, 30, undamaged_places=0.75),
    "Florence*": Cell("florence_flood", REPORTED, None, 10),
}  # fmt: skip
RARE, BEST, N_DRAWS, N_SEEDS, N_ANSWERS, N_WRONG = 0.06, 0.05, 5, 20, 40, 3
PAGE = Path(__file__).with_name("results") / "explore.md"
Bools, Singles = NDArray[np.bool_], NDArray[np.float32]


class Draw:
    """Chips of a set, float32 [V, N, E], and clicks; what looks and trainings make of them."""

    def __init__(self, source: Source, traits: Singles, rows: NDArray[np.int64], is_clicked: Bools, seed: int) -> None:
        self.views, self.is_damaged = source.views[:, rows].astype(np.float32), source.is_damaged[rows]
        self.is_clicked, self.seed = is_clicked, seed
        self.xy_m, roots = source.xy_m[rows], plain_and_roots(self.views, slice(None))[1]
        self.look, self.traits = looks.look(roots), traits[rows]
        self.one_view = embedded(Space.of(roots, roots, POWER).white(roots_of(self.views[0])), DIM)
        chosen = np.random.default_rng([seed, 44]).choice(len(rows), is_clicked.sum(), replace=False)
        self.random = np.isin(np.arange(len(rows)), chosen)  # as many buildings as clicks

    @cached_property
    def run(self) -> Fitted:
        return self.trained("propagation", self.is_clicked)

    def trained(self, method: str, is_clicked: Bools) -> Fitted:
        data = PUData(FeatureViews(self.views.astype(np.float16)), is_clicked, np.zeros_like(is_clicked), xy_m=self.xy_m)
        settings = catalog.settings_for(method, "quick", {})
        run, rest = Run(torch.device("cpu"), self.seed), ~is_clicked
        return fit_and_score(catalog.card(method), data, settings, run, prior=lambda: None, start_k=1, is_unlabeled=rest)


Order = Callable[[Draw, Bools, Bools], NDArray[np.int64]]


def knn_auc(draw: Draw, rows: NDArray[np.floating]) -> float:
    """AUC of the share of damaged among the 10 nearest, clicks left out."""
    rows, truth = rows[~draw.is_clicked], draw.is_damaged[~draw.is_clicked]
    near, _ = neighbors.nearest_of_each(np.ascontiguousarray(rows, np.float32), min(11, len(rows)))
    return auc(truth[near[:, 1:]].mean(1), truth)


def alike(draw: Draw, rows: Singles, scores: Singles | None = None) -> float:
    """Precision of the 10 first that are like a click, mean over clicks."""
    ask = partial(looks.elsewhere, rows, scores=scores, is_hidden=draw.is_clicked)
    return float(np.mean([draw.is_damaged[ask(np.array([one]))[:10]].mean() for one in np.flatnonzero(draw.is_clicked)]))


def wrong(draw: Draw, n_damaged: int, first: int, order: Order) -> float:
    """How many of three wrong answers among 40 stand among the first 3; of 10: 20 where all do, so that a mean is of 20 seeds."""
    truth, rng, n = draw.is_damaged, np.random.default_rng([draw.seed, 44]), N_ANSWERS - n_damaged
    if truth.sum() < n_damaged or (~truth).sum() < max(n, N_WRONG):
        return float("nan")
    damaged = rng.choice(np.flatnonzero(truth), n_damaged, replace=False)
    others = rng.choice(np.flatnonzero(~truth), n or N_WRONG, replace=False)
    answers = np.concatenate([damaged, others] if n else [damaged[N_WRONG:], others])
    is_wrong = np.isin(np.arange(len(truth)), rng.choice(answers, N_WRONG, replace=False) if n else others)
    is_answered, says = np.isin(np.arange(len(truth)), answers), truth ^ is_wrong
    found = is_wrong[order(draw, is_answered & says, is_answered & ~says)[:first]].sum()
    return float(found) if first == N_WRONG else 20.0 * (found == N_WRONG)


def by_neighbors(draw: Draw, damaged: Bools, not_damaged: Bools) -> NDArray[np.int64]:
    """Order answers by how many of the five nearest ones disagree."""
    answered = np.flatnonzero(damaged | not_damaged)
    near, _ = neighbors.nearest_of_each(np.ascontiguousarray(draw.look[answered]), 6)
    return answered[np.argsort(-(damaged[answered][near[:, 1:]] != damaged[answered][:, None]).mean(1), kind="stable")]


def in_best(draw: Draw, parted: Callable[[Singles], NDArray[np.integer]]) -> float:
    """Share of the damage, thinned to 6 %, in the twentieth of all buildings whose groups hold the largest shares."""
    damaged, rest = np.flatnonzero(draw.is_damaged), np.flatnonzero(~draw.is_damaged)
    damaged = np.random.default_rng([draw.seed, 4]).permutation(damaged)[: max(8, round(RARE * len(rest)))]
    kept = np.sort(np.concatenate([damaged, rest]))
    part, truth = parted(looks.look(plain_and_roots(draw.views, kept)[1])), draw.is_damaged[kept]
    part = np.where(part < 0, part.max() + 1, part)  # noise is a group, too
    share = np.bincount(part, truth) / np.maximum(np.bincount(part), 1)
    return float(np.sort(share[part])[::-1][: round(BEST * len(part))].sum() / truth.sum())


MEASURES: dict[str, tuple[int, dict[str, Callable[[Draw], float]]]] = {
    "AUC of the truth by the 10 nearest": (N_DRAWS, {
        "look": lambda draw: knn_auc(draw, draw.look), "one view in its space": lambda draw: knn_auc(draw, draw.one_view),
        "stored by a default run": lambda draw: knn_auc(draw, draw.run.embeddings),
        "UMAP of the look": lambda draw: knn_auc(draw, projection.umap_2d(draw.look)), "UMAP of one view": lambda draw: knn_auc(draw, projection.umap_2d(draw.one_view)),
        "two widest axes, look": lambda draw: knn_auc(draw, PCA(2).fit_transform(draw.look)), "two widest axes, one view": lambda draw: knn_auc(draw, PCA(2).fit_transform(draw.one_view)),
    }),
    "Like a click: precision of the 10 first": (N_DRAWS, {
        "likeness rank + score rank": lambda draw: alike(draw, draw.look, draw.run.scores), "likeness": lambda draw: alike(draw, draw.look),
        "cosine of a default run": lambda draw: alike(draw, draw.run.embeddings), "cosine of one view": lambda draw: alike(draw, draw.one_view),
    }),
    **{f"{n} damaged + {N_ANSWERS - n} not, three wrong: {what}": (N_SEEDS, {
        "ours": partial(wrong, n_damaged=n, first=first, order=lambda draw, *given: looks.doubts(looks.with_changes(draw.look, draw.traits), *given)[0]),
        "ours, by the look alone": partial(wrong, n_damaged=n, first=first, order=lambda draw, *given: looks.doubts(draw.look, *given)[0]), "5 nearest answers": partial(wrong, n_damaged=n, first=first, order=by_neighbors),
    }) for n in (20, 40) for first, what in ((3, "found by the first 3"), (10, "all among the first 10, of 20 seeds"))},
    "Damage (6 %) in the best twentieth of groups": (N_DRAWS, {
        "small groups": lambda draw: in_best(draw, looks.small_groups),
        "k-means, 20": lambda draw: in_best(draw, lambda rows: k_means(rows, min(20, len(rows)), seed=draw.seed).labels_), "HDBSCAN, 5": lambda draw: in_best(draw, HDBSCAN(min_cluster_size=5).fit_predict),
    }),
    "Clicks nearer than chance, times": (N_DRAWS, {
        "look, clicks": lambda draw: looks.nearer_than_chance(draw.look, draw.is_clicked) or np.nan, "look, random buildings": lambda draw: looks.nearer_than_chance(draw.look, draw.random) or np.nan,
        "PUCL, clicks": lambda draw: looks.nearer_than_chance(draw.trained("pucl", draw.is_clicked).embeddings, draw.is_clicked) or np.nan,
        "PUCL, random buildings": lambda draw: looks.nearer_than_chance(draw.trained("pucl", draw.random).embeddings, draw.random) or np.nan,
    }),
}  # fmt: skip
"""What is measured -> draws, and ways; the first of these is what Explore shows."""


def main(cache: Path) -> None:
    """Measure, and write the tables below the words of the page."""
    warnings.simplefilter("ignore")  # of umap-learn, about its threads
    torch.set_num_threads(1)
    found: dict[tuple[str, str, str], list[float]] = {}
    for name, cell in SETS.items():
        source, chips = read_source(cache, cell.source), np.load(cache / f"{cell.source}.npz")["chips"]
        traits = looks.traits(chips[:, :-3] if chips.shape[1] > 3 else None, chips[:, -3:])
        for seed in range(N_SEEDS):
            if drawn := cell.draw(source, seed):
                draw = Draw(source, traits, *drawn, seed)
                for what, (n, ways) in MEASURES.items():
                    for way, measure in ways.items() if seed < n else ():
                        found.setdefault((what, way, name), []).append(measure(draw))
        print(name, flush=True)
    page = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    for what, (_, ways) in MEASURES.items():
        first, *_ = ways
        of = {way: [figure(found[what, way, name], found[what, first, name], way == first) for name in SETS] for way in ways}
        page += f"\n## {what}\n\n{table(' | '.join(['', *SETS]), (row(way, *each) for way, each in of.items()))}"
    PAGE.write_text(page, encoding="utf-8")


def figure(values: Sequence[float], first: Sequence[float], is_first: bool) -> str:
    """Write a mean, and the 95 % interval of its paired difference from the first way."""
    _, low, high = interval(np.subtract(values, first).tolist())
    return "" if np.isnan(values).any() else f"{np.mean(values):.3g}" + ("" if is_first else f" ({low:+.2g} to {high:+.2g})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
