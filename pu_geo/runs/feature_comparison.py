"""Feature sets, or layers left out, compared on the analyst's own clicks: whether it can start, the last result, and what
that says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pu_geo import wording
from pu_geo.analysis import bakeoff
from pu_geo.analysis.bakeoff import Interval
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD
from pu_geo.records import Bools, Facts, PUSet
from pu_geo.runs.training import to_learn_from
from pu_geo.scenes import features
from pu_geo.store import choices, contents, feature_sets, store
from pu_geo.store.layout import RCF, Layout

RANKER = "ranker"
METHODS = (RANKER, DEFAULT_METHOD)  # compared where nobody names others
SLOW = ("ncpu", "pucl")  # offered as well
LEAST = {"features": bakeoff.LEAST_TO_PICK, "layers": 10}
"""What can be compared, and the held-out clicks below which no difference is judged."""


@dataclass(frozen=True)
class Row:
    """One candidate with one method.

    Attributes:
        name: of the feature set, or of the layer that is left out; "" where none is.
        place: where a held-out click typically comes among the unlabeled, (0, 1]; the geometric mean, with its interval.
        difference: of the mean log place from the first candidate's; below 0 this one is better.
    """

    name: str
    method: str
    place: Interval
    difference: Interval


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison, as a project keeps it.

    Attributes:
        of: "features" for sets of them, the first one "rcf"; "layers" for all of them, then all without each one.
        at: when it was made, RFC 3339 UTC.
        at_event: number of the last label event that was taken into account.
        n_clicks: own clicks that were held out in turn.
        n_others: positives that the queue proposed; every fit learned from them.
        n_unlabeled: among which places are.
        judged_by: the method whose differences are judged.
    """

    of: str
    at: str
    at_event: int
    chip_set: str
    n_clicks: int
    n_others: int
    n_unlabeled: int
    judged_by: str
    rows: Sequence[Row]

    @property
    def judged(self) -> list[Row]:
        """The rows that are judged, the first candidate's first."""
        return [row for row in self.rows if row.method == self.judged_by]

    @property
    def is_enough(self) -> bool:
        """Whether there are enough clicks to judge a difference by."""
        return self.n_clicks >= LEAST[self.of]

    @property
    def picked(self) -> str:
        """The candidate that is better than the first one; the first one where none is, or there are too few clicks."""
        first, *others = self.judged
        return (bakeoff.pick({row.name: row.difference for row in others}) if self.is_enough else "") or first.name

    @classmethod
    def from_json(cls, facts: Facts) -> Comparison:
        """Read what `asdict` gave."""
        rows = [
            Row(row["name"], row["method"], Interval(**row["place"]), Interval(**row["difference"])) for row in facts["rows"]
        ]
        return cls(**{**facts, "rows": rows})


def own_clicks(pu: PUSet) -> Bools:
    """Return which positives the analyst found, bool [N]: not the queue, which proposes what a ranking of some features has
    on top.
    """
    return pu.is_positive if pu.is_queued is None else pu.is_positive & ~pu.is_queued


def what_changed(layout: Layout, found: Comparison) -> str:
    """Return what is new since a comparison, one sentence; "" where nothing is. Raises ProjectError if there are no
    chips.
    """
    facts, pu = to_learn_from(layout)
    if facts["chip_set"] != found.chip_set:
        return "Chips were cut anew since: compare again."
    if found.of == "features" and set(features.overview(layout).names) != {row.name for row in found.rows}:
        return "Feature sets were made or removed since: compare again."
    return "" if pu.at_event == found.at_event else "There are new answers since: compare again."


def require(layout: Layout, of: str, methods: Sequence[str]) -> None:
    """Check what can be checked of a comparison before there is a job for it.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if there are too few clicks, a method is unknown or cannot be compared, or there is one layer.
    """
    if not methods:
        raise TrainingError("No method was named.", f"Name some of {', '.join((*METHODS, *SLOW))}.", kind="settings")
    facts, pu = to_learn_from(layout)
    require_clicks(int(own_clicks(pu).sum()), int(pu.is_positive.sum()), int(pu.is_open.sum()), methods)
    layers = feature_sets.usual_layers(contents.views_of(facts))
    if of == "layers" and len(layers) < 2:
        raise TrainingError(
            f"These chips have one layer, {layers[0]}: there is nothing to leave out.",
            "Add a layer on the Imagery page (`pu-geo add-layer`), and cut chips again.",
            kind="layers",
        )


def require_clicks(n_own: int, n_positive: int, n_unlabeled: int, methods: Sequence[str]) -> None:
    """Raise TrainingError where there are too few own clicks or unlabeled buildings, or too few clicks are left for a
    method.
    """
    if unknown := [method for method in methods if method != RANKER and method not in catalog.METHODS]:
        known = ", ".join((RANKER, *(name for name, card in catalog.METHODS.items() if _can_compare(card))))
        problem = f"There is no method {unknown[0]!r}; features can be compared by {known}."
        raise TrainingError(problem, "Choose some of these.", kind="settings")
    if n_own < bakeoff.LEAST_CLICKS:
        raise TrainingError(
            f"Not enough clicks to compare: it takes {bakeoff.LEAST_CLICKS} of your own; this project has {n_own}.",
            "Mark more damaged buildings yourself on the Annotate page; answers to its queue do not count here.",
            kind="few_labels",
        )
    if n_unlabeled < bakeoff.N_FOLDS:
        raise TrainingError(
            f"A comparison needs {bakeoff.N_FOLDS} buildings not reviewed at least; this project has {n_unlabeled}.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    left = n_positive - -(-n_own // bakeoff.N_FOLDS)
    for card in (catalog.card(method) for method in methods if method != RANKER):
        if not _can_compare(card):
            raise TrainingError(
                f"Features are not compared by {card.title}: it learns damage types, or needs undamaged buildings.",
                "Leave it out.",
                kind="settings",
            )
        if left < card.min_positives:
            raise TrainingError(
                f"{card.title} needs at least {card.min_positives} damaged buildings; while some clicks are held out "
                f"there are {left}.",
                "Leave it out, or mark more damaged buildings on the Annotate page.",
                kind="few_labels",
            )


def _can_compare(card: catalog.MethodCard) -> bool:
    return not (card.uses_types or card.min_not_damaged)


def keep(layout: Layout, found: Comparison) -> None:
    """Store a result as the project's last one of its kind."""
    store.call(layout, choices.put, f"compared_{found.of}", asdict(found))


def last(layout: Layout, of: str) -> Comparison | None:
    """Return the last result; None before there is one."""
    facts = store.call(layout, choices.get, f"compared_{of}", None)
    return None if facts is None else Comparison.from_json(facts)


# What it says


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def _title(found: Comparison, row: Row) -> str:
    return row.name if found.of == "features" else f"without {row.name}" if row.name else "all layers"


def verdict_words(found: Comparison) -> list[str]:
    """Return what each candidate is worth beside the first one, a sentence each; one for all where there are too few
    clicks.
    """
    first, *others = found.judged
    if not others:
        return [f"There is one feature set, {first.name}: nothing to choose between."]
    if not found.is_enough:
        return [f"Not enough clicks to judge by: {found.n_clicks} of your own, and it takes {LEAST[found.of]}."]
    by, words = f"{catalog.name_within(found.judged_by)}, {found.n_clicks} clicks, {bakeoff.LEVEL:.0%} interval", []
    for row in others:
        better, worse = (row, first) if row.difference.mean < 0 else (first, row)
        if row.difference.low <= 0 <= row.difference.high:
            words.append(f"No difference found between {_title(found, row)} and {_title(found, first)} ({by}).")
        else:
            words.append(
                f"{_title(found, better)}: a held-out click is typically in the top {_percent(better.place.mean)} %; "
                f"{_title(found, worse)}: in the top {_percent(worse.place.mean)} % ({by})."
            )
    return words


def how_made(found: Comparison) -> str:
    """Return what the figures rest on, one sentence."""
    others = f"; {found.n_others} that the queue proposed were learned from and not held out" if found.n_others else ""
    return (
        f"Made {wording.when(found.at)} with {found.n_clicks} clicks of your own, held out in {bakeoff.N_FOLDS} parts, "
        f"{bakeoff.N_REPEATS} times, among {found.n_unlabeled:,} buildings not reviewed{others}."
    )


def table(found: Comparison) -> list[dict[str, str]]:
    """Return the rows for people: by method, the best place first."""
    order = {method: at for at, method in enumerate(dict.fromkeys(row.method for row in found.rows))}
    return [
        {
            found.of: _title(found, row),
            "method": catalog.title(row.method),
            "a held-out click is typically in the": "top {} % ({} to {})".format(
                *map(_percent, (row.place.mean, row.place.low, row.place.high))
            ),
        }
        for row in sorted(found.rows, key=lambda row: (order[row.method], row.place.mean))
    ]


def proposed(layout: Layout, found: Comparison) -> str:
    """Return the feature set to choose; "" where there is nothing to do. Nothing is chosen by itself.

    That is the one that was picked; or the first one, where another one is in use that is worse. Of a comparison that is out
    of date nothing is proposed, and of layers nothing is chosen.
    """
    in_use = features.overview(layout).in_use
    if found.of != "features" or not found.is_enough or in_use == found.picked or what_changed(layout, found):
        return ""
    is_worse = any(row.name == in_use and row.difference.low > 0 for row in found.judged)
    return found.picked if found.picked != RCF or is_worse else ""
