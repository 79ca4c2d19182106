"""Outcomes of `benchmarks.prevalence`, and the section of docs/tables.md that is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.prevalence_sets import CHOSEN, CLICKS, REPORTED, SETS
from benchmarks.prevalence_variants import OF, VARIANTS

KEPT = Path(__file__).resolve().parent / "outcomes" / "prevalence.jsonl"
RANKER = "ranker"
LOW = 0.05
"""Sets with so little damage, or less, count as low."""
Draw = tuple[str, int, int]


@dataclass(frozen=True)
class Outcome:
    """One method on one draw; figures are of the unlabeled chips themselves.

    Attributes:
        event_set: a name in `SETS`.
        made_with: names the method's settings, see `prevalence.made_with`.
        ap, auc: in [0, 1].
        estimate: share of damaged among the unlabeled that the ranker estimates, 0..1; None for other methods.
        seconds: of processor time, without the features.
    """

    event_set: str
    clicks: int
    seed: int
    method: str
    made_with: str
    n_unlabeled: int
    n_damaged: int
    ap: float
    auc: float
    estimate: float | None
    seconds: float

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What is not done again."""
        return self.event_set, self.clicks, self.seed, self.method, self.made_with

    @property
    def draw(self) -> Draw:
        """What other methods did too: set, clicks, seed."""
        return self.event_set, self.clicks, self.seed


def read_kept(kept: Path = KEPT) -> list[Outcome]:
    """Read the outcomes that were kept, oldest first; a last line that a kill cut off is taken out of the file."""
    if not kept.exists():
        return []
    whole, _, cut_off = kept.read_text(encoding="utf-8").rpartition("\n")
    if cut_off:
        kept.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
    return [Outcome(**json.loads(line)) for line in whole.splitlines()]


def keep(outcome: Outcome, kept: Path) -> None:
    """Add an outcome in one write, so that two commands may fill one file."""
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


class Results:
    """Outcomes of sets that there are, method by method; of a method with several settings those that were kept last."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        newest = {each.method: each.made_with for each in outcomes}
        current = [each for each in outcomes if each.event_set in SETS and newest[each.method] == each.made_with]
        every = sorted({each.method for each in current} - {RANKER}, key=[each.method for each in current].index)
        others = [method for method in every if method not in VARIANTS]
        self.variants = [method for method in VARIANTS if method in every]
        self.by_method: Mapping[str, dict[Draw, Outcome]] = {
            method: {each.draw: each for each in current if each.method == method} for method in (RANKER, *every)
        }
        self.others = others

    def of(self, method: str, name: str, clicks: int) -> list[Outcome]:
        """Return outcomes of a method on a set with some clicks, one a seed."""
        found = self.by_method[method].values()
        return [each for each in found if (each.event_set, each.clicks) == (name, clicks)]

    def gains(self, method: str, names: Sequence[str], clicks: int | None = None, figure: str = "ap") -> NDArray[np.float64]:
        """Subtract the ranker's figure from a method's on every draw of some sets that both did, float64 [N]."""
        own, ranker = self.by_method[method], self.by_method[RANKER]
        draws = [draw for draw in own if draw in ranker and draw[0] in names and clicks in (None, draw[1])]
        return np.array([getattr(own[draw], figure) - getattr(ranker[draw], figure) for draw in draws])

    def gain_on(self, method: str, draws: Sequence[Draw]) -> float:
        """Average a method's gain in AP over the ranker on some draws that both did."""
        own, ranker = self.by_method[method], self.by_method[RANKER]
        return float(np.mean([own[draw].ap - ranker[draw].ap for draw in draws]))

    def gains_by_draw(self, method: str, names: Sequence[str]) -> NDArray[np.float64]:
        """Average gains in AP over the numbers of clicks: one value a set and seed, as these share chips and clicks, float64 [N]."""
        own, ranker = self.by_method[method], self.by_method[RANKER]
        by_draw: dict[tuple[str, int], list[float]] = {}
        for draw in own:
            if draw in ranker and draw[0] in names:
                by_draw.setdefault((draw[0], draw[2]), []).append(own[draw].ap - ranker[draw].ap)
        return np.array([np.mean(each) for each in by_draw.values()])

    def worst(self, method: str, names: Sequence[str]) -> tuple[float, str]:
        """Find where the mean gain in AP over seeds is least: gain, and set and clicks in words; ties go to the first."""
        by_row = {(name, clicks): self.gains(method, [name], clicks) for name in names for clicks in CLICKS}
        means = {f"{name}, {clicks} clicks": float(each.mean()) for (name, clicks), each in by_row.items() if len(each)}
        least = min(means, key=lambda row: means[row])
        return means[least], least


def section(outcomes: Sequence[Outcome] | None = None) -> str:
    """Return the section of docs/tables.md; "" where there are no outcomes."""
    results = Results(read_kept() if outcomes is None else outcomes)
    if not results.by_method[RANKER]:
        return ""
    tables = (_figures(results), _judged(results), _joplin(results), _ablation(results))
    return "\n".join([_HEADING, "", *(line for table in tables for line in (*table, ""))])


def _figures(results: Results) -> Iterator[str]:
    """Mean AP and AUC of every method on every set."""
    yield from (_WORDS, "")
    yield from _head("set", "half", "clicks", "seeds", "unlabeled", "damaged", RANKER, *results.others)
    for name, one in SETS.items():
        for clicks in CLICKS:
            by_method = {method: results.of(method, name, clicks) for method in (RANKER, *results.others)}
            if not (ranker := by_method[RANKER]):
                continue
            unlabeled = np.mean([each.n_unlabeled for each in ranker])
            damaged = np.mean([each.n_damaged for each in ranker])
            cells = (_cell(each, len(ranker)) for each in by_method.values())
            yield _row(name, one.half, clicks, len(ranker), f"{unlabeled:,.0f}", f"{damaged / unlabeled:.1%}", *cells)


def _judged(results: Results) -> Iterator[str]:
    """Gains in AP over the ranker where little is damaged, per half, and the worst loss on any set."""
    yield from (_JUDGED_WORDS, "")
    yield from _head("half", "sets", "method", "pairs", "gain in AP", "p (Wilcoxon)", "p (t)", "least mean gain anywhere")
    for half in (CHOSEN, REPORTED):
        every = [name for name, one in SETS.items() if one.half == half]
        harvey = [name for name in every if name.startswith("Harvey")]
        kinds = {words: (_low(names), names) for words, names in (("all", every), ("Harvey alone", harvey))}
        for words, (names, own) in kinds.items():
            for method in results.others:
                gains = results.gains_by_draw(method, names)
                if len(gains):
                    worst, where = results.worst(method, own)
                    p = (_p(stats.wilcoxon, gains), _p(stats.ttest_1samp, gains, 0.0))
                    yield _row(half, words, method, len(gains), f"{gains.mean():+.3f}", *p, f"{worst:+.3f} ({where})")


def _low(names: Sequence[str]) -> list[str]:
    return [name for name in names if (share := SETS[name].share) is not None and share <= LOW]


def _joplin(results: Results) -> Iterator[str]:
    """AUC on Joplin as it is, beside the ranker's on the same draws."""
    yield from (_JOPLIN_WORDS, "")
    yield from _head("set", "half", "clicks", "method", "pairs", "AUC", "gain in AUC", "p (Wilcoxon)", "gain in AP")
    for name, one in SETS.items():
        if not name.startswith("Joplin") or one.share is not None:
            continue
        for clicks in CLICKS:
            for method in results.others:
                gains = results.gains(method, [name], clicks, "auc")
                if len(gains):
                    auc = np.mean([each.auc for each in results.of(method, name, clicks)])
                    ap = results.gains(method, [name], clicks).mean()
                    p = _p(stats.wilcoxon, gains)
                    yield _row(
                        name, one.half, clicks, method, len(gains), f"{auc:.3f}", f"{gains.mean():+.3f}", p, f"{ap:+.3f}"
                    )


def _ablation(results: Results) -> Iterator[str]:
    """Gains in AP of the default and of its variants, on the draws of the half it was chosen on that all of them did."""
    if not results.variants:
        return
    yield from (_ABLATION_WORDS, "")
    every = [method for method in (OF, *results.variants) if method in results.by_method]
    shared = set.intersection(*(set(results.by_method[method]) for method in (RANKER, *every)))
    names = [name for name, one in SETS.items() if one.half == CHOSEN and any(draw[0] == name for draw in shared)]
    yield from _head("set", "draws", *(method.removeprefix(f"{OF}, ") for method in every))
    for name in names:
        draws = [draw for draw in shared if draw[0] == name]
        yield _row(name, len(draws), *(f"{results.gain_on(method, draws):+.3f}" for method in every))


def _p(test: Callable[..., Any], gains: NDArray[np.float64], *arguments: float) -> str:
    """Write the p of a paired test of no gain; "" where too little differs to ask."""
    if np.unique(gains).size < 2:
        return ""
    p = float(test(gains, *arguments).pvalue)
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _cell(outcomes: Sequence[Outcome], usual: int) -> str:
    if not outcomes:
        return ""
    ap, auc = (np.mean([getattr(each, figure) for each in outcomes]) for figure in ("ap", "auc"))
    return f"{ap:.3f} / {auc:.3f}" + (f" ({len(outcomes)} seeds)" if len(outcomes) != usual else "")


def _head(*names: str) -> tuple[str, str]:
    return _row(*names), "|" + "---|" * len(names)


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


_HEADING = "## One default for both ends of prevalence"
_WORDS = """Methods (preset quick) and the instant ranker on the unlabeled chips themselves, of which 0.5 % to 70 % are damaged; all chips are
learned from. A seed draws chips and clicks. The default was chosen while looking at the sets "chosen on" alone; outcomes are kept
by settings, not by code: take out a method's lines after changing it. The halves are not wholly apart on Joplin: "0+1" holds scene
0 too, and the thinned sets hold scene 1. Presets of older methods were chosen on all of Joplin and Harvey. Harvey: region A, west
and east of the undamaged chips' median longitude; every place gives either undamaged or damaged chips, and so many of the damaged
are kept that they are the share named among the unlabeled. Joplin: major damage and destroyed, as they are or thinned. FMNIST: one
class among 2,000 others. Sample: the made-up event. Cells are AP / AUC, means over seeds; "seeds" are the ranker's, and a cell with
fewer or more says so.

`python -m benchmarks.prevalence FOLDER_OF_DATA`"""
_JUDGED_WORDS = """Gain in AP over the ranker on the same draws, where at most 5 % are damaged; mean and p (no gain).
A pair is one set and seed, averaged over 10 and 30 clicks. Draws of an event share chips, so p speaks of other draws of these events,
not of other events. The last column is of sets with much damage too: where the mean gain over seeds is least."""
_ABLATION_WORDS = """What helped: gains in AP over the ranker with one part taken out or changed, on sets that the default was chosen on, means over
10 and 30 clicks and seeds (`--ablation`)."""
_JOPLIN_WORDS = """Joplin, where most is damaged: AUC, and gains over the ranker on the same draws."""
