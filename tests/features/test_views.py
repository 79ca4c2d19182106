"""What all makers share: views of chips and footprints, dates, and means over footprints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pu_geo.features import views
from pu_geo.training.augment import AERIAL, NATURAL, AugmentSettings

CPU = torch.device("cpu")


def test_dates_are_joined_by_hand() -> None:
    found = torch.tensor([[[1.0, 2.0], [4.0, 1.0]]])  # one chip: pre (1, 2), post (4, 1)
    assert views.joined_dates(found, "both").tolist() == [[1, 2, 4, 1, 3, -1]]
    assert views.joined_dates(found, "diff").tolist() == [[3, -1]]
    assert views.joined_dates(found, "post").tolist() == [[4, 1]]
    assert views.joined_dates(found[:, 1:], "post").tolist() == [[4, 1]]


def test_dates_are_standardised_by_their_own_statistics() -> None:
    images = torch.arange(6.0)[None, :, None, None].expand(1, 6, 2, 2) * 10  # bands 0, 10, 20 and 30, 40, 50
    mean, std = torch.tensor([0.0, 10, 10, 30, 30, 30]), torch.tensor([1.0, 1, 2, 10, 10, 20])
    shown = views.split_dates(images, mean, std)
    assert shown.shape == (2, 3, 2, 2)
    torch.testing.assert_close(shown[:, :, 0, 0], torch.tensor([[0.0, 0, 5], [0, 1, 1]]), atol=1e-5, rtol=0)
    post = views.split_dates(images, mean[3:], std[3:])
    torch.testing.assert_close(post[:, :, 0, 0], torch.tensor([[0.0, 1, 1]]), atol=1e-5, rtol=0)


def test_means_over_footprints_by_hand() -> None:
    """Positions 1, 2, 3, 4; each stands for four pixels of the chip."""
    maps = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 2, 2).expand(3, 1, 2, 2)
    masks = torch.zeros(3, 4, 4, dtype=torch.bool)
    masks[0, :2, :2] = True  # the first position alone: 1
    masks[1, :2] = True  # the first whole,
    masks[1, 0, 2:] = False  # of the second half: (1 + 2 / 2) / 1.5 = 4 / 3
    assert views.mean_inside(maps, masks)[:, 0].tolist() == pytest.approx([1, 4 / 3, 2.5])  # none: the mean of all


@pytest.mark.parametrize("augmentation", [AERIAL, NATURAL])
def test_footprints_move_with_their_chips(augmentation: AugmentSettings) -> None:
    masks = torch.zeros(6, 24, 24, dtype=torch.bool)
    masks[:, 3:11, 5:20] = True
    images = masks[:, None].float().expand(-1, 3, -1, -1) * 255
    generator = torch.Generator().manual_seed(0)
    for number in (0, 1, 2):
        image, mask = views._view(images, masks, number, augmentation.geometry, generator)
        assert mask is not None
        assert torch.equal(image[:, 0] > 127.5, mask)
    assert not torch.equal(mask, masks)
    again = torch.Generator().manual_seed(3)
    alone, _ = views._view(images, None, 1, augmentation, again)
    both, _ = views._view(images, masks, 1, augmentation, again.manual_seed(3))
    assert torch.equal(alone, both)  # a footprint changes no draw


def test_views_at_once_are_those_one_by_one() -> None:
    chips = np.random.default_rng(0).integers(0, 256, (7, 3, 8, 8)).astype(np.uint8)
    found = [
        views.describe_views(
            lambda images, _: images.mean((2, 3)).half(), chips, np.zeros((5, 7, 3), np.float16),
            seed=1, device=CPU, block=4, views_at_once=at_once, augmentation=AERIAL,
        )
        for at_once in (1, 2, 5)
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
