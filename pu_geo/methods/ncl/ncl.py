"""NCL: which kinds of building, besides those named so far, are among the unlabeled? Novel category discovery.

D^l are the chips that a person labeled: a kind of damage, or "not damaged"; its classes are those given. D^u
are all others. In the source D^l and D^u share no class. Here they do, since most damage is still unlabeled, so the clusters
of D^u are kinds of any unlabeled building, the known kinds among them. A cluster is a guess; only a person names it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.errors import TrainingError
from pu_geo.losses import neighborhood as formulas
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl.discovery import cluster_shares, suggested_number
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.callbacks import chosen, evaluating, rows_to_judge
from pu_geo.training.data import NOT_DAMAGED, UNKNOWN, Ints, PUData, Strength, batches_with_labeled, epochs_within, n_batches
from pu_geo.training.heads import linear
from pu_geo.training.loop import MicroBatcher, Training, stepped
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives, require_views
from pu_geo.training.optim import new_optimizer, warmup_schedule
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features


@dataclass
class MemoryQueue:
    """Embeddings of earlier batches and their classes; all its fields decide the future, so a snapshot keeps them.

    Attributes:
        rows: float [Q, E]; slots beyond `n_filled` are empty.
        classes: int64 [Q]; -1 where nobody labeled the chip.
        place: the slot that is written next.
        n_filled: how many slots have been written.
    """

    rows: Tensor
    classes: Tensor
    place: int = 0
    n_filled: int = 0

    @classmethod
    def empty(cls, size: int, dim: int, device: torch.device) -> MemoryQueue:
        """Make a queue of `size` empty slots for embeddings of length `dim`."""
        return cls(torch.zeros(size, dim, device=device), torch.full((size,), -1, device=device))

    def filled(self) -> tuple[Tensor, Tensor]:
        """Return what has been written: rows, float [F, E], and classes, int64 [F]; views, valid until the next `push`."""
        return self.rows[: self.n_filled], self.classes[: self.n_filled]

    @torch.no_grad()
    def push(self, rows: Tensor, classes: Tensor) -> None:
        """Write a batch over the oldest slots; of a batch longer than the queue only the end is kept.

        Args:
            rows: float [B, E]; copied, without gradient.
            classes: int64 [B].
        """
        size = len(self.rows)
        rows, classes = rows[-size:], classes[-size:]
        slots = (self.place + torch.arange(len(rows), device=rows.device)) % size
        self.rows[slots] = rows.to(self.rows)
        self.classes[slots] = classes
        self.place = (self.place + len(rows)) % size
        self.n_filled = min(self.n_filled + len(rows), size)


class NclNetwork(nn.Module):
    """Feature extractor (R of the notes), an embedding, and two heads: of the known classes and of the new clusters.

    Attributes:
        known: class numbers of D^l in the known head's order, int64 [C^l].
        shares: of each cluster, how much of it is positive, float [C^u] in (0, 1); for the score, set after training.
    """

    known: Tensor
    shares: Tensor

    def __init__(
        self, extractor: FeatureExtractor, known: Tensor, settings: NclSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        dim = settings.embedding_dim or extractor.out_dim
        self.trunk = extractor
        self.project = linear(extractor.out_dim, dim, generator)
        self.known_head = linear(dim, len(known), generator)
        self.new_head = linear(dim, settings.n_new, generator)
        self.register_buffer("known", known.clone())
        self.register_buffer("shares", torch.full((settings.n_new,), 0.5))
        self.softness = settings.softness

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.project(self.trunk(inputs)))

    def cluster_logits(self, inputs: Tensor) -> Tensor:
        """Sort inputs [B, ...] into clusters: phi^u before its softmax, float [B, C^u]."""
        return cast(Tensor, self.new_head(self.represent(inputs)))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged, float [B]: by the shares of the clusters, and by the known classes where these separate
        damage.

        The first part is the log odds of sum_c m_c share_c, where m is the soft membership: phi^u with its logits divided
        by `softness`, as phi^u itself is nearly 0 or 1 and would order hardly more than clusters. The second part is that
        of phi^l, for any kind of damage against "not damaged"; it is left out where nothing was called so.
        """
        embedding = self.represent(inputs)
        memberships = functional.log_softmax(self.new_head(embedding) / self.softness, dim=1)
        damaged, rest = ((memberships + side.log()).logsumexp(dim=1) for side in (self.shares, 1 - self.shares))
        is_kind = self.known != NOT_DAMAGED
        if is_kind.all():
            return damaged - rest
        known = self.known_head(embedding)
        return damaged - rest + known[:, is_kind].logsumexp(dim=1) - known[:, ~is_kind].logsumexp(dim=1)


@dataclass
class Learner:
    """What the training carries from step to step.

    Attributes:
        optimizer, schedule: of all its weights; the schedule moves once a step.
        unlabeled, labeled: M^u and M^l, second views of the latest chips as they were embedded then.
        share_pairs: of the last epoch, see `fit`.
    """

    network: NclNetwork
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    unlabeled: MemoryQueue
    labeled: MemoryQueue
    share_pairs: float = 0.0


@dataclass(frozen=True)
class Batch:
    """Chips of one step.

    Attributes:
        views: two views, float [B, ...] each.
        classes: what people labeled, int64 [B]; see `PUData.classes`.
        ramp: of the weight of consistency, in (0, 1].
        seed: of the mixtures of hard negatives.
    """

    views: list[Tensor]
    classes: Tensor
    ramp: float
    seed: int

    def part(self, part: slice) -> Batch:
        """Return some of the chips."""
        return Batch([view[part] for view in self.views], self.classes[part], self.ramp, self.seed)


def losses(
    learner: Learner, batch: Batch, settings: NclSettings, mixing: torch.Generator
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute the overall loss of a batch.

    Returns:
        Scalars: "loss", its five terms as weighted, and share_pairs; and the embeddings of the second views, float [B, E].
    """
    network, is_known = learner.network, batch.classes != UNKNOWN
    features = [network.trunk(view) for view in batch.views]
    first, second = (network.project(each) for each in features)
    known1, known2 = network.known_head(first), network.known_head(second)
    new1, new2 = network.new_head(first), network.new_head(second)
    consistency = formulas.consistency_loss(known1, known2) + formulas.consistency_loss(new1, new2)
    nothing = consistency.new_zeros(())
    cls = supervised = pairs = neighbors = share_pairs = nothing  # a piece of a batch may hold none of either kind
    if is_known.any():
        classes = batch.classes[is_known]
        cls = functional.cross_entropy(known1[is_known], torch.searchsorted(network.known, classes))
        supervised = formulas.supervised_queue_loss(
            first[is_known], second[is_known], classes, *learner.labeled.filled(), temperature=settings.temperature
        )
    if not is_known.all():
        same, share_pairs = same_category(features[0][~is_known], settings)
        pairs = formulas.pair_cross_entropy(new1[~is_known], new2[~is_known], same)
        guessed = network.known[known1[~is_known].argmax(dim=1)]
        queue, _ = learner.unlabeled.filled()
        neighbors = formulas.neighborhood_loss(
            first[~is_known], second[~is_known], queue, k=settings.n_neighbors or max(1, len(queue) // (2 * settings.n_new)),
            self_weight=settings.self_weight, temperature=settings.temperature,
            hard=_hard_negatives(learner, first[~is_known], guessed, settings, mixing) if settings.n_hard else None,
        )  # fmt: skip
    terms = {
        "loss_cls": cls,
        "loss_pairs": settings.pair_weight * pairs,
        "loss_consistency": batch.ramp * settings.consistency_weight * consistency,
        "loss_neighbors": settings.neighbor_weight * neighbors,
        "loss_supervised": settings.supervised_weight * supervised,
    }
    return {"loss": torch.stack(list(terms.values())).sum(), **terms, "share_pairs": share_pairs}, second


@torch.no_grad()
def same_category(features: Tensor, settings: NclSettings) -> tuple[Tensor, Tensor]:
    """Guess which pairs of unlabeled chips are of one category, from the extractor's features of their first views.

    Args:
        features: float [B, D].
        settings: `pair_rule` says how. "nearest" takes half of the pairs that `n_new` clusters of equal size would hold.

    Returns:
        bool [B, B], symmetric, true on the diagonal; and the share of pairs of two chips that are taken, a scalar.

    Departs from the source: "nearest" is ours. A cosine of 0.95 is for features that were trained for long with labels.
    """
    threshold, n = settings.threshold, len(features)
    if settings.pair_rule == "nearest":
        unit = functional.normalize(features, dim=1)
        cosines = (unit @ unit.T)[~torch.eye(n, dtype=torch.bool, device=unit.device)]
        n_taken = round(len(cosines) / (2 * settings.n_new))
        limit = cosines.kthvalue(len(cosines) - n_taken + 1).values if n_taken else cosines.new_ones(())
        threshold = float(limit.nan_to_num(1.0).clamp(-1, 1))
    same = formulas.pair_targets(features, threshold=threshold)
    return same, (same.sum() - n) / max(1, n * (n - 1))


def _hard_negatives(
    learner: Learner, anchors: Tensor, guessed: Tensor, settings: NclSettings, mixing: torch.Generator
) -> formulas.HardNegatives | None:
    """Mix hard negatives for unlabeled chips from M^u and M^l; None where M^l has nothing that may serve.

    An unlabeled chip may be of any known class, so the labeled items of its own would be no negatives. Its class is
    `guessed`, int64 [B], by phi^l; with one known class there is no other to take items from.
    """
    (queue, _), (labeled, classes) = learner.unlabeled.filled(), learner.labeled.filled()
    may_mix = guessed[:, None] != classes
    if len(queue) == 0 or not may_mix.any():
        return None
    partners, easy_share = formulas.draw_mixing(may_mix, settings.n_easy, generator=mixing)
    return formulas.hard_negatives(
        anchors, queue, labeled, may_mix, partners=partners, easy_share=easy_share, n_hard=settings.n_hard
    )


VIEWS: tuple[Strength, ...] = ("strong", "strong")
CANDIDATES = range(2, 13)
FEWEST_PAIRS = 0.001  # where fewer pairs are taken for one category, the pairs teach next to nothing


@one_thread_on_features
def fit(data: PUData, settings: NclSettings, run: Run) -> TrainedModel:
    """Sort unlabeled chips into new clusters while learning the known classes; every step takes the labeled chips along.

    Source: NCL notes, overall loss: base (cross entropy, pairs, consistency), neighborhood and supervised contrast.

    Args:
        data, settings: see the classes; at least 2 views where features are cached.
        run: each epoch reports loss, its five terms, and share_pairs, the share of pairs taken for one category.

    Returns:
        The model. Findings, for the M trained rows: "clusters", int64 [M]; "memberships", share of each chip in each
        cluster, as the score takes it, float32 [M, C^u]; "embeddings", unit rows, float32 [M, E].

    Raises:
        TrainingError: with fewer than 2 views, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: pairs may be the nearest ones, see `same_category`. Hard negatives need an idea of the anchor's
    class, see `_hard_negatives`; with one known class there are none, and cross entropy is 0. Ours, as the notes are silent:
    the optimiser, weights and ramp, a projection between feature extractor and heads, `pretrain_epochs`, queues of second
    views as the network embeds them (no slow copy), and the score.
    """
    rows = data.trained_rows
    require_positives(data, rows, "NCL")
    is_labeled = data.classes[rows] != UNKNOWN
    if is_labeled.all():
        raise TrainingError(
            f"NCL sorts the buildings not reviewed; all {len(is_labeled)} of this project are labeled.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    require_views(data, "NCL")
    n_steps = n_batches(int((~is_labeled).sum()), settings.batch_size)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    learner, pieces = _new_learner(data, rows, settings, run, n_epochs * n_steps), MicroBatcher(run)
    now = partial(_as_it_is, learner.network, data, rows, settings, run)
    for epoch in Training(run, learner, n_epochs, span=training_span(settings), model=now).epochs():
        drawing, ramp = epoch.generator(4), _ramp(epoch.number, settings.ramp_share * n_epochs)
        with epoch:
            for numbers in batches_with_labeled(is_labeled, settings.batch_size, settings.labeled_batch, epoch.generator(3)):
                views = data.inputs.draw(rows[numbers], VIEWS, drawing, run.device)
                classes = torch.from_numpy(data.classes[rows[numbers]]).to(run.device)
                seed = int(torch.randint(2**31, (), generator=drawing))
                epoch.add(_step(learner, pieces, Batch(views, classes, ramp, seed), settings))
            learner.share_pairs = epoch.means()["share_pairs"]
    if learner.share_pairs < FEWEST_PAIRS and settings.pair_rule == "cosine":
        run.warnings.append(
            f"Of the pairs of buildings {learner.share_pairs:.2%} reached a cosine of {settings.threshold}, so pairs "
            "taught next to nothing. Lower threshold, or set pair_rule to nearest."
        )
    return _judged(learner.network.eval(), data, rows, settings, run)


def from_state(state: Mapping[str, Tensor], settings: NclSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    network = NclNetwork(empty_extractor(state, settings), state["known"], settings, torch.Generator())
    return TrainedModel.loaded(network, state, device)


def _new_learner(data: PUData, rows: Ints, settings: NclSettings, run: Run, n_steps: int) -> Learner:
    """Set up network, optimiser, schedule (linear warm-up over a tenth of the steps, then a cosine) and empty queues."""
    extractor = new_extractor(data, rows, settings, run)
    known = np.unique(data.classes[rows])
    network = NclNetwork(extractor, torch.from_numpy(known[known != UNKNOWN]), settings, run.generator(1)).to(run.device)
    optimizer = new_optimizer(settings.optimizer, network, settings.lr, settings.weight_decay)
    schedule = warmup_schedule(optimizer, n_steps)
    size, dim = settings.queue_size, network.project.out_features
    unlabeled, labeled = (MemoryQueue.empty(size, dim, run.device) for _ in range(2))
    return Learner(network, optimizer, schedule, unlabeled, labeled)


def _ramp(epoch: int, n_ramp: float) -> float:
    """Factor on the weight of consistency in an epoch counted from 1 (Laine and Aila 2017): exp(-5 (1 - t)^2), up to 1."""
    return math.exp(-5 * (1 - min(1.0, epoch / n_ramp)) ** 2) if n_ramp else 1.0


def _step(learner: Learner, pieces: MicroBatcher, batch: Batch, settings: NclSettings) -> dict[str, Tensor]:
    """Move the weights once, then remember the batch: the second views, as they were embedded before that move."""
    mixing, seconds = torch.Generator(), list[Tensor]()

    def begin() -> None:
        mixing.manual_seed(batch.seed)
        seconds.clear()

    def losses_of(part: slice) -> dict[str, Tensor]:
        values, second = losses(learner, batch.part(part), settings, mixing)
        seconds.append(second.detach())
        return values

    found = stepped(learner, pieces, len(batch.classes), losses_of, begin=begin)
    embeddings, is_known = torch.cat(seconds), batch.classes != UNKNOWN
    learner.labeled.push(embeddings[is_known], batch.classes[is_known])
    learner.unlabeled.push(embeddings[~is_known], batch.classes[~is_known])
    return found


def _judged(network: NclNetwork, data: PUData, rows: Ints, settings: NclSettings, run: Run) -> TrainedModel:
    """Judge each cluster by its positives, which the score needs, and gather the findings."""
    model, is_positive = TrainedModel(network, network.trunk, check=run.stop_if_cancelled), data.is_positive[rows]
    logits, soft = _memberships(model, data.inputs.array)
    logits, soft = logits[rows], soft[rows]
    network.shares.copy_(torch.from_numpy(cluster_shares(soft, is_positive, settings.smoothing)))
    embeddings = model.embed(data.inputs.array)[rows]
    _warn_of_another_number(embeddings[data.classes[rows] == UNKNOWN], settings, run)
    findings = {"clusters": logits.argmax(axis=1), "memberships": soft, "embeddings": embeddings}
    return TrainedModel(network, network.trunk, findings)


def _memberships(model: TrainedModel, inputs: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute phi^u before its softmax, views averaged, and the share of each chip in each cluster, float32 [M, C^u]
    both.
    """
    network = cast(NclNetwork, model.network)
    logits = model._apply(inputs, network.cluster_logits, lambda mean: mean)
    return logits, torch.softmax(torch.from_numpy(logits) / network.softness, dim=1).numpy()


def _as_it_is(network: NclNetwork, data: PUData, rows: Ints, settings: NclSettings, run: Run) -> TrainedModel:
    """Judge the clusters of a training under way as `_judged` does, by some of the chips, and leave its network as it is."""
    shown = copy.copy(network)
    shown._buffers = dict(network._buffers)
    some = rows_to_judge(data, rows)
    with evaluating(network):
        model = TrainedModel(network, network.trunk, check=run.stop_if_cancelled)
        _, soft = _memberships(model, chosen(data.inputs, some))
    shares = cluster_shares(soft, data.is_positive[some], settings.smoothing)
    shown.shares = network.shares.new_tensor(shares)
    return TrainedModel(shown, shown.trunk)


def _warn_of_another_number(embeddings: NDArray[np.float32], settings: NclSettings, run: Run) -> None:
    """Estimate the number of clusters, and warn where it is not the one that was asked for."""
    candidates = [k for k in CANDIDATES if k < len(embeddings)]
    if not candidates:
        return
    found = suggested_number(embeddings, candidates, run.generator(8), run.stop_if_cancelled)
    if found.number != settings.n_new:
        compared = "".join(f", against {found.silhouettes[k]:.2f} of {k}" for k in candidates if k == settings.n_new)
        run.warnings.append(
            f"The buildings not reviewed were sorted into {settings.n_new} clusters (n_new); their embeddings fall most "
            f"clearly into {found.number} (silhouette {found.silhouettes[found.number]:.2f}{compared}). Look at the "
            "clusters of both."
        )
