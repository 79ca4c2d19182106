"""A table of a project of one's own: which method orders its buildings best, where the truth came with the footprints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pu_geo.datasets.classified import UNKNOWN_CLASS, ClassifiedChips
from pu_geo.errors import DatasetError
from pu_geo.project import contents, store
from pu_geo.project.chip_sets import chip_facts
from pu_geo.tasks.train.tables import Setting, Table


def project_table(
    title: str, *, field: str, positive: Sequence[str], exclude: Sequence[str] = (), clicks: Sequence[int] = (10, 30)
) -> Table:
    """Make a table of the buildings of a project, as an analyst meets them: some damaged ones clicked, all others ranked.

    Args:
        title: name of the event.
        field: attribute of the footprints that holds the truth.
        positive: values of it that mean damaged.
        exclude: values that say nothing; such buildings are left out.
        clicks: numbers of clicked buildings, one setting each.

    Returns:
        A table whose `read` takes the project's folder. Methods are tested on the unlabeled buildings themselves.

    Raises:
        DatasetError: if nothing says what means damaged, or a number of clicks is none.
    """
    if not field or not positive:
        raise DatasetError("Nothing says which buildings are damaged.", "Name an attribute with --field, and its values "
                           "that mean damaged with --positive.")  # fmt: skip
    if not clicks or min(clicks) < 1:
        raise DatasetError(f"{list(clicks)} are no numbers of clicks.", "Write whole numbers from 1 on, as in 10,30.")

    def read(folder: Path) -> ClassifiedChips:
        return _read_project(folder, field, frozenset(exclude))

    settings = tuple(Setting(f"{title}, {n} clicks", tuple(positive), False, n) for n in clicks)
    return Table(title, read, "a project with chips, and --field and --positive", settings)


def _read_project(folder: Path, field: str, exclude: frozenset[str]) -> ClassifiedChips:
    """Return the newest chips of a project, uint8 [N, C, H, W], with the values of an attribute as classes."""
    layout = store.open_project(folder)
    with store.connect(layout) as db:
        chip_set, table = contents.latest_chip_set(db), contents.footprints(db)
    if chip_set is None:
        raise DatasetError(f"{folder.name} has no chips yet.", "Cut them with `pu-geo chip`.", kind="missing")
    truth = table.values(field)
    values = [truth.get(building) for building in chip_facts(layout, chip_set)["building_ids"]]
    found = {str(value) for value in values if value is not None}
    if unknown := sorted(exclude - found):
        raise DatasetError(f"No footprint says {unknown[0]!r} in {field!r}; they say {', '.join(sorted(found)) or 'nothing'}.",
                           "Correct --exclude, or leave it out.")  # fmt: skip
    names = tuple(sorted(found - exclude))
    if not names:
        there = ", ".join(sorted({name for row in table.attributes for name in row})) or "none"
        raise DatasetError(f"No footprint says anything in {field!r}; there are {there}.", "Name one of them with --field.")
    number = {name: n for n, name in enumerate(names)}
    classes = np.array([number.get(str(value), UNKNOWN_CLASS) for value in values], np.int64)
    chips = np.load(layout.chips(chip_set), mmap_mode="r", allow_pickle=False)
    return ClassifiedChips(chips, classes, names, np.zeros(len(classes), np.bool_))
