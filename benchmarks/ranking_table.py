"""Outcomes of `benchmarks.ranking`, and the section of docs/tables.md that is made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.ranking_sets import cells

KEPT = Path(__file__).resolve().parent / "outcomes" / "ranking.jsonl"
AT_RANDOM, BASE, DEFAULT = "clicks at random", "linear", "default"
ORDER = ("linear", "default", "alone", "G", "H", "NcPU", "PUCL", "supervised")
LOW = 0.05
N_DRAWS = 10_000


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

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What is not done again."""
        return self.cell, self.clicks, self.seed, self.method, self.kind


def read_kept(kept: Path = KEPT) -> list[Outcome]:
    """Read what was kept, oldest first; a last line that a kill cut off is taken out of the file."""
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


def gains(outcomes: Sequence[Outcome], cell: str, clicks: int, method: str, kind: str = AT_RANDOM) -> NDArray[np.float64]:
    """Subtract the linear ranker's AP from a method's on every draw that both did, float64 [S]."""
    found: dict[str, dict[int, float]] = {BASE: {}, method: {}}
    for each in outcomes:
        if (each.cell, each.clicks, each.kind) == (cell, clicks, kind) and each.method in found:
            found[each.method][each.seed] = each.ap
    return np.array([found[method][seed] - found[BASE][seed] for seed in sorted(found[method]) if seed in found[BASE]])


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of the mean over draws (bootstrap, 10,000 draws)."""
    some = np.random.default_rng(0).choice(values, (N_DRAWS, len(values)))
    low, high = np.quantile(some.mean(1), (0.025, 0.975))
    return float(low), float(high)


def section(outcomes: Sequence[Outcome] | None = None) -> str:
    """Return the section of docs/tables.md; "" where there are no outcomes."""
    outcomes = read_kept() if outcomes is None else outcomes
    if not outcomes:
        return ""
    return "\n".join(
        [_WORDS, "", *_figures(outcomes), "", *_gains(outcomes), "", *_summary(outcomes), "", *_kinds(outcomes), ""]
    )


def _methods(outcomes: Sequence[Outcome], kind: str = AT_RANDOM) -> list[str]:
    there = {each.method for each in outcomes if each.kind == kind}
    return [each for each in ORDER if each in there]


def _figures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Mean AP / AUC of every ranking in every cell."""
    methods = _methods(outcomes)
    yield from _head("set", "part", "clicks", "draws", "unlabeled", "damaged", *methods)
    for cell in cells():
        own = [each for each in outcomes if (each.cell, each.clicks, each.kind) == (cell.name, cell.clicks, AT_RANDOM)]
        base = [each for each in own if each.method == BASE]
        if not base:
            yield _row(cell.name, cell.role, cell.clicks, 0, "", "fewer than 20 left", *("" for _ in methods))
            continue
        row = []
        for method in methods:
            mine = [each for each in own if each.method == method]
            note = f" ({len(mine)} draws)" if len(mine) != len(base) else ""
            means = (np.mean([getattr(each, figure) for each in mine]) for figure in ("ap", "auc"))
            row.append("" if not mine else " / ".join(f"{mean:.3f}" for mean in means) + note)
        n = np.mean([each.n_unlabeled for each in base])
        yield _row(cell.name, cell.role, cell.clicks, len(base), f"{n:,.0f}", f"{base[0].n_damaged / n:.1%}", *row)


def _gains(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Paired gains in AP over the linear ranker."""
    methods = [each for each in _methods(outcomes) if each != BASE]
    yield "Gain in AP over the linear ranker on the same draws: mean [95 % interval], and the worst draw."
    yield ""
    yield from _head("set", "clicks", *methods)
    for cell in cells():
        row = []
        for method in methods:
            found = gains(outcomes, cell.name, cell.clicks, method)
            if len(found):
                low, high = interval(found)
                row.append(f"{found.mean():+.3f} [{low:+.3f}, {high:+.3f}] {found.min():+.3f}")
            else:
                row.append("")
        if any(row):
            yield _row(cell.name, cell.clicks, *row)


def summary(outcomes: Sequence[Outcome], method: str = DEFAULT) -> dict[str, tuple[float, float, int]]:
    """Return the mean gain over cells, the least mean gain of a cell, and the number of cells, by share of damage."""
    groups: dict[str, list[float]] = {}
    for cell in cells():
        found = gains(outcomes, cell.name, cell.clicks, method)
        if len(found):
            name = (
                "native share"
                if cell.share is None
                else "at most 5 %"
                if cell.share <= LOW
                else f"{cell.share:.0%}".replace("%", " %")
            )
            for each in (name, "every cell"):
                groups.setdefault(each, []).append(float(found.mean()))
    return {name: (float(np.mean(own)), min(own), len(own)) for name, own in groups.items()}


def _summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "Mean of these gains over cells / the least of any cell (cells)."
    yield ""
    methods = [each for each in _methods(outcomes) if each != BASE]
    found = {method: summary(outcomes, method) for method in methods}
    yield from _head("share", *methods)
    for name in ("at most 5 %", "20 %", "native share", "every cell"):
        cells_ = (found[method].get(name) for method in methods)
        yield _row(name, *("" if each is None else f"{each[0]:+.3f} / {each[1]:+.3f} ({each[2]})" for each in cells_))


def _kinds(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Gains where clicks are no even draw of the damage."""
    kinds = [kind for kind in dict.fromkeys(each.kind for each in outcomes) if kind != AT_RANDOM]
    if not kinds:
        return
    yield "Clicks that are no even draw of the damage: AP of the linear ranker, and the default's gain on the same draws."
    yield ""
    yield from _head("set", "clicks", *kinds)
    for cell in cells():
        row = []
        for kind in kinds:
            found = gains(outcomes, cell.name, cell.clicks, DEFAULT, kind)
            own = [
                each.ap for each in outcomes
                if (each.cell, each.clicks, each.method, each.kind) == (cell.name, cell.clicks, BASE, kind)
            ]  # fmt: skip
            row.append(f"{np.mean(own):.3f} {found.mean():+.3f}" if len(found) else "")
        if any(row):
            yield _row(cell.name, cell.clicks, *row)


def _head(*names: str) -> tuple[str, str]:
    return _row(*names), "|" + "---|" * len(names)


def _row(*values: object) -> str:
    return f"| {' | '.join(str(each) for each in values)} |"


_WORDS = """## Is the default ever behind the linear ranker?

AP / AUC on the unlabeled chips, means over draws; a draw chooses chips and clicks. `linear` is the linear ranker of the first version,
frozen in `benchmarks/first_ranker.py`; `alone` is the default without evidence from place; G is the rank mean of the whitened regression
and of the linear ranker averaged over look-alikes, H the same two weighed by the guessed share; NcPU and PUCL are the presets quick;
`supervised` is a regression on the truth of all other chips, on the same features: what these features can do. "chosen on": settings
were chosen while looking at these sets. "confounded": Harvey's undamaged chips are of other dates, so a gain there may be one at telling
dates. "reported on": nothing was chosen there; labels of these floods follow the scene, so one scene is ranked at a time. A cell in
which fewer than 20 damaged buildings would be left is named and empty. Features are made once of all chips of a set. `town` is made up:
20,000 buildings, drawn by `sample_data/make_sample.py --size 9984 9088 --buildings 20000 --seed 11`.

`python -m benchmarks.ranking prepare FOLDER_OF_DATA CACHE`, `python -m benchmarks.ranking run CACHE`"""
