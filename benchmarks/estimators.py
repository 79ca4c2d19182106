"""What the estimators reach: F1 at the first threshold and at the true number.

`python -m benchmarks.estimators FOLDER_OF_DATA` adds to benchmarks/outcomes/first_threshold.jsonl what is not there yet;
`python -m benchmarks.tables` writes the table. The folder holds joplin_xbd.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.kept import Kept, row, spread, table
from benchmarks.ranking_sources import joplin
from pu_geo.analysis import estimates, metrics
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.methods import catalog
from pu_geo.methods.estimators import ALL, PURanker

N_CLICKS, N_DRAWS = 30, 5
ENOUGH = 0.8
NAMES = tuple(name for name in catalog.ESTIMATORS if name != "PUPL" and not (name in ALL and ALL[name].card.min_not_damaged))


@dataclass(frozen=True)
class Outcome:
    """One estimator on one draw; figures are of the unlabeled chips, F1 at three thresholds."""

    name: str
    draw: int
    auc: float
    at_true_number: float
    at_threshold: float
    at_half: float
    suggested: float
    share: float


KEPT = Kept("first_threshold", Outcome, "name draw")


def f1(is_called: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """Return F1 of what is called damaged; 0 where nothing is."""
    return float(2 * (is_called & truth).sum() / max(is_called.sum() + truth.sum(), 1))


def outcome_of(name: str, draw: int, views: NDArray[np.float16], is_damaged: NDArray[np.bool_]) -> Outcome:
    """Click, fit, and judge the chips that were not clicked."""
    clicks = np.random.default_rng(draw).choice(np.flatnonzero(is_damaged), N_CLICKS, replace=False)
    y = np.zeros(len(is_damaged), np.int64)
    y[clicks] = 1
    model = PURanker() if name == "PURanker" else ALL[name](preset="quick", random_state=draw, device="cpu")
    scores, truth = model.fit(views, y).decision_function(views)[y == 0], is_damaged[y == 0]
    evidence = estimates.evidence_to_start_from(np.asarray(views[0], np.float32), y == 1)
    at_true = scores >= np.sort(scores)[::-1][truth.sum() - 1]
    figures = (
        metrics.auc(scores, truth),
        f1(at_true, truth),
        f1(scores >= model.threshold_, truth),
        f1(scores >= 0.5, truth),
    )
    return Outcome(
        name, draw, *(round(each, 4) for each in (*figures, evidence.share if evidence else 0.0, float(truth.mean())))
    )


def run_thresholds(folder: Path) -> None:
    """Do what is not kept yet."""
    sets = joplin(folder)
    chips, is_damaged = sets["chips"].astype(np.uint8), sets["is_damaged"].astype(np.bool_)
    views = fit_default(chips).transform(chips, N_VIEWS, seed=FEATURE_SEED, device=torch.device("cpu"))
    for name, draw in itertools.product(NAMES, range(N_DRAWS)):
        KEPT.once((name, draw), lambda name=name, draw=draw: [outcome_of(name, draw, views, is_damaged)])


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    found = KEPT.read()

    def rows() -> Iterator[str]:
        for name in NAMES:
            own = [each for each in found if each.name == name]
            of = partial(_column, own)
            if own:
                n = sum(each.at_true_number >= ENOUGH for each in own)
                shares = f"{np.mean(of('suggested')):.2f} / {np.mean(of('share')):.2f}"
                cells = (spread(of(field)) for field in ("auc", "at_true_number"))
                yield row(name, len(own), *cells, n, spread(of("at_threshold")), spread(of("at_half")), shares)

    head = (
        "estimator | draws | AUC | F1 at the true number | draws of .8 or more | F1 at `threshold_` | F1 at 0.5 "
        "| share, suggested / true"
    )
    return [table(head, rows())]


def _column(found: Sequence[Outcome], name: str) -> list[float]:
    return [getattr(each, name) for each in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of data")
    run_thresholds(parser.parse_args().folder)
