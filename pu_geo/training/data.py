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
from pu_geo.records import View
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


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Send a tensor of any shape to a device. CUDA is not waited for; others would read what is freed meanwhile."""
    return values.to(device, non_blocking=device.type == "cuda")


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
            drawn = torch.from_numpy(np.asarray(self.views[which.numpy(), rows]))
            parts.append(sent(drawn, device).float())
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
        """Draw one view of each chip per strength; see `FeatureViews.draw`. Returns float32 [B, C, H, W] in 0..255, channels
        last.
        """
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
            images = self._resident["chips"][sent(torch.from_numpy(rows), device)]
        else:
            images = sent(torch.from_numpy(np.asarray(self.chips[rows])), device)
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
        known_class: int64 [N]; -1 where nobody labeled the chip, 0 where a person saw no damage, 1.. a kind of damage,
            exactly where `is_positive`. PU methods do not use it. None: one kind of damage, no "not damaged".
        class_names: names of classes 0.. .
        is_accepted: bool [N]; those of the positives that nobody clicked, as they lie in clusters that were accepted. None:
            all were clicked.
        is_queued: bool [N]; positives that the queue put before the analyst: the clearest damage, so they are held out to
            judge by only where fewer than 4 others can be. None: the analyst found all.
        views: named spans of bands of `ChipImages`, or of columns of `FeatureViews`; () where nothing is known of these.
        is_missing: views that a building lacks, bool [V, N]: what stands in their bands or columns means nothing. None where
            `views` is (), and where nothing is known of what is missing: then every building counts as having every view.
        type_labels: damage types of one building at a time, several of which may hold, int8 [N, c]: 1 it has the type, 0 a
            person answered that it has not, -1 nobody answered. 0 or -1 throughout where not `is_positive`. None: the kinds
            of `known_class`, of which one excludes the others.
        type_names: names of the c types, each once; () where `type_labels` is None.
        is_ordinal: whether the types are a scale, such as "at least minor", "at least major": who has one has all before it.
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
    views: tuple[View, ...] = field(default=(), kw_only=True)
    is_missing: Bools | None = field(default=None, kw_only=True)
    type_labels: NDArray[np.int8] | None = field(default=None, kw_only=True)
    type_names: tuple[str, ...] = field(default=(), kw_only=True)
    is_ordinal: bool = field(default=False, kw_only=True)

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
        require_spans(self.views, self.inputs.shape[0])
        if self.is_missing is not None:
            require_mask(self.is_missing, (len(self.views), n))
        _check_types(self.type_labels, self.type_names, self.is_ordinal, self.is_positive)

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


def require_spans(views: Sequence[View], n_channels: int) -> None:
    """Refuse views that have a name twice, share a band or column with another, or reach beyond the C that there are."""
    names, end = [view.name for view in views], 0
    if len(set(names)) < len(names):
        raise ShapeError(f"views must have a name each; got {', '.join(names)}.")
    for view in sorted(views, key=lambda each: each.start):
        if not end <= view.start < view.stop <= n_channels:
            raise ShapeError(
                f"views must be spans within 0 to {n_channels} of which none shares any with another; "
                f"{view.name} has {view.start} to {view.stop}."
            )
        end = view.stop


def require_mask(is_missing: Bools, shape: tuple[int, int]) -> None:
    """Refuse a table of missing views that is no bool of this shape [V, N]."""
    if is_missing.dtype != np.bool_ or is_missing.shape != shape:
        raise ShapeError(
            f"is_missing must be bool [{shape[0]}, {shape[1]}], a row a view; got {is_missing.dtype} {is_missing.shape}."
        )


def _check_types(labels: NDArray[np.int8] | None, names: tuple[str, ...], is_ordinal: bool, is_positive: Bools) -> None:
    """Refuse damage types that contradict themselves, or who is damaged."""
    if labels is None:
        if names or is_ordinal:
            raise ShapeError("type_names and is_ordinal are of type_labels, which is None.")
        return
    if (
        labels.dtype != np.int8
        or labels.shape != (len(is_positive), len(names))
        or not names
        or len(set(names)) < len(names)
    ):
        raise ShapeError(
            f"type_labels must be int8 [{len(is_positive)}, c] and type_names c names, each once; got {labels.dtype} "
            f"{labels.shape} and {names}."
        )
    if not np.isin(labels, (-1, 0, 1)).all():
        raise ShapeError(f"type_labels must be 1, 0 or -1; got {labels.min()} to {labels.max()}.")
    if ((labels == 1).any(axis=1) & ~is_positive).any():
        row = int(np.flatnonzero((labels == 1).any(axis=1) & ~is_positive)[0])
        raise ShapeError(f"type_labels names a damage type of row {row}, which is_positive does not mark.")
    if is_ordinal:
        highest_no = np.maximum.accumulate(labels == 0, axis=1)
        if ((labels == 1) & highest_no).any():
            row = int(np.flatnonzero(((labels == 1) & highest_no).any(axis=1))[0])
            raise ShapeError(
                f"type_labels are a scale, and row {row} has one type without one before it: {labels[row].tolist()}."
            )


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
    """Cut the unlabeled chips into batches, and add `n_labeled` of the others to each, mixed so that pieces hold some of
    both.

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
