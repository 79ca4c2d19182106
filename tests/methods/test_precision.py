"""The backbone in bfloat16, on a GPU above all, gives the ranking that float32 gives, and nothing else is less precise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_parts import CPU, long_but
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.analysis.agreement import spearman
from pu_geo.methods import catalog
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, PUData
from pu_geo.training.network import FeatureExtractor, TrainedModel
from pu_geo.training.run import Run

pytestmark = pytest.mark.slow
NEAR = {"ce": 0.98, "pucl": 0.98, "ncpu": 0.95}
"""Rank correlation that is asked for. NcPU decides by thresholds as it goes, so that rounding grows: another seed gives .90."""
PINNED = {"pseudo_labels": "two_means"}
"""PUCL's "auto" chooses between two clusterings. Seed 0 lies at the edge of that choice: float32 with one and with two threads
have pair cosines that correlate at .9999, and yet 47 of 192 pseudo labels differ and the scores correlate at .89."""
every_method = pytest.mark.parametrize("name", NEAR)
mostly_long = pytest.mark.parametrize(
    "name", [pytest.param("ce", marks=pytest.mark.ci), *long_but([], ["pucl", "ncpu"], part="slow")]
)


def graded_chips(n: int = 192) -> PUData:
    """Chips of 16 px, 3 bands, with a bright patch that grows from none to half; some of the brightest are clicked."""
    draw = np.random.default_rng(0)
    chips = draw.integers(60, 120, (n, 3, 16, 16)).astype(np.uint8)
    for row in range(n):
        chips[row, :, :8, :8] += np.uint8(round(120 * row / n))
    known = np.full(n, -1)
    known[-n // 4 :: 2], known[: n // 4 : 2] = 1, 0
    return PUData(ChipImages(chips), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64))


def settings_of(name: str, precision: str) -> Any:
    known = catalog.card(name).settings.__dataclass_fields__
    wanted = {"backbone": "small", "precision": precision, "epochs": 6, "max_steps": 60, "batch_size": 48, **PINNED}
    return catalog.settings_for(name, "quick", {key: value for key, value in wanted.items() if key in known})


def train(name: str, precision: str, device: torch.device = CPU, seed: int = 0, **run: Any) -> TrainedModel:
    model: TrainedModel = catalog.load_fit(name)(graded_chips(), settings_of(name, precision), Run(device, seed, **run))
    return model


def scores_of(model: TrainedModel) -> NDArray[np.float32]:
    return model.score(graded_chips().inputs.array)


@mostly_long
def test_bf16_ranks_as_float32_does(name: str) -> None:
    """The middle of three seeds: a single training can tip over an edge by rounding alone, on any processor."""
    exact, fast = ([scores_of(train(name, precision, seed=seed)) for seed in range(3)] for precision in ("float32", "bf16"))
    assert not any(map(np.array_equal, exact, fast))  # else nothing was done in bfloat16
    near = float(np.median([spearman(one, two) for one, two in zip(exact, fast, strict=True)]))
    among_seeds = float(np.median([spearman(exact[i], exact[i - 1]) for i in range(3)]))
    assert near > max(NEAR[name], among_seeds)


@pytest.mark.parametrize("name", long_but(["ncpu"], NEAR, part="slow"))
def test_weights_and_gradients_stay_float32(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.dtype, bool]] = []
    entered: list[torch.dtype] = []
    plain = FeatureExtractor.forward

    def forward(trunk: FeatureExtractor, inputs: Tensor) -> Tensor:
        convolution = next(layer for layer in trunk.backbone.modules() if isinstance(layer, nn.Conv2d))
        taken = convolution.register_forward_hook(lambda _, __, out: entered.append(out.dtype))
        out = plain(trunk, inputs)
        taken.remove()
        if out.requires_grad:
            for weight in trunk.parameters():
                weight.register_post_accumulate_grad_hook(
                    lambda one: seen.append((one.grad.dtype, bool(one.grad.isfinite().all())))  # type: ignore[union-attr]
                )
        assert out.dtype == torch.float32  # what heads and losses get
        return out

    monkeypatch.setattr(FeatureExtractor, "forward", forward)
    kept = Checkpoints(tmp_path)
    model = train(name, "bf16", checkpoints=kept)
    assert torch.bfloat16 in entered
    assert seen
    assert set(seen) == {(torch.float32, True)}
    found = kept.newest("training")
    numbers = [tensor for tensor in tensors_in(found[1]) if tensor.is_floating_point()]
    assert {tensor.dtype for tensor in [*numbers, *model.state().values()] if tensor.is_floating_point()} == {torch.float32}
    assert all(bool(tensor.isfinite().all()) for tensor in numbers)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for one in inner for tensor in tensors_in(one)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@every_method
def test_a_gpu_ranks_as_the_cpu_does(name: str, precision: str) -> None:
    here, there = train(name, precision), train(name, precision, torch.device("cuda"))
    assert there.extractor.standardize.mean.device.type == "cuda"
    assert spearman(scores_of(here), scores_of(there)) > NEAR[name]
