"""Clicks that a training does not learn from, so that there is something to judge it by, and the unlabeled beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.analysis.pu_criterion import is_unlabeled
from pu_geo.errors import TrainingError
from pu_geo.methods.catalog import MethodCard
from pu_geo.project import labels, store
from pu_geo.project.chip_sets import chip_facts
from pu_geo.project.layout import Layout
from pu_geo.records import PUSet

_STREAM = 41


def set_aside(pu: PUSet, n: int, seed: int, card: MethodCard) -> tuple[PUSet, NDArray[np.int64]]:
    """Draw positives that are not learned from, neither as positives nor as unlabeled.

    Args:
        pu: all that was clicked.
        n: how many; 0 for none.
        seed: the same one draws the same positives.
        card: of the method that shall learn from the rest.

    Returns:
        What is left to learn from, where the drawn ones are left out; and their rows, int64 [n], rising.

    Raises:
        TrainingError: if fewer positives would be left than the method needs, or n is below 0.
    """
    positive = np.flatnonzero(pu.is_positive & ~pu.is_excluded)
    left = len(positive) - n
    if n < 0 or (n > 0 and left < card.min_positives):
        raise TrainingError(
            f"{n} held-out clicks of {len(positive)} positives would leave {max(left, 0)}; {card.title} needs at least "
            f"{card.min_positives}.",
            f"Hold out {max(len(positive) - card.min_positives, 0)} at most, or mark more buildings on the Annotate page.",
            kind="hold_out",
        )
    rows = np.sort(np.random.default_rng([seed, _STREAM]).choice(positive, n, replace=False))
    is_held_out = np.zeros(len(pu.is_positive), np.bool_)
    is_held_out[rows] = True
    return pu.without(is_held_out), rows


def unlabeled_to_judge(layout: Layout, chip_set: str, pu: PUSet, held_out: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the rows of the unlabeled that a run is judged by beside its held-out clicks, int64, rising.

    These are not quite those that it learns from, see `is_unlabeled`.

    Args:
        chip_set: whose buildings the rows are.
        pu: what is learned from, without the held-out clicks.
        held_out: rows of these, int64; None for none.
    """
    with store.connect(layout) as db:
        said = labels.current_labels(db, at=pu.at_event)
    why = assessability.reasons(chip_facts(layout, chip_set))
    is_clicked = pu.is_positive | (why != "") & np.array([said.get(one) == "positive" for one in pu.building_ids], np.bool_)
    is_clicked[held_out if held_out is not None else []] = True
    is_hidden = assessability.is_hidden(pu.building_ids, said, why)
    return np.flatnonzero(is_unlabeled(is_clicked, is_hidden))
