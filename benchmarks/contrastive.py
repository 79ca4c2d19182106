"""Speed of the contrastive loss: forward and backward of PUCL at 1024 chips, 128 numbers each, float32."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.losses.contrastive import pucl_loss

N_CHIPS, DIM, TEMPERATURE = 1024, 128, 0.5
N_ROUNDS, N_ROUNDS_LISTING = 30, 5


def bench_contrastive(_: Path) -> dict[str, float]:
    """Run PUCL, against its three matrix products alone and against what the listing in the paper (A.7.4) computes."""
    generator = torch.Generator().manual_seed(7)
    z1, z2 = (torch.randn(N_CHIPS, DIM, generator=generator).requires_grad_() for _ in range(2))
    is_positive = torch.rand(N_CHIPS, generator=generator) < 0.1
    products = matrix_products(torch.cat([z1, z2]).detach())

    def ours() -> Tensor:
        return with_backward(pucl_loss(z1, z2, is_positive, temperature=TEMPERATURE), z1, z2)

    def listing() -> Tensor:
        return with_backward(paper_listing(z1, z2, is_positive), z1, z2)

    torch.testing.assert_close(ours(), listing(), rtol=1e-5, atol=1e-9)
    # By turns, so that a busy moment of the machine does not hit one side only.
    times = [(seconds(ours), seconds(products)) for _ in range(N_ROUNDS)]
    ours_s, products_s = (min(column) for column in zip(*times, strict=True))
    listing_s = min(seconds(listing) for _ in range(N_ROUNDS_LISTING))
    return {"ours_s": ours_s, "matrix_products_s": products_s, "paper_listing_s": listing_s}


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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


def paper_listing(z1: Tensor, z2: Tensor, is_positive: Tensor) -> Tensor:
    """PUCL step by step as the paper's listing goes: both losses for every anchor, then the one that applies.

    Right at moderate temperatures only: the shift by the row's maximum counts the anchor itself, so far rows underflow.
    """
    first, second = functional.normalize(z1, dim=1), functional.normalize(z2, dim=1)
    labels = is_positive.repeat(2)
    supervised = listing_supervised(first, second, is_positive)
    unsupervised = listing_unsupervised(first, second)
    return torch.cat([supervised[labels], unsupervised[~labels]]).mean()


def cosines(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("id,jd->ij", a, b) / TEMPERATURE


def listing_unsupervised(first: Tensor, second: Tensor) -> Tensor:
    """Cross-entropy of each anchor against its own view, the anchor itself cut out of its row, [2b]."""
    b = len(first)
    others = ~torch.eye(b, dtype=torch.bool)
    halves = [
        torch.cat([cosines(anchors, views), cosines(anchors, anchors)[others].view(b, b - 1)], dim=1)
        for anchors, views in ((first, second), (second, first))
    ]
    return functional.cross_entropy(torch.cat(halves), torch.arange(b).repeat(2), reduction="none")


def listing_supervised(first: Tensor, second: Tensor, is_positive: Tensor) -> Tensor:
    """Mean negative log-likelihood of the other rows of each anchor's class, over masks of [2b, 2b], [2b]."""
    similarity = torch.cat([torch.cat([cosines(a, b) for b in (first, second)], dim=1) for a in (first, second)])
    similarity = similarity - similarity.max(dim=1, keepdim=True).values.detach()
    likelihood = similarity.exp() * torch.ones_like(similarity, dtype=torch.bool).fill_diagonal_(False)
    likelihood = likelihood / likelihood.sum(dim=1, keepdim=True)
    surprise = likelihood.clone()
    surprise[likelihood != 0] = -likelihood[likelihood != 0].log()
    same_class = (is_positive[:, None] == is_positive[None, :]).tile(2, 2)
    return (surprise * same_class).sum(dim=1) / (same_class.sum(dim=1) - 1)
