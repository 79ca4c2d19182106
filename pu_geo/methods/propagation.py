"""Propagated ranking: the default. Two readings of the same frozen features, see `analysis.two_readings`, as a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.analysis.neighbor_graph import BLOCK, NeighborGraph, blocks
from pu_geo.analysis.place import HeldOutFold
from pu_geo.analysis.two_readings import (
    Chips,
    Marks,
    Reading,
    Space,
    chips_of,
    embedded,
    middle_of,
    read_clicks,
    roots_of,
    scores_of,
    votes_of,
)
from pu_geo.errors import TrainingError
from pu_geo.methods.cards.propagation import MOST_UNLABELED, PropagationSettings
from pu_geo.methods.linear import Learner, require_finite
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.data import NOT_DAMAGED, Bools, Ints, PUData
from pu_geo.training.loop import Training
from pu_geo.training.network import IMAGES_AT_ONCE, FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

MOST_HELD_OUT = 3000  # unlabeled chips that held-out clicks are compared with
TOLERANCE = 1e-6  # of the regressions
_OF_ANCHORS = ("anchors", "reach", "degree", "values")
_OF_SPACE = ("plain_mean", "plain_scale", "mean", "scale", "turn")
_OF_READING = ("plain_slope", "slope", "zeros", "scale_of")


class PropagationNetwork(nn.Module):
    """All that a chip's score is worked out from.

    Attributes:
        plain_mean, plain_scale: of each column of the chips as they were cut, float32 [E].
        mean, scale: of the square roots of the features, averaged over views, float32 [E].
        turn: whitening, float32 [E, E], widest directions last.
        plain_slope, slope: of the two regressions, float32 [E].
        zeros, scale_of: origin and unit of the plain, the whitened and the propagated scores, float32 [3].
        anchors: unit embeddings, float32 [M, d]; with reach, degree and values, float32 [M], see `NeighborGraph`.
        spread: weight of the propagated scores, in [0, 1], float32 [1].
        cut: where a score of 0.5 lies, float32 [1].
    """

    plain_mean: Tensor
    plain_scale: Tensor
    mean: Tensor
    scale: Tensor
    turn: Tensor
    plain_slope: Tensor
    slope: Tensor
    zeros: Tensor
    scale_of: Tensor
    anchors: Tensor
    reach: Tensor
    degree: Tensor
    values: Tensor
    spread: Tensor
    cut: Tensor

    def __init__(self, extractor: FeatureExtractor, settings: PropagationSettings) -> None:
        super().__init__()
        self.trunk, self.settings = extractor, settings
        width, dim = extractor.out_dim, min(settings.embedding_dim, extractor.out_dim)
        zeros = dict.fromkeys(("plain_mean", "mean", "plain_slope", "slope"), width) | {"zeros": 3, "spread": 1, "cut": 1}
        ones = {"plain_scale": width, "scale": width, "scale_of": 3, "reach": 0, "degree": 0, "values": 0}
        starts = {name: torch.zeros(n) for name, n in zeros.items()} | {name: torch.ones(n) for name, n in ones.items()}
        for name, start in {**starts, "turn": torch.eye(width), "anchors": torch.zeros(0, dim)}.items():
            self.register_buffer(name, start)

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *others: Any) -> None:
        """Make room for as many anchors as there are: how many, only training decides."""
        for name in _OF_ANCHORS:
            found, own = state_dict.get(f"{prefix}{name}"), getattr(self, name)
            if found is not None and found.ndim == own.ndim and found.shape[1:] == own.shape[1:]:
                setattr(self, name, own.new_empty(found.shape))
        super()._load_from_state_dict(state_dict, prefix, *others)

    def require_sound(self) -> None:
        """Refuse numbers, finite as `model_files` reads them, that no training leaves.

        Raises:
            ValueError: names which.
        """
        sizes = {len(getattr(self, name)) for name in _OF_ANCHORS}
        if len(sizes) > 1 or not 1 <= max(sizes) <= self.settings.n_anchors:
            raise ValueError(f"{sorted(sizes)} anchors, where the settings allow {self.settings.n_anchors}")
        if not (self.degree > 0).all() or not (self.scale_of > 0).all() or not 0 <= float(self.spread) <= 1:
            raise ValueError("degree, scale_of or spread is out of its range")

    def space(self) -> Space:
        """Return how features are brought to scale."""
        return Space(*(getattr(self, name).cpu().numpy() for name in _OF_SPACE))

    def keep(self, space: Space, graph: NeighborGraph, reading: Reading) -> None:
        """Fill in what was learned."""
        for source, names in ((space, _OF_SPACE), (graph, _OF_ANCHORS[:3]), (reading, (*_OF_READING, "values"))):
            for name in names:
                setattr(self, name, self._like(getattr(source, name)))
        self.spread = torch.full_like(self.spread, reading.weight)

    def _like(self, values: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(np.array(values, np.float32)).to(self.cut.device)

    def embedded(self, roots: NDArray[np.float32]) -> NDArray[np.float32]:
        """Embed chips by the widest directions of their mean square roots, float32 [B, d] of unit length."""
        # In float64, so that the last bit depends on no other row.
        return embedded(self.space().white(roots.astype(np.float64)), self.anchors.shape[1]).astype(np.float32)

    def raw_scores(self, plain: NDArray[np.float32], roots: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score chips: features as cut and mean square roots, float32 [B, E] each, to scores in no unit, float32 [B]."""
        space = self.space()
        white = space.white(roots)
        anchors, reach, degree, values, plain_slope, slope, zeros, scale_of = (
            getattr(self, name).cpu().numpy() for name in (*_OF_ANCHORS, *_OF_READING)
        )
        graph = NeighborGraph(anchors, reach, degree, self.settings.n_neighbors)
        reading = Reading(plain_slope, slope, zeros, scale_of, values, float(self.spread), None, 0.0, 0.0, None)
        ties = graph.ties(embedded(white, anchors.shape[1]))
        return reading.scores(Chips(space.standard(plain), white, ties), self.settings.propagation)


class PropagationModel(TrainedModel):
    """A model of the mean over views, and of the chip as it was cut."""

    def score(self, inputs: NDArray[Any], is_missing: Bools | None = None) -> NDArray[np.float32]:
        """Compute scores: arguments as in `TrainedModel.embed`, float32 [M] in [0, 1].

        0.5 means nothing: it only keeps scores from piling up at either end.
        """
        network = self._network()
        cut = float(network.cut)
        return self._of_blocks(inputs, lambda plain, roots: scores_of(network.raw_scores(plain, roots), cut))

    def embed(self, inputs: NDArray[Any], is_missing: Bools | None = None) -> NDArray[np.float32]:
        """Compute embeddings: inputs as in `TrainedModel.embed`, float32 [M, d] of unit length."""
        network = self._network()
        return self._of_blocks(inputs, lambda _, roots: network.embedded(roots))

    def _network(self) -> PropagationNetwork:
        assert isinstance(self.network, PropagationNetwork)
        return self.network

    @torch.inference_mode()
    def _of_blocks(
        self, inputs: NDArray[Any], answer: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        views, network = self._views_of(inputs), self._network()
        step = BLOCK if views.ndim == 3 else IMAGES_AT_ONCE
        parts = [
            answer(*plain_and_roots(network, views[:, part])) for part in blocks(max(views.shape[1], 1), step, self.check)
        ]
        return np.concatenate(parts).astype(np.float32)


@torch.no_grad()
def plain_and_roots(network: PropagationNetwork, views: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute, of views of some chips [V, B, ...], the first one's features and the mean square roots, float32 [B, E]
    each.
    """
    features = [_features(network, view) for view in views]
    total = np.zeros_like(features[0])
    for each in features:
        total += roots_of(each)
    return features[0], total / np.float32(len(features))


@torch.no_grad()
def _features(network: PropagationNetwork, inputs: NDArray[Any]) -> NDArray[np.float32]:
    """Compute features of some chips [B, ...], float32 [B, E]."""
    device = network.cut.device
    found: NDArray[np.float32] = network.trunk.linear_features(torch.from_numpy(np.array(inputs)).to(device)).cpu().numpy()
    return found


def marks_of(data: PUData, rows: Ints, run: Run) -> Marks:
    """Part the chips that may be trained on, by row number; of very many unlabeled ones some are drawn.

    Raises:
        TrainingError: if nothing was clicked, or nothing is unlabeled.
    """
    is_positive, is_known = data.is_positive[rows], data.classes[rows] == NOT_DAMAGED
    is_accepted, is_queued = (
        np.zeros_like(is_positive) if mask is None else mask[rows] for mask in (data.is_accepted, data.is_queued)
    )
    unlabeled = rows[~is_positive & ~is_known]
    if not (is_positive & ~is_accepted).any():
        raise TrainingError(
            "The propagated ranking needs a building that was marked damaged; all here are of accepted clusters.",
            "Mark damaged buildings on the Annotate page.",
            kind="positives",
        )
    if not len(unlabeled):
        raise TrainingError(
            f"The propagated ranking needs buildings not reviewed; all {len(rows)} here are marked.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    if len(unlabeled) > MOST_UNLABELED:
        drawn = torch.randperm(len(unlabeled), generator=run.generator(1))[:MOST_UNLABELED]
        unlabeled = np.sort(unlabeled[drawn.numpy()])
    clicked = is_positive & ~is_accepted
    own, queued = rows[clicked & ~is_queued], rows[clicked & is_queued]
    votes = votes_of(data.xy_m[np.concatenate([own, queued])], len(own)) if data.xy_m is not None and len(queued) else None
    return Marks(own, queued, unlabeled, rows[is_known], rows[is_accepted], votes=votes)


@one_thread_on_features
def fit(data: PUData, settings: PropagationSettings, run: Run) -> PropagationModel:
    """Rank by the clicks: in a whitened space, and among chips that look alike; held-out clicks say how much each counts.

    Source: ours; see `two_readings.read_clicks`.

    Args:
        data, settings: see the classes; chips that a person called not damaged are learned from, too.
        run: gets one report, when it is done: loss of the whitened regression, and propagated, the weight of the second
            reading.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or if inputs are not finite.
        JobCancelled: if the user cancelled.
    """
    rows = data.trained_rows
    require_positives(data, rows, "The propagated ranking")
    marks = marks_of(data, rows, run)
    extractor = new_extractor(data, rows, settings, run)
    network = PropagationNetwork(extractor, settings).to(run.device).eval()
    model, held_out = PropagationModel(network, extractor), None
    for epoch in Training(
        run, Learner(network), 1, stage="fitting", span=training_span(settings), model=lambda: model
    ).epochs():
        with epoch:
            reading, held_out = _learn(network, data, marks, run)
            epoch.add({"loss": reading.loss, "propagated": reading.weight})
            run.n_chips_trained += sum(len(each) for each in _parts(marks))
    if held_out is None:  # resumed after its epoch: a checkpoint has no scores by fits without some clicks
        held_out = _learn(network, data, marks, run)[1]
    return replace(model, held_out_scores=held_out)


def from_state(state: Mapping[str, Tensor], settings: PropagationSettings, device: torch.device) -> PropagationModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    model = PropagationModel.loaded(PropagationNetwork(empty_extractor(state, settings), settings), state, device)
    model._network().require_sound()
    return model


def _parts(marks: Marks) -> tuple[Ints, ...]:
    return marks.clicked, marks.queued, marks.unlabeled, marks.not_damaged, marks.accepted


def _learn(network: PropagationNetwork, data: PUData, marks: Marks, run: Run) -> tuple[Reading, Sequence[HeldOutFold]]:
    """Learn from the clicks and fill the network; return scores by fits without some clicks, too."""
    settings, check = network.settings, run.stop_if_cancelled
    rows = np.concatenate(_parts(marks))
    ends = np.cumsum([0, *(len(each) for each in _parts(marks))])
    own = Marks(*(np.arange(first, last) for first, last in pairwise(ends)), votes=marks.votes)
    parts = [plain_and_roots(network, _views(data, rows[part])) for part in blocks(len(rows), _at_once(data), check)]
    plain, roots = (np.concatenate(each) for each in zip(*parts, strict=True))
    require_finite(torch.from_numpy(np.isfinite(plain).all(1) & np.isfinite(roots).all(1)))
    space = Space.of(plain, roots, settings.whitening)
    chips, graph = chips_of(
        space, plain, roots, dim=network.anchors.shape[1], n_neighbors=settings.n_neighbors, n_anchors=settings.n_anchors,
        seed=run.seed, check=check,
    )  # fmt: skip
    reading = read_clicks(
        chips,
        own,
        lambda some: _positive_views(network, space, data, rows[some], run),
        propagation=settings.propagation,
        most_held_out=MOST_HELD_OUT,
        seed=run.seed,
        even_share=settings.even_share,
        share=settings.damaged_share or None,
        tolerance=TOLERANCE,
        check=check,
    )
    network.keep(space, graph, reading)
    unlabeled = chips.take(own.unlabeled[:: max(1, len(own.unlabeled) // MOST_HELD_OUT)])
    network.cut = torch.full_like(network.cut, middle_of(reading.scores(unlabeled, settings.propagation), reading.share))
    return reading, _held_out(reading, chips, rows, data.inputs.n_chips, settings.propagation)


def _held_out(reading: Reading, chips: Chips, rows: Ints, n: int, propagation: float) -> Sequence[HeldOutFold]:
    """Score all N chips by the fits of each part, both readings in their weights; NaN where a chip was not learned from."""
    if reading.held_out is None:
        return ()
    found, folds = reading.held_out, []
    for part, unseen in enumerate(reading.unseen_scores(chips, propagation)):
        scores = np.full(n, np.nan, np.float32)
        scores[rows] = unseen
        clicks, unlabeled = found.clicked[found.fold_clicked == part], found.unlabeled[found.fold_unlabeled == part]
        folds.append(HeldOutFold(rows[clicks], rows[unlabeled], scores))
    return folds


def _positive_views(network: PropagationNetwork, space: Space, data: PUData, rows: Ints, run: Run) -> NDArray[np.float32]:
    """Whiten views of the positives one by one, float32 [V', P, E]; of very many chips fewer views."""
    most, parts = max(1, MOST_UNLABELED // max(len(rows), 1)), []
    for part in blocks(len(rows), _at_once(data), run.stop_if_cancelled):
        views = _views(data, rows[part], most)
        parts.append(np.stack([space.white(roots_of(_features(network, view))) for view in views]))
    return np.concatenate(parts, axis=1)


def _views(data: PUData, rows: Ints, most: int | None = None) -> NDArray[Any]:
    """Return views of some chips, at most so many, [V, B, ...]; of chips themselves there is one."""
    array = data.inputs.array
    return np.asarray(array[:most, rows] if len(data.inputs.shape) == 1 else array[rows][None])


def _at_once(data: PUData) -> int:
    return BLOCK if len(data.inputs.shape) == 1 else IMAGES_AT_ONCE
