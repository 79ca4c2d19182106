"""Baselines with a network: cross entropy, uPU, nnPU, uPU and nnPU with NcPU's noisy-pair loss, and supervised.

All train by one loop; what differs is the risk of a batch (`_risk`), which follows from the class of the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.errors import TrainingError
from pu_geo.losses import ncpu, pu_risk
from pu_geo.methods.cards import baselines as cards
from pu_geo.methods.linear import estimated_class_prior
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.data import NOT_DAMAGED, Ints, PUData, Strength, batches, epochs_within, n_batches
from pu_geo.training.heads import ema_copy, ema_update, linear, projection_head
from pu_geo.training.loop import MicroBatcher, Training, model_of, stepped
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.optim import new_optimizer, warmup_cosine
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

PRIOR_RANGE = (0.05, 0.9)
"""At 0 a risk has no use for positives, at 1 none for undamaged chips, and near either end it orders chips badly: with one
Harvey chip in a hundred damaged, AP was .34, .46 and .54 for a class prior of .005, .02 and .05."""
LONGEST_MARGIN = 8.0


class BaselineNetwork(nn.Module):
    """Feature extractor and linear classifier."""

    def __init__(self, extractor: FeatureExtractor, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = extractor
        self.classifier = linear(extractor.out_dim, 1, generator)
        nn.init.zeros_(self.classifier.weight)  # a random start would stay in the scores of a short training

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.trunk(inputs))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged, float [B]."""
        return cast(Tensor, self.classifier(self.trunk(inputs)))[:, 0]


class PairNetwork(BaselineNetwork):
    """With NcPU's two heads beside the classifier; the EMA target is a copy of feature extractor and projection head."""

    def __init__(self, extractor: FeatureExtractor, settings: cards.PairSettings, generator: torch.Generator) -> None:
        super().__init__(extractor, generator)
        dim = settings.embedding_dim
        self.project = projection_head(extractor.out_dim, settings.projection_hidden, dim, generator)
        self.predict = projection_head(dim, settings.prediction_hidden, dim, generator)

    @property
    def encoder(self) -> nn.Module:
        """Feature extractor and projection head: what the EMA target is a copy of."""
        return nn.Sequential(self.trunk, self.project)

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.project(self.trunk(inputs)))

    def online(self, inputs: Tensor) -> Tensor:
        """Embed inputs through all three parts: q of the paper, float [B, E], not normalised."""
        return cast(Tensor, self.predict(self.represent(inputs)))


@dataclass
class Learner:
    """What a training carries from batch to batch.

    Attributes:
        target: EMA target of feature extractor and projection head; empty without the noisy-pair loss.
        schedule: of the learning rate, a batch a step.
        weight: of the positives: the class prior of uPU and nnPU, else their share of the cross entropy.
    """

    network: BaselineNetwork
    target: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    weight: float


@dataclass(frozen=True)
class Groups:
    """Row numbers of what is learned from: positives, and what they are held against. int64, both."""

    positive: Ints
    others: Ints


@one_thread_on_features
def fit(data: PUData, settings: cards.BatchSettings, run: Run) -> TrainedModel:
    """Train cross entropy, uPU or nnPU, from positives and unlabeled chips.

    Source: uPU and nnPU: `losses.pu_risk`. With the noisy-pair loss: NcPU, Table 3 and Appendix H, risk + w_r Eq. 7 over
    the pairs of Eq. 37.

    Args:
        run: each epoch reports loss, risk, share_positive (the share of unlabeled chips called damaged), and with the
            noisy-pair loss loss_rep.

    Returns:
        The model; findings: "class_prior" where the method has one.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or the first epoch leaves the finite numbers.
        JobCancelled: if the user cancelled.

    Departs from the source: each batch holds a fixed share of positives, dealt out in shuffled rounds, next to unlabeled
    chips, each once an epoch. With 30 positives among 20,000 chips most batches of one shuffled pile would hold none, and
    their risk no positive term. The classifier starts at 0. In a risk a class prior is kept within `PRIOR_RANGE`. At the end
    uPU and nnPU take their boundary from the class prior (`set_boundary`), where the papers keep the trained offset.
    """
    rows = data.trained_rows
    title = next(card.title for card in cards.CARDS if card.settings is type(settings))
    require_positives(data, rows, title)
    groups = Groups(rows[data.is_positive[rows]], rows[~data.is_positive[rows]])
    return _train(data, groups, new_extractor(data, rows, settings, run), settings, run)


@one_thread_on_features
def fit_supervised(data: PUData, settings: cards.BatchSettings, run: Run) -> TrainedModel:
    """Train on positives against the buildings that a person called not damaged, both weighing the same.

    Source: NcPU, Table 1, row "Supervised". Nothing else is learned from, but by the pretraining where one is asked for: it
    uses all chips, and no label.

    Args, returns, raises: as in `fit`; TrainingError also where nothing was called not damaged.
    """
    rows = data.trained_rows
    classes = data.classes[rows]
    groups = Groups(rows[classes > NOT_DAMAGED], rows[classes == NOT_DAMAGED])
    if not len(groups.positive) or not len(groups.others):
        raise TrainingError(
            "Supervised training needs buildings marked damaged and buildings marked not damaged; this project has "
            f"{len(groups.positive)} and {len(groups.others)}.",
            "Mark both kinds on the Annotate page.",
            kind="few_labels",
        )
    used = rows if settings.pretrain_epochs else rows[classes >= NOT_DAMAGED]
    return _train(data, groups, new_extractor(data, used, settings, run), settings, run)


def from_state(state: Mapping[str, Tensor], settings: cards.BatchSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    return TrainedModel.loaded(_new_network(empty_extractor(state, settings), settings, torch.Generator()), state, device)


def _train(
    data: PUData, groups: Groups, extractor: FeatureExtractor, settings: cards.BatchSettings, run: Run
) -> TrainedModel:
    """Minimise the risk that belongs to the settings."""
    n_positive = max(1, round(settings.positive_share * settings.batch_size))
    n_others = max(2, settings.batch_size - n_positive)
    n_steps = n_batches(len(groups.others), n_others)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    learner, pieces = _new_learner(data, groups, extractor, settings, run, n_epochs * n_steps), MicroBatcher(run)
    strengths: tuple[Strength, ...] = ("weak", "strong", "strong") if isinstance(settings, cards.PairSettings) else ("weak",)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=model_of(learner)).epochs():
        drawing = epoch.generator(4)
        with epoch:
            for rows in mixed_batches(groups, n_positive, n_others, epoch.generator(3)):
                views = data.inputs.draw(rows, strengths, drawing, run.device)
                positive = torch.from_numpy(data.is_positive[rows]).to(run.device)
                epoch.add(_step(learner, pieces, views, positive, settings))
            if epoch.number == n_epochs:  # within the epoch: what looks at it and its checkpoint have the boundary, too
                set_boundary(learner, data, groups.others, settings, run)
    set_boundary(learner, data, groups.others, settings, run)  # changes something only where the loss was no number
    findings = {"class_prior": learner.weight} if isinstance(settings, cards.UpuSettings) else {}
    return TrainedModel(learner.network.eval(), learner.network.trunk, findings)


@torch.no_grad()
def set_boundary(learner: Learner, data: PUData, unlabeled: Ints, settings: cards.BatchSettings, run: Run) -> None:
    """Move all scores of uPU and nnPU alike until the share of the unlabeled at 0.5 or more is the class prior.

    The constant that costs least has the log odds of the class prior. A short training, or one that pulls weights towards
    zero, does not get far from it: it calls nothing damaged below a class prior of 0.5, and everything above. Margins are
    also kept within `LONGEST_MARGIN`, by a factor: a risk without a lower bound makes some that a score of float32 shows as
    1.

    Args:
        unlabeled: row numbers, int64; 3,000 of them at most are scored.
    """
    if not isinstance(settings, cards.UpuSettings):
        return
    network, was_training = learner.network, learner.network.training
    n = min(len(unlabeled), cards.PRIOR_UNLABELED)
    rows = np.sort(unlabeled[torch.randperm(len(unlabeled), generator=run.generator(10))[:n].numpy()])
    array = data.inputs.array
    model = TrainedModel(network.eval(), network.trunk, check=run.stop_if_cancelled)
    falling = np.sort(model.margins(array[:, rows] if array.ndim == 3 else array[rows]))[::-1]
    network.train(was_training)
    called = min(max(round((settings.class_prior or learner.weight) * n), 1), n)
    cut = float(falling[called - 1] + falling[min(called, n - 1)]) / 2
    longest = float(np.abs(falling - cut).max())
    if (falling >= 0).sum() == called and longest <= 1.001 * LONGEST_MARGIN:
        return
    network.classifier.bias.sub_(cut)
    for weight in network.classifier.parameters():
        weight.mul_(min(1.0, LONGEST_MARGIN / max(longest, 1e-9)))


def mixed_batches(groups: Groups, n_positive: int, n_others: int, generator: torch.Generator) -> Iterator[Ints]:
    """Deal the others out, each once, and next to each batch of them the same number of positives.

    Args:
        n_positive: positives a batch; they come in shuffled rounds, so that none comes much more often than another.
        n_others: others a batch, at least 2.

    Returns:
        Row numbers, int64 [B]; positives lie evenly among the others, so that a piece of a batch has its share of them.
    """
    dealt = batches(len(groups.others), n_others, generator)
    n_rounds = -(-n_positive * len(dealt) // len(groups.positive))
    rounds = torch.cat([torch.randperm(len(groups.positive), generator=generator) for _ in range(n_rounds)]).numpy()
    for number, numbers in enumerate(dealt):
        chosen = groups.positive[rounds[number * n_positive : (number + 1) * n_positive]]
        places = np.concatenate([(np.arange(len(part)) + 0.5) / len(part) for part in (chosen, numbers)])
        yield np.concatenate([chosen, groups.others[numbers]])[places.argsort(kind="stable")]


def _new_network(extractor: FeatureExtractor, settings: cards.BatchSettings, generator: torch.Generator) -> BaselineNetwork:
    """Build what the settings ask for around a feature extractor."""
    if isinstance(settings, cards.PairSettings):
        return PairNetwork(extractor, settings, generator)
    return BaselineNetwork(extractor, generator)


def _new_learner(
    data: PUData, groups: Groups, extractor: FeatureExtractor, settings: cards.BatchSettings, run: Run, n_steps: int
) -> Learner:
    """Set up all that a training begins with."""
    network = _new_network(extractor, settings, run.generator(1)).to(run.device)
    optimizer = new_optimizer(settings.optimizer, network, settings.lr, settings.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, n_steps, 0))
    weight, target = 0.5, nn.Module()
    if isinstance(settings, cards.UpuSettings):
        weight = _class_prior(data, groups, extractor, settings, run)
    elif isinstance(settings, cards.CrossEntropySettings) and not settings.balanced:
        weight = len(groups.positive) / (len(groups.positive) + len(groups.others))
    if isinstance(network, PairNetwork):
        target = ema_copy(network.encoder)
        if not any(True for _ in extractor.parameters()):
            run.warnings.append("There is no layer for the noisy-pair loss to teach: set width above 0.")
    return Learner(network, target, optimizer, schedule, weight)


def _class_prior(data: PUData, groups: Groups, extractor: FeatureExtractor, settings: cards.UpuSettings, run: Run) -> float:
    """Return the class prior of the settings, or guess it; keep it within `PRIOR_RANGE`, and warn of what was done."""
    prior = settings.class_prior
    if not prior:
        run.warnings.append(
            "class_prior was not set. It was guessed from held-out scores of logistic regressions (best bin), which is too "
            "high where damage is rare, and the ranking depends on it: set class_prior where you know the damaged share."
        )
        guess = estimated_class_prior(data, groups.positive, groups.others, extractor, run)
        return min(max(guess, cards.GUESSED_PRIORS[0]), cards.GUESSED_PRIORS[1])
    used = min(max(prior, PRIOR_RANGE[0]), PRIOR_RANGE[1])
    if used != prior:
        run.warnings.append(f"A class_prior of {used} was used in place of {prior:.3g}: nearer to 0 or 1 it orders badly.")
    return used


def _step(
    learner: Learner, pieces: MicroBatcher, views: list[Tensor], positive: Tensor, settings: cards.BatchSettings
) -> dict[str, Tensor]:
    """Move the weights once, for one view or three [B, ...] of B chips."""
    if isinstance(learner.network, PairNetwork) and isinstance(settings, cards.PairSettings):
        ema_update(learner.target, learner.network.encoder, settings.ema_momentum)

    def losses_of(part: slice) -> dict[str, Tensor]:
        return _losses(learner, [view[part] for view in views], positive[part], settings)

    return stepped(learner, pieces, len(positive), losses_of, grad_clip=settings.grad_clip)


def _losses(learner: Learner, views: list[Tensor], positive: Tensor, settings: cards.BatchSettings) -> dict[str, Tensor]:
    """Compute what is reported, "loss" among it, and what is "differentiated", which differs in nnPU. Scalars."""
    margin = learner.network.margin(views[0])
    reported, differentiated = _risk(margin, positive, learner.weight, settings)
    called = ((margin.detach() >= 0) & ~positive).sum() / (~positive).sum().clamp_min(1)
    values = {"loss": reported, "risk": reported, "share_positive": called, "differentiated": differentiated}
    if isinstance(learner.network, PairNetwork) and isinstance(settings, cards.PairSettings):
        with torch.no_grad():
            other = learner.target(views[2])
        logits = torch.stack([torch.zeros_like(margin), margin], dim=1)
        pairs = ncpu.same_class_pairs(logits, variant="released", agreement=settings.agreement)  # Eq. 37
        pull = ncpu.noisy_pair_loss(learner.network.online(views[1]), other, pairs)
        values["loss_rep"] = pull.detach()
        values["loss"] = reported + settings.rep_weight * pull.detach()
        values["differentiated"] = differentiated + settings.rep_weight * pull
    return values


def _risk(margin: Tensor, positive: Tensor, weight: float, settings: cards.BatchSettings) -> tuple[Tensor, Tensor]:
    """Compute the risk as reported, without gradient, and what to differentiate."""
    if not isinstance(settings, cards.UpuSettings):
        risk = cross_entropy(margin, positive, weight)
        return risk.detach(), risk
    terms: dict[str, Any] = {"class_prior": weight, "surrogate": settings.surrogate}
    if not isinstance(settings, cards.NnpuSettings):
        risk = pu_risk.upu_risk(margin, positive, **terms)
    elif settings.when_negative == "clip":
        risk = pu_risk.nnpu_risk_clipped(margin, positive, **terms)
    else:
        return pu_risk.nnpu_risk(margin, positive, **terms, beta=settings.beta, gamma=settings.gamma)
    return risk.detach(), risk


def cross_entropy(margin: Tensor, positive: Tensor, weight: float) -> Tensor:
    """Cross entropy of positives times `weight`, plus that of the others times the rest; a group that is missing adds 0."""
    each = functional.softplus(torch.where(positive, -margin, margin))
    means = [torch.where(group, each, 0).sum() / group.sum().clamp_min(1) for group in (positive, ~positive)]
    return weight * means[0] + (1 - weight) * means[1]
