"""HeroCon: several views of a building and several types of damage; `fit` minimises Eq. 1 of the paper.

Views are the named ones of the data (`PUData.views`), the two dates of chips with pre and post bands, or else two
augmentations (paper, footnote to Section 3.1).

Departs from the source: Eq. 5 compares views of one date alone, and two augmentations of a view that is alone in its date,
as the footnote has it. Views of two dates differ by what the event did, and pulled together they forget it: on Joplin the
AUC was .93 with alpha 0 and .52 with alpha .5. `across_dates` gives the paper's form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.analysis.ranker import KNOWN_WEIGHT
from pu_geo.errors import ShapeError, TrainingError
from pu_geo.losses import herocon as formulas
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.linear import estimated_class_prior
from pu_geo.methods.pretraining import (
    N_DATES,
    PAIR,
    PairFeatureExtractor,
    ViewFeatureExtractor,
    empty_extractor,
    empty_view_extractor,
    is_pair,
    known_anyway,
    mean_of_present,
    missing_dates,
    new_extractor,
    new_pair_extractor,
    new_view_extractor,
    training_span,
)
from pu_geo.training.data import (
    NOT_DAMAGED,
    UNKNOWN,
    Bools,
    ChipImages,
    FeatureViews,
    Ints,
    PUData,
    batches_with_labeled,
    epochs_within,
    n_batches,
)
from pu_geo.training.heads import linear
from pu_geo.training.loop import MicroBatcher, Training, model_of, stepped
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives, require_views
from pu_geo.training.optim import new_optimizer, warmup_schedule
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features


class HeroconNetwork(nn.Module):
    """Encoder (E of the paper), the map H, and linear classifiers.

    One classifier judges all views of which each has a linear map of its own into Z: named views, up to one of each network,
    or augmentations. So those that tell damage point one way in Z, of which `represent` takes the mean, and weight decay
    draws no view to zero by itself. With a map and a classifier of its own each, decay of both weighs the sum of the views'
    lengths, a penalty that keeps few views: of three that told damage alike it kept two, and buildings that had the third
    alone had no score. Several views of one network ("pre", "post") have a classifier each, without which their difference
    could not count.

    Args:
        extractor: `PairFeatureExtractor` or `ViewFeatureExtractor` where inputs hold several views; else it makes one of
            each.
        kinds: see the attribute.
        has_other: whether a building may be damaged and have none of the types: that has log odds of its own.
        is_ordinal: see `PUData`.

    Attributes:
        kinds: class numbers of the c types of damage, in the classifiers' order, int64 [c].
        offsets: of a scale alone: what `on_scale` adds to the log odds of each step, float32 [c], or [1 + c] where damaged
            at all is a step before them.
        places: number of each view's classifier.
    """

    kinds: Tensor
    offsets: Tensor
    takes_views = True

    def __init__(
        self, extractor: FeatureExtractor, kinds: Tensor, settings: HeroconSettings, generator: torch.Generator, *,
        has_other: bool = False, is_ordinal: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = extractor.out_dims if isinstance(extractor, ViewFeatureExtractor) else (extractor.out_dim,)
        dim = settings.embedding_dim or widths[0]
        if any(width != dim for width in widths) and not settings.embedding_dim:
            raise ShapeError(f"views are of {', '.join(map(str, widths))} numbers each; an embedding_dim makes them alike.")
        self.trunk = extractor
        outs = [linear(width, dim, generator) if settings.embedding_dim else nn.Identity() for width in widths]
        self.out, self.more_outs = outs[0], nn.ModuleList(outs[1:])
        self.mapping = nn.Sequential(linear(dim, dim, generator), nn.Sigmoid())
        n_outputs = len(kinds) + has_other
        self.places = _places(extractor, has_map=settings.embedding_dim > 0)
        self.classifiers = nn.ModuleList([linear(dim, n_outputs, generator) for _ in range(max(self.places) + 1)])
        self.register_buffer("kinds", kinds.clone())
        self.has_other, self.is_ordinal = has_other, is_ordinal
        if is_ordinal:
            self.register_buffer("offsets", torch.zeros(n_outputs))

    @property
    def n_views(self) -> int:
        """Views that one input holds; 0 where each input is a view."""
        if isinstance(self.trunk, ViewFeatureExtractor):
            return self.trunk.n_views
        return N_DATES if isinstance(self.trunk, PairFeatureExtractor) else 0

    def views(self, inputs: Sequence[Tensor], is_missing: Tensor) -> Tensor:
        """Compute Z, float [V, B, E]: of all views of one input [B, ...], or of inputs [B, ...] that are views.

        Rows of missing views hold nothing of use.
        """
        if isinstance(self.trunk, ViewFeatureExtractor):
            outs = [self.out, *self.more_outs]
            each = zip(self.trunk.each(inputs[0], is_missing), self.trunk.groups.tolist(), strict=True)
            return torch.stack([cast(Tensor, outs[group](rows)) for rows, group in each])
        if isinstance(self.trunk, PairFeatureExtractor):
            return cast(Tensor, self.out(self.trunk.each(inputs[0], is_missing)))
        return torch.stack([cast(Tensor, self.out(self.trunk(view))) for view in inputs])

    def logits(self, views: Tensor, is_missing: Tensor) -> Tensor:
        """Judge Z, float [V, B, E]: log odds of each type and of damaged at all, float [B, c + 1], from the views that are
        there.

        The classifiers' numbers add up over named views, as evidence does: a missing one adds none. Over two dates or two
        augmentations they are averaged. Types: weights that decay to nothing mean even odds of damaged, to which
        each contributes alike; the odds of damaged are the sum of theirs, and of those of "another type" where there are
        any. A scale: each step has log odds of its own, see `on_scale`; damaged at all is the first step, or stands before
        it where a building may be below the scale.
        """
        places = self.places if self.n_views else self.places * len(views)
        each = [self.classifiers[place](view) for place, view in zip(places, views, strict=True)]
        is_left_out = known_anyway(is_missing)
        found = mean_of_present(torch.stack(each), is_left_out)
        if isinstance(self.trunk, ViewFeatureExtractor):
            found = found * (~is_left_out).sum(dim=0)[:, None]
        if not self.is_ordinal:
            return with_union(found - math.log(found.shape[1]), n_types=len(self.kinds))
        return found if self.has_other else torch.cat([found, found[:, :1]], dim=1)

    def on_scale(self, logits: Tensor) -> Tensor:
        """Make log odds of a scale, float [B, c + 1], such that none is above one of a lower step; as they are without a
        scale.

        Ours: "at least major" is the least of its own log odds and of those of all steps below, so scores contradict for no
        weights. In training (`balanced_weights`) damaged and undamaged weigh alike at every step, as if "at least minor" and
        "destroyed" were as frequent; `offsets` take that back first, else the least would often be that of a lower step.
        Training itself does not see the least: one classifier's log odds would then be another's, too, and with few answers
        the order of "destroyed" would be that of "damaged".
        """
        if not self.is_ordinal:
            return logits
        steps = logits.roll(1, dims=1) if self.has_other else logits[:, :-1]
        least = (steps + self.offsets).cummin(dim=1).values
        return torch.cat([least[:, -len(self.kinds) :], least[:, :1]], dim=1)

    def represent(self, inputs: Tensor, is_missing: Tensor | None = None) -> Tensor:
        """Embed inputs [B, ...]: the mean of Z over the views that are there, float [B, E], not normalised."""
        gone = self.missing(inputs, is_missing)
        return mean_of_present(self.views([inputs], gone), known_anyway(gone))

    def kind_margins(self, inputs: Tensor, is_missing: Tensor | None = None) -> Tensor:
        """Judge inputs [B, ...]: log odds of each type of damage, float [B, c]."""
        gone = self.missing(inputs, is_missing)
        return self.on_scale(self.logits(self.views([inputs], gone), gone))[:, :-1]

    def margin(self, inputs: Tensor, is_missing: Tensor | None = None) -> Tensor:
        """Log odds of damaged, float [B]: see `logits`."""
        gone = self.missing(inputs, is_missing)
        return self.logits(self.views([inputs], gone), gone)[:, -1]

    def missing(self, inputs: Tensor, is_missing: Tensor | None) -> Tensor:
        """Return the missing views, bool [V, B]: as given, else read off chips as they were cut, else none."""
        if isinstance(self.trunk, ViewFeatureExtractor) and is_missing is not None:
            return is_missing
        if isinstance(self.trunk, PairFeatureExtractor):
            return missing_dates(inputs)
        return torch.zeros(max(self.n_views, 1), len(inputs), dtype=torch.bool, device=inputs.device)


def _places(extractor: FeatureExtractor, *, has_map: bool) -> tuple[int, ...]:
    """Number the classifiers of an extractor's views, see `HeroconNetwork`; one number where each input is a view.

    Args:
        has_map: whether each network ends in a map into Z; else views are judged as they are, each by a classifier of its
            own.
    """
    if isinstance(extractor, PairFeatureExtractor):
        return tuple(range(N_DATES))
    if not isinstance(extractor, ViewFeatureExtractor):
        return (0,)
    groups = extractor.groups.tolist()
    return tuple(groups[:view].count(group) if has_map else view for view, group in enumerate(groups))


@dataclass
class Learner:
    """What the training carries from step to step: a network, the optimiser of all its weights, and its schedule."""

    network: HeroconNetwork
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler


@dataclass(frozen=True)
class Batch:
    """Chips of one step, or of a piece of it.

    Attributes:
        inputs: two augmentations [B, ...] each.
        is_missing: bool [V, B]; of the two augmentations where these are the views.
        labels: Y of the paper and a last column for "damaged at all", float [B, c + 1]; all zero for what is not damaged
            and for what nobody labeled.
        is_known: labels that L_c and L_s read, bool [B, c + 1]: of a damaged building those that somebody gave; of an
            unlabeled one, which only L_c reads, all but those in `Labels.is_answered_alone`; of an undamaged one all.
        is_labeled: whether a person labeled it, bool [B].
        weights: see `balanced_weights`, float [B, c + 1].
    """

    inputs: list[Tensor]
    is_missing: Tensor
    labels: Tensor
    is_known: Tensor
    is_labeled: Tensor
    weights: Tensor

    def part(self, part: slice) -> Batch:
        """Return some of the chips."""
        rows = {name: getattr(self, name)[part] for name in ("labels", "is_known", "is_labeled", "weights")}
        return replace(self, inputs=[view[part] for view in self.inputs], is_missing=self.is_missing[:, part], **rows)


@dataclass(frozen=True)
class Labels:
    """What people answered of each chip.

    Attributes:
        numbers: of the c types among the classes, int64 [c]. names: of these.
        has_type: int8 [N, c]: 1, 0, or -1 where nobody answered.
        is_damaged, is_labeled: bool [N].
        has_other: whether a damaged building has none of the types.
        is_ordinal: see `PUData`.
        is_answered_alone: which types are learned from answers alone, bool [c]: the steps of a scale above damaged at all
            that somebody denied. Unlabeled chips are taken to lack any other type.
    """

    numbers: Ints
    names: tuple[str, ...]
    has_type: NDArray[np.int8]
    is_damaged: Bools
    is_labeled: Bools
    has_other: bool
    is_ordinal: bool
    is_answered_alone: Bools


@one_thread_on_features
def fit(data: PUData, settings: HeroconSettings, run: Run) -> TrainedModel:
    """Train HeroCon; every step takes the labeled chips, and the next ones of the unlabeled.

    Source: HeroCon, Eq. 1, with L_u of Eq. 5 over all chips of the step and L_s of Eq. 7 over the labeled ones.

    Args:
        run: each epoch reports loss, loss_cls, loss_unsupervised and loss_supervised.

    Returns:
        The model; findings: "kinds", the names of the types of damage that `HeroconNetwork.kind_margins` judges: those that
        a damaged building has.

    Raises:
        TrainingError: without a second view, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: L_c takes unlabeled chips for undamaged, since positives alone hold no information about those
    (of a scale only where answers say too little: `Labels.is_answered_alone`, and less, as `KNOWN_WEIGHT` says), and
    has "damaged at all" as one more label, without which kinds learned one by one order buildings worse than one kind
    would. Views are judged one by one, and what they say is added up or averaged over those that are there, see
    `HeroconNetwork`, in place of one classifier on all joined; with all there the two can express the same. L_u compares
    views of one date alone, see the module. Optimiser, schedule, weight decay and `pretrain_epochs` are ours.
    """
    data = _without_plain_views(data)
    rows = _with_a_view(data, run)
    require_positives(data, rows, "HeroCon")
    labels = answered(data, rows, run)
    is_labeled = labels.is_labeled[rows]
    _check(data, labels, rows, settings, run)
    n_steps = n_batches(int((~is_labeled).sum()), settings.batch_size)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    learner, pieces = _new_learner(data, rows, labels, settings, run, n_epochs * n_steps), MicroBatcher(run)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=model_of(learner)).epochs():
        drawing = epoch.generator(4)
        with epoch:
            for numbers in batches_with_labeled(is_labeled, settings.batch_size, settings.labeled_batch, epoch.generator(3)):
                batch = _draw(data, rows[numbers], labels, learner.network, settings, drawing)
                epoch.add(_step(learner, pieces, batch, settings))
    return TrainedModel(learner.network.eval(), learner.network.trunk, {"kinds": labels.names})


def from_state(state: Mapping[str, Tensor], settings: HeroconSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    shape = tuple(int(size) for size in state["trunk.input_shape"])
    if "trunk.spans" in state:
        extractor: FeatureExtractor = empty_view_extractor(state, settings)
    elif is_pair(shape):
        extractor = PairFeatureExtractor(shape, settings, torch.Generator())
    else:
        extractor = empty_extractor(state, settings)
    n_other = len(state["classifiers.0.bias"]) - len(state["kinds"])
    if n_other not in (0, 1):
        raise ShapeError(
            f"classifiers of {len(state['classifiers.0.bias'])} numbers do not judge {len(state['kinds'])} types."
        )
    network = HeroconNetwork(
        extractor, state["kinds"], settings, torch.Generator(), has_other=n_other == 1, is_ordinal="offsets" in state
    )
    return TrainedModel.loaded(network, state, device)


def with_union(logits: Tensor, n_types: int | None = None) -> Tensor:
    """Add the log odds of "damaged at all", float [B, c + 1]: the sum of the odds of all columns, float [B, c or more].

    Args:
        n_types: c, how many columns are kept; all if None.
    """
    return torch.cat([logits[:, :n_types], logits.logsumexp(dim=1, keepdim=True)], dim=1)


def balanced_weights(
    labels: Tensor, is_labeled: Tensor, unlabeled_weight: float, is_known: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Weigh chips in the cross entropy of each kind and of "damaged at all", which counts as much as all kinds together.

    In each, chips with the label and chips without weigh one half. Unlabeled chips are among those without, where the label
    is not known from answers alone. A kind that no chip of the step has, or none lacks, is left out: the other half alone
    would only push it down, or up.

    Args:
        labels, is_labeled, is_known: see `Batch`; all labels are known if None.
        unlabeled_weight: of an unlabeled chip, against a labeled one.

    Returns:
        float [B, c + 1]; the rows' sums have mean 1 where any chip is damaged.
    """
    counted = torch.where(is_labeled, 1.0, unlabeled_weight)[:, None]
    if is_known is not None:
        counted = counted * is_known
    sides = torch.stack([labels * counted, (1 - labels) * counted])
    shares = (sides / sides.sum(dim=1, keepdim=True).clamp_min(1e-12)).sum(dim=0)
    is_used = (sides.sum(dim=1) > 0).all(dim=0).float()
    is_used[:-1] /= is_used[:-1].sum().clamp_min(1)
    return shares * is_used * (len(labels) / 4)


def losses(network: HeroconNetwork, batch: Batch, settings: HeroconSettings) -> dict[str, Tensor]:
    """Compute Eq. 1. Returns scalars: "loss", and its three terms without their weights."""
    found, labeled = _views(network, batch, settings), batch.is_labeled
    costs = functional.binary_cross_entropy_with_logits(found.logits, batch.labels, reduction="none")
    terms = {
        "loss_cls": (costs * batch.weights).sum(dim=1).mean(),
        "loss_unsupervised": formulas.multi_view_loss(
            found.compared, network.mapping(found.compared), is_missing=found.is_left_out, dates=found.dates,
            temperature=settings.temperature,
        ),
        "loss_supervised": costs.new_zeros(()),
    }  # fmt: skip
    if labeled.any():  # a piece may hold none
        terms["loss_supervised"] = formulas.supervised_loss(
            found.joined[:, labeled], batch.labels[labeled, :-1].bool(), is_missing=found.is_missing[:, labeled],
            is_known=batch.is_known[labeled, :-1], temperature=settings.temperature,
        )  # fmt: skip
    total = formulas.total_loss(
        *terms.values(), unsupervised_weight=settings.unsupervised_weight, supervised_weight=settings.supervised_weight
    )
    return {"loss": total, **terms}


@dataclass(frozen=True)
class _Views:
    """What the three terms are made of.

    Attributes:
        logits: see `HeroconNetwork.logits`, float [B, c + 1].
        joined, is_missing: the parts of S in Eq. 7, float [S, B, E], and which are missing, bool [S, B].
        compared, is_left_out, dates: the views of Eq. 5, float [U, B, E], which are left out, bool [U, B], and their dates.
    """

    logits: Tensor
    joined: Tensor
    is_missing: Tensor
    compared: Tensor
    is_left_out: Tensor
    dates: list[int] | None


def _views(network: HeroconNetwork, batch: Batch, settings: HeroconSettings) -> _Views:
    """Compute the views of a batch, and which of them Eq. 5 compares.

    A view that a chip has alone in its date is compared with its second augmentation. Chips are judged by the first one;
    cached features, whose views cost little, by both.
    """
    gone = batch.is_missing
    if not network.n_views:
        views = network.views(batch.inputs, gone)
        return _Views(network.logits(views, gone), views, gone, views, gone, None)
    first = network.views(batch.inputs[:1], gone)
    dates = dates_of(network, settings)
    same = torch.tensor([[float(a == b) for b in dates] for a in dates], device=gone.device)
    is_second_out = gone | (same @ (~gone).float() > 1)  # another view of its date is there
    if settings.unsupervised_weight == 0:
        is_second_out = torch.ones_like(gone)
    is_cached = batch.inputs[0].ndim == 2
    if not is_cached and is_second_out.all():
        return _Views(network.logits(first, gone), first, gone, first, gone, dates)
    second = network.views(batch.inputs[1:], gone if is_cached else is_second_out)
    both, left_out = torch.cat([first, second]), torch.cat([gone, is_second_out])
    if not is_cached:
        return _Views(network.logits(first, gone), first, gone, both, left_out, dates * 2)
    logits = (network.logits(first, gone) + network.logits(second, gone)) / 2
    return _Views(logits, both, torch.cat([gone, gone]), both, left_out, dates * 2)


def dates_of(network: HeroconNetwork, settings: HeroconSettings) -> list[int]:
    """Number the views of an input by their date, for Eq. 5: those of no date have one each; all have one across dates."""
    if settings.across_dates:
        return [0] * network.n_views
    if not isinstance(network.trunk, ViewFeatureExtractor):
        return list(range(network.n_views))
    return [date or -number for number, date in enumerate(network.trunk.dates.tolist(), 1)]


def _without_plain_views(data: PUData) -> PUData:
    """Return the data without named views where these are what a set without layers has: the two dates, or one view."""
    shape = data.inputs.shape
    is_one = len(data.views) == 1 and (data.views[0].start, data.views[0].stop) == (0, shape[0]) and data.is_missing is None
    is_plain_pair = is_pair(shape) and tuple(data.views) == PAIR
    return replace(data, views=(), is_missing=None) if is_one or is_plain_pair else data


def _with_a_view(data: PUData, run: Run) -> Ints:
    """Return the rows that are trained on, int64 [M]: those that have a view; a warning says how many have none."""
    rows = data.trained_rows
    if data.is_missing is None:
        return rows
    has_none = data.is_missing[:, rows].all(axis=0)
    if has_none.any():
        run.warnings.append(f"{int(has_none.sum()):,} buildings have none of the views, so nothing was learned from them.")
    return rows[~has_none]


def answered(data: PUData, rows: Ints, run: Run) -> Labels:
    """Return what people answered; types that no damaged building of `rows` has are left out, and a warning names them."""
    is_labeled = data.classes != UNKNOWN
    if data.type_labels is not None:
        is_had = (data.type_labels[rows] == 1).any(axis=0)
        unused = [name for name, is_used in zip(data.type_names, is_had, strict=True) if not is_used]
        if unused:
            run.warnings.append(
                f"No building that was learned from has the damage type {', '.join(unused)}, so it has no score."
            )
        if is_had.any():
            kept = data.type_labels[:, is_had]
            has_type = np.where((data.classes == NOT_DAMAGED)[:, None], 0, kept).astype(np.int8)
            of_damaged = has_type[rows][data.is_positive[rows]]
            has_other = (of_damaged[:, 0] == 0).any() if data.is_ordinal else (of_damaged == 0).all(axis=1).any()
            names = tuple(name for name, is_used in zip(data.type_names, is_had, strict=True) if is_used)
            numbers = 1 + np.flatnonzero(is_had)
            is_denied = (has_type[rows] == 0).any(axis=0) & data.is_ordinal
            is_denied[0] &= has_other  # else the first step is damaged at all
            return Labels(
                numbers, names, has_type, data.is_positive, is_labeled, bool(has_other), data.is_ordinal, is_denied
            )
    numbers = np.unique(data.classes[rows][data.is_positive[rows]])
    has_type = (data.classes[:, None] == numbers).astype(np.int8)
    names = tuple(data.class_names[number] for number in numbers)
    is_denied = np.zeros(len(numbers), np.bool_)
    return Labels(numbers, names, has_type, data.is_positive, is_labeled, False, False, is_denied)


def _new_learner(data: PUData, rows: Ints, labels: Labels, settings: HeroconSettings, run: Run, n_steps: int) -> Learner:
    """Set up network, optimiser and schedule (linear warm-up over a tenth of the steps, then a cosine)."""
    build = new_view_extractor if data.views else new_pair_extractor if is_pair(data.inputs.shape) else new_extractor
    extractor: FeatureExtractor = build(data, rows, settings, run)
    network = HeroconNetwork(
        extractor, torch.from_numpy(labels.numbers), settings, run.generator(1), has_other=labels.has_other,
        is_ordinal=labels.is_ordinal,
    ).to(run.device)  # fmt: skip
    if labels.is_ordinal:
        network.offsets.copy_(torch.from_numpy(offsets_of(labels, rows)))
    decay = settings.weight_decay or _weight_decay(data, rows, extractor, run) / _share_of_classifier(network)
    optimizer = new_optimizer(settings.optimizer, network, settings.lr, decay)
    return Learner(network, optimizer, warmup_schedule(optimizer, n_steps))


def offsets_of(labels: Labels, rows: Ints) -> NDArray[np.float32]:
    """Return how much rarer each step of a scale is than its first one among the answers, in log odds, float32 [c or 1 + c].

    Half a building is added to either side, so that a step that all have, or none, has odds.
    """
    is_damaged = labels.is_damaged[rows, None]
    steps = labels.has_type[rows]
    if labels.has_other:
        steps = np.concatenate([np.where(is_damaged, 1, steps[:, :1]), steps], axis=1)
    steps = steps[labels.is_labeled[rows]]
    odds = np.log((steps == 1).sum(axis=0) + 0.5) - np.log((steps == 0).sum(axis=0) + 0.5)
    return (odds - odds[0]).astype(np.float32)


def _share_of_classifier(network: HeroconNetwork) -> float:
    """Return by how much the chosen weight decay is divided where named views have several classifiers.

    Ours. Decay of the two factors of a linear map weighs its length; the lengths of n parts of one vector sum to up to
    sqrt(n) times its own. Without this, three views of a classifier each were drawn to zero (made-up views: AUC .87 for
    .96).
    """
    return math.sqrt(len(network.classifiers)) if isinstance(network.trunk, ViewFeatureExtractor) else 1.0


def _weight_decay(data: PUData, rows: Ints, extractor: FeatureExtractor, run: Run) -> float:
    """Choose the weight decay: the more damage hides in the unlabeled, the less may single ones of them be trusted.

    Ours: 0.8 of the estimated share, as was best for SGD on cached features of real chips, from 0.03 (Harvey, up to 5 % of
    the unlabeled damaged) to 0.4 (Joplin, 58 %). 0.1 where there are too few chips to estimate the share from.
    """
    positive, unlabeled = rows[data.is_positive[rows]], rows[data.classes[rows] == UNKNOWN]
    if min(len(positive), len(unlabeled)) < 2:
        return 0.1
    return min(max(0.03, 0.8 * estimated_class_prior(data, positive, unlabeled, extractor, run)), 0.4)


def _draw(
    data: PUData, rows: Ints, labels: Labels, network: HeroconNetwork, settings: HeroconSettings,
    generator: torch.Generator,
) -> Batch:  # fmt: skip
    """Make a batch of chips in two augmentations. Which of two dates are missing is read off the chips as they were cut."""
    device = network.kinds.device
    if isinstance(network.trunk, PairFeatureExtractor):
        plain, *inputs = data.inputs.draw(rows, ("plain", "strong", "strong"), generator, device)
        is_missing = missing_dates(plain)
    else:
        inputs = data.inputs.draw(rows, ("strong", "strong"), generator, device)
        is_missing = torch.zeros(network.n_views or len(inputs), len(rows), dtype=torch.bool, device=device)
        if network.n_views and data.is_missing is not None:
            is_missing = torch.from_numpy(data.is_missing[:, rows]).to(device)
    has_type, is_damaged = labels.has_type[rows], labels.is_damaged[rows][:, None]
    answers = np.concatenate([has_type == 1, is_damaged], axis=1)
    # L_c takes an unlabeled chip for undamaged, which has no type of damage; steps of a scale that were denied need none.
    known = np.concatenate(
        [(has_type != UNKNOWN) | ~is_damaged & ~labels.is_answered_alone, np.ones_like(is_damaged)], axis=1
    )
    is_had, is_known, is_labeled = (torch.from_numpy(each).to(device) for each in (answers, known, labels.is_labeled[rows]))
    unlabeled_weight = settings.unlabeled_weight / (KNOWN_WEIGHT if labels.is_ordinal else 1)
    weights = balanced_weights(is_had.float(), is_labeled, unlabeled_weight, is_known)
    return Batch(inputs, is_missing, is_had.float(), is_known, is_labeled, weights)


def _step(learner: Learner, pieces: MicroBatcher, batch: Batch, settings: HeroconSettings) -> dict[str, Tensor]:
    """Move the weights once."""
    return stepped(learner, pieces, len(batch.is_labeled), lambda part: losses(learner.network, batch.part(part), settings))


def _check(data: PUData, labels: Labels, rows: Ints, settings: HeroconSettings, run: Run) -> None:
    """Refuse cached features that have no second view to compare, and colours drawn for layers; warn where L_s is zero."""
    beside = [view.name for view in data.views if view.name not in ("pre", "post")]
    if isinstance(data.inputs, ChipImages) and data.inputs.augmentation == "natural" and beside:
        raise TrainingError(
            f"The augmentation natural changes colours, which these layers do not have: {', '.join(beside)}.",
            "Set augmentation to aerial, which moves pixels alone.",
            kind="settings",
        )
    if settings.unsupervised_weight > 0 and len(data.views) < 2:
        require_views(data, "HeroCon", "train on another one, or set unsupervised_weight to 0")
    widths = {view.stop - view.start for view in data.views} if isinstance(data.inputs, FeatureViews) else set()
    if len(widths) > 1 and not (settings.embedding_dim or settings.width):
        raise TrainingError(
            "embedding_dim is 0, which takes features as they are, and the views have "
            f"{', '.join(map(str, sorted(widths)))}.",
            "Set embedding_dim to a number such as 64, so that all views become as long.",
            kind="settings",
        )
    of_labeled = labels.has_type[rows][labels.is_labeled[rows]]
    has_pair = ((of_labeled == 1).any(axis=0) & (of_labeled == 0).any(axis=0)).any()
    if settings.supervised_weight > 0 and not has_pair:
        alike, help_words = "All labeled buildings are of one kind", "name the kinds of damage"
        if data.type_labels is not None:
            alike, help_words = "No labeled building is known to lack a type", "answer no where one lacks a type"
        run.warnings.append(
            f"{alike}, so HeroCon had nothing to tell apart and is little more than cross entropy. Mark some buildings as "
            f"not damaged, or {help_words}."
        )
