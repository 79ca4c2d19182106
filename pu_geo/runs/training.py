"""What the Train screen asks for: methods, whether they can start, runs, and what they learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pu_geo.analysis import assessability, place
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD, MethodCard, TrainingRequest, settings_for
from pu_geo.methods.measured import in_lines as figures_of
from pu_geo.records import Facts, PUSet, RunFacts
from pu_geo.scenes import features
from pu_geo.store import contents, damage_types, labels, runs, store
from pu_geo.store.layout import Layout

__all__ = ["DEFAULT_METHOD", "MethodCard", "TrainingRequest", "figures_of", "settings_for"]
HOLD_OUT_FROM, MOST_HELD_OUT = 50, 100


@dataclass(frozen=True)
class DataSummary:
    """What a training would learn from right now; `n_chips` are 0 before there is a chip set, `n_held_out` is proposed."""

    n_positive: int
    n_not_reviewed: int
    n_left_out: int
    n_not_damaged: int
    n_chips: int
    n_held_out: int = 0


def cards_by_group() -> dict[str, list[catalog.MethodCard]]:
    """Return the cards by the heading that they are shown under."""
    return {
        heading: [card for card in catalog.METHODS.values() if card.group == group]
        for group, heading in catalog.GROUPS.items()
    }


@dataclass(frozen=True)
class TypeSource:
    """Where a training may take damage types from.

    Attributes:
        name: "answers" or "grades".
        title: for people.
        counts: "roof 23 yes, 4 no; flooded 5 yes", of the damaged buildings that a training would learn from now.
        is_enough: whether there is any type to learn.
    """

    name: str
    title: str
    counts: str
    is_enough: bool


NONE_SO_FAR = "none so far"
_MOST_NAMED = 12  # types whose counts are shown
_TITLES = {damage_types.ANSWERS: "Types given on Annotate", damage_types.GRADES: "Grades, as a scale"}


def type_sources(layout: Layout) -> list[TypeSource]:
    """Return where damage types may come from: answers, then grades."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        ids = contents.chip_facts(layout, chip_set)["building_ids"] if chip_set else None
        pu = labels.pu_set(db, ids=ids)
        tallies = damage_types.tally(db, pu)
    return [
        TypeSource(name, _TITLES[name], _counted(rows), any(row.n_has >= damage_types.FEWEST for row in rows))
        for name, rows in tallies.items()
    ]


def _counted(rows: Sequence[damage_types.Tally]) -> str:
    """Return how many buildings have each type, and have it not, in words."""
    if not rows:
        return NONE_SO_FAR
    parts = [f"{row.name} {row.n_has:,} yes" + (f", {row.n_has_not:,} no" if row.n_has_not else "") for row in rows]
    rest = [f"and {len(parts) - _MOST_NAMED:,} more"] if len(parts) > _MOST_NAMED else []
    return "; ".join([*parts[:_MOST_NAMED], *rest])


def place_words(run: RunFacts) -> str:
    """Return whether neighboring buildings count in a run's scores, in words; "" for a method that cannot let them."""
    return place.words_of(run.place)


def data_summary(layout: Layout) -> DataSummary:
    """Count what a training would see."""
    with store.connect(layout) as db:
        counts = labels.counts(labels.current_labels(db))
        n = contents.count_footprints(db)
        chip_set = contents.latest_chip_set(db)
        n_chips = contents.chip_count(db, chip_set) if chip_set else 0
    not_reviewed = n - counts["positive"] - counts["not_damaged"] - counts["not_assessable"]
    return DataSummary(
        counts["positive"], not_reviewed, counts["not_assessable"], counts["not_damaged"], n_chips,
        proposed_hold_out(counts["positive"]),
    )  # fmt: skip


def to_learn_from(layout: Layout, chip_set: str | None = None) -> tuple[Facts, PUSet]:
    """Return the facts of a chip set, the newest if None, and the labels of its buildings as a training would read them now.

    Buildings that the picture hides are left out, as are answers of audits. Raises ProjectError if there are no chips.
    """
    with store.connect(layout) as db:
        facts = contents.chip_facts(layout, contents.chosen_chip_set(db, chip_set))
        pu = labels.pu_set(db, ids=facts["building_ids"])
    return facts, pu.without(assessability.reasons(facts) != "")


def proposed_hold_out(n_positive: int) -> int:
    """Return how many positives a training had better not learn from, so that it can be judged by them.

    None below 50 positives, where each one teaches more than it judges; then one in five, 100 at most.
    """
    return 0 if n_positive < HOLD_OUT_FROM else min(n_positive // 5, MOST_HELD_OUT)


def why_not(layout: Layout, method: str, hold_out: int = 0) -> str | None:
    """Return in words why a method cannot start with `hold_out` positives not learned from, or None if it can."""
    data, card = data_summary(layout), catalog.card(method)
    if not data.n_chips:
        return "There are no chips yet: cut them on the Imagery page."
    if data.n_positive < card.min_positives:
        return f"{card.title} needs at least {card.min_positives} damaged buildings; this project has {data.n_positive}."
    if data.n_positive - hold_out < card.min_positives:
        return (
            f"{card.title} needs at least {card.min_positives} damaged buildings to learn from; {hold_out} held-out "
            "clicks would leave "
            f"{max(data.n_positive - hold_out, 0)} of {data.n_positive}."
        )
    if data.n_not_damaged < card.min_not_damaged:
        return (
            f"{card.title} needs at least {card.min_not_damaged} buildings called not damaged; "
            f"this project has {data.n_not_damaged}."
        )
    return None


def require(layout: Layout, request: TrainingRequest) -> None:
    """Check what can be checked of a training before there is a job for it.

    Raises:
        TrainingError: if the method cannot start, or too few damage types were given.
        ProjectError: if the newest chips do not have the features that are asked for.
    """
    reason = why_not(layout, request.method, request.hold_out)
    if reason:
        hint = "Hold fewer out, or mark more damaged buildings" if request.hold_out else "Mark more damaged buildings"
        raise TrainingError(reason, f"{hint} on the Annotate page.", kind="not_ready")
    features.require(layout, request.feature_set)
    if request.types_from:
        _require_types(layout, request.types_from)


def _require_types(layout: Layout, wanted: str) -> None:
    """Raise TrainingError if no damage type to learn comes from there."""
    sources = {one.name: one for one in type_sources(layout)}
    found = sources[wanted]
    if found.is_enough:
        return
    problem = f"{found.title}: {found.counts}. A type is learned that {damage_types.FEWEST} damaged buildings or more have."
    usable = [f"{one.name} ({one.counts})" for one in sources.values() if one.is_enough]
    raise TrainingError(
        problem, f"Name one of these: {', '.join(usable)}." if usable else "Give types on the Annotate page.", kind="types"
    )


def all_runs(layout: Layout) -> list[RunFacts]:
    """Return finished runs, newest first."""
    return store.call(layout, runs.all_runs)


def recommendation() -> str:
    """Return what to train and why. It names no share of damage: clicks alone know none, see `auditing.how_many`."""
    return (
        f"Train the {catalog.name_within(DEFAULT_METHOD)}: on seven sets, with little damage and with much, it was ahead "
        "of the instant ranker or level with it; "
        "NcPU and PUCL are second opinions."
    )
