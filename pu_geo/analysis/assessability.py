"""Which buildings can be assessed, and why the others cannot. The one place that decides it.

*Assessed* means: enough of the outline is visible, in the bands the run needs, in a scene where the ranking has evidence.
A person's answer overrides it; callers read the answers first. The facts of a chip set hold, for each building, how much of
its outline is hidden in which way, before and after the event, and which sensor group its scenes belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MOST_HIDDEN = 0.4  # share of a building's outline that may be hidden; beyond it nobody can judge what happened to it
SOME_HIDDEN = 0.2  # from here on, a building called not assessable probably is so because of what hides it
LEAST_ANSWERS = 5
"""Answers without a damaged building that make the ranking of a sensor group worth something; one damaged building does."""
HARDLY = 0.25  # share of the usual share flagged, below which hardly anything is flagged
Why = Literal["outside_image", "nodata", "cloud", "no_pre_image", "no_layer", "scene_without_answers"]
KINDS: tuple[Why, ...] = ("outside_image", "nodata", "cloud")
REMOVED = "removed"  # beside `Why`: the building is not in the project any more
_PARTS = ("outside", "nodata", "cloud")
_WINDOW_PARTS = {
    "post": ("outside_share", "nodata_share", "cloud_share"),
    "pre": ("", "pre_nodata_share", "pre_cloud_share"),
}


def needs_pre(facts: Mapping[str, Any]) -> bool:
    """Return whether the features of a chip set are made of pre-event bands too."""
    return facts.get("bands") == "pre+post"


def hidden_parts(facts: Mapping[str, Any], role: str) -> NDArray[np.float64]:
    """Return the share of each outline that each of `KINDS` hides, float64 [N, 3], 0..1; they do not overlap.

    Chip sets that were cut before outlines were measured know the shares of the chips' windows alone.

    Args:
        role: "pre" or "post". Nothing is known to be hidden where a chip set has no facts of that date.
    """
    n = len(facts["nodata_share"])
    outline = facts.get(f"{role}_outline")
    if outline is not None:
        return np.stack([np.asarray(outline[part], np.float64) for part in _PARTS], axis=1).reshape(n, 3)
    keys = _WINDOW_PARTS[role]
    outside, nodata, cloud = (
        np.asarray(facts[key] if facts.get(key) is not None else np.zeros(n), np.float64) for key in keys
    )
    outside = np.minimum(outside, nodata)
    return np.stack([outside, nodata - outside, cloud], axis=1)


def hidden_share(facts: Mapping[str, Any], role: str) -> NDArray[np.float64] | None:
    """Return the share of each outline that is hidden at one date, float64 [N], 0..1; None where that date was not cut."""
    if role == "pre" and facts.get("pre_outline") is None and facts.get("pre_nodata_share") is None:
        return None
    return np.clip(hidden_parts(facts, role).sum(axis=1), 0.0, 1.0)


def lacks_pre(facts: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which buildings the pre scenes do not show, bool [N]; none where no pre scene was cut."""
    share = hidden_share(facts, "pre")
    return np.zeros(len(facts["nodata_share"]), np.bool_) if share is None else share > MOST_HIDDEN


def hidden_after(facts: Mapping[str, Any]) -> NDArray[np.str_]:
    """Return why nobody can answer a building from the post-event imagery: one of `KINDS`, "" if it can be answered, str
    [N].

    The reason is what hides most of the outline.
    """
    hidden = hidden_parts(facts, "post")
    return np.where(hidden.sum(axis=1) > MOST_HIDDEN, _largest(hidden), "")


def reasons(
    facts: Mapping[str, Any], without_answers: Collection[int] = (), lacks_all: NDArray[np.bool_] | None = None
) -> NDArray[np.str_]:
    """Return why each building cannot be assessed, one of `Why`; "" if it can, str [N].

    Args:
        facts: of a chip set.
        without_answers: look groups that a run has no evidence for, see `groups_without_answers`.
        lacks_all: bool [N], buildings that have none of the layers that a run learned from; none of them if None.
    """
    found = hidden_after(facts).astype("<U24")
    if needs_pre(facts):
        found = np.where((found == "") & lacks_pre(facts), "no_pre_image", found)
    if lacks_all is not None:
        found = np.where((found == "") & lacks_all, "no_layer", found)
    group = facts.get("look_group")
    if group is not None and len(without_answers):
        found = np.where((found == "") & np.isin(group, list(without_answers)), "scene_without_answers", found)
    return found


def groups_without_answers(
    facts: Mapping[str, Any], is_damaged: NDArray[np.bool_], is_not_damaged: NDArray[np.bool_], is_flagged: NDArray[np.bool_]
) -> tuple[int, ...]:
    """Return the look groups where a run has no evidence: its answers were given in other imagery, and do not carry over.

    A group has evidence with one building called damaged in it, or with five called not damaged. Of the others, those of a
    sensor without evidence have none, whatever is flagged there; and those that merely differ in appearance have none where
    hardly anything is flagged: less than a quarter of the share that is flagged where there are answers.

    Args:
        facts: of a chip set; "sensor_group" and "look_group", int [N], name the groups of each building where known.
        is_damaged, is_not_damaged: bool [N], what the run learned from.
        is_flagged: bool [N], not reviewed and at least at the run's threshold.
    """
    if facts.get("look_group") is None or not is_damaged.any():
        return ()
    group, sensor = (np.asarray(facts[name], np.int64) for name in ("look_group", "sensor_group"))
    is_open = (reasons(facts) == "") & ~is_damaged & ~is_not_damaged
    with_answers = {}
    for name, numbers in (("look", group), ("sensor", sensor)):
        n_damaged, n_not_damaged = (np.bincount(numbers, weights=answers) for answers in (is_damaged, is_not_damaged))
        with_answers[name] = np.flatnonzero((n_damaged >= 1) | (n_not_damaged >= LEAST_ANSWERS))
    known = is_open & np.isin(group, with_answers["look"])
    usual = float(is_flagged[known].mean()) if known.any() else 0.0
    silent = []
    for one in np.unique(group[hidden_after(facts) == ""]).tolist():
        here = (group == one) & is_open
        if one in with_answers["look"] or not here.any():
            continue
        same_sensor = bool(np.isin(sensor[group == one], with_answers["sensor"]).all())
        if not same_sensor or float(is_flagged[here].mean()) < HARDLY * usual:
            silent.append(int(one))
    return tuple(silent)


def is_hidden(building_ids: Sequence[str], answers: Mapping[str, str], why: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Return which buildings cannot be assessed, bool [N]: by a person's word, or by the imagery where nobody answered.

    Args:
        building_ids: [N].
        answers: building id -> current label of those that have one.
        why: str [N], as `reasons` gives it.
    """
    words = np.array([answers.get(building, "") for building in building_ids], dtype=np.str_)
    return (words == "not_assessable") | ((words == "") & (why != ""))


def candidates(facts: Mapping[str, Any], is_misaligned: NDArray[np.bool_] | None = None) -> NDArray[np.str_]:
    """Return the likeliest reason of each building, should somebody call it not assessable; "" if there is none, str [N].

    A building with such a reason is not left out anywhere: destroyed ones, above all, are hard to align.

    Args:
        facts: as for `reasons`.
        is_misaligned: bool [N], pre and post could not be aligned there; None where they never were.
    """
    hidden = hidden_parts(facts, "post")
    found: NDArray[np.str_] = np.where(hidden.sum(axis=1) > SOME_HIDDEN, _largest(hidden), "").astype("<U24")
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


def _largest(hidden: NDArray[np.float64]) -> NDArray[np.str_]:
    """Return the name of what hides most, str [N]; of equals the first one."""
    return np.array(KINDS)[hidden.argmax(axis=1)] if len(hidden) else np.zeros(0, "<U24")
