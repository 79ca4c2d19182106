"""How methods get their feature extractor: fresh, from a weights file, or trained on all chips without a label before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from pu_geo.losses.contrastive import sscl_loss
from pu_geo.methods.settings import PRETRAINING_BATCH, NetworkSettings
from pu_geo.training.contrastive import contrast, contrastive_learner
from pu_geo.training.data import Ints, PUData, n_batches
from pu_geo.training.heads import Standardize, projection_head
from pu_geo.training.loop import Training
from pu_geo.training.network import ROWS_FOR_STATISTICS, FeatureExtractor
from pu_geo.training.run import Run

N_DATES, N_BANDS = 2, 3
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

    No label is used, and the projection head is thrown away. Where a hidden layer is missing (cached features, width 0) there
    is nothing to train.
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
    """One backbone of three bands, applied to the dates of a 6-band chip one after the other; every band is standardised by itself.

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
        self.standardize = Standardize(shape)

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

    def fit_statistics(self, data: PUData, rows: Ints, generator: torch.Generator) -> None:
        """Standardise each date by up to 4,096 of these chips, without those that lack it."""
        chosen = rows[torch.randperm(len(rows), generator=generator)[:ROWS_FOR_STATISTICS].numpy()]
        (images,) = data.inputs.draw(chosen, ("plain",), generator, self.standardize.mean.device)
        for date, is_missing in enumerate(missing_dates(images)):
            if is_missing.all():
                continue
            bands = slice(N_BANDS * date, N_BANDS * (date + 1))
            present = images[~is_missing, bands]
            own = Standardize(tuple(present.shape[1:])).to(images.device)
            own.fit(present)
            self.standardize.mean[bands], self.standardize.scale[bands] = own.mean, own.scale


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
