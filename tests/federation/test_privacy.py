"""Noise: how much epsilon asks for, whom it hides, and that it can be made again by its owner alone."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import kstest

from pu_geo.federation import privacy_job
from pu_geo.federation.agreement import Agreement, FeatureSpace, Privacy
from pu_geo.federation.privacy_job import SecretNoise, central, clipped, local, noise_scale, secret_noise
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.methods.fedaws import ClientUpdate, Learner, server_round

SPACE = FeatureSpace("shared-1", "shared", 8, "a" * 64, "post", 64, 0.5)
THETA = {"head.weight": torch.zeros(40, 50)}
KEY = bytes(range(32))
ROWS = torch.nn.functional.normalize(torch.randn(3, 50, generator=torch.Generator().manual_seed(0)), dim=1)


def agreement(kind: str, *, epsilon: float = 8.0, clip: float = 1.0, **settings: Any) -> Agreement:
    return Agreement(
        "joplin", "Joplin", ("rest", "a", "b"), SPACE, FedawsSettings(**settings),
        privacy=Privacy(kind, clip=clip, epsilon=epsilon),
    )  # fmt: skip


def update(row: int, length: float) -> ClientUpdate:
    """A change of this length, most of it of theta."""
    generator = torch.Generator().manual_seed(row)
    change = torch.randn(40, 50, generator=generator)
    return ClientUpdate({"head.weight": change / change.norm() * length}, ROWS[row] + 0.01, 1)


def length_of(found: ClientUpdate, row: int) -> float:
    return math.sqrt(float(found.theta["head.weight"].square().sum() + (found.own_vector - ROWS[row]).square().sum()))


def test_the_scale_of_the_noise_is_that_worked_out_by_hand() -> None:
    # ln(1e5) = 11.5129; sqrt(19.5129) - sqrt(11.5129) = 4.41735 - 3.39307 = 1.02428; rho = 1.04915.
    # s = 2 * clip * sqrt(T / (2 rho)) = 2 * sqrt(10 / 2.0983) = 4.3662 for ten rounds.
    assert noise_scale(Privacy("local", 1.0, 8.0, 1e-5), 10) == pytest.approx(4.3662, abs=1e-3)
    assert noise_scale(Privacy("local", 3.0, 8.0, 1e-5), 10) == pytest.approx(3 * 4.3662, abs=3e-3)
    assert noise_scale(Privacy(), 10) == 0


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_all_rounds_together_spend_what_was_agreed_on(epsilon: float) -> None:
    """Each round costs rho = (2 clip)^2 / (2 scale^2); rounds add up; see the sources at the top of `federation.privacy_job`."""
    rules = Privacy("central", epsilon=epsilon)
    rho = 30 * (2 * rules.clip / noise_scale(rules, 30)) ** 2 / 2
    assert rho + 2 * math.sqrt(rho * math.log(1 / rules.delta)) == pytest.approx(epsilon, rel=1e-9)
    assert noise_scale(rules, 30) > noise_scale(replace(rules, epsilon=2 * epsilon), 30)


def test_the_epsilon_of_an_agency_with_two_classes_is_that_worked_out_by_hand() -> None:
    # rho = 1.04915, see above. Local: 2 rho = 2.0983, and 2.0983 + 2 sqrt(2.0983 * 11.5129) = 11.928; central: both can move
    # the one sum, 4 rho = 4.1966, and 4.1966 + 2 sqrt(4.1966 * 11.5129) = 18.099.
    assert Privacy("local", 1.0, 8.0, 1e-5).epsilon_of_agency(2) == pytest.approx(11.928, abs=2e-3)
    assert Privacy("central", 1.0, 8.0, 1e-5).epsilon_of_agency(2) == pytest.approx(18.099, abs=2e-3)
    for kind in ("local", "central"):
        assert Privacy(kind, epsilon=3.0).epsilon_of_agency(1) == pytest.approx(3.0)


@pytest.mark.parametrize("length", [0.0, 0.3, 50.0])
def test_a_message_is_cut_to_the_bound_and_keeps_its_direction(length: float) -> None:
    sent = update(0, length)
    cut = clipped(sent, THETA, ROWS[0], 0.5)
    assert length_of(cut, 0) <= 0.5 + 1e-5
    if length_of(sent, 0) <= 0.5:
        torch.testing.assert_close(cut.theta["head.weight"], sent.theta["head.weight"])
    else:
        share = 0.5 / length_of(sent, 0)
        torch.testing.assert_close(cut.theta["head.weight"], share * sent.theta["head.weight"])


def test_local_noise_has_the_agreed_spread() -> None:
    rules = agreement("local", epsilon=50.0, rounds=5)
    noise = SecretNoise(KEY)
    found = local(rules, update(1, 0.5), THETA, ROWS[1], noise)
    scale = noise_scale(rules.privacy, 5)
    assert float((found.theta["head.weight"] - update(1, 0.5).theta["head.weight"]).std()) == pytest.approx(scale, rel=0.1)


def test_central_noise_is_on_the_sum_once_and_on_each_row() -> None:
    rules = agreement("central", epsilon=50.0, rounds=5, spread_weight=0.0, fixed_vectors=False)
    updates = {row: update(row, 0.2) for row in range(3)}
    found = central(rules, updates, THETA, ROWS, SecretNoise(KEY))
    scale = noise_scale(rules.privacy, 5)
    learner, cut = Learner(THETA, ROWS), {row: clipped(updates[row], THETA, ROWS[row], 1.0) for row in updates}
    plain, noisy = (server_round(learner, each, rules.settings).theta for each in (cut, found))
    assert float((noisy["head.weight"] - plain["head.weight"]).std()) == pytest.approx(scale / 3, rel=0.1)
    for row in range(3):
        assert float((found[row].own_vector - updates[row].own_vector).std()) == pytest.approx(scale, rel=0.4)


def test_a_secret_is_kept_and_other_parts_give_other_noise(tmp_path: Path) -> None:
    def drawn(folder: str, *parts: object) -> torch.Tensor:
        return secret_noise(tmp_path / folder, *parts).normal((5,))

    assert torch.equal(drawn("a", 1, 2, "ask"), drawn("a", 1, 2, "ask"))
    for other in (("a", 1, 3, "ask"), ("a", 1, 2, "another"), ("b", 1, 2, "ask")):
        assert not torch.equal(drawn("a", 1, 2, "ask"), drawn(*other))


def test_the_noise_is_normal_and_independent_across_blocks_and_calls() -> None:
    noise, shape = SecretNoise(KEY), (601, 499)
    first, second = noise.normal(shape), noise.normal(shape)
    assert (first.dtype, tuple(first.shape)) == (torch.float64, shape)
    drawn = torch.cat([first.flatten(), second.flatten()])
    assert len(drawn.unique()) == len(drawn)
    assert kstest(drawn.numpy(), "norm").pvalue > 1e-3
    assert float(drawn.std()) == pytest.approx(1, abs=0.005)
    for lag in (1, len(first.flatten()), 2**15):  # neighbors, the same place of two calls, the two numbers of a pair
        assert abs(float((drawn[lag:] * drawn[:-lag]).mean())) < 0.01


def test_the_noise_is_that_worked_out_by_hand() -> None:
    # The first pair of a block of two: 53 bits of each 8 bytes, the radius of the first and the angle of the second.
    drawn = hashlib.shake_256(KEY + bytes(8)).digest(16)
    one, two = (int.from_bytes(drawn[place : place + 8], "little") >> 11 for place in (0, 8))
    radius, angle = math.sqrt(-2 * math.log((one + 1) / 2**53)), 2 * math.pi * two / 2**53
    expected = [radius * math.cos(angle), radius * math.sin(angle)]
    assert SecretNoise(KEY).normal((2,)).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("drawn", [bytes(16), b"\xff" * 16])
def test_the_lowest_and_highest_draws_give_finite_noise(drawn: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashlib, "shake_256", lambda _: SimpleNamespace(digest=lambda n: drawn[:n]))
    assert SecretNoise(KEY).normal((2,)).isfinite().all()


def test_the_bound_on_norms_leaves_room_for_local_noise() -> None:
    assert privacy_job.longest(agreement("central"), 1000) == 100.0
    rules = agreement("local")
    scale = noise_scale(rules.privacy, rules.settings.rounds)
    assert privacy_job.longest(rules, 10_000) == pytest.approx(100 + 200 * scale)
