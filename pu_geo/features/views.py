"""Features of augmented views of chips, block by block: what all makers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import JobCancelled, ShapeError
from pu_geo.training.augment import AugmentSettings, augment
from pu_geo.training.threads import one_thread

Report = Callable[[Mapping[str, object]], None]
Describe = Callable[[Tensor, Tensor | None], Tensor]
"""Turns images, float32 [B, C, H, W] in 0..255, and footprints, bool [B, H, W], into float16 [B, D]."""
HIGHEST = 65_504.0  # of float16


def describe_views(
    describe: Describe, chips: NDArray[np.uint8], out: NDArray[np.float16], *, seed: int, device: torch.device, block: int,
    views_at_once: int = 1, augmentation: AugmentSettings, masks: NDArray[np.bool_] | None = None, first: int = 0,
    report: Report | None = None, is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.float16]:  # fmt: skip
    """Describe several views of every chip; view 0 is the chip as it was cut.

    Views depend on `seed`, `block` and the chips' order, not on where they are made. A footprint moves with its chip.

    Args:
        chips: uint8 [N, C, H, W], may be a memory map; read once, in order.
        out: float16 [V, N, D], what is written into.
        block: chips whose random numbers are drawn together, and that are handled together.
        views_at_once: how many views of a block are described in one call.
        masks: bool [N, H, W].
        first: chips of the set before these, a multiple of `block`: a part of a set gets the views that it has in the whole.
        report: called after each block of chips with {"done", "total", "seconds"}, counted in chips.

    Returns:
        `out`.

    Raises:
        ShapeError: if `first` is within a block.
        JobCancelled: if the user cancelled; asked between views.
    """
    if first % block:
        raise ShapeError(f"first must be a multiple of {block}, the chips that are handled together; got {first}.")
    n_views, began, done = len(out), time.monotonic(), 0

    def extract(row: int) -> int:
        rows = slice(row, min(row + block, len(chips)))
        with torch.inference_mode():
            images = torch.from_numpy(np.array(chips[rows])).to(device).float()
            shown = None if masks is None else torch.from_numpy(np.array(masks[rows])).to(device)
            generator = torch.Generator().manual_seed(seed * 1_000_003 + (first + row) // block)
            for start in range(0, n_views, views_at_once):
                if is_cancelled is not None and is_cancelled():
                    raise JobCancelled
                numbers = range(start, min(start + views_at_once, n_views))
                pairs = [_view(images, shown, number, augmentation, generator) for number in numbers]
                views = _joined([image for image, _ in pairs])
                footprints = None if shown is None else _joined([mask for _, mask in pairs if mask is not None])
                found = describe(views, footprints).view(len(numbers), len(images), -1)
                out[start : numbers.stop, rows] = found.cpu().numpy()
        return rows.stop - rows.start

    for n in _blocks_at_once(extract, range(0, len(chips), block), device):
        done += n
        if report is not None:
            report({"done": done, "total": len(chips), "seconds": time.monotonic() - began})
    return out


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


def checked_out(out: NDArray[np.float16] | None, shape: tuple[int, int, int]) -> NDArray[np.float16]:
    """Return what features are written into: `out` if it is float16 of that shape [V, N, D], or a new array for None.

    Raises:
        ShapeError: if it is neither.
    """
    result = np.empty(shape, np.float16) if out is None else out
    if result.shape != shape or result.dtype != np.float16:
        raise ShapeError(f"out must be float16 {shape}; got {result.dtype} {result.shape}.")
    return result


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
