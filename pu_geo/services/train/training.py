"""What the Train screen asks for: methods, whether they can start, runs, and the jobs that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pu_geo import jobs
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog, measured
from pu_geo.methods.catalog import DEFAULT_METHOD, MethodCard, settings_for
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.project import choices

__all__ = ["DEFAULT_METHOD", "MethodCard", "settings_for"]
TRAINING_TASKS = ("train", "rank")
HOLD_OUT_FROM, MOST_HELD_OUT = 50, 100
OTHER_MAKERS = {"ranker": "Instant ranker", "ensemble": "Average of ranks"}
"""Titles of what makes runs and is no method of the catalog."""


@dataclass(frozen=True)
class DataSummary:
    """What a training would see right now.

    Attributes:
        n_positive: positives, those included that would be held out.
        n_held_out: of these, how many `proposed_hold_out` proposes not to learn from.
    """

    n_positive: int
    n_unlabeled: int
    n_left_out: int
    n_not_damaged: int
    has_chips: bool
    n_held_out: int = 0


def cards_by_group() -> dict[str, list[catalog.MethodCard]]:
    """Return the cards by the heading that they are shown under."""
    return {
        heading: [card for card in catalog.METHODS.values() if card.group == group]
        for group, heading in catalog.GROUPS.items()
    }


def figures_of(method: str) -> list[str]:
    """Return what a method's quick preset reached where the truth is known, a line an event; [] if it was never measured."""
    return measured.in_lines(method)


def type_fields(layout: Layout) -> list[str]:
    """Return the attributes of the footprints that may name a kind of damage: texts, and those of positives alone."""
    with store.connect(layout) as db:
        table, known = contents.footprints(db), labels.current_labels(db)
    rows = [row for id_, row in zip(table.building_ids, table.attributes, strict=True) if known.get(id_) == "positive"]
    return sorted({name for row in rows for name, value in row.items() if isinstance(value, str)})


def method_title(method: str) -> str:
    """Return a method's name for people; the plain word for one that this version does not know."""
    return catalog.METHODS[method].title if method in catalog.METHODS else OTHER_MAKERS.get(method, method)


def name_within(method: str) -> str:
    """Return a method's name as it stands within a sentence: "propagated ranking", but "NcPU"."""
    title = method_title(method)
    return title[:1].lower() + title[1:] if title[1:].islower() else title


def data_summary(layout: Layout) -> DataSummary:
    """Count what a training would see."""
    with store.connect(layout) as db:
        counts = labels.counts(labels.current_labels(db))
        n = contents.count_footprints(db)
        has_chips = contents.latest_chip_set(db) is not None
    unlabeled = n - counts["positive"] - counts["not_assessable"]
    return DataSummary(
        counts["positive"], unlabeled, counts["not_assessable"], counts["not_damaged"], has_chips,
        proposed_hold_out(counts["positive"]),
    )  # fmt: skip


def proposed_hold_out(n_positive: int) -> int:
    """Say how many positives a training had better not learn from, so that it can be judged by them.

    None below 50 positives, where each one teaches more than it judges; then one in five, 100 at most.
    """
    return 0 if n_positive < HOLD_OUT_FROM else min(n_positive // 5, MOST_HELD_OUT)


def why_not(layout: Layout, method: str, hold_out: int = 0) -> str | None:
    """Return why a method cannot start, in words, or None if it can.

    Args:
        hold_out: positives that shall not be learned from.
    """
    data, card = data_summary(layout), catalog.card(method)
    if not data.has_chips:
        return "There are no chips yet: cut them on the Imagery page."
    if data.n_positive < card.min_positives:
        return f"{card.title} needs at least {card.min_positives} positives; this project has {data.n_positive}."
    if data.n_positive - hold_out < card.min_positives:
        return (
            f"{card.title} needs at least {card.min_positives} positives to learn from; {hold_out} held-out clicks would leave "
            f"{max(data.n_positive - hold_out, 0)} of {data.n_positive}."
        )
    if data.n_not_damaged < card.min_not_damaged:
        return (
            f"{card.title} needs at least {card.min_not_damaged} buildings called not damaged; "
            f"this project has {data.n_not_damaged}."
        )
    return None


def require(
    layout: Layout, method: str, *, preset: str, overrides: Mapping[str, str] | None = None, types_from: str | None = None,
    hold_out: int = 0,
) -> None:  # fmt: skip
    """Check what can be checked of a training before there is a job for it.

    Raises:
        TrainingError: if the method cannot start, or a setting is wrong.
    """
    catalog.settings_for(method, preset, overrides or {})
    reason = why_not(layout, method, hold_out)
    if reason:
        hint = "Hold fewer out, or mark more damaged buildings" if hold_out else "Mark more damaged buildings"
        raise TrainingError(reason, f"{hint} on the Annotate page.", kind="not_ready")
    if types_from and types_from not in (known := type_fields(layout)):
        raise TrainingError(
            f"No clicked footprint has the attribute {types_from!r} with words in it; they have: {', '.join(known) or 'none'}.",
            "Name one of them.",
            kind="types",
        )


def start(
    layout: Layout, method: str, *, preset: str, seed: int, overrides: Mapping[str, str] | None = None,
    types_from: str | None = None, hold_out: int = 0,
) -> str:  # fmt: skip
    """Start a training job after checking what can be checked at once; return the job's id.

    Args:
        types_from: attribute of the footprints that names the kind of damage of the positives.
        hold_out: positives that are not learned from, drawn by the seed; the run is judged by them.

    Raises:
        TrainingError: if the method cannot start, or a setting is wrong.
    """
    require(layout, method, preset=preset, overrides=overrides, types_from=types_from, hold_out=hold_out)
    return jobs.start(
        layout, "train",
        {
            "method": method, "preset": preset, "seed": seed, "overrides": dict(overrides or {}), "types_from": types_from,
            "hold_out": hold_out,
        },
    )  # fmt: skip


def all_runs(layout: Layout) -> list[RunFacts]:
    """Return finished runs, newest first."""
    with store.connect(layout) as db:
        return runs.all_runs(db)


def pinned_run(layout: Layout) -> str | None:
    """Return the id of the run that maps and exports start from."""
    with store.connect(layout) as db:
        return runs.pinned(db)


def pin(layout: Layout, run_id: str) -> None:
    """Make a run the one that the live map and QGIS show."""
    choices.choose_run(layout, run_id)


def recommendation() -> str:
    """Say what to train and why. How much is damaged is not said: clicks alone can't tell, see `auditing.how_many`."""
    return (
        f"Train the {name_within(DEFAULT_METHOD)}: it was ahead of the instant ranker on both real events that were measured, with little damage and with much; "
        "NcPU and PUCL are second opinions."
    )
