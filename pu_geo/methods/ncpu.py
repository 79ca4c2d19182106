"""NcPU on cached features of several views: `fit` reads like Algorithm 1 of the paper.

The paper counts the positive class as 0. Here and in `losses.ncpu` column 1 = damaged; its f_1 is our column 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.engine.data import FeatureViews
from pu_geo.engine.heads import Standardize, feature_backbone, linear, move_slow_copy, projection_head, slow_copy
from pu_geo.engine.run import Run
from pu_geo.errors import ShapeError, TrainingError
from pu_geo.losses import ncpu as formulas
from pu_geo.methods.settings import NcpuSettings

CHUNK = 8192
"""Chips that are scored or embedded together."""


class NcpuNetwork(nn.Module):
    """Backbone with three heads; the EMA target is a copy of `encode` alone."""

    def __init__(self, n_features: int, width: int, embedding_dim: int, generator: torch.Generator) -> None:
        super().__init__()
        n_out = width or n_features
        self.standardize = Standardize(n_features)
        self.encode = nn.Sequential(
            feature_backbone(n_features, width, generator),
            projection_head(n_out, 2 * embedding_dim, embedding_dim, generator),
        )
        self.predict = projection_head(embedding_dim, 2 * embedding_dim, embedding_dim, generator)
        self.classifier = linear(n_out, 2, generator)

    def logits(self, features: Tensor) -> Tensor:
        """Classify standardised features [B, D]: float [B, 2], column 1 = damaged."""
        return cast(Tensor, self.classifier(self.encode[0](features)))

    def online(self, features: Tensor) -> Tensor:
        """Embed standardised features [B, D] through all three parts: q, float [B, E], not normalised."""
        return cast(Tensor, self.predict(self.encode(features)))


@dataclass
class NcpuModel:
    """A trained NcPU.

    Attributes:
        network: in evaluation mode.
        width, embedding_dim: sizes it was built with.
    """

    network: NcpuNetwork
    width: int
    embedding_dim: int

    def embed(self, features: NDArray[np.floating]) -> NDArray[np.float32]:
        """Compute embeddings: float [M, D], or views [V, M, D] which are averaged, to float32 [M, E] of unit length."""
        return self._apply(features, lambda x: F.normalize(self.network.encode(x), dim=1), F.normalize)

    def score(self, features: NDArray[np.floating]) -> NDArray[np.float32]:
        """Compute scores: float [M, D], or views [V, M, D] which are averaged, to float32 [M] in [0, 1]."""
        return self._apply(features, self.network.logits, lambda logits: torch.softmax(logits, dim=1)[:, 1])

    def state(self) -> dict[str, Tensor]:
        """Give all that the model is made of, standardisation included, as tensors on the CPU."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        return weights | {"sizes": torch.tensor([len(self.network.standardize.mean), self.width, self.embedding_dim])}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], device: torch.device) -> NcpuModel:
        """Build the model that `state` was taken from."""
        n_features, width, embedding_dim = (int(size) for size in state["sizes"])
        network = NcpuNetwork(n_features, width, embedding_dim, torch.Generator().manual_seed(0))
        network.load_state_dict({name: tensor for name, tensor in state.items() if name != "sizes"})
        return cls(network.to(device).eval(), width, embedding_dim)

    @torch.inference_mode()
    def _apply(
        self, features: NDArray[np.floating], each: Callable[[Tensor], Tensor], finish: Callable[[Tensor], Tensor]
    ) -> NDArray[np.float32]:
        """Run `each` on standardised features, average it over views, and `finish` the average."""
        views = features[None] if features.ndim == 2 else features
        n_features = len(self.network.standardize.mean)
        if views.ndim != 3 or views.shape[2] != n_features:
            raise ShapeError(f"features must be [M, {n_features}] or [V, M, {n_features}]; got {features.shape}.")
        device, parts = self.network.standardize.mean.device, []
        for first in range(0, max(views.shape[1], 1), CHUNK):
            block = (torch.from_numpy(np.array(view[first : first + CHUNK])).to(device) for view in views)
            total = torch.stack([each(self.network.standardize(x)) for x in block]).mean(0)
            parts.append(finish(total).float().cpu())
        return torch.cat(parts).numpy()


@dataclass
class Memory:
    """What Algorithm 1 carries from batch to batch, beside the networks.

    Attributes:
        prototypes: float [2, E], row 1 = damaged.
        kept: s', float [M, 2], one row a trained chip.
        threshold: state of the self-adaptive threshold.
        is_positive: bool [M].
    """

    prototypes: Tensor
    kept: Tensor
    threshold: formulas.ThresholdState
    is_positive: Tensor


def fit(data: FeatureViews, settings: NcpuSettings, run: Run) -> NcpuModel:
    """Train NcPU from positives and unlabeled chips.

    Source: NcPU, Algorithm 1 and Appendix F, on frozen features of cached views instead of images.

    Args:
        data: features and positives.
        settings: see the class.
        run: device, seed, reports, cancelling. Each epoch reports {epoch, epochs, loss, loss_cls, loss_rep, entropy,
            threshold, share_positive, seconds}; share_positive is the share of unlabeled chips called damaged.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or the loss leaves the finite numbers.
        JobCancelled: if the user cancelled.
    """
    rows = data.trained_rows
    positive = torch.from_numpy(data.is_positive[rows])
    _require_both(positive)
    network = NcpuNetwork(data.views.shape[2], settings.width, settings.embedding_dim, run.generator(1))
    network.standardize.fit(_sample(data.views, rows, run.generator(2)))
    network = network.to(run.device).train()
    target = slow_copy(network.encode)
    like = torch.zeros((), device=run.device)
    memory = Memory(
        like.new_zeros(2, settings.embedding_dim),
        formulas.start_pseudo_targets(positive).to(run.device),
        formulas.ThresholdState.start(like),
        positive.to(run.device),
    )
    optimizer = torch.optim.SGD(network.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)
    shuffle, began = run.generator(3), time.monotonic()
    for epoch in range(settings.epochs):
        sums: dict[str, float] = {}
        n_batches = 0
        for chips, views in _batches(data.views, rows, settings.batch_size, shuffle):
            seen = [network.standardize(view.to(run.device)) for view in views]
            values = _step(network, target, memory, optimizer, chips.to(run.device), seen, settings, epoch)
            n_batches += 1
            run.check(values["loss"], where=f"epoch {epoch + 1}, batch {n_batches}")
            sums = {name: sums.get(name, 0.0) + value for name, value in values.items()}
        schedule.step()
        means = {name: value / n_batches for name, value in sums.items()}
        run.report({"epoch": epoch + 1, "epochs": settings.epochs, **means, "seconds": time.monotonic() - began})
    return NcpuModel(network.eval(), settings.width, settings.embedding_dim)


def _step(
    network: NcpuNetwork,
    target: nn.Module,
    memory: Memory,
    optimizer: torch.optim.Optimizer,
    chips: Tensor,
    views: list[Tensor],
    settings: NcpuSettings,
    epoch: int,
) -> dict[str, float]:
    """Do lines 3 to 17 of Algorithm 1 for one batch: chips are row numbers [B], views three times float [B, D]."""
    variant = cast(formulas.Variant, settings.variant)
    positive = memory.is_positive[chips]
    logits = network.logits(views[0])  # line 4
    online = network.online(views[1])  # line 5
    before = _move_prototypes(memory, logits, online, positive, settings)  # lines 6-8
    move_slow_copy(target, network.encode, settings.ema_momentum)  # line 9
    with torch.no_grad():
        other = target(views[2])  # line 10
    memory.threshold = formulas.updated_threshold(  # line 11
        memory.threshold, logits, positive, momentum=settings.threshold_momentum, variant=variant
    )
    if epoch >= settings.warmup_epochs:  # lines 12-14
        nearest = formulas.nearest_prototype(online, memory.prototypes if variant == "paper" else before)
        memory.kept[chips] = formulas.updated_pseudo_targets(
            memory.kept[chips], nearest, positive, momentum=settings.target_momentum
        )
    share = torch.softmax(logits.detach(), dim=1)
    taught = formulas.phantom_gate(memory.kept[chips], share[:, 0], memory.threshold.threshold, positive)  # line 15
    terms = {
        "loss_cls": formulas.classification_loss(logits, taught, positive),
        "loss_rep": formulas.noisy_pair_loss(online, other, _pairs(logits, settings, epoch), variant=variant),
        "entropy": formulas.entropy(logits),
    }
    ramp = min(1.0, epoch / settings.warmup_epochs) if settings.warmup_epochs else 1.0
    loss = formulas.total_loss(
        *terms.values(), rep_weight=settings.rep_weight, entropy_weight=ramp * settings.entropy_weight
    )
    _descend(network, optimizer, loss, settings.grad_clip)  # lines 16-17
    called = (formulas.predicted_damaged(logits) & ~positive).sum() / (~positive).sum().clamp_min(1)
    values = {"loss": loss, **terms, "threshold": memory.threshold.threshold, "share_positive": called}
    return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _move_prototypes(memory: Memory, logits: Tensor, online: Tensor, positive: Tensor, settings: NcpuSettings) -> Tensor:
    """Do lines 6 to 8 of Algorithm 1; return the prototypes as they were before."""
    before = memory.prototypes
    is_damaged = formulas.predicted_damaged(logits)
    if settings.variant == "released":
        is_damaged = is_damaged | positive
    memory.prototypes = formulas.updated_prototypes(
        before,
        online,
        is_damaged,
        momentum=settings.prototype_momentum,
        variant=cast(formulas.Variant, settings.variant),
    )
    return before


def _pairs(logits: Tensor, settings: NcpuSettings, epoch: int) -> Tensor:
    """Mark the pairs that Eq. 7 pulls together, bool [B, B]; the released code leaves each chip alone in warm-up."""
    if settings.variant == "released" and epoch < settings.warmup_epochs:
        return torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return formulas.same_class_pairs(logits, variant=cast(formulas.Variant, settings.variant))


def _descend(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, grad_clip: float) -> None:
    """Take one step down the gradient, clipped to length `grad_clip`."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), grad_clip)
    optimizer.step()


def _batches(
    views: NDArray[np.float16], rows: NDArray[np.int64], batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Walk over all trained chips once in a new order; each comes with three views, the last two unlike where possible.

    Yields:
        Row numbers within `rows`, int64 [B], and three float tensors [B, D] on the CPU. B >= 2: BatchNorm needs two,
        so a single chip left over joins the batch before it.
    """
    n_views, n = len(views), len(rows)
    order = torch.randperm(n, generator=generator)
    cuts = list(range(batch_size, n - 1, batch_size))
    for chips in torch.tensor_split(order, cuts):
        drawn = torch.randint(n_views, (2, len(chips)), generator=generator)
        apart = torch.randint(1, max(n_views, 2), (len(chips),), generator=generator)
        which = [drawn[0], drawn[1], (drawn[1] + apart) % n_views]
        numbers = rows[chips.numpy()]
        yield chips, [torch.from_numpy(np.asarray(views[view.numpy(), numbers])) for view in which]


def _sample(views: NDArray[np.float16], rows: NDArray[np.int64], generator: torch.Generator, n: int = 4096) -> Tensor:
    """Draw features of up to n chips, a random view of each, float [n, D], to take statistics from."""
    chosen = rows[torch.randperm(len(rows), generator=generator)[:n].numpy()]
    which = torch.randint(len(views), (len(chosen),), generator=generator).numpy()
    return torch.from_numpy(np.asarray(views[which, chosen]))


def _require_both(positive: Tensor) -> None:
    """Refuse to train without a positive, or without an unlabeled chip."""
    if not bool(positive.any()):
        raise TrainingError(
            "NcPU needs positives; this project has none.",
            "Mark damaged buildings on the Annotate page.",
            kind="positives",
        )
    if bool(positive.all()):
        raise TrainingError(
            "NcPU needs unlabeled buildings beside the positives; here all are positive.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
