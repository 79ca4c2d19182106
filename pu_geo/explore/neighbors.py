"""More like this: the chips of a run most like one or several others, at once, and all of them labeled in one act."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pu_geo.analysis import neighbors
from pu_geo.answers import labeling
from pu_geo.errors import ProjectError
from pu_geo.explore.umap_picture import embeddings_of
from pu_geo.records import LabelOp, Singles, rows_of
from pu_geo.store import chosen as choices
from pu_geo.store import labels, runs, store
from pu_geo.store.layout import Layout
from pu_geo.wording import listed


@dataclass(frozen=True)
class Alike:
    """A building like the chosen ones: its cosine to the nearest of them, -1..1, its score, and its label, "" without
    one.
    """

    building_id: str
    cosine: float
    score: float
    label: str


@lru_cache(maxsize=2)
def _rows(layout: Layout, run_id: str) -> Singles:
    """Return unit embeddings of a run, float32 [N, D]."""
    return neighbors.unit_rows(embeddings_of(layout, run_id))


def like(
    layout: Layout, run_id: str, building_ids: Sequence[str], *, count: int = 20, only_unlabeled: bool = False
) -> list[Alike]:
    """Return the buildings of a run, of all its scenes, that its model finds most like the given ones.

    Args:
        building_ids: one or more; those that the run does not know are passed over.
        count: how many, 1 or more.
        only_unlabeled: leave out what carries a label.

    Raises:
        ProjectError: if there is no such run, it knows none of these buildings, or count is below 1.
    """
    found_run = choices.run(layout, run_id).run_id
    known = store.call(layout, labels.current_labels)
    if count < 1:
        raise ProjectError(f"{count} buildings were asked for.", "Ask for 1 or more.")
    ids = runs.building_ids_of(layout, found_run)
    chosen = rows_of([*building_ids], ids)
    chosen = chosen[chosen >= 0]
    if not len(chosen):
        named = listed(list(building_ids)) or "none was named"
        raise ProjectError(
            f"Run {found_run} knows none of these buildings ({named}).", "Name one that has a chip.", kind="building"
        )
    is_hidden = np.fromiter((building in known for building in ids), np.bool_, len(ids)) if only_unlabeled else None
    rows, cosines = neighbors.nearest(_rows(layout, found_run), chosen, count, is_hidden=is_hidden)
    scores = np.asarray(runs.array(layout, found_run, "scores"), np.float32)
    return [
        Alike(ids[at], float(cosine), float(scores[at]), str(known.get(ids[at], "")))
        for at, cosine in zip(rows.tolist(), cosines.tolist(), strict=True)
    ]


def undo(layout: Layout, *, analyst: str) -> bool:
    """Undo the analyst's last act of labeling; return whether there was one."""
    before = labeling.newest_event(layout)
    labeling.apply_operations(layout, [LabelOp(secrets.token_hex(16), step="undo")], analyst=analyst, screen="explore")
    return labeling.newest_event(layout) > before
