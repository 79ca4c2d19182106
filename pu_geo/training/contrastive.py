"""Contrastive training: pull two views of a chip together, over epochs and batches; methods and a maker of features do
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pu_geo.training.data import Ints, PUData, Strength, batches, sent
from pu_geo.training.loop import MicroBatcher, Training, stepped
from pu_geo.training.optim import new_optimizer, warmup_schedule

PairLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Loss of two views' projections, float [B, p] each, and is_positive, bool [B]."""
VIEWS: tuple[Strength, ...] = ("strong", "strong")


@dataclass
class ContrastiveLearner:
    """What a contrastive training carries from batch to batch.

    Attributes:
        head: projection head, which only this training uses.
        optimizer, schedule: of both; the schedule moves once a batch.
    """

    encoder: nn.Module
    head: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler

    @property
    def network(self) -> nn.Module:
        """Both parts."""
        return nn.ModuleList([self.encoder, self.head])


def contrastive_learner(
    encoder: nn.Module, head: nn.Module, optimizer: str, lr: float, weight_decay: float, n_steps: int
) -> ContrastiveLearner:
    """Set up optimiser and schedule (linear warm-up over a tenth of the steps, then a cosine) of encoder and head."""
    chosen = new_optimizer(optimizer, nn.ModuleList([encoder, head]), lr, weight_decay)
    return ContrastiveLearner(encoder, head, chosen, warmup_schedule(chosen, n_steps))


def contrast(
    training: Training, learner: ContrastiveLearner, data: PUData, rows: Ints, loss_of: PairLoss,
    *, batch_size: int, stream: int,
) -> None:  # fmt: skip
    """Pull two views of each chip together, or whatever `loss_of` asks for.

    Source: PUCL, Algorithm 1(A).

    Args:
        training: counts the epochs; each reports loss.
        data: which named views are missing is handed to an encoder whose `takes_views` is true.
        rows: numbers of the chips to train on, int64 [M].
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
                gone = None
                if data.is_missing is not None and getattr(learner.encoder, "takes_views", False):
                    gone = torch.from_numpy(data.is_missing[:, rows[numbers]]).to(device)
                chips = sent(torch.from_numpy(numbers), device)
                epoch.add(_step(learner, pieces, views, positive[chips], loss_of, gone))


def _step(
    learner: ContrastiveLearner, pieces: MicroBatcher, views: list[Tensor], positive: Tensor, loss_of: PairLoss,
    is_missing: Tensor | None,
) -> dict[str, Tensor]:  # fmt: skip
    """Move the weights once, for two views [B, ...] of B chips; `is_missing` [V, B] is for an encoder that takes it."""

    def losses_of(part: slice) -> dict[str, Tensor]:
        masks = () if is_missing is None else (is_missing[:, part],)
        z1, z2 = (learner.head(learner.encoder(view[part], *masks)) for view in views)
        return {"loss": loss_of(z1, z2, positive[part])}

    return stepped(learner, pieces, len(positive), losses_of)
