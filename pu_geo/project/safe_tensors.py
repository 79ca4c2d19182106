"""Our own reader of safetensors files: every claim of the header is checked before a number is read."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.project.strict_json import BadJson, parse_object

DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}  # what our models are made of
MAX_HEADER, MAX_TENSORS, MAX_AXES, MAX_NAME, MAX_SIZE = 1_000_000, 2_000, 6, 200, 2**40
_LENGTH = struct.Struct("<Q")


class BadTensors(ValueError):
    """Why a file is refused, as the end of a sentence that begins with its name."""


def read_tensors(content: bytes) -> dict[str, NDArray[Any]]:
    """Read a whole safetensors file.

    Args:
        content: the file.

    Returns:
        name -> array, float or int, C order, at least one value each, all of them finite. They share the memory of
        `content` and cannot be written to.

    Raises:
        BadTensors: if the header is too long, is no JSON of the right form or names one tensor twice; if a tensor has an
            unknown type or a size below 1; if tensors overlap, leave a gap or do not end where the file ends; if a value
            is not finite.
    """
    header, first = _header(content)
    places = sorted((*_begin_and_end(name, facts), name) for name, facts in header.items() if name != "__metadata__")
    if not 1 <= len(places) <= MAX_TENSORS:
        raise BadTensors(f"has {len(places)} tensors; 1 to {MAX_TENSORS:,} are read")
    n_data, n_needed = len(content) - first, max(end for _, end, _ in places)
    if n_needed > n_data:
        raise BadTensors(f"is cut off: its tensors need {n_needed:,} bytes, and {n_data:,} are there")
    for (_, end, before), (begin, _, after) in pairwise(places):
        if begin != end:
            what = "overlap" if begin < end else "leave a gap of unnamed bytes between them"
            raise BadTensors(f"is damaged: the tensors {before!r} and {after!r} {what}")
    if n_more := n_data - places[-1][1] + places[0][0]:
        raise BadTensors(f"holds {n_more:,} bytes that belong to no tensor")
    found = {}
    for begin, _, name in places:
        dtype, shape = DTYPES[header[name]["dtype"]], header[name]["shape"]
        found[name] = np.frombuffer(content, dtype, count=math.prod(shape), offset=first + begin).reshape(shape)
        if dtype[1] == "f" and (n_bad := int((~np.isfinite(found[name])).sum())):
            raise BadTensors(f"holds {n_bad} values in {name!r} that are not finite numbers")
    return found


def _header(content: bytes) -> tuple[dict[str, Any], int]:
    """Return the header, and where the numbers begin."""
    if len(content) < _LENGTH.size:
        raise BadTensors(f"has {len(content)} bytes, too few for a safetensors file")
    (length,) = _LENGTH.unpack_from(content)
    if length > min(MAX_HEADER, len(content) - _LENGTH.size):
        raise BadTensors(f"claims a header of {length:,} bytes, more than it has or than the {MAX_HEADER:,} that are read")
    first = _LENGTH.size + length
    try:
        return parse_object(content[_LENGTH.size : first]), first
    except BadJson as error:
        raise BadTensors(f"has a header that {error}") from error


def _begin_and_end(name: str, facts: object) -> tuple[int, int]:
    """Check what the header states of one tensor by itself; return where it is in the bytes after the header."""
    if not name or len(name) > MAX_NAME or not name.isascii() or not name.isprintable():
        raise BadTensors(f"names a tensor {name[:60]!r}; names are short plain texts")
    if not isinstance(facts, dict) or set(facts) != {"dtype", "shape", "data_offsets"}:
        raise BadTensors(f"must say type, shape and place of {name!r}, and nothing else")
    dtype, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise BadTensors(f"says that {name!r} is of type {str(dtype)[:20]!r}; models are made of {', '.join(DTYPES)}")
    if not _are_whole(shape, 1) or len(shape) > MAX_AXES:
        raise BadTensors(
            f"gives {name!r} the shape {str(shape)[:80]}; sizes are whole numbers from 1 on, {MAX_AXES} at most"
        )
    if not _are_whole(offsets, 0) or len(offsets) != 2:
        raise BadTensors(f"does not say where {name!r} begins and ends")
    begin, end = offsets
    needed = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if end - begin != needed:
        raise BadTensors(f"gives {name!r} {end - begin:,} bytes, while its shape {shape} needs {needed:,}")
    return begin, end


def _are_whole(values: object, least: int) -> bool:
    """Return whether this is a list of whole numbers; True and False are none."""
    return isinstance(values, list) and all(type(value) is int and least <= value <= MAX_SIZE for value in values)
