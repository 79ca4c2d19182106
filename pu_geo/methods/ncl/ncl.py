"""NCL: which kinds of building, besides those named so far, are among the unlabeled? Novel category discovery.

D^l are the chips about which a person said something: a kind of damage, or "not damaged"; its classes are those given. D^u
are all others. In the source D^l and D^u share no class. Here they do, since most damage is still unlabeled, so the clusters
of D^u are kinds of any unlabeled building, the known kinds among them. A cluster is a guess; only a person names it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import TrainingError
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl.discovery import SuggestedNumber, central_chips, cluster_shares, suggested_number
from pu_geo.methods.ncl.memory_queue import MemoryQueue
from pu_geo.methods.ncl.step import Batch, Learner, NclNetwork, losses
from pu_geo.methods.pretraining import WARMUP_SHARE, empty_trunk, new_trunk, training_span
from pu_geo.training.batching import epochs_within, n_batches
from pu_geo.training.callbacks import chosen, evaluating, rows_to_judge
from pu_geo.training.data import UNKNOWN, FeatureViews, PUData, Strength, batches
from pu_geo.training.loop import MicroBatcher, Training
from pu_geo.training.network import TrainedModel, require_positives
from pu_geo.training.optim import new_optimizer, warmup_cosine
from pu_geo.training.run import Run

VIEWS: tuple[Strength, ...] = ("strong", "strong")
CANDIDATES = range(2, 13)
FEWEST_PAIRS = 0.001
"""Where fewer pairs are taken for one category, the pairs teach next to nothing."""


def fit(data: PUData, settings: NclSettings, run: Run) -> TrainedModel:
    """Sort unlabeled chips into new clusters while learning the known classes; every step takes the labeled chips along.

    Source: NCL notes, overall loss: base (cross entropy, pairs, consistency), neighborhood and supervised contrast.

    Args:
        data, settings: see the classes; at least 2 views where features are cached.
        run: each epoch reports loss, its five terms, and share_pairs, the share of pairs taken for one category.

    Returns:
        The model. Findings, for the M trained rows: "clusters", int64 [M]; "shares", how much of each cluster is positive,
        float64 [C^u]; "central", for each cluster the numbers of the unlabeled chips that stand for it, int64, nearest
        first; "suggested", a `SuggestedNumber` from the embeddings of the unlabeled, or None where they are too few.

    Raises:
        TrainingError: with fewer than 2 views, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: pairs may be the nearest ones, see `same_category`. Hard negatives need an idea of the anchor's
    class, see `ncl_step`; with one known class there are none, and cross entropy is 0. Ours, as the notes are silent: the
    optimiser, weights and ramp, a projection between trunk and heads, `pretrain_epochs`, queues of second views as the
    network embeds them (no slow copy), and the score.
    """
    rows = data.trained_rows
    require_positives(data, rows, "NCL")
    is_labeled = data.classes[rows] != UNKNOWN
    _require_contrast(data, is_labeled)
    n_steps = n_batches(int((~is_labeled).sum()), settings.batch_size)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    learner, pieces = _new_learner(data, rows, settings, run, n_epochs * n_steps), MicroBatcher(run)
    share_pairs, now = 0.0, partial(_as_it_is, learner.network, data, rows, settings)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=now).epochs():
        drawing, ramp = epoch.generator(4), _ramp(epoch.number, settings.ramp_share * n_epochs)
        with epoch:
            for numbers in _steps(is_labeled, settings, epoch.generator(3)):
                views = data.inputs.draw(rows[numbers], VIEWS, drawing, run.device)
                classes = torch.from_numpy(data.classes[rows[numbers]]).to(run.device)
                seed = int(torch.randint(2**31, (), generator=drawing))
                epoch.add(_step(learner, pieces, Batch(views, classes, ramp, seed), settings))
            share_pairs = epoch.means()["share_pairs"]
    _warn_of_pairs(share_pairs, settings, run)
    return _judged(learner.network.eval(), data, rows, settings, run)


def from_state(state: Mapping[str, Tensor], settings: NclSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    network = NclNetwork(empty_trunk(state, settings), state["known"], settings, torch.Generator())
    network.load_state_dict(dict(state))
    return TrainedModel(network.to(device).eval(), network.trunk)


def _new_learner(data: PUData, rows: NDArray[np.int64], settings: NclSettings, run: Run, n_steps: int) -> Learner:
    """Set up network, optimiser, schedule (linear warm-up over a tenth of the steps, then a cosine) and empty queues."""
    trunk = new_trunk(data, rows, settings, run)
    said = np.unique(data.classes[rows])
    network = NclNetwork(trunk, torch.from_numpy(said[said != UNKNOWN]), settings, run.generator(1)).to(run.device)
    optimizer = new_optimizer(settings.optimizer, network, settings.lr, settings.weight_decay)
    n_warmup = max(1, round(WARMUP_SHARE * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, n_steps, n_warmup))
    size, dim = settings.queue_size, network.project.out_features
    queues = (MemoryQueue.empty(size, dim, run.device) for _ in range(2))
    return Learner(network, optimizer, schedule, *queues)


def _ramp(epoch: int, n_ramp: float) -> float:
    """Factor on the weight of consistency in an epoch counted from 1 (Laine and Aila 2017): exp(-5 (1 - t)^2), up to 1."""
    return math.exp(-5 * (1 - min(1.0, epoch / n_ramp)) ** 2) if n_ramp else 1.0


def _steps(is_labeled: NDArray[np.bool_], settings: NclSettings, generator: torch.Generator) -> list[NDArray[np.int64]]:
    """Deal out the unlabeled chips of an epoch, and add the labeled ones to each step, mixed so that pieces have of both."""
    labeled, unlabeled = np.flatnonzero(is_labeled), np.flatnonzero(~is_labeled)
    found = []
    for numbers in batches(len(unlabeled), settings.batch_size, generator):
        drawn = torch.randperm(len(labeled), generator=generator)[: settings.labeled_batch].numpy()
        both = np.concatenate([labeled[drawn], unlabeled[numbers]])
        found.append(both[torch.randperm(len(both), generator=generator).numpy()])
    return found


def _step(learner: Learner, pieces: MicroBatcher, batch: Batch, settings: NclSettings) -> dict[str, float]:
    """Move the weights once, then remember the batch: the second views, as they were embedded before that move."""
    mixing = torch.Generator()

    def begin() -> None:
        mixing.manual_seed(batch.seed)
        learner.optimizer.zero_grad(set_to_none=True)

    def work(part: slice, share: float) -> tuple[dict[str, float], Tensor]:
        values, second = losses(learner, batch.part(part), settings, mixing)
        (share * values["loss"]).backward()
        told = (share * torch.stack(list(values.values())).detach()).tolist()
        return dict(zip(values, told, strict=True)), second.detach()

    found = pieces.each(len(batch.classes), begin, work)
    learner.optimizer.step()
    learner.schedule.step()
    embeddings, is_known = torch.cat([second for _, second in found]), batch.classes != UNKNOWN
    learner.labeled.push(embeddings[is_known], batch.classes[is_known])
    learner.unlabeled.push(embeddings[~is_known], batch.classes[~is_known])
    return {name: sum(values[name] for values, _ in found) for name in found[0][0]}


def _judged(network: NclNetwork, data: PUData, rows: NDArray[np.int64], settings: NclSettings, run: Run) -> TrainedModel:
    """Judge each cluster by its positives, which the score needs, and gather the findings."""
    model, is_positive = TrainedModel(network, network.trunk), data.is_positive[rows]
    logits = model._apply(data.inputs.array, network.cluster_logits, lambda mean: mean)[rows]
    soft = torch.softmax(torch.from_numpy(logits) / settings.softness, dim=1).numpy()
    network.shares.copy_(torch.from_numpy(cluster_shares(soft, is_positive, settings.smoothing)))
    clusters, embeddings = logits.argmax(axis=1), model.embed(data.inputs.array)[rows]
    is_unlabeled = data.classes[rows] == UNKNOWN
    central = central_chips(embeddings, np.where(is_unlabeled, clusters, -1), settings.n_new)
    findings = {
        "clusters": clusters,
        "shares": cluster_shares(np.eye(settings.n_new)[clusters], is_positive, settings.smoothing),
        "central": [rows[numbers] for numbers in central],
        "suggested": _suggested(embeddings[is_unlabeled], settings, run),
    }
    return TrainedModel(network, network.trunk, findings)


def _as_it_is(network: NclNetwork, data: PUData, rows: NDArray[np.int64], settings: NclSettings) -> TrainedModel:
    """Judge the clusters of a training under way as `_judged` does, by some of the chips, and leave its network as it is."""
    shown = copy.copy(network)
    shown._buffers = dict(network._buffers)
    some = rows_to_judge(data, rows)
    with evaluating(network):
        logits = TrainedModel(network, network.trunk)._apply(
            chosen(data.inputs, some), network.cluster_logits, lambda mean: mean
        )
    soft = torch.softmax(torch.from_numpy(logits) / settings.softness, dim=1).numpy()
    shares = cluster_shares(soft, data.is_positive[some], settings.smoothing)
    shown.shares = network.shares.new_tensor(shares)
    return TrainedModel(shown, shown.trunk)


def _suggested(embeddings: NDArray[np.float32], settings: NclSettings, run: Run) -> SuggestedNumber | None:
    """Estimate the number of clusters, and say so where it is not the one that was asked for."""
    candidates = [k for k in CANDIDATES if k < len(embeddings)]
    if not candidates:
        return None
    found = suggested_number(embeddings, candidates, run.generator(8))
    if found.number != settings.n_new:
        compared = "".join(f", against {found.silhouettes[k]:.2f} of {k}" for k in candidates if k == settings.n_new)
        run.warnings.append(
            f"The unlabeled buildings were sorted into {settings.n_new} clusters (n_new); their embeddings fall most clearly "
            f"into {found.number} (silhouette {found.silhouettes[found.number]:.2f}{compared}). Look at the clusters of both."
        )
    return found


def _warn_of_pairs(share_pairs: float, settings: NclSettings, run: Run) -> None:
    """Say so where the cosine was hardly ever reached."""
    if share_pairs < FEWEST_PAIRS and settings.pair_rule == "cosine":
        run.warnings.append(
            f"Of the pairs of buildings {share_pairs:.2%} reached a cosine of {settings.threshold}, so pairs taught next to "
            "nothing. Lower threshold, or set pair_rule to nearest."
        )


def _require_contrast(data: PUData, is_labeled: NDArray[np.bool_]) -> None:
    """Refuse data in which there is nothing to sort, or nothing to compare."""
    if is_labeled.all():
        raise TrainingError(
            f"NCL sorts the unlabeled buildings; all {len(is_labeled)} of this project are labeled.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    if isinstance(data.inputs, FeatureViews) and len(data.inputs.views) < 2:
        raise TrainingError(
            f"NCL compares two views of each chip; this chip set has {len(data.inputs.views)}.",
            "Compute the features again with more views.",
            kind="views",
        )
