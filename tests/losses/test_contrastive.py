"""The contrastive losses of PUCL."""

import math
from collections.abc import Callable

import pytest
import torch
from golden_parts import load_golden, require_refusals
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses import contrastive
from pu_geo.losses.contrastive import dcl_loss, mcl_loss, pucl_loss, scl_loss, scl_pu_loss, sscl_loss

Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]
LOSSES: dict[str, Loss] = {
    "sscl": lambda z1, z2, y, tau: sscl_loss(z1, z2, temperature=tau),
    "sclpu": lambda z1, z2, y, tau: scl_pu_loss(z1, z2, y, temperature=tau),
    "pucl": lambda z1, z2, y, tau: pucl_loss(z1, z2, y, temperature=tau),
    "mcl_0": lambda z1, z2, y, tau: mcl_loss(z1, z2, y, supervised_share=0, temperature=tau),
    "mcl_0.3": lambda z1, z2, y, tau: mcl_loss(z1, z2, y, supervised_share=0.3, temperature=tau),
    "mcl_1": lambda z1, z2, y, tau: mcl_loss(z1, z2, y, supervised_share=1, temperature=tau),
    "dcl_0": lambda z1, z2, y, tau: dcl_loss(z1, z2, same_class_share=0, temperature=tau),
    "dcl_0.1": lambda z1, z2, y, tau: dcl_loss(z1, z2, same_class_share=0.1, temperature=tau),
    "dcl_0.4": lambda z1, z2, y, tau: dcl_loss(z1, z2, same_class_share=0.4, temperature=tau),
}
CASES = (
    "contrastive_b1.npz", "contrastive_b32.npz", "contrastive_b6.npz", "contrastive_b6_allpos.npz", "contrastive_b6_nopos.npz",
    "contrastive_b6_onepos.npz", "contrastive_b6_tau01.npz",
)  # fmt: skip


def two_views(seed: int, b: int, d: int = 5, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z1, z2 = torch.randn(2, b, d, generator=generator, dtype=torch.float64).to(dtype)
    return z1.requires_grad_(), z2.requires_grad_()


@pytest.fixture(params=[1, 3])
def rows_per_block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let the ten rows of five chips go through in blocks of so many: with and without a rest."""
    monkeypatch.setattr(contrastive, "_CELLS_AT_ONCE_CPU", 10 * request.param)
    return int(request.param)


@pytest.mark.usefixtures("rows_per_block")
@pytest.mark.parametrize("case", CASES)
def test_equals_the_golden_values_and_gradients_for_any_block(case: str) -> None:
    golden = load_golden(case)
    z1, z2, y = golden["in_z1"].requires_grad_(), golden["in_z2"], golden["in_y"]
    for name, loss in LOSSES.items():
        value = loss(z1, z2, y, float(golden["in_tau"]))
        assert value.item() == pytest.approx(float(golden[name]), abs=1e-10), name
        if f"{name}_grad_z1" in golden:
            (gradient,) = torch.autograd.grad(value, z1)
            torch.testing.assert_close(gradient, golden[f"{name}_grad_z1"], rtol=0, atol=1e-7)


def test_equals_the_value_worked_out_by_hand() -> None:
    # Rows e1, e2 | e1, e2 at tau 1. Each anchor: own view 1, two others at cosine 0: log Z = log(e + 2).
    # ssCL: log(e + 2) - 1. Both positive: the pull is the mean of (1, 0, 0), so log(e + 2) - 1/3.
    z = torch.eye(2, dtype=torch.float64)
    log_z = math.log(math.e + 2)
    assert sscl_loss(z, z, temperature=1).item() == pytest.approx(log_z - 1, abs=1e-12)
    assert pucl_loss(z, z, torch.tensor([1, 1]), temperature=1).item() == pytest.approx(log_z - 1 / 3, abs=1e-12)
    for classes, own in (([7, 7], 1 / 3), ([7, 2], 1)):
        assert scl_loss(z, z, torch.tensor(classes), temperature=1).item() == pytest.approx(log_z - own, abs=1e-12)
    # DCL, lambda 0.25: N = 2, R_p = e, R_u = 2, (2 - 0.5 e) / 0.75 = 0.8545 > 2 / e = 0.7358: log(1 + 0.8545 / e).
    by_hand = math.log(1 + (2 - 0.5 * math.e) / 0.75 / math.e)
    assert dcl_loss(z, z, same_class_share=0.25, temperature=1).item() == pytest.approx(by_hand, abs=1e-12)
    # lambda 0.3 leaves (2 - 0.6 e) / 0.7 = 0.527, below the floor 2 / e: log(1 + 2 / e^2).
    floored = math.log(1 + 2 / math.e**2)
    assert dcl_loss(z, z, same_class_share=0.3, temperature=1).item() == pytest.approx(floored, abs=1e-12)


@pytest.mark.usefixtures("rows_per_block")
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_equals_finite_differences_for_any_block(name: str) -> None:
    y = torch.tensor([1, 0, 1, 1, 0])
    assert torch.autograd.gradcheck(lambda z1, z2: LOSSES[name](z1, z2, y, 0.3), two_views(4, 5, d=3))


def test_a_second_gradient_is_refused_rather_than_wrong() -> None:
    z1, z2 = two_views(0, 4)
    with pytest.raises(RuntimeError, match="only a first gradient"):
        torch.autograd.grad(sscl_loss(z1, z2), z1, create_graph=True)


@pytest.mark.parametrize("name", LOSSES)
def test_one_chip_costs_exactly_nothing(name: str) -> None:
    z1, z2 = two_views(0, 1, d=128, dtype=torch.float32)
    for label in (0, 1):
        loss = LOSSES[name](z1, z2, torch.tensor([label]), 0.01)
        gradients = torch.autograd.grad(loss, (z1, z2))
        assert [value.count_nonzero().item() for value in (loss, *gradients)] == [0, 0, 0]


def test_refuses_wrong_shapes_and_settings() -> None:
    z1, z2 = two_views(0, 4)
    require_refusals(
        (ShapeError, r"\(4, 5\) and \(3, 5\)", lambda: sscl_loss(z1, z2[:3])),
        (ShapeError, "b >= 1", lambda: sscl_loss(z1[:0], z2[:0])),
        (ShapeError, r"is_positive must be \[4\]; got shape \(3,\)", lambda: pucl_loss(z1, z2, torch.ones(3) > 0)),
        (ShapeError, r"classes must be \[4\], one class", lambda: scl_loss(z1, z2, torch.arange(3))),
        (ValueError, "classes .* from 0 on; got -2. Leave", lambda: scl_loss(z1, z2, torch.tensor([1, 0, -2, 3]))),
        (ValueError, "temperature", lambda: sscl_loss(z1, z2, temperature=0)),
        (ValueError, "supervised_share", lambda: mcl_loss(z1, z2, torch.ones(4) > 0, supervised_share=1.1)),
        (ValueError, "same_class_share", lambda: dcl_loss(z1, z2, same_class_share=1)),
    )
