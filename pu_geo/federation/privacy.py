"""Noise for a federation that wants some: how much, and who adds it.

The Gaussian mechanism over whole messages. What a member sends in a round, its change of theta and of its class vector together,
is cut to an L2 norm of `clip`; exchanging a member's data for any other can then move it by 2 * clip. Noise is chosen so that all
rounds together keep epsilon and delta. With "local" noise the leader sees noisy messages alone; with "central" it is trusted with
the clear ones, and the other members are not.

Source: Bun and Steinke, Concentrated Differential Privacy, TCC 2016: Prop. 1.6 (a Gaussian of spread s is s2^2 / (2 s^2)-zCDP for
sensitivity s2), Lemma 2.3 (rounds add up), Prop. 1.3 (rho-zCDP is (rho + 2 sqrt(rho ln(1/delta)), delta)-private).

It hides a member's whole contribution of all rounds from whoever knows the rest. Floating-point attacks on samplers of noise are
not defended against. Without noise there is no such bound at all.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pu_geo.atomic_write import atomic_write
from pu_geo.federation.agreement import Agreement, Privacy
from pu_geo.methods.fedaws import ClientUpdate, Theta
from pu_geo.project.federations import KEYS
from pu_geo.project.locks import one_at_a_time

_SECRET, _SECRET_BYTES = "noise.secret", 32


def noise_scale(privacy: Privacy, rounds: int) -> float:
    """Return the standard deviation of the noise on each number of a message, see the top of this file; 0 without noise.

    Example:
        >>> round(noise_scale(Privacy("local", clip=1.0, epsilon=8.0, delta=1e-5), rounds=1), 3)
        1.301
    """
    if privacy.kind == "none":
        return 0.0
    log = math.log(1 / privacy.delta)
    rho = (math.sqrt(log + privacy.epsilon) - math.sqrt(log)) ** 2
    return 2 * privacy.clip * math.sqrt(rounds / (2 * rho))


def epsilon_after(privacy: Privacy, rounds: int, n_done: int) -> float:
    """Return the epsilon that has been spent after some of the rounds, at the agreement's delta; infinite without noise."""
    scale = noise_scale(privacy, rounds)
    if scale == 0:
        return math.inf if n_done else 0.0
    rho = n_done * (2 * privacy.clip / scale) ** 2 / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / privacy.delta))


def longest(agreement: Agreement, n_values: int) -> float:
    """Return the longest change that a member may send, in the L2 norm: `max_norm`, and room for its own noise.

    Args:
        n_values: how many numbers change.
    """
    if agreement.privacy.kind != "local":
        return agreement.max_norm
    return agreement.max_norm + 2 * noise_scale(agreement.privacy, agreement.settings.rounds) * math.sqrt(n_values)


def clipped(update: ClientUpdate, theta: Theta, own_vector: Tensor, clip: float) -> ClientUpdate:
    """Cut the change of theta and class vector, taken together, to an L2 norm of `clip`."""
    changes = {name: update.theta[name] - sent for name, sent in theta.items()}
    own = update.own_vector - own_vector
    norm = math.sqrt(sum(float(each.double().square().sum()) for each in (*changes.values(), own)))
    share = min(1.0, clip / norm) if norm else 1.0
    return update._replace(
        theta={name: sent + share * changes[name] for name, sent in theta.items()}, own_vector=own_vector + share * own
    )


def noised(update: ClientUpdate, scale: float, generator: torch.Generator) -> ClientUpdate:
    """Add independent normal noise of a standard deviation to each number."""

    def noisy(tensor: Tensor) -> Tensor:
        return tensor + scale * torch.randn(tensor.shape, generator=generator)

    theta = {name: noisy(update.theta[name]) for name in sorted(update.theta)}
    return update._replace(theta=theta, own_vector=noisy(update.own_vector))


def local(
    agreement: Agreement, update: ClientUpdate, theta: Theta, own_vector: Tensor, generator: torch.Generator
) -> ClientUpdate:
    """Return what a member sends in the place of its update."""
    if agreement.privacy.kind != "local":
        return update
    cut = clipped(update, theta, own_vector, agreement.privacy.clip)
    return noised(cut, noise_scale(agreement.privacy, agreement.settings.rounds), generator)


def central(
    agreement: Agreement, updates: Mapping[int, ClientUpdate], theta: Theta, class_vectors: Tensor, generator: torch.Generator
) -> dict[int, ClientUpdate]:  # fmt: skip
    """Return what the leader averages in the place of the updates: each is clipped, their sum gets noise, and so does each row.

    Rows of W are not averaged, so that the noise on them does not shrink with the number of members.
    """
    if agreement.privacy.kind != "central":
        return dict(updates)
    scale = noise_scale(agreement.privacy, agreement.settings.rounds)
    found = {
        row: clipped(updates[row], theta, class_vectors[row], agreement.privacy.clip) for row in sorted(updates)
    }  # fmt: skip
    for place, (row, cut) in enumerate(found.items()):
        noisy = noised(cut, scale, generator)
        # The noise of theta goes on one of them: what is averaged is their sum.
        found[row] = noisy if place == 0 else cut._replace(own_vector=noisy.own_vector)
    return found


def secret_generator(folder: Path, *parts: object) -> torch.Generator:
    """Return a generator that only this machine can make again: the same parts give the same noise after a restart.

    Args:
        folder: of the federation, in the project whose noise it is.
        parts: what the noise is for, such as row, round and what was asked; noise that served twice could be taken away.
    """
    path = folder / KEYS / _SECRET
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path.with_suffix(".lock")):  # members of one project may be processes of their own
        if not path.is_file():
            with atomic_write(path, mode=0o600) as temporary:
                temporary.write_bytes(secrets.token_bytes(_SECRET_BYTES))
    digest = hashlib.sha256(path.read_bytes() + repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
