"""HeroCon: several views of a building and several kinds of damage; `fit` minimises Eq. 1 of the paper.

Views of chips with pre and post bands are the two dates; else two augmentations (paper, footnote to Section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.errors import TrainingError
from pu_geo.losses import herocon as formulas
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.linear import estimated_class_prior
from pu_geo.methods.pretraining import (
    N_DATES,
    PairFeatureExtractor,
    empty_extractor,
    is_pair,
    mean_of_present,
    missing_dates,
    new_extractor,
    new_pair_extractor,
    training_span,
)
from pu_geo.training.data import UNKNOWN, FeatureViews, Ints, PUData, batches_with_labeled, epochs_within, n_batches
from pu_geo.training.heads import linear
from pu_geo.training.loop import MicroBatcher, Training, model_of
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.optim import new_optimizer, warmup_schedule
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features


class HeroconNetwork(nn.Module):
    """Encoder (E of the paper), the map H, and linear classifiers: one a date, or one where views are augmentations.

    Attributes:
        kinds: class numbers of the c kinds of damage, in the classifiers' order, int64 [c].
    """

    kinds: Tensor

    def __init__(
        self, extractor: FeatureExtractor, kinds: Tensor, settings: HeroconSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        dim = settings.embedding_dim or extractor.out_dim
        self.trunk = extractor
        self.out = linear(extractor.out_dim, dim, generator) if settings.embedding_dim else nn.Identity()
        self.mapping = nn.Sequential(linear(dim, dim, generator), nn.Sigmoid())
        n_classifiers = N_DATES if isinstance(extractor, PairFeatureExtractor) else 1
        self.classifiers = nn.ModuleList([linear(dim, len(kinds), generator) for _ in range(n_classifiers)])
        self.register_buffer("kinds", kinds.clone())

    def views(self, inputs: Sequence[Tensor], is_missing: Tensor) -> Tensor:
        """Compute Z, float [V, B, E]: of both dates of one input [B, 6, H, W], or of inputs [B, ...] that are views.

        Rows of missing views hold nothing of use.
        """
        if isinstance(self.trunk, PairFeatureExtractor):
            return cast(Tensor, self.out(self.trunk.each(inputs[0], is_missing)))
        return torch.stack([cast(Tensor, self.out(self.trunk(view))) for view in inputs])

    def kind_logits(self, views: Tensor, is_missing: Tensor) -> Tensor:
        """Judge Z, float [V, B, E]: log odds of each kind, float [B, c], the mean over the views that are there.

        Weights that decay to nothing mean even odds of damaged, to which each of c kinds contributes 1 / c.
        """
        each = [self.classifiers[number % len(self.classifiers)](view) for number, view in enumerate(views)]
        return mean_of_present(torch.stack(each), is_missing) - math.log(len(self.kinds))

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: the mean of Z over the views that are there, float [B, E], not normalised."""
        is_missing = self._missing(inputs)
        return mean_of_present(self.views([inputs], is_missing), is_missing)

    def kind_margins(self, inputs: Tensor) -> Tensor:
        """Judge inputs [B, ...]: log odds of each kind of damage, float [B, c]."""
        is_missing = self._missing(inputs)
        return self.kind_logits(self.views([inputs], is_missing), is_missing)

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged, float [B]: see `with_union`."""
        return with_union(self.kind_margins(inputs))[:, -1]

    def _missing(self, inputs: Tensor) -> Tensor:
        if isinstance(self.trunk, PairFeatureExtractor):
            return missing_dates(inputs)
        return torch.zeros(1, len(inputs), dtype=torch.bool, device=inputs.device)


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
        inputs: see `HeroconNetwork.views`.
        is_missing: bool [V, B].
        labels: Y of the paper and a last column for "damaged at all", float [B, c + 1]; all zero for what is not damaged
            and for what nobody labeled.
        is_labeled: whether a person labeled it, bool [B].
        weights: see `balanced_weights`, float [B, c + 1].
    """

    inputs: list[Tensor]
    is_missing: Tensor
    labels: Tensor
    is_labeled: Tensor
    weights: Tensor

    def part(self, part: slice) -> Batch:
        """Return some of the chips."""
        inputs = [view[part] for view in self.inputs]
        return Batch(inputs, self.is_missing[:, part], self.labels[part], self.is_labeled[part], self.weights[part])


@one_thread_on_features
def fit(data: PUData, settings: HeroconSettings, run: Run) -> TrainedModel:
    """Train HeroCon; every step takes the labeled chips, and the next ones of the unlabeled.

    Source: HeroCon, Eq. 1, with L_u of Eq. 5 over all chips of the step and L_s of Eq. 7 over the labeled ones.

    Args:
        run: each epoch reports loss, loss_cls, loss_unsupervised and loss_supervised.

    Returns:
        The model; findings: "kinds", the names of the kinds of damage that `HeroconNetwork.kind_margins` judges.

    Raises:
        TrainingError: without a second view, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: L_c takes unlabeled chips for undamaged, since positives alone hold no information about those, and
    has "damaged at all" as one more label, without which kinds learned one by one order buildings worse than one kind
    would. There is one classifier a date, averaged over the dates that are there, in place of one on both joined; with
    both there the two can express the same. Optimiser, schedule, weight decay and `pretrain_epochs` are ours.
    """
    rows = data.trained_rows
    require_positives(data, rows, "HeroCon")
    known = data.classes[rows]
    kinds, is_labeled = np.unique(known[data.is_positive[rows]]), known != UNKNOWN
    _check(data, known, settings, run)
    n_steps = n_batches(int((~is_labeled).sum()), settings.batch_size)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    learner, pieces = _new_learner(data, rows, kinds, settings, run, n_epochs * n_steps), MicroBatcher(run)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=model_of(learner)).epochs():
        drawing = epoch.generator(4)
        with epoch:
            for numbers in batches_with_labeled(is_labeled, settings.batch_size, settings.labeled_batch, epoch.generator(3)):
                batch = _draw(data, rows[numbers], known[numbers], learner.network, settings, drawing)
                epoch.add(_step(learner, pieces, batch, settings))
    return TrainedModel(learner.network.eval(), learner.network.trunk, {"kinds": tuple(data.class_names[k] for k in kinds)})


def from_state(state: Mapping[str, Tensor], settings: HeroconSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    shape = tuple(int(size) for size in state["trunk.input_shape"])
    extractor = (
        PairFeatureExtractor(shape, settings, torch.Generator()) if is_pair(shape) else empty_extractor(state, settings)
    )
    return TrainedModel.loaded(HeroconNetwork(extractor, state["kinds"], settings, torch.Generator()), state, device)


def with_union(logits: Tensor) -> Tensor:
    """Add the log odds of "damaged at all" to those of the kinds, float [B, c] to [B, c + 1]: the sum of the odds."""
    return torch.cat([logits, logits.logsumexp(dim=1, keepdim=True)], dim=1)


def balanced_weights(labels: Tensor, is_labeled: Tensor, unlabeled_weight: float) -> Tensor:
    """Weigh chips in the cross entropy of each kind and of "damaged at all", which counts as much as all kinds together.

    In each, chips with the label and chips without weigh one half. Unlabeled chips are among those without. A kind that no
    chip of the step has is left out: its other half alone would only push it down.

    Args:
        labels, is_labeled: see `Batch`.
        unlabeled_weight: of an unlabeled chip, against a labeled one.

    Returns:
        float [B, c + 1]; the rows' sums have mean 1 where any chip is damaged.
    """
    counted = torch.where(is_labeled, 1.0, unlabeled_weight)[:, None]
    sides = torch.stack([labels * counted, (1 - labels) * counted])
    shares = (sides / sides.sum(dim=1, keepdim=True).clamp_min(1e-12)).sum(dim=0)
    is_used = labels.any(dim=0).float()
    is_used[:-1] /= is_used[:-1].sum().clamp_min(1)
    return shares * is_used * (len(labels) / 4)


def losses(network: HeroconNetwork, batch: Batch, settings: HeroconSettings) -> dict[str, Tensor]:
    """Compute Eq. 1. Returns scalars: "loss", and its three terms without their weights."""
    views, labeled = network.views(batch.inputs, batch.is_missing), batch.is_labeled
    logits = with_union(network.kind_logits(views, batch.is_missing))
    costs = functional.binary_cross_entropy_with_logits(logits, batch.labels, reduction="none")
    terms = {
        "loss_cls": (costs * batch.weights).sum(dim=1).mean(),
        "loss_unsupervised": formulas.multi_view_loss(
            views, network.mapping(views), is_missing=batch.is_missing, temperature=settings.temperature
        ),
        "loss_supervised": views.new_zeros(()),
    }
    if labeled.any():  # a piece may hold none
        terms["loss_supervised"] = formulas.supervised_loss(
            views[:, labeled], batch.labels[labeled, :-1].bool(),
            is_missing=batch.is_missing[:, labeled], temperature=settings.temperature,
        )  # fmt: skip
    total = formulas.total_loss(
        *terms.values(), unsupervised_weight=settings.unsupervised_weight, supervised_weight=settings.supervised_weight
    )
    return {"loss": total, **terms}


def _new_learner(data: PUData, rows: Ints, kinds: Ints, settings: HeroconSettings, run: Run, n_steps: int) -> Learner:
    """Set up network, optimiser and schedule (linear warm-up over a tenth of the steps, then a cosine)."""
    extractor = (new_pair_extractor if is_pair(data.inputs.shape) else new_extractor)(data, rows, settings, run)
    network = HeroconNetwork(extractor, torch.from_numpy(kinds), settings, run.generator(1)).to(run.device)
    decay = settings.weight_decay or _weight_decay(data, rows, extractor, run)
    optimizer = new_optimizer(settings.optimizer, network, settings.lr, decay)
    return Learner(network, optimizer, warmup_schedule(optimizer, n_steps))


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
    data: PUData, rows: Ints, known: Ints, network: HeroconNetwork, settings: HeroconSettings,
    generator: torch.Generator,
) -> Batch:  # fmt: skip
    """Make a batch of chips in two views. Which dates are missing is read off the chips as they were cut."""
    device = network.kinds.device
    if isinstance(network.trunk, PairFeatureExtractor):
        plain, *inputs = data.inputs.draw(rows, ("plain", "strong"), generator, device)
        is_missing = missing_dates(plain)
    else:
        inputs = data.inputs.draw(rows, ("strong", "strong"), generator, device)
        is_missing = torch.zeros(len(inputs), len(rows), dtype=torch.bool, device=device)
    classes = torch.from_numpy(known).to(device)
    is_labeled, has_kind = classes != UNKNOWN, classes[:, None] == network.kinds
    labels = torch.cat([has_kind, has_kind.any(dim=1, keepdim=True)], dim=1).float()
    return Batch(inputs, is_missing, labels, is_labeled, balanced_weights(labels, is_labeled, settings.unlabeled_weight))


def _step(learner: Learner, pieces: MicroBatcher, batch: Batch, settings: HeroconSettings) -> dict[str, float]:
    """Move the weights once."""

    def work(part: slice, share: float) -> dict[str, float]:
        values = losses(learner.network, batch.part(part), settings)
        (share * values["loss"]).backward()
        return dict(zip(values, (share * torch.stack(list(values.values())).detach()).tolist(), strict=True))

    found = pieces.each(len(batch.is_labeled), lambda: learner.optimizer.zero_grad(set_to_none=True), work)
    learner.optimizer.step()
    learner.schedule.step()
    return {name: sum(each[name] for each in found) for name in found[0]}


def _check(data: PUData, known: Ints, settings: HeroconSettings, run: Run) -> None:
    """Refuse cached features that have no second view to compare; warn where L_s is zero."""
    if isinstance(data.inputs, FeatureViews) and len(data.inputs.views) < 2 and settings.unsupervised_weight > 0:
        raise TrainingError(
            f"HeroCon compares two views of each chip; these features have {len(data.inputs.views)}.",
            "Make the set again with more --views (`pu-geo features`), train on another one, or set unsupervised_weight to 0.",
            kind="views",
        )
    if settings.supervised_weight > 0 and len(np.unique(known[known != UNKNOWN])) < 2:
        run.warnings.append(
            "All labeled buildings are of one kind, so HeroCon had nothing to tell apart and is little more than cross "
            "entropy. Mark some buildings as not damaged, or name the kinds of damage."
        )
