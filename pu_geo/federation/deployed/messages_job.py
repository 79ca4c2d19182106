"""Flower's records for a `wire.Message`. Flower reads arrays without pickle."""

from __future__ import annotations

import math
from io import BytesIO

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.lib import format as npy
from torch import Tensor

from pu_geo.errors import FederationError
from pu_geo.federation.wire_job import MAX_TENSORS, Message

TYPE = "train"
"""Flower's type of all our messages."""
_ARRAYS, _FACTS, _KIND = "arrays", "facts", "kind"


def to_records(message: Message) -> RecordDict:
    """Return a message as Flower carries it."""
    arrays = ArrayRecord({name: Array(each.contiguous().numpy()) for name, each in message.tensors.items()})
    return RecordDict(
        {_ARRAYS: arrays, _FACTS: ConfigRecord(dict(message.facts)), _KIND: ConfigRecord({_KIND: message.kind})}
    )


def from_records(content: RecordDict) -> Message:
    """Return the message in Flower's records, for `wire.checked`. Raises FederationError if they hold no message."""
    arrays, facts, kind = content.get(_ARRAYS), content.get(_FACTS), content.get(_KIND)
    if not isinstance(arrays, ArrayRecord) or not isinstance(facts, ConfigRecord) or not isinstance(kind, ConfigRecord):
        raise _no_message("it lacks arrays or facts")
    if len(arrays) > MAX_TENSORS or len(content) != len((_ARRAYS, _FACTS, _KIND)):
        raise _no_message("it holds more than a message has")
    plain = {name: value for name, value in facts.items() if isinstance(value, int | float | str)}
    if len(plain) != len(facts):
        raise _no_message("its facts are not plain")
    try:
        tensors = {name: _tensor(array) for name, array in arrays.items()}
    except Exception as error:  # a stranger's bytes, in numpy's reader
        raise _no_message("an array in it cannot be read") from error
    return Message(str(kind.get(_KIND, "")), tensors, plain)


def _tensor(array: Array) -> Tensor:
    """Return the values of an array. Raises ValueError if its header claims more of them than there are bytes, TypeError for
    no numbers.
    """
    stream = BytesIO(array.data)
    read_header = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.itemsize == 0 or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > len(array.data):
        raise ValueError("the header is not that of its values")
    return torch.from_numpy(array.numpy().copy())


def _no_message(words: str) -> FederationError:
    return FederationError(
        f"What came is no message of a federation: {words}.", "Both sides need the same version of PU-Geo.", kind="message"
    )
