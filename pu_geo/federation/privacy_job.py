"""Noise for a federation that wants some: how much, and who adds it.

The Gaussian mechanism over whole messages. What a member sends in a round, its change of theta and of its class vector
together, is cut to an L2 norm of `clip`; exchanging a member's data for any other can then move it by 2 * clip. Noise is
chosen so that all rounds together keep epsilon and delta. With "local" noise the leader sees noisy messages alone; with
"central" it is trusted with the clear ones, and the other members are not.

Source: Bun and Steinke, Concentrated Differential Privacy, TCC 2016: Prop. 1.6 (a Gaussian of spread s is s2^2 / (2
s^2)-zCDP for sensitivity s2), Lemma 2.3 (rounds add up), Prop. 1.3 (rho-zCDP is (rho + 2 sqrt(rho ln(1/delta)),
delta)-private).

It hides the whole contribution of all rounds of one member, a class of an agency, from whoever knows the rest; for an agency
with several classes epsilon is higher, see `Privacy.epsilon_of_agency`. Floating-point attacks on samplers of noise are
not defended against. Without noise there is no such bound at all.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pu_geo.federation.agreement import Agreement, Privacy
from pu_geo.files import atomic_write, make_folder
from pu_geo.methods.fedaws import ClientUpdate, Theta
from pu_geo.records import Floats
from pu_geo.store.federations import KEYS
from pu_geo.store.locks import one_at_a_time

_SECRET, _SECRET_BYTES = "noise.secret", 32
_BLOCK = 2**16  # numbers that are drawn at once: half a megabyte
_STEPS = 2.0**-53  # of the float64 numbers from 0 to 1


class SecretNoise:
    """Standard normal numbers drawn from a key: nobody makes them again who lacks one bit of it.

    PyTorch's generator on the CPU is not used: it keeps 32 bits of its seed, and who has the sum of a number and its noise
    could try them all.

    Source: SHAKE256 (FIPS 202) of the key and the number of a block; Box and Muller, 1958.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._n_blocks = key, 0

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Return the next numbers, float64 of a shape."""
        found = np.empty(math.prod(shape))
        for first in range(0, found.size, _BLOCK):
            part = found[first : first + _BLOCK]
            part[:] = self._block(part.size)
        return torch.from_numpy(found.reshape(tuple(shape)))

    def _block(self, n: int) -> Floats:
        n_pairs = -(-n // 2)
        drawn = hashlib.shake_256(self._key + self._n_blocks.to_bytes(8, "big")).digest(16 * n_pairs)
        self._n_blocks += 1
        whole = np.frombuffer(drawn, "<u8").reshape(2, n_pairs) >> np.uint64(11)  # of 53 bits each
        radius = np.sqrt(-2 * np.log((whole[0] + np.uint64(1)) * _STEPS))  # of a number above 0 and up to 1
        angle = whole[1] * (2 * math.pi * _STEPS)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n]


def noise_scale(privacy: Privacy, rounds: int) -> float:
    """Return the standard deviation of the noise on each number of a message, see the top of this file; 0 without noise.

    Example:
        >>> round(noise_scale(Privacy("local", clip=1.0, epsilon=8.0, delta=1e-5), rounds=1), 3)
        1.301
    """
    if privacy.kind == "none":
        return 0.0
    return 2 * privacy.clip * math.sqrt(rounds / (2 * privacy.rho))


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


def noised(update: ClientUpdate, scale: float, noise: SecretNoise) -> ClientUpdate:
    """Add independent normal noise of a standard deviation to each number."""

    def noisy(tensor: Tensor) -> Tensor:
        return (tensor.double() + scale * noise.normal(tensor.shape)).to(tensor.dtype)

    theta = {name: noisy(update.theta[name]) for name in sorted(update.theta)}
    return update._replace(theta=theta, own_vector=noisy(update.own_vector))


def local(agreement: Agreement, update: ClientUpdate, theta: Theta, own_vector: Tensor, noise: SecretNoise) -> ClientUpdate:
    """Return what a member sends in the place of its update, with noise of its own."""
    cut = clipped(update, theta, own_vector, agreement.privacy.clip)
    return noised(cut, noise_scale(agreement.privacy, agreement.settings.rounds), noise)


def central(
    agreement: Agreement, updates: Mapping[int, ClientUpdate], theta: Theta, class_vectors: Tensor, noise: SecretNoise
) -> dict[int, ClientUpdate]:  # fmt: skip
    """Return what the leader averages in the place of the updates: each is clipped, their sum gets noise, and so does each
    row.

    Rows of W are not averaged, so that the noise on them does not shrink with the number of members.
    """
    scale = noise_scale(agreement.privacy, agreement.settings.rounds)
    found = {
        row: clipped(updates[row], theta, class_vectors[row], agreement.privacy.clip) for row in sorted(updates)
    }  # fmt: skip
    for place, (row, cut) in enumerate(found.items()):
        noisy = noised(cut, scale, noise)
        # The noise of theta goes on one of them: what is averaged is their sum.
        found[row] = noisy if place == 0 else cut._replace(own_vector=noisy.own_vector)
    return found


def secret_noise(folder: Path, *parts: object) -> SecretNoise:
    """Return noise that only this machine can make again: the same parts give the same noise after a restart.

    Args:
        folder: of the federation, in the project whose noise it is.
        parts: what the noise is for, such as row, round and what was asked; noise that served twice could be taken away.
    """
    path = folder / KEYS / _SECRET
    make_folder(path.parent)
    with one_at_a_time(path.with_suffix(".lock")):  # members of one project may be processes of their own
        if not path.is_file():
            with atomic_write(path, mode=0o600) as temporary:
                temporary.write_bytes(secrets.token_bytes(_SECRET_BYTES))
    return SecretNoise(hashlib.sha256(path.read_bytes() + repr(parts).encode()).digest())
