"""The review queue of odd ones: clicks that may be wrong, chips unlike any other, buildings that are there twice."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pu_geo.analysis import estimates, ranker
from pu_geo.analysis import outliers as formulas
from pu_geo.answers import ranking
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.records import Label, LabelOp
from pu_geo.runs.training import to_learn_from
from pu_geo.store import decisions, labels, runs, store
from pu_geo.store.decisions import Decision
from pu_geo.store.labels import Moment
from pu_geo.store.layout import Layout, read_json

KIND = "reviewed"
Why = Literal["wrong click", "isolated", "duplicate"]
FEWEST, SHARE_OF_CLICKS = 6, 0.2  # so many positives are asked about again at most, or this share of them


@dataclass(frozen=True)
class Suspect:
    """Something odd to review.

    Attributes:
        why: what is odd.
        building_ids: one, or the two of a duplicate.
        words: what speaks for it, one sentence.
        doubt: 0..1 for a wrong click (share of unlabeled chips with a higher score); robust standard deviations for an
            isolated chip; overlap of a duplicate, 0..1.
    """

    why: Why
    building_ids: tuple[str, ...]
    words: str
    doubt: float

    @property
    def key(self) -> str:
        """The name under which its review is stored."""
        digest = hashlib.sha256("\n".join((self.why, *sorted(self.building_ids))).encode()).hexdigest()
        return f"{self.why} {digest[:24]}"


def is_searched(layout: Layout, run_id: str) -> bool:
    """Return whether that job has run."""
    return (layout.run(run_id) / "outliers.json").is_file()


def queue(layout: Layout, run_id: str, *, again: bool = False) -> list[Suspect]:
    """Return what is odd and nobody has reviewed: wrong clicks first, then duplicates, then isolated chips.

    Args:
        again: also what was reviewed.

    Raises:
        ProjectError: if there is no such run.
    """
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
        at, done = labels.moment(db), set(_reviewed(db))
    found = [*_wrong_clicks(layout, facts.chip_set, facts.feature_set, at), *_noted(layout, facts.run_id)]
    return [each for each in found if again or each.key not in done]


@lru_cache(maxsize=4)
def _wrong_clicks(layout: Layout, chip_set: str, feature_set: str, at: Moment) -> tuple[Suspect, ...]:
    """Return the positives that rankers which did not learn from them score low, by the features of the run.

    None while there are too few positives.
    """
    _, pu = to_learn_from(layout, chip_set)
    features = ranker.PreparedFeatures(ranking.plain_features(layout, chip_set, feature_set))
    try:
        share = estimates.elkan_noto_share(features, pu.is_positive, is_excluded=pu.is_excluded, n_folds=3)
        rows, places = formulas.places_held_out(
            features, pu.is_positive, l2=estimates.l2_for_share(share), is_excluded=pu.is_excluded
        )
    except TrainingError:
        return ()
    words = (
        "Labeled damaged; a ranker that learned from the other labels puts {:.0%} of the buildings not reviewed above it."
    )
    n, doubts = max(FEWEST, round(SHARE_OF_CLICKS * len(rows))), 1 - places
    return tuple(
        Suspect("wrong click", (pu.building_ids[int(rows[at])],), words.format(doubts[at]), float(doubts[at]))
        for at in places.argsort(kind="stable")[:n]
        if places[at] < formulas.doubtful_below(share)
    )


def _noted(layout: Layout, run_id: str) -> list[Suspect]:
    path = layout.run(run_id) / "outliers.json"
    found: list[dict[str, Any]] = read_json(path) if path.is_file() else []
    return [Suspect(**{**one, "building_ids": tuple(one["building_ids"])}) for one in found]


def review(layout: Layout, suspect: Suspect, label: Label | None, *, analyst: str) -> None:
    """Store that somebody reviewed it, so that it does not come back, and change the label of its buildings if asked to.

    Args:
        label: what the buildings are; None where their labels are right as they are.

    Raises:
        ProjectError: if a label could not be stored; then it stays in the queue.
    """
    op = secrets.token_hex(16)
    facts: dict[str, Any] = {"why": suspect.why, "building_ids": list(suspect.building_ids), "verdict": label or "confirmed"}
    with store.connect(layout) as db, store.transaction(db):
        if label is not None:
            facts["act"] = act = f"review-{op}"
            ops = [LabelOp(f"{act}-{i}", building, label, act) for i, building in enumerate(suspect.building_ids)]
            ops = labels.keep_details(db, ops)
            wrong = [ack.error for ack in labels.append(db, ops, analyst=analyst, screen="explore") if ack.error]
            if wrong:
                raise ProjectError(f"The label was not stored: {wrong[0]}", "Try again.", kind="label")
        decisions.decide(db, op, KIND, suspect.key, facts, analyst=analyst)


def undo(layout: Layout, *, analyst: str) -> Sequence[str]:
    """Undo the last review of this analyst with the labels that it gave; the labels before count again.

    Returns:
        Its buildings; none if there is no such review.

    Raises:
        ProjectError: if one of its buildings was answered again since.
    """
    with store.connect(layout) as db, store.transaction(db):
        own = [each for each in _reviewed(db).values() if each.analyst == analyst]
        if not own:
            return ()
        facts = own[-1].facts
        if act := facts.get("act"):
            for building in facts["building_ids"]:
                last, who = labels.last_of(db, building)
                if last != act:
                    raise ProjectError(
                        f"{building!r} was answered again since, by {who}: that answer would be lost.",
                        "Label it as you want it to be.", kind="answered",
                    )  # fmt: skip
            labels.undo(db, f"undo-{secrets.token_hex(16)}", analyst=analyst, screen="explore", act=act)
        decisions.decide(db, secrets.token_hex(16), KIND, own[-1].name, None, analyst=analyst)
    return list(facts["building_ids"])


def _reviewed(db: sqlite3.Connection) -> dict[str, Decision]:
    """Return the reviews that stand, by key, oldest first: none whose label was undone elsewhere."""
    found = decisions.standing(db, KIND)
    acts = labels.stands(db, [each.facts["act"] for each in found.values() if "act" in each.facts])
    return {key: each for key, each in found.items() if "act" not in each.facts or each.facts["act"] in acts}
