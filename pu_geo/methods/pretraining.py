"""How methods come by their trunk: fresh, from a weights file, or trained on all chips without a label before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.losses.contrastive import sscl_loss
from pu_geo.methods.settings import PRETRAINING_BATCH, NetworkSettings
from pu_geo.training.batching import n_batches
from pu_geo.training.data import PUData, Strength, batches
from pu_geo.training.heads import projection_head
from pu_geo.training.loop import MicroBatcher, Training
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.optim import new_optimizer, warmup_cosine
from pu_geo.training.run import Run

PairLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Loss of two views' projections, float [B, p] each, and is_positive, bool [B]."""
VIEWS: tuple[Strength, ...] = ("strong", "strong")
WARMUP_SHARE = 0.1
PRETRAINING_SPAN = (0.0, 0.5)
"""Part of the progress bar that pretraining takes where there is one."""
_LR, _WEIGHT_DECAY, _TEMPERATURE, _HIDDEN, _DIM = 1e-3, 1e-4, 0.5, 512, 128


@dataclass
class ContrastiveLearner:
    """What a contrastive training carries from batch to batch.

    Attributes:
        encoder: turns inputs into representations.
        head: projection head, which only this training uses.
        optimizer, schedule: of both; the schedule moves once a batch.
    """

    encoder: nn.Module
    head: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler


def new_trunk(data: PUData, rows: NDArray[np.int64], settings: NetworkSettings, run: Run) -> FeatureExtractor:
    """Build a trunk as the settings say, standardised to these chips and pretrained where that was asked for."""
    trunk = FeatureExtractor(
        data.inputs.shape, settings.backbone, settings.width, run.generator(5), weights_file=settings.weights_file,
        precision=settings.precision, is_compiled=settings.compiled,
    ).to(run.device)  # fmt: skip
    trunk.fit_statistics(data, rows, run.generator(2))
    if settings.pretrain_epochs:
        _pretrain(trunk, data, rows, settings.pretrain_epochs, run)
    return trunk


def empty_trunk(state: Mapping[str, Tensor], settings: NetworkSettings) -> FeatureExtractor:
    """Build a trunk for weights that are loaded afterwards, of the shape written in them."""
    shape = tuple(int(size) for size in state["trunk.input_shape"])
    return FeatureExtractor(shape, settings.backbone, settings.width, torch.Generator(), precision=settings.precision)


def training_span(settings: NetworkSettings) -> tuple[float, float]:
    """Say which part of the progress bar is left for the training proper."""
    return (PRETRAINING_SPAN[1], 1.0) if settings.pretrain_epochs else (0.0, 1.0)


def _pretrain(trunk: FeatureExtractor, data: PUData, rows: NDArray[np.int64], n_epochs: int, run: Run) -> None:
    """Train the trunk by ssCL (PUCL, Eq. 4) on all chips, no label used; its projection head is thrown away.

    Where a hidden layer is missing (cached features, width 0) there is nothing to train, and nothing is done.
    """
    if not any(True for _ in trunk.parameters()):
        return
    head = projection_head(trunk.out_dim, _HIDDEN, _DIM, run.generator(6)).to(run.device)
    learner = contrastive_learner(
        trunk, head, "adamw", _LR, _WEIGHT_DECAY, n_epochs * n_batches(len(rows), PRETRAINING_BATCH)
    )
    training = Training(run, learner, n_epochs, stage="pretraining", span=PRETRAINING_SPAN)

    def loss_of(z1: Tensor, z2: Tensor, _: Tensor) -> Tensor:
        return sscl_loss(z1, z2, temperature=_TEMPERATURE)

    contrast(training, learner, data, rows, loss_of, batch_size=PRETRAINING_BATCH, stream=7)


def contrastive_learner(
    encoder: nn.Module, head: nn.Module, optimizer: str, lr: float, weight_decay: float, n_steps: int
) -> ContrastiveLearner:
    """Set up optimiser and schedule (linear warm-up over a tenth of the steps, then a cosine) of encoder and head."""
    chosen = new_optimizer(optimizer, nn.ModuleList([encoder, head]), lr, weight_decay)
    n_warmup = max(1, round(WARMUP_SHARE * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(chosen, lambda step: warmup_cosine(step, n_steps, n_warmup))
    return ContrastiveLearner(encoder, head, chosen, schedule)


def contrast(
    training: Training, learner: ContrastiveLearner, data: PUData, rows: NDArray[np.int64], loss_of: PairLoss,
    *, batch_size: int, stream: int,
) -> None:  # fmt: skip
    """Pull two views of each chip together, or whatever `loss_of` asks for.

    Source: PUCL, Algorithm 1(A).

    Args:
        training: counts the epochs; each reports loss.
        learner: is trained.
        data: gives the views.
        rows: numbers of the chips to train on, int64 [M].
        loss_of: see `PairLoss`.
        batch_size: chips a step, in two views each.
        stream: of the random numbers; this and the next one are used.
    """
    device, pieces = training.run.device, MicroBatcher(training.run)
    positive = torch.from_numpy(data.is_positive[rows]).to(device)
    for epoch in training.epochs():
        drawing = epoch.generator(stream + 1)
        with epoch:
            for numbers in batches(len(rows), batch_size, epoch.generator(stream)):
                views = data.inputs.draw(rows[numbers], VIEWS, drawing, device)
                epoch.add(_step(learner, pieces, views, positive[torch.from_numpy(numbers)], loss_of))


def _step(
    learner: ContrastiveLearner, pieces: MicroBatcher, views: list[Tensor], positive: Tensor, loss_of: PairLoss
) -> dict[str, float]:
    """Move the weights once, for two views [B, ...] of B chips."""

    def work(part: slice, share: float) -> float:
        z1, z2 = (learner.head(learner.encoder(view[part])) for view in views)
        loss = loss_of(z1, z2, positive[part])
        (share * loss).backward()
        return float(loss.detach()) * share

    found = pieces.each(len(positive), lambda: learner.optimizer.zero_grad(set_to_none=True), work)
    learner.optimizer.step()
    learner.schedule.step()
    return {"loss": sum(found)}
