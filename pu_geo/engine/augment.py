"""Other views of aerial chips: all geometry in one batched resampling, drawn anew for each chip.

Colour stays as it is, since debris and burn scars are colour (NcPU, Appendix D).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.errors import ShapeError


@dataclass(frozen=True)
class AugmentSettings:
    """How far a view may move away from the chip as it was cut.

    Attributes:
        rotation_deg: largest small rotation either way, on top of a multiple of 90 degrees.
        zoom: smallest and largest magnification; below 1 the border is mirrored in.
        shift: largest shift either way along each axis, as a share of the chip's side.
    """

    rotation_deg: float = 10.0
    zoom: tuple[float, float] = (0.9, 1.25)
    shift: float = 0.06

    def __post_init__(self) -> None:
        low, high = self.zoom
        if not 0 < low <= high:
            raise ValueError(f"zoom must be two rising numbers above 0; got {self.zoom}.")


AERIAL = AugmentSettings()
"""What suits chips seen from above."""


def draw_affines(n: int, settings: AugmentSettings, generator: torch.Generator) -> Tensor:
    """Draw one affine map per chip: flip, quarter turns, a small rotation, zoom, shift.

    Args:
        n: how many chips.
        settings: bounds of the draws.
        generator: CPU generator.

    Returns:
        float32 [n, 2, 3], as `torch.nn.functional.affine_grid` takes them.
    """
    draws = torch.rand(n, 6, generator=generator)
    quarter = torch.floor(draws[:, 0] * 4) * (math.pi / 2)
    angle = quarter + torch.deg2rad((draws[:, 1] * 2 - 1) * settings.rotation_deg)
    flip = torch.where(draws[:, 2] < 0.5, -1.0, 1.0)
    low, high = settings.zoom
    scale = torch.exp(-(math.log(low) + draws[:, 3] * math.log(high / low)))
    shift = (draws[:, 4:6] * 2 - 1) * (2 * settings.shift)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = torch.stack([cos * flip, -sin, shift[:, 0], sin * flip, cos, shift[:, 1]], dim=1)
    return rows.view(n, 2, 3)


def augment(images: Tensor, settings: AugmentSettings, generator: torch.Generator) -> Tensor:
    """Make one augmented view of each chip, with its own draw; what lies outside a chip is its mirror image.

    Args:
        images: float [B, C, H, W], any device.
        settings: bounds of the draws.
        generator: CPU generator, so that every device sees the same views.

    Returns:
        float [B, C, H, W] on the same device.

    Raises:
        ShapeError: if `images` is not [B, C, H, W].
    """
    if images.ndim != 4:
        raise ShapeError(f"images must be [B, C, H, W]; got {tuple(images.shape)}.")
    affines = draw_affines(len(images), settings, generator).to(images.device, images.dtype)
    grid = F.affine_grid(affines, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
