"""Losses of NcPU against numbers by hand, loops, and golden values (converted: theirs has column 0 = damaged)."""

from __future__ import annotations

import math

import pytest
import torch
from golden_parts import load_golden, our_columns, unit_vectors

from pu_geo.errors import ShapeError
from pu_geo.losses import ncpu, phantom

GOLDEN = ["ncpu_losses.npz", "ncpu_losses_b24.npz"]


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_equal_golden_values(name: str) -> None:
    g = load_golden(name)
    logits, targets, positive = our_columns(g["in_logits"]), our_columns(g["in_s"]), g["in_y"] == 0
    hard, soft = ncpu.same_class_pairs(logits), ncpu.same_class_pairs(logits, variant="released")
    assert torch.equal(hard, g["mask_hard"].bool())
    assert torch.equal(soft, g["mask_tau05"].bool())
    assert torch.equal(ncpu.same_class_pairs(logits, variant="released", agreement=0.2), g["mask_tau02"].bool())
    q, k, own = g["in_q"], g["in_k"], torch.eye(len(logits), dtype=torch.bool)
    loss = ncpu.classification_loss(logits, targets, positive)
    entropy = ncpu.entropy(logits)
    paper, released = ncpu.noisy_pair_loss(q, k, hard), ncpu.noisy_pair_loss(q, k, soft, variant="released")
    pairs = {
        "self_r": ncpu.self_alignment(q, k),
        "L_r_mask_hard": ncpu.same_class_alignment(q, k, hard),
        "noisncl_paper_incl_diag": paper,
        "noisncl_paper_excl_diag": ncpu.noisy_pair_loss(q, k, hard & ~own),
        "noisncl_official": released,
        "noisncl_official_tau02": ncpu.noisy_pair_loss(q, k, g["mask_tau02"].bool(), variant="released"),
        "noisncl_official_warmup": ncpu.noisy_pair_loss(q, k, own, variant="released"),
        "ldce_per_sample": ncpu.label_cross_entropy(logits, targets),
        "L_cls": loss,
        "L_cls_no_pos_batch": ncpu.classification_loss(logits[~positive], targets[~positive], positive[~positive]),
        "entropy_mean": entropy,
        "L_total_paper": ncpu.total_loss(loss, paper, entropy, rep_weight=50, entropy_weight=0),
        "L_total_official": ncpu.total_loss(loss, released, entropy, rep_weight=50, entropy_weight=5),
    }
    for key, value in pairs.items():
        torch.testing.assert_close(value, g[key], rtol=0, atol=1e-10, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("name", GOLDEN)
def test_gradients_equal_golden_values(name: str) -> None:
    g = load_golden(name)
    hard, soft = g["mask_hard"].bool(), g["mask_tau05"].bool()
    q, k = g["in_q"].requires_grad_(), g["in_k"]
    pairs = {
        "noisncl_paper_incl_diag": ncpu.noisy_pair_loss(q, k, hard),
        "noisncl_official": ncpu.noisy_pair_loss(q, k, soft, variant="released"),
        "L_r_mask_hard": ncpu.same_class_alignment(q, k, hard),
    }
    for key, value in pairs.items():
        torch.testing.assert_close(torch.autograd.grad(value, q)[0], g[f"{key}_grad_q"], rtol=0, atol=1e-7)


def test_identical_and_opposite_embeddings_equal_golden_values() -> None:
    g = load_golden("ncpu_degenerate.npz")
    q, k, mask = g["in_q"].clone().requires_grad_(), g["in_k"], g["in_mask"].bool()
    loss = ncpu.noisy_pair_loss(q, k, mask)
    torch.testing.assert_close(loss, g["noisncl_paper_incl_diag"], rtol=0, atol=1e-7)
    loss.backward()
    assert bool(q.grad.isfinite().all())
    own = torch.eye(len(k), dtype=torch.bool)
    torch.testing.assert_close(ncpu.noisy_pair_loss(-k, k, own), g["opposite_noisncl"], rtol=0, atol=1e-10)
    torch.testing.assert_close(ncpu.same_class_alignment(-k, k, own), g["opposite_L_r"], rtol=0, atol=1e-10)


def test_cross_entropy_by_hand() -> None:
    # softmax of (0, ln 3) = (1/4, 3/4); target (0.5, 0.5): -(ln 1/4 + ln 3/4) / 2 = (1.38629 + 0.28768) / 2
    logits = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64)
    loss = ncpu.label_cross_entropy(logits, torch.tensor([[0.5, 0.5]], dtype=torch.float64))
    assert loss.item() == pytest.approx(0.8369882, abs=1e-6)


def test_orthogonal_and_opposite_pairs_by_hand() -> None:
    online = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[0.0, 3.0], [-2.0, 0.0]], dtype=torch.float64)
    # row 0 sees cosines 0 and -1: (2 + 2.8284) / 2 = 2.4142; row 1 sees only -1: 2.8284; mean 2.6213
    mask = torch.tensor([[True, True], [False, True]])
    assert ncpu.noisy_pair_loss(online, target, mask).item() == pytest.approx(2.6213203, abs=1e-6)


def test_wrong_pairs_pull_less_than_right_pairs() -> None:
    # Eq. 8: squared gradient norm is 1 + cosine for unit q; 1.9 for a near pair, 1.1 for a far one.
    near, far = torch.tensor([[0.9, math.sqrt(0.19)]]), torch.tensor([[0.1, math.sqrt(0.99)]])
    norms = []
    for other in (near, far):
        q = torch.tensor([[1.0, 0.0]], requires_grad=True)
        ncpu.noisy_pair_loss(q, other, torch.ones(1, 1, dtype=torch.bool)).backward()
        norms.append(float(q.grad.square().sum()))
    assert norms == pytest.approx([1.9, 1.1], abs=1e-4)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_gradient_stays_finite_for_identical_pairs_and_the_target_gets_none(variant: ncpu.Variant) -> None:
    q, k = (unit_vectors(200, 64, 1).float().requires_grad_() for _ in range(2))
    loss = ncpu.noisy_pair_loss(q, k, torch.eye(200, dtype=torch.bool), variant=variant)
    loss.backward()
    assert math.isfinite(loss.item())
    assert float(q.grad.norm()) < 10
    assert k.grad is None


def test_row_without_pair_counts_as_zero() -> None:
    q, k = unit_vectors(2, 3, 0), -unit_vectors(2, 3, 0)
    mask = torch.tensor([[True, False], [False, False]])
    assert ncpu.noisy_pair_loss(q, k, mask).item() == pytest.approx(math.sqrt(2), abs=1e-12)


@pytest.mark.parametrize("all_positive", [True, False])
def test_batch_of_one_group_is_finite(all_positive: bool) -> None:
    logits = torch.tensor([[800.0, -800.0], [0.1, 0.2]], requires_grad=True)
    positive = torch.full((2,), all_positive)
    loss = ncpu.classification_loss(logits, phantom.start_pseudo_targets(positive), positive) + ncpu.entropy(logits)
    loss.backward()
    assert math.isfinite(loss.item())
    assert bool(logits.grad.isfinite().all())


def test_undecided_classifier_counts_as_damaged() -> None:
    assert ncpu.predicted_damaged(torch.zeros(2, 2)).tolist() == [True, True]


def test_wrong_shapes_are_refused() -> None:
    q, k = unit_vectors(3, 4, 0), unit_vectors(4, 4, 0)
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(4, 4\)"):
        ncpu.noisy_pair_loss(q, k, torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="mask"):
        ncpu.noisy_pair_loss(q, q, torch.ones(2, 3, dtype=torch.bool))
