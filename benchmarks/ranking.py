"""Is the default ever behind the linear ranker? Rankings on events of which the damage is known.

`python -m benchmarks.ranking prepare FOLDER_OF_DATA CACHE` cuts chips and makes features once, `python -m benchmarks.ranking run CACHE`
adds to benchmarks/outcomes/ranking.jsonl what is not there yet, `python -m benchmarks.ranking write` writes the long tables to
benchmarks/results/ranking.md, and `python -m benchmarks.tables` the short ones to docs/tables.md.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import ranking_sources
from benchmarks.kept import Kept, ahead, bootstrap, row, table
from benchmarks.ranking_sets import CHOSEN, CONFOUNDED, N_SEEDS, REPORTED, Cell, Source, cells, read_source
from pu_geo.analysis import estimates, metrics, ranker, two_readings
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.methods import catalog
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.fitting import Fitted, fit_and_score
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

RESULT = Path(__file__).parent / "results" / "ranking.md"
BASE, DEFAULT, LEAST_DRAWS = "linear", "default", 5
HEAD = """# Is the default ever behind the linear ranker?

Made by `python -m benchmarks.ranking`; what sets and columns are stands in docs/tables.md. Ten draws, five of NcPU and PUCL. AP / AUC of
the buildings that were not clicked; gain in AP over the linear ranker on the same draws [95 % interval], and the worst draw:
"""
HONEST = """
How clicks were made: AP from the linear ranker's on the same draws to the method's, and the paired gain (95 % interval). *one block*: the damaged nearest to one of them.
*clicks in other scenes*: AP on a scene without clicks; beside it the same buildings by clicks from everywhere. *labels shuffled*: truth
and clicks are dealt out anew; AP must be the share of damage, and *placebo*, AP less that of a guess, 0.
"""
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Outcome:
    """One ranking of one draw; figures are of the unlabeled chips.

    Attributes:
        cell: name of the cell.
        kind: how the clicks were made.
        ap, auc: in [0, 1].
        seconds: of processor time, without the features.
    """

    cell: str
    clicks: int
    seed: int
    method: str
    kind: str
    n_unlabeled: int
    n_damaged: int
    ap: float
    auc: float
    seconds: float


KEPT = Kept("ranking", Outcome, "cell clicks seed method kind")


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
    """One draw of a cell: chips, clicks, and what is to be found.

    Attributes:
        views: float16 [V, N, D].
        is_positive, is_damaged: bool [N].
        is_judged: bool [N], the chips that figures are of.
        xy_m: float64 [N, 2].
    """

    def __init__(
        self, source: Source, rows: NDArray[np.int64], is_positive: Bools, seed: int, *, is_damaged: Bools | None = None,
        is_judged: Bools | None = None,
    ) -> None:  # fmt: skip
        self.views = np.ascontiguousarray(source.views[:, rows])
        self.is_positive, self.seed, self.xy_m = is_positive, seed, source.xy_m[rows]
        self.is_damaged = source.is_damaged[rows] if is_damaged is None else is_damaged
        self.is_judged = ~is_positive if is_judged is None else is_judged

    def whitened(self) -> Floats:
        """Return features in the whitened space, float [N, D]."""
        plain, roots = two_readings.plain_and_roots(self.views, slice(None))
        return two_readings.Space.of(plain, roots, PropagationSettings().whitening).white(roots)


def _linear(event: Event) -> Floats:
    return estimates.rank_with_estimate(ranker.prepare(event.views[0]), event.is_positive)[0]


def _supervised(event: Event) -> Floats:
    """Score each chip by a regression on the truth of four fifths of all others, whitened features: what the features can do."""
    white, n = event.whitened(), len(event.is_damaged)
    fold, scores = np.random.default_rng([event.seed, 7]).permutation(n) % 5, np.zeros(n)
    for part in range(5):
        slope, _, _ = fit_logistic(white[some := (fold != part) | event.is_positive], event.is_damaged[some], 0.5)
        scores[fold == part] = white[fold == part] @ slope
    return scores


METHODS: Mapping[str, Callable[[Event], Floats]] = {
    "linear": _linear,
    "default": of_method("propagation"),
    "alone": of_method("propagation", neighbors="off"),
    "supervised": _supervised,
    "NcPU": of_method("ncpu"),
    "PUCL": of_method("pucl"),
}
"""Column of the table -> ranking. `alone` is the default without evidence from place."""
COMPARED = ("linear", "default", "NcPU", "PUCL")  # where clicks are no even draw of the damage

AT_RANDOM, BLOCK, ELSEWHERE, SHUFFLED = "clicks at random", "one block", "clicks in other scenes", "labels shuffled"
KINDS = (AT_RANDOM, "2 of 10 clicks wrong", "clearest third", BLOCK, "destroyed alone", ELSEWHERE, SHUFFLED)
HERE = "clicks at random, on that scene"
LEAST_OF_A_KIND = 10  # damaged and intact buildings of a scene whose ranking is judged by itself


def clicks_of(kind: str, source: Source, rows: NDArray[np.int64], is_positive: Bools, seed: int) -> Bools | None:
    """Return which chips are clicked, bool [M], where clicks are no even draw of the damage; None where there are too few.

    wrong: every fifth click is of an undamaged building. clearest third: of the third of the damaged that the supervised ranking
    puts first. one block: the damaged nearest to one of them. destroyed alone: no major damage is clicked.
    """
    if kind == AT_RANDOM:
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
    elif kind == BLOCK:
        places = source.xy_m[rows[damaged]]
        far = np.linalg.norm(places - places[rng.integers(len(damaged))], axis=1)
        chosen = damaged[np.argsort(far)[:n]]
    else:
        worst = damaged[:0] if source.damage is None else damaged[source.damage[rows[damaged]] == "destroyed"]
        if len(worst) < n:
            return None
        chosen = rng.choice(worst, n, replace=False)
    return np.isin(np.arange(len(rows)), chosen)


def chance_ap(n: int, n_damaged: int) -> float:
    """Return the mean AP of a guess: the share of the damaged, and a little more where few are ranked."""
    harmonic = float((1 / np.arange(1, n + 1)).sum())
    return (harmonic + (n_damaged - 1) / (n - 1) * (n - harmonic)) / n


def events_of(kind: str, source: Source, rows: NDArray[np.int64], is_positive: Bools, seed: int) -> dict[str, Event]:
    """Return what is ranked, by the name it is kept under; nothing where that cannot be drawn.

    clicks in other scenes: a scene is drawn whose buildings alone are judged, once by clicks in all others, once by those at
    random, which count on the same buildings. labels shuffled: truth, and clicks with it, are dealt out anew.
    """
    rng, truth = np.random.default_rng([seed, 12]), source.is_damaged[rows]
    if kind == SHUFFLED:
        order = rng.permutation(len(rows))
        return {kind: Event(source, rows, is_positive[order], seed, is_damaged=truth[order])}
    if kind != ELSEWHERE:
        clicked = clicks_of(kind, source, rows, is_positive, seed)
        return {} if clicked is None else {kind: Event(source, rows, clicked, seed)}
    scene, n = source.scene[rows], int(is_positive.sum())
    for one in rng.permutation(np.unique(scene)):
        judged = (scene == one) & ~is_positive
        others, n_damaged = np.flatnonzero((scene != one) & truth), int(truth[judged].sum())
        if len(others) >= n and min(n_damaged, judged.sum() - n_damaged) >= LEAST_OF_A_KIND:
            clicked = np.isin(np.arange(len(rows)), rng.choice(others, n, replace=False))
            both = {HERE: is_positive, kind: clicked}
            return {name: Event(source, rows, own, seed, is_judged=judged) for name, own in both.items()}
    return {}


def outcome(cell: Cell, seed: int, method: str, kind: str, drawn: Event) -> list[Outcome]:
    """Rank one draw."""
    began = time.process_time()
    scores = METHODS[method](drawn)
    seconds = round(time.process_time() - began, 2)
    own, truth = np.asarray(scores)[drawn.is_judged], drawn.is_damaged[drawn.is_judged]
    ap, auc = (round(figure(own, truth), 5) for figure in (metrics.average_precision, metrics.auc))
    return [Outcome(cell.name, cell.clicks, seed, method, kind, len(truth), int(truth.sum()), ap, auc, seconds)]


def run(cache: Path, kinds: Sequence[str], methods: Sequence[str], names: Sequence[str], n_seeds: int) -> None:
    """Do what is not kept yet, one draw at a time."""
    wanted = [cell for cell in cells() if not names or cell.name in names]
    for name in dict.fromkeys(cell.source for cell in wanted if (cache / f"{cell.source}.npz").exists()):
        source = read_source(cache, name)
        for cell, seed in itertools.product((cell for cell in wanted if cell.source == name), range(n_seeds)):
            if (drawn := cell.draw(source, seed)) is None:
                continue
            for kind, method in itertools.product(kinds, methods):
                for title, event in events_of(kind, source, *drawn, seed).items():
                    key = cell.name, cell.clicks, seed, method, title
                    KEPT.once(key, partial(outcome, cell, seed, method, title, event))


def of_draws(outcomes: Sequence[Outcome], cell: Cell, method: str, kind: str) -> dict[int, float]:
    """Return AP by the seed of the draw."""
    wanted = cell.name, cell.clicks, method, kind
    return {each.seed: each.ap for each in outcomes if (each.cell, each.clicks, each.method, each.kind) == wanted}


def gains(outcomes: Sequence[Outcome], cell: Cell, method: str, kind: str = AT_RANDOM) -> NDArray[np.float64]:
    """Subtract the linear ranker's AP from a method's on every draw that both did, float64 [S]."""
    base, own = (of_draws(outcomes, cell, each, kind) for each in (BASE, method))
    return np.array([own[seed] - base[seed] for seed in sorted(own) if seed in base])


def tables() -> list[str]:
    """Return the tables of docs/tables.md: what the long ones say, over cells."""
    found = KEPT.read()
    return [_summary(found), _honest(found)]


def write() -> None:
    """Write the long tables."""
    found = KEPT.read()
    parts = [HEAD, _figures(found), HONEST, *_honest_by_cell(found)]
    RESULT.write_text("\n".join(parts), encoding="utf-8")


def _methods(outcomes: Sequence[Outcome]) -> list[str]:
    there = {each.method for each in outcomes if each.kind == AT_RANDOM}
    return [each for each in METHODS if each in there]


def _figures(outcomes: Sequence[Outcome]) -> str:
    """Mean AP / AUC of every ranking in every cell, and paired gains in AP over the linear ranker."""
    methods, rows = _methods(outcomes), []
    for cell in cells():
        own = [each for each in outcomes if (each.cell, each.clicks, each.kind) == (cell.name, cell.clicks, AT_RANDOM)]
        words = list[str]()
        for method in methods:
            means = [(each.ap, each.auc) for each in own if each.method == method]
            words.append(" / ".join(f"{mean:.3f}" for mean in np.mean(means, axis=0)) if means else "")
            if method != BASE and len(gain := gains(outcomes, cell, method)):
                words[-1] += ", {:+.3f} [{:+.3f}, {:+.3f}] {:+.3f}".format(gain.mean(), *bootstrap(gain), gain.min())
        if own:
            n = np.mean([each.n_unlabeled for each in own])
            rows.append(row(cell.name, cell.role, cell.clicks, f"{n:,.0f}", f"{own[0].n_damaged / n:.1%}", *words))
    return table(" | ".join(("set", "part", "clicks", "unlabeled", "damaged", *methods)), rows)


def summary(outcomes: Sequence[Outcome], method: str = DEFAULT) -> dict[str, tuple[float, float, int]]:
    """Return the mean gain over cells, the least mean gain of a cell, and the number of cells, by share of damage."""
    groups: dict[str, list[float]] = {}
    for cell in cells():
        found = gains(outcomes, cell, method)
        if len(found):
            name = {None: "native share", 0.2: "20 %"}.get(cell.share, "at most 5 %")
            for each in (name, "every cell"):
                groups.setdefault(each, []).append(float(found.mean()))
    return {name: (float(np.mean(own)), min(own), len(own)) for name, own in groups.items()}


def _summary(outcomes: Sequence[Outcome]) -> str:
    """Mean of the gains over cells / the least of any cell (cells)."""
    methods = [each for each in _methods(outcomes) if each != BASE]
    found, rows = [summary(outcomes, method) for method in methods], []
    for name in ("at most 5 %", "20 %", "native share", "every cell"):
        own = (each.get(name) for each in found)
        rows.append(row(name, *("" if each is None else f"{each[0]:+.3f} / {each[1]:+.3f} ({each[2]})" for each in own)))
    return table(" | ".join(("share", *methods)), rows)


def _honest_by_cell(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Mean AP of every compared ranking by how clicks were made, and its gain over the linear one."""
    kinds = (*KINDS[:-2], HERE, *KINDS[-2:])
    for cell in cells():
        rows = []
        for method in COMPARED:
            words = []
            for kind in kinds:
                words.append(_beside(outcomes, [cell], method, kind))
            if any(words[1:]):
                placebo = placebos(outcomes, [cell], method)
                rows.append(row(method, *words, ahead(placebo) if placebo else ""))
        if rows:
            yield table(" | ".join((f"{cell.name}, {cell.clicks} clicks", *kinds, "placebo")), rows)


def placebos(outcomes: Sequence[Outcome], some: Sequence[Cell], method: str) -> list[float]:
    """Return AP less that of a guess, of each draw with shuffled labels."""
    names = {(cell.name, cell.clicks) for cell in some}
    own = [each for each in outcomes if (each.method, each.kind) == (method, SHUFFLED) and (each.cell, each.clicks) in names]
    return [each.ap - chance_ap(each.n_unlabeled, each.n_damaged) for each in own]


def _beside(outcomes: Sequence[Outcome], some: Sequence[Cell], method: str, kind: str) -> str:
    """Mean AP over cells, with the linear ranker's on the same draws before it, the paired gain, and the number of cells."""
    own = {cell: of_draws(outcomes, cell, method, kind) for cell in some}
    own = {cell: drawn for cell, drawn in own.items() if drawn}
    base = {cell: of_draws(outcomes, cell, BASE, kind) for cell in own}
    if not own or method == BASE:
        return f"{np.mean([np.mean(list(drawn.values())) for drawn in own.values()]):.3f}" if own else ""
    ap, before = (
        np.mean([np.mean([drawn[seed] for seed in own[cell] if seed in base[cell]]) for cell, drawn in each.items()])
        for each in (own, base)
    )
    gain = np.concatenate([gains(outcomes, cell, method, kind) for cell in own]).tolist()
    return f"{before:.3f} to {ap:.3f}, {ahead(gain)}" + (f" ({len(own)})" if len(some) > 1 else "")


def _honest(outcomes: Sequence[Outcome]) -> str:
    """Gains over the linear ranker by how clicks were made, over the draws of all cells; and what a placebo gives."""
    roles, rows = {"chosen on": (CHOSEN,), "reported on": (REPORTED, CONFOUNDED)}, list[str]()
    n_draws = {cell: min(len(of_draws(outcomes, cell, each, SHUFFLED)) for each in COMPARED) for cell in cells()}
    for title, own in roles.items():
        some = [cell for cell in cells() if cell.role in own and n_draws[cell] >= LEAST_DRAWS]
        for method in COMPARED if some else ():
            found = [_beside(outcomes, some, method, kind) for kind in (AT_RANDOM, BLOCK, HERE, ELSEWHERE)]
            rows.append(row(title, method, len(some), *found, ahead(placebos(outcomes, some, method))))
    return table(" | ".join(("sets", "ranking", "cells", AT_RANDOM, BLOCK, HERE, ELSEWHERE, "placebo")), rows)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    preparing = verbs.add_parser("prepare", help="cut chips and make features of every set that is there")
    preparing.add_argument("data", type=Path, help="holds joplin_xbd, xbd_events and harvey_chips")
    preparing.add_argument("cache", type=Path)
    running = verbs.add_parser("run", help="rank what was not ranked yet")
    running.add_argument("cache", type=Path)
    running.add_argument("--kinds", default=AT_RANDOM, help="how clicks were made, with semicolons between")
    running.add_argument("--methods", default=";".join(METHODS), help="with semicolons between, as are cells")
    running.add_argument("--cells", default="", help="all if left out")
    running.add_argument("--seeds", type=int, default=N_SEEDS)
    verbs.add_parser("write", help="write the long tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.verb == "prepare":
        ranking_sources.prepare_all(options.data, options.cache)
    elif options.verb == "write":
        write()
    else:
        kinds, methods, names = (
            given.split(";") if given else [] for given in (options.kinds, options.methods, options.cells)
        )
        run(options.cache, kinds, methods, names, options.seeds)


if __name__ == "__main__":
    main()
