"""Phantom label disambiguation against numbers by hand and golden values (theirs has column 0 = damaged)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from golden_parts import load_golden, our_columns, unit_vectors
from numpy.typing import NDArray

from pu_geo.losses import ncpu, phantom


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
        taught = phantom.phantom_gate(kept[rows], torch.softmax(logits, 1)[:, 0], state.threshold, positive)
        for got, key in ((prototypes.flip(0), "proto"), (our_columns(kept), "sp"), (our_columns(taught), "s")):
            torch.testing.assert_close(got, g[key][step], rtol=0, atol=1e-10, msg=lambda t, k=key: f"{k}: {t}")
        for got, key in ((state.level, "tau_g"), (our_columns(state.shares), "rho"), (state.threshold, "tau")):
            torch.testing.assert_close(got, g[key][step], rtol=0, atol=1e-10, msg=lambda t, k=key: f"{k}: {t}")


def test_prototype_momentum_of_zero_takes_the_last_chip() -> None:
    q = unit_vectors(3, 4, 0)
    got = phantom.updated_prototypes(unit_vectors(2, 4, 1), q, torch.tensor([True, True, False]), momentum=0.0)
    torch.testing.assert_close(got, torch.stack([q[2], q[1]]), rtol=0, atol=1e-12)


def test_threshold_by_hand() -> None:
    # softmax of (ln 3, 0) = (3/4, 1/4). level .9*.5+.1*.75 = .525; shares .525 and .475; tau = 1 * .525
    logits = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
    state = phantom.ThresholdState.start(logits)
    state = phantom.updated_threshold(state, logits, torch.tensor([False]), momentum=0.9)
    assert state.threshold.item() == pytest.approx(0.525, abs=1e-12)
    # the mirror image: undamaged is the rarer class, tau = .475 / .525 * .525
    state = phantom.updated_threshold(phantom.ThresholdState.start(logits), -logits, torch.tensor([False]), momentum=0.9)
    assert state.threshold.item() == pytest.approx(0.475, abs=1e-12)


def test_gate_teaches_undamaged_and_forgets_it_again() -> None:
    kept = torch.tensor([[0.3, 0.7], [0.3, 0.7], [0.0, 1.0]])
    positive = torch.tensor([False, False, True])
    taught = phantom.phantom_gate(kept, torch.tensor([0.9, 0.2, 0.9]), 0.5, positive)
    assert taught.tolist() == pytest.approx(np.array([[1.0, 0.0], [0.3, 0.7], [0.0, 1.0]]), abs=1e-6)
    again = phantom.phantom_gate(kept, torch.tensor([0.1, 0.1, 0.1]), 0.5, positive)
    assert torch.equal(again, kept)


def test_batch_without_unlabeled_leaves_released_threshold_alone() -> None:
    logits = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    start, everyone = phantom.ThresholdState.start(logits), torch.ones(3, dtype=torch.bool)
    assert phantom.updated_threshold(start, logits, everyone, momentum=0.9, variant="released") is start


def test_released_level_is_bounded() -> None:
    logits = torch.tensor([[30.0, -30.0]])
    state = phantom.ThresholdState.start(logits)
    for _ in range(50):
        state = phantom.updated_threshold(state, logits, torch.tensor([False]), momentum=0.5, variant="released")
    assert state.level.item() == pytest.approx(0.8, abs=1e-6)


def test_untouched_prototype_neither_wins_nor_loses_to_a_real_one() -> None:
    q = unit_vectors(6, 4, 3)
    for label in (0, 1):
        prototypes = torch.zeros(2, 4, dtype=torch.float64)
        prototypes[label] = -q.mean(0)
        torch.testing.assert_close(phantom.nearest_prototype(q, prototypes), torch.full((6, 2), 0.5, dtype=torch.float64))


def test_tie_between_prototypes_goes_to_damaged() -> None:
    same = unit_vectors(1, 4, 0).repeat(2, 1)
    assert phantom.nearest_prototype(unit_vectors(3, 4, 1), same)[:, 1].tolist() == [1.0, 1.0, 1.0]


def test_prototypes_without_members_stay() -> None:
    start, q, everyone = unit_vectors(2, 4, 0), unit_vectors(3, 4, 1), torch.ones(3, dtype=torch.bool)
    for variant in ("paper", "released"):
        got = phantom.updated_prototypes(start, q, everyone, momentum=0.9, variant=variant)
        torch.testing.assert_close(got[0], start[0], rtol=0, atol=1e-12)
        assert float((got[1] - start[1]).norm()) > 0.01


def test_positive_pseudo_target_stays_damaged() -> None:
    kept = phantom.start_pseudo_targets(torch.tensor([True, False]))
    undamaged: NDArray[np.float32] = np.array([[1, 0], [1, 0]], np.float32)
    moved = phantom.updated_pseudo_targets(kept, torch.from_numpy(undamaged), torch.tensor([True, False]), momentum=0.5)
    assert torch.equal(moved, kept)
