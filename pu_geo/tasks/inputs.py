"""What a run starts from: a chip set, its cached features, and the labels as they stand."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.engine.data import UNKNOWN, ChipImages, FeatureViews, PUData
from pu_geo.engine.network import FEATURES
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout, write_json
from pu_geo.records import PUSet
from pu_geo.tasks.chip import load_chip_set


@dataclass(frozen=True)
class RunInputs:
    """A chip set with the labels at one event.

    Attributes:
        chip_set: its id.
        views: cached features [V, N, D], a memory map.
        pu: labels of its N buildings.
    """

    chip_set: str
    views: NDArray[np.float16]
    pu: PUSet

    @property
    def plain(self) -> NDArray[np.float32]:
        """Features of the unaugmented chips, float32 [N, D]."""
        return np.asarray(self.views[0], dtype=np.float32)

    def data(self, layout: Layout, settings: NetworkSettings, types_from: str | None) -> PUData:
        """Give a method what it learns from: cached features or chips, as the settings ask.

        Raises:
            TrainingError: if `types_from` is no attribute of the clicked footprints.
        """
        pu = self.pu
        if settings.backbone == FEATURES:
            inputs: FeatureViews | ChipImages = FeatureViews(np.asarray(self.views))
        else:
            chips = np.load(layout.chips(self.chip_set), mmap_mode="r", allow_pickle=False)
            inputs = ChipImages(chips, settings.augmentation)
        types = _damage_types(layout, pu, types_from) if types_from else {}
        names = tuple(name for name, _ in sorted(Counter(types.values()).items(), key=lambda item: (-item[1], item[0])))
        number = {name: i for i, name in enumerate(names, 1)}
        known = np.where(pu.is_positive, 1, np.where(pu.is_not_damaged, 0, UNKNOWN)).astype(np.int64)
        for row, name in types.items():
            known[row] = number[name]
        return PUData(inputs, pu.is_positive, pu.is_left_out, known, ("not damaged", *(names or ("damaged",))))


def read_inputs(layout: Layout, begun: Path | None = None) -> RunInputs:
    """Read the newest chip set of a project, and its labels.

    Args:
        begun: folder of a training that may have begun before. It goes on with the labels it began with, whatever was
            clicked since; what it left behind is thrown away where there are other chips by now.

    Raises:
        ProjectError: if there are no chips yet.
    """
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        if chip_set is None:
            raise ProjectError(
                "This project has no chips yet, so there is nothing to learn from.",
                "Cut them on the Imagery page, or with `pu-geo chip`.",
                kind="no_chips",
            )
        at_event = _pinned_event(begun, chip_set, labels.last_event(db)) if begun else None
        pu = labels.pu_set(db, at=at_event, ids=load_chip_set(layout, chip_set).building_ids)
    return RunInputs(chip_set, np.load(layout.features(chip_set), mmap_mode="r"), pu)


def _pinned_event(begun: Path, chip_set: str, newest: int) -> int:
    """Return the label event that a training began with; note it where the training begins now."""
    note = begun / "began_with.json"
    if note.exists():
        facts = json.loads(note.read_text(encoding="utf-8"))
        if facts["chip_set"] == chip_set:
            return int(facts["at_event"])
        shutil.rmtree(begun)
    begun.mkdir(parents=True, exist_ok=True)
    write_json(note, {"chip_set": chip_set, "at_event": newest})
    return newest


def _damage_types(layout: Layout, pu: PUSet, field: str) -> Mapping[int, str]:
    """Read the kind of damage of every positive, by row, from an attribute of its footprint; no other one is looked at."""
    with store.connect(layout) as db:
        table = contents.footprints(db)
    attributes = dict(zip(table.building_ids, table.attributes, strict=True))
    positive = [int(row) for row in np.flatnonzero(pu.is_positive)]
    if not any(field in attributes[pu.building_ids[row]] for row in positive):
        there = ", ".join(sorted({name for row in positive for name in attributes[pu.building_ids[row]]})) or "none"
        raise TrainingError(
            f"No clicked footprint has the attribute {field!r}; they have: {there}.", "Name one of them.", kind="types"
        )
    return {row: str(attributes[pu.building_ids[row]].get(field) or "damaged") for row in positive}
