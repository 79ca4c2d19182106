"""A comparison of two runs in words, and in plain values for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from pu_geo.project.layout import Layout
from pu_geo.services.damage_map.auditing import Estimate
from pu_geo.services.train.comparing import Comparison, Side
from pu_geo.services.train.disagreeing import most_apart

_FACTS = ("run_id", "method", "preset", "seed", "at_event", "n_positive", "seconds", "threshold")


def agreement_words(found: Comparison) -> list[str]:
    """Say in plain sentences how far two runs, called A and B, agree."""
    ranked = found.ranked
    out = f"; {ranked.n_left_out:,} that cannot be assessed are left out" if ranked.n_left_out else ""
    told = [f"Rank correlation (Spearman) {_rho_words(ranked.spearman)}, over {len(ranked.ids):,} common buildings{out}."]
    for top in ranked.tops:
        told.append(
            f"Of the {top.k:,} highest of A, {top.overlap:.0%} are among the {top.k:,} highest of B "
            f"(by chance {top.chance:.0%})."
        )
    return told


def _rho_words(rho: float) -> str:
    if np.isnan(rho):
        return "unknown, since one run gives all buildings the same score"
    kinds = (
        (0.9, "nearly the same order"),
        (0.7, "much the same order"),
        (0.4, "partly the same order"),
        (0.1, "little in common"),
    )
    kind = next((words for low, words in kinds if rho >= low), "nothing in common" if rho > -0.1 else "opposite orders")
    return f"{rho:.2f}: {kind}"


def criterion_words(side: Side) -> str:
    """Write the PU criterion of a run with its interval, or that there is not enough to judge by."""
    known = side.judgement
    if known is None or known.criterion is None or known.recall is None:
        return "not enough to judge"
    return (
        f"{known.criterion:.2f} ({known.low:.2f} to {known.high:.2f}); finds {known.recall:.0%} of {known.n_held_out} clicks "
        f"by calling {known.share_called:.1%} of the unlabeled damaged"
    )


def share_words(figure: Estimate) -> str:
    """Write an estimated share as "62% (48% to 75%)"; its own words where the audit is not enough."""
    if figure.value is None or figure.low is None or figure.high is None:
        return figure.words
    return f"{figure.value:.0%} ({figure.low:.0%} to {figure.high:.0%})"


def as_json(layout: Layout, found: Comparison, n_apart: int = 20) -> dict[str, Any]:
    """Write a comparison in plain values.

    Returns:
        {"runs": two of {facts, "judgement", "audit"}, "n", "n_left_out", "spearman", "tops", "clicks", "check_id",
        "apart": [higher in the first, higher in the second]}
    """
    ranked = found.ranked
    return {
        "runs": [
            {
                **{name: getattr(side.facts, name) for name in _FACTS},
                "judgement": None if side.judgement is None else asdict(side.judgement),
                "audit": None if side.audited is None else asdict(side.audited),
            }
            for side in found.sides
        ],
        "n": len(ranked.ids),
        "n_left_out": ranked.n_left_out,
        "spearman": None if np.isnan(ranked.spearman) else round(ranked.spearman, 4),
        "tops": [asdict(top) for top in ranked.tops],
        "clicks": found.clicks.told(),
        "check_id": None if found.check is None else found.check.id,
        "apart": [[asdict(one) for one in rows] for rows in most_apart(layout, found, n_apart)],
    }
