"""What every network begins with, what a trained model does, and fused bfloat16 backbones: nearly the same embeddings."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pu_geo.errors import ShapeError
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.pretraining import PairFeatureExtractor
from pu_geo.training.backbones import BACKBONES
from pu_geo.training.data import ChipImages, PUData
from pu_geo.training.heads import Standardize, linear
from pu_geo.training.network import FeatureExtractor, SmallMaps, TrainedModel, fused, quick_backbone
from pu_geo.training.threads import one_thread


class Judge(nn.Module):
    def __init__(self, trunk: FeatureExtractor) -> None:
        super().__init__()
        self.trunk = trunk
        self.classifier = linear(trunk.out_dim, 1, torch.Generator().manual_seed(1))

    def represent(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.trunk(inputs)
        return found

    def margin(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.trunk(inputs))
        return found[:, 0]


def feature_model(width: int = 5) -> TrainedModel:
    trunk = FeatureExtractor((4,), "features", width, torch.Generator().manual_seed(0))
    return TrainedModel(Judge(trunk).eval(), trunk)


def test_standardisation_of_features_by_hand() -> None:
    layer = Standardize((2,))
    layer.fit(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    # mean (2, 5); spread (1, 0 -> 1)
    torch.testing.assert_close(layer(torch.tensor([[4.0, 6.0]])), torch.tensor([[2.0, 1.0]]))
    assert float(layer(torch.tensor([[1e6, 5.0]])).max()) == 8


def test_scores_average_log_odds_over_views_and_embeddings_unit_vectors() -> None:
    model = feature_model()
    views = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    with torch.inference_mode():
        margins = torch.stack([model.network.margin(torch.from_numpy(view)) for view in views])  # type: ignore[operator]
    np.testing.assert_allclose(model.score(views), torch.sigmoid(margins.mean(0)).numpy(), atol=1e-6)
    mean = np.mean([model.embed(view) for view in views], axis=0)
    np.testing.assert_allclose(model.embed(views), mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-6)
    fresh, bare = (FeatureExtractor((4,), "features", width, torch.Generator().manual_seed(7)) for width in (5, 0))
    assert bare.linear_features(torch.full((1, 4), 1e6)).tolist() == [[1e6] * 4]  # forward would draw them in
    again = TrainedModel.loaded(Judge(fresh), model.state(), torch.device("cpu"))
    np.testing.assert_array_equal(again.score(views), model.score(views))


@pytest.mark.parametrize("name", ["small", "resnet18"])
def test_trunk_on_images_whose_statistics_come_from_the_chosen_chips_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chips = np.random.default_rng(0).integers(0, 256, (5, 6, 32, 32)).astype(np.uint8)
    chips[4] = 255
    trunk = FeatureExtractor((6, 32, 32), name, 0, torch.Generator().manual_seed(0))
    data = PUData(ChipImages(chips), np.arange(5) < 1, np.zeros(5, np.bool_))
    trunk.fit_statistics(data, np.arange(4), torch.Generator().manual_seed(0))
    np.testing.assert_allclose(trunk.standardize.mean[:, 0, 0], chips[:4].mean((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(trunk.standardize.scale[:, 0, 0], chips[:4].std((0, 2, 3)), rtol=1e-4)
    model = TrainedModel(Judge(trunk).eval(), trunk)
    assert model.score(chips).shape == (5,)
    assert model.embed(chips).shape == (5, trunk.out_dim)
    with pytest.raises(ShapeError, match="6, 32, 32"):
        model.score(chips[:, :3])
    whole = model.score(chips)
    monkeypatch.setattr("pu_geo.training.network.IMAGES_AT_ONCE", 2)
    np.testing.assert_allclose(model.score(chips), whole, atol=1e-5)
    for shape, other in (((3, 16, 16), "features"), ((16,), name)):
        with pytest.raises(ShapeError, match=other):
            FeatureExtractor(shape, other, 0, torch.Generator())


def test_bf16_stays_near_float32_and_a_compiled_backbone_keeps_the_names_of_its_weights() -> None:
    chips = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0)).float()
    exact = FeatureExtractor((3, 32, 32), "small", 0, torch.Generator().manual_seed(0)).eval()
    fast = copy.deepcopy(exact)
    fast.is_bf16 = True
    with torch.no_grad():
        expected, found = exact(chips), fast(chips)
    assert found.dtype == torch.float32
    assert torch.cosine_similarity(expected, found).min() > 0.99
    assert not torch.equal(expected, found)
    compiled = FeatureExtractor((3, 32, 32), "small", 0, torch.Generator().manual_seed(0), is_compiled=True)
    assert list(exact.state_dict()) == list(compiled.state_dict())


# Fused backbones

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


@pytest.mark.parametrize("has_bias", [True, False])
def test_one_product_equals_the_convolution(has_bias: bool) -> None:
    torch.manual_seed(0)
    for size, *settings in (
        ((2, 2), 3, 1, 1), ((1, 1), 3, 1, 1), ((2, 2), 3, 2, 1), ((2, 1), 5, 2, 2),
        ((3, 2), (3, 5), (2, 1), (1, 2)), ((2, 3), 2, 1, 0), ((2, 3), 7, 2, 3),
    ):  # fmt: skip
        convolution, maps = nn.Conv2d(3, 5, *settings, bias=has_bias), torch.randn(4, 3, *size)
        with torch.no_grad():
            for some in (maps, maps[:1], maps[:0]):
                torch.testing.assert_close(SmallMaps(convolution, *size)(some), convolution(some))


def test_convolutions_take_in_their_normalization_and_those_over_small_maps_alone_become_products() -> None:
    layers = dict(fused(trained("resnet18", "bf16").backbone, SHAPE).named_modules())  # type: ignore[arg-type]
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in layers.values())
    assert [name for name, layer in layers.items() if isinstance(layer, SmallMaps)] == [
        *["layer3.0.conv2", "layer3.1.conv1", "layer3.1.conv2"],
        *["layer4.0.conv1", "layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2"],
    ]


def test_others_are_left_alone_and_the_backbone_returns_after_an_error() -> None:
    for trunk in (trained("small", "float32"), trained("small", "bf16").train()):
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
