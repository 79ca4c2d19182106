"""The propagated ranking with one part taken out, for `benchmarks.prevalence`: what helped, and where?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from pu_geo.methods.propagation import propagation

OF = "propagation"


@dataclass(frozen=True)
class Variant:
    """What differs from the method as it is.

    Attributes:
        settings: of the method.
        parts: attributes of its module.
    """

    settings: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)


def _always(weight: float) -> Mapping[str, Any]:
    """Let one reading alone count: its pull is far above that of the share."""
    return {"CLICKS_PULL": 1000.0, "SHARE_PULL": 0.0, "_difference_held_out": lambda *_: weight}


VARIANTS: Mapping[str, Variant] = {
    "propagation, whitened reading alone": Variant(parts=_always(-0.5)),
    "propagation, propagated reading alone": Variant(parts=_always(0.5)),
    "propagation, without whitening": Variant({"whitening": 0.0}),
    "propagation, wholly whitened": Variant({"whitening": 0.5}),
    "propagation, scores do not travel": Variant({"propagation": 0.0}),
    "propagation, without held-out clicks": Variant(parts={"CLICKS_PULL": 0.0}),
    "propagation, without the share": Variant(parts={"SHARE_PULL": 0.0}),
}
"""Name in outcomes -> variant."""


@contextmanager
def varied(variant: Variant) -> Iterator[None]:
    """Let the method's module be the variant's for a while.

    Raises:
        AttributeError: if the method has no such part (any more).
    """
    with ExitStack() as stack:
        for name, value in variant.parts.items():
            stack.enter_context(mock.patch.object(propagation, name, value))
        yield
