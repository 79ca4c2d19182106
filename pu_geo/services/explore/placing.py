"""Buildings that came after a run: where they stand in its picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout


@dataclass(frozen=True)
class Placed:
    """Buildings of newer chips that were placed in a run's UMAP picture.

    Attributes:
        building_ids: [M], none of which the run knows.
        xy: float32 [M, 2].
        note: why new buildings could not be placed; "" if all were.
    """

    building_ids: Sequence[str]
    xy: NDArray[np.float32]
    note: str


def placed(layout: Layout, run_id: str) -> Placed:
    """Return the buildings that were placed after a run; none where its UMAP was not computed."""
    folder = layout.run(run_id)
    note, array = folder / "umap.json", folder / "umap_new.npy"
    if not (note.is_file() and array.is_file()):
        return Placed([], np.zeros((0, 2), np.float32), "")
    told = json.loads(note.read_text(encoding="utf-8"))
    return Placed(told["new_ids"], np.load(array, allow_pickle=False), str(told["note"]))


def n_unplaced(layout: Layout, run_id: str) -> int:
    """Count the buildings of the newest chips that are neither in a run nor placed beside it; the UMAP job places them.

    None are counted where that job found that the run's model cannot place those of the newest chips, see `Placed.note`.
    """
    with store.connect(layout) as db:
        newest, facts = contents.latest_chip_set(db), runs.find(db, run_id)
    if newest is None or newest == facts.chip_set:
        return 0
    note = layout.run(run_id) / "umap.json"
    told = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    if told.get("note") and told["chip_set"] == newest:
        return 0
    path = layout.chip_facts(newest)
    ids = json.loads(path.read_text(encoding="utf-8"))["building_ids"]
    return len(set(ids) - set(runs.building_ids_of(layout, run_id)) - set(placed(layout, run_id).building_ids))
