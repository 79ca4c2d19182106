"""All layers, and all without each one, compared on the analyst's own clicks: whether it can start, the last result, and
what that says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pu_geo import wording
from pu_geo.analysis import bakeoff
from pu_geo.analysis.bakeoff import Interval
from pu_geo.errors import TrainingError
from pu_geo.records import Bools, Facts, PUSet
from pu_geo.runs.training import to_learn_from
from pu_geo.store import choices, contents, feature_sets, store
from pu_geo.store.layout import Layout

LEAST_CLICKS, LEAST_TO_JUDGE = 8, 10
"""Own clicks below which nothing is compared, and below which no difference is judged."""
_KEPT = "compared_layers"


@dataclass(frozen=True)
class Row:
    """All layers, or all without one.

    Attributes:
        name: of the layer that is left out; "" where none is.
        place: where a held-out click typically comes among the unlabeled, (0, 1]; the geometric mean, with its interval.
        difference: of the mean log place from that with all layers; below 0 this one is better.
    """

    name: str
    place: Interval
    difference: Interval


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison, as a project keeps it.

    Attributes:
        at: when it was made, RFC 3339 UTC.
        at_event: number of the last label event that was taken into account.
        n_clicks: own clicks that were held out in turn.
        n_others: positives that the queue proposed; every fit learned from them.
        n_unlabeled: among which places are.
        rows: all layers first.
    """

    at: str
    at_event: int
    chip_set: str
    n_clicks: int
    n_others: int
    n_unlabeled: int
    rows: Sequence[Row]

    @classmethod
    def from_json(cls, facts: Facts) -> Comparison:
        """Read what `asdict` gave."""
        rows = [Row(row["name"], Interval(**row["place"]), Interval(**row["difference"])) for row in facts["rows"]]
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
    return "" if pu.at_event == found.at_event else "There are new answers since: compare again."


def require(layout: Layout) -> None:
    """Check what can be checked of a comparison before there is a job for it.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if there are too few clicks, or there is one layer.
    """
    facts, pu = to_learn_from(layout)
    require_clicks(int(own_clicks(pu).sum()), int(pu.is_open.sum()))
    layers = feature_sets.usual_layers(contents.views_of(facts))
    if len(layers) < 2:
        raise TrainingError(
            f"These chips have one layer, {layers[0]}: there is nothing to leave out.",
            "Add a layer on the Imagery page (`pu-geo add-layer`), and cut chips again.",
            kind="layers",
        )


def require_clicks(n_own: int, n_unlabeled: int) -> None:
    """Raise TrainingError where there are too few own clicks or unlabeled buildings."""
    if n_own < LEAST_CLICKS:
        raise TrainingError(
            f"Not enough clicks to compare: it takes {LEAST_CLICKS} of your own; this project has {n_own}.",
            "Mark more damaged buildings yourself on the Annotate page; answers to its queue do not count here.",
            kind="few_labels",
        )
    if n_unlabeled < bakeoff.N_FOLDS:
        raise TrainingError(
            f"A comparison needs {bakeoff.N_FOLDS} buildings not reviewed at least; this project has {n_unlabeled}.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )


def keep(layout: Layout, found: Comparison) -> None:
    """Store a result as the project's last one."""
    store.call(layout, choices.put, _KEPT, asdict(found))


def last(layout: Layout) -> Comparison | None:
    """Return the last result; None before there is one."""
    facts = store.call(layout, choices.get, _KEPT, None)
    return None if facts is None else Comparison.from_json(facts)


# What it says


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def _title(row: Row) -> str:
    return f"without {row.name}" if row.name else "all layers"


def verdict_words(found: Comparison) -> list[str]:
    """Return what each layer is worth, a sentence each; one for all where there are too few clicks."""
    first, *others = found.rows
    if found.n_clicks < LEAST_TO_JUDGE:
        return [f"Not enough clicks to judge by: {found.n_clicks} of your own, and it takes {LEAST_TO_JUDGE}."]
    by, words = f"{found.n_clicks} clicks, {bakeoff.LEVEL:.0%} interval", []
    for row in others:
        better, worse = (row, first) if row.difference.mean < 0 else (first, row)
        if row.difference.low <= 0 <= row.difference.high:
            words.append(f"No difference found between {_title(row)} and {_title(first)} ({by}).")
        else:
            words.append(
                f"{_title(better)}: a held-out click is typically in the top {_percent(better.place.mean)} %; "
                f"{_title(worse)}: in the top {_percent(worse.place.mean)} % ({by})."
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
    """Return the rows for people, the best place first."""
    return [
        {
            "layers": _title(row),
            "a held-out click is typically in the": "top {} % ({} to {})".format(
                *map(_percent, (row.place.mean, row.place.low, row.place.high))
            ),
        }
        for row in sorted(found.rows, key=lambda row: row.place.mean)
    ]
