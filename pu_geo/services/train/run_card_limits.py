"""What a run's card says of its limits, in plain words: what a method cannot do, and what its scores do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, words_of
from pu_geo.methods import catalog
from pu_geo.records import RunFacts

FEW_POSITIVES = 30
_FIGURES = ("recall", "share_called", "criterion", "low", "high")
_CANNOT = {
    "ranker": "The instant ranker orders buildings by one straight cut through features that were never trained; it finds what "
    "looks like the clicked buildings, and nothing else.",
    "ensemble": "An average of ranks repeats the mistakes that its runs share, and hides where they differ.",
}
_SCORES = {
    "pu_probability": "A score is a network's own estimate and was not calibrated: read it as a rank, not as a probability.",
    "linear": "A score is a rank, not a probability.",
    "rank": "A score is a place in the order, from 0 to 1, not a probability.",
}


def judgement_words(judged: Mapping[str, Any] | None) -> str:
    """Say in words how a run does on clicks that it did not learn from.

    Args:
        judged: {"n_held_out", "recall", "share_called", "criterion", "low", "high", "threshold"}, or None.
    """
    n = int((judged or {}).get("n_held_out") or 0)
    if judged is None or n < FEWEST_HELD_OUT or any(judged.get(name) is None for name in _FIGURES):
        return (
            f"Not enough to judge: {n} held-out clicks, and it takes {FEWEST_HELD_OUT}. Nothing is known of this run from its "
            "own labels beyond what it was taught."
        )
    return f"{words_of(judged)} Compare it between runs of one project: what guesses gets less than 1."


def limits(facts: RunFacts, *, n_positive: int, has_audit: bool) -> list[str]:
    """Say what a run cannot tell, one sentence or two each.

    Args:
        n_positive: clicks it learned from.
        has_audit: whether random checks judged its map.
    """
    method = catalog.METHODS.get(facts.method)
    cannot = _CANNOT.get(facts.method, "") if method is None else f"{method.title}: {method.cannot}"
    few = (
        f"It learned from {n_positive} positives; with fewer than {FEW_POSITIVES}, other clicks may give another map."
        if facts.from_model is None and n_positive < FEW_POSITIVES
        else ""
    )
    elsewhere = (
        "The model was trained elsewhere and learned nothing from the answers in this project." if facts.from_model else ""
    )
    told = [
        cannot,
        _SCORES.get(facts.score_type, "A score is a rank, not a probability."),
        few,
        elsewhere,
        "It knows damage as it was clicked: a kind of damage that nobody clicked may be missed as a whole.",
        "It sees these scenes alone: what the pictures do not show, or a cloud hides, it does not know.",
        "" if has_audit else "No random checks judged this map: how many damaged buildings it misses is not known.",
        "Preliminary and not validated in the field. Do not decide on single buildings by it.",
    ]
    return [words for words in told if words]
