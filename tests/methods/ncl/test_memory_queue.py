"""The memory of embeddings: what is thrown out, and what a snapshot brings back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from pu_geo.methods.ncl.ncl import MemoryQueue
from pu_geo.training.loop import restore, snapshot

CPU = torch.device("cpu")


def numbered(*numbers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows that hold their own number, and classes that are ten times it."""
    return torch.tensor(numbers, dtype=torch.float32)[:, None].repeat(1, 2), 10 * torch.tensor(numbers, dtype=torch.int64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 4, 7])
def test_holds_the_latest_rows_as_a_list_would(seed: int, size: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    queue, kept, count = MemoryQueue.empty(size, 2, CPU), [], 0
    for _ in range(12):
        n = int(torch.randint(0, 2 * size, (), generator=draw))
        queue.push(*numbered(*range(count, count + n)))
        kept, count = (kept + list(range(count, count + n)))[-size:], count + n
        rows, classes = queue.filled()
        assert sorted(rows[:, 0].tolist()) == kept
        assert torch.equal(classes.float(), 10 * rows[:, 1])
        assert queue.n_filled == len(kept)


def test_keeps_no_gradient_and_no_tie_to_what_was_pushed() -> None:
    queue, (rows, classes) = MemoryQueue.empty(3, 2, CPU), numbered(1, 2)
    rows.requires_grad_()
    queue.push(rows, classes)
    with torch.no_grad():
        rows.add_(5)
    assert not queue.rows.requires_grad
    assert queue.filled()[0][:, 0].tolist() == [1, 2]


def test_comes_back_bit_equal_from_a_snapshot() -> None:
    @dataclass
    class Holder:
        queue: MemoryQueue

    holder = Holder(MemoryQueue.empty(4, 2, CPU))
    holder.queue.push(*numbered(1, 2, 3))
    saved = snapshot(holder)
    for _ in range(2):  # a snapshot serves more than once
        holder.queue.push(*numbered(7, 8, 9))
        restore(holder, saved)
        assert holder.queue.filled()[0][:, 0].tolist() == [1, 2, 3]
        assert (holder.queue.place, holder.queue.n_filled) == (3, 3)
        assert holder.queue.classes.tolist() == [10, 20, 30, -1]
