"""What leader and members of a federation send each other, whatever carries it: tensors, and plain facts.

A federation has a leader, who averages, and members. A member is one project with the chips of one class, known by its key.
One project can be several members: its damage type, and "rest", the buildings that nobody called damaged. What arrives is
checked here, in words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from pu_geo.errors import FederationError, printable
from pu_geo.federation.agreement import odd_name
from pu_geo.files import atomic_write
from pu_geo.methods.fedaws import ClientUpdate, Theta
from pu_geo.store import federations
from pu_geo.store.federations import FACTS, Sent
from pu_geo.store.store import now

LEADER = "leader"
ASK, ANSWER, MODEL, RECEIVED, REFUSAL = "ask", "answer", "model", "received", "refusal"
OWN_VECTOR, CLASS_VECTORS, TOOK_PART = "own_vector", "class_vectors", "took_part"
Fact = int | float | str
MAX_TENSORS, MAX_TEXT = 64, 300
REPLY = {ASK: ANSWER, MODEL: RECEIVED}
_FACTS: Mapping[str, Mapping[str, type]] = {
    ASK: {"round": int, "agreement": str},
    ANSWER: {"round": int, "agreement": str, "class_name": str, "n_chips": int, "loss": float},
    MODEL: {"agreement": str},
    RECEIVED: {},
}


class Message(NamedTuple):
    """A message.

    Attributes:
        kind: "ask": theta, and the member's own row of W alone. "answer": both after its steps; its "n_chips" is 1 where the
            agreement weighs members equally, so that their numbers do not leave them, and its "loss" the mean over its
            steps. "model": the finished one, with all rows of W, since scoring needs them, and `TOOK_PART`, int64 [C, 2] of
            a `TookPart` a class. "received": that a member has it. "refusal": the words that a member sends in the place of
            an answer.
        tensors: `OWN_VECTOR`, float32 [E], or `CLASS_VECTORS`, float32 [C, E]; the others are theta, by their names in the
            network.
        facts: "agreement" is the digest of that which the sender goes by.
    """

    kind: str
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Fact]

    @property
    def round(self) -> int:
        """1 for the first; 0 where it is of none."""
        return int(self.facts.get("round", 0))

    @property
    def theta(self) -> Theta:
        own = (OWN_VECTOR, CLASS_VECTORS, TOOK_PART)
        return {name: tensor for name, tensor in self.tensors.items() if name not in own}

    @property
    def update(self) -> ClientUpdate:
        """What an answer says."""
        return ClientUpdate(self.theta, self.tensors[OWN_VECTOR], int(self.facts["n_chips"]))


def checked(message: Message, *kinds: str) -> Message:
    """Return a copy of a message that has the form of one of these kinds. Raises FederationError."""
    facts, wanted = message.facts, _FACTS.get(message.kind, {})
    if message.kind not in kinds:
        raise _refused(f"is of kind {printable(message.kind)!r} where {' or '.join(map(repr, kinds))} was due")
    if odd := odd_name(wanted, facts):
        raise _refused(odd)
    for name, value in facts.items():
        if type(value) is not wanted[name]:
            raise _refused(f"has {printable(value)!r} for {name}")
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise _refused(f"has a text of {len(value):,} characters for {name}; {MAX_TEXT} are allowed")
    return Message(message.kind, {name: each.detach().clone() for name, each in message.tensors.items()}, dict(facts))


def mismatch(wanted: Mapping[str, Tensor], came: Mapping[str, Tensor]) -> str:
    """Return in one sentence why tensors are not of the names, types and shapes that are wanted, in finite numbers; "" where
    they are.
    """
    if odd := odd_name(wanted, came):
        return f"It {odd} among its tensors."
    for name, tensor in came.items():
        due = wanted[name]
        if tensor.dtype != due.dtype:
            return f"{name} is of type {_dtype(tensor)}; it must be {_dtype(due)}."
        if tensor.shape != due.shape:
            return f"{name} has the shape {tuple(tensor.shape)}; it must be {tuple(due.shape)}."
        if n_bad := int((~tensor.isfinite()).sum()):
            return f"{n_bad:,} of {tensor.numel():,} values of {name} are no finite numbers."
    return ""


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the notes and the tensors of a file of safetensors. Raises SafetensorError or OSError where it is damaged."""
    with safe_open(path, "pt") as stored:
        return stored.metadata() or {}, {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # no mapping


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write such a file, whole or not at all, for nobody else to read."""
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(notes))
    with atomic_write(path, mode=0o600) as temporary:
        temporary.write_bytes(content)


def note(folder: Path, message: Message, to: str, *, is_here: bool) -> None:
    """Write into the ledger all that a message holds, its plain facts too, before it leaves.

    Args:
        folder: of the federation, in the project that sends.
        to: receiver, in words.
        is_here: whether the receiver is on this machine, see `federations.rows_here`.
    """
    common = (now(), message.kind, to, message.round)
    lines = []
    for name, tensor in sorted(message.tensors.items()):
        array = np.ascontiguousarray(tensor.numpy())
        lines.append(
            Sent(*common, name, array.dtype.name, array.shape, array.nbytes, sha256_of(array.tobytes()), is_here=is_here)
        )
    values = json.dumps(dict(message.facts), sort_keys=True, ensure_ascii=False).encode()
    facts = Sent(*common, FACTS, "json", (), len(values), sha256_of(values), dict(message.facts), is_here)
    federations.append_sent(folder, [*lines, facts])


def sha256_of(content: bytes) -> str:
    """Return the lowercase hex sha256 of values in C order."""
    return hashlib.sha256(content).hexdigest()


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _refused(words: str) -> FederationError:
    return FederationError(f"The message {words}.", "Both sides need the same version of PU-Geo.", kind="message")
