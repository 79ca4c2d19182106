"""Fused bfloat16 backbones: nearly the same embeddings, and the network itself is not touched."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pu_geo.engine.backbones import BACKBONES
from pu_geo.engine.inference import fused, quick_backbone
from pu_geo.engine.network import Trunk

SHAPE = (6, 32, 32)


def trained(name: str, precision: str) -> Trunk:
    """A trunk whose BatchNorm has seen some chips, in evaluation mode."""
    trunk = Trunk(SHAPE, name, 0, torch.Generator().manual_seed(0), precision=precision)
    with torch.no_grad():
        for seed in range(3):
            trunk(chips(seed))
    return trunk.eval()


def chips(seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (16, *SHAPE)).astype(np.float32))


@pytest.mark.parametrize("name", BACKBONES)
def test_embeddings_hardly_drift(name: str) -> None:
    trunk = trained(name, "bf16")
    exact = trained(name, "float32")
    exact.load_state_dict(trunk.state_dict())
    before = {key: value.clone() for key, value in trunk.state_dict().items()}
    with torch.inference_mode(), quick_backbone(trunk):
        assert trunk.backbone.state_dict().keys() != exact.backbone.state_dict().keys()
        quick = trunk(chips(9))
    with torch.inference_mode():
        drift = 1 - torch.cosine_similarity(quick, exact(chips(9)))
    assert quick.dtype == torch.float32
    assert drift.max() < 1e-2
    assert drift.max() > 0, "it was in bfloat16"
    assert all(torch.equal(value, before[key]) for key, value in trunk.state_dict().items())


def test_convolutions_take_in_their_normalization() -> None:
    whole = trained("small", "bf16")
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in fused(whole.backbone).modules())  # type: ignore[arg-type]
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in whole.backbone.modules())


@pytest.mark.parametrize("why", ["float32", "training", "features"])
def test_others_are_left_alone(why: str) -> None:
    if why == "features":
        trunk = Trunk((8,), "features", 4, torch.Generator().manual_seed(0), precision="bf16").eval()
    else:
        trunk = trained("small", "float32" if why == "float32" else "bf16").train(why == "training")
    held = trunk.backbone
    with quick_backbone(trunk):
        assert trunk.backbone is held


def test_the_backbone_returns_after_an_error() -> None:
    trunk = trained("small", "bf16")
    held = trunk.backbone
    with pytest.raises(ZeroDivisionError), quick_backbone(trunk):
        _ = 1 / 0
    assert trunk.backbone is held
