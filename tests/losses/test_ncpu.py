"""NcPU against numbers by hand and golden values (converted: theirs has column 0 = damaged)."""

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
        "self_r": ncpu.self_alignment(q, k), "L_r_mask_hard": ncpu.same_class_alignment(q, k, hard),
        "noisncl_paper_incl_diag": paper, "noisncl_paper_excl_diag": ncpu.noisy_pair_loss(q, k, hard & ~own),
        "noisncl_official": released, "noisncl_official_warmup": ncpu.noisy_pair_loss(q, k, own, variant="released"),
        "noisncl_official_tau02": ncpu.noisy_pair_loss(q, k, g["mask_tau02"].bool(), variant="released"),
        "ldce_per_sample": ncpu.label_cross_entropy(logits, targets), "L_cls": loss, "entropy_mean": entropy,
        "L_cls_no_pos_batch": ncpu.classification_loss(logits[~positive], targets[~positive], positive[~positive]),
    }  # fmt: skip
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
    q, k, mask = g["in_q"].clone().requires_grad_(), g["in_k"].clone().requires_grad_(), g["in_mask"].bool()
    loss = ncpu.noisy_pair_loss(q, k, mask)
    torch.testing.assert_close(loss, g["noisncl_paper_incl_diag"], rtol=0, atol=1e-7)
    (loss + ncpu.noisy_pair_loss(q, k, mask, variant="released")).backward()
    assert bool(q.grad.isfinite().all())
    assert k.grad is None
    own = torch.eye(len(k), dtype=torch.bool)
    torch.testing.assert_close(ncpu.noisy_pair_loss(-k, k, own), g["opposite_noisncl"], rtol=0, atol=1e-10)
    torch.testing.assert_close(ncpu.same_class_alignment(-k, k, own), g["opposite_L_r"], rtol=0, atol=1e-10)


def test_pairs_by_hand_of_which_a_row_without_any_counts_as_zero() -> None:
    online = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[0.0, 3.0], [-2.0, 0.0]], dtype=torch.float64)
    # row 0 sees cosines 0 and -1: (2 + 2.8284) / 2 = 2.4142; row 1 sees only -1: 2.8284; mean 2.6213
    mask = torch.tensor([[True, True], [False, True]])
    assert ncpu.noisy_pair_loss(online, target, mask).item() == pytest.approx(2.6213203, abs=1e-6)
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


def test_wrong_shapes_are_refused() -> None:
    q, k = unit_vectors(3, 4, 0), unit_vectors(4, 4, 0)
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(4, 4\)"):
        ncpu.noisy_pair_loss(q, k, torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="mask"):
        ncpu.noisy_pair_loss(q, q, torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    ("file", "variant"), [("ncpu_trajectory_paper.npz", "paper"), ("ncpu_trajectory_official.npz", "released")]
)
def test_eight_batches_equal_golden_trajectory(file: str, variant: ncpu.Variant) -> None:
    g = load_golden(file)
    labeled = g["in_lab"] == 0
    alpha, beta, gamma = (float(g[f"in_{name}"]) for name in ("alpha", "beta", "gamma"))
    prototypes = torch.zeros(2, 5, dtype=torch.float64)
    kept = phantom.start_pseudo_targets(labeled, torch.float64)
    state = phantom.ThresholdState.start(prototypes)
    for step, rows in enumerate(g["in_idx"]):
        logits, q, positive = our_columns(g["in_logits"][step]), g["in_q"][step], labeled[rows]
        damaged = ncpu.predicted_damaged(logits)
        if variant == "released":
            damaged = damaged | positive
        assert torch.equal(damaged, g["pred"][step] == 0)
        before = prototypes
        prototypes = phantom.updated_prototypes(prototypes, q, damaged, momentum=alpha, variant=variant)
        state = phantom.updated_threshold(state, logits, positive, momentum=gamma, variant=variant)
        used = prototypes if variant == "paper" else before
        nearest = phantom.nearest_prototype(q, used)
        kept[rows] = phantom.updated_pseudo_targets(kept[rows], nearest, positive, momentum=beta)
        given = kept[rows]
        taught = phantom.phantom_gate(given, torch.softmax(logits, 1)[:, 0], state.threshold, positive)
        assert torch.equal(given, kept[rows]), "so that a chip can come back"
        for got, key in ((prototypes.flip(0), "proto"), (our_columns(kept), "sp"), (our_columns(taught), "s")):
            torch.testing.assert_close(got, g[key][step], rtol=0, atol=1e-10, msg=lambda t, k=key: f"{k}: {t}")
        for got, key in ((state.level, "tau_g"), (our_columns(state.shares), "rho"), (state.threshold, "tau")):
            torch.testing.assert_close(got, g[key][step], rtol=0, atol=1e-10, msg=lambda t, k=key: f"{k}: {t}")


def test_threshold_by_hand() -> None:
    # softmax of (ln 3, 0) = (3/4, 1/4). level .9*.5+.1*.75 = .525; shares .525 and .475; tau = 1 * .525
    logits = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
    state = phantom.ThresholdState.start(logits)
    state = phantom.updated_threshold(state, logits, torch.tensor([False]), momentum=0.9)
    assert state.threshold.item() == pytest.approx(0.525, abs=1e-12)
    # the mirror image: undamaged is the rarer class, tau = .475 / .525 * .525
    state = phantom.updated_threshold(phantom.ThresholdState.start(logits), -logits, torch.tensor([False]), momentum=0.9)
    assert state.threshold.item() == pytest.approx(0.475, abs=1e-12)


def test_released_threshold_is_left_alone_by_a_batch_without_unlabeled_and_its_level_is_bounded() -> None:
    logits = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    start, everyone = phantom.ThresholdState.start(logits), torch.ones(3, dtype=torch.bool)
    assert phantom.updated_threshold(start, logits, everyone, momentum=0.9, variant="released") is start
    logits = torch.tensor([[30.0, -30.0]])
    state = phantom.ThresholdState.start(logits)
    for _ in range(50):
        state = phantom.updated_threshold(state, logits, torch.tensor([False]), momentum=0.5, variant="released")
    assert state.level.item() == pytest.approx(0.8, abs=1e-6)


def test_an_untouched_prototype_neither_wins_nor_loses_and_a_tie_counts_as_damaged() -> None:
    q = unit_vectors(6, 4, 3)
    for label in (0, 1):
        prototypes = torch.zeros(2, 4, dtype=torch.float64)
        prototypes[label] = -q.mean(0)
        torch.testing.assert_close(phantom.nearest_prototype(q, prototypes), torch.full((6, 2), 0.5, dtype=torch.float64))
    assert ncpu.predicted_damaged(torch.zeros(2, 2)).tolist() == [True, True]
    same = unit_vectors(1, 4, 0).repeat(2, 1)
    assert phantom.nearest_prototype(unit_vectors(3, 4, 1), same)[:, 1].tolist() == [1.0, 1.0, 1.0]


def test_prototypes_without_members_stay() -> None:
    start, q, everyone = unit_vectors(2, 4, 0), unit_vectors(3, 4, 1), torch.ones(3, dtype=torch.bool)
    for variant in ("paper", "released"):
        got = phantom.updated_prototypes(start, q, everyone, momentum=0.9, variant=variant)
        torch.testing.assert_close(got[0], start[0], rtol=0, atol=1e-12)
        assert float((got[1] - start[1]).norm()) > 0.01
