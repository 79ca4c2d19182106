"""What the Train screen asks for: methods, whether they can start, runs, and the jobs that make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pu_geo import jobs
from pu_geo.analysis.estimates import recommended_method
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog, measured
from pu_geo.methods.catalog import MethodCard, settings_for
from pu_geo.methods.expected_time import LONG_S, Speed, expected_seconds, in_words, machine_name, speed_from_json
from pu_geo.methods.work import FEATURES, Amount
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.projects import home

__all__ = ["Amount", "MethodCard", "settings_for"]
TRAINING_TASKS = ("train", "rank")
PROBE_TASK = "probe"
USUAL_SIZES = (1000, 20_000)
"""Chips for which the command line tells times without a project."""


@dataclass(frozen=True)
class DataSummary:
    """What a training would see right now."""

    n_positive: int
    n_unlabeled: int
    n_left_out: int
    n_not_damaged: int
    has_chips: bool


@dataclass(frozen=True)
class ExpectedTime:
    """How long a training will take.

    Attributes:
        seconds: above 0; meant to be right within a factor of 1.5.
        short: for people, such as "about 40 s".
        words: a sentence, such as "about 40 s for your 383 chips on this machine."
    """

    seconds: float
    short: str
    words: str

    @property
    def is_long(self) -> bool:
        """Whether to warn of it: more than an hour."""
        return self.seconds > LONG_S


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
    """Return a method's name as its authors write it; the plain word for one that this version does not know."""
    return catalog.METHODS[method].title if method in catalog.METHODS else method


def data_summary(layout: Layout) -> DataSummary:
    """Count what a training would see."""
    with store.connect(layout) as db:
        counts = labels.counts(labels.current_labels(db))
        n = contents.count_footprints(db)
        has_chips = contents.latest_chip_set(db) is not None
    unlabeled = n - counts["positive"] - counts["not_assessable"]
    return DataSummary(counts["positive"], unlabeled, counts["not_assessable"], counts["not_damaged"], has_chips)


def why_not(layout: Layout, method: str) -> str | None:
    """Return why a method cannot start, in words, or None if it can."""
    data, card = data_summary(layout), catalog.card(method)
    if not data.has_chips:
        return "There are no chips yet: cut them on the Imagery page."
    if data.n_positive < card.min_positives:
        return f"{card.title} needs at least {card.min_positives} positives; this project has {data.n_positive}."
    if data.n_not_damaged < card.min_not_damaged:
        return (
            f"{card.title} needs at least {card.min_not_damaged} buildings called not damaged; "
            f"this project has {data.n_not_damaged}."
        )
    return None


def start(
    layout: Layout, method: str, *, preset: str, seed: int, overrides: Mapping[str, str] | None = None,
    types_from: str | None = None,
) -> str:  # fmt: skip
    """Start a training job after checking what can be checked at once; return the job's id.

    Args:
        types_from: attribute of the footprints that names the kind of damage of the positives.

    Raises:
        TrainingError: if the method cannot start, or a setting is wrong.
    """
    catalog.settings_for(method, preset, overrides or {})
    reason = why_not(layout, method)
    if reason:
        raise TrainingError(reason, "Mark more damaged buildings on the Annotate page.", kind="not_ready")
    return jobs.start(
        layout, "train",
        {"method": method, "preset": preset, "seed": seed, "overrides": dict(overrides or {}), "types_from": types_from},
    )  # fmt: skip


def amount_of(layout: Layout) -> Amount | None:
    """Return what a training would see right now; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        counts = labels.counts(labels.current_labels(db))
    if chip_set is None:
        return None
    n, n_bands, size_px, _ = np.load(layout.chips(chip_set), mmap_mode="r").shape
    n_views = np.load(layout.features(chip_set), mmap_mode="r").shape[0]
    return Amount(
        n, counts["positive"], counts["not_damaged"], counts["not_assessable"], size_px=size_px, n_bands=n_bands,
        n_views=n_views,
    )  # fmt: skip


def speed_file() -> Path:
    """Return where the measurement of this machine is kept: with the user's list of projects."""
    return home() / "speed.json"


def speed() -> Speed:
    """Return how fast this machine is, or the figures of two CPU cores where it was not measured yet."""
    try:
        found = json.loads(speed_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    return speed_from_json(found, machine_name())


def measure_speed(layout: Layout) -> str:
    """Start measuring this machine in the background; return the job's id."""
    return jobs.start(layout, PROBE_TASK, {"into": str(speed_file())})


def measured_words(known: Speed) -> str:
    """Say what expected times rest on."""
    if known.is_shipped:
        return "Expected times are those of two CPU cores with nothing else to do: this machine was not measured yet."
    return f"Expected times are those of {known.device} with nothing else to do, measured {known.measured_at[:10]}."


def expected_time(
    method: str, preset: str, amount: Amount, known: Speed, overrides: Mapping[str, str] | None = None
) -> ExpectedTime:
    """Tell how long a training will take, before it is started.

    Args:
        amount: see `amount_of`.
        known: see `speed`.
        overrides: settings that differ from the preset, as text.

    Raises:
        TrainingError: if a setting is wrong.
    """
    settings = catalog.settings_for(method, preset, overrides or {})
    seconds = expected_seconds(method, settings, amount, known)
    short, where = in_words(seconds), "two CPU cores" if known.is_shipped else "this machine"
    is_for_gpu = seconds > LONG_S and settings.backbone != FEATURES and not known.is_gpu
    words = f"{short} for your {amount.n_chips:,} chips on {where}{'; meant for a GPU' if is_for_gpu else ''}."
    return ExpectedTime(seconds, short, words)


def usual_times(card: MethodCard, known: Speed) -> dict[str, dict[int, float]]:
    """Return seconds by preset and number of chips (`USUAL_SIZES`), of 64 px, with 30 positives and as many undamaged."""
    found: dict[str, dict[int, float]] = {}
    for preset in card.presets:
        settings = catalog.settings_for(card.name, preset)
        found[preset] = {n: expected_seconds(card.name, settings, Amount(n, 30, 30), known) for n in USUAL_SIZES}
    return found


def usual_words(card: MethodCard, known: Speed) -> str:
    """Write `usual_times` as a line a preset."""
    rows = usual_times(card, known).items()
    return "\n".join(
        f"{'':15} {preset:9}{', '.join(f'{in_words(seconds)} for {n:,} chips' for n, seconds in times.items())}"
        for preset, times in rows
    )


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
    with store.connect(layout) as db:
        runs.pin(db, layout, run_id)


def recommendation(found: Sequence[RunFacts]) -> str | None:
    """Say which method the damaged share speaks for; None before there is an estimate.

    The rule is the floor of what was measured: NcPU where Elkan-Noto estimates 30 % damaged or more, the ranker below.
    """
    share = next((facts.estimated_share for facts in found if facts.estimated_share is not None), None)
    if share is None:
        return None
    if recommended_method(share) == "ncpu":
        advice = "NcPU is worth training here; compare its top with the instant ranker's."
    else:
        advice = "the instant ranker is the one to start from; NcPU and PUCL are second opinions."
    return (
        f"Your clicks speak for about {share:.0%} damaged among the unlabeled, if they are an even draw of the damage: "
        f"{advice} A rule of thumb, not a finding: see docs/methods.md."
    )
