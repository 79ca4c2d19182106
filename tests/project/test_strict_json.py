"""JSON of strangers: whole, in limits, and in time that grows with its size."""

from __future__ import annotations

import pytest

from pu_geo.project.strict_json import MAX_BYTES, MAX_DEPTH, BadJson, parse_object


def test_an_object_comes_as_it_is() -> None:
    text = '{"a": [1, 2.5, true, null], "b": {"c": "\u00e9 \\ud83c\\udf0d"}}'
    assert parse_object(text.encode()) == {"a": [1, 2.5, True, None], "b": {"c": "\u00e9 \U0001f30d"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "names 'a' twice"),
        (b'{"a": {"b": 2, "b": 3}}', "names 'b' twice"),
        (b"[1]", "no JSON object"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": 1e999}', "too large for a number"),
        (b'{"a": "\\ud800"}', "half of a sign"),
        (b'{"\\udc00": 1}', "half of a sign"),
        (b'{"a": "\xff"}', "is no JSON"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested more than"),
        (b"[" * 100_000, "is no JSON"),
        (b" " * MAX_BYTES + b"{}", "bytes; at most"),
    ],
)
def test_what_can_mean_two_things_or_too_much_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(BadJson, match=words):
        parse_object(text)


def test_a_million_bytes_of_names_are_looked_at_once_each() -> None:
    """Looking each of 130,000 names up among all others would take minutes."""
    names = [f"{number:x}" for number in range(90_000)]
    text = "{" + ",".join(f'"{name}":1' for name in [*names, names[-1]]) + "}"
    assert len(text) < MAX_BYTES
    with pytest.raises(BadJson, match="twice"):
        parse_object(text.encode())
