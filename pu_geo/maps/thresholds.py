"""What people choose of the damage map: run and thresholds, what an audit offers, and what a job on a map is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pu_geo.analysis.estimates import first_threshold
from pu_geo.analysis.scenes import SceneRow as SceneRow
from pu_geo.answers import random_checks
from pu_geo.assessment import auditing
from pu_geo.errors import PuGeoError
from pu_geo.maps import damage_map, damage_types
from pu_geo.maps.damage_map import DamageMap
from pu_geo.methods import catalog
from pu_geo.records import Facts, Floats, RunFacts
from pu_geo.store import chosen, runs, store
from pu_geo.store.chosen import Threshold
from pu_geo.store.layout import Layout


@dataclass(frozen=True)
class Offer:
    """A threshold that an audit offers for a run's map; nothing is changed before a person takes it.

    Attributes:
        threshold: it, with the audit as its origin.
        n_flagged, n_now: buildings that it flags, and that the map flags now.
        words: what each of both costs.
    """

    threshold: Threshold
    n_flagged: int
    n_now: int
    words: str


def offer(shown: DamageMap) -> Offer | None:
    """Return the threshold that flags as many as an audit, of this run or another, says are damaged and not confirmed.

    None without an audit that has ended and found damage, where hardly any is left, and where the map flags just as many.
    """
    found, now = auditing.how_many(shown.layout), shown.limit
    if found.basis != "audit" or found.audit_state not in ("finished", "reduced") or found.total.value is None:
        return None
    scores, left = _open_scores(shown), round(found.total.value) - found.confirmed
    if not len(scores) or left < 1 or not found.n_damaged or found.check_id is None or shown.run is None:
        return None
    limit = Threshold(first_threshold(scores, left), f"{chosen.AUDIT}:{found.check_id}")
    n_now, n_flagged = (int((scores >= one.value).sum()) for one in (now, limit))
    if n_now == n_flagged:
        return None
    check = random_checks.load(shown.layout, found.check_id)
    judged: list[float | None] = [None, None]
    if shown.chip_set == check.chip_set:
        judged = [at.damaged.value for at in auditing.at_by(shown.layout, shown.run.run_id, check, [now.value, limit.value])]
    if None not in judged:  # each is estimated by itself, and the smaller of two sets cannot hold more
        judged[n_flagged < n_now] = min(judged)  # type: ignore[type-var]
    costs = [_costs(damaged, n, left) for damaged, n in zip(judged, (n_now, n_flagged), strict=True)]
    words = (
        f"The accuracy assessment estimates about {left:,} damaged beside the {found.confirmed:,} confirmed. Now "
        f"{costs[0]}. With its threshold {costs[1]}."
    )
    return Offer(limit, n_flagged, n_now, words)


def _costs(damaged: float | None, n: int, left: int) -> str:
    """Return how many of n flagged buildings are right, and how many of `left` damaged ones are missed."""
    if damaged is None:
        return f"{n:,} flagged: these checks cannot tell how many of them are damaged"
    right = min(round(damaged), n)
    return (
        f"{n:,} flagged: about {right:,} of them damaged, {n - right:,} not, and about {max(left - right, 0):,} damaged "
        "missed"
    )


def top(shown: DamageMap, k: int) -> Threshold:
    """Return the threshold that flags the k highest-ranked of the buildings that may be flagged; nothing is stored.

    Where scores are equal it flags the number nearest to k. What people answered is never flagged, whatever its score.

    Raises:
        PuGeoError: if there are not so many buildings, or k is no whole number.
    """
    nothing = "are assessed and have no answer.", "Every building is answered; nothing is left to flag."
    return _top_of(_open_scores(shown), k, *nothing)


def _top_of(scores: Floats, k: int, which: str, else_hint: str) -> Threshold:
    n = len(scores)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        hint = f"Choose a whole number between 1 and {n:,}." if n else else_hint
        raise PuGeoError(f"The top {k} buildings were asked for; {n:,} {which}", hint)
    return Threshold(first_threshold(scores, int(k)), f"{chosen.TOP}:{int(k)}")


def _open_scores(shown: DamageMap) -> Floats:
    """Return the scores of the buildings that a threshold may flag, as written."""
    return shown.population.scores[shown.population.is_open]


def choose_top(layout: Layout, run_id: str, k: int) -> None:
    """Store the threshold that flags the k highest-ranked buildings of this moment. Raises as `top`."""
    chosen.choose_threshold(layout, run_id, *top(damage_map.of_run(layout, run_id), k))


def choose_type_top(shown: DamageMap, name: str, k: int) -> None:
    """Store the threshold that gives a type to the k highest-ranked of the damaged buildings without an answer of it.

    Raises:
        PuGeoError: for a type that the run has not, or where there are not so many buildings.
    """
    if shown.run is None:
        return
    damage_types.require(shown.run, name)
    found = shown.types.types[shown.run.types.index(name)]
    which = f"are damaged on the map and have no answer on {name}."
    limit = _top_of(found.scores[found.is_undecided], k, which, "Lower the threshold of the damage first.")
    damage_types.choose_threshold(shown.layout, shown.run.run_id, name, *limit)


def choose(
    layout: Layout, run: str | None = None, *, threshold: float | None = None, top: int | None = None,
    damage_type: str | None = None,
) -> RunFacts:  # fmt: skip
    """Store which run is shown and exported where none is named, and its threshold or a damage type's; return that run.

    Args:
        run: "auto" takes a person's choice back; None leaves it as it is.
        threshold, top: a score, or how many are flagged or have the type.

    Raises:
        PuGeoError: if both are given, a type is named with neither, or as `top` and `choose_type_top`.
    """
    _one_of_both(threshold, top)
    if damage_type is not None and threshold is None and top is None:
        raise PuGeoError(
            f"The damage type {damage_type!r} was named without a threshold.",
            "Add a score as the threshold, or how many of the damaged have it (top).",
        )
    if run == "auto":
        chosen.choose_automatically(layout)
    is_named = run is not None and run != "auto"
    found = chosen.run(layout, run if run is not None and is_named else "chosen")
    if top is not None and damage_type is not None:
        choose_type_top(damage_map.of_run(layout, found.run_id), damage_type, top)
    elif top is not None:
        choose_top(layout, found.run_id, top)
    elif threshold is not None and damage_type is not None:
        damage_types.choose_threshold(layout, found.run_id, damage_type, threshold)
    elif threshold is not None:
        chosen.choose_threshold(layout, found.run_id, threshold)
    if is_named:  # at last, so that nothing is stored where a number is refused
        chosen.choose_run(layout, found.run_id)
    return found


def wanted_of(origin: str) -> int | None:
    """Return how many buildings a threshold was set to flag; None where it was not set by a number.

    >>> wanted_of("start:88"), wanted_of("person")
    (88, None)
    """
    kind, _, rest = origin.partition(":")
    return int(rest) if kind in (chosen.START, chosen.TOP) and rest.isdecimal() else None


def checked_threshold(value: Any) -> float | None:
    """Return a threshold as a float, None if None; refuse what is no number."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise PuGeoError(
            f"The threshold is {repr(value)[:40]}, which is no number.", "Give a number between 0 and 1, such as 0.5."
        ) from error


def map_arguments(layout: Layout, run_id: str, limit: float | None, k: int | None = None) -> dict[str, object]:
    """Return what every job on a run's map takes.

    Args:
        limit: the threshold; the one chosen for the run if None.
        k: flag the k highest-ranked buildings instead.

    Raises:
        PuGeoError: if both are given, or as `top`.
    """
    _one_of_both(limit, k)
    run_id = chosen.run(layout, run_id).run_id
    found = chosen.threshold(layout, run_id, limit) if k is None else top(damage_map.of_run(layout, run_id), k)
    return {"run_id": run_id, "threshold": found.value, "threshold_origin": found.origin}


def _one_of_both(limit: float | None, k: int | None) -> None:
    """Refuse a threshold and a number to flag together."""
    if limit is not None and k is not None:
        raise PuGeoError(
            f"A threshold of {limit:g} and the top {k} buildings were both asked for.",
            "Give one of the two.",
            kind="threshold",
        )


def which_words(facts: Facts) -> str:
    """Return of which run a map is, at which threshold, who or what set that, and whether it was audited.

    Args:
        facts: "run_id" and "threshold", "method", "threshold_origin", "audit_id".
    """
    method, origin = catalog.title(str(facts["method"])), chosen.origin_words(str(facts["threshold_origin"]))
    audit = f"accuracy assessment {facts['audit_id']}"
    if facts["audit_id"] == chosen.NOT_AUDITED:
        by_audit = str(facts["threshold_origin"]).startswith(f"{chosen.AUDIT}:")
        audit = f"{'which estimates nothing any more: ' if by_audit else ''}{chosen.NOT_AUDITED}"
    return f"Run {facts['run_id']} ({method}), threshold {float(facts['threshold']):.4g} ({origin}), {audit}."


def newer_words(layout: Layout, run_id: str) -> list[str]:
    """Return that a newer run waits to be chosen, in a sentence; nothing where this is the newest."""
    newest = store.call(layout, runs.find, "latest").run_id
    if newest == run_id:
        return []
    return [f"Run {newest} is newer and not shown; `pu-geo choose {layout.folder.name} --run latest` makes it the map."]
