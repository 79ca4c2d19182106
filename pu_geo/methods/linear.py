"""Logistic regression: the instant ranker as a method, and what the class prior is estimated with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.analysis import logistic
from pu_geo.analysis.class_prior import best_bin_share
from pu_geo.errors import TrainingError
from pu_geo.methods.cards.baselines import PRIOR_UNLABELED, LinearSettings
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.data import Ints, PUData
from pu_geo.training.heads import linear, statistics
from pu_geo.training.loop import Training
from pu_geo.training.network import FEATURES_AT_ONCE, IMAGES_AT_ONCE, FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

MAX_ITERATIONS = 200
N_FOLDS, PRIOR_L2 = 5, 0.5


class LinearNetwork(nn.Module):
    """Feature extractor, columns brought to mean 0 and variance 1, and a linear classifier.

    Attributes:
        mean, scale: of each column on the chips as they were cut, float32 [E].
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, extractor: FeatureExtractor) -> None:
        super().__init__()
        self.trunk = extractor
        self.register_buffer("mean", torch.zeros(extractor.out_dim))
        self.register_buffer("scale", torch.ones(extractor.out_dim))
        self.classifier = linear(extractor.out_dim, 1, torch.Generator())

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.trunk(inputs))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of being a positive, both classes weighing the same, float [B]."""
        return cast(Tensor, self.classifier((self.trunk.linear_features(inputs) - self.mean) / self.scale))[:, 0]


class PlainModel(TrainedModel):
    """A model of each chip as it was cut alone, as the instant ranker does."""

    def _views_of(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Of several views the first one counts."""
        return super()._views_of(inputs)[:1]


@dataclass
class Learner:
    """What is trained."""

    network: nn.Module


@one_thread_on_features
def fit(data: PUData, settings: LinearSettings, run: Run) -> PlainModel:
    """Score every chip by a logistic regression of positives against unlabeled chips, both classes weighing the same.

    Source: ours; `analysis.ranker`, with the same objective and, up to its 3,000 unlabeled chips, the same minimum.

    Args:
        data, settings: see the classes. On chips the regression takes what the backbone makes of them.
        run: gets one report, when it is done.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or if inputs are not finite.
        JobCancelled: if the user cancelled.

    Departs from the source: all unlabeled chips are learned from, and those left out have no part in the standardisation.
    """
    rows = data.trained_rows
    require_positives(data, rows, "The linear ranking")
    network = LinearNetwork(new_extractor(data, rows, settings, run)).to(run.device).eval()
    positive, model = torch.from_numpy(data.is_positive[rows]).to(run.device), PlainModel(network, network.trunk)
    stage, span = "fitting", training_span(settings)
    training = Training(run, Learner(network), 1, stage=stage, span=span, model=lambda: model)
    for epoch in training.epochs():
        with epoch:
            values = plain_columns(network.trunk.linear_features, data, rows, run)
            network.mean, network.scale = statistics(values)
            slope, offset, loss = fit_logistic((values - network.mean) / network.scale, positive, settings.l2, run)
            epoch.add({"loss": loss})
            run.n_chips_trained += len(rows)
            with torch.no_grad():
                network.classifier.weight.copy_(slope[None])
                network.classifier.bias.copy_(offset)
    return model


def from_state(state: Mapping[str, Tensor], settings: LinearSettings, device: torch.device) -> PlainModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    return PlainModel.loaded(LinearNetwork(empty_extractor(state, settings)), state, device)


@torch.no_grad()
def plain_columns(features_of: Callable[..., Tensor], data: PUData, rows: Ints, run: Run) -> Tensor:
    """Compute columns of some chips as they were cut, float32 [M, E].

    Args:
        features_of: inputs [B, ...] to columns [B, E]; one whose `takes_views` is true takes the missing views [V, B], too.

    Raises:
        TrainingError: if a value is no finite number.
        JobCancelled: if the user cancelled.
    """
    step, parts = IMAGES_AT_ONCE if len(data.inputs.shape) == 3 else FEATURES_AT_ONCE, []
    for first in range(0, len(rows), step):
        run.stop_if_cancelled()
        block = np.asarray(data.inputs.plain_array[rows[first : first + step]])
        masks: tuple[Tensor, ...] = ()
        if data.is_missing is not None and getattr(features_of, "takes_views", False):
            masks = (torch.from_numpy(data.is_missing[:, rows[first : first + step]]).to(run.device),)
        parts.append(features_of(torch.from_numpy(block).to(run.device), *masks))
    values = torch.cat(parts)
    require_finite(values.isfinite().all(1))
    return values


def require_finite(is_finite: Tensor) -> None:
    """Refuse chips of which something is no finite number.

    Args:
        is_finite: bool [M].

    Raises:
        TrainingError: says of how many.
    """
    n_bad = len(is_finite) - int(is_finite.sum())
    if n_bad:
        raise TrainingError(
            f"What is known of {n_bad} of {len(is_finite)} chips is not finite; a regression needs finite numbers.",
            "Compute the features anew, or leave these chips out.",
            kind="diverged",
        )


def fit_logistic(values: Tensor, positive: Tensor, l2: float, run: Run) -> tuple[Tensor, Tensor, float]:
    """Fit a logistic regression by `analysis.logistic`, on the CPU.

    Args:
        values: standardised columns, float32 [M, E].
        positive: bool [M]; both classes occur. Or chances, float32 [M] in 0..1.
        l2: weight of half the squared length of the slope, against a mean loss. The offset is free.

    Returns:
        Slope [E] and offset [1], float32, and the loss at the minimum.

    Raises:
        JobCancelled: if the user cancelled.
    """
    arrays = values.cpu().double().numpy(), positive.cpu().numpy()
    slope, offset, loss = logistic.fit_logistic(*arrays, l2, **_options(run))
    return *(torch.tensor(each, dtype=torch.float32, device=values.device) for each in (slope, [offset])), loss


def _options(run: Run) -> dict[str, Any]:
    """Return how a method's regressions are fitted: to the end, unless the user cancels."""
    return {"tolerance": 1e-6, "max_iterations": MAX_ITERATIONS, "check": run.stop_if_cancelled}


def estimated_class_prior(data: PUData, positive: Ints, unlabeled: Ints, extractor: FeatureExtractor, run: Run) -> float:
    """Estimate the share of damaged among the unlabeled from scores by regressions that did not see the chip.

    Source: `analysis.class_prior`, on margins of 5 cross-fitted logistic regressions on the chips as they were cut.

    Args:
        positive, unlabeled: row numbers, int64; 3,000 of the unlabeled at most are used.
        extractor: applied to chips where no features are cached; one that nothing has taught yet makes the estimate higher.

    Returns:
        Share in [0, 1].

    Raises:
        TrainingError: with fewer than 2 positives or 2 unlabeled chips, or where inputs are not finite.
    """
    if len(positive) < 2 or len(unlabeled) < 2:
        raise TrainingError(
            "Estimating the share of damage (class prior) needs 2 damaged buildings and 2 not reviewed; here are "
            f"{len(positive)} and "
            f"{len(unlabeled)}.",
            "Set class_prior, the share of damaged among those not reviewed, or mark more damaged buildings.",
            kind="positives",
        )
    drawing = run.generator(9)
    n = min(len(unlabeled), PRIOR_UNLABELED)
    chosen = torch.randperm(len(unlabeled), generator=drawing)[:n].numpy()
    rows = np.concatenate([positive, unlabeled[chosen]])
    extractor.eval()
    values = plain_columns(torch.Tensor.float if len(data.inputs.shape) == 1 else extractor, data, rows, run)
    extractor.train()
    mean, scale = statistics(values)
    is_positive = torch.arange(len(values)) < len(positive)
    margins = cross_fitted((values - mean) / scale, is_positive, drawing, run)
    return best_bin_share(margins[: len(positive)], margins[len(positive) :])


def cross_fitted(values: Tensor, is_positive: Tensor, drawing: torch.Generator, run: Run) -> NDArray[np.float32]:
    """Margin, float32 [M], of each row of float32 [M, E] by a fit that did not see it; 5 parts, drawn for each class."""
    n_folds = min(N_FOLDS, int(is_positive.sum()), int((~is_positive).sum()))
    fold = torch.empty(len(values), dtype=torch.int64)
    for group in (is_positive, ~is_positive):
        fold[group] = torch.randperm(int(group.sum()), generator=drawing) % n_folds
    arrays = values.cpu().numpy(), is_positive.cpu().numpy(), fold.numpy()
    return logistic.cross_fitted(*arrays, PRIOR_L2, **_options(run))
