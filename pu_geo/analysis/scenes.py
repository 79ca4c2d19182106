"""What a run finds in each scene: how much it flags there, how many answers speak for it, and where that is doubtful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.assessability import LEAST_ANSWERS, REMOVED
from pu_geo.analysis.metrics import auc

CLEAR_ANSWERS = 10  # answers "not damaged" that take a doubt away where no damaged building is marked
LEAST_BUILDINGS = 10  # fewer assessed buildings in a scene are no ground for a doubt
DOUBTFUL = 0.5  # share of the usual share flagged, below which a scene without a damaged answer is doubtful
LEAST_EXPECTED = 3.0  # flagged buildings that the usual share promises, below which their absence is no surprise
STANDS_APART = 0.95
"""Chance that a score of a scene without damaged answers lies above, or below, one of the scenes that have some."""


_OTHER_SENSOR = (
    "Scene {scene} differs from most others by its sensor, and nobody marked damage anywhere: its scores may mean "
    "something else. Mark some buildings there."
)


@dataclass(frozen=True)
class SceneRow:
    """One post-event scene in a run. Counts are of buildings that it shows best.

    Attributes:
        scene_id: of the scene; "" for buildings that no scene shows.
        n: buildings.
        n_assessed: of them, assessed.
        n_damaged, n_not_damaged: answered so.
        n_flagged: assessed, not answered, and at least at the threshold.
        flag_rate: share flagged of the assessed that nobody answered, 0..1; None where all are answered.
        doubt: why the result there is doubtful, and what to do, in one sentence; "" where nothing speaks against it.
    """

    scene_id: str
    n: int
    n_assessed: int
    n_damaged: int
    n_not_damaged: int
    n_flagged: int
    flag_rate: float | None
    doubt: str

    def as_mapping(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "flag_rate": None if self.flag_rate is None else round(self.flag_rate, 4)}


def scene_rows(
    facts: Mapping[str, Any], scores: NDArray[np.floating], threshold: float, why: NDArray[np.str_],
    labels: Sequence[str | None],
) -> list[SceneRow]:  # fmt: skip
    """Return a row for each post-event scene, in the order of their ids; none for chip sets that do not know their scenes.

    Args:
        facts: of the chip set.
        scores: float [N] in [0, 1].
        threshold: score from which on a building is flagged, compared at 4 decimals as in the export.
        why: str [N], why a building is not assessed, "" where it is; see `assessability.reasons`. One that is `REMOVED` is
            in no row.
        labels: current label of each building, [N], None without one.
    """
    shown = facts.get("post_scene")
    if shown is None:
        return []
    stays = why != REMOVED
    scene, answer = (np.array([one or "" for one in each], np.str_)[stays] for each in (shown, labels))
    why, scores = why[stays], scores[stays]
    is_answered = answer != ""
    is_assessed = np.where(is_answered, answer != "not_assessable", why == "")
    is_open = is_assessed & ~is_answered
    is_above = np.asarray(scores, np.float64).round(4) >= round(threshold, 4)
    is_flagged = is_open & is_above
    is_other = np.asarray(facts.get("sensor_group", np.zeros(len(stays))), np.int64)[stays] > 0
    known = np.isin(scene, np.unique(scene[answer == "positive"])) & is_open
    usual = float(is_flagged[known].mean()) if known.any() else None
    rows = []
    for name in np.unique(scene).tolist():
        here = scene == name
        n_open, n_flagged = int((here & is_open).sum()), int((here & is_flagged).sum())
        n_damaged, n_clear = int((here & (answer == "positive")).sum()), int((here & (answer == "not_damaged")).sum())
        row = SceneRow(
            name, int(here.sum()), int((here & is_assessed).sum()), n_damaged, n_clear, n_flagged,
            n_flagged / n_open if n_open else None, "",
        )  # fmt: skip
        n_silent = int((here & (why == "scene_without_answers") & ~is_answered).sum())
        doubt = _doubt(row, n_open, n_silent, usual, scores[here & is_open], scores[known]) if name else ""
        if name and not doubt and usual is None and n_open and is_other[here].any():
            doubt = _OTHER_SENSOR.format(scene=name)
        if name and not doubt and n_open >= LEAST_BUILDINGS:
            doubt = _below(name, here, answer == "positive", is_above)
        rows.append(replace(row, doubt=doubt))
    return rows


def _doubt(
    row: SceneRow, n_open: int, n_silent: int, usual: float | None, own: NDArray[np.floating], known: NDArray[np.floating]
) -> str:
    if n_silent:
        has_answers = row.n_damaged > 0 or row.n_not_damaged >= LEAST_ANSWERS
        advice = (
            "Its answers came after the run, or in an accuracy assessment, which teaches nothing: mark some on Annotate and "
            "train again."
            if has_answers
            else f"Mark a damaged building there, or {LEAST_ANSWERS} that are not damaged, and train again."
        )
        return (
            f"{n_silent:,} buildings of scene {row.scene_id} are not assessed: the scene differs from those with answers, "
            f"and the run learned from too few there. {advice}"
        )
    if row.n_damaged or usual is None or n_open < LEAST_BUILDINGS or row.n_not_damaged >= CLEAR_ANSWERS:
        return ""
    check = f"Answer {CLEAR_ANSWERS - row.n_not_damaged} more buildings there."
    if usual * n_open >= LEAST_EXPECTED and (row.flag_rate or 0.0) < DOUBTFUL * usual:
        return (
            f"Scene {row.scene_id}: no building is marked damaged there, and {row.n_flagged:,} of the {n_open:,} without an "
            f"answer are flagged ({usual:.0%} where some are marked). {check}"
        )
    above = auc(np.concatenate([own, known]), np.arange(len(own) + len(known)) < len(own))
    if max(above, 1 - above) > STANDS_APART:
        side = "above" if above > 0.5 else "below"
        return (
            f"Scene {row.scene_id}: no building is marked damaged there, and its scores lie {side} nearly all of the scenes "
            f"with answers. {check}"
        )
    return ""


def _below(name: str, here: NDArray[np.bool_], is_damaged: NDArray[np.bool_], is_above: NDArray[np.bool_]) -> str:
    """Return that most damaged answers of a scene score below the threshold; "" where they do in the other scenes, too.

    There the threshold is the cause, which flags few, and not the scene.
    """
    counts = [(int((where & is_damaged & ~is_above).sum()), int((where & is_damaged).sum())) for where in (here, ~here)]
    (n_below, n), (others_below, n_others) = counts
    if not n or n_below * 2 < n or (n_others and others_below * 2 >= n_others):
        return ""
    return (
        f"Scene {name}: {n_below:,} of {n:,} buildings marked damaged there score below the threshold. "
        "Lower the threshold, or mark more there and train again."
    )


def doubts(rows: Sequence[SceneRow]) -> list[str]:
    """Return what is doubtful, one sentence a scene."""
    return [row.doubt for row in rows if row.doubt]
