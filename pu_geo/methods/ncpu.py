"""NcPU on cached features of several views: `fit` reads like Algorithm 1 of the paper.

The paper counts the positive class as 0. Here and in `losses` column 1 = damaged; its f_1 is our column 0.
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
from pu_geo.losses import phantom
from pu_geo.methods.settings import NcpuSettings

CHUNK = 8192  # chips that are scored or embedded together
MIN_EPOCHS = 5  # `max_steps` cuts no further: after one or two epochs scores can still be inverted (docs/methods.md)


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
class Learner:
    """What Algorithm 1 carries from batch to batch.

    Attributes:
        network: the online network.
        target: the EMA target of `network.encode`.
        optimizer: of the online network.
        prototypes: float [2, E], row 1 = damaged.
        kept: s', float [M, 2], one row a trained chip.
        threshold: state of the self-adaptive threshold.
        is_positive: bool [M].
    """

    network: NcpuNetwork
    target: nn.Module
    optimizer: torch.optim.Optimizer
    prototypes: Tensor
    kept: Tensor
    threshold: phantom.ThresholdState
    is_positive: Tensor


def fit(data: FeatureViews, settings: NcpuSettings, run: Run) -> NcpuModel:
    """Train NcPU from positives and unlabeled chips.

    Source: NcPU, Algorithm 1 and Appendix F.

    Args:
        data, settings: see the classes.
        run: each epoch reports {epoch, epochs, loss, loss_cls, loss_rep, entropy, threshold, share_positive, seconds};
            share_positive is the share of unlabeled chips called damaged.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or the loss leaves the finite numbers.
        JobCancelled: if the user cancelled.

    Departs from the source: frozen features of cached views in place of images and a trained backbone, which a few
    hundred chips cannot teach; fewer epochs, and fewer still where `max_steps` would be passed.
    """
    rows = data.trained_rows
    learner = _new_learner(data, rows, settings, run)
    n_epochs, n_warmup = _lengths(len(rows), settings)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(learner.optimizer, n_epochs)
    shuffle, began = run.generator(3), time.monotonic()
    for epoch in range(n_epochs):
        ramp = min(1.0, epoch / n_warmup) if n_warmup else 1.0
        values: list[dict[str, float]] = []
        for chips, views in _batches(data.views, rows, settings.batch_size, shuffle):
            seen = [learner.network.standardize(view.to(run.device)) for view in views]
            values.append(_step(learner, chips.to(run.device), seen, settings, ramp))
            run.check(values[-1]["loss"], where=f"epoch {epoch + 1}, batch {len(values)}")
        schedule.step()
        means = {name: sum(each[name] for each in values) / len(values) for name in values[0]}
        run.report({"epoch": epoch + 1, "epochs": n_epochs, **means, "seconds": time.monotonic() - began})
    return NcpuModel(learner.network.eval(), settings.width, settings.embedding_dim)


def _new_learner(data: FeatureViews, rows: NDArray[np.int64], settings: NcpuSettings, run: Run) -> Learner:
    """Set all that Algorithm 1 begins with: networks, zero prototypes, pseudo targets "undamaged", a threshold of 1/2."""
    positive = torch.from_numpy(data.is_positive[rows])
    _require_both(positive)
    network = NcpuNetwork(data.views.shape[2], settings.width, settings.embedding_dim, run.generator(1)).to(run.device)
    network.standardize.fit(_sample(data.views, rows, run.generator(2)).to(run.device))
    like = torch.zeros((), device=run.device)
    return Learner(
        network,
        slow_copy(network.encode),
        torch.optim.SGD(network.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay),
        like.new_zeros(2, settings.embedding_dim),
        phantom.start_pseudo_targets(positive).to(run.device),
        phantom.ThresholdState.start(like),
        positive.to(run.device),
    )


def _lengths(n_chips: int, settings: NcpuSettings) -> tuple[int, int]:
    """Work out how many epochs keep within `max_steps`, `MIN_EPOCHS` at least, and how many of them are warm-up.

    In a training cut short the warm-up takes a quarter at most; else it could end before a pseudo target ever moved.
    """
    affordable = settings.max_steps // (len(_cuts(n_chips, settings.batch_size)) + 1)
    n_epochs = min(settings.epochs, max(MIN_EPOCHS, affordable))
    is_cut = n_epochs < settings.epochs
    return n_epochs, min(settings.warmup_epochs, n_epochs // 4) if is_cut else settings.warmup_epochs


def _step(learner: Learner, chips: Tensor, views: list[Tensor], settings: NcpuSettings, ramp: float) -> dict[str, float]:
    """Do lines 3 to 17 of Algorithm 1 for chips of row numbers, int64 [B], in three standardised views, float [B, D].

    `ramp` is the share of the warm-up that is over, in [0, 1].
    """
    positive = learner.is_positive[chips]
    logits = learner.network.logits(views[0])  # line 4
    online = learner.network.online(views[1])  # line 5
    before = _move_prototypes(learner, logits, online, positive, settings)  # lines 6-8
    move_slow_copy(learner.target, learner.network.encode, settings.ema_momentum)  # line 9
    with torch.no_grad():
        other = learner.target(views[2])  # line 10
    learner.threshold = phantom.updated_threshold(  # line 11
        learner.threshold, logits, positive, momentum=settings.threshold_momentum, variant=_variant(settings)
    )
    if ramp >= 1:  # lines 12-14
        _move_pseudo_targets(learner, chips, online, before, settings)
    share, threshold = torch.softmax(logits.detach(), dim=1), learner.threshold.threshold
    taught = phantom.phantom_gate(learner.kept[chips], share[:, 0], threshold, positive)  # line 15
    terms = {
        "loss_cls": formulas.classification_loss(logits, taught, positive),
        "loss_rep": formulas.noisy_pair_loss(online, other, _pairs(logits, settings, ramp), variant=_variant(settings)),
        "entropy": formulas.entropy(logits),
    }
    entropy_weight = ramp * settings.entropy_weight
    loss = formulas.total_loss(*terms.values(), rep_weight=settings.rep_weight, entropy_weight=entropy_weight)
    learner.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(learner.network.parameters(), settings.grad_clip)
    learner.optimizer.step()  # lines 16-17
    called = (formulas.predicted_damaged(logits) & ~positive).sum() / (~positive).sum().clamp_min(1)
    values = {"loss": loss, **terms, "threshold": threshold, "share_positive": called}
    return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _move_prototypes(learner: Learner, logits: Tensor, online: Tensor, positive: Tensor, settings: NcpuSettings) -> Tensor:
    """Do lines 6 to 8 of Algorithm 1; return the prototypes as they were before."""
    before = learner.prototypes
    is_damaged = formulas.predicted_damaged(logits)
    if settings.variant == "released":
        is_damaged = is_damaged | positive
    learner.prototypes = phantom.updated_prototypes(
        before, online, is_damaged, momentum=settings.prototype_momentum, variant=_variant(settings)
    )
    return before


def _move_pseudo_targets(learner: Learner, chips: Tensor, online: Tensor, before: Tensor, settings: NcpuSettings) -> None:
    """Do lines 12 to 14 of Algorithm 1; the released code looks at the prototypes as they were `before` this batch."""
    nearest = phantom.nearest_prototype(online, learner.prototypes if settings.variant == "paper" else before)
    kept, positive = learner.kept[chips], learner.is_positive[chips]
    learner.kept[chips] = phantom.updated_pseudo_targets(kept, nearest, positive, momentum=settings.target_momentum)


def _variant(settings: NcpuSettings) -> formulas.Variant:
    """Name the variant in the words of `losses`; `settings` has checked it."""
    return cast(formulas.Variant, settings.variant)


def _pairs(logits: Tensor, settings: NcpuSettings, ramp: float) -> Tensor:
    """Mark the pairs that Eq. 7 pulls together, bool [B, B]; the released code leaves each chip alone in warm-up."""
    if settings.variant == "released" and ramp < 1:
        return torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return formulas.same_class_pairs(logits, variant=_variant(settings))


def _cuts(n: int, batch_size: int) -> list[int]:
    """Say where n shuffled chips are cut into batches; a single one left over joins the batch before it."""
    return list(range(batch_size, n - 1, batch_size))


def _batches(
    views: NDArray[np.float16], rows: NDArray[np.int64], batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Walk over all trained chips once in a new order; each comes with three views, the last two unlike where possible.

    Yields:
        Row numbers within `rows`, int64 [B], and three float tensors [B, D] on the CPU. B >= 2, as BatchNorm needs two.
    """
    n_views, order = len(views), torch.randperm(len(rows), generator=generator)
    for chips in torch.tensor_split(order, _cuts(len(rows), batch_size)):
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
