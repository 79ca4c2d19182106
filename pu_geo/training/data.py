"""What methods learn from: chips as a network sees them, and how people labeled them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.training import augment

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Strength = Literal["plain", "weak", "strong"]
UNKNOWN = -1
NOT_DAMAGED = 0
_AUGMENTATIONS = {
    ("aerial", "weak"): augment.WEAK_AERIAL,
    ("aerial", "strong"): augment.AERIAL,
    ("natural", "weak"): augment.WEAK_NATURAL,
    ("natural", "strong"): augment.NATURAL,
}
RESIDENT_SHARE = 0.25  # chips are kept on a GPU as a whole where they take less than this share of its free memory


@dataclass(frozen=True)
class FeatureViews:
    """Frozen features of several augmented views of every chip.

    Attributes:
        views: float16 or float32 [V, N, D], may be a memory map; view 0 is the chip as it was cut, the others are augmented.
    """

    views: NDArray[np.floating]

    def __post_init__(self) -> None:
        if self.views.ndim != 3:
            raise ShapeError(f"views must be [V, N, D]; got {self.views.shape}.")

    @property
    def n_chips(self) -> int:
        """N."""
        return int(self.views.shape[1])

    @property
    def array(self) -> NDArray[np.floating]:
        """All that a trained model scores: every view."""
        return self.views

    @property
    def plain_array(self) -> NDArray[np.floating]:
        """The chips as they were cut, float [N, D]."""
        return self.views[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one chip as a network sees it: (D,)."""
        return (int(self.views.shape[2]),)

    def draw(
        self, rows: Ints, strengths: Sequence[Strength], generator: torch.Generator, device: torch.device
    ) -> list[Tensor]:
        """Draw one view of each chip per strength; "weak" is any view, "strong" ones of a chip differ while views last.

        Args:
            rows: row numbers, int64 [B].
            strengths: one a view.

        Returns:
            One float32 [B, D] per strength.
        """
        n_views, parts = len(self.views), []
        strong = torch.randint(n_views, (len(rows),), generator=generator)
        for strength in strengths:
            if strength == "plain":
                which = torch.zeros(len(rows), dtype=torch.int64)
            elif strength == "weak":
                which = torch.randint(n_views, (len(rows),), generator=generator)
            else:
                which = strong
                step = torch.randint(1, max(n_views, 2), (len(rows),), generator=generator)
                strong = (strong + step) % n_views
            parts.append(torch.from_numpy(np.asarray(self.views[which.numpy(), rows])).to(device).float())
        return parts


@dataclass(frozen=True)
class ChipImages:
    """Chips as they were cut; views are made on the device, drawn anew each time.

    Attributes:
        chips: uint8 [N, C, H, W], may be a memory map.
        augmentation: "aerial" (flips, rotation, crop; colour stays) or "natural" (crop, mirror, colour).
    """

    chips: NDArray[np.uint8]
    augmentation: str = "aerial"
    _resident: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.chips.ndim != 4 or self.chips.dtype != np.uint8:
            raise ShapeError(f"chips must be uint8 [N, C, H, W]; got {self.chips.dtype} {self.chips.shape}.")

    @property
    def n_chips(self) -> int:
        """N."""
        return len(self.chips)

    @property
    def array(self) -> NDArray[np.uint8]:
        """All that a trained model scores."""
        return self.chips

    @property
    def plain_array(self) -> NDArray[np.uint8]:
        """The chips as they were cut, uint8 [N, C, H, W]."""
        return self.chips

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one chip as a network sees it: (C, H, W)."""
        return tuple(int(size) for size in self.chips.shape[1:])

    def draw(
        self, rows: Ints, strengths: Sequence[Strength], generator: torch.Generator, device: torch.device
    ) -> list[Tensor]:
        """Draw one view of each chip per strength; see `FeatureViews.draw`. Returns float32 [B, C, H, W] in 0..255, channels last."""
        images = self._images(rows, device)
        views = (
            images
            if strength == "plain"
            else augment.augment(images, _AUGMENTATIONS[self.augmentation, strength], generator)
            for strength in strengths
        )
        return [view.contiguous(memory_format=torch.channels_last) for view in views]

    def _images(self, rows: Ints, device: torch.device) -> Tensor:
        """Return chips on the device, float32 [B, C, H, W]; not channels last yet, in which resampling is slower."""
        if device.type == "cuda" and not self._resident:
            free, _ = torch.cuda.mem_get_info(device)
            if self.chips.nbytes < RESIDENT_SHARE * free:
                self._resident["chips"] = torch.from_numpy(np.array(self.chips)).to(device)
        if self._resident:
            images = self._resident["chips"][torch.from_numpy(rows).to(device)]
        else:
            images = torch.from_numpy(np.asarray(self.chips[rows])).to(device)
        return images.float()


@dataclass(frozen=True)
class PUData:
    """Chips, and how people labeled them.

    Attributes:
        inputs: what a network sees of N chips.
        xy_m: places of the buildings, metres in a plane, float64 [N, 2]; None where they are not known.
        why_no_place: why `xy_m` is None, in words; "" with it.
        is_positive: bool [N]; everything else is unlabeled for a PU method.
        is_excluded: bool [N]; not assessable chips: never trained on, yet scored.
        known_class: int64 [N]; -1 where nobody labeled the chip, 0 where a person saw no damage, 1.. a kind of damage, exactly
            where `is_positive`. PU methods do not use it. None: one kind of damage, no "not damaged".
        class_names: names of classes 0.. .
        is_accepted: bool [N]; those of the positives that nobody clicked, as they lie in clusters that were accepted. None: all
            were clicked.
        is_queued: bool [N]; positives that the queue put before the analyst: the clearest damage, so they are held out to judge by
            only where fewer than 4 others can be. None: the analyst found all.
    """

    inputs: FeatureViews | ChipImages
    xy_m: NDArray[np.float64] | None = field(default=None, kw_only=True)
    why_no_place: str = field(default="", kw_only=True)
    is_positive: Bools
    is_excluded: Bools
    known_class: Ints | None = None
    class_names: tuple[str, ...] = ("not damaged", "damaged")
    is_accepted: Bools | None = None
    is_queued: Bools | None = None

    def __post_init__(self) -> None:
        n = self.inputs.n_chips
        if self.xy_m is not None and self.xy_m.shape != (n, 2):
            raise ShapeError(f"xy_m must be [{n}, 2]; got {self.xy_m.shape}.")
        if self.is_positive.shape != (n,) or self.is_excluded.shape != (n,):
            raise ShapeError(f"masks must be [{n}]; got {self.is_positive.shape} and {self.is_excluded.shape}.")
        if self.is_accepted is not None and (self.is_accepted.shape != (n,) or (self.is_accepted & ~self.is_positive).any()):
            raise ShapeError(f"is_accepted must be [{n}], and no chip accepted that is_positive does not mark.")
        if self.is_queued is not None and self.is_queued.shape != (n,):
            raise ShapeError(f"is_queued must be [{n}]; got {self.is_queued.shape}.")
        if not np.array_equal(self.classes >= 1, self.is_positive):
            raise ShapeError(f"known_class must be an int [{n}] that is 1 or more exactly where is_positive.")

    @property
    def classes(self) -> Ints:
        """`known_class`, made from `is_positive` where it is None, int64 [N]."""
        if self.known_class is None:
            return np.where(self.is_positive, 1, UNKNOWN).astype(np.int64)
        return self.known_class

    @property
    def is_unlabeled(self) -> Bools:
        """Which chips nobody labeled, accepted or left out, bool [N]."""
        return (self.classes == UNKNOWN) & ~self.is_excluded

    @property
    def trained_rows(self) -> Ints:
        """Row numbers a method may train on, int64 [M]."""
        return np.flatnonzero(~self.is_excluded)


def batches(n: int, batch_size: int, generator: torch.Generator) -> list[Ints]:
    """Cut n shuffled numbers into batches; a single one left over joins the batch before it, as BatchNorm needs two.

    Args:
        n: how many; 0..n-1 are dealt out, each once.
        batch_size: at least 2.

    Returns:
        int64 arrays of `batch_size`; the last one has 2 to `batch_size` + 1.
    """
    order = torch.randperm(n, generator=generator)
    return [part.numpy() for part in torch.tensor_split(order, list(range(batch_size, n - 1, batch_size)))]


def batches_with_labeled(is_labeled: Bools, batch_size: int, n_labeled: int, generator: torch.Generator) -> list[Ints]:
    """Cut the unlabeled chips into batches, and add `n_labeled` of the others to each, mixed so that pieces hold some of both.

    Returns:
        Numbers of chips in 0..M-1, int64; bool [M] is `is_labeled`.
    """
    labeled, unlabeled = np.flatnonzero(is_labeled), np.flatnonzero(~is_labeled)
    found = []
    for numbers in batches(len(unlabeled), batch_size, generator):
        drawn = torch.randperm(len(labeled), generator=generator)[:n_labeled].numpy()
        both = np.concatenate([labeled[drawn], unlabeled[numbers]])
        found.append(both[torch.randperm(len(both), generator=generator).numpy()])
    return found


def n_batches(n: int, batch_size: int) -> int:
    """Return how many batches `batches` makes of n chips; a single one left over joins the batch before it."""
    return len(range(batch_size, n - 1, batch_size)) + 1


def epochs_within(epochs: int, max_steps: int, per_epoch: int) -> int:
    """Return how many of the epochs, of so many steps each, are done within `max_steps`; at least one is."""
    return max(1, min(epochs, max_steps // per_epoch))
