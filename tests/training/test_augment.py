"""Augmented views: geometry, colour, and where their random numbers come from."""

import math

import numpy as np
import pytest
import torch
from golden_parts import seeded
from torch import Tensor
from torchvision.transforms.v2 import functional as torchvision_functional

from pu_geo.errors import ShapeError
from pu_geo.training import augment

PRESETS = {
    "aerial": augment.AERIAL, "weak aerial": augment.WEAK_AERIAL, "natural": augment.NATURAL,
    "weak natural": augment.WEAK_NATURAL,
}  # fmt: skip
every_preset = pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS.keys())


def pictures(n: int, bands: int = 3, size: int = 16, seed: int = 0) -> Tensor:
    return torch.rand(n, bands, size, size, generator=seeded(seed))


def aerial_map_by_hand(draws: list[float]) -> list[list[float]]:
    """The map of one chip from its six numbers, written out for the bounds of AERIAL."""
    angle = math.floor(draws[0] * 4) * math.pi / 2 + math.radians((draws[1] * 2 - 1) * 10)
    flip = -1 if draws[2] < 0.5 else 1
    scale = 1 / (0.9 * (1.25 / 0.9) ** draws[3])
    shift = [(draw * 2 - 1) * 2 * 0.06 for draw in draws[4:]]
    turned = [[math.cos(angle) * flip, -math.sin(angle)], [math.sin(angle) * flip, math.cos(angle)]]
    return [[scale * turned[i][0], scale * turned[i][1], shift[i]] for i in (0, 1)]


def warp_by_loops(image: np.ndarray, affine: list[list[float]]) -> np.ndarray:
    """One chip [C, S, S], pixel by pixel: a mix of the four neighbours, mirrored at the outer edges of the pixels."""
    size = image.shape[1]
    out = np.zeros(image.shape)
    for row, column in np.ndindex(size, size):
        x, y = (2 * column + 1) / size - 1, (2 * row + 1) / size - 1
        at = [((a * x + b * y + c + 1) * size - 1) / 2 for a, b, c in affine]
        mirrored = [size - abs((p + 0.5) % (2 * size) - size) - 0.5 for p in at]
        mirrored = [min(max(p, 0), size - 1) for p in mirrored]
        left, top = (min(int(p), size - 2) for p in mirrored)
        right, down = mirrored[0] - left, mirrored[1] - top
        upper = image[:, top, left] * (1 - right) + image[:, top, left + 1] * right
        lower = image[:, top + 1, left] * (1 - right) + image[:, top + 1, left + 1] * right
        out[:, row, column] = upper * (1 - down) + lower * down
    return out


def test_aerial_view_equals_the_loop_over_pixels() -> None:
    # Cached features depend on these views and on the order of the random numbers.
    images = pictures(5)
    generator, other = seeded(), seeded()
    seen, draws = augment.augment(images, augment.AERIAL, generator), torch.rand(5, 6, generator=other).tolist()
    assert torch.equal(generator.get_state(), other.get_state())
    for image, view, six in zip(images, seen, draws, strict=True):
        np.testing.assert_allclose(view, warp_by_loops(image.numpy(), aerial_map_by_hand(six)), atol=1e-4)


@every_preset
def test_every_chip_has_its_own_draw_which_repeats_with_the_generator(settings: augment.AugmentSettings) -> None:
    seen = augment.augment(pictures(1).expand(24, -1, -1, -1), settings, seeded())
    assert len(torch.unique(seen.flatten(1), dim=0)) >= 8  # of weak aerial ones there are no more
    images, before, generator = pictures(6, bands=6), torch.get_rng_state(), seeded(3)
    first = augment.augment(images, settings, generator)
    assert torch.equal(torch.get_rng_state(), before), "global random numbers are left alone"
    assert torch.equal(augment.augment(images, settings, seeded(3)), first)
    assert not torch.equal(augment.augment(images, settings, generator), first)


@every_preset
def test_shape_type_and_layout_stay_and_values_are_finite(settings: augment.AugmentSettings) -> None:
    for n, bands, size in ((1, 1, 16), (3, 4, 33), (1, 6, 64)):
        images = pictures(n, bands, size).to(memory_format=torch.channels_last).requires_grad_()
        seen = augment.augment(images, settings, seeded())
        assert seen.shape == images.shape
        assert seen.is_contiguous(memory_format=torch.channels_last)
        assert seen.isfinite().all()
        assert not seen.requires_grad
    images = pictures(8, size=64).bfloat16()
    expected = augment.augment(images.float(), settings, seeded())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(augment.augment(images.float(), settings, seeded()), expected, rtol=0, atol=1e-6)
    assert torch.equal(augment.augment(images, settings, seeded()), expected.bfloat16())
    assert augment.augment(images.double(), settings, seeded()).dtype == torch.float64


def test_weak_aerial_views_are_the_eight_ways_to_lay_down_a_chip() -> None:
    image = pictures(1, bands=6)
    eight = torch.cat([torch.rot90(base, turn, (2, 3)) for base in (image, image.flip(3)) for turn in range(4)])
    seen = augment.augment(image.expand(64, -1, -1, -1), augment.WEAK_AERIAL, seeded())
    is_one = (seen[:, None] == eight[None]).flatten(2).all(2)
    assert is_one.sum(1).tolist() == [1] * 64
    assert is_one.any(0).all()


def test_weak_natural_view_is_a_whole_number_of_pixels_off() -> None:
    image = pictures(1, size=16)
    padded = np.pad(image[0].numpy(), ((0, 0), (2, 2), (2, 2)), mode="symmetric")  # an eighth of 16 pixels is 2
    moved = [padded[:, top : top + 16, left : left + 16] for top in range(5) for left in range(5)]
    candidates = np.stack([turned for view in moved for turned in (view, view[:, :, ::-1])])
    hits = set()
    for view in augment.augment(image.expand(200, -1, -1, -1), augment.WEAK_NATURAL, seeded()).numpy():
        (equal,) = np.nonzero((candidates == view).all(axis=(1, 2, 3)))
        assert len(equal) == 1
        hits.add(int(equal[0]))
    assert len(hits) > 40  # of 50; the corners are drawn least


def test_natural_crop_stays_inside_and_never_stands_on_its_head() -> None:
    affines = augment.draw_affines(2000, augment.NATURAL, seeded())
    sides, shift = affines[:, [0, 1], [0, 1]], affines[:, :, 2]
    assert float(affines[:, [0, 1], [1, 0]].abs().max()) == 0 < float(sides[:, 1].min())
    assert float((sides[:, 0] < 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    assert float((sides.abs() + shift.abs()).max()) <= 1 + 1e-6
    area, aspect = sides.prod(dim=1).abs(), (sides[:, 0] / sides[:, 1]).abs()
    assert float(area.min()) == pytest.approx(0.08, abs=0.005)
    assert float(aspect.min()) == pytest.approx(3 / 4, abs=0.01)
    assert float(aspect.max()) == pytest.approx(4 / 3, abs=0.01)


def test_hue_by_hand() -> None:
    # A third of a turn about the gray axis: red becomes green, green blue, blue red. Half a turn of (1, 0, 0):
    # its gray part 1/3 stays, the rest (2/3, -1/3, -1/3) changes sign.
    third, half = augment.hue_matrices(torch.tensor([2 * math.pi / 3, math.pi]).double())
    pixel = torch.tensor([0.8, 0.2, 0.5]).double()
    torch.testing.assert_close(third @ pixel, torch.tensor([0.5, 0.8, 0.2]).double(), rtol=0, atol=1e-7)
    torch.testing.assert_close(half[:, 0], torch.tensor([-1 / 3, 2 / 3, 2 / 3]).double(), rtol=0, atol=1e-7)
    settings = augment.ColorSettings(brightness=0, contrast=0, saturation=0, hue=0.1, probability=1, gray=0)
    matrices, _ = augment.draw_colors(500, 3, settings, seeded())
    angle = torch.acos(((matrices.diagonal(dim1=1, dim2=2).sum(dim=1) - 1) / 2).clamp(-1, 1))  # trace = 1 + 2 cos
    assert 0.59 < float(angle.max()) <= 0.2 * math.pi + 1e-3


def test_color_equals_torchvision_step_by_step_whatever_the_value_of_white() -> None:
    # Values between 0.3 and 0.5 and small changes: torchvision clips nothing.
    settings = augment.ColorSettings(brightness=0.2, contrast=0.4, saturation=0.3, hue=0, probability=0.7, gray=0.3)
    images, drawn = 0.3 + 0.2 * pictures(12), augment.draw_colors(12, 3, settings, seeded())
    seen, n_plain = augment.recolor(images, *drawn), 0
    torch.testing.assert_close(augment.recolor(images * 255, *drawn), seen * 255, rtol=0, atol=1e-2)
    for image, view, draws in zip(images, seen, torch.rand(12, 6, generator=seeded()).tolist(), strict=True):
        expected = image
        if draws[4] < 0.7:
            expected = torchvision_functional.adjust_brightness(expected, 1 + (draws[0] * 2 - 1) * 0.2)
            expected = torchvision_functional.adjust_contrast(expected, 1 + (draws[1] * 2 - 1) * 0.4)
            expected = torchvision_functional.adjust_saturation(expected, 1 + (draws[2] * 2 - 1) * 0.3)
        if draws[5] < 0.3:
            expected = torchvision_functional.rgb_to_grayscale(expected, 3)
        n_plain += expected is image
        torch.testing.assert_close(view, expected, rtol=0, atol=2e-4)  # torchvision's luma adds up to 0.9999
    assert 0 < n_plain < 12


def test_gray_has_equal_bands_and_both_dates_share_one_draw() -> None:
    only_gray = augment.ColorSettings(probability=0, gray=1)
    images = pictures(4, bands=6)
    seen = augment.recolor(images, *augment.draw_colors(4, 6, only_gray, seeded()))
    for first in (0, 3):
        luma = 0.299 * images[:, first] + 0.587 * images[:, first + 1] + 0.114 * images[:, first + 2]
        torch.testing.assert_close(seen[:, first : first + 3], luma[:, None].expand(-1, 3, -1, -1), rtol=0, atol=1e-6)
    before, after = pictures(8), pictures(8)  # both dates share one draw, and equal pixels stay equal
    after[:, :, :, 8:] = pictures(8, seed=1)[:, :, :, 8:] * 3  # another mean
    drawn = augment.draw_colors(8, 6, augment.ColorSettings(probability=1), seeded())
    seen = augment.recolor(torch.cat([before, after], dim=1), *drawn)
    torch.testing.assert_close(seen[:, :3, :, :8], seen[:, 3:, :, :8], rtol=0, atol=1e-5)


@pytest.mark.parametrize("bands", [1, 2, 5])
def test_other_numbers_of_bands_get_brightness_and_contrast_only(bands: int) -> None:
    images = pictures(6, bands)
    contrasted = augment.ColorSettings(brightness=0, probability=1)
    seen = augment.recolor(images, *augment.draw_colors(6, bands, contrasted, seeded()))
    factors = 1 + (torch.rand(6, 6, generator=seeded())[:, 1] * 2 - 1) * 0.4
    center = images.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(seen, center + factors.view(-1, 1, 1, 1) * (images - center), rtol=0, atol=1e-5)


def test_refuses_nonsense() -> None:
    with pytest.raises(ShapeError, match=r"\(3, 8, 8\)"):
        augment.augment(torch.rand(3, 8, 8), augment.AERIAL, seeded())
