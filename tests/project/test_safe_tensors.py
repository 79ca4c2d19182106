"""Our reader of safetensors: what it reads it reads as the library does, and it believes no header."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from pu_geo.project.safe_tensors import MAX_HEADER, BadTensors, read_tensors


def file_of(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin: int = 0, end: int = 16, shape: Any = (4,), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [begin, end]}


def test_it_reads_what_the_library_writes() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "half": rng.normal(size=(3, 2)).astype(np.float16),
        "single": rng.normal(size=(2, 1, 5)).astype(np.float32),
        "double": rng.normal(size=4),
        "whole": np.arange(3),
        "scalar": np.array(7),
    }
    found = read_tensors(save(arrays, metadata={"made": "here"}))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert not found[name].flags.writeable


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too few"),
        (file_of({}), "has 0 tensors"),
        (file_of(b"[]"), "no JSON object"),
        (file_of(b"[" * 100_000), "is no JSON"),
        (file_of(b'{"a":' * 8 + b"1" + b"}" * 8), "nested more than"),
        (file_of(b'{"a": NaN}'), "NaN"),
        (file_of(b'{"a": 1e999}'), "too large"),
        (file_of(b"\xff\xfe{}"), "is no JSON"),
        (file_of(b" " * (MAX_HEADER + 1)), "claims a header"),
        (file_of({"a": [1]}), "must say type, shape and place"),
        (file_of({"a": {**tensor(), "more": 1}}, bytes(16)), "and nothing else"),
        (file_of({"a\n": tensor()}, bytes(16)), "names a tensor"),
        (file_of({"a": tensor(shape=(True, 4))}, bytes(16)), "sizes are whole numbers"),
        (file_of({"a": tensor(shape=(4.0,))}, bytes(16)), "sizes are whole numbers"),
        (file_of({"a": tensor(shape=(10**4000, 10**4000))}, bytes(16)), "sizes are whole numbers"),
        (file_of({"a": tensor(0, 0, (0,))}), "sizes are whole numbers"),
        (file_of({"a": tensor(0, 12)}, bytes(16)), "12 bytes, while its shape [4] needs 16"),
        (file_of({"a": tensor()}, bytes(20)), "belong to no tensor"),
        (file_of({"a": tensor(4, 20)}, bytes(20)), "belong to no tensor"),
        (file_of({"a": tensor(-16, 0)}, bytes(16)), "where 'a' begins"),
        (file_of({"a": tensor()}, np.array([0, 1, np.nan, np.inf], "<f4").tobytes()), "2 values in 'a' that are not finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_claims_that_cannot_be_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(BadTensors) as refused:
        read_tensors(content)
    assert words in str(refused.value)
