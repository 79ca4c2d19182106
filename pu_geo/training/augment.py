"""Other views of chips: geometry in one batched resampling, colour in one matrix product, drawn anew for each chip.

Aerial chips keep their colour, since debris and burn scars are colour (NcPU, Appendix D). Natural images get the
contrastive recipe of PUCL, Appendix A.7.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.errors import ShapeError

LUMA = (0.299, 0.587, 0.114)  # shares of red, green and blue in brightness (ITU-R BT.601)


@dataclass(frozen=True)
class ColorSettings:
    """How far the colour of a view may move.

    Attributes:
        brightness, contrast, saturation: largest change of each factor, in [0, 1]; 0.4 draws from 0.6 to 1.4.
        hue: largest rotation of the hue either way, as a share of a full rotation, in [0, 0.5].
        probability: share of the views that get these four.
        gray: share of the views that lose their colour, drawn on its own.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    probability: float = 0.8
    gray: float = 0.2


def draw_colors(n: int, n_bands: int, settings: ColorSettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one change of colour per chip.

    Source: PUCL, Appendix A.7.3 (ColorJitter and RandomGrayscale).

    Args:
        n_bands: C. A multiple of three means groups of red, green and blue, as in pre + post; all groups of a chip
            share one draw. Any other number has no colour: brightness and contrast only.

    Returns:
        Matrices float32 [n, C, C] and weights of the band means float32 [n, C], as `recolor` takes them.

    Departs from the source: the order of the four is fixed (torchvision shuffles it), and hue is a rotation about the
    gray axis instead of a shift in HSV; both keep the whole a single matrix. The two agree at thirds of a rotation.
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
    """Rotate colours about the gray axis (Rodrigues' formula); a third of a rotation makes red green. Radians [n] to [n, 3,
    3].
    """
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


@dataclass(frozen=True)
class AugmentSettings:
    """How far a view may move away from the chip as it was cut. Half of all views are mirrored left to right.

    Attributes:
        rotation_deg: largest small rotation either way, on top of the quarter rotations.
        zoom: smallest and largest magnification; below 1 the border is mirrored in.
        shift: largest shift either way along each axis, as a share of the chip's side.
        has_turns: whether any multiple of 90 degrees is as likely as none.
        crop_area: smallest and largest share of the chip that a crop keeps; where given, it replaces zoom and shift.
        crop_aspect: largest ratio of a crop's sides, at least 1.
        color: bounds of the changes of colour; None leaves it alone.
    """

    rotation_deg: float = 10.0
    zoom: tuple[float, float] = (0.9, 1.25)
    shift: float = 0.06
    has_turns: bool = True
    crop_area: tuple[float, float] | None = None
    crop_aspect: float = 4 / 3
    color: ColorSettings | None = None

    @property
    def is_exact(self) -> bool:
        """Whether views only flip, rotate by quarters and shift: then pixels are moved whole and nothing is interpolated."""
        return self.rotation_deg == 0 and self.zoom == (1, 1) and self.crop_area is None

    @property
    def geometry(self) -> AugmentSettings:
        """The same without colour: from generators in the same state, both move pixels alike."""
        return replace(self, color=None)


AERIAL = AugmentSettings()  # what suits chips from above
WEAK_AERIAL = AugmentSettings(rotation_deg=0, zoom=(1, 1), shift=0)  # the eight ways to lay down a chip from above
NATURAL = AugmentSettings(rotation_deg=0, has_turns=False, crop_area=(0.08, 1), color=ColorSettings())
"""What suits photographs: PUCL's list for CIFAR, but for the blur."""
WEAK_NATURAL = AugmentSettings(rotation_deg=0, zoom=(1, 1), shift=0.125, has_turns=False)
"""Mirrored or not, and up to 4 of 32 pixels off."""


def draw_affines(n: int, settings: AugmentSettings, generator: torch.Generator) -> Tensor:
    """Draw one affine map per chip: flip, quarter rotations, a small rotation, and zoom and shift or a crop.

    Returns:
        float32 [n, 2, 3], as `torch.nn.functional.affine_grid` takes them.

    Departs from the source: PUCL's RandomResizedCrop (Appendix A.7.3) draws again where a side of the crop would be longer
    than the chip; here that side is cut to the chip's.
    """
    draws = torch.rand(n, 6, generator=generator)
    angle = torch.deg2rad((draws[:, 1] * 2 - 1) * settings.rotation_deg)
    if settings.has_turns:
        angle = torch.floor(draws[:, 0] * 4) * (math.pi / 2) + angle
    flip = torch.where(draws[:, 2] < 0.5, -1.0, 1.0)
    if settings.crop_area is None:
        low, high = settings.zoom
        width = height = torch.exp(-(math.log(low) + draws[:, 3] * math.log(high / low)))
        room = torch.tensor(2 * settings.shift)
    else:
        low, high = settings.crop_area
        side = torch.sqrt(low + draws[:, 3] * (high - low))
        stretch = torch.exp((torch.rand(n, generator=generator) - 0.5) * math.log(settings.crop_aspect))
        width, height = (side * stretch).clamp(max=1), (side / stretch).clamp(max=1)
        room = 1 - torch.stack([width, height], dim=1)
    shift = (draws[:, 4:6] * 2 - 1) * room
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [cos * width * flip, -(sin * height), shift[:, 0], sin * width * flip, cos * height, shift[:, 1]]
    return torch.stack(rows, dim=1).view(n, 2, 3)


def warp(images: Tensor, affines: Tensor, *, is_exact: bool = False) -> Tensor:
    """Resample each chip along its affine map; what lies outside a chip is its mirror image.

    Args:
        images: float32 or float64 [B, C, H, W], square where a map rotates.
        affines: float32 [B, 2, 3] from `draw_affines`.
        is_exact: take the nearest pixel instead of a mix of four, and round shifts to whole pixels.

    Returns:
        [B, C, H, W] like the images, in the contiguous layout.
    """
    if is_exact:
        pixel = 2 / affines.new_tensor([images.shape[3], images.shape[2]])
        affines = torch.cat([affines[:, :, :2], ((affines[:, :, 2] / pixel).round() * pixel)[:, :, None]], dim=2)
    affines = affines.to(images.device, images.dtype, non_blocking=images.is_cuda)
    grid = F.affine_grid(affines, list(images.shape), align_corners=False)
    mode = "nearest" if is_exact else "bilinear"
    return F.grid_sample(images, grid, mode=mode, padding_mode="reflection", align_corners=False)


@torch.no_grad()
def augment(images: Tensor, settings: AugmentSettings, generator: torch.Generator) -> Tensor:
    """Make one augmented view of each chip, with its own draw; what lies outside a chip is its mirror image.

    Args:
        images: float [B, C, H, W], any device, 0..1 or 0..255. Brightness is a factor, so 0 must be black: standardise
            afterwards. Always computed in float32 or float64, also under autocast.
        generator: CPU generator, so that every device sees the same views.

    Returns:
        float [B, C, H, W] on the same device, of the same type, channels last where the images are; without gradient.

    Raises:
        ShapeError: if `images` is not [B, C, H, W].
    """
    if images.ndim != 4:
        raise ShapeError(f"images must be [B, C, H, W]; got {tuple(images.shape)}.")
    # Autocast would round the sampling positions to 8 bits: a quarter of a pixel at 64 px.
    with torch.autocast(images.device.type, enabled=False):
        views = images.float() if images.dtype in (torch.float16, torch.bfloat16) else images
        views = warp(views, draw_affines(len(images), settings, generator), is_exact=settings.is_exact)
        if settings.color is not None:
            colors = draw_colors(len(images), images.shape[1], settings.color, generator)
            views = recolor(views, *(each.to(views.device, views.dtype, non_blocking=views.is_cuda) for each in colors))
    is_channels_last = images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    return views.to(images.dtype, memory_format=layout)
