"""How many buildings does a new run flag at first, and how good is that map? On projects of which the damage is known.

`python -m benchmarks.flagged_first P.pugeo --field damage --positive destroyed --positive major-damage` writes the rows of the table of
docs/methods.md (Conventions) for a project, chips with features, whose footprints hold the truth. Nothing is stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pu_geo as pg
from benchmarks.ranking import KINDS, clicks_of
from benchmarks.ranking_sets import CHOSEN, Cell, Source
from pu_geo.analysis import estimates, ranker

N_DRAWS = 4
RANDOM, CLEAREST = KINDS[0], KINDS[2]
ROWS = ((10, RANDOM), (30, RANDOM), (30, CLEAREST))
HEAD = "| event | true share | clicks | clicks suggest | k before | k now | F1 before | F1 now | F1 at the true number |"


def read(folder: Path, field: str, positive: list[str]) -> Source:
    """Read features and truth of a project's newest chips."""
    project = pg.Project.open(folder, progress=False)
    table = project.footprints().loc[project.building_ids()]
    centers = table.geometry.centroid
    is_damaged = np.isin(table[field].astype(str).to_numpy(str), positive)
    places = np.stack([centers.x, centers.y], axis=1)
    return Source(is_damaged, project.features(name="rcf"), np.zeros(len(table), np.int64), places)


def f1(scores: NDArray[np.floating], truth: NDArray[np.bool_], k: int) -> float:
    """Compute F1 of the k highest scores, 0..1."""
    called = np.argsort(-scores, kind="stable")[:k]
    return float(2 * truth[called].sum() / (k + truth.sum()))


def rows(name: str, source: Source) -> Iterator[str]:
    """Write each row of the table, means of `N_DRAWS` draws of clicks."""
    for n_clicks, kind in ROWS:
        cell = Cell(name, CHOSEN, None, n_clicks)
        found = []
        for seed in range(N_DRAWS):
            drawn = cell.draw(source, seed)
            if drawn is None:
                raise SystemExit(f"{name}: too few damaged buildings are left unlabeled with {n_clicks} clicks.")
            clicked = clicks_of(kind, source, cell, *drawn, seed)
            assert clicked is not None
            features = ranker.prepare(np.asarray(source.views[0], np.float32)[drawn[0]])
            scores, _ = estimates.rank_with_estimate(features, clicked)
            share = estimates.share_to_start_from(features, clicked)
            assert share is not None
            own, truth = scores[~clicked], source.is_damaged[drawn[0]][~clicked]
            ks = max(1, round(share * len(own))), estimates.start_k(len(own), share), int(truth.sum())
            found.append([truth.mean(), share, *ks[:2], *(f1(own, truth, k) for k in ks)])
        mean = np.mean(found, axis=0)
        words = f"{n_clicks} clear" if kind == CLEAREST else str(n_clicks)
        small = [f"{value:.3g}".lstrip("0") for value in mean[:2]]
        counts = [f"{value:,.0f}" for value in mean[2:4]]
        yield (
            "| " + " | ".join([name, small[0], words, small[1], *counts, *(f"{v:.2f}".lstrip("0") for v in mean[4:])]) + " |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("--field", required=True)
    parser.add_argument("--positive", action="append", required=True)
    given = parser.parse_args()
    print(HEAD)
    for row in rows(given.project.stem, read(given.project, given.field, given.positive)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
