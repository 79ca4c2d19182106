"""Fused bfloat16 backbones: nearly the same embeddings, and the network itself is not touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.pretraining import PairFeatureExtractor
from pu_geo.training.backbones import BACKBONES
from pu_geo.training.network import FeatureExtractor, SmallMaps, fused, quick_backbone
from pu_geo.training.threads import one_thread

SHAPE = (6, 32, 32)


def trained(name: str, precision: str) -> FeatureExtractor:
    """A trunk whose BatchNorm has seen some chips, in evaluation mode."""
    trunk = FeatureExtractor(SHAPE, name, 0, torch.Generator().manual_seed(0), precision=precision)
    with torch.no_grad():
        for seed in range(3):
            trunk(chips(seed))
    return trunk.eval()


def chips(seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (16, *SHAPE)).astype(np.float32))


@pytest.mark.parametrize("name", BACKBONES)
def test_embeddings_hardly_drift_however_chips_are_batched(name: str) -> None:
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
    with one_thread(), torch.inference_mode(), quick_backbone(trunk):  # with more, the last bits depend on both
        whole = trunk(chips(9))
        for at_once in (1, 5):
            parts = [trunk(some) for some in chips(9).split(at_once)]
            torch.testing.assert_close(torch.cat(parts), whole, rtol=2**-7, atol=1e-5)
        assert trunk(chips(9)[:0]).shape == (0, trunk.out_dim)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        *[((2, 2), 3, 1, 1), ((1, 1), 3, 1, 1), ((2, 2), 3, 2, 1), ((2, 1), 5, 2, 2)],
        *[((3, 2), (3, 5), (2, 1), (1, 2)), ((2, 3), 2, 1, 0), ((2, 3), 7, 2, 3)],
    ],
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_one_product_equals_the_convolution(
    size: tuple[int, int], kernel: Any, stride: Any, padding: Any, has_bias: bool
) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 5, kernel, stride, padding, bias=has_bias)
    maps = torch.randn(4, 3, *size)
    with torch.no_grad():
        for some in (maps, maps[:1], maps[:0]):
            torch.testing.assert_close(SmallMaps(convolution, *size)(some), convolution(some))
    product, maps = SmallMaps(nn.Conv2d(256, 256, 3, padding=1, bias=False), 2, 2).bfloat16(), torch.randn(64, 256, 2, 2)
    with torch.inference_mode():
        alone, paired = (torch.cat([product(some) for some in maps.bfloat16().split(n)]) for n in (1, 2))
    assert torch.equal(alone, paired), "a chip alone is summed as among others"


def test_convolutions_take_in_their_normalization_and_those_over_small_maps_become_products() -> None:
    backbone = trained("resnet18", "bf16").backbone
    layers = dict(fused(backbone, SHAPE).named_modules())  # type: ignore[arg-type]
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in layers.values())
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in backbone.modules())
    assert [name for name, layer in layers.items() if isinstance(layer, SmallMaps)] == [
        *["layer3.0.conv2", "layer3.1.conv1", "layer3.1.conv2"],
        *["layer4.0.conv1", "layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2"],
    ]


def test_others_are_left_alone_and_the_backbone_returns_after_an_error() -> None:
    features = FeatureExtractor((8,), "features", 4, torch.Generator().manual_seed(0), precision="bf16").eval()
    for trunk in (features, trained("small", "float32"), trained("small", "bf16").train()):
        held = trunk.backbone
        with quick_backbone(trunk):
            assert trunk.backbone is held
    settings = HeroconSettings(backbone="resnet18", precision="bf16")  # looks at the dates one by one
    trunk = PairFeatureExtractor(SHAPE, settings, torch.Generator().manual_seed(0)).eval()
    held, some = trunk.backbone, chips(1)
    some[1, :3] = 0  # no pre image
    with torch.inference_mode():
        plain = trunk(some)
        with quick_backbone(trunk):
            quick = trunk(some)
    assert torch.cosine_similarity(plain, quick).min() > 0.99
    with pytest.raises(ZeroDivisionError), quick_backbone(trunk):
        _ = 1 / 0
    assert trunk.backbone is held
