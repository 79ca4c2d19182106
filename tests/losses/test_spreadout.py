"""FedAwS against golden numbers and numbers by hand; and whether its server really keeps classes from collapsing."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from golden_parts import load_golden, require_refusals, unit_vectors
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses import spreadout
from pu_geo.losses.spreadout import Distance, nearest_spreadout_loss, parted_rows, spreadout_loss, spreadout_step

Regularizer = Callable[[Tensor], Tensor]


def vectors(n: int, d: int, seed: int) -> Tensor:
    """Rows of several lengths, float64 [n, d]."""
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def special_rows(kind: str, n: int, d: int) -> Tensor:
    """Rows that point the same way, at the same length, at several lengths or at none."""
    rows = vectors(n, d, 7)
    if kind in ("identical", "scaled"):
        rows = rows[:1].repeat(n, 1)
    if kind == "scaled":
        rows *= torch.linspace(0.1, 9, n)[:, None]
    if kind.endswith("zero"):
        rows[: n if kind == "zero" else (n + 1) // 2] = 0
    return rows


def smallest_distance(rows: Tensor) -> float:
    """Cosine distance of the two nearest rows."""
    unit = rows / rows.norm(dim=1, keepdim=True)
    return float((1 - unit @ unit.T + 9 * torch.eye(len(rows))).min())


@pytest.mark.parametrize("distance", ["cosine", "dot"])
def test_regularizers_and_losses_equal_golden_values(distance: Distance) -> None:
    g = load_golden("fedaws.npz")
    rows, nu, k = g["in_W"], float(g["in_nu"]), int(g["in_k"])
    is_candidate = torch.zeros(len(rows), dtype=torch.bool).index_fill(0, g["in_subset"], True)
    crowding, nearest = (partial(each, rows, distance=distance) for each in (spreadout_loss, nearest_spreadout_loss))
    pairs = {
        "reg_sp": crowding(margin=nu), "reg_sp_nu09": crowding(margin=0.9),
        "reg_top_k2": nearest(k=k), "reg_top_k1": nearest(k=1),
        "reg_top_kall": nearest(k=len(rows) - 1), "reg_top_kmore": nearest(k=len(rows) + 3),
        "reg_top_k2_subset": nearest(k=k, is_candidate=is_candidate), "reg_top_k2_euclid": nearest_spreadout_loss(rows, k=k),
        "single_client_reg_sp": spreadout_loss(rows[:1], margin=nu, distance=distance),
        "single_client_reg_top": nearest_spreadout_loss(rows[:1], k=k, distance=distance),
    }  # fmt: skip
    for key, value in pairs.items():
        assert value.item() == pytest.approx(float(g[key]), abs=1e-10), key
    for i, chips in enumerate(g["in_G"]):
        classes = torch.full((len(chips),), i)
        pairs = {
            "ccl": spreadout.class_contrastive_loss(chips, rows, classes, margin=nu, distance=distance),
            "l_sp": spreadout.spreadout_contrastive_loss(chips, rows, classes, margin=nu, distance=distance),
            "pos_hinge": spreadout.positive_hinge_loss(chips, rows[i], distance=distance),
            "pos_ccl": spreadout.positive_contrastive_loss(chips, rows[i], distance=distance),
        }
        for key, value in pairs.items():
            torch.testing.assert_close(value, g[key][i], rtol=0, atol=1e-10)


def test_gradients_equal_golden_values() -> None:
    g = load_golden("fedaws.npz")
    nu, k = float(g["in_nu"]), int(g["in_k"])
    regularizers: dict[str, Regularizer] = {
        "reg_sp_grad_dot": partial(spreadout_loss, margin=nu, distance="dot"),
        "reg_sp_grad_normalised_inside": partial(spreadout_loss, margin=nu),
        "reg_top_k2_grad_dot": partial(nearest_spreadout_loss, k=k, distance="dot"),
    }
    for key, regularizer in regularizers.items():
        rows = g["in_W"].clone().requires_grad_()
        regularizer(rows).backward()
        torch.testing.assert_close(rows.grad, g[key], rtol=0, atol=1e-7)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_server_step_equals_golden_values_and_leaves_its_input(unit_rows: bool) -> None:
    g = load_golden("fedaws.npz")
    rows, before = g["in_W"], g["in_W"].clone()
    regularizer = partial(spreadout_loss, margin=float(g["in_nu"]), distance="dot")
    with torch.no_grad():
        moved = spreadout_step(rows, regularizer, weight=float(g["in_lambda"]), lr=float(g["in_eta"]), unit_rows=unit_rows)
    torch.testing.assert_close(moved, g["W_next_unit" if unit_rows else "W_next"], rtol=0, atol=1e-7)
    assert torch.equal(rows, before)


def test_regularizers_by_hand() -> None:
    # Cosines: (1, 2) 0, (1, 3) 0.6, (2, 3) 0.8; distances 1, 0.4, 0.2. Margin 0.5 leaves gaps 0, 0.1, 0.3:
    # 2 * (0.01 + 0.09) = 0.2. Nearest of 1 is 3 (0.4), of 2 is 3 (0.2), of 3 is 2 (0.2): -(0.16 + 0.04 + 0.04) = -0.24.
    rows = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.3, 0.4]], dtype=torch.float64)
    assert spreadout_loss(rows, margin=0.5).item() == pytest.approx(0.2, abs=1e-12)
    assert nearest_spreadout_loss(rows, k=1, distance="cosine").item() == pytest.approx(-0.24, abs=1e-12)
    # Only class 2 is a candidate, and only class 3 has it for its nearest: -0.04.
    only_second = torch.tensor([False, True, False])
    second = nearest_spreadout_loss(rows, k=1, is_candidate=only_second, distance="cosine")
    assert second.item() == pytest.approx(-0.04, abs=1e-12)
    # Class 0 has 1 and 2 at equal distance; only candidate 2 counts, and it is the second of the two.
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    last_only = torch.tensor([False, False, True])
    assert nearest_spreadout_loss(rows, k=1, is_candidate=last_only).item() == 0
    assert nearest_spreadout_loss(rows, k=2, is_candidate=last_only).item() == pytest.approx(-4, abs=1e-6)


def test_losses_by_hand() -> None:
    # Chip at cosines 0.6 and 0.8, class 0, margin 1.1: 0.4^2 + (1.1 - 0.2)^2 = 0.16 + 0.81 = 0.97.
    # Eq. 17 takes the classes' own distance 1 instead: 0.16 + 0.1^2 = 0.17. Hinge: (0.9 - 0.6)^2 = 0.09; at 1 it is 0.
    chip, rows = torch.tensor([[0.6, 0.8]], dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    own = torch.tensor([0])
    assert spreadout.class_contrastive_loss(chip, rows, own, margin=1.1).tolist() == pytest.approx([0.97], abs=1e-12)
    assert spreadout.spreadout_contrastive_loss(chip, rows, own, margin=1.1).tolist() == pytest.approx([0.17], abs=1e-12)
    assert spreadout.positive_contrastive_loss(chip, rows[0]).tolist() == pytest.approx([0.16], abs=1e-12)
    assert spreadout.positive_hinge_loss(chip, rows[0]).tolist() == pytest.approx([0.09], abs=1e-12)
    assert spreadout.positive_hinge_loss(rows, rows[0]).tolist() == pytest.approx([0, 0.81], abs=1e-12)
    assert spreadout.positive_hinge_loss(chip, rows[0], enough=0.7).tolist() == pytest.approx([0.01], abs=1e-12)


def test_two_identical_class_vectors_part() -> None:
    crowding = [partial(spreadout_loss, margin=1.3, distance=distance) for distance in ("cosine", "dot", "euclid")]
    for regularizer in (*crowding, *(partial(nearest_spreadout_loss, k=k) for k in (1, 2))):
        rows = unit_vectors(3, 4, 0).bfloat16()
        rows[2] = rows[0]
        for _ in range(60):
            rows = spreadout_step(rows, regularizer, weight=1, lr=0.05)
        assert rows.dtype == torch.bfloat16
        assert smallest_distance(rows.float()) > 0.7, regularizer


@pytest.mark.parametrize(("n", "d"), [(2, 2), (40, 3), (6, 16)])
@pytest.mark.parametrize("kind", ["identical", "zero", "half zero", "scaled"])
def test_no_two_rows_point_the_same_way_after_parting(kind: str, n: int, d: int) -> None:
    rows = special_rows(kind, n, d).float()
    parted = parted_rows(rows)
    assert smallest_distance(parted.double()) > 1e-6
    was_zero = (rows == 0).all(1)
    torch.testing.assert_close(parted.norm(dim=1), torch.where(was_zero, 1.0, rows.norm(dim=1)), rtol=1e-5, atol=0)
    assert torch.equal(parted, parted_rows(rows))


def test_parting_turns_the_second_row_only_and_by_the_angle_asked_for() -> None:
    # (1, 0) + 0.1 (0, 1): the angle is atan 0.1, the length 3 stays. A row of zeros becomes the unit row of equal elements.
    rows = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    angle, equal = math.atan(0.1), 0.5**0.5
    turned = torch.tensor([[2.0, 0.0], [3 * math.cos(angle), 3 * math.sin(angle)], [0.0, 1.0], [equal, equal]])
    parted = parted_rows(rows)
    torch.testing.assert_close(parted, turned.double(), rtol=0, atol=1e-6)
    assert not parted.requires_grad
    assert torch.equal(parted_rows(vectors(20, 3, 0)), vectors(20, 3, 0))
    single = torch.full((12, 1), -1.0)  # rows of one element cannot be turned
    torch.testing.assert_close(parted_rows(single), single)


@pytest.mark.parametrize("n", [0, 1])
def test_no_class_and_one_class_have_nothing_to_part(n: int) -> None:
    for regularizer in (partial(spreadout_loss, margin=1.3), partial(nearest_spreadout_loss, k=3)):
        rows = torch.full((n, 3), 2.0, requires_grad=True)
        value = regularizer(rows)
        (gradient,) = torch.autograd.grad(value, rows)
        assert value.item() == 0
        assert torch.equal(gradient, torch.zeros(n, 3))
        moved = spreadout_step(rows, regularizer, weight=10, lr=0.05)
        torch.testing.assert_close(moved, torch.full((n, 3), 3**-0.5))


def test_refuses_wrong_shapes_and_settings() -> None:
    rows, chips, classes = vectors(3, 4, 0), vectors(2, 4, 1), torch.tensor([0, 2])
    of_classes = partial(spreadout.class_contrastive_loss, chips, rows, margin=1.3)
    require_refusals(
        (
            ShapeError,
            r"\(2, 4\) and \(3, 3\)",
            lambda: spreadout.class_contrastive_loss(chips, rows[:, :3], classes, margin=1.3),
        ),
        (ShapeError, r"classes must be \[2\].* \(3,\)", lambda: of_classes(torch.arange(3))),
        (ValueError, "below 3; got 3", lambda: of_classes(torch.tensor([0, 3]))),
        (ValueError, "below 3; got -1", lambda: of_classes(torch.tensor([0, -1]))),
        (ShapeError, r"own_vector must be \[D\].*\(3, 4\)", lambda: spreadout.positive_hinge_loss(chips, rows)),
        (ShapeError, r"is_candidate must be \[3\]", lambda: nearest_spreadout_loss(rows, k=1, is_candidate=classes > 0)),
        (ShapeError, r"\(4,\)", lambda: spreadout_loss(rows[0], margin=1.3)),
        (ShapeError, r"class_vectors must be \[C, D\]", lambda: parted_rows(rows[0])),
        (ValueError, "margin must be above 0; got 0", lambda: spreadout_loss(rows, margin=0)),
        (ValueError, "k must be 1 or more; got 0", lambda: nearest_spreadout_loss(rows, k=0)),
    )
