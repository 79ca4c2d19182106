"""Outcomes of `benchmarks.ranking`, and the section of docs/tables.md that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept import Kept, bootstrap, row, table
from benchmarks.ranking_sets import cells

AT_RANDOM, BASE, DEFAULT = "clicks at random", "linear", "default"
ORDER = ("linear", "default", "alone", "G", "H", "NcPU", "PUCL", "supervised")
LOW = 0.05


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


def gains(outcomes: Sequence[Outcome], cell: str, clicks: int, method: str, kind: str = AT_RANDOM) -> NDArray[np.float64]:
    """Subtract the linear ranker's AP from a method's on every draw that both did, float64 [S]."""
    found: dict[str, dict[int, float]] = {BASE: {}, method: {}}
    for each in outcomes:
        if (each.cell, each.clicks, each.kind) == (cell, clicks, kind) and each.method in found:
            found[each.method][each.seed] = each.ap
    return np.array([found[method][seed] - found[BASE][seed] for seed in sorted(found[method]) if seed in found[BASE]])


def tables() -> list[str]:
    """Return the tables of docs/tables.md."""
    found = KEPT.read()
    return [_figures(found), _gains(found), _summary(found), _kinds(found)]


def _methods(outcomes: Sequence[Outcome], kind: str = AT_RANDOM) -> list[str]:
    there = {each.method for each in outcomes if each.kind == kind}
    return [each for each in ORDER if each in there]


def _figures(outcomes: Sequence[Outcome]) -> str:
    """Mean AP / AUC of every ranking in every cell."""
    methods, rows = _methods(outcomes), []
    for cell in cells():
        own = [each for each in outcomes if (each.cell, each.clicks, each.kind) == (cell.name, cell.clicks, AT_RANDOM)]
        base = [each for each in own if each.method == BASE]
        if not base:
            rows.append(row(cell.name, cell.role, cell.clicks, 0, "", "fewer than 20 left", *("" for _ in methods)))
            continue
        found = []
        for method in methods:
            mine = [each for each in own if each.method == method]
            note = f" ({len(mine)} draws)" if len(mine) != len(base) else ""
            means = (np.mean([getattr(each, figure) for each in mine]) for figure in ("ap", "auc"))
            found.append("" if not mine else " / ".join(f"{mean:.3f}" for mean in means) + note)
        n = np.mean([each.n_unlabeled for each in base])
        rows.append(row(cell.name, cell.role, cell.clicks, len(base), f"{n:,.0f}", f"{base[0].n_damaged / n:.1%}", *found))
    return table(" | ".join(("set", "part", "clicks", "draws", "unlabeled", "damaged", *methods)), rows)


def _gains(outcomes: Sequence[Outcome]) -> str:
    """Paired gains in AP over the linear ranker."""
    methods, rows = [each for each in _methods(outcomes) if each != BASE], []
    for cell in cells():
        found = [gains(outcomes, cell.name, cell.clicks, method) for method in methods]
        words = [
            "{:+.3f} [{:+.3f}, {:+.3f}] {:+.3f}".format(own.mean(), *bootstrap(own), own.min()) if len(own) else ""
            for own in found
        ]
        if any(words):
            rows.append(row(cell.name, cell.clicks, *words))
    return table(" | ".join(("set", "clicks", *methods)), rows)


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


def _summary(outcomes: Sequence[Outcome]) -> str:
    """Mean of the gains over cells / the least of any cell (cells)."""
    methods = [each for each in _methods(outcomes) if each != BASE]
    found, rows = [summary(outcomes, method) for method in methods], []
    for name in ("at most 5 %", "20 %", "native share", "every cell"):
        own = (each.get(name) for each in found)
        rows.append(row(name, *("" if each is None else f"{each[0]:+.3f} / {each[1]:+.3f} ({each[2]})" for each in own)))
    return table(" | ".join(("share", *methods)), rows)


def _kinds(outcomes: Sequence[Outcome]) -> str:
    """Where clicks are no even draw of the damage: AP of the linear ranker, and the default's gain on the same draws."""
    kinds, rows = [kind for kind in dict.fromkeys(each.kind for each in outcomes) if kind != AT_RANDOM], []
    for cell in cells():
        words = []
        for kind in kinds:
            found = gains(outcomes, cell.name, cell.clicks, DEFAULT, kind)
            wanted = cell.name, cell.clicks, BASE, kind
            own = [each.ap for each in outcomes if (each.cell, each.clicks, each.method, each.kind) == wanted]
            words.append(f"{np.mean(own):.3f} {found.mean():+.3f}" if len(found) else "")
        if any(words):
            rows.append(row(cell.name, cell.clicks, *words))
    return table(" | ".join(("set", "clicks", *kinds)), rows)
