"""Time of one augmented view of a batch, against one training step of ResNet-18 on it; on the CPU, and on a GPU if any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.models import resnet18

from benchmarks.timing import in_turns
from pu_geo.training.augment import NATURAL, augment
from pu_geo.training.optim import new_optimizer

BATCH, BANDS, SIZE_PX = 64, 6, 64
N_ROUNDS = 5


def bench_augmentation(_: Path) -> dict[str, float]:
    """Make one view of a batch by the dearest preset, crop and colour, against one training step; on the CPU."""
    return measure(torch.device("cpu"))


def bench_augmentation_on_gpu(_: Path) -> dict[str, float]:
    """Do the same on a CUDA GPU."""
    return measure(torch.device("cuda"))


def measure(device: torch.device) -> dict[str, float]:
    images = torch.rand(BATCH, BANDS, SIZE_PX, SIZE_PX, generator=torch.Generator().manual_seed(0)).to(device)
    generator = torch.Generator().manual_seed(1)
    ours, step = in_turns(N_ROUNDS, lambda: augment(images, NATURAL, generator), training_step(images), device=device)
    return {"ours_s": ours, "training_step_s": step}


def training_step(images: Tensor) -> Callable[[], None]:
    """One step of torchvision's ResNet-18 with its own stem, but for the bands; channels last in bfloat16, its fastest form."""
    network = resnet18(num_classes=2)
    network.conv1 = nn.Conv2d(BANDS, 64, kernel_size=7, stride=2, padding=3, bias=False)
    network.to(images.device, memory_format=torch.channels_last)
    inputs = images.contiguous(memory_format=torch.channels_last)
    targets = torch.arange(BATCH, device=images.device) % 2
    optimizer = new_optimizer("sgd", network, 1e-3, 1e-3)

    def step() -> None:
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(network(inputs), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
