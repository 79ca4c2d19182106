"""Time of one augmented view of a batch, against one training step of ResNet-18 on it; on the CPU, and on a GPU if any."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.models import resnet18

from pu_geo.training.augment import (
    AERIAL,
    NATURAL,
    WEAK_AERIAL,
    WEAK_NATURAL,
    AugmentSettings,
    augment,
    draw_affines,
    draw_colors,
    recolor,
    warp,
)
from pu_geo.training.optim import new_optimizer

BATCH, BANDS, SIZE_PX = 64, 6, 64
N_ROUNDS = 5
PRESETS = {"aerial": AERIAL, "natural": NATURAL, "weak_aerial": WEAK_AERIAL, "weak_natural": WEAK_NATURAL}


def bench_augmentation(_: Path) -> dict[str, float]:
    """Make one view of a batch by the dearest preset, crop and colour, against one training step; on the CPU."""
    return measure(NATURAL, torch.device("cpu"))


def bench_augmentation_on_gpu(_: Path) -> dict[str, float]:
    """Do the same on a CUDA GPU."""
    return measure(NATURAL, torch.device("cuda"))


def measure(settings: AugmentSettings, device: torch.device) -> dict[str, float]:
    """Time both by turns, so that a busy moment of the machine does not hit one side only; the shortest of each counts."""
    images = torch.rand(BATCH, BANDS, SIZE_PX, SIZE_PX, generator=torch.Generator().manual_seed(0)).to(device)
    check_against_loop(images, settings)
    generator, step = torch.Generator().manual_seed(1), training_step(images)
    rounds = []
    for number in range(N_ROUNDS + 1):
        times = seconds(lambda: augment(images, settings, generator), device), seconds(step, device)
        if number > 0:  # the first round fetches memory and chooses kernels
            rounds.append(times)
    ours_s, step_s = (min(column) for column in zip(*rounds, strict=True))
    return {"ours_s": ours_s, "training_step_s": step_s}


def seconds(work: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def check_against_loop(images: Tensor, settings: AugmentSettings) -> None:
    """Make the same views one chip at a time, and see that they are equal."""
    together = augment(images, settings, torch.Generator().manual_seed(2))
    generator = torch.Generator().manual_seed(2)
    drawn = [draw_affines(len(images), settings, generator)]
    if settings.color is not None:
        drawn += draw_colors(len(images), images.shape[1], settings.color, generator)
    for i, (affine, *colors) in enumerate(zip(*drawn, strict=True)):
        view = warp(images[i : i + 1], affine[None], is_exact=settings.is_exact)
        if colors:
            view = recolor(view, *(part[None].to(images.device) for part in colors))
        torch.testing.assert_close(view[0], together[i], rtol=0, atol=1e-4)


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


def main() -> None:
    devices = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
    for device in devices:
        for name, settings in PRESETS.items():
            times = measure(settings, device)
            ours, other = times.values()
            row = {"device": device.type, "preset": name, "ratio": round(ours / other, 4)}
            print(json.dumps({**row, **{key: round(value, 5) for key, value in times.items()}}), flush=True)


if __name__ == "__main__":
    main()
