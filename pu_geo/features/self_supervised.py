"""A small network that a project's own chips have taught without any label, for frozen features."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.errors import TrainingError
from pu_geo.features.rcf import fast_dtype
from pu_geo.features.views import Report, joined_dates, split_dates
from pu_geo.losses.contrastive import sscl_loss
from pu_geo.training.backbones import Backbone, new_backbone
from pu_geo.training.contrastive import contrast, contrastive_learner
from pu_geo.training.data import ChipImages, PUData, n_batches
from pu_geo.training.heads import projection_head
from pu_geo.training.loop import Training
from pu_geo.training.run import Run

BACKBONES = ("small", "resnet18")  # on a CPU, on a GPU
N_STEPS, EPOCHS = 300, (10, 100)
"""Steps of a training, and the fewest and most epochs that they may come to. On one CPU core a chip takes 3 ms an epoch:
2,000 chips
4 minutes, 20,000 chips 10. Joplin (368 chips) gained .04 AP from 30 epochs and another .016 from 90."""
BATCH, LR, WEIGHT_DECAY, TEMPERATURE = 256, 1e-3, 1e-4, 0.5
HIDDEN, DIM = 512, 128  # of the projection head, which is thrown away
ROWS_FOR_STATISTICS = 2000


@dataclass(frozen=True)
class Learned:
    """What a training leaves.

    Attributes:
        tensors: weights of the backbone by their names, float32, on the CPU.
        mean, std: float32 [C], of the bands in units of the uint8 chips.
    """

    backbone: str
    tensors: Mapping[str, Tensor]
    mean: Tensor
    std: Tensor


class _Encoder(nn.Module):
    """The backbone on each date of a chip, joined as the features are."""

    def __init__(self, backbone: Backbone, mean: Tensor, std: Tensor, dates: str, *, is_bf16: bool) -> None:
        super().__init__()
        self.backbone, self.dates, self.is_bf16 = backbone, dates, is_bf16
        self.mean, self.std = mean, std

    def forward(self, images: Tensor) -> Tensor:
        """Map chips, float [B, C, H, W] in 0..255, to float32 [B, D]."""
        shown = split_dates(images, self.mean, self.std).contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=self.is_bf16):
            found = self.backbone(shown).float()
        return joined_dates(found.unflatten(0, (len(images), -1)), self.dates)


def epochs_of(n_chips: int) -> int:
    """Return how many epochs `N_STEPS` come to, within `EPOCHS`."""
    return int(np.clip(-(-N_STEPS // n_batches(n_chips, BATCH)), *EPOCHS))


def learn(
    chips: NDArray[np.uint8], rows: NDArray[np.int64], dates: str, *, generator: torch.Generator, device: torch.device,
    report: Report | None = None, is_cancelled: Callable[[], bool] | None = None, n_epochs: int = 0,
) -> Learned:  # fmt: skip
    """Train a backbone of three bands so that two augmented views of a chip get like features, and different chips others.

    Source: PUCL, Eq. 4 (ssCL), on what features are made of: both dates and their difference, under one augmentation, so
    that the contrast asks for what the event changed. A contrast of date against date would teach to overlook that.

    Args:
        chips: uint8 [N, C, H, W], may be a memory map.
        rows: int64 [M], the chips to learn from.
        dates: see `records.FeatureRequest`.
        generator: the same one, on the same machine, gives the same weights.
        report: called after each epoch with {"done", "total", "seconds"}, counted in chips.
        n_epochs: 0 for what `N_STEPS` come to.

    Raises:
        TrainingError: if the training diverged in its first epoch, or there are too few chips to compare.
        JobCancelled: if the user cancelled.
    """
    if len(rows) < 2:
        raise TrainingError(
            f"Self-supervised features compare chips with each other; there are {len(rows)}.",
            "Add footprints on the Imagery page, or choose another maker.",
            kind="maker",
        )
    n_epochs = n_epochs or epochs_of(len(rows))
    n_bands, began = 3 if dates == "post" else 6, time.monotonic()

    def after_epoch(values: Mapping[str, object]) -> None:
        done, seconds = int(str(values["epoch"])) * len(rows), time.monotonic() - began
        if report is not None:
            report({"done": done, "total": n_epochs * len(rows), "seconds": seconds})

    seed = int(torch.randint(2**24, (1,), generator=generator))
    run = Run(device, seed, after_epoch, is_cancelled or (lambda: False))
    data = PUData(ChipImages(chips), np.zeros(len(chips), np.bool_), np.zeros(len(chips), np.bool_))
    chosen = rows[torch.randperm(len(rows), generator=run.generator(2))[:ROWS_FOR_STATISTICS].numpy()]
    sample = torch.from_numpy(np.array(chips[np.sort(chosen), -n_bands:])).float()
    mean, std = sample.mean((0, 2, 3)), sample.std((0, 2, 3)).clamp_min(1)
    name = BACKBONES[device.type == "cuda"]
    backbone = new_backbone(name, 3, run.generator(5)).to(memory_format=torch.channels_last)
    encoder = _Encoder(backbone, mean, std, dates, is_bf16=fast_dtype(device) == torch.bfloat16).to(device)
    head = projection_head(backbone.out_dim * (3 if dates == "both" else 1), HIDDEN, DIM, run.generator(6)).to(device)
    learner = contrastive_learner(encoder, head, "adamw", LR, WEIGHT_DECAY, n_epochs * n_batches(len(rows), BATCH))

    def loss_of(z1: Tensor, z2: Tensor, _: Tensor) -> Tensor:
        return sscl_loss(z1, z2, temperature=TEMPERATURE)

    contrast(Training(run, learner, n_epochs), learner, data, rows, loss_of, batch_size=BATCH, stream=7)
    weights = {each: tensor.detach().cpu() for each, tensor in backbone.state_dict().items() if tensor.is_floating_point()}
    return Learned(name, weights, mean, std)
