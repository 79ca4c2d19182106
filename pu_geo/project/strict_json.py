"""JSON of strangers: read within limits, and only where it can mean one thing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

MAX_BYTES = 1_000_000  # largest text that is parsed; the card of a network of 200 tensors takes 20,000
MAX_DEPTH = 6


class BadJson(ValueError):
    """Why a text is refused, as the end of a sentence that begins with what it is."""


def parse_object(text: bytes, most: int = MAX_BYTES) -> dict[str, Any]:
    """Parse one JSON object.

    Args:
        text: UTF-8.
        most: bytes that it may have.

    Returns:
        The object: dicts, lists, texts, whole numbers, finite floats, bools and None, nested at most `MAX_DEPTH` deep.

    Raises:
        BadJson: if it is larger or deeper, no object, names one thing twice, or holds NaN, Infinity or a text that cannot be
            written down.
    """
    if len(text) > most:
        raise BadJson(f"has {len(text):,} bytes; at most {most:,} are read")
    try:
        found = json.loads(
            text.decode("utf-8"), object_pairs_hook=_once_each, parse_constant=_no_constant, parse_float=_finite
        )
    except BadJson:
        raise
    except (ValueError, RecursionError) as error:
        raise BadJson("is no JSON") from error
    if not isinstance(found, dict):
        raise BadJson("is no JSON object")
    if _is_deeper(found, MAX_DEPTH):
        raise BadJson(f"is nested more than {MAX_DEPTH} deep")
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadJson("holds half of a sign that takes two (a surrogate)") from error
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise BadJson(f"names {twice[:60]!r} twice")
    return found


def _no_constant(word: str) -> float:
    raise BadJson(f"holds {word}, which is no number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadJson(f"holds {text[:20]}, which is too large for a number")
    return value


def _is_deeper(value: object, limit: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if limit == 0:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return any(_is_deeper(one, limit - 1) for one in inner)
