"""LARS, the groups it spares, the table of optimisers, and the learning rate's rise and fall."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from pu_geo.training.optim import Lars, new_optimizer, parameter_groups, warmup_cosine


def small_network(seed: int = 0) -> nn.Sequential:
    network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return network


def give_gradients(network: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in network.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


def test_two_lars_steps_by_hand_and_of_weights_or_gradients_of_0() -> None:
    # Trust 0.1, decay 0.5, momentum 0.9, lr 1.
    # First tensor: w = (3, 4), |w| = 5, g = (0, 7.5), ratio = 0.1 * 5 / (7.5 + 2.5) = 0.05,
    # update = 0.05 * (1.5, 9.5) = (0.075, 0.475), w = (2.925, 3.525).
    # Second: w = (0, 1), g = (2, 0), ratio = 0.1 / (2 + 0.5) = 0.04, update = 0.04 * (2, 0.5), w = (-0.08, 0.98).
    first = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    second = nn.Parameter(torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    optimizer = Lars([first, second], 1.0, weight_decay=0.5, trust=0.1)
    first.grad, second.grad = torch.tensor([[0.0, 7.5]]).double(), torch.tensor([[2.0, 0.0]]).double()
    optimizer.step()
    assert first.tolist()[0] == pytest.approx([2.925, 3.525], abs=1e-12)
    assert second.tolist()[0] == pytest.approx([-0.08, 0.98], abs=1e-12)
    # The second step at lr 2 and without gradient: |g| = 0, so the ratio is 1 and decay alone enters:
    # v = 0.9 * (0.075, 0.475) + 0.5 * (2.925, 3.525) = (1.53, 2.19), w = (2.925, 3.525) - 2 v = (-0.135, -0.855).
    optimizer.param_groups[0]["lr"] = 2.0
    first.grad, second.grad = torch.zeros_like(first), None
    optimizer.step()
    assert first.tolist()[0] == pytest.approx([-0.135, -0.855], abs=1e-12)
    assert second.tolist()[0] == pytest.approx([-0.08, 0.98], abs=1e-12)  # without gradient it stays
    for value, slope, decay in ((0.0, 0.0, 0.1), (0.0, 1.0, 0.0), (1.0, 0.0, 0.1)):
        weight = nn.Parameter(torch.full((2, 2), value))
        weight.grad = torch.full((2, 2), slope)
        Lars([weight], 0.1, weight_decay=decay).step()
        # A weight of zero length would never leave zero with a ratio of 0.
        torch.testing.assert_close(weight.detach(), torch.full((2, 2), value - 0.1 * (slope + decay * value)))


def test_groups_split_off_biases_and_norms() -> None:
    network = small_network()
    network[0].weight.requires_grad_(False)
    decayed, spared = parameter_groups(network, 0.3)
    assert [weight.shape for weight in decayed["params"]] == [(2, 12)]
    assert (decayed["weight_decay"], decayed["is_adapted"]) == (0.3, True)
    assert [tuple(weight.shape) for weight in spared["params"]] == [(3,), (3,), (3,), (2,)]
    assert (spared["weight_decay"], spared["is_adapted"]) == (0.0, False)
    assert len(parameter_groups([nn.Parameter(torch.ones(2, 2))], 0.3)) == 1


def test_sgd_and_adamw_are_torchs_own_and_lars_is_sgd_where_nothing_is_adapted() -> None:
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False)
    for ours_of, theirs_of in (
        (lambda weights: new_optimizer("sgd", weights, 0.1, 0.01), sgd),
        (lambda weights: new_optimizer("adamw", weights, 0.1, 0.01), partial(torch.optim.AdamW, lr=0.1, weight_decay=0.01)),
        (lambda weights: Lars([{"params": list(weights), "is_adapted": False}], 0.1, weight_decay=0.01), sgd),
    ):
        ours, theirs = small_network(), small_network()
        for network, optimizer in ((ours, ours_of(ours.parameters())), (theirs, theirs_of(theirs.parameters()))):
            for step in range(3):
                give_gradients(network, step)
                optimizer.step()
        for left, right in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_warmup_and_cosine_by_hand() -> None:
    # Two steps up (1/2, 1), then half a cosine over four: cos 0, 45, 90, 135 degrees, and 0 at the end.
    root = math.sqrt(0.5)
    expected = [0.5, 1.0, 1.0, (1 + root) / 2, 0.5, (1 - root) / 2, 0.0, 0.0]
    assert [warmup_cosine(step, 6, 2) for step in range(8)] == pytest.approx(expected, abs=1e-12)
    assert [warmup_cosine(step, 4, 0) for step in range(5)] == pytest.approx(expected[2:7], abs=1e-12)
    assert [warmup_cosine(step, 2, 2) for step in range(3)] == pytest.approx([0.5, 1.0, 0.0], abs=1e-12)
