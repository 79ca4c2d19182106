"""What a run starts from: a chip set, its cached features, the labels as they stand, and the clicks that are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.analysis import assessability, estimates, ranker
from pu_geo.analysis.pu_criterion import is_unlabeled
from pu_geo.analysis.ranking_evidence import RankingEvidence
from pu_geo.errors import TrainingError
from pu_geo.files import make_folder, remove_path
from pu_geo.methods.catalog import MethodCard, TrainingRequest
from pu_geo.methods.fitting import UNNAMED, pu_data, require_labels
from pu_geo.methods.settings import NetworkSettings
from pu_geo.records import Bools, Facts, Floats, Ints, PUSet, RunFacts, Singles, View
from pu_geo.store import (
    choices,
    contents,
    damage_types,
    decisions,
    events,
    feature_sets,
    freshness,
    labels,
    pseudo_positives,
    store,
)
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.damage_types import DamageTypes
from pu_geo.store.layout import RCF, Layout, read_array, read_json, write_json
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import FEATURES

BEGAN_WITH = "began_with.json"  # what a training began with, in the folder of its checkpoints
_HOLD_OUT_STREAM = 41


@dataclass(frozen=True)
class RunInputs:
    """A chip set with the labels at one event.

    Attributes:
        chip_set: its id.
        views: cached frozen features [V, N, D], a memory map.
        pu: labels of its N buildings.
        is_accepted: bool [N]; unlabeled buildings of accepted clusters, which are learned from as positives are. They are
            not among those of `pu`, by which everything is counted, estimated and judged. None where there are none.
        at_decision: number of the last decision on clusters that was taken into account.
        n_passed_over: buildings of accepted clusters that are not learned from, as their kind of damage is not known.
        is_hidden: bool [N]; buildings whose chips show nothing to learn from: left out in `pu`, and no part of statistics.
            None where all are visible.
        feature_set: the set that `views` are of; `feature_note` says why it is not the chosen one, "" where it is.
        feature_maker: facts of its maker, read when a training begins, since the set may be removed before it ends.
        types: damage types that are learned; None of a run without.
        at_choice: number of the last choice, such as that of a scale of grades, that counts; all where None.
        takes_several: whether the method learns several types of one building, and buildings of which nobody said any.
        is_missing: which buildings lack which of the set's layers, bool [layers, N]; None where it is not made of layers.
        layers_lacking: how many buildings that are, in words; "" where none lacks any.
        types_from: where `types` are from, see `TrainingRequest`.
        held_out: rows of clicks that are not learned from, int64, rising; the run is judged by them.
    """

    chip_set: str
    views: NDArray[np.float16]
    pu: PUSet
    is_accepted: Bools | None = None
    at_decision: int = 0
    n_passed_over: int = 0
    is_hidden: Bools | None = None
    feature_set: str = RCF
    feature_note: str = ""
    feature_maker: Facts = field(default_factory=lambda: {"kind": "rcf"})
    types: DamageTypes | None = None
    at_choice: int | None = None
    takes_several: bool = False
    is_missing: Bools | None = None
    layers_lacking: str = ""
    types_from: str | None = None
    held_out: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def n_hidden(self) -> int:
        return 0 if self.is_hidden is None else int(self.is_hidden.sum())

    @property
    def is_unlabeled(self) -> Bools:
        """Which buildings are learned from and nobody clicked as damaged, bool [N]."""
        return ~self.pu.is_positive & ~self.pu.is_excluded

    def prepared(self) -> ranker.PreparedFeatures:
        """Standardise the plain features by the buildings that are learned from: the only float32 copy of them, 2 GB of
        1,000,000 buildings.
        """
        return ranker.prepare(self.views[0], ~self.pu.is_excluded)

    @property
    def layers(self) -> tuple[View, ...]:
        """Which columns of the features are of which layer; none where they are not made of layers."""
        return feature_sets.views_of(self.feature_maker)

    @property
    def plain(self) -> Singles:
        """Features of the unaugmented chips, float32 [N, D]."""
        return np.asarray(self.views[0], dtype=np.float32)

    @property
    def learned_as_positive(self) -> Bools:
        """Which buildings a method learns from as damaged, bool [N]: clicked ones, and those of accepted clusters."""
        return self.pu.is_positive if self.is_accepted is None else self.pu.is_positive | self.is_accepted

    @property
    def n_accepted(self) -> int:
        return 0 if self.is_accepted is None else int(self.is_accepted.sum())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know of a run beside what its method says, one sentence each."""
        n_several = self.types.n_several if self.types and not self.takes_several else 0
        found = (
            self.feature_note,
            self.layers_lacking,
            self.n_accepted
            and f"Learned from {self.n_accepted:,} buildings of accepted clusters as if they were marked damaged; nobody "
            "checked each.",
            self.n_passed_over
            and f"{self.n_passed_over:,} buildings of accepted clusters were not learned from: kinds of damage were, and "
            "nobody named theirs.",
            self.n_hidden
            and f"{self.n_hidden:,} buildings were not learned from: clouds, missing data or a missing pre image hide them. "
            "Answers to them count on the map.",
            n_several
            and f"{wording.plural(n_several, 'building has', 'buildings have')} several damage types, and counted as the "
            "rarest of their own: this method takes one of each building.",
        )
        return (*(str(words) for words in found if words), *(self.types.notes if self.types else ()))

    @cached_property
    def evidence(self) -> RankingEvidence | None:
        """Where clicks stand in linear rankings that did not see them, see `estimates.evidence_to_start_from`."""
        return estimates.evidence_to_start_from(self.views[0], self.pu.is_positive, is_excluded=self.pu.is_excluded)

    def start_k(self) -> int:
        """Return how many of the unlabeled a threshold to start from flags, see `estimates.start_k`; 0 where there are
        none.
        """
        return estimates.start_k(int(self.is_unlabeled.sum()), int(self.pu.is_positive.sum()), self.evidence)

    def first_threshold(self, scores: Singles) -> float:
        """Return the threshold to start from, of the scores [N] of all chips, see `estimates.first_threshold`."""
        return estimates.first_threshold(scores[self.is_unlabeled], self.start_k())

    def facts(self, method: str, preset: str, score_type: str, threshold: float) -> RunFacts:
        """Return what these inputs say of a run; `train.finish` adds what its scores say."""
        return RunFacts(
            method,
            preset,
            self.chip_set,
            self.pu.at_event,
            int(self.pu.is_positive.sum()),
            int(self.is_unlabeled.sum()),
            score_type,
            threshold,
            start_k=0,
            n_accepted=self.n_accepted,
            n_hidden=self.n_hidden,
            feature_set=self.feature_set,
            feature_maker=self.feature_maker,
            views=tuple(view.name for view in self.layers),
        )

    def prior(self) -> float | None:
        """Guess the damaged share of what a method takes for unlabeled, see `estimates.prior_of`."""
        pu = self.pu
        return estimates.prior_of(self.prepared(), pu.is_positive, is_excluded=pu.is_excluded, is_accepted=self.is_accepted)

    def without(self, lacks_all: Bools) -> RunInputs:
        """Return these inputs with more buildings, bool [N], left out: they have none of the layers that are learned
        from.
        """
        if not lacks_all.any():
            return self
        is_hidden = lacks_all if self.is_hidden is None else self.is_hidden | lacks_all
        return replace(self, pu=self.pu.without(lacks_all), is_hidden=is_hidden)

    def with_types(self, layout: Layout, types_from: str | None, card: MethodCard) -> RunInputs:
        """Return these inputs with the damage types of their clicks, for a method.

        Nobody named the types of accepted clusters: a method that learns several types takes their buildings as damaged, of
        types that nobody said; any other one would make them a type of their own, and passes them over.

        Args:
            types_from: see `damage_types.read`; None for no types.

        Raises:
            TrainingError: if nobody named any there.
        """
        if not types_from:
            return self
        types = store.call(layout, damage_types.read, self.pu, types_from, at_choice=self.at_choice)
        found = replace(self, types=types, types_from=types_from, takes_several=card.several_types)
        if card.several_types:
            return found
        return replace(found, is_accepted=None, n_passed_over=self.n_accepted)

    def data(self, layout: Layout, settings: NetworkSettings, *, takes_layers: bool = False) -> PUData:
        """Return what a method learns from: cached features or chips, as the settings ask.

        Args:
            takes_layers: see `MethodCard`; else chips are those of pre and post alone.
        """
        views: tuple[View, ...] = ()
        is_missing = None
        if settings.backbone == FEATURES:
            inputs: FeatureViews | ChipImages = FeatureViews(np.asarray(self.views))
            views, is_missing = self.layers, self.is_missing
        else:
            facts = chip_facts(layout, self.chip_set)
            is_layered = takes_layers and "views" in facts
            chips = read_array(layout.chips(self.chip_set)) if is_layered else optical_chips(layout, self.chip_set)
            inputs = ChipImages(chips, settings.augmentation)
            if is_layered:
                views, is_missing = contents.views_of(facts), contents.is_missing(facts)
        kinds: Mapping[int, str] = {}
        if self.types is not None:
            kinds = {int(row): self.types.kinds.get(int(row), UNNAMED) for row in np.flatnonzero(self.learned_as_positive)}
        found = self.marked(inputs, kinds)
        xy_m, why_no_place = places(layout, self.pu.building_ids)
        found = replace(found, xy_m=xy_m, why_no_place=why_no_place, views=views, is_missing=is_missing)
        if self.types is None:
            return found
        types = self.types
        return replace(found, type_labels=types.labels, type_names=types.names, is_ordinal=types.is_ordinal)

    def marked(self, inputs: FeatureViews | ChipImages, types: Mapping[int, str] | None = None) -> PUData:
        """Return inputs with what was answered, without places; `types` as in `pu_data`."""
        pu = self.pu
        return pu_data(
            inputs, self.learned_as_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged, types=types,
            is_accepted=self.is_accepted, is_queued=pu.is_queued,
        )  # fmt: skip


def read_inputs(layout: Layout, begun: Path | None = None, feature_set: str = "") -> RunInputs:
    """Read the newest chip set of a project, and its labels.

    Args:
        begun: folder in a job's of a training that may have begun before. It goes on with the labels it began with, whatever
            was clicked since, and the features it began with; what it left behind is thrown away where there are other chips
            by now, and an event says so.
        feature_set: whose features; "" for the set in use, see `feature_sets.in_use`.

    Raises:
        ProjectError: if there are no chips yet, they show a former picture, or they have no such features.
    """
    chip_set = freshness.require(layout)
    with store.connect(layout) as db:
        used = feature_sets.InUse(feature_set) if feature_set else feature_sets.in_use(db, layout, chip_set)
        newest: dict[str, Any] = {
            "chip_set": chip_set,
            "at_event": labels.last_event(db),
            "at_decision": decisions.last_decision(db),
            "at_choice": choices.last_choice(db),
            "feature_set": used.name,
        }
        known: Facts = _pinned(begun, newest) if begun else newest
        facts = chip_facts(layout, chip_set)
        name = str(known.get("feature_set", RCF))
        maker = feature_sets.find(layout, chip_set, name).maker
        lacks_all = feature_sets.lacks_all([view.name for view in feature_sets.views_of(maker)], facts)
        is_hidden = assessability.reasons(facts, lacks_all=lacks_all) != ""
        pu = labels.pu_set(db, at=known["at_event"], ids=facts["building_ids"]).without(is_hidden)
        at_decision = known.get("at_decision", 0)
        is_accepted = pseudo_positives.is_accepted(db, pu, at=at_decision)
    views = feature_sets.views(layout, chip_set, name)
    is_accepted &= ~is_hidden
    return RunInputs(
        chip_set, views, pu, is_accepted if is_accepted.any() else None, at_decision,
        is_hidden=is_hidden if is_hidden.any() else None, feature_set=name,
        feature_note=used.note if name == used.name else "", feature_maker=maker, at_choice=known.get("at_choice"),
        is_missing=feature_sets.is_missing(maker, facts), layers_lacking=feature_sets.lacking_words(maker, facts),
    )  # fmt: skip


def read_to_train(layout: Layout, begun: Path, request: TrainingRequest) -> tuple[RunInputs, PUData]:
    """Read what a training learns from: its inputs, and what its method makes of them; see `read_inputs`.

    Raises:
        TrainingError: if there are too few labels, or none of the damage types that are asked for.
    """
    card = request.card
    inputs = read_inputs(layout, begun, "".join(request.feature_sets[:1]) if request.takes_features else RCF)
    require_labels(card, int(inputs.pu.is_positive.sum()), int(inputs.pu.is_not_damaged.sum()))
    pu, held_out = set_aside(inputs.pu, request.hold_out, request.seed, card)
    inputs = replace(inputs, pu=pu, held_out=held_out).with_types(layout, request.types_from, card)
    data = inputs.data(layout, request.settings, takes_layers=card.takes_layers)
    lacking = feature_sets.words_of_missing([view.name for view in data.views], data.is_missing)
    return replace(inputs, layers_lacking=lacking), data


def others_to_average(layout: Layout, inputs: RunInputs, request: TrainingRequest) -> dict[str, RunInputs]:
    """Return the inputs of a training with the further feature sets that it averages, by name; none of most methods."""
    if not request.takes_features or not request.card.averages_features:
        return {}
    sets = feature_sets.all_sets(layout, inputs.chip_set)
    makers = {one.name: one.maker for one in sets}
    return {
        name: replace(
            inputs, views=feature_sets.views(layout, inputs.chip_set, name), feature_maker=makers[name], is_missing=None
        )
        for name in (request.feature_sets or feature_sets.to_average(sets, inputs.feature_set))[1:]
    }


def _pinned(begun: Path, newest: Facts) -> Facts:
    """Return the label event and the decision that a training began with; note them where the training begins now."""
    note = begun / BEGAN_WITH
    if note.exists():
        facts: Facts = read_json(note)
        if facts["chip_set"] == newest["chip_set"]:
            return facts
        events.append(
            begun.parent, events.BEGUN_ANEW
        )  # first: killed between the two, it is reported twice rather than never
        remove_path(begun)
    make_folder(begun)
    write_json(note, newest)
    return newest


def set_aside(pu: PUSet, n: int, seed: int, card: MethodCard) -> tuple[PUSet, Ints]:
    """Draw positives that are not learned from, neither as positives nor as unlabeled.

    Args:
        pu: all that was clicked.
        n: how many; 0 for none.
        seed: the same one draws the same positives.
        card: of the method that shall learn from the rest.

    Returns:
        What is left to learn from, where the drawn ones are left out; and their rows, int64 [n], rising.

    Raises:
        TrainingError: if fewer positives would be left than the method needs, or n is below 0.
    """
    positive = np.flatnonzero(pu.is_positive & ~pu.is_excluded)
    left = len(positive) - n
    if n < 0 or (n > 0 and left < card.min_positives):
        raise TrainingError(
            f"{n} held-out clicks of {len(positive)} damaged buildings would leave {max(left, 0)}; {card.title} needs at "
            f"least {card.min_positives}.",
            f"Hold out {max(len(positive) - card.min_positives, 0)} at most, or mark more buildings on the Annotate page.",
            kind="hold_out",
        )
    rows = np.sort(np.random.default_rng([seed, _HOLD_OUT_STREAM]).choice(positive, n, replace=False))
    is_held_out = np.zeros(len(pu.is_positive), np.bool_)
    is_held_out[rows] = True
    return pu.without(is_held_out), rows


def unlabeled_to_judge(layout: Layout, inputs: RunInputs) -> Ints:
    """Return the rows of the unlabeled that a run is judged by beside its held-out clicks, int64, rising.

    These are not quite those that it learns from, see `is_unlabeled`.
    """
    pu = inputs.pu
    answers = store.call(layout, labels.current_labels, at=pu.at_event)
    why = assessability.reasons(chip_facts(layout, inputs.chip_set), lacks_all=inputs.is_hidden)
    is_clicked = pu.is_positive | (why != "") & np.array(
        [answers.get(one) == "positive" for one in pu.building_ids], np.bool_
    )
    is_clicked[inputs.held_out] = True
    is_hidden = assessability.is_hidden(pu.building_ids, answers, why)
    return np.flatnonzero(is_unlabeled(is_clicked, is_hidden))


def places(layout: Layout, building_ids: Sequence[str]) -> tuple[Floats | None, str]:
    """Return the centers of buildings, metres, float64 [N, 2]; or None, and why distances between them are not known."""
    with store.connect(layout) as db:
        if not contents.grid(db).has_place:
            return None, "this project has no place on the Earth"
        xy_m = contents.centers_m(db, building_ids)
    n_gone = int((~np.isfinite(xy_m).all(1)).sum())
    if n_gone:
        return None, f"{n_gone:,} of {len(xy_m):,} buildings have no footprint any more"
    return xy_m, ""
