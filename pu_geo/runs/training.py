"""What the Train screen asks for: methods, whether they can start, runs, and what they learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

from pu_geo import wording
from pu_geo.analysis import assessability, place, ranking_evidence
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.catalog import DEFAULT_METHOD, MethodCard, TrainingRequest, settings_for
from pu_geo.methods.measured import in_lines as figures_of
from pu_geo.records import Facts, PUSet, RunFacts
from pu_geo.scenes import features
from pu_geo.store import chosen, contents, damage_types, labels, population, runs, store, training_times
from pu_geo.store.layout import Layout

__all__ = ["DEFAULT_METHOD", "MethodCard", "TrainingRequest", "figures_of", "settings_for"]
HOLD_OUT_FROM, MOST_HELD_OUT = 50, 100
_START_S, _MINUTE = 15.0, 60.0  # until a job has loaded its libraries and done what takes as long with any number of chips
_VIEWS_AN_HOUR = {"small": 4e6, "resnet18": 650e3, "preact_resnet18": 43e3}
"""Views of chips of 64 pixels that a network is trained on, on two cores: measured for ResNet-18, for the others by their
multiplications."""
_BASIS = {True: "on this machine, by past runs", False: "on two processor cores; not timed on this machine yet"}


@dataclass(frozen=True)
class DataSummary:
    """The buildings as the map has them now, and what a training would learn from.

    Attributes:
        n_positive, n_not_damaged: answered so.
        n_not_reviewed: assessed, and without an answer.
        n_not_assessed: all others: hidden in the picture, answered as not assessable, or not in the run that is shown. The
            Damage map, its exports and the report count the same.
        n_chips: 0 before there is a chip set.
        n_taught, n_taught_not: those answered damaged and not damaged outside accuracy assessments: what is learned from.
    """

    n_positive: int
    n_not_reviewed: int
    n_not_assessed: int
    n_not_damaged: int
    n_chips: int
    n_taught: int
    n_taught_not: int

    @property
    def n_held_out(self) -> int:
        """How many damaged buildings a training is proposed not to learn from."""
        return proposed_hold_out(self.n_taught)


def cards_of(group: str) -> list[MethodCard]:
    """Return the cards of a group, one of `catalog.GROUPS`, in the order in which they are shown."""
    return [card for card in catalog.METHODS.values() if card.group == group]


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


def evidence_words(run: RunFacts) -> str:
    """Return whether clicks held out stand high in a run's list, in words."""
    return ranking_evidence.words_of(run.evidence)


def place_words(run: RunFacts) -> str:
    """Return whether neighboring buildings count in a run's scores, in words; "" for a method that cannot let them."""
    return place.words_of(run.place)


def data_summary(layout: Layout) -> DataSummary:
    """Count what the map has, and what a training would see."""
    run = chosen.chosen_run(layout)
    with store.connect(layout) as db:
        now = labels.moment(db), contents.geometry_v(db), contents.latest_chip_set(db)
    return _data_summary(layout, run.run_id if run else "", now)


@lru_cache(maxsize=4)
def _data_summary(layout: Layout, run_id: str, now: tuple[labels.Moment, str, str | None]) -> DataSummary:
    """Count anew where another run is shown, or labels, footprints or chips changed."""
    shown, chip_set = population.shown(layout), now[-1]
    with store.connect(layout) as db:
        taught = Counter(event.label for event in labels.taught(db, labels.last_event(db)).values() if event)
        n_chips = contents.chip_count(db, chip_set) if chip_set else 0
    return DataSummary(
        int(shown.given("positive").sum()), int(shown.is_open.sum()), int((~shown.is_assessed).sum()),
        int(shown.given("not_damaged").sum()), n_chips, taught["positive"], taught["not_damaged"],
    )  # fmt: skip


def to_learn_from(layout: Layout, chip_set: str | None = None) -> tuple[Facts, PUSet]:
    """Return the facts of a chip set, the newest if None, and the labels of its buildings as a training would read them now.

    Buildings that the picture hides are left out, as are answers of audits. Raises ProjectError if there are no chips.
    """
    with store.connect(layout) as db:
        facts = contents.chip_facts(layout, contents.chosen_chip_set(db, chip_set))
        pu = labels.pu_set(db, ids=facts["building_ids"])
    return facts, pu.without(assessability.reasons(facts) != "")


@dataclass(frozen=True)
class ExpectedTime:
    """How long a training may take: at most so many seconds, in a few words, and in words with what they rest on."""

    most: float
    short: str
    words: str


def expected_time(card: MethodCard, preset: str, n_chips: int) -> ExpectedTime:
    """Return how long a training by a preset may take: by past ones on this machine, else its order of magnitude by the
    costs that were measured on two processor cores.
    """
    known = training_times.expected_seconds(card.name, preset, n_chips)
    low, high = known or (_usual_seconds(card, preset, n_chips),) * 2
    first, last = wording.duration(low), wording.duration(high)
    short = "under 1 min" if high < _MINUTE else f"about {last}" if first == last else f"{first} to {last}"
    return ExpectedTime(high, short, f"{short} {_BASIS[known is not None]}")


def _usual_seconds(card: MethodCard, preset: str, n_chips: int) -> float:
    """Return the seconds on two cores: of cached features by the card, of a network by the views of chips it is shown."""
    settings = settings_for(card.name, preset)
    if settings.backbone == "features":
        return _START_S + card.seconds_per_1000 * n_chips / 1000
    steps: dict[str, int] = asdict(settings)
    most = steps.get("max_steps") or steps["rounds"] * steps["local_steps"]
    n_views = 2 * (settings.pretrain_epochs * n_chips + min(steps.get("epochs", most) * n_chips, most * settings.batch_size))
    hours = float(n_views / _VIEWS_AN_HOUR[settings.backbone])
    return 3600.0 * (hours if hours < 2 else round(hours))


def proposed_hold_out(n_positive: int) -> int:
    """Return how many positives a training had better not learn from, so that it can be judged by them.

    None below 50 positives, where each one teaches more than it judges; then one in five, 100 at most.
    """
    return 0 if n_positive < HOLD_OUT_FROM else min(n_positive // 5, MOST_HELD_OUT)


def why_not(layout: Layout, method: str, hold_out: int = 0) -> str | None:
    """Return in words why a method cannot start with `hold_out` positives not learned from, or None if it can."""
    data, card = data_summary(layout), catalog.card(method)
    n = data.n_taught
    if not data.n_chips:
        return "There are no chips yet: cut them on the Imagery page."
    if n < card.min_positives:
        return f"{card.title} needs at least {card.min_positives} damaged buildings; this project has {n} to learn from."
    if n - hold_out < card.min_positives:
        return (
            f"{card.title} needs at least {card.min_positives} damaged buildings to learn from; {hold_out} held-out "
            "clicks would leave "
            f"{max(n - hold_out, 0)} of {n}."
        )
    if data.n_taught_not < card.min_not_damaged:
        return (
            f"{card.title} needs at least {card.min_not_damaged} buildings called not damaged; "
            f"this project has {data.n_taught_not} to learn from."
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
    for name in request.feature_sets:
        features.require(layout, name)
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
