"""Find the chips of a run that are unlike any other, and buildings that are there twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import shapely

from pu_geo.analysis import assessability, neighbors, outliers
from pu_geo.explore.outliers import Suspect
from pu_geo.explore.umap_picture import embeddings_of
from pu_geo.geo.vector.matching import overlaps
from pu_geo.records import Facts, Ints, Singles
from pu_geo.store import contents, labels, runs, store
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_json

NOTE = "outliers.json"
N_NEIGHBORS, MOST = 6, 200
LONELY_FROM = 4.0  # robust standard deviations from which a chip counts as isolated
OVERLAP_FROM = 0.5  # share of the smaller outline from which two are one building
SAME_COSINE, SAME_GRAY = 0.98, 2.0
"""Chips with such a cosine are compared; a mean difference of so many gray levels or fewer makes them the same."""
_LONELY = "Unlike any other chip: {:.1f} standard deviations farther from its neighbors than usual."
_NONE = np.zeros((0, 1), np.int64), np.zeros((0, 1), np.float32)


def find_outliers(job: Job, *, run_id: str) -> Facts:
    """Write `runs/<run_id>/outliers.json`: duplicates and isolated chips as `Suspect`, worst first, 200 each at most.

    Only outlines are compared where the picture shows nothing, or a person called the building not assessable.

    Returns:
        {"run_id", "n_isolated", "n_duplicates"}

    Raises:
        ProjectError: if there is no such run, or it has no embeddings.
        JobCancelled: if the user cancelled.
    """
    facts = store.call(job.layout, runs.find, run_id)
    ids = runs.building_ids_of(job.layout, facts.run_id)
    job.report(0.05, "neighbors of each chip")
    rows = _with_a_picture(job.layout, facts.chip_set, ids)
    unit = neighbors.unit_rows(embeddings_of(job.layout, facts.run_id)[rows])
    n_near = min(N_NEIGHBORS, len(unit))
    near, distances = neighbors.nearest_of_each(unit, n_near) if n_near > 1 else _NONE
    job.stop_if_cancelled()
    lonely = outliers.loneliness(distances[:, 1:]) if n_near > 1 else np.zeros(len(unit))
    order = np.argsort(-lonely, kind="stable")[:MOST]
    isolated = [
        Suspect("isolated", (ids[rows[at]],), _LONELY.format(lonely[at]), float(lonely[at]))
        for at in order
        if lonely[at] >= LONELY_FROM
    ]
    job.report(0.5, "outlines that overlap")
    pairs = _overlapping(job.layout, ids)
    job.stop_if_cancelled()
    job.report(0.7, "chips that look the same")
    pairs = _with_same_chips(job, facts.chip_set, ids, _close(rows, near, distances), pairs)
    found = sorted(pairs.items(), key=lambda item: (-(item[1][0] or 0), item[1][1] or 0, item[0]))[:MOST]
    duplicates = [_twice(both, *reasons) for both, reasons in found]
    write_json(job.layout.run(facts.run_id) / NOTE, [asdict(one) for one in (*duplicates, *isolated)])
    return {"run_id": facts.run_id, "n_isolated": len(isolated), "n_duplicates": len(duplicates)}


def _twice(both: tuple[str, str], overlap: float | None, difference: float | None) -> Suspect:
    reasons = {
        "their outlines share {:.0%} of the smaller one": overlap, "their chips differ by {:.1f} gray levels": difference,
    }  # fmt: skip
    words = ", and ".join(reason.format(value) for reason, value in reasons.items() if value is not None)
    return Suspect("duplicate", both, f"Perhaps one building twice: {words}.", overlap or 0.0)


def _with_a_picture(layout: Layout, chip_set: str, ids: Sequence[str]) -> Ints:
    """Return the rows of buildings that can be judged: all blank chips are alike, and unlike the others."""
    answers = store.call(layout, labels.current_labels)
    is_judged = np.array([answers.get(building) != "not_assessable" for building in ids], np.bool_)
    return np.flatnonzero(is_judged & (assessability.reasons(chip_facts(layout, chip_set)) == ""))


def _close(rows: Ints, near: Ints, distances: Singles) -> Ints:
    """Return pairs of the run's rows whose embeddings are close, int64 [P, 2], each once though either may list the
    other.
    """
    at, column = np.nonzero((distances <= float(np.sqrt(2 * (1 - SAME_COSINE)))) & (near >= 0))
    both = np.sort(rows[np.stack([at, near[at, column]], axis=1)], axis=1)
    return np.unique(both[both[:, 0] < both[:, 1]], axis=0)


Pairs = dict[tuple[str, str], tuple[float | None, float | None]]


def _overlapping(layout: Layout, ids: Sequence[str]) -> Pairs:
    """Return pairs of buildings with the share of the smaller outline that both cover."""
    there, wanted = store.call(layout, contents.all_outlines), set(ids)
    names = [building for building in there if building in wanted]
    outlines = shapely.from_wkb(np.array([there[building] for building in names], dtype=object))
    first, second, _, shares = overlaps(outlines, None)
    pairs = zip(first.tolist(), second.tolist(), shares.tolist(), strict=True)
    return {(names[a], names[b]): (round(share, 3), None) for a, b, share in pairs if share >= OVERLAP_FROM}


def _with_same_chips(job: Job, chip_set: str, ids: Sequence[str], close: Ints, pairs: Pairs) -> Pairs:
    """Add pairs of chips that are the same picture, with their mean difference in gray levels."""
    chips = optical_chips(job.layout, chip_set)
    found = dict(pairs)
    for number, (row, other) in enumerate(close.tolist()):
        if number % 256 == 0:
            job.stop_if_cancelled()
        gap = float(np.abs(np.asarray(chips[row], np.int16) - chips[other]).mean())
        if gap <= SAME_GRAY:
            both = ids[row], ids[other]
            both = both if both in found or both[::-1] not in found else both[::-1]
            found[both] = (found.get(both, (None, None))[0], round(gap, 2))
    return found
