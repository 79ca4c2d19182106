"""Messages as what a transport carries: named arrays, and plain facts. Unpacking refuses what is no such message, in words."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import FederationError, printable
from pu_geo.federation.agreement import PROTOCOL
from pu_geo.federation.protocol import Answer, Ask
from pu_geo.methods.fedaws import ClientUpdate
from pu_geo.project.federations import TookPart

ASK, ANSWER, MODEL, REFUSAL = "ask", "answer", "model", "refusal"
OWN_VECTOR, CLASS_VECTORS, THETA = "own_vector", "class_vectors", "theta."
N_ROUNDS, LAST_ROUND = "n_rounds.", "last_round."
"""Before a row of W: facts of a finished model, see `TookPart`."""
Fact = int | float | str
MAX_ARRAYS, MAX_AXES, MAX_VALUES, MAX_TEXT = 64, 4, 2**26, 300
_DTYPES = ("float32", "float64", "float16", "int64", "int32")
_FACTS: Mapping[str, Mapping[str, type]] = {
    ASK: {"round": int, "agreement": str},
    ANSWER: {"round": int, "agreement": str, "class_name": str, "n_chips": int, "loss": float},
}


class Packed(NamedTuple):
    """A message.

    Attributes:
        kind: "ask", "answer", "model", or "refusal": the words that a member sends in the place of an answer.
        arrays: name -> values.
        facts: name -> number or text; "protocol" among them.
    """

    kind: str
    arrays: Mapping[str, NDArray[np.generic]]
    facts: Mapping[str, Fact]


def pack_ask(ask: Ask) -> Packed:
    """Return an ask as a message."""
    facts: dict[str, Fact] = {"protocol": PROTOCOL, "round": ask.round, "agreement": ask.agreement}
    return Packed(ASK, {**_named(ask.theta), OWN_VECTOR: _array(ask.own_vector)}, facts)


def unpack_ask(packed: Packed) -> Ask:
    """Return the ask of a message. Raises FederationError."""
    arrays, facts = _checked(packed, ASK)
    theta, own_vector = _theta(arrays), _one(arrays, OWN_VECTOR)
    return Ask(int(facts["round"]), theta, own_vector, str(facts["agreement"]))


def pack_answer(answer: Answer) -> Packed:
    """Return an answer as a message."""
    update = answer.update
    facts: dict[str, Fact] = {
        "protocol": PROTOCOL, "round": answer.round, "agreement": answer.agreement, "class_name": answer.class_name,
        "n_chips": update.n_chips, "loss": answer.loss,
    }  # fmt: skip
    return Packed(ANSWER, {**_named(update.theta), OWN_VECTOR: _array(update.own_vector)}, facts)


def unpack_answer(packed: Packed) -> Answer:
    """Return the answer of a message; `updates.refusal` then compares it with what was asked. Raises FederationError."""
    arrays, facts = _checked(packed, ANSWER)
    update = ClientUpdate(_theta(arrays), _one(arrays, OWN_VECTOR), int(facts["n_chips"]))
    return Answer(
        int(facts["round"]), str(facts["agreement"]), str(facts["class_name"]), update, float(facts["loss"])
    )  # fmt: skip


def pack_model(model: Mapping[str, Tensor], facts: Mapping[str, object]) -> Packed:
    """Return the finished model as a message: theta, by its names, "class_vectors", and plain facts."""
    theta = {name: tensor for name, tensor in model.items() if name != CLASS_VECTORS}
    plain = {name: value for name, value in facts.items() if isinstance(value, int | float | str)}
    return Packed(MODEL, {**_named(theta), CLASS_VECTORS: _array(model[CLASS_VECTORS])}, {"protocol": PROTOCOL, **plain})


def pack_refusal(words: str) -> Packed:
    """Return as a message, for the ledger, why a member did not do what the leader asked for."""
    return Packed(REFUSAL, {}, {"words": words})


def unpack_model(packed: Packed) -> tuple[dict[str, Tensor], dict[str, Fact]]:
    """Return theta and "class_vectors" of a finished model, and its facts. Raises FederationError."""
    arrays, facts = _checked(packed, MODEL)
    return {**_theta(arrays), CLASS_VECTORS: _one(arrays, CLASS_VECTORS)}, dict(facts)


def facts_of_parts(parts: Sequence[TookPart]) -> dict[str, Fact]:
    """Return how far each class took part as facts of a finished model."""
    found: dict[str, Fact] = {}
    for row, part in enumerate(parts):
        found |= {f"{N_ROUNDS}{row}": part.n_rounds, f"{LAST_ROUND}{row}": part.last}
    return found


def parts_of(facts: Mapping[str, object], n_classes: int, n_rounds: int) -> tuple[TookPart, ...]:
    """Return how far each class took part, as the facts of a finished model say. Raises FederationError if they do not, or cannot be."""
    return tuple(
        TookPart(*(_round_number(facts, f"{name}{row}", n_rounds) for name in (N_ROUNDS, LAST_ROUND)))
        for row in range(n_classes)
    )


def _round_number(facts: Mapping[str, object], name: str, n_rounds: int) -> int:
    value = facts.get(name)
    if type(value) is not int or not 0 <= value <= n_rounds:
        raise _refused(f"has {printable(value)!r} for {name}; a finished model has 0 to {n_rounds} there")
    return value


def sha256_of(array: NDArray[np.generic]) -> str:
    """Return the lowercase hex sha256 of values in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _named(theta: Mapping[str, Tensor]) -> dict[str, NDArray[np.generic]]:
    return {THETA + name: _array(tensor) for name, tensor in sorted(theta.items())}


def _array(tensor: Tensor) -> NDArray[np.generic]:
    found: NDArray[np.generic] = tensor.detach().cpu().numpy().copy()  # a view would carry other rows along
    return found


def _checked(packed: Packed, kind: str) -> tuple[dict[str, Tensor], Mapping[str, Fact]]:
    """Return arrays as tensors, and facts, of a message that has the form of its kind."""
    facts = packed.facts
    if packed.kind != kind:
        raise _refused(f"is of kind {printable(packed.kind)!r} where {kind!r} was due")
    protocol = facts.get("protocol")
    if protocol != PROTOCOL:
        raise FederationError(
            f"The message is written in protocol {printable(protocol)}; here is protocol {PROTOCOL}.",
            "All partners need the same version of PU-Geo.",
            kind="version",
        )
    wanted = _FACTS.get(kind)
    if wanted is not None and set(facts) != {"protocol", *wanted}:
        odd = sorted({"protocol", *wanted} ^ set(facts))[0]
        raise _refused(f"{'lacks' if odd in (wanted or ()) else 'has an unknown'} {printable(odd)!r}")
    for name, value in facts.items():
        if wanted is not None and name in wanted and type(value) is not wanted[name]:
            raise _refused(f"has {printable(value)!r} for {name}")
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise _refused(f"has a text of {len(value):,} characters for {printable(name)}; {MAX_TEXT} are allowed")
    if not 1 <= len(packed.arrays) <= MAX_ARRAYS:
        raise _refused(f"has {len(packed.arrays):,} arrays; 1 to {MAX_ARRAYS} are read")
    return {name: _tensor(name, array) for name, array in packed.arrays.items()}, facts


def _tensor(name: str, array: NDArray[np.generic]) -> Tensor:
    if not isinstance(array, np.ndarray) or array.dtype.name not in _DTYPES:
        kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        raise _refused(f"has {printable(name)!r} of type {printable(kind)}; {', '.join(_DTYPES)} are read")
    if array.ndim > MAX_AXES or not 1 <= math.prod(array.shape) <= MAX_VALUES:
        raise _refused(f"has {printable(name)!r} of shape {printable(array.shape)}; 1 to {MAX_VALUES:,} values are read")
    return torch.from_numpy(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=True))


def _theta(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(THETA): tensor for name, tensor in arrays.items() if name.startswith(THETA)}


def _one(arrays: Mapping[str, Tensor], name: str) -> Tensor:
    odd = sorted(other for other in arrays if other != name and not other.startswith(THETA))
    if odd:
        raise _refused(f"has {printable(odd[0])!r}, which no such message has")
    if name not in arrays:
        raise _refused(f"lacks {name!r}")
    return arrays[name]


def _refused(words: str) -> FederationError:
    return FederationError(f"The message {words}.", "Both sides need the same version of PU-Geo.", kind="message")
