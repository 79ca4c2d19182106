"""A trunk for chips with pre and post bands that takes each date as a view of its own; the pre image may be missing."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.losses.contrastive import sscl_loss
from pu_geo.methods.pretraining import PRETRAINING_SPAN, contrast, contrastive_learner
from pu_geo.methods.settings import PRETRAINING_BATCH, NetworkSettings
from pu_geo.training.batching import n_batches
from pu_geo.training.data import PUData
from pu_geo.training.heads import Standardize, projection_head
from pu_geo.training.loop import Training
from pu_geo.training.network import ROWS_FOR_STATISTICS, FeatureExtractor
from pu_geo.training.run import Run

N_DATES, N_BANDS = 2, 3
_LR, _WEIGHT_DECAY, _TEMPERATURE, _HIDDEN, _DIM = 1e-3, 1e-4, 0.5, 512, 128


class PairTrunk(FeatureExtractor):
    """One backbone of three bands that looks at the dates of a 6-band chip in turn; every band is standardised by itself.

    One backbone for both, since HeroCon's Eq. 5 compares the dates by cosine, which asks for one space; few chips teach it
    twice as often; and a weights file of three bands fits as it is. What the sensors of the two dates make of the same
    ground differs in brightness and contrast first, which the standardisation takes out.

    Args:
        shape: of one chip, (6, H, W), pre bands first.
        settings: say what the backbone is.
        generator: CPU generator of the weights.
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
        """Look at each date, float32 [2, B, out_dim]. A missing one never enters the backbone; its row is zero."""
        dates = self.standardize(inputs).unflatten(1, (N_DATES, N_BANDS)).transpose(0, 1)
        present = dates[~is_missing].contiguous(memory_format=torch.channels_last)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=self.is_bf16):
            seen = cast(Tensor, self.backbone(present)).float()
        return seen.new_zeros(*is_missing.shape, self.out_dim).index_put((~is_missing,), seen)

    def fit_statistics(self, data: PUData, rows: NDArray[np.int64], generator: torch.Generator) -> None:
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
    """Tell chips with pre and post bands by the shape of one chip."""
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


def new_pair_trunk(data: PUData, rows: NDArray[np.int64], settings: NetworkSettings, run: Run) -> PairTrunk:
    """Do for two dates what `pretraining.new_trunk` does for one.

    Pretraining contrasts the means over a chip's dates, by ssCL (PUCL, Eq. 4): a contrast of date against date would teach
    the backbone to overlook what the event changed.
    """
    trunk = PairTrunk(data.inputs.shape, settings, run.generator(5), weights_file=settings.weights_file).to(run.device)
    trunk.fit_statistics(data, rows, run.generator(2))
    if settings.pretrain_epochs:
        head = projection_head(trunk.out_dim, _HIDDEN, _DIM, run.generator(6)).to(run.device)
        n_steps = settings.pretrain_epochs * n_batches(len(rows), PRETRAINING_BATCH)
        learner = contrastive_learner(trunk, head, "adamw", _LR, _WEIGHT_DECAY, n_steps)
        training = Training(run, learner, settings.pretrain_epochs, stage="pretraining", span=PRETRAINING_SPAN)

        def loss_of(z1: Tensor, z2: Tensor, _: Tensor) -> Tensor:
            return sscl_loss(z1, z2, temperature=_TEMPERATURE)

        contrast(training, learner, data, rows, loss_of, batch_size=PRETRAINING_BATCH, stream=7)
    return trunk
