"""The losses of HeroCon."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from golden_parts import load_golden, require_refusals
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses.herocon import log_negative_weights, multi_view_loss, single_view_loss, supervised_loss

Loss = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]
# Each takes views [V, B, D], H of the views, labels [B, c], the missing views [V, B] and the temperature.
LOSSES: dict[str, Loss] = {
    "single": lambda z, h, y, gone, t: single_view_loss(z[0], z[-1], h[-1], temperature=t),
    "multi": lambda z, h, y, gone, t: multi_view_loss(z, h, is_missing=gone, temperature=t),
    "supervised": lambda z, h, y, gone, t: supervised_loss(z, y, is_missing=gone, temperature=t),
    "others only": lambda z, h, y, gone, t: supervised_loss(z, y, is_missing=gone, temperature=t, with_itself=False),
}
WITH_VIEWS = ("multi", "supervised", "others only")


def some_map(views: Tensor) -> Tensor:
    """A fixed H: linear and sigmoid."""
    width = views.shape[-1]
    weight = torch.linspace(-2, 2, width * width, dtype=torch.float64).reshape(width, width).sin()
    return torch.sigmoid(views @ weight.to(views) + 0.1)


def some_views(seed: int, v: int, b: int, d: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(v, b, d, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def some_labels(seed: int, n: int, c: int) -> Tensor:
    return torch.rand(n, c, generator=torch.Generator().manual_seed(seed)) < 0.5


def some_missing(seed: int, v: int, b: int) -> Tensor:
    """About a third of the views; some chips may lack all."""
    return torch.rand(v, b, generator=torch.Generator().manual_seed(100 + seed)) < 0.35


def golden_views() -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """All arrays of the file, the two views stacked, and H of them."""
    golden = load_golden("herocon.npz")
    views = torch.stack([golden["in_z1"], golden["in_z2"]])
    return golden, views, torch.sigmoid(views @ golden["in_W"].T + golden["in_b"])


def test_equals_the_golden_values() -> None:
    golden, z, h = golden_views()
    y = golden["in_Y"]
    values = {
        "Lu_eq5_bothviews": multi_view_loss(z, h), "Lu_eq5_bothviews_t05": multi_view_loss(z, h, temperature=0.5),
        "Lu_eq4_single_x_is_z1": single_view_loss(z[0], z[1], h[1]),  # X is view 1, Z is view 2
        "g_matrix": log_negative_weights(z[0], h[0], z[1], h[1]).exp(),
        "Ls_eq7_inclself": supervised_loss(z, y), "Ls_eq7_exclself": supervised_loss(z, y, with_itself=False),
        "Ls_binary_inclself": supervised_loss(z, y[:, :1]), "Ls_binary_supcon_eq6_inclself": supervised_loss(z, y[:, :1]),
        "Ls_binary_exclself": supervised_loss(z, y[:, :1], with_itself=False),
    }  # fmt: skip
    for key, value in values.items():
        torch.testing.assert_close(value, golden[key], rtol=0, atol=1e-10, msg=lambda m, k=key: f"{k}: {m}")


def test_gradients_equal_the_golden_gradients() -> None:
    golden, views, _ = golden_views()
    first = views[0].requires_grad_()
    both = torch.stack([first, views[1].detach()])
    multi_view_loss(both, torch.sigmoid(both @ golden["in_W"].T + golden["in_b"])).backward()
    torch.testing.assert_close(first.grad, golden["Lu_eq5_grad_z1"], rtol=0, atol=1e-7)
    views = views.detach().requires_grad_()
    supervised_loss(views, golden["in_Y"], with_itself=False).backward()
    assert views.grad is not None
    joined = torch.cat(list(views.grad), dim=1)
    torch.testing.assert_close(joined, golden["Ls_eq7_exclself_grad_s"], rtol=0, atol=1e-7)


def test_views_of_several_dates_are_compared_within_each_alone() -> None:
    views, gone = some_views(0, 5, 7), some_missing(0, 5, 7)
    mapped = some_map(views)
    value = multi_view_loss(views, mapped, is_missing=gone, dates=[4, 0, 4, 0, 7], temperature=0.5)
    weighed, n_pairs = 0.0, 0
    for own in ([0, 2], [1, 3]):  # view 4 is alone
        n = int((~gone[own]).all(dim=0).sum())
        weighed += n * multi_view_loss(views[own], mapped[own], is_missing=gone[own], temperature=0.5).item()
        n_pairs += n
    assert value.item() == pytest.approx(weighed / n_pairs, abs=1e-10)
    assert multi_view_loss(views, mapped, dates=[1] * 5).item() == multi_view_loss(views, mapped).item()
    assert multi_view_loss(views, mapped, dates=range(5)).item() == 0


def test_unsupervised_losses_equal_the_values_worked_out_by_hand() -> None:
    # Both views of chip 0 are e1, of chip 1 e2; H is (1, 1) everywhere, cosine 1 / sqrt 2, so g = exp(1 - 1 / sqrt 2).
    # Anchor e1: pair exp(1), negatives two times g exp(0): log(1 + 2 g / e). With one view only: log(1 + g / e).
    eye = torch.eye(2, dtype=torch.float64)
    views, mapped = torch.stack([eye, eye]), torch.ones(2, 2, 2, dtype=torch.float64)
    g = math.exp(1 - math.sqrt(0.5))
    assert multi_view_loss(views, mapped).item() == pytest.approx(math.log(1 + 2 * g / math.e), abs=1e-12)
    assert single_view_loss(eye, eye, mapped[0]).item() == pytest.approx(math.log(1 + g / math.e), abs=1e-12)
    # Chip 0 lacks its first view: it has no pair left, and is one negative of chip 1 instead of two.
    gone = torch.tensor([[True, False], [False, False]])
    by_hand = math.log(1 + g / math.e)
    assert multi_view_loss(views, mapped, is_missing=gone).item() == pytest.approx(by_hand, abs=1e-12)
    # Input and own Z are opposite, the other Z is the input; H = (1, 1), so g = (exp(1 - 1 / sqrt 2) + exp(1 + 1 / sqrt 2)) / 2.
    # At temperature 0.1: log(1 + g exp(10) / exp(-10)).
    hidden = torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    value = single_view_loss(-hidden, hidden, torch.ones(2, 2, dtype=torch.float64), temperature=0.1)
    g = (math.exp(1 - math.sqrt(0.5)) + math.exp(1 + math.sqrt(0.5))) / 2
    assert value.item() == pytest.approx(math.log(1 + g * math.exp(20)), abs=1e-11)


def test_supervised_loss_equals_the_value_worked_out_by_hand() -> None:
    # S is e1, e1, e2 with labels 10, 11, 01: chips 0 and 1 differ in 1, 1 and 2 in 1, 0 and 2 in 2.
    # Label 0, pair (0, 1): sigma f = e / 2, gamma f to chip 2 is 2: log(1 + 4 / e). Pair (1, 0): gamma f is 1: log(1 + 2 / e).
    # Label 1, pair (1, 2): sigma f = 1 / 2, gamma f to chip 0 is e: log(1 + 2 e). Pair (2, 1): gamma f is 2: log 5.
    views = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    labels = torch.tensor([[1, 0], [1, 1], [0, 1]])
    first = (math.log(1 + 4 / math.e) + math.log(1 + 2 / math.e)) / 2
    second = (math.log(1 + 2 * math.e) + math.log(5)) / 2
    value = supervised_loss(views, labels, with_itself=False)
    assert value.item() == pytest.approx((first + second) / 2, abs=1e-12)
    # With label 0 alone, chip 0 gone: chip 1 pairs with itself only, f = e, and pushes chip 2, f = 1: log(1 + 1 / e).
    gone = torch.tensor([[True, False, False]])
    value = supervised_loss(views, labels[:, :1], is_missing=gone)
    assert value.item() == pytest.approx(math.log(1 + 1 / math.e), abs=1e-12)
    # S is e1, e1, e2; labels 1?, 11, 01, and of chip 0 label 1 is not known. c = 2.
    # Label 0: pair (0, 1) has no difference in the one label known of both: sigma 1, f = e; chip 2 differs from chip 0 in
    # that one label: gamma 2 * 1 / 1 = 2, f = 1: log(1 + 2 / e). Pair (1, 0): sigma 1; gamma of chip 2 is 1: log(1 + 1 / e).
    # Label 1: chip 0 is in neither set, so no pair has a negative: 0.
    views = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    labels, known = torch.tensor([[1, 0], [1, 1], [0, 1]]), torch.tensor([[1, 0], [1, 1], [1, 1]])
    first = (math.log(1 + 2 / math.e) + math.log(1 + 1 / math.e)) / 2
    value = supervised_loss(views, labels, is_known=known, with_itself=False)
    assert value.item() == pytest.approx(first / 2, abs=1e-12)


@pytest.mark.parametrize("name", WITH_VIEWS)
def test_what_stands_in_a_missing_view_is_never_used(name: str) -> None:
    views, labels, gone = some_views(1, 3, 6), some_labels(1, 6, 2), some_missing(1, 3, 6)
    mapped = some_map(views).detach().requires_grad_()
    expected = LOSSES[name](views, mapped, labels, gone, 0.5)
    for filler in (1e6, math.nan):
        filled, filled_map = (x.detach().masked_fill(gone[..., None], filler).requires_grad_() for x in (views, mapped))
        value = LOSSES[name](filled, filled_map, labels, gone, 0.5)
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
        (gradient,) = torch.autograd.grad(value, filled)
        assert gradient.isfinite().all()
        assert (gradient[gone] == 0).all()
        assert (gradient[~gone].abs().sum() > 0).item()


def test_values_and_gradients_are_0_where_there_is_nothing_to_say() -> None:
    views, labels = some_views(5, 3, 6), some_labels(5, 6, 3)
    nowhere, one_view = torch.ones(3, 6) > 0, (torch.arange(3) != 1)[:, None].expand(3, 6)
    for names, chips, y, gone in (
        (WITH_VIEWS, slice(1), labels, None),
        (WITH_VIEWS, slice(6), labels, nowhere),
        (("multi",), slice(6), labels, one_view),
        (WITH_VIEWS[1:], slice(6), torch.zeros_like(labels), None),
        (WITH_VIEWS[1:], slice(6), torch.ones_like(labels), None),
    ):
        for name in names:
            value = LOSSES[name](views[:, chips], some_map(views)[:, chips], y[chips], gone, 0.01)
            (gradient,) = torch.autograd.grad(value, views)
            assert value.item() == gradient.abs().max().item() == 0, name


def test_refuses_wrong_shapes_and_settings() -> None:
    views, labels = some_views(0, 2, 4), torch.ones(4, 3, dtype=torch.long)
    mapped, gone = some_map(views), torch.zeros(4, 2) > 0
    require_refusals(
        (ShapeError, r"\[V, B, D\].*\(4, 5\)", lambda: multi_view_loss(views[0], mapped[0])),
        (ShapeError, r"\(2, 0, 5\)", lambda: supervised_loss(views[:, :0], labels[:0])),
        (ShapeError, r"\(2, 4, 5\) and \(2, 3, 5\)", lambda: multi_view_loss(views, mapped[:, :3])),
        (ShapeError, r"is_missing must be \[2, 4\]", lambda: multi_view_loss(views, mapped, is_missing=gone)),
        (ShapeError, r"labels must be .* n = 4.*\(3, 3\)", lambda: supervised_loss(views, labels[:3])),
        (ShapeError, r"\(4, 5\), \(4, 5\), \(3, 5\)", lambda: single_view_loss(views[0], views[1], mapped[1, :3])),
        (ShapeError, r"is_known must be \[4, 3\]", lambda: supervised_loss(views, labels, is_known=labels[:3])),
        (ShapeError, "dates .* 2 views; got 3", lambda: multi_view_loss(views, mapped, dates=[0, 1, 1])),
        *((ValueError, "temperature", partial(loss, views, mapped, labels, None, 0.0)) for loss in LOSSES.values()),
    )
