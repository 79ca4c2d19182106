"""What every loss does, through both faces: it swallows no NaN, stays finite, and computes in float32 under autocast too.

Cosines near 1 have no digits left in bfloat16, so a gap is 0 there.

Two views of a chip differ by little. 1 - cosine of unit vectors with noise of .03 is about .03, of which bfloat16 keeps 4 bits;
NoiSNCL, a root of that gap, lost its gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from loss_parts import MODULE_OF
from torch import Tensor, nn

from pu_geo import losses
from pu_geo.losses import contrastive, herocon, ncpu, neighborhood, phantom, pu_risk, spreadout

B, D = 24, 32
Loss = Callable[[Tensor, Tensor, float], Tensor]
KNOWN = torch.arange(B) % 3 == 0
SAME = KNOWN[:, None] == KNOWN[None, :]
CLASSES = torch.arange(B) % 4
ALONE = torch.eye(B, dtype=torch.bool)


def mapped(rows: Tensor) -> Tensor:
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    return torch.tanh(rows + rows.roll(1, dims=-1))


# Each takes two views [B, D] and the temperature of those that have one.
LOSSES: dict[str, Loss] = {
    "ncpu.self_alignment": lambda one, two, _: ncpu.self_alignment(one, two),
    "ncpu.same_class_alignment": lambda one, two, _: ncpu.same_class_alignment(one, two, SAME),
    "ncpu.noisy_pair_loss": lambda one, two, _: ncpu.noisy_pair_loss(one, two, SAME),
    "ncpu.noisy_pair_loss of each alone": lambda one, two, _: ncpu.noisy_pair_loss(one, two, ALONE),
    "ncpu.noisy_pair_loss released": lambda one, two, _: ncpu.noisy_pair_loss(one, two, SAME, variant="released"),
    "ncpu.classification_loss": lambda one, two, _: ncpu.classification_loss(
        one[:, :2], two[:, :2].float().softmax(1), KNOWN
    ),
    "ncpu.label_cross_entropy": lambda one, two, _: ncpu.label_cross_entropy(
        one[:, :2], two[:, :2].float().softmax(1)
    ).mean(),
    "ncpu.entropy": lambda one, two, _: ncpu.entropy(one[:, :2]),
    "NcPULoss": lambda one, two, _: losses.NcPULoss(entropy_weight=5.0)(
        one[:, :2], one, two, two[:, :2].float().softmax(1), KNOWN
    ),
    "contrastive.sscl_loss": lambda one, two, t: contrastive.sscl_loss(one, two, temperature=t),
    "contrastive.scl_loss": lambda one, two, t: contrastive.scl_loss(one, two, CLASSES, temperature=t),
    "contrastive.scl_pu_loss": lambda one, two, t: contrastive.scl_pu_loss(one, two, KNOWN, temperature=t),
    "contrastive.pucl_loss": lambda one, two, t: contrastive.pucl_loss(one, two, KNOWN, temperature=t),
    "contrastive.mcl_loss": lambda one, two, t: contrastive.mcl_loss(one, two, KNOWN, supervised_share=0.5, temperature=t),
    "contrastive.dcl_loss": lambda one, two, t: contrastive.dcl_loss(one, two, same_class_share=0.1, temperature=t),
    "herocon.single_view_loss": lambda one, two, t: herocon.single_view_loss(one, two, mapped(one), temperature=t),
    "herocon.multi_view_loss": lambda one, two, t: herocon.multi_view_loss(
        torch.stack([one, two]), mapped(torch.stack([one, two])), temperature=t
    ),
    "herocon.supervised_loss": lambda one, two, t: herocon.supervised_loss(
        torch.stack([one, two]), F.one_hot(CLASSES), temperature=t
    ),
    "HeroConLoss": lambda one, two, t: losses.HeroConLoss(unsupervised_weight=0.5, supervised_weight=0.5, temperature=t)(
        one.float().sum() * 0, torch.stack([one, two]), mapped(torch.stack([one, two])), F.one_hot(CLASSES), is_labeled=KNOWN
    ),
    "neighborhood.pair_cross_entropy": lambda one, two, _: neighborhood.pair_cross_entropy(one, two, SAME),
    "neighborhood.consistency_loss": lambda one, two, _: neighborhood.consistency_loss(one, two),
    "neighborhood.neighborhood_loss": lambda one, two, t: neighborhood.neighborhood_loss(
        one, two, two.flip(0), k=3, temperature=t
    ),
    "neighborhood.supervised_queue_loss": lambda one, two, t: neighborhood.supervised_queue_loss(
        one, two, CLASSES, two.flip(0), CLASSES.flip(0), temperature=t
    ),
    "pu_risk.upu_risk": lambda one, two, _: pu_risk.upu_risk(one[:, 0], KNOWN, class_prior=0.3),
    "pu_risk.nnpu_risk": lambda one, two, _: pu_risk.nnpu_risk(one[:, 0], KNOWN, class_prior=0.3).differentiated,
    "pu_risk.nnpu_risk_clipped": lambda one, two, _: pu_risk.nnpu_risk_clipped(one[:, 0], KNOWN, class_prior=0.3),
    "spreadout.spreadout_loss": lambda one, two, _: spreadout.spreadout_loss(one, margin=1.5),
    "spreadout.class_contrastive_loss": lambda one, two, _: spreadout.class_contrastive_loss(
        one, two[:4], CLASSES, margin=1.5
    ).mean(),
    "spreadout.nearest_spreadout_loss": lambda one, two, _: spreadout.nearest_spreadout_loss(one, k=3),
    "spreadout.spreadout_contrastive_loss": lambda one, two, _: spreadout.spreadout_contrastive_loss(
        one, two[:4], CLASSES, margin=1.5
    ).mean(),
    "spreadout.positive_contrastive_loss": lambda one, two, _: spreadout.positive_contrastive_loss(one, two[0]).mean(),
    "spreadout.positive_hinge_loss": lambda one, two, _: spreadout.positive_hinge_loss(one, two[0]).mean(),
}


def views(seed: int, noise: float = 0.03) -> tuple[Tensor, Tensor]:
    """Unit vectors [B, D] and the same with noise on each element, at length 1 again; float32, as a head in float32 gives them."""
    draw = torch.Generator().manual_seed(seed)
    one = F.normalize(torch.randn(B, D, generator=draw), dim=1)
    return one, F.normalize(one + noise * torch.randn(B, D, generator=draw), dim=1)


def value_and_gradient(loss: Loss, one: Tensor, two: Tensor, *, is_bf16: bool) -> tuple[Tensor, Tensor]:
    leaf = one.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        value = loss(leaf, two, 0.5)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@pytest.mark.usefixtures("face")
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


@pytest.mark.usefixtures("face")
@pytest.mark.parametrize("noise", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_under_bf16_autocast_is_within_5_percent_of_float64(name: str, noise: float) -> None:
    """Embeddings are float32. Noise is the length of what is added to a unit vector: at .03 cosines are .9995, 1 in bfloat16."""
    one, two = views(3, noise / D**0.5)
    _, exact = value_and_gradient(LOSSES[name], one.double(), two.double(), is_bf16=False)
    _, found = value_and_gradient(LOSSES[name], one, two, is_bf16=True)
    assert exact.norm() > 0
    assert (found - exact).norm() <= 0.05 * exact.norm()


@pytest.mark.usefixtures("face")
@pytest.mark.parametrize("noise", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_the_same_where_backward_is_called_under_autocast(name: str, noise: float) -> None:
    """The gradient of a matrix product in bfloat16 cost NoiSNCL 8 %."""
    found = []
    for is_bf16 in (False, True):
        one, two = (each.requires_grad_() for each in views(3, noise / D**0.5))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
            value = LOSSES[name](one, two, 0.5)
            found.append((value, *torch.autograd.grad(value, (one, two), materialize_grads=True)))
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_an_embedding_that_is_no_number_is_not_swallowed(name: str) -> None:
    one, two = views(0)
    one[1] = torch.nan
    assert LOSSES[name](one, two, 0.5).isnan()


def rows_of(kind: str) -> tuple[Tensor, Tensor]:
    """Two views [B, D]: unrelated, or with nothing to tell chips by."""
    one, two = torch.randn(2, B, D, generator=torch.Generator().manual_seed(len(kind)))
    if kind in ("identical", "opposite"):
        return torch.ones_like(one), torch.full_like(two, 1 if kind == "identical" else -1)
    for view, rows in ((one, slice(2)), (two, slice(1, 3))):
        view[slice(None) if kind == "zeros" else rows] *= kind == "random"
    return one, two


KINDS = [
    (name, kind)
    for name in LOSSES
    for kind in ("random", "identical", "opposite", "zeros", "some zeros")
    # NcPU's promise less, see their own tests; those of PUCL are finite for rows of zeros, but not small.
    if (kind == "random" or "ncpu" not in name.lower()) and not (name.startswith("contrastive") and kind.endswith("zeros"))
]


@pytest.mark.usefixtures("face")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_16_bit_rows_give_the_value_of_float32_and_finite_gradients(name: str, kind: str, dtype: torch.dtype) -> None:
    one, two = (view.to(dtype).requires_grad_() for view in rows_of(kind))
    value = LOSSES[name](one, two, 0.01)
    torch.testing.assert_close(value, LOSSES[name](one.float(), two.float(), 0.01), rtol=0, atol=0)
    for gradient in torch.autograd.grad(value, (one, two), materialize_grads=True):
        # A row of zeros has no direction to learn; dividing by a tiny length would make 1e12 of it.
        assert gradient.dtype == dtype
        assert gradient.abs().max() < 1e4


@pytest.mark.parametrize("name", LOSSES)
def test_float32_agrees_with_float64_at_temperature_001(name: str) -> None:
    found = []
    for dtype in (torch.float32, torch.float64):
        one, two = (view.to(dtype).requires_grad_() for view in rows_of("random"))
        value = LOSSES[name](one, two, 0.01)
        found.append((value.double(), torch.autograd.grad(value, one)[0].double()))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


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


NO_LOSS = {
    "draw_mixing", "hard_negatives", "log_negative_weights", "nearest_prototype", "pair_targets", "parted_rows", "phantom_gate",
    "predicted_damaged", "same_class_pairs", "spreadout_step", "start_pseudo_targets", "updated_prototypes",
    "updated_pseudo_targets", "updated_threshold",
}  # fmt: skip
"""Exported functions that return something else than a loss."""


def test_every_exported_loss_is_asked() -> None:
    """A function that `pu_geo.losses` exports is in the table or in `NO_LOSS`, a module is that of a function or in the table."""
    exported = {name: getattr(losses, name) for name in losses.__all__}
    functions = {name for name, what in exported.items() if inspect.isfunction(what)}
    assert functions - NO_LOSS == {key.split()[0].rpartition(".")[2] for key in LOSSES} & functions
    assert functions - NO_LOSS == {function.__name__ for function in MODULE_OF}
    modules = {what for what in exported.values() if inspect.isclass(what) and issubclass(what, nn.Module)}
    assert modules == {*MODULE_OF.values(), *(exported[key] for key in LOSSES if key in exported)}


def test_every_formula_is_exported() -> None:
    """What is public in the files of the families can be imported from the package, but for the sums of terms."""
    rooms = (contrastive, herocon, ncpu, neighborhood, phantom, pu_risk, spreadout)
    public = {
        name
        for room in rooms
        for name, what in vars(room).items()
        if callable(what) and getattr(what, "__module__", "") == room.__name__ and not name.startswith("_")
    }
    assert public - set(losses.__all__) == {"total_loss"}
    assert sorted(losses.__all__) == list(losses.__all__)
