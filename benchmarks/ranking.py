"""Is the default ever behind the linear ranker of the first version? Rankings on events of which the damage is known.

`python -m benchmarks.ranking prepare FOLDER_OF_DATA CACHE` cuts chips and makes features once, `python -m benchmarks.ranking run CACHE`
adds to benchmarks/outcomes/ranking.jsonl what is not there yet, `python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks import ranking_sources
from benchmarks.ranking_sets import N_SEEDS, Cell, Source, cells, read_source
from benchmarks.ranking_table import KEPT, Outcome
from pu_geo.analysis import estimates, metrics, ranker, two_readings
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.methods import catalog
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.fitting import Fitted, fit_and_score
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
_CPU = torch.device("cpu")


def of_method(name: str, **settings: str) -> Callable[..., Floats]:
    """Return a function that trains a method of the catalog, preset quick, and scores all chips."""

    return lambda event: fitted(name, event.views, event.is_positive, event.xy_m, event.seed, **settings).scores


def fitted(
    name: str, views: NDArray[np.float16], is_positive: Bools, xy_m: NDArray[np.float64], seed: int, **settings: str
) -> Fitted:
    """Train a method of the catalog, preset quick, on features [V, N, D]."""
    data = PUData(FeatureViews(views), is_positive, np.zeros(len(is_positive), np.bool_), xy_m=xy_m)
    return fit_and_score(
        catalog.card(name), data, catalog.settings_for(name, "quick", settings), Run(_CPU, seed), prior=lambda: None,
        start_k=1, is_unlabeled=~is_positive,
    )  # fmt: skip


class Event:
    """One draw of a cell: chips, clicks, and what several rankings share.

    Attributes:
        views: float16 [V, N, D].
        is_positive, is_damaged: bool [N].
        xy_m: float64 [N, 2].
    """

    def __init__(self, source: Source, rows: NDArray[np.int64], is_positive: Bools, seed: int) -> None:
        self.views = np.ascontiguousarray(source.views[:, rows])
        self.is_positive, self.is_damaged, self.seed = is_positive, source.is_damaged[rows], seed
        self.xy_m = source.xy_m[rows]
        self._readings: dict[str, Any] = {}

    def whitened(self) -> tuple[two_readings.Chips, two_readings.Reading]:
        """Return chips in the whitened space, and what the default learns from the clicks."""
        if "both" not in self._readings:
            views = self.views.astype(np.float32)
            roots, settings = two_readings.roots_of(views), PropagationSettings()
            space = two_readings.Space.of(views[0], roots.mean(0), settings.whitening)
            chips, _ = two_readings.chips_of(
                space, views[0], roots.mean(0), dim=settings.embedding_dim, n_neighbors=settings.n_neighbors,
                n_anchors=settings.n_anchors, seed=self.seed,
            )  # fmt: skip
            nobody = np.zeros(0, np.int64)
            marks = two_readings.Marks(
                np.flatnonzero(self.is_positive), nobody, np.flatnonzero(~self.is_positive)[:20_000], nobody, nobody
            )
            reading = two_readings.read_clicks(
                chips, marks, lambda some: space.white(roots[:, some]), propagation=settings.propagation, most_held_out=3000,
                seed=self.seed, even_share=settings.even_share,
            )  # fmt: skip
            self._readings["both"] = chips, reading
        found: tuple[two_readings.Chips, two_readings.Reading] = self._readings["both"]
        return found


def _linear(event: Event) -> Floats:
    return estimates.rank_with_estimate(ranker.prepare(event.views[0]), event.is_positive)[0]


def _supervised(event: Event) -> Floats:
    """Score each chip by a regression on the truth of four fifths of all others, whitened features: what the features can do."""
    chips, _ = event.whitened()
    fold, scores = (
        np.random.default_rng([event.seed, 7]).permutation(len(event.is_damaged)) % 5,
        np.zeros(len(event.is_damaged)),
    )
    for part in range(5):
        learned = (fold != part) | event.is_positive
        slope, _, _ = fit_logistic(chips.white[learned], event.is_damaged[learned], 0.5)
        scores[fold == part] = chips.white[fold == part] @ slope
    return scores


def _rank_mean(event: Event, weight: float) -> Floats:
    """Mix ranks of the whitened regression with those of the linear ranker's mean over the nearest neighbors."""
    chips, reading = event.whitened()
    margin = chips.standard @ reading.plain_slope
    smooth = chips.ties @ margin[chips.at]
    white = chips.white @ reading.slope
    return weight * rankdata(smooth) + (1 - weight) * rankdata(white)


METHODS: Mapping[str, Callable[[Event], Floats]] = {
    "linear": _linear,
    "default": of_method("propagation"),
    "alone": of_method("propagation", neighbors="off"),
    "G": lambda event: _rank_mean(event, 0.5),
    "H": lambda event: _rank_mean(event, float(np.clip(event.whitened()[1].share or 0.0, 0, 1))),
    "supervised": _supervised,
    "NcPU": of_method("ncpu"),
    "PUCL": of_method("pucl"),
}
"""Column of the table -> ranking. `alone` is the default without evidence from place; G and H are plain baselines of known parts."""

KINDS = ("clicks at random", "2 of 10 clicks wrong", "clearest third", "one block", "destroyed alone")


def clicks_of(kind: str, source: Source, rows: NDArray[np.int64], is_positive: Bools, seed: int) -> Bools | None:
    """Return which chips are clicked, bool [M], where clicks are no even draw of the damage; None where there are too few.

    wrong: every fifth click is of an undamaged building. clearest third: of the third of the damaged that the supervised ranking
    puts first. one block: the damaged nearest to one of them. destroyed alone: no major damage is clicked.
    """
    if kind == KINDS[0]:
        return is_positive
    rng, n = np.random.default_rng([seed, 11]), int(is_positive.sum())
    damaged = np.flatnonzero(source.is_damaged[rows])
    if kind == KINDS[1]:
        clicked = np.flatnonzero(is_positive)
        wrong = rng.choice(np.flatnonzero(~source.is_damaged[rows]), n // 5, replace=False)
        chosen = np.concatenate([rng.permutation(clicked)[n // 5 :], wrong])
    elif kind == KINDS[2]:
        event = Event(source, rows, is_positive, seed)
        clearest = damaged[np.argsort(-_supervised(event)[damaged])[: max(len(damaged) // 3, n)]]
        chosen = rng.choice(clearest, n, replace=False)
    elif kind == KINDS[3]:
        places = source.xy_m[rows[damaged]]
        far = np.linalg.norm(places - places[rng.integers(len(damaged))], axis=1)
        chosen = damaged[np.argsort(far)[:n]]
    else:
        if source.damage is None:
            return None
        worst = damaged[source.damage[rows[damaged]] == "destroyed"]
        if len(worst) < n:
            return None
        chosen = rng.choice(worst, n, replace=False)
    found = np.zeros(len(rows), np.bool_)
    found[chosen] = True
    return found


def outcome(cell: Cell, source: Source, seed: int, method: str, kind: str, drawn: Event) -> Outcome:
    """Rank one draw."""
    began = time.process_time()
    scores = METHODS[method](drawn)
    seconds = time.process_time() - began
    is_open = ~drawn.is_positive
    own, truth = np.asarray(scores)[is_open], drawn.is_damaged[is_open]
    return Outcome(
        cell.name, cell.clicks, seed, method, kind, len(truth), int(truth.sum()),
        round(metrics.average_precision(own, truth), 5), round(metrics.auc(own, truth), 5), round(seconds, 2),
    )  # fmt: skip


def run(cache: Path, kinds: Sequence[str]) -> None:
    """Do what is not kept yet, one draw at a time."""
    for name in dict.fromkeys(cell.source for cell in cells()):
        if not (cache / f"{name}.npz").exists():
            continue
        source = read_source(cache, name)
        for cell, seed in itertools.product((cell for cell in cells() if cell.source == name), range(N_SEEDS)):
            drawn = cell.draw(source, seed)
            for kind in kinds if drawn else ():
                clicked = clicks_of(kind, source, *drawn, seed)
                if clicked is None:
                    continue
                event = Event(source, drawn[0], clicked, seed)
                for method in METHODS:
                    given = cell, source, seed, method, kind, event
                    KEPT.once((cell.name, cell.clicks, seed, method, kind), lambda given=given: [outcome(*given)])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    preparing = verbs.add_parser("prepare", help="cut chips and make features of every set that is there")
    preparing.add_argument("data", type=Path, help="holds joplin_xbd, xbd_events and harvey_chips")
    preparing.add_argument("cache", type=Path)
    running = verbs.add_parser("run", help="rank what was not ranked yet")
    running.add_argument("cache", type=Path)
    running.add_argument("--kinds", default=KINDS[0], help="how clicks were made, with semicolons between")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.verb == "prepare":
        ranking_sources.prepare_all(options.data, options.cache)
    else:
        run(options.cache, [each.strip() for each in options.kinds.split(";")])


if __name__ == "__main__":
    main()
