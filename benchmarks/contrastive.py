"""Speed of the contrastive loss: forward and backward of PUCL at 1024 chips, 128 numbers each, float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import in_turns
from pu_geo.losses.contrastive import pucl_loss

N_CHIPS, DIM, TEMPERATURE = 1024, 128, 0.5
N_ROUNDS = 30


def bench_contrastive(_: Path) -> dict[str, float]:
    """Run PUCL, against its three matrix products alone."""
    generator = torch.Generator().manual_seed(7)
    z1, z2 = (torch.randn(N_CHIPS, DIM, generator=generator).requires_grad_() for _ in range(2))
    is_positive = torch.rand(N_CHIPS, generator=generator) < 0.1
    products = matrix_products(torch.cat([z1, z2]).detach())

    def ours() -> Tensor:
        return with_backward(pucl_loss(z1, z2, is_positive, temperature=TEMPERATURE), z1, z2)

    ours_s, products_s = in_turns(N_ROUNDS, ours, products)
    return {"ours_s": ours_s, "matrix_products_s": products_s}


def with_backward(loss: Tensor, z1: Tensor, z2: Tensor) -> Tensor:
    """Return the loss and its gradients in one row."""
    gradients = torch.autograd.grad(loss, (z1, z2))
    return torch.cat([loss.detach()[None], *(gradient.flatten() for gradient in gradients)])


def matrix_products(rows: Tensor) -> Callable[[], None]:
    """All similarities, and the two products that plain differentiation makes of them; into memory that is ready."""
    similarity, upstream = torch.empty(len(rows), len(rows)), torch.randn(len(rows), len(rows))
    gradient = torch.empty_like(rows)

    def work() -> None:
        torch.mm(rows, rows.T, out=similarity)
        torch.mm(upstream, rows, out=gradient)
        torch.mm(upstream.T, rows, out=gradient)

    return work
