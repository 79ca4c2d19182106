"""What all makers of frozen features share: the face of a maker, and augmented views of chips, described block by block."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.records import FeatureRequest, View
from pu_geo.training.augment import AERIAL, AugmentSettings, augment
from pu_geo.training.threads import one_thread

Report = Callable[[Mapping[str, object]], None]
Chips = NDArray[np.uint8]
Describe = Callable[[Tensor, Tensor | None], Tensor]
"""Turns images, float32 [B, C, H, W] in 0..255, and footprints, bool [B, H, W], into float16 [B, D]."""
HIGHEST = 65_504.0  # of float16


@dataclass(frozen=True, kw_only=True)
class Making:
    """What a maker is made with, beside a request and chips; see `bank.fit_maker`."""

    generator: torch.Generator
    device: torch.device
    report: Report | None = None
    is_cancelled: Callable[[], bool] | None = None
    views: Sequence[View] = ()
    is_missing: NDArray[np.bool_] | None = None


class Maker(ABC):
    """What makes frozen features of chips.

    Attributes:
        kind: its row in `bank.MAKERS`.
        block: chips whose random numbers are drawn together, and that are handled together.
    """

    kind: str
    block: int

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Features per chip, D."""

    @classmethod
    @abstractmethod
    def fit_request(cls, request: FeatureRequest, chips: Chips, rows: NDArray[np.int64], making: Making) -> Self:
        """Make what the request asks for; see `bank.fit_maker`."""

    @classmethod
    @abstractmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the maker from what `state` and `facts` gave; both may come from a stranger's file.

        Raises:
            TrainingError: if they do not belong together, or hold what no maker of that kind gives.
        """

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the maker is made of as plain arrays, for a file that cannot run code."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know, as JSON: kind, backbone, weights_file, weights_sha256, licence,
        pool, layer, size_px, dates, None where a maker has no such thing; and "holds_imagery": whether its arrays are
        patches of a project's imagery, or were learned from it, so that whoever gets them gets some of it."""

    @abstractmethod
    def _prepared(self, chips: Chips, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[Chips, Describe, int]:
        """Return the bands of chips that it reads, what describes them, and how many views of a block it does in one call.

        Raises:
            ShapeError: if it cannot read these chips.
        """

    def transform(
        self, chips: NDArray[np.uint8], n_views: int, *, seed: int, device: torch.device,
        out: NDArray[np.float16] | None = None, augmentation: AugmentSettings = AERIAL, report: Report | None = None,
        is_cancelled: Callable[[], bool] = lambda: False, masks: NDArray[np.bool_] | None = None, first: int = 0,
    ) -> NDArray[np.float16]:  # fmt: skip
        """Compute features of several views of every chip, float16 [V, N, D]; view 0 is the chip as it was cut.

        Views depend on `seed` and the chips' order, not on where they are made or what is written into. A footprint moves
        with its chip.

        Args:
            chips: uint8 [N, C, H, W], may be a memory map; read once, in order.
            out: float16 [V, N, D] to write into, such as a memory map.
            report: called after each block of chips with {"done", "total", "seconds"}, counted in chips.
            masks: bool [N, H, W], the footprints; given where facts()["pool"] is "footprint", and nowhere else.
            first: chips of the set before these, a multiple of `bank.ROWS_TOGETHER`: so parts of a set get the features that
                they have in the whole, bit for bit on one kind of processor.

        Returns:
            `out` where that was given.

        Raises:
            ShapeError: if chips, out, masks or first do not fit the maker.
            TrainingError: if features are not finite.
            JobCancelled: if the user cancelled; asked between views, or more often.
        """
        pool, shape = self.facts()["pool"], (n_views, len(chips), self.n_features)
        chips, describe, views_at_once = self._prepared(chips, device, is_cancelled)
        if (masks is not None) != (pool == "footprint"):
            raise ShapeError(f"masks go with pool='footprint', and with nothing else; pool is {pool!r}.")
        if masks is not None and masks.shape != (len(chips), *chips.shape[2:]):
            raise ShapeError(f"masks must be {(len(chips), *chips.shape[2:])}, one a chip; got {masks.shape}.")
        written = np.empty(shape, np.float16) if out is None else out
        if written.shape != shape or written.dtype != np.float16:
            raise ShapeError(f"out must be float16 {shape}; got {written.dtype} {written.shape}.")
        if first % self.block:
            raise ShapeError(f"first must be a multiple of {self.block}, the chips that are handled together; got {first}.")
        began, done = time.monotonic(), 0

        def extract(row: int) -> int:
            rows = slice(row, min(row + self.block, len(chips)))
            with torch.inference_mode():
                images = torch.from_numpy(np.array(chips[rows])).to(device).float()
                shown = None if masks is None else torch.from_numpy(np.array(masks[rows])).to(device)
                generator = torch.Generator().manual_seed(seed * 1_000_003 + (first + row) // self.block)
                for start in range(0, n_views, views_at_once):
                    if is_cancelled():
                        raise JobCancelled
                    numbers = range(start, min(start + views_at_once, n_views))
                    pairs = [_view(images, shown, number, augmentation, generator) for number in numbers]
                    views = _joined([image for image, _ in pairs])
                    footprints = None if shown is None else _joined([mask for _, mask in pairs if mask is not None])
                    found = describe(views, footprints).view(len(numbers), len(images), -1)
                    written[start : numbers.stop, rows] = found.cpu().numpy()
            return rows.stop - rows.start

        for n in _blocks_at_once(extract, range(0, len(chips), self.block), device):
            done += n
            if report is not None:
                report({"done": done, "total": len(chips), "seconds": time.monotonic() - began})
        return written


def refuse_choices(request: FeatureRequest, kind: str, free: tuple[str, ...], who: str, why: str, hint: str) -> None:
    """Raise TrainingError where a request chooses what a maker leaves no choice of, in words; `free` names what may be
    chosen.
    """
    usual = {one.name: one.default for one in fields(request)} | {"maker": kind}
    free = (*free, "licence", "n_views")
    if odd := [name for name, value in usual.items() if name not in free and getattr(request, name) != value]:
        raise TrainingError(f"{who} leave no choice of {', '.join(odd)}: {why}.", hint, kind="maker")


def split_dates(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Standardise images, float [B, C, H, W] in 0..255, and return their dates one after the other, float [B * C / 3, 3, H,
    W].

    Only the last len(mean) bands are used: of chips with pre and post, statistics of three bands choose post.
    """
    mean, std = (each.to(images.device)[:, None, None] for each in (mean, std))
    bands = images[:, -len(mean) :]
    return torch.addcmul(-mean / std, bands, 1 / std).unflatten(1, (-1, 3)).flatten(0, 1)


def joined_dates(features: Tensor, dates: str) -> Tensor:
    """Join the features of a chip's dates, float [B, 1 or 2, K], into one row.

    "both" gives [pre, post, post - pre], float [B, 3 K]; "diff" the difference and "post" the last date, float [B, K].
    """
    if dates == "post":
        return features[:, -1]
    pre, post = features.unbind(1)
    return post - pre if dates == "diff" else torch.cat([pre, post, post - pre], dim=1)


def mean_inside(maps: Tensor, masks: Tensor) -> Tensor:
    """Average maps over the footprint, each position weighted by its share of footprint; over all where there is none.

    Args:
        maps: float [B, K, h, w].
        masks: bool [B, H, W].

    Returns:
        float [B, K].
    """
    share = F.adaptive_avg_pool2d(masks[:, None].to(maps.dtype), (maps.shape[2], maps.shape[3]))
    share = torch.where(share.sum((2, 3), keepdim=True) > 0, share, 1.0)
    return (maps * share).sum((2, 3)) / share.sum((2, 3))


def _view(
    images: Tensor, masks: Tensor | None, number: int, augmentation: AugmentSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """Make one view of chips and footprints; an augmentation draws where a view lies before its colours."""
    if number == 0:
        return images, masks
    if masks is None:
        return augment(images, augmentation, generator), None
    again = torch.Generator().set_state(generator.get_state())
    moved = augment(images, augmentation, generator)
    return moved, augment(masks[:, None].float(), augmentation.geometry, again)[:, 0] > 0.5


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _blocks_at_once(work: Callable[[int], int], firsts: Iterable[int], device: torch.device) -> Iterator[int]:
    """Do blocks side by side, each on one thread; yield what each returned, in order.

    Threads within a block would wait for each other at every step, and burn their cores waiting: on a busy machine that
    takes ten times as long.
    """
    n_threads = torch.get_num_threads()
    if device.type != "cpu" or n_threads == 1:
        yield from map(work, firsts)
        return
    with one_thread(), ThreadPoolExecutor(n_threads) as pool:
        try:
            yield from pool.map(work, firsts)
        finally:
            pool.shutdown(cancel_futures=True)
