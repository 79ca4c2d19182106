"""A made-up project whose run scores two damage types, and people who name them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mapped_parts import RUN, TRUTH, N, mapped_project
from numpy.typing import NDArray
from small_parts import add_run, answer, op_of

from pu_geo.store import runs
from pu_geo.store.layout import Layout

TYPED = "herocon-1"
TYPES = ("roof", "flooded = wet")
COLUMNS = ("type_roof", "type_flooded_wet")
_DRAW = np.random.default_rng(5)
HAS: NDArray[np.bool_] = TRUTH[:, None] & (_DRAW.random((N, 2)) < (0.7, 0.4))
"""Which buildings have which type, [N, 2]: a damaged one may have both, or none."""


def typed_project(folder: Path, *, types: Sequence[str] = TYPES, **facts: Any) -> Layout:
    """Give the mapped project a run that scores types, mostly higher where a building has them."""
    layout = mapped_project(folder)
    add_typed_run(layout, types=types, **facts)
    return layout


def add_typed_run(
    layout: Layout, *, types: Sequence[str] = TYPES, scores: NDArray[np.float32] | None = None, **facts: Any
) -> None:
    """Store a run with the scores of damage of the mapped project's, and scores of types, float32 [N, c]."""
    noise = np.random.default_rng(6).normal(size=HAS.shape)
    made = (1 / (1 + np.exp(-(noise + 3.0 * HAS - 2)))).astype(np.float32) if scores is None else scores
    facts = {"method": "herocon", "types": tuple(types), "types_from": "answers", "n_positive": 5} | facts
    damage = np.asarray(runs.array(layout, RUN, "scores"))
    add_run(layout, TYPED, scores=damage, arrays={"type_scores": made}, created_at="2026-01-02T00:00:00.000Z", **facts)


def name_types(layout: Layout, rows: Sequence[int], *, types: Sequence[str] = TYPES) -> None:
    """Mark some damaged buildings, each with the types that it has, if any."""
    has = {row: [name for name, one in zip(types, HAS[row], strict=True) if one] for row in rows}
    answer(layout, *(op_of(f"b{row}", damage_types=named) for row, named in has.items()))
