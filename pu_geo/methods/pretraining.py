"""How methods get their feature extractor: fresh, from a weights file, or trained on all chips without a label before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from pu_geo.errors import ShapeError
from pu_geo.losses.contrastive import sscl_loss
from pu_geo.methods.settings import PRETRAINING_BATCH, NetworkSettings
from pu_geo.records import View, When
from pu_geo.training.contrastive import contrast, contrastive_learner
from pu_geo.training.data import Ints, PUData, n_batches, require_spans
from pu_geo.training.heads import Standardize, projection_head
from pu_geo.training.loop import Training
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

N_DATES, N_BANDS = 2, 3
DATES = ("", "pre", "post", "pre+post")  # a model keeps the date of a view as its number here
PAIR = (View("pre", "pre", 0, 3), View("post", "post", 3, 6))  # what chips of 6 bands hold
PRETRAINING_SPAN = (0.0, 0.5)  # part of the progress bar that pretraining takes where there is one
_LR, _WEIGHT_DECAY, _TEMPERATURE, _HIDDEN, _DIM = 1e-3, 1e-4, 0.5, 512, 128


def new_extractor(data: PUData, rows: Ints, settings: NetworkSettings, run: Run) -> FeatureExtractor:
    """Build a feature extractor by the settings, standardised to these chips and pretrained where that was asked for."""
    extractor = FeatureExtractor(
        data.inputs.shape, settings.backbone, settings.width, run.generator(5), weights_file=settings.weights_file,
        precision=settings.precision, is_compiled=settings.compiled,
    ).to(run.device)  # fmt: skip
    _prepare(extractor, data, rows, settings, run)
    return extractor


def empty_extractor(state: Mapping[str, Tensor], settings: NetworkSettings) -> FeatureExtractor:
    """Build a feature extractor for weights that are loaded afterwards, of the shape written in them."""
    shape = tuple(int(size) for size in state["trunk.input_shape"])
    return FeatureExtractor(shape, settings.backbone, settings.width, torch.Generator(), precision=settings.precision)


def training_span(settings: NetworkSettings) -> tuple[float, float]:
    """Return which part of the progress bar is left for the training proper."""
    return (PRETRAINING_SPAN[1], 1.0) if settings.pretrain_epochs else (0.0, 1.0)


def _prepare(extractor: FeatureExtractor, data: PUData, rows: Ints, settings: NetworkSettings, run: Run) -> None:
    """Standardise a feature extractor to chips, and train it by ssCL (PUCL, Eq. 4) on all of them where that was asked for.

    No label is used, and the projection head is thrown away. Where a hidden layer is missing (cached features, width 0)
    there is nothing to train.
    """
    extractor.fit_statistics(data, rows, run.generator(2))
    n_epochs = settings.pretrain_epochs
    if not n_epochs or not any(True for _ in extractor.parameters()):
        return
    head = projection_head(extractor.out_dim, _HIDDEN, _DIM, run.generator(6)).to(run.device)
    learner = contrastive_learner(
        extractor, head, "adamw", _LR, _WEIGHT_DECAY, n_epochs * n_batches(len(rows), PRETRAINING_BATCH)
    )
    training = Training(run, learner, n_epochs, stage="pretraining", span=PRETRAINING_SPAN)

    def loss_of(z1: Tensor, z2: Tensor, _: Tensor) -> Tensor:
        return sscl_loss(z1, z2, temperature=_TEMPERATURE)

    contrast(training, learner, data, rows, loss_of, batch_size=PRETRAINING_BATCH, stream=7)


class PairFeatureExtractor(FeatureExtractor):
    """One backbone of three bands, applied to the dates of a 6-band chip one after the other; every band is standardised by
    itself.

    One backbone for both, since HeroCon's Eq. 5 compares the dates by cosine, which asks for one space; few chips teach it
    twice as often; and a weights file of three bands fits as it is. What the sensors of the two dates make of the same
    ground differs in brightness and contrast first, which the standardisation takes out.

    Args:
        shape: of one chip, (6, H, W), pre bands first.
        weights_file: see `backbones.new_backbone`.
    """

    def __init__(
        self, shape: tuple[int, ...], settings: NetworkSettings, generator: torch.Generator, *, weights_file: str = ""
    ) -> None:
        super().__init__(
            (N_BANDS, *shape[1:]), settings.backbone, settings.width, generator, weights_file=weights_file,
            precision=settings.precision, is_compiled=settings.compiled,
        )  # fmt: skip
        self.input_shape = torch.tensor(shape)
        self.standardize, self.fitted_to = Standardize(shape), "plain"

    def forward(self, inputs: Tensor) -> Tensor:
        """Turn images [B, 6, H, W] in 0..255 into float32 [B, out_dim]: the mean over the dates that are there."""
        is_missing = missing_dates(inputs)
        return mean_of_present(self.each(inputs, is_missing), is_missing)

    def each(self, inputs: Tensor, is_missing: Tensor) -> Tensor:
        """Embed each date, float32 [2, B, out_dim]. A missing one never enters the backbone; its row is zero."""
        dates = self.standardize(inputs).unflatten(1, (N_DATES, N_BANDS)).transpose(0, 1)
        present = dates[~is_missing].contiguous(memory_format=torch.channels_last)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=self.is_bf16):
            found = cast(Tensor, self.backbone(present)).float()
        return found.new_zeros(*is_missing.shape, self.out_dim).index_put((~is_missing,), found)

    def _spans(self, inputs: Tensor, data: PUData, rows: Ints) -> list[tuple[slice, Tensor | slice]]:
        gone = missing_dates(inputs)
        return [(slice(N_BANDS * date, N_BANDS * (date + 1)), ~gone[date]) for date in range(N_DATES)]


def is_pair(shape: tuple[int, ...]) -> bool:
    """Return whether chips of this shape have pre and post bands."""
    return len(shape) == 3 and shape[0] == N_DATES * N_BANDS


def missing_dates(images: Tensor) -> Tensor:
    """Mark the dates without data: zero in all bands all over. A chip with no date at all counts as having the second.

    Args:
        images: as they were cut, [B, 6, H, W]; an augmentation may turn zeros into something else.

    Returns:
        bool [2, B].
    """
    gone = (images == 0).unflatten(1, (N_DATES, N_BANDS)).flatten(2).all(dim=2).T
    return torch.stack([gone[0], gone[1] & ~gone[0]])


def mean_of_present(views: Tensor, is_missing: Tensor) -> Tensor:
    """Average float [V, B, D] over the views that are not missing, bool [V, B]: float [B, D]."""
    present = ~is_missing[..., None]
    return views.where(present, 0.0).sum(dim=0) / present.sum(dim=0)


def new_pair_extractor(data: PUData, rows: Ints, settings: NetworkSettings, run: Run) -> PairFeatureExtractor:
    """Do for two dates what `new_extractor` does for one.

    Pretraining contrasts the means over a chip's dates: a contrast of date against date would teach the backbone to overlook
    what the event changed.
    """
    weights_file = settings.weights_file
    extractor = PairFeatureExtractor(data.inputs.shape, settings, run.generator(5), weights_file=weights_file).to(run.device)
    _prepare(extractor, data, rows, settings, run)
    return extractor


class ViewFeatureExtractor(FeatureExtractor):
    """A network for each kind of view; every band, and every column, is standardised by the chips that have it.

    Chips: views of both dates of one thing and of as many bands share a backbone, as "pre" and "post" do, and "sar-pre" and
    "sar-post"; any other view has one of its own. A layer with a first layer of its own before a common backbone would need
    fewer weights, but BatchNorm would then take its statistics from radar and optical chips at once, whose shares differ
    from batch to batch where views are missing, and 30 clicks that fit the optical chips would move what radar is read by.
    Features: a view has a hidden layer of its own, as its columns mean something else.

    Args:
        shape: of one chip, (C, H, W), or (D,) of features.
        views: spans of these; none shares a band or column with another.
        weights_file: which every backbone starts from, see `backbones.new_backbone`.

    Attributes:
        spans: int64 [V, 2]. dates: of each view, its place in `DATES`, int64 [V]. groups: number of each view's network,
            int64 [V].
        out_dims: length of what each network returns.
    """

    spans: Tensor
    dates: Tensor
    groups: Tensor
    takes_views = True

    def __init__(
        self, shape: tuple[int, ...], views: Sequence[View], groups: Sequence[int], settings: NetworkSettings,
        generator: torch.Generator, *, weights_file: str = "",
    ) -> None:  # fmt: skip
        require_spans(views, shape[0])
        if sorted(set(groups)) != list(range(len(set(groups)))) or len(groups) != len(views) or not views:
            raise ShapeError(f"groups must number the networks of {len(views)} views from 0 on; got {list(groups)}.")
        firsts = [
            next(view for view, number in zip(views, groups, strict=True) if number == group)
            for group in range(max(groups) + 1)
        ]
        widths = [view.stop - view.start for view in firsts]
        if any(view.stop - view.start != widths[group] for view, group in zip(views, groups, strict=True)):
            raise ShapeError("views of one group must have as many bands each.")
        parts = [
            FeatureExtractor(
                (width, *shape[1:]), settings.backbone, settings.width, generator, weights_file=weights_file,
                precision=settings.precision, is_compiled=settings.compiled,
            )
            for width in widths
        ]  # fmt: skip
        nn.Module.__init__(self)
        self.register_buffer("input_shape", torch.tensor(shape))
        self.register_buffer("spans", torch.tensor([(view.start, view.stop) for view in views]))
        self.register_buffer("dates", torch.tensor([DATES.index(view.when) for view in views]))
        self.register_buffer("groups", torch.tensor(list(groups)))
        self.standardize, self.fitted_to = Standardize(shape), "weak" if len(shape) == 1 else "plain"
        self.backbone, self.others = parts[0].backbone, nn.ModuleList([part.backbone for part in parts[1:]])
        self.out_dims = tuple(part.out_dim for part in parts)
        self.out_dim, self.is_bf16 = sum(self.out_dims), parts[0].is_bf16
        self._views, self._groups = tuple(views), tuple(groups)

    @property
    def n_views(self) -> int:
        """V."""
        return len(self._views)

    def forward(self, inputs: Tensor, is_missing: Tensor | None = None) -> Tensor:
        """Map inputs [B, ...] into float32 [B, the sum of the networks' lengths]: of each network the mean over its views.

        Where a chip lacks all views of a network, its part is the mean of the chips here that have one, which pulls no
        weights: zeros would mark such chips as alike. Zeros where no chip here has any.
        """
        gone, parts = self.missing(inputs, is_missing), []
        each = self.each(inputs, gone)
        for group in range(len(self.out_dims)):
            own = [view for view, number in enumerate(self._groups) if number == group]
            lacks = gone[own].all(dim=0)
            part = mean_of_present(torch.stack([each[view] for view in own]), known_anyway(gone[own]))
            if lacks.any() and not lacks.all():
                part = part.where(~lacks[:, None], part[~lacks].mean(dim=0).detach())
            parts.append(part)
        return torch.cat(parts, dim=1)

    def missing(self, inputs: Tensor, is_missing: Tensor | None) -> Tensor:
        """Return the missing views, bool [V, B]; none where nothing is known of them."""
        if is_missing is None:
            return torch.zeros(self.n_views, len(inputs), dtype=torch.bool, device=inputs.device)
        return is_missing

    def each(self, inputs: Tensor, is_missing: Tensor) -> list[Tensor]:
        """Embed each view, V times float32 [B, out_dim]. A missing one never enters its network; its row is zero."""
        scaled = self.standardize(inputs)
        found: list[Tensor] = [inputs.new_empty(0)] * self.n_views
        for group, out_dim in enumerate(self.out_dims):
            own = [view for view, number in enumerate(self._groups) if number == group]
            network = self.backbone if group == 0 else self.others[group - 1]
            stacked = torch.stack([scaled[:, self._views[view].start : self._views[view].stop] for view in own])
            there = ~is_missing[own]
            rows = scaled.new_zeros(*there.shape, out_dim)
            if there.any():
                rows = rows.index_put((there,), self._embedded(network, stacked[there]))
            for number, view in enumerate(own):
                found[view] = rows[number]
        return found

    def _embedded(self, network: nn.Module, present: Tensor) -> Tensor:
        """Run a network on inputs [M, ...], float32 [M, out_dim]; one alone has no statistics, so BatchNorm uses the kept
        ones.
        """
        if present.ndim == 4:
            present = present.contiguous(memory_format=torch.channels_last)
        is_training = network.training
        if len(present) == 1:
            network.eval()
        with torch.autocast(present.device.type, dtype=torch.bfloat16, enabled=self.is_bf16):
            found = cast(Tensor, network(present)).float()
        network.train(is_training)
        return found

    def _spans(self, inputs: Tensor, data: PUData, rows: Ints) -> list[tuple[slice, Tensor | slice]]:
        if data.is_missing is None:
            return [(slice(view.start, view.stop), slice(None)) for view in self._views]
        there = torch.from_numpy(~data.is_missing[:, rows]).to(inputs.device)
        return [(slice(view.start, view.stop), own) for view, own in zip(self._views, there, strict=True)]


def new_view_extractor(data: PUData, rows: Ints, settings: NetworkSettings, run: Run) -> ViewFeatureExtractor:
    """Do for named views what `new_extractor` does for one. Pretraining contrasts what each network makes of its views."""
    groups = groups_of(data.views, is_chips=len(data.inputs.shape) == 3)
    extractor = ViewFeatureExtractor(
        data.inputs.shape, data.views, groups, settings, run.generator(5), weights_file=settings.weights_file
    ).to(run.device)
    _prepare(extractor, data, rows, settings, run)
    return extractor


def empty_view_extractor(state: Mapping[str, Tensor], settings: NetworkSettings) -> ViewFeatureExtractor:
    """Build an extractor of named views for weights that are loaded afterwards, by the spans and groups written in them."""
    shape = tuple(int(size) for size in state["trunk.input_shape"])
    spans, dates, groups = (state[f"trunk.{name}"].tolist() for name in ("spans", "dates", "groups"))
    if not all(0 <= date < len(DATES) for date in dates):
        raise ValueError(f"a date of a view is a number from 0 to {len(DATES) - 1}")
    views = [
        View(f"view-{number}", cast(When, DATES[date]), start, stop)
        for number, ((start, stop), date) in enumerate(zip(spans, dates, strict=True))
    ]
    return ViewFeatureExtractor(shape, views, groups, settings, torch.Generator())


def groups_of(views: Sequence[View], *, is_chips: bool) -> tuple[int, ...]:
    """Number the networks of views, see `ViewFeatureExtractor`: "pre" and "post", and "sar-pre" and "sar-post", have one."""
    if not is_chips:
        return tuple(range(len(views)))
    numbers: dict[tuple[str, int], int] = {}
    kinds = [
        (view.name.removesuffix(view.when).rstrip("-") if view.when else view.name, view.stop - view.start) for view in views
    ]
    return tuple(numbers.setdefault(kind, len(numbers)) for kind in kinds)


def known_anyway(is_missing: Tensor) -> Tensor:
    """Return the missing views, bool [V, B], none of a chip that lacks all: its rows of zeros then stand for no evidence."""
    return is_missing & ~is_missing.all(dim=0)
