"""What every loss does: it swallows no NaN, and gives under autocast what it gives without.

Cosines near 1 have no digits left in bfloat16, so a gap is 0 there.

Two views of a chip differ by little. 1 - cosine of unit vectors with noise of .03 is about .03, of which bfloat16 keeps 4 bits;
NoiSNCL, a root of that gap, lost its gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pu_geo.losses import contrastive, herocon, ncpu, neighborhood, phantom, pu_risk, spreadout

B, D = 24, 32
Loss = Callable[[Tensor, Tensor], Tensor]
KNOWN = torch.arange(B) % 3 == 0
SAME = KNOWN[:, None] == KNOWN[None, :]
CLASSES = torch.arange(B) % 4


def mapped(rows: Tensor) -> Tensor:
    return torch.tanh(rows + rows.roll(1, dims=-1))


LOSSES: dict[str, Loss] = {
    "ncpu.self_alignment": ncpu.self_alignment,
    "ncpu.same_class_alignment": lambda one, two: ncpu.same_class_alignment(one, two, SAME),
    "ncpu.noisy_pair_loss": lambda one, two: ncpu.noisy_pair_loss(one, two, SAME),
    "ncpu.noisy_pair_loss of each alone": lambda one, two: ncpu.noisy_pair_loss(one, two, torch.eye(B, dtype=torch.bool)),
    "ncpu.noisy_pair_loss released": lambda one, two: ncpu.noisy_pair_loss(one, two, SAME, variant="released"),
    "ncpu.classification_loss": lambda one, two: ncpu.classification_loss(one[:, :2], two[:, :2].softmax(1), KNOWN),
    "ncpu.entropy": lambda one, _: ncpu.entropy(one[:, :2]),
    "contrastive.sscl_loss": contrastive.sscl_loss,
    "contrastive.scl_loss": lambda one, two: contrastive.scl_loss(one, two, CLASSES),
    "contrastive.scl_pu_loss": lambda one, two: contrastive.scl_pu_loss(one, two, KNOWN),
    "contrastive.pucl_loss": lambda one, two: contrastive.pucl_loss(one, two, KNOWN),
    "contrastive.mcl_loss": lambda one, two: contrastive.mcl_loss(one, two, KNOWN, supervised_share=0.5),
    "contrastive.dcl_loss": lambda one, two: contrastive.dcl_loss(one, two, same_class_share=0.1),
    "herocon.single_view_loss": lambda one, two: herocon.single_view_loss(one, two, mapped(one)),
    "herocon.multi_view_loss": lambda one, two: herocon.multi_view_loss(torch.stack([one, two]), mapped(torch.stack([one, two]))),
    "herocon.supervised_loss": lambda one, two: herocon.supervised_loss(torch.stack([one, two]), F.one_hot(CLASSES)),
    "neighborhood.pair_cross_entropy": lambda one, two: neighborhood.pair_cross_entropy(one, two, SAME.float()),
    "neighborhood.consistency_loss": neighborhood.consistency_loss,
    "neighborhood.neighborhood_loss": lambda one, two: neighborhood.neighborhood_loss(one, two, two.flip(0), k=3),
    "neighborhood.supervised_queue_loss": lambda one, two: neighborhood.supervised_queue_loss(
        one, two, CLASSES, two.flip(0), CLASSES.flip(0)
    ),
    "pu_risk.upu_risk": lambda one, _: pu_risk.upu_risk(one[:, 0], KNOWN, class_prior=0.3),
    "pu_risk.nnpu_risk": lambda one, _: pu_risk.nnpu_risk(one[:, 0], KNOWN, class_prior=0.3).differentiated,
    "spreadout.spreadout": lambda one, _: spreadout.spreadout(one, margin=1.5),
    "spreadout.class_contrastive_loss": lambda one, two: spreadout.class_contrastive_loss(one, two[:4], CLASSES, margin=1.5).mean(),
    "spreadout.positive_contrastive_loss": lambda one, two: spreadout.positive_contrastive_loss(one, two[0]).mean(),
}  # fmt: skip


def views(seed: int) -> tuple[Tensor, Tensor]:
    """Unit vectors [B, D] and the same with noise of .03 an element, at length 1 again."""
    draw = torch.Generator().manual_seed(seed)
    one = F.normalize(torch.randn(B, D, generator=draw), dim=1)
    return one, F.normalize(one + 0.03 * torch.randn(B, D, generator=draw), dim=1)


def value_and_gradient(loss: Loss, one: Tensor, two: Tensor, *, is_bf16: bool) -> tuple[Tensor, Tensor]:
    leaf = one.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        value = loss(leaf, two)
    value.float().backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_under_autocast_has_the_value_and_the_gradient_of_float32(name: str, seed: int) -> None:
    one, two = views(seed)
    value, gradient = value_and_gradient(LOSSES[name], one, two, is_bf16=False)
    fast, fast_gradient = value_and_gradient(LOSSES[name], one, two, is_bf16=True)
    assert fast.dtype == torch.float32
    assert fast.item() == pytest.approx(value.item(), rel=1e-3, abs=1e-3)
    assert gradient.norm() > 0
    assert (fast_gradient - gradient).norm() <= 1e-3 * gradient.norm()


@pytest.mark.parametrize("name", LOSSES)
def test_an_embedding_that_is_no_number_is_not_swallowed(name: str) -> None:
    one, two = views(0)
    one[1] = torch.nan
    assert LOSSES[name](one, two).isnan()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_ncpu_decides_is_the_same_under_autocast(seed: int) -> None:
    one, two = views(seed)
    prototypes = F.normalize(torch.stack([one[0] + one[1], one[0] - 0.99 * one[1]]), dim=1)
    logits = one[:, :2] * 3
    for decide in (
        lambda: phantom.nearest_prototype(two, prototypes),
        lambda: ncpu.same_class_pairs(logits, variant="released", agreement=0.5001),
    ):
        plain = decide()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(decide(), plain)


def test_every_loss_is_asked() -> None:
    """A function of these rooms that returns a loss is in the table; what is none is named here."""
    rooms = (contrastive, herocon, ncpu, neighborhood, pu_risk, spreadout)
    public = {
        f"{room.__name__.rpartition('.')[2]}.{name}"
        for room in rooms
        for name, what in vars(room).items()
        if callable(what)
        and getattr(what, "__module__", "") == room.__name__
        and not name.startswith("_")
        and name[0].islower()
    }
    no_loss = {
        "ncpu.label_cross_entropy", "ncpu.same_class_pairs", "ncpu.predicted_damaged", "ncpu.total_loss",
        "herocon.log_negative_weights", "herocon.total_loss", "neighborhood.pair_targets", "neighborhood.draw_mixing",
        "neighborhood.hard_negatives", "pu_risk.nnpu_risk_clipped", "spreadout.nearest_spreadout",
        "spreadout.spreadout_contrastive_loss", "spreadout.positive_hinge_loss", "spreadout.spreadout_step",
        "spreadout.parted_rows",
    }  # fmt: skip
    assert public - {name.split()[0] for name in LOSSES} == no_loss
