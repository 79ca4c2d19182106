"""uPU and nnPU against golden values and numbers by hand."""

import math

import pytest
import torch
from golden_parts import load_golden, require_refusals
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses.pu_risk import Surrogate, nnpu_risk, nnpu_risk_clipped, upu_risk

GOLDEN = ["pu_mixed.npz", "pu_negrisk.npz", "pu_negrisk_beta.npz", "pu_nopos.npz", "pu_nounl.npz", "pu_extreme.npz"]
SURROGATES: list[Surrogate] = ["sigmoid", "logistic"]


def batch(seed: int, n: int = 12, n_positive: int = 4, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Random margins; `shift` moves positives up and unlabeled down, as an overfitting network does."""
    is_positive = torch.arange(n) < n_positive
    margins = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return margins + shift * torch.where(is_positive, 1, -1), is_positive


def every_value(f: Tensor, y: Tensor, prior: float, surrogate: Surrogate, beta: float, gamma: float) -> dict[str, Tensor]:
    kiryo = nnpu_risk(f, y, class_prior=prior, surrogate=surrogate, beta=beta, gamma=gamma)
    upu, clipped = (risk(f, y, class_prior=prior, surrogate=surrogate) for risk in (upu_risk, nnpu_risk_clipped))
    return {"upu": upu, "nnpu_clipped": clipped, "kiryo_objective": kiryo.reported, "kiryo_backprop": kiryo.differentiated}


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("name", GOLDEN)
def test_values_and_gradients_equal_golden_ones(name: str, surrogate: Surrogate) -> None:
    g = load_golden(name)
    f = g["in_f"].requires_grad_()
    prior, beta, gamma = (float(g[f"in_{key}"]) for key in ("prior", "beta", "gamma"))
    values = every_value(f, g["in_y"] == 1, prior, surrogate, beta, gamma)
    for key, value in values.items():
        torch.testing.assert_close(value, g[f"{surrogate}_{key}"], rtol=0, atol=1e-10, msg=lambda t, key=key: f"{key}: {t}")
    assert not values["kiryo_objective"].requires_grad
    for key in ("upu", "kiryo_backprop"):
        (gradient,) = torch.autograd.grad(values[key], f)
        torch.testing.assert_close(gradient, g[f"{surrogate}_{key}_grad"], rtol=0, atol=1e-7)


def test_equals_the_values_worked_out_by_hand() -> None:
    # Sigmoid costs: f = ln 3 costs 1/4 as damaged, 3/4 as undamaged; f = -ln 4 costs 1/5 as undamaged. Prior 0.4:
    # damaged part 0.4 * 1/4 = 0.1; undamaged part 1/5 - 0.4 * 3/4 = -0.1. uPU 0; clipped 0.1.
    f, y = torch.tensor([math.log(3), -math.log(4)], dtype=torch.float64), torch.tensor([True, False])
    assert upu_risk(f, y, class_prior=0.4).item() == pytest.approx(0, abs=1e-12)
    assert nnpu_risk_clipped(f, y, class_prior=0.4).item() == pytest.approx(0.1, abs=1e-12)
    # beta 0.04, gamma 0.5: -0.1 < -0.04, so 0.1 - 0.04 is reported and 0.5 * 0.1 differentiated. beta 0.2 tolerates it.
    strict = nnpu_risk(f, y, class_prior=0.4, beta=0.04, gamma=0.5)
    assert [value.item() for value in strict] == pytest.approx([0.06, 0.05], abs=1e-12)
    assert [value.item() for value in nnpu_risk(f, y, class_prior=0.4, beta=0.2)] == pytest.approx([0, 0], abs=1e-12)
    # Logistic: log(1 + 1/3), and as undamaged log 4 and log(1 + 1/4): 0.4 log(4/3) + log(5/4) - 0.4 log 4.
    by_hand = 0.4 * math.log(4 / 3) + math.log(5 / 4) - 0.4 * math.log(4)
    assert upu_risk(f, y, class_prior=0.4, surrogate="logistic").item() == pytest.approx(by_hand, abs=1e-12)
    # One unlabeled chip at f = 21: log(1 + e^21) = 21 + e^-21 = 21 + 7.6e-10.
    found = upu_risk(torch.tensor([21.0], dtype=torch.float64), torch.tensor([False]), class_prior=0.3, surrogate="logistic")
    assert found.item() == pytest.approx(21 + math.exp(-21), abs=1e-12)
    # All margins 0: every sigmoid cost is 1/2. Prior 1: undamaged part exactly 0 = -beta.
    f, y = torch.zeros(4, dtype=torch.float64, requires_grad=True), torch.tensor([True, True, False, False])
    assert nnpu_risk(f, y, class_prior=1.0).differentiated.item() == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("labels", ["both", "no positive", "no unlabeled", "one chip"])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_stays_finite_and_right_at_margins_of_800(surrogate: Surrogate, labels: str) -> None:
    start = torch.tensor([800.0, -800.0, 0.0, 752.0, -896.0, 0.0], dtype=torch.float16)
    y = torch.arange(6) < {"both": 3, "no positive": 0, "no unlabeled": 6, "one chip": 1}[labels]
    if labels == "one chip":
        start, y = start[:1], y[:1]
    exact = every_value(start.double(), y, 0.3, surrogate, 0.0, 1.0)
    for key in exact:
        f = start.clone().requires_grad_()
        value = every_value(f, y, 0.3, surrogate, 0.0, 1.0)[key]
        assert value.item() == pytest.approx(exact[key].item(), abs=1e-4), key  # 240 - 232.8
        if value.requires_grad:
            value.backward()
            assert f.grad.isfinite().all()


def test_refuses_wrong_shapes_labels_and_settings() -> None:
    f, y = batch(0, n=4, n_positive=2)
    require_refusals(
        (ShapeError, r"\(4, 1\) and \(4,\)", lambda: upu_risk(f[:, None], y, class_prior=0.3)),
        (ShapeError, r"\(4, 1\) and \(4, 1\)", lambda: upu_risk(f[:, None], y[:, None], class_prior=0.3)),
        (ShapeError, r"\(4,\) and \(3,\)", lambda: nnpu_risk_clipped(f, y[:3], class_prior=0.3)),
        (ValueError, "class_prior", lambda: upu_risk(f, y, class_prior=-0.1)),
        (ValueError, "class_prior", lambda: upu_risk(f, y, class_prior=math.nan)),
        (ValueError, '"hinge"', lambda: upu_risk(f, y, class_prior=0.3, surrogate="hinge")),  # type: ignore[arg-type]
        (ValueError, "beta", lambda: nnpu_risk(f, y, class_prior=0.3, beta=-0.1)),
        (ValueError, "gamma", lambda: nnpu_risk(f, y, class_prior=0.3, gamma=1.5)),
    )
