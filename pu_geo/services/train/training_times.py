"""How long trainings take on this machine: what was measured of it, and what that means for a project's chips."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pu_geo import jobs
from pu_geo.methods import catalog
from pu_geo.methods.catalog import MethodCard
from pu_geo.methods.expected_time import LONG_S, Speed, expected_seconds, in_words, machine_name, speed_from_json
from pu_geo.methods.training_size import FEATURES, TrainingSize
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout, home

PROBE_TASK = "probe"
USUAL_SIZES = (1000, 20_000)
"""Chips for which the command line tells times without a project."""


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


def amount_of(layout: Layout) -> TrainingSize | None:
    """Return what a training would see right now; None before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        counts = labels.counts(labels.current_labels(db))
    if chip_set is None:
        return None
    n, n_bands, size_px, _ = np.load(layout.chips(chip_set), mmap_mode="r").shape
    n_views = np.load(layout.features(chip_set), mmap_mode="r").shape[0]
    return TrainingSize(
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
    method: str, preset: str, amount: TrainingSize, known: Speed, overrides: Mapping[str, str] | None = None
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
        found[preset] = {n: expected_seconds(card.name, settings, TrainingSize(n, 30, 30), known) for n in USUAL_SIZES}
    return found


def usual_words(card: MethodCard, known: Speed) -> str:
    """Write `usual_times` as a line a preset."""
    rows = usual_times(card, known).items()
    return "\n".join(
        f"{'':15} {preset:9}{', '.join(f'{in_words(seconds)} for {n:,} chips' for n, seconds in times.items())}"
        for preset, times in rows
    )
