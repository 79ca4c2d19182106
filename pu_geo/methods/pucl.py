"""PUCL and PUPL on cached features: contrastive embeddings, pseudo labels by clustering, a linear classifier.

Preset `quick`: the backbone is a small network on frozen features, and augmented views are read from the cache.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.analysis.pupl import PuplResult, pupl
from pu_geo.engine.data import FeatureViews
from pu_geo.engine.heads import Standardize, seeded
from pu_geo.engine.run import Run
from pu_geo.errors import ShapeError, TrainingError
from pu_geo.losses.contrastive import pucl_loss, scl_pu_loss, sscl_loss
from pu_geo.methods.settings import PuclSettings

_WARMUP_SHARE = 0.1
_ROWS_AT_ONCE = 8192
_ROWS_FOR_STATISTICS = 5000
_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, float], Tensor]] = {
    "pucl": lambda z1, z2, positive, temperature: pucl_loss(z1, z2, positive, temperature=temperature),
    "scl_pu": lambda z1, z2, positive, temperature: scl_pu_loss(z1, z2, positive, temperature=temperature),
    "sscl": lambda z1, z2, _, temperature: sscl_loss(z1, z2, temperature=temperature),
}


class PuclNetwork(nn.Module):
    """Backbone and linear classifier on frozen features [B, D]; the projection head is not part of it.

    A fresh one has no values yet: they are drawn by `fit` or loaded.

    Args:
        in_dim: D.
        width: hidden units; 0 makes the backbone linear.
        embedding_dim: E.
    """

    def __init__(self, in_dim: int, width: int, embedding_dim: int) -> None:
        super().__init__()
        self.standardize = Standardize(in_dim)
        self.hidden = _linear(in_dim, width) if width else None
        self.out = _linear(width or in_dim, embedding_dim)
        self.classifier = _linear(embedding_dim, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Turn features, float [B, D], into representations of any length, float [B, E]."""
        rows = self.standardize(features)
        return self.out(rows if self.hidden is None else functional.relu(self.hidden(rows)))


@dataclass(frozen=True)
class PuclModel:
    """A trained PUCL.

    Attributes:
        network: backbone and linear classifier, in evaluation mode.
        pupl: pseudo labels of the training rows, in the order of `FeatureViews.trained_rows`; None in a loaded model.
    """

    network: PuclNetwork
    pupl: PuplResult | None = None

    def embed(self, features: NDArray[np.floating]) -> NDArray[np.float32]:
        """Embed chips from one view, float [M, D], or as the mean over views, float [V, M, D].

        Returns:
            float32 [M, E], unit length.
        """
        device = self.network.out.weight.device
        return _embeddings(self.network, features, device).cpu().numpy()

    def score(self, features: NDArray[np.floating]) -> NDArray[np.float32]:
        """Estimate P(damaged), uncalibrated, from features as in `embed`; float32 [M] in [0, 1]."""
        embeddings = torch.from_numpy(self.embed(features)).to(self.network.out.weight.device)
        with torch.inference_mode():
            return self.network.classifier(embeddings)[:, 0].sigmoid().cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        """All weights, on the CPU, contiguous; `from_state` builds the model again."""
        return {name: value.detach().cpu().contiguous().clone() for name, value in self.network.state_dict().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> PuclModel:
        """Build a model, on the CPU, from what `state` gave. The pseudo labels are not in it."""
        width = len(state["hidden.bias"]) if "hidden.bias" in state else 0
        network = PuclNetwork(len(state["standardize.mean"]), width, len(state["out.bias"]))
        network.load_state_dict(dict(state))
        return cls(network.eval())


def fit(data: FeatureViews, settings: PuclSettings, run: Run) -> PuclModel:
    """Learn embeddings from all chips, pseudo-label them, and train a linear classifier on the pseudo labels.

    Source: PUCL, Algorithm 1 (A), (B), (C).

    Args:
        data: cached features, at least 2 views; left-out chips are not used.
        settings: see `PuclSettings`.
        run: gets {"epoch", "epochs", "loss", "seconds"} after each epoch, and {"share_positive"} with the last.

    Returns:
        The model. `pupl.oriented` is False where the pseudo labels do not follow the positives.

    Raises:
        TrainingError: with fewer than 2 views, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: the features are frozen and only a small backbone is trained, with AdamW in place of LARS.
    PUPL and the classifier work on unit-length embeddings averaged over the views. The classifier is L2-regularised:
    pseudo labels from two means are linearly separable, and without it cross-entropy has no minimum.
    """
    rows = data.trained_rows
    is_positive = data.is_positive[rows]
    _check_data(data, is_positive)
    network = _new_network(data, rows, settings, run)

    # A. Contrastive learning; the projection head is thrown away afterwards.
    head = _projection_head(settings, run)
    losses = _train(network, head, data, rows, settings, run)
    network.eval()

    # B. Pseudo labels.
    embeddings = _embeddings(network, data.views, run.device, rows)
    result = pupl(embeddings.cpu().numpy(), is_positive, seed=run.seed, n_seedings=settings.n_seedings)

    # C. The linear classifier.
    labels = torch.from_numpy(result.labels).to(run.device, torch.float32)
    _fit_classifier(network.classifier, embeddings, labels, settings.classifier_l2)
    run.report(losses | {"share_positive": float(result.labels[~is_positive].mean())})
    return PuclModel(network, result)


def _check_data(data: FeatureViews, is_positive: NDArray[np.bool_]) -> None:
    """Refuse data that no contrast can be learned from."""
    if len(data.views) < 2:
        raise TrainingError(
            f"PUCL compares two views of each chip; this chip set has {len(data.views)}.",
            "Compute the features again with more views.",
            kind="views",
        )
    n_positive = int(is_positive.sum())
    if n_positive in (0, len(is_positive)):
        raise TrainingError(
            f"PUCL needs at least one positive and one unlabeled chip; this set has {n_positive} positives "
            f"among {len(is_positive)} chips.",
            "Mark damaged buildings on the Annotate page, and leave the others unmarked.",
            kind="labels",
        )


def _train(
    network: PuclNetwork,
    head: nn.Module,
    data: FeatureViews,
    rows: NDArray[np.int64],
    settings: PuclSettings,
    run: Run,
) -> dict[str, object]:
    """Algorithm 1(A). Returns the last epoch's report, which `fit` sends together with what the later parts found."""
    loss_of = _LOSSES[settings.loss]
    optimizer = torch.optim.AdamW(
        [*network.parameters(), *head.parameters()], lr=settings.lr, weight_decay=settings.weight_decay
    )
    n_batches = -(-len(rows) // settings.batch_size)
    n_epochs = max(1, min(settings.epochs, settings.max_steps // n_batches))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _warmup_then_cosine(step, n_epochs * n_batches))
    generator, began = run.generator(1), time.monotonic()
    facts: dict[str, object] = {}
    network.train()
    for epoch in range(1, n_epochs + 1):
        total, seen = 0.0, 0
        for number, (view1, view2, positive) in enumerate(_batches(data, rows, settings.batch_size, generator), 1):
            z1 = head(network(view1.to(run.device)))
            z2 = head(network(view2.to(run.device)))
            loss = loss_of(z1, z2, positive.to(run.device), settings.temperature)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            value = float(loss.detach())
            run.check(value, where=f"epoch {epoch}, batch {number}")
            total, seen = total + value * len(positive), seen + len(positive)
        facts = {"epoch": epoch, "epochs": n_epochs, "loss": total / seen, "seconds": time.monotonic() - began}
        if epoch < n_epochs:
            run.report(facts)
    return facts


def _batches(
    data: FeatureViews, rows: NDArray[np.int64], batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Go through all rows once, in shuffled batches of nearly equal size, each chip in two different views."""
    n_views = len(data.views)
    order = torch.randperm(len(rows), generator=generator)
    for part in order.tensor_split(-(-len(rows) // batch_size)):
        first = torch.randint(n_views, (len(part),), generator=generator)
        second = (first + torch.randint(1, n_views, (len(part),), generator=generator)) % n_views
        chosen = rows[part.numpy()]
        view1, view2 = (torch.from_numpy(data.views[v.numpy(), chosen].astype(np.float32)) for v in (first, second))
        yield view1, view2, torch.from_numpy(data.is_positive[chosen])


def _embeddings(
    network: PuclNetwork, features: NDArray[np.floating], device: torch.device, rows: NDArray[np.int64] | None = None
) -> Tensor:
    """Unit embeddings [M, E] on the device, averaged over views where there are several, of all or the given rows."""
    views = features[None] if features.ndim == 2 else features
    if views.ndim != 3 or views.shape[2] != len(network.standardize.mean):
        raise ShapeError(
            f"features must be [M, {len(network.standardize.mean)}] or [V, M, {len(network.standardize.mean)}]; "
            f"got {features.shape}."
        )
    rows = np.arange(views.shape[1]) if rows is None else rows
    parts = [torch.empty(0, network.out.out_features, device=device)]
    with torch.inference_mode():
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            chosen = rows[start : start + _ROWS_AT_ONCE]
            block = (torch.from_numpy(view[chosen].astype(np.float32)).to(device) for view in views)
            mean = torch.stack([functional.normalize(network(view), dim=1) for view in block]).mean(dim=0)
            parts.append(functional.normalize(mean, dim=1))
    return torch.cat(parts)


def _fit_classifier(classifier: nn.Linear, embeddings: Tensor, labels: Tensor, l2: float) -> None:
    """Algorithm 1(C): logistic regression of labels, float 0/1 [M], on embeddings [M, E], all rows at once."""
    nn.init.zeros_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    optimizer = torch.optim.LBFGS(classifier.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        logits = classifier(embeddings)[:, 0]
        loss = functional.binary_cross_entropy_with_logits(logits, labels) + l2 / 2 * classifier.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def _new_network(data: FeatureViews, rows: NDArray[np.int64], settings: PuclSettings, run: Run) -> PuclNetwork:
    """A fresh network that standardises features by the mean and spread of view 0 of some trained rows."""
    network = PuclNetwork(data.views.shape[2], settings.width, settings.embedding_dim)
    seeded(network, run.generator(0))
    some = torch.from_numpy(data.views[0][rows[:: -(-len(rows) // _ROWS_FOR_STATISTICS)]].astype(np.float32))
    network.standardize.fit(some)
    return network.to(run.device)


def _projection_head(settings: PuclSettings, run: Run) -> nn.Module:
    """Two layers after the backbone, for training only."""
    size = settings.embedding_dim
    head = nn.Sequential(nn.ReLU(), _linear(size, size), nn.ReLU(), _linear(size, settings.projection_dim))
    return seeded(head, run.generator(2)).to(run.device)


def _linear(n_in: int, n_out: int) -> nn.Linear:
    """A linear layer without values: torch would draw them from the random numbers of the whole process."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out)
    return layer


def _warmup_then_cosine(step: int, n_steps: int) -> float:
    """Factor on the learning rate: up along a line for the first tenth of the steps, then down along a cosine."""
    n_warmup = max(1, round(_WARMUP_SHARE * n_steps))
    if step < n_warmup:
        return (step + 1) / n_warmup
    return 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / max(1, n_steps - n_warmup)))
