"""The comparison of feature sets on the analyst's own clicks: whether it can start, its last result, and what that says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs, wording
from pu_geo.analysis import bakeoff
from pu_geo.analysis.bakeoff import Interval, Verdict
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD
from pu_geo.project import choices, store
from pu_geo.project.layout import RCF, Layout
from pu_geo.records import PUSet
from pu_geo.services.imagery import features
from pu_geo.services.train.training import to_learn_from

RANKER, INCUMBENT = "ranker", RCF
METHODS = (RANKER, DEFAULT_METHOD)  # compared where nobody names others
SLOW = ("ncpu", "pucl")  # offered as well
_CHOICE = "feature_comparison"
_REPEAT = "Mark more damaged buildings yourself on the Annotate page; answers to its queue do not count here."


@dataclass(frozen=True)
class Row:
    """One feature set with one method.

    Attributes:
        place: where a held-out click typically comes among the unlabeled, (0, 1]; the geometric mean, with its interval.
        seconds: of all its fits.
    """

    features: str
    method: str
    place: Interval
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison, as a project keeps it.

    Attributes:
        at: when it was made, RFC 3339 UTC.
        at_event: number of the last label event that was taken into account.
        n_clicks: own clicks that were held out in turn.
        n_others: positives that the queue proposed; every fit learned from them.
        n_unlabeled: among which places are.
        judged_by: the method by which the verdict is.
        verdict: on feature sets, by `judged_by`.
    """

    at: str
    at_event: int
    chip_set: str
    n_clicks: int
    n_others: int
    n_unlabeled: int
    rows: Sequence[Row]
    judged_by: str
    verdict: Verdict
    level: float = bakeoff.LEVEL
    n_folds: int = bakeoff.N_FOLDS
    n_repeats: int = bakeoff.N_REPEATS

    def of(self, features: str, method: str = "") -> Row:
        """Return the row of a feature set, by the method that the verdict is by where none is named."""
        wanted = features, method or self.judged_by
        return next(row for row in self.rows if (row.features, row.method) == wanted)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Comparison:
        """Read what `as_json` gave."""
        rows = [Row(**{**row, "place": Interval(**row["place"])}) for row in facts["rows"]]
        found = facts["verdict"]
        differences = {name: Interval(**each) for name, each in found["differences"].items()}
        return cls(**{**facts, "rows": rows, "verdict": Verdict(found["kind"], found["name"], differences)})

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def own_clicks(pu: PUSet) -> NDArray[np.bool_]:
    """Return which positives the analyst found, bool [N]: not the queue, which proposes what a ranking of some features has on top."""
    return pu.is_positive if pu.is_queued is None else pu.is_positive & ~pu.is_queued


def what_changed(layout: Layout, found: Comparison) -> str:
    """Return what is new since a comparison, one sentence; "" where nothing is. Raises ProjectError if there are no chips."""
    facts, pu = to_learn_from(layout)
    if facts["chip_set"] != found.chip_set:
        return "Chips were cut anew since: compare again."
    if set(features.overview(layout).names) != {row.features for row in found.rows}:
        return "Feature sets were made or removed since: compare again."
    n_now = int(own_clicks(pu).sum())
    if n_now != found.n_clicks:
        return f"There are {n_now} by now: compare again."
    return "" if pu.at_event == found.at_event else "There are new answers since: compare again."


def require(layout: Layout, methods: Sequence[str]) -> None:
    """Check what can be checked of a comparison before there is a job for it.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if there are too few clicks, or a method is unknown or cannot be compared.
    """
    if not methods:
        raise TrainingError("No method was named.", f"Name some of {', '.join((*METHODS, *SLOW))}.", kind="settings")
    _, pu = to_learn_from(layout)
    require_clicks(int(own_clicks(pu).sum()), int(pu.is_positive.sum()), int(pu.is_open.sum()), methods)


def require_clicks(n_own: int, n_positive: int, n_unlabeled: int, methods: Sequence[str]) -> None:
    """Raise TrainingError where there are too few own clicks or unlabeled buildings, or too few clicks are left for a method."""
    if unknown := [method for method in methods if method != RANKER and method not in catalog.METHODS]:
        known = ", ".join((RANKER, *(name for name, card in catalog.METHODS.items() if _can_compare(card))))
        problem = f"There is no method {unknown[0]!r}; features can be compared by {known}."
        raise TrainingError(problem, "Choose some of these.", kind="settings")
    if n_own < bakeoff.LEAST_CLICKS:
        raise TrainingError(
            f"Not enough clicks to compare: it takes {bakeoff.LEAST_CLICKS} of your own; this project has {n_own}.",
            _REPEAT,
            kind="few_labels",
        )
    if n_unlabeled < bakeoff.N_FOLDS:
        raise TrainingError(
            f"A comparison needs {bakeoff.N_FOLDS} buildings not reviewed at least; this project has {n_unlabeled}.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    left = n_positive - -(-n_own // bakeoff.N_FOLDS)
    for method in methods:
        if method == RANKER:
            continue
        card = catalog.card(method)
        if not _can_compare(card):
            raise TrainingError(
                f"Features are not compared by {card.title}: it learns damage types, or needs undamaged buildings.",
                "Leave it out.",
                kind="settings",
            )
        if left < card.min_positives:
            raise TrainingError(
                f"{card.title} needs at least {card.min_positives} damaged buildings; while some clicks are held out there are {left}.",
                "Leave it out, or mark more damaged buildings on the Annotate page.",
                kind="few_labels",
            )


def _can_compare(card: catalog.MethodCard) -> bool:
    return not (card.uses_types or card.min_not_damaged)


def start(layout: Layout, methods: Sequence[str]) -> str:
    """Start the job; return its id. Raises as `require`."""
    require(layout, methods)
    return jobs.start(layout, "compare_features", {"methods": list(methods)})


def keep(layout: Layout, found: Comparison) -> None:
    """Store a result as the project's last one."""
    store.call(layout, choices.put, _CHOICE, found.as_json())


def last(layout: Layout) -> Comparison | None:
    """Return the last result; None before there is one."""
    facts = store.call(layout, choices.get, _CHOICE, None)
    return None if facts is None else Comparison.from_json(facts)


# What it says


def place_words(place: Interval) -> str:
    """Return a typical place with its interval, such as "top 3.1 % (1.2 to 8.0)"."""
    return f"top {_percent(place.mean)} % ({_percent(place.low)} to {_percent(place.high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def verdict_words(found: Comparison) -> str:
    """Return the verdict in one sentence."""
    by = f"{catalog.name_within(found.judged_by)}, {found.n_clicks} clicks, {found.level:.0%} interval"
    if not found.verdict.differences:
        return f"There is one feature set, {INCUMBENT}: nothing to choose between."
    if found.verdict.kind == "few":
        return f"Not enough clicks to choose by: {found.n_clicks} of your own, and it takes {bakeoff.LEAST_TO_PICK}."
    if found.verdict.kind == "same":
        return f"No difference seen, use either ({by})."
    new, old = (_percent(found.of(name).place.mean) for name in (found.verdict.name, INCUMBENT))
    return f"{found.verdict.name} is better than {INCUMBENT}: a held-out click is in the top {new} % instead of the top {old} % ({by})."


def how_made(found: Comparison) -> str:
    """Return what the figures rest on, one sentence."""
    others = f"; {found.n_others} that the queue proposed were learned from and not held out" if found.n_others else ""
    return (
        f"Made {wording.when(found.at)} with {found.n_clicks} clicks of your own, held out in {found.n_folds} parts, "
        f"{found.n_repeats} times, among {found.n_unlabeled:,} buildings not reviewed{others}."
    )


def table(found: Comparison) -> list[dict[str, str]]:
    """Return the rows for people: by method, the best place first."""
    order = {method: at for at, method in enumerate(dict.fromkeys(row.method for row in found.rows))}
    return [
        {
            "features": row.features,
            "method": catalog.title(row.method),
            "a held-out click is typically in the": place_words(row.place),
            "seconds": f"{row.seconds:.1f}",
        }
        for row in sorted(found.rows, key=lambda row: (order[row.method], row.place.mean))
    ]


def proposed(layout: Layout, found: Comparison) -> str:
    """Return the feature set to choose by the verdict; "" where there is nothing to do. Nothing is chosen by itself.

    That is the one that was picked; or the incumbent, where another one is in use that is worse. Of a comparison that is out of
    date nothing is proposed.
    """
    known, name = features.overview(layout), found.verdict.name
    if known.in_use == name or what_changed(layout, found):
        return ""
    in_use = found.verdict.differences.get(known.in_use)
    is_worse = in_use is not None and in_use.low > 0 and found.verdict.kind != "few"
    return name if found.verdict.kind == "better" or is_worse else ""


def in_use_words(layout: Layout) -> str:
    """Return which features are in use, one sentence."""
    return f"In use: {features.overview(layout).in_use}."
