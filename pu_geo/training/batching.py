"""How many batches and epochs a training has. Imports nothing, so that work can be counted where torch is not."""

from __future__ import annotations


def n_batches(n: int, batch_size: int) -> int:
    """Say how many batches `data.batches` makes of n chips; a single one left over joins the batch before it."""
    return len(range(batch_size, n - 1, batch_size)) + 1


def epochs_within(epochs: int, max_steps: int, per_epoch: int) -> int:
    """Say how many of the epochs, of so many steps each, are done within `max_steps`; at least one is."""
    return max(1, min(epochs, max_steps // per_epoch))
