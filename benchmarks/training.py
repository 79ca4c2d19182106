"""A step of NcPU against what no implementation can save, and the backbone in bfloat16 against float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import in_turns
from pu_geo.methods import ncpu
from pu_geo.methods.catalog import settings_for
from pu_geo.training.data import ChipImages, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import FeatureExtractor, quick_backbone
from pu_geo.training.run import Run, best_device

BATCH, BANDS, SIDE_PX = 64, 6, 64
ROUNDS = 4


def _data() -> PUData:
    chips = np.random.default_rng(0).integers(0, 256, (BATCH, BANDS, SIDE_PX, SIDE_PX)).astype(np.uint8)
    return PUData(ChipImages(chips), np.arange(BATCH) < 8, np.zeros(BATCH, np.bool_))


def _learner(precision: str, device: torch.device) -> tuple[ncpu.Learner, ncpu.Batch, object]:
    """Learner, one batch of views that lie on the device, and the settings."""
    overrides = {"precision": precision, "pretrain_epochs": "0"}
    settings, data, run = settings_for("ncpu", "standard", overrides), _data(), Run(device)
    rows, positive = np.arange(BATCH), torch.from_numpy(data.is_positive).to(device)
    learner = ncpu._new_learner(data, rows, positive, settings, run, 10)
    views = data.inputs.draw(rows, ncpu.VIEWS, run.generator(), device)
    return learner, ncpu.Batch(torch.arange(BATCH, device=device), views, positive, 1.0), settings


def _supervised(learner: ncpu.Learner, view: Tensor) -> Callable[[], None]:
    """A plain training step on one view: forward, cross entropy, backward, optimiser."""
    target = torch.zeros(len(view), dtype=torch.int64, device=view.device)

    def step() -> None:
        learner.optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(learner.network.logits(view), target).backward()
        nn.utils.clip_grad_norm_(learner.network.parameters(), 30.0)
        learner.optimizer.step()

    return step


def bench_ncpu_step(_: Path) -> dict[str, float]:
    """One step of NcPU from chips, against two supervised steps and one forward pass of the same network."""
    device = best_device()
    learner, batch, settings = _learner("float32", device)
    other, _, _ = _learner("float32", device)
    run = Run(device)
    pieces, supervised = MicroBatcher(run), _supervised(other, batch.views[0])

    def floor() -> None:
        supervised()
        supervised()
        with torch.no_grad():
            other.target(batch.views[2])

    ours, least = in_turns(ROUNDS, lambda: ncpu._step(learner, pieces, batch, settings), floor, device=device)
    return {"ours_s": ours, "two_steps_and_a_forward_s": least}


def bench_bf16_step(_: Path) -> dict[str, float]:
    """The same step in float32 against bfloat16 (channels last both): above 1.8 is wanted, so float32 stands first."""
    device = best_device()
    exact, batch, settings = _learner("float32", device)
    fast, _, fast_settings = _learner("bf16", device)
    run = Run(device)
    pieces = MicroBatcher(run)
    with torch.no_grad():
        apart = (exact.network.margin(batch.views[0]) - fast.network.margin(batch.views[0])).abs().max()
    assert apart < 0.25, f"bfloat16 moved a margin by {apart}"
    slow, quick = in_turns(
        ROUNDS,
        lambda: ncpu._step(exact, pieces, batch, settings),
        lambda: ncpu._step(fast, pieces, batch, fast_settings),
        device=device,
    )
    return {"float32_s": slow, "bf16_s": quick}


def bench_embedding(_: Path) -> dict[str, float]:
    """Embeddings of 64 px chips in plain float32, against the fused bfloat16 form; above 2.2 is wanted for ResNet-18.

    Both forms get the same chips, as many at once.
    """
    slow, quick, drift = _embedding_times("resnet18", 256)
    small_slow, small_quick, small_drift = _embedding_times("small", 256)
    preact_slow, preact_quick, preact_drift = _embedding_times("preact_resnet18", 16)
    others = {"small_ratio": small_slow / small_quick, "preact_resnet18_ratio": preact_slow / preact_quick}
    return {
        "float32_s": slow,
        "fused_bf16_s": quick,
        "drift_millionths": 1e6 * max(drift, small_drift, preact_drift),
        **others,
    }


def _embedding_times(backbone: str, n_chips: int) -> tuple[float, float, float]:
    """Seconds in float32, seconds in the fused form, and the largest cosine distance of the two."""
    device, shape = best_device(), (BANDS, SIDE_PX, SIDE_PX)
    trunk = FeatureExtractor(shape, backbone, 0, torch.Generator().manual_seed(0), precision="bf16").to(device).eval()
    exact = FeatureExtractor(shape, backbone, 0, torch.Generator().manual_seed(0)).to(device).eval()
    chips = torch.randint(0, 256, (n_chips, *shape), generator=torch.Generator().manual_seed(1)).float().to(device)
    with torch.inference_mode(), quick_backbone(trunk):
        drift = float((1 - torch.cosine_similarity(trunk(chips), exact(chips))).max())
        slow, quick = in_turns(ROUNDS, lambda: exact(chips), lambda: trunk(chips), device=device)
    return slow, quick, drift
