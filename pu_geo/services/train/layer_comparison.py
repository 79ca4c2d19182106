"""What each layer adds, by the analyst's own clicks: whether it can be asked, the last answer, and what that says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pu_geo import jobs, wording
from pu_geo.analysis import bakeoff
from pu_geo.analysis.bakeoff import Interval
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD
from pu_geo.project import choices, contents, feature_sets, store
from pu_geo.project.layout import Layout
from pu_geo.services.train import feature_comparison
from pu_geo.services.train.training import to_learn_from

METHODS = (DEFAULT_METHOD,)  # asked where nobody names others
LEAST_TO_JUDGE = 10  # with fewer held-out clicks no difference is judged
_CHOICE = "layer_comparison"


@dataclass(frozen=True)
class LayerRow:
    """One layer with one method.

    Attributes:
        layer: its name, such as "sar-post" or "pre+post".
        ap, ap_without: average precision of held-out clicks with all layers, and with all but this one, 0..1.
        gain: the first minus the second, with its interval over clicks.
    """

    layer: str
    method: str
    ap: float
    ap_without: float
    gain: Interval


@dataclass(frozen=True)
class LayerComparison:
    """What each layer adds to the others, as a project keeps it.

    Attributes:
        at: when it was made, RFC 3339 UTC.
        at_event: number of the last label event that was taken into account.
        features: the set of all layers.
        n_clicks, n_others, n_unlabeled: see `feature_comparison.Comparison`.
        n_lacking: layer -> buildings without data in it.
    """

    at: str
    at_event: int
    chip_set: str
    features: str
    n_clicks: int
    n_others: int
    n_unlabeled: int
    rows: Sequence[LayerRow]
    n_lacking: Mapping[str, int] = field(default_factory=dict)
    level: float = bakeoff.LEVEL
    n_folds: int = bakeoff.N_FOLDS
    n_repeats: int = bakeoff.N_REPEATS

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LayerComparison:
        """Read what `as_json` gave."""
        return cls(**{**facts, "rows": [LayerRow(**{**row, "gain": Interval(**row["gain"])}) for row in facts["rows"]]})

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def require(layout: Layout, methods: Sequence[str]) -> None:
    """Check what can be checked before there is a job.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if the chips have fewer than two layers, there are too few clicks, or a method cannot be compared.
    """
    feature_comparison.require(layout, methods)
    facts, _ = to_learn_from(layout)
    layers = feature_sets.usual_layers(contents.views_of(facts))
    if len(layers) < 2:
        raise TrainingError(
            f"These chips have one layer, {layers[0]}: there is nothing to leave out.",
            "Add a layer on the Imagery page (`pu-geo add-layer`), and cut chips again.",
            kind="layers",
        )


def start(layout: Layout, methods: Sequence[str]) -> str:
    """Start the job; return its id. Raises as `require`."""
    require(layout, methods)
    return jobs.start(layout, "compare_layers", {"methods": list(methods)})


def keep(layout: Layout, found: LayerComparison) -> None:
    """Store a result as the project's last one."""
    store.call(layout, choices.put, _CHOICE, found.as_json())


def last(layout: Layout) -> LayerComparison | None:
    """Return the last result; None before there is one."""
    facts = store.call(layout, choices.get, _CHOICE, None)
    return None if facts is None else LayerComparison.from_json(facts)


def what_changed(layout: Layout, found: LayerComparison) -> str:
    """Return what is new since a comparison, one sentence; "" where nothing is. Raises ProjectError if there are no chips."""
    facts, pu = to_learn_from(layout)
    if facts["chip_set"] != found.chip_set:
        return "Chips were cut anew since: compare again."
    return "" if pu.at_event == found.at_event else "There are new answers since: compare again."


# What it says


def judged(found: LayerComparison, row: LayerRow) -> str:
    """Return what a layer adds, in one sentence."""
    low, high = (f"{value:+.2f}" for value in (row.gain.low, row.gain.high))
    about = f"AP {row.gain.mean:+.2f}, {100 * found.level:.0f} % interval {low} to {high}"
    if found.n_clicks < LEAST_TO_JUDGE:
        return f"Not enough answers to judge: {found.n_clicks} held-out clicks, and it takes {LEAST_TO_JUDGE}."
    if row.gain.low > 0:
        return f"{row.layer} adds to the ranking: {about}."
    if row.gain.high < 0:
        return f"The ranking is better without {row.layer}: {about}."
    return f"No difference found with or without {row.layer}: {about}."


def gain_words(gain: Interval) -> str:
    """Return a difference in average precision with its interval.

    >>> gain_words(Interval(0.0712, 0.021, 0.118))
    '+0.07 (+0.02 to +0.12)'
    """
    mean, low, high = (f"{value:+.2f}" for value in (gain.mean, gain.low, gain.high))
    return f"{mean} ({low} to {high})"


def verdict_words(found: LayerComparison) -> list[str]:
    """Return what the layers add: one sentence each, by the first method; one for all where there are too few clicks."""
    by = found.rows[0].method
    return list(dict.fromkeys(judged(found, row) for row in found.rows if row.method == by))


def how_made(found: LayerComparison) -> str:
    """Return what the figures rest on."""
    others = f"; {found.n_others} that the queue proposed were learned from and not held out" if found.n_others else ""
    return (
        f"Made {wording.when(found.at)} with {found.n_clicks} clicks of your own, held out in {found.n_folds} parts, "
        f"{found.n_repeats} times, among {found.n_unlabeled:,} buildings not reviewed{others}. These count as not damaged, so average "
        "precision (AP) is a lower bound; both sides of a difference rank the same clicks after the same draws."
    )


def table(found: LayerComparison) -> list[dict[str, str]]:
    """Return the rows for people: by method, the layer that adds most first."""
    order = {method: at for at, method in enumerate(dict.fromkeys(row.method for row in found.rows))}
    return [
        {
            "layer": row.layer,
            "method": catalog.title(row.method),
            "AP with all layers": f"{row.ap:.2f}",
            "AP without it": f"{row.ap_without:.2f}",
            "difference": gain_words(row.gain),
            "buildings without it": f"{found.n_lacking.get(row.layer, 0):,}",
        }
        for row in sorted(found.rows, key=lambda row: (order[row.method], -row.gain.mean))
    ]
