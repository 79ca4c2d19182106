"""How much each side weighs in a linear ranking, and how strongly it is held back. NumPy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

L2 = 0.5
"""Penalty where no estimate of the damaged share is at hand; see `l2_for_share`."""
KNOWN_WEIGHT = 30.0
"""What one chip that a person called not damaged weighs, in unlabeled ones.

Chosen on real chips: in `benchmarks.queue_simulation`, where an analyst answers queue after queue, 10 to 200 find the
last damaged buildings in half the answers that it takes without, or less; above 50 a few easy ones begin to do harm.
"""
ACCEPTED_SHARE = 0.25
"""Most of the positives' weight that buildings of accepted clusters get together: a large cluster of one kind of damage would
outvote the clicks. Measured with `benchmarks.inspector`; the table is in docs/methods.md."""


def l2_for_share(share: float) -> float:
    """Choose the penalty from the estimated share of damaged buildings among the unlabeled ones.

    The more damage hides in the unlabeled, the less single ones of them may be trusted. Ours; a straight line between
    logarithms through what was best on real chips: 3 for half damaged (Joplin), 0.1 for one in a hundred (Harvey).

    Args:
        share: in [0, 1], such as `estimates.elkan_noto_share` gives.

    Returns:
        Penalty in [0.1, 3].
    """
    slope = np.log(30) / np.log(50)
    return float(np.clip(0.1 * (max(share, 1e-6) / 0.01) ** slope, 0.1, 3.0))


def side_weights(n_positive: int, n_unlabeled: int, n_known: int, n_accepted: int = 0) -> NDArray[np.float32]:
    """Weigh positives, accepted, unlabeled and not damaged chips, in this order, float32 of sum 1: one half a side."""
    share = KNOWN_WEIGHT * n_known / max(KNOWN_WEIGHT * n_known + n_unlabeled, 1)
    more = min(ACCEPTED_SHARE, n_accepted / max(n_accepted + n_positive, 1))
    parts = (
        (n_positive, 0.5 * (1 - more)),
        (n_accepted, 0.5 * more),
        (n_unlabeled, 0.5 * (1 - share)),
        (n_known, 0.5 * share),
    )
    return np.concatenate([np.full(n, total / max(n, 1), np.float32) for n, total in parts])
