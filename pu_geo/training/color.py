"""Colour of augmented views: everything one chip goes through is one matrix and one offset.

Brightness, contrast, saturation, hue and gray are all linear in a pixel's bands, and contrast needs the chip's mean besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in brightness (ITU-R BT.601)."""


@dataclass(frozen=True)
class ColorSettings:
    """How far the colour of a view may move.

    Attributes:
        brightness, contrast, saturation: largest change of each factor, in [0, 1]; 0.4 draws from 0.6 to 1.4.
        hue: largest rotation of the hue either way, as a share of a full turn, in [0, 0.5].
        probability: share of the views that get these four.
        gray: share of the views that lose their colour, drawn on its own.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    probability: float = 0.8
    gray: float = 0.2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            highest = 0.5 if name == "hue" else 1
            if not 0 <= value <= highest:
                raise ValueError(f"{name} must lie in 0..{highest}; got {value}.")


def draw_colors(n: int, n_bands: int, settings: ColorSettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one change of colour per chip.

    Source: PUCL, Appendix A.7.3 (ColorJitter and RandomGrayscale).

    Args:
        n: how many chips.
        n_bands: C. A multiple of three means groups of red, green and blue, as in pre + post; all groups of a chip
            share one draw. Any other number has no colour: brightness and contrast only.
        settings: bounds of the draws.
        generator: CPU generator.

    Returns:
        Matrices float32 [n, C, C] and weights of the band means float32 [n, C], as `recolor` takes them.

    Departs from the source: the order of the four is fixed (torchvision shuffles it), and hue is a rotation about the
    gray axis instead of a shift in HSV; both keep the whole a single matrix. The two agree at thirds of a turn.
    """
    draws = torch.rand(n, 6, generator=generator)
    strength = (draws[:, :4] * 2 - 1) * (draws[:, 4:5] < settings.probability)
    brightness = 1 + strength[:, 0] * settings.brightness
    contrast = 1 + strength[:, 1] * settings.contrast
    if n_bands % 3:
        band_weights = torch.full((n_bands,), 1 / n_bands)
        matrices = torch.ones(n, 1, 1)
    else:
        # One mean over all dates: pixels that are equal before and after must stay equal.
        band_weights = torch.tensor(LUMA).repeat(n_bands // 3) / (n_bands // 3)
        saturation = 1 + strength[:, 2] * settings.saturation
        saturation = torch.where(draws[:, 5] < settings.gray, 0.0, saturation)
        matrices = saturation_matrices(saturation) @ hue_matrices(strength[:, 3] * (2 * math.pi * settings.hue))
    matrices = matrices * (brightness * contrast)[:, None, None]
    blocks = torch.kron(torch.eye(n_bands // matrices.shape[1])[None], matrices)
    # Saturation and hue leave gray as it is, so contrast's share of the mean passes them unchanged.
    return blocks, (brightness * (1 - contrast))[:, None] * band_weights


def saturation_matrices(factors: Tensor) -> Tensor:
    """Mix each pixel with its luma: 1 changes nothing, 0 is gray. Factors float [n], result [n, 3, 3]."""
    to_gray = torch.tensor(LUMA, dtype=factors.dtype).expand(3, 3)
    factors = factors[:, None, None]
    return factors * torch.eye(3, dtype=factors.dtype) + (1 - factors) * to_gray


def hue_matrices(angles: Tensor) -> Tensor:
    """Turn colours about the gray axis (Rodrigues' formula); a third of a turn makes red green. Radians [n] to [n, 3, 3]."""
    across = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=angles.dtype) / math.sqrt(3)
    cos, sin = torch.cos(angles)[:, None, None], torch.sin(angles)[:, None, None]
    return cos * torch.eye(3, dtype=angles.dtype) + (1 - cos) / 3 + sin * across


def recolor(images: Tensor, matrices: Tensor, mean_weights: Tensor) -> Tensor:
    """Apply to each chip its matrix, and add its weighted mean to all bands.

    Args:
        images: float [B, C, H, W]; 0 is black, white may be anything (1, 255). Not standardised: brightness is a factor.
        matrices: float [B, C, C] from `draw_colors`, on the device and in the type of the images.
        mean_weights: float [B, C], likewise.

    Returns:
        float [B, C, H, W]. May exceed white or fall below black by what was drawn: nothing is clipped.
    """
    offsets = (mean_weights * images.mean(dim=(2, 3))).sum(dim=1)
    return torch.baddbmm(offsets[:, None, None], matrices, images.flatten(2)).view(images.shape)
