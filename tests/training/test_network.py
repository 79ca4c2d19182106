"""What every network begins with, and what a trained model does."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pu_geo.errors import ShapeError
from pu_geo.training.data import ChipImages, PUData
from pu_geo.training.heads import Standardize, linear
from pu_geo.training.network import FeatureExtractor, TrainedModel


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


def test_standardisation_of_images_is_one_per_band() -> None:
    images = torch.arange(2 * 3 * 2 * 2).view(2, 3, 2, 2).float()
    layer = Standardize((3, 2, 2))
    layer.fit(images)
    assert layer.mean.shape == (3, 1, 1)
    standard = layer(images)
    torch.testing.assert_close(standard.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-6)
    torch.testing.assert_close(standard.std((0, 2, 3), correction=0), torch.ones(3))


def test_scores_average_log_odds_over_views_and_embeddings_unit_vectors() -> None:
    model = feature_model()
    views = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    with torch.inference_mode():
        margins = torch.stack([model.network.margin(torch.from_numpy(view)) for view in views])  # type: ignore[operator]
    np.testing.assert_allclose(model.score(views), torch.sigmoid(margins.mean(0)).numpy(), atol=1e-6)
    mean = np.mean([model.embed(view) for view in views], axis=0)
    np.testing.assert_allclose(model.embed(views), mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", ["small", "resnet18"])
def test_trunk_on_images_whose_statistics_come_from_the_chosen_chips_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chips = np.random.default_rng(0).integers(0, 256, (5, 6, 32, 32)).astype(np.uint8)
    chips[4] = 255
    trunk = FeatureExtractor((6, 32, 32), name, 0, torch.Generator().manual_seed(0))
    data = PUData(ChipImages(chips), np.arange(5) < 1, np.zeros(5, np.bool_))
    trunk.fit_statistics(data, np.arange(4), torch.Generator().manual_seed(0))
    torch.testing.assert_close(trunk.standardize.mean[:, 0, 0], torch.from_numpy(chips[:4].mean((0, 2, 3))).float())
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
