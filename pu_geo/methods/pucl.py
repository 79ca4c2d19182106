"""PUCL and PUPL: contrastive embeddings, pseudo labels by clustering, a linear classifier; `fit` is Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.analysis.pseudo_labels import FEWEST_CLICKS, TWO_MEANS, Readings, choose
from pu_geo.losses.contrastive import pucl_loss, scl_pu_loss, sscl_loss
from pu_geo.methods.cards.pucl import PuclSettings
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.callbacks import chosen, evaluating, rows_to_judge
from pu_geo.training.contrastive import contrast, contrastive_learner
from pu_geo.training.data import Bools, Ints, PUData, epochs_within, n_batches
from pu_geo.training.heads import linear, projection_head
from pu_geo.training.loop import Training
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives, require_views
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

_LOSSES: dict[str, Callable[..., Tensor]] = {
    "pucl": pucl_loss,
    "scl_pu": scl_pu_loss,
    "sscl": lambda z1, z2, _, temperature: sscl_loss(z1, z2, temperature=temperature),
}

JUDGING = 0.3  # epochs of the embeddings that pseudo labels are chosen on, and of the progress bar, as a share of all
MOST_JUDGED = 20_000  # unlabeled chips that they are chosen on


class PuclNetwork(nn.Module):
    """Encoder (g of the paper) and linear classifier; the projection head is not part of it."""

    def __init__(self, extractor: FeatureExtractor, settings: PuclSettings, generator: torch.Generator) -> None:
        super().__init__()
        dim = settings.embedding_dim
        self.trunk = extractor
        self.out = linear(extractor.out_dim, dim, generator) if dim else nn.Identity()
        self.classifier = linear(dim or extractor.out_dim, 1, generator)

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.out(self.trunk(inputs)))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged by the linear classifier on the unit embedding, float [B]."""
        return cast(Tensor, self.classifier(functional.normalize(self.represent(inputs), dim=1)))[:, 0]


@one_thread_on_features
def fit(data: PUData, settings: PuclSettings, run: Run) -> TrainedModel:
    """Learn embeddings from all chips, pseudo-label them, and train a linear classifier on the pseudo labels.

    Source: PUCL, Algorithm 1 (A), (B), (C).

    Args:
        data, settings: see the classes; at least 2 views where features are cached.
        run: each epoch reports loss.

    Returns:
        The model; findings: "pseudo_labels", float32 [M], what the classifier was taught; "reading", of which kind.

    Raises:
        TrainingError: with fewer than 2 views, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: PUPL and the classifier work on unit-length embeddings, averaged over the views where
    features are cached. The classifier is L2-regularised: pseudo labels from two means are linearly separable, and
    without it cross-entropy has no minimum. Two means, many small clusters or the clicks themselves give the pseudo labels,
    whichever puts held-out clicks first (`pseudo_labels`; preset paper keeps two means). Preset quick trains a small network
    on frozen features, with AdamW.
    """
    rows = data.trained_rows
    require_views(data, "PUCL")
    require_positives(data, rows, "PUCL")
    network = PuclNetwork(new_extractor(data, rows, settings, run), settings, run.generator(0)).to(run.device)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_batches(len(rows), settings.batch_size))
    start, end = training_span(settings)
    reading, middle = settings.pseudo_labels, start
    if reading == "auto":
        middle = start + JUDGING * (end - start)
        reading = _reading(data, rows, settings, run, max(1, round(JUDGING * n_epochs)), (start, middle))

    # A. Contrastive learning; the projection head is thrown away afterwards.
    model = partial(_as_it_is, network, data, rows, reading, settings, run)
    _contrasted(network, data, rows, settings, run, n_epochs, settings.loss, span=(middle, end), model=model)
    return _classified(network, _embedded(network, data, rows, run), data.is_positive[rows], reading, settings, run)


def _contrasted(
    network: PuclNetwork, data: PUData, rows: Ints, settings: PuclSettings, run: Run, n_epochs: int, loss: str, *,
    span: tuple[float, float], model: Callable[[], TrainedModel] | None = None, stage: str = "training", stream: int = 8,
) -> None:  # fmt: skip
    """Do Algorithm 1(A): teach a network, all but its classifier, by a contrastive loss; `_LOSSES` has it by name."""
    encoder = nn.Sequential(network.trunk, network.out)
    head = _projection_head(network.classifier.in_features, settings, run)
    n_steps = n_epochs * n_batches(len(rows), settings.batch_size)
    learner = contrastive_learner(encoder, head, settings.optimizer, settings.lr, settings.weight_decay, n_steps)
    training = Training(run, learner, n_epochs, stage=stage, span=span, model=model)
    loss_of = partial(_LOSSES[loss], temperature=settings.temperature)
    contrast(training, learner, data, rows, loss_of, batch_size=settings.batch_size, stream=stream)
    network.eval()


def _embedded(network: PuclNetwork, data: PUData, rows: Ints, run: Run) -> NDArray[np.float32]:
    return TrainedModel(network, network.trunk, check=run.stop_if_cancelled).embed(data.inputs.array)[rows]


def _reading(data: PUData, rows: Ints, settings: PuclSettings, run: Run, n_epochs: int, span: tuple[float, float]) -> str:
    """Return which of `pseudo_labels.READINGS` held-out clicks speak for; what is doubtful of it becomes a warning.

    Clicks are held out from embeddings, too: they are learned by ssCL, without a label, in fewer epochs. PUCL's own pull all
    clicks together, also those that a reading is not given, and clicks against the rest would win in nearly every event.
    """
    positive = data.is_positive[rows]
    judging = _judging(data, rows)
    if (n_clicks := int(judging.sum())) < FEWEST_CLICKS:
        run.warnings.append(f"{n_clicks} clicks are too few to hold some out and choose pseudo labels by them.")
        return TWO_MEANS
    own = replace(settings, pretrain_epochs=0)
    run.stop_if_cancelled()
    network = PuclNetwork(new_extractor(data, rows, own, run), own, run.generator(0)).to(run.device)
    _contrasted(network, data, rows, own, run, n_epochs, "sscl", span=span, stage="judging", stream=10)
    others = np.flatnonzero(~positive)
    if len(others) > MOST_JUDGED:
        others = others[torch.randperm(len(others), generator=run.generator(12))[:MOST_JUDGED].numpy()]
    some = np.sort(np.concatenate([np.flatnonzero(positive), others]))
    readings = Readings(_embedded(network, data, rows, run)[some], run.seed, settings.classifier_l2, settings.n_seedings,
                        run.stop_if_cancelled)  # fmt: skip
    choice = choose(readings.log_places(positive[some], judging[some]))
    if choice.doubt:
        run.warnings.append(choice.doubt)
    return choice.reading


def _judging(data: PUData, rows: Ints) -> Bools:
    """Return which of some rows are clicks to be held out, bool [M]: the analyst's own, if these are not too few.

    Others are the queue's, which are the clearest damage. Members of accepted clusters are no clicks.
    """
    nobody = np.zeros(len(data.is_positive), np.bool_)
    accepted, queued = (nobody if mask is None else mask for mask in (data.is_accepted, data.is_queued))
    clicked = (data.is_positive & ~accepted)[rows]
    own = clicked & ~queued[rows]
    return own if own.sum() >= FEWEST_CLICKS else clicked


def _classified(
    network: PuclNetwork, embeddings: NDArray[np.float32], positive: Bools, reading: str, settings: PuclSettings, run: Run
) -> TrainedModel:
    """Do Algorithm 1(B) and (C), on embeddings of some chips, float32 [M, E]; the network's classifier is changed."""
    # B. Pseudo labels.
    readings = Readings(embeddings, run.seed, settings.classifier_l2, settings.n_seedings, run.stop_if_cancelled)
    labels = readings.labels(reading, positive)

    # C. The linear classifier.
    slope, offset = readings.classifier(reading, positive, labels)
    with torch.no_grad():
        network.classifier.weight.copy_(torch.from_numpy(slope)[None])
        network.classifier.bias.fill_(offset)
    return TrainedModel(network, network.trunk, {"pseudo_labels": labels, "reading": reading})


def _as_it_is(
    network: PuclNetwork, data: PUData, rows: Ints, reading: str, settings: PuclSettings, run: Run
) -> TrainedModel:
    """Return the model that a training under way would end with, its classifier taught by some of the chips alone."""
    shown = PuclNetwork(network.trunk, settings, torch.Generator())
    shown.out = network.out
    shown.to(run.device)
    some = rows_to_judge(data, rows)
    with evaluating(shown):
        embeddings = TrainedModel(shown, shown.trunk, check=run.stop_if_cancelled).embed(chosen(data.inputs, some))
    return _classified(shown, embeddings, data.is_positive[some], reading, settings, run)


def from_state(state: Mapping[str, Tensor], settings: PuclSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    return TrainedModel.loaded(PuclNetwork(empty_extractor(state, settings), settings, torch.Generator()), state, device)


def _projection_head(n_in: int, settings: PuclSettings, run: Run) -> nn.Module:
    """Two layers, with batch normalisation as in the paper (A.7), or plain ones where batches are small."""
    generator, hidden, n_out = run.generator(3), settings.projection_hidden, settings.projection_dim
    if settings.projection_norm:
        return projection_head(n_in, hidden, n_out, generator).to(run.device)
    first, last = linear(n_in, hidden, generator), linear(hidden, n_out, generator)
    return nn.Sequential(nn.ReLU(), first, nn.ReLU(), last).to(run.device)
