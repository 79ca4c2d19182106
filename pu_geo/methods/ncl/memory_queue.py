"""A memory of the latest embeddings, oldest thrown out first: M^u and M^l of NCL."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class MemoryQueue:
    """Embeddings of earlier batches and their classes; all its fields decide the future, so a snapshot keeps them.

    Attributes:
        rows: float [Q, E]; slots beyond `n_filled` are empty.
        classes: int64 [Q]; -1 where nobody said anything.
        place: the slot that is written next.
        n_filled: how many slots have been written.
    """

    rows: Tensor
    classes: Tensor
    place: int = 0
    n_filled: int = 0

    @classmethod
    def empty(cls, size: int, dim: int, device: torch.device) -> MemoryQueue:
        """Make a queue of `size` empty slots for embeddings of length `dim`."""
        return cls(torch.zeros(size, dim, device=device), torch.full((size,), -1, device=device))

    def filled(self) -> tuple[Tensor, Tensor]:
        """Give what has been written: rows, float [F, E], and classes, int64 [F]; views, valid until the next `push`."""
        return self.rows[: self.n_filled], self.classes[: self.n_filled]

    @torch.no_grad()
    def push(self, rows: Tensor, classes: Tensor) -> None:
        """Write a batch over the oldest slots; of a batch longer than the queue only the end is kept.

        Args:
            rows: float [B, E]; copied, without gradient.
            classes: int64 [B].
        """
        size = len(self.rows)
        rows, classes = rows[-size:], classes[-size:]
        slots = (self.place + torch.arange(len(rows), device=rows.device)) % size
        self.rows[slots] = rows.to(self.rows)
        self.classes[slots] = classes
        self.place = (self.place + len(rows)) % size
        self.n_filled = min(self.n_filled + len(rows), size)
