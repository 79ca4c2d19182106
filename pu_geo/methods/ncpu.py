"""NcPU: `fit` reads like Algorithm 1 of the paper, on cached features or on the chips themselves.

The paper counts the positive class as 0. Here and in `losses` column 1 = damaged; its f_1 is our column 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from pu_geo.analysis.estimates import estimated_share
from pu_geo.losses import ncpu as formulas
from pu_geo.losses import phantom
from pu_geo.methods.cards.ncpu import MIN_EPOCHS, NcpuSettings
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.data import Ints, PUData, Strength, batches, n_batches, sent
from pu_geo.training.heads import ema_copy, ema_update, linear, projection_head
from pu_geo.training.loop import MicroBatcher, Training, model_of
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.optim import new_optimizer
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

VIEWS: tuple[Strength, ...] = ("weak", "strong", "strong")
RARE, COMMON = 0.2, 0.7
"""Estimated shares of damage up to which pseudo targets move by `rare_momentum`, and from which on by `target_momentum`."""


class NcpuNetwork(nn.Module):
    """Feature extractor with three heads; the EMA target is a copy of extractor and projection head."""

    def __init__(self, extractor: FeatureExtractor, settings: NcpuSettings, generator: torch.Generator) -> None:
        super().__init__()
        dim = settings.embedding_dim
        self.trunk = extractor
        self.project = projection_head(extractor.out_dim, settings.projection_hidden, dim, generator)
        self.predict = projection_head(dim, settings.prediction_hidden, dim, generator)
        self.classifier = linear(extractor.out_dim, 2, generator)

    @property
    def encoder(self) -> nn.Module:
        """Feature extractor and projection head: what the EMA target is a copy of."""
        return nn.Sequential(self.trunk, self.project)

    def logits(self, inputs: Tensor) -> Tensor:
        """Classify inputs [B, ...]: float [B, 2], column 1 = damaged."""
        return cast(Tensor, self.classifier(self.trunk(inputs)))

    def online(self, inputs: Tensor) -> Tensor:
        """Embed inputs through all three parts: q, float [B, E], not normalised."""
        return cast(Tensor, self.predict(self.represent(inputs)))

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs for use after training: float [B, E], not normalised."""
        return cast(Tensor, self.project(self.trunk(inputs)))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged, float [B]."""
        logits = self.logits(inputs)
        return logits[:, 1] - logits[:, 0]


@dataclass
class Memory:
    """What Algorithm 1 remembers of the batches so far.

    Attributes:
        prototypes: float [2, E], row 1 = damaged.
        kept: s', float [M, 2], one row a trained chip.
        threshold: state of the self-adaptive threshold.
    """

    prototypes: Tensor
    kept: Tensor
    threshold: phantom.ThresholdState


@dataclass
class Learner:
    """What Algorithm 1 carries from batch to batch.

    Attributes:
        target: the EMA target of extractor and projection head.
        schedule: of the learning rate, an epoch a step.
    """

    network: NcpuNetwork
    target: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    memory: Memory


@dataclass(frozen=True)
class Batch:
    """Chips that are worked on together.

    Attributes:
        chips: row numbers among the trained chips, int64 [B].
        views: one weak and two strong views, float [B, ...] each.
        positive: bool [B].
        ramp: share of the warm-up that is over, in [0, 1].
    """

    chips: Tensor
    views: list[Tensor]
    positive: Tensor
    ramp: float

    def part(self, part: slice) -> Batch:
        """Return some of the chips."""
        return Batch(self.chips[part], [view[part] for view in self.views], self.positive[part], self.ramp)


@one_thread_on_features
def fit(data: PUData, settings: NcpuSettings, run: Run) -> TrainedModel:
    """Train NcPU from positives and unlabeled chips.

    Source: NcPU, Algorithm 1 and Appendix F.

    Args:
        run: each epoch reports loss, loss_cls, loss_rep, entropy, threshold and share_positive, the share of unlabeled
            chips called damaged.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or the first epoch leaves the finite numbers.
        JobCancelled: if the user cancelled.

    Departs from the source: on cached features there is no backbone to train, which a few hundred chips cannot teach
    anyway; fewer epochs, and fewer still where `max_steps` would be passed. `pretrain_epochs` is ours, and so is that pseudo
    targets move slower where few seem damaged (`rare_momentum`).
    """
    rows = data.trained_rows
    require_positives(data, rows, "NcPU")
    settings = _paced(data, rows, settings)
    positive = torch.from_numpy(data.is_positive[rows]).to(run.device)
    n_epochs, n_warmup = _lengths(len(rows), settings)
    learner, pieces = _new_learner(data, rows, positive, settings, run, n_epochs), MicroBatcher(run)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=model_of(learner)).epochs():
        ramp = min(1.0, (epoch.number - 1) / n_warmup) if n_warmup else 1.0
        drawing = epoch.generator(4)
        with epoch:
            for numbers in batches(len(rows), settings.batch_size, epoch.generator(3)):
                views = data.inputs.draw(rows[numbers], VIEWS, drawing, run.device)
                chips = sent(torch.from_numpy(numbers), run.device)
                epoch.add(_step(learner, pieces, Batch(chips, views, positive[chips], ramp), settings))
            learner.schedule.step()
    return TrainedModel(learner.network.eval(), learner.network.trunk)


def from_state(state: Mapping[str, Tensor], settings: NcpuSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    return TrainedModel.loaded(NcpuNetwork(empty_extractor(state, settings), settings, torch.Generator()), state, device)


def _new_learner(data: PUData, rows: Ints, positive: Tensor, settings: NcpuSettings, run: Run, n_epochs: int) -> Learner:
    """Set all that Algorithm 1 begins with: networks, zero prototypes, pseudo targets "undamaged", a threshold of 1/2."""
    extractor = new_extractor(data, rows, settings, run)
    network = NcpuNetwork(extractor, settings, run.generator(1)).to(run.device)
    optimizer = new_optimizer("sgd", network, settings.lr, settings.weight_decay)
    like = torch.zeros((), device=run.device)
    return Learner(
        network,
        ema_copy(network.encoder),
        optimizer,
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_epochs),
        Memory(
            like.new_zeros(2, settings.embedding_dim),
            phantom.start_pseudo_targets(positive),
            phantom.ThresholdState.start(like),
        ),
    )


def _lengths(n_chips: int, settings: NcpuSettings) -> tuple[int, int]:
    """Work out how many epochs keep within `max_steps`, `MIN_EPOCHS` at least, and how many of them are warm-up.

    In a training cut short the warm-up takes a quarter at most; else it could end before a pseudo target ever moved.
    """
    affordable = settings.max_steps // n_batches(n_chips, settings.batch_size)
    n_epochs = min(settings.epochs, max(MIN_EPOCHS, affordable))
    is_cut = n_epochs < settings.epochs
    return n_epochs, min(settings.warmup_epochs, n_epochs // 4) if is_cut else settings.warmup_epochs


def _paced(data: PUData, rows: Ints, settings: NcpuSettings) -> NcpuSettings:
    """Set how slowly pseudo targets move by the share of damage that clicks let expect, where features are cached.

    Source: ours. At a fifth damaged the usual pace calls too many damaged, and then all of these are taught to be equally
    so. The share is uncertain before an audit; it can only move the pace between two settings. Shares between `RARE` and
    `COMMON` count by their distance from both. With fewer than 4 clicks `target_momentum` stays.
    """
    slow, usual = settings.rare_momentum, settings.target_momentum
    if slow == usual or len(data.inputs.shape) > 1:
        return settings
    values = np.asarray(data.inputs.plain_array[rows])
    share = estimated_share(values, data.is_positive[rows]) if np.isfinite(values).all() else None
    if share is None:
        return settings
    slowness = float(np.clip((COMMON - share) / (COMMON - RARE), 0, 1))
    return replace(settings, target_momentum=usual + (slow - usual) * slowness)


def _step(learner: Learner, pieces: MicroBatcher, batch: Batch, settings: NcpuSettings) -> dict[str, Tensor]:
    """Do lines 3 to 17 of Algorithm 1 for a batch."""
    ema_update(learner.target, learner.network.encoder, settings.ema_momentum)  # line 9
    memory = learner.memory

    def begin() -> None:
        nonlocal memory
        memory = replace(learner.memory, kept=learner.memory.kept.clone())
        learner.optimizer.zero_grad(set_to_none=True)

    def work(part: slice, share: float) -> dict[str, Tensor]:
        values = _losses(learner, memory, batch.part(part), settings)
        (share * values["loss"]).backward()
        return {name: each.detach() for name, each in values.items()}

    found = pieces.each(len(batch.chips), begin, work)
    learner.memory = memory
    nn.utils.clip_grad_norm_(learner.network.parameters(), settings.grad_clip)
    learner.optimizer.step()  # lines 16-17
    return {name: torch.stack([each[name] for each in found]).mean() for name in found[0]}


def _losses(learner: Learner, memory: Memory, batch: Batch, settings: NcpuSettings) -> dict[str, Tensor]:
    """Do lines 4 to 16 of Algorithm 1, all but the step itself; `memory` is changed. Returns scalars, "loss" among them."""
    variant, positive = _variant(settings), batch.positive
    logits = learner.network.logits(batch.views[0])  # line 4
    online = learner.network.online(batch.views[1])  # line 5
    before, is_damaged = memory.prototypes, formulas.predicted_damaged(logits)
    memory.prototypes = phantom.updated_prototypes(  # lines 6-8
        before, online, is_damaged | positive if variant == "released" else is_damaged,
        momentum=settings.prototype_momentum, variant=variant,
    )  # fmt: skip
    with torch.no_grad():
        other = learner.target(batch.views[2])  # line 10
    memory.threshold = phantom.updated_threshold(  # line 11
        memory.threshold, logits, positive, momentum=settings.threshold_momentum, variant=variant
    )
    if batch.ramp >= 1:  # lines 12-14
        nearest = phantom.nearest_prototype(online, memory.prototypes if variant == "paper" else before)
        memory.kept[batch.chips] = phantom.updated_pseudo_targets(
            memory.kept[batch.chips], nearest, positive, momentum=settings.target_momentum
        )
    share, threshold = torch.softmax(logits.detach(), dim=1), memory.threshold.threshold
    taught = phantom.phantom_gate(memory.kept[batch.chips], share[:, 0], threshold, positive)  # line 15
    if variant == "released" and batch.ramp < 1:
        pairs = torch.eye(len(logits), dtype=torch.bool, device=logits.device)  # each chip alone in warm-up
    else:
        pairs = formulas.same_class_pairs(logits, variant=variant)
    terms = {
        "loss_cls": formulas.classification_loss(logits, taught, positive),
        "loss_rep": formulas.noisy_pair_loss(online, other, pairs, variant=variant),
        "entropy": formulas.entropy(logits),
    }
    total = formulas.total_loss(
        *terms.values(), rep_weight=settings.rep_weight, entropy_weight=batch.ramp * settings.entropy_weight
    )
    called = (formulas.predicted_damaged(logits) & ~positive).sum() / (~positive).sum().clamp_min(1)
    return {"loss": total, **terms, "threshold": threshold, "share_positive": called}


def _variant(settings: NcpuSettings) -> formulas.Variant:
    """Return the variant in the words of `losses`; `settings` has checked it."""
    return cast(formulas.Variant, settings.variant)
