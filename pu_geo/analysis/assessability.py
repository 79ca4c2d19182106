"""Which buildings the imagery itself keeps from being assessed, and why. The one place that decides it.

A person's answer overrides it; whoever asks looks at the answers first. What is asked here are the facts of a chip set,
which hold for each building how much of its window is hidden in which way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MOST_HIDDEN = 0.5  # share of a building's window that may be hidden; beyond it nobody can tell what happened to it
SOME_HIDDEN = 0.2  # from here on, a building called not assessable probably is so because of what hides it
SHARES = ("nodata_share", "outside_share", "cloud_share", "pre_cloud_share")
"""Keys of a chip set's facts. Sets that were cut before these were known have the first one alone."""
Why = Literal["outside_image", "nodata", "cloud"]
KINDS: tuple[Why, ...] = ("outside_image", "nodata", "cloud")


def reasons(facts: Mapping[str, Any]) -> NDArray[np.str_]:
    """Return why each building cannot be assessed: "outside_image", "nodata" or "cloud"; "" if it can, str [N].

    More than half of its window must be hidden, by all three together; the reason is what hides most of it.

    Args:
        facts: of a chip set: "nodata_share" (what no post scene shows, float [N], 0..1), and where they are known
            "outside_share" (what lies beyond the post scenes' borders, a part of the first) and "cloud_share" (what lies
            under thick cloud).
    """
    hidden = _hidden(facts)
    return np.where(hidden.sum(axis=1) > MOST_HIDDEN, _largest(hidden), "")


def is_hidden(building_ids: Sequence[str], said: Mapping[str, str], why: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Return which buildings cannot be assessed, bool [N]: by a person's word, or by the imagery where nobody answered.

    Args:
        building_ids: [N].
        said: building id -> current label of those that have one.
        why: str [N], as `reasons` gives it.
    """
    words = np.array([said.get(building, "") for building in building_ids], dtype=np.str_)
    hidden: NDArray[np.bool_] = (words == "not_assessable") | ((words == "") & (why != ""))
    return hidden


def candidates(facts: Mapping[str, Any], is_misaligned: NDArray[np.bool_] | None = None) -> NDArray[np.str_]:
    """Return the likeliest reason of each building, should somebody call it not assessable; "" if there is none, str [N].

    A building with such a reason is not left out anywhere: destroyed ones, above all, are hard to align.

    Args:
        facts: as for `reasons`.
        is_misaligned: bool [N], pre and post could not be aligned there; None where they never were.
    """
    hidden = _hidden(facts)
    found = np.where(hidden.sum(axis=1) > SOME_HIDDEN, _largest(hidden), "")
    if is_misaligned is None:
        return found
    return np.where((found == "") & is_misaligned, "misaligned", found)


def counts(why: NDArray[np.str_]) -> dict[str, int]:
    """Return how many buildings have which reason, those without one left out."""
    named, n = np.unique(why[why != ""], return_counts=True)
    return dict(zip(named.tolist(), n.tolist(), strict=True))


def by_building(building_ids: Sequence[str], why: NDArray[np.str_]) -> dict[str, str]:
    """Return building id -> reason for the buildings that have one."""
    return {building_ids[row]: str(why[row]) for row in np.flatnonzero(why != "").tolist()}


def _hidden(facts: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the share of each window that each of `KINDS` hides, float64 [N, 3]; they do not overlap."""
    nodata = np.asarray(facts["nodata_share"], dtype=np.float64)
    outside, cloud = (
        np.asarray(facts.get(key, np.zeros(len(nodata))), np.float64) for key in ("outside_share", "cloud_share")
    )
    outside = np.minimum(outside, nodata)
    return np.stack([outside, nodata - outside, cloud], axis=1)


def _largest(hidden: NDArray[np.float64]) -> NDArray[np.str_]:
    """Return the name of what hides most, str [N]; of equals the first one."""
    return np.array(KINDS)[hidden.argmax(axis=1)]
