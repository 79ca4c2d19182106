"""Who said what: details of labels, the analysts of a project, and where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pu_geo.project import analysts, discoveries, labels, store
from pu_geo.project.layout import Layout

USUAL_TYPES = ("collapsed", "roof", "walls", "flooded", "burned", "debris")
"""Damage types that are offered before anyone has named others."""


@dataclass(frozen=True)
class Team:
    """The analysts of a project.

    Attributes:
        rows: one an analyst: name, labels standing, time of the last one.
        conflicts: building id -> "ann: positive, bob: not_damaged".
        n_shared: buildings that two or more have answered.
        agreement: share of these on which all say the same, 0..1; None where there are none.
    """

    rows: Sequence[Mapping[str, object]]
    conflicts: Mapping[str, str]
    n_shared: int
    agreement: float | None


def details(layout: Layout) -> dict[str, dict[str, object]]:
    """Return building id -> what was said of it beside its label, for every labeled building."""
    with store.connect(layout) as db:
        return {
            building: {
                "reason": event.reason, "damage_types": list(event.damage_types), "comment": event.comment,
                "by": event.analyst, "shown": event.shown,
            }
            for building, event in labels.current(db).items()
        }  # fmt: skip


def damage_types(layout: Layout) -> list[str]:
    """Return the damage types to offer: the usual ones, and those named in this project, of proposed groups too."""
    with store.connect(layout) as db:
        named = {kind for event in labels.current(db).values() for kind in event.damage_types} | set(discoveries.types(db))
    return [*USUAL_TYPES, *sorted(named - set(USUAL_TYPES))]


def team(layout: Layout) -> Team:
    """Look at all analysts of a project."""
    with store.connect(layout) as db:
        facts, differing, agreed = analysts.by_analyst(db), analysts.conflicts(db), analysts.agreement(db)
    return Team(
        rows=[{"analyst": name, "labels": one.n_standing, "last": one.last_at[:16]} for name, one in facts.items()],
        conflicts={
            building: ", ".join(f"{answer.analyst}: {answer.label.replace('_', ' ')}" for answer in answers)
            for building, answers in differing
        },
        n_shared=agreed.n,
        agreement=agreed.share if agreed.n else None,
    )
