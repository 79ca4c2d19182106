"""NCL, step by step: its network, what it remembers, and the loss of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.losses import neighborhood as formulas
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl.memory_queue import MemoryQueue
from pu_geo.training.data import NOT_DAMAGED, UNKNOWN
from pu_geo.training.heads import linear
from pu_geo.training.network import FeatureExtractor


class NclNetwork(nn.Module):
    """Feature extractor (R of the notes), an embedding, and two heads: of the known classes and of the new clusters.

    Attributes:
        known: class numbers of D^l in the known head's order, int64 [C^l].
        shares: of each cluster, how much of it is positive, float [C^u] in (0, 1); for the score, set after training.
    """

    known: Tensor
    shares: Tensor

    def __init__(self, trunk: FeatureExtractor, known: Tensor, settings: NclSettings, generator: torch.Generator) -> None:
        super().__init__()
        dim = settings.embedding_dim or trunk.out_dim
        self.trunk = trunk
        self.project = linear(trunk.out_dim, dim, generator)
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
        """Log odds of damaged, float [B]: by the shares of the clusters, and by the known classes where these can tell.

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
        network: see the class.
        optimizer, schedule: of all its weights; the schedule moves once a step.
        unlabeled, labeled: M^u and M^l, second views of the latest chips as they were embedded then.
    """

    network: NclNetwork
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    unlabeled: MemoryQueue
    labeled: MemoryQueue


@dataclass(frozen=True)
class Batch:
    """Chips of one step.

    Attributes:
        views: two views, float [B, ...] each.
        classes: what people said, int64 [B]; see `PUData.classes`.
        ramp: of the weight of consistency, in (0, 1].
        seed: of the mixtures of hard negatives.
    """

    views: list[Tensor]
    classes: Tensor
    ramp: float
    seed: int

    def part(self, part: slice) -> Batch:
        """Take some of the chips."""
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
        neighbors = _neighbor_loss(learner, first[~is_known], second[~is_known], guessed, settings, mixing)
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
    """Guess which pairs of unlabeled chips are of one category, from the first views' trunk features.

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


def _neighbor_loss(
    learner: Learner, first: Tensor, second: Tensor, guessed: Tensor, settings: NclSettings, mixing: torch.Generator
) -> Tensor:
    """Contrast the embeddings of unlabeled chips, float [B, E] each, with M^u; `guessed` is as in `_hard_negatives`."""
    queue, _ = learner.unlabeled.filled()
    hard = _hard_negatives(learner, first, guessed, settings, mixing) if settings.n_hard else None
    return formulas.neighborhood_loss(
        first, second, queue, k=settings.n_neighbors or max(1, len(queue) // (2 * settings.n_new)),
        self_weight=settings.self_weight, temperature=settings.temperature, hard=hard,
    )  # fmt: skip


def _hard_negatives(
    learner: Learner, anchors: Tensor, guessed: Tensor, settings: NclSettings, mixing: torch.Generator
) -> formulas.HardNegatives | None:
    """Mix hard negatives for unlabeled chips from M^u and M^l; None where M^l has nothing that may serve.

    An unlabeled chip may be of any known class, so the labeled items of its own would be no negatives. Its class is
    `guessed`, int64 [B], as what phi^l says; with one known class there is no other to take items from.
    """
    (queue, _), (labeled, classes) = learner.unlabeled.filled(), learner.labeled.filled()
    may_mix = guessed[:, None] != classes
    if len(queue) == 0 or not may_mix.any():
        return None
    partners, easy_share = formulas.draw_mixing(may_mix, settings.n_easy, generator=mixing)
    return formulas.hard_negatives(
        anchors, queue, labeled, may_mix, partners=partners, easy_share=easy_share, n_hard=settings.n_hard
    )
