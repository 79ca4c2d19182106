"""FedAwS against its baselines on Joplin: an agency for each of the grades destroyed, major and minor, and one for all others.

`python -m benchmarks.fedaws_joplin DATA` adds to benchmarks/outcomes/fedaws_joplin.jsonl what is not there yet, in a few minutes of one
core; `python -m benchmarks.tables` writes the table. DATA is a folder that holds joplin_xbd.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.metrics import balanced_accuracy_score

from benchmarks.fedaws_fmnist import MARGIN, METHODS, grid, trained
from benchmarks.herocon_joplin import CHOSEN_ON, GRADES, HELD_BACK, Town
from benchmarks.herocon_joplin import parts as towns_of
from benchmarks.kept import Kept, ahead, row, table
from pu_geo.analysis import metrics
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.training.data import FeatureViews, Ints

CLEAN, NOBODY = "no damage", "nobody labeled"
RESTS = (CLEAN, NOBODY)
"""What the agency "rest" holds: undamaged buildings alone, as in the paper, or all that nobody labeled, as in the app."""
N_DRAWS, CHOSEN_DRAWS = 5, (100, 101)
SHARED = FedawsSettings(rounds=30, local_steps=5, weight_decay=1e-4)


@dataclass(frozen=True)
class Found:
    """Of one training on one draw: accuracy and average precision, the mean over the four classes, and cosines of class vectors."""

    part: str
    rest: str
    method: str
    seed: int
    lr: float
    momentum: float
    accuracy: float
    ap: float
    mean_cosine: float
    largest_cosine: float


KEPT = Kept("fedaws_joplin", Found, "part rest method seed lr momentum")


def drawn(town: Town, rest: str, seed: int) -> tuple[list[Ints], Ints]:
    """Draw half of each grade for the agencies; return the rows of each, no damage first, and those to judge by."""
    rng = np.random.default_rng([seed, len(town), 26])
    halves = [np.array_split(rng.permutation(np.flatnonzero(town.grade == one)), 2) for one in range(len(GRADES))]
    clients, judged = [each[0] for each in halves], np.concatenate([each[1] for each in halves])
    if rest == NOBODY:
        clients[0] = np.sort(np.concatenate([clients[0], judged]))
    return clients, judged


def outcome(town: Town, part: str, rest: str, method: str, seed: int, lr: float, momentum: float) -> Found:
    """Train one method on one draw and judge it by the buildings that no damage agency holds."""
    clients, judged = drawn(town, rest, seed)
    found = trained(FeatureViews(town.views), clients, method, SHARED, lr, momentum, seed)
    logits, truth = found.logits(town.views[:, judged]), town.grade[judged]
    if not np.isfinite(logits).all():  # diverged
        return Found(part, rest, method, seed, lr, momentum, 0.0, 0.0, 0.0, 0.0)
    odds = logits if found.is_cosine else log_softmax(logits, axis=1)
    ap = [metrics.average_precision(odds[:, one], truth == one) for one in range(len(GRADES))]
    accuracy = balanced_accuracy_score(truth, logits.argmax(1))
    return Found(
        part, rest, method, seed, lr, momentum, round(float(accuracy), 4), round(float(np.mean(ap)), 4), *found.cosines
    )


def best_setting(found: Sequence[Found], method: str) -> tuple[float, float]:
    """Return learning rate and momentum of the highest mean accuracy on scene 0, where rest holds undamaged buildings."""
    tried: dict[tuple[float, float], list[float]] = {}
    for each in found:
        if (each.part, each.method) == (CHOSEN_ON, method):
            tried.setdefault((each.lr, each.momentum), []).append(each.accuracy)
    return max(tried, key=lambda setting: float(np.mean(tried[setting])))


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    tested = [each for each in KEPT.read() if each.part == HELD_BACK]
    by_key = {(each.rest, each.method, each.seed): each for each in tested}

    def rows() -> Iterator[str]:
        for rest, method in itertools.product(RESTS, METHODS):
            own = [each for each in tested if (each.rest, each.method) == (rest, method)]
            above = [by_key[rest, MARGIN, each.seed].accuracy - each.accuracy for each in own]
            accuracy, ap, mean, largest = (
                float(np.mean([getattr(each, name) for each in own]))
                for name in ("accuracy", "ap", "mean_cosine", "largest_cosine")
            )
            yield row(
                rest, method, f"{own[0].lr:g}, {own[0].momentum:g}", f"{accuracy:.3f}", "" if method == MARGIN else ahead(above),
                f"{ap:.3f}", f"{mean:.2f}", f"{largest:.2f}",
            )  # fmt: skip

    head = "rest holds | method | lr, momentum | macro accuracy | FedAwS's (Eq. 7) above it, 95 % | macro AP | mean cosine of class vectors | largest"
    return [table(head, rows())]


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder that holds joplin_xbd")
    torch.set_num_threads(1)
    towns = towns_of(parser.parse_args().data)

    def do(part: str, rest: str, method: str, seed: int, lr: float, momentum: float) -> None:
        key = part, rest, method, seed, lr, momentum
        KEPT.once(key, lambda: [outcome(towns[part], *key)])

    for method, seed in itertools.product(METHODS, CHOSEN_DRAWS):
        for lr, momentum in grid(method):
            do(CHOSEN_ON, CLEAN, method, seed, lr, momentum)
    found = KEPT.read()
    for rest, seed, method in itertools.product(RESTS, range(N_DRAWS), METHODS):
        do(HELD_BACK, rest, method, seed, *best_setting(found, method))


if __name__ == "__main__":
    main()
