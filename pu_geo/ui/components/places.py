"""Sets of buildings as they travel between page and browser: ascending places in the footprint file, as steps in base 36."""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST_STEP = 6  # digits; no footprint file holds two billion buildings


def encode_places(places: Iterable[int]) -> str:
    """Write places in ascending order, as differences in base 36.

    >>> encode_places([40, 3])
    '3 11'
    """
    found = sorted(places)
    return " ".join(_base36(after - before) for before, after in zip([0, *found], found, strict=False))


def decode_places(text: str, n: int) -> list[int] | None:
    """Read what `encode_places` wrote; None if it makes no sense, or names a place that is not below `n`.

    >>> decode_places("3 11", 41)
    [3, 40]
    """
    found: list[int] = []
    at = 0
    for step in text.split():
        if len(step) > _LONGEST_STEP or not set(step) <= set(_DIGITS):
            return None
        at += int(step, 36)
        if at >= n or (found and at <= found[-1]):
            return None
        found.append(at)
    return found


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, last = divmod(number, 36)
        digits = _DIGITS[last] + digits
        if not number:
            return digits
