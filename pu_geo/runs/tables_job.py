"""The rows of papers' tables and ours: which data, which chips are positive, how it is made positive-unlabeled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pu_geo.datasets import binary_files, chip_files, classified
from pu_geo.datasets.classified import UNKNOWN_CLASS, ClassifiedChips, PUSplit
from pu_geo.errors import DatasetError
from pu_geo.store import contents, store
from pu_geo.store.contents import chip_facts, optical_chips

PLACES_FOR_TEST = 0.3
ANIMALS = (
    *("aquatic mammals", "fish", "insects", "large carnivores", "large omnivores and herbivores", "medium-sized mammals"),
    *("non-insect invertebrates", "people", "reptiles", "small mammals"),
)
"""Half of CIFAR-100, as NcPU's class prior of 0.5 asks for; the paper says "Animal" and no more."""


@dataclass(frozen=True)
class Setting:
    """One data set made positive-unlabeled in one way.

    Attributes:
        positive: names of the classes that count as positive.
        is_case_control: unlabeled chips are drawn separately from positives; otherwise all chips are one set.
        n_positive: labeled positives, n_P.
        n_unlabeled: n_U; 0 takes all there are.
        prior: share of positives among the unlabeled (case-control) or in the whole set; the data's own if None.
        augmentation: "natural" or "aerial" views.
        published: what papers report, by method, in words.
    """

    name: str
    positive: tuple[str, ...]
    is_case_control: bool
    n_positive: int
    n_unlabeled: int = 0
    prior: float | None = None
    augmentation: str = "aerial"
    published: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Settings on the same files, of a folder or a file; `wants` are words for what to name on the command line."""

    title: str
    read: Callable[[Path], ClassifiedChips]
    wants: str
    settings: tuple[Setting, ...]


def _names(all_names: tuple[str, ...], chosen: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(all_names[i] for i in chosen)


def _pucl(name: str, all_names: tuple[str, ...], chosen: tuple[int, ...], published: str) -> Setting:
    """Return a row of PUCL's Table 1, of which the paper does not say how many unlabeled chips there are."""
    more = {"n_unlabeled": 20_000} if "FMNIST" in name else {}
    return Setting(name, _names(all_names, chosen), True, 1000, **more, augmentation="natural",
                   published={"pucl": published} if published else {})  # fmt: skip


TABLES: dict[str, Table] = {
    "fmnist": Table(
        "Fashion-MNIST (PUCL, Table 1)",
        binary_files.read_fmnist,
        "the folder with train-images-idx3-ubyte.gz",
        (
            _pucl("FMNIST-I", binary_files.FMNIST, (1, 4, 7), "91.8 ± 0.8 (ResNet-18)"),
            _pucl("FMNIST-II", binary_files.FMNIST, (0, 2, 3, 5, 6, 8, 9), "89.2 ± 0.3 (ResNet-18)"),
        ),
    ),
    "cifar10": Table(
        "CIFAR-10 (NcPU, Table 1; PUCL, Table 1)",
        binary_files.read_cifar10,
        "the folder cifar-10-batches-bin",
        (
            Setting(
                "CIFAR-10",
                _names(binary_files.CIFAR_10, (0, 1, 8, 9)),
                True,
                1000,
                40_000,
                0.4,
                "natural",
                {"ncpu": "OA 97.36, F1 96.67"},
            ),
            _pucl("CIFAR-II", binary_files.CIFAR_10, (2, 3, 4, 5, 6, 7), ""),
        ),
    ),
    "cifar100": Table(
        "CIFAR-100 (NcPU, Table 1)",
        binary_files.read_cifar100,
        "the folder cifar-100-binary",
        (Setting("CIFAR-100", ANIMALS, True, 1000, 40_000, 0.5, "natural"),),
    ),
    "stl10": Table(
        "STL-10 (NcPU, Table 1)",
        binary_files.read_stl10,
        "the folder stl10_binary",
        (Setting("STL-10", _names(binary_files.STL_10, (0, 2, 3, 8, 9)), True, 1000, 90_000, None, "natural"),),
    ),
    "abcd": Table(
        "ABCD (NcPU, Table 1)",
        chip_files.read_abcd,
        "ABCD's folder resized",
        (Setting("ABCD", ("washed-away",), True, 300, 4000, 0.5, published={"ncpu": "OA 91.10, F1 91.21"}),),
    ),
    "xbd": Table(
        "xBD (NcPU, Table 1)",
        chip_files.read_xbd,
        "the folder that holds train/ and test/, or one with images/ and labels/",
        (Setting("xBD", ("major-damage", "destroyed"), True, 500, 20_000, 0.4, published={"ncpu": "OA 87.60, F1 64.84"}),),
    ),
    "harvey": Table(
        "Hurricane Harvey chips, region A, split by place",
        chip_files.read_chips,
        "region_A.zip or its folder",
        tuple(
            Setting(f"Harvey A, {100 * prior:g} % damaged, {n} clicks", ("damage",), False, n, prior=prior)
            for prior in (0.5, 0.4, 0.05)
            for n in (30, 300)
            if n < 1500 * prior
        ),
    ),
}


def split(data: ClassifiedChips, setting: Setting, seed: int) -> PUSplit:
    """Draw positives, unlabeled and test chips of one seed.

    What the makers set aside is tested on; else 30 % of the places; else the unlabeled themselves. Of one set with a given
    share of positives, the test chips have that share, too. Chips without a class serve as unlabeled alone, where the
    setting names no share.

    Raises:
        DatasetError: if there are too few chips, or places to set aside.
    """
    generator = np.random.default_rng(seed)
    truth, is_known = data.is_one_of(setting.positive), data.classes != UNKNOWN_CLASS
    is_test = data.is_test & is_known
    if not is_test.any() and data.place is not None and len(np.unique(data.place)) > 1:
        is_test = classified.held_out_places(data.place, PLACES_FOR_TEST, np.random.default_rng(0))
    pool, test = np.flatnonzero(is_known & ~is_test), np.flatnonzero(is_test)
    nameless = np.flatnonzero(~is_known)
    if setting.is_case_control and len(nameless) and setting.prior is None:
        good = generator.permutation(pool[truth[pool]])[: setting.n_positive]
        if len(good) < setting.n_positive or len(nameless) < setting.n_unlabeled:
            raise DatasetError(f"{setting.name} needs {setting.n_positive} positives and {setting.n_unlabeled} unlabeled.",
                               "Use the whole data set.", kind="few")  # fmt: skip
        some = generator.choice(nameless, setting.n_unlabeled or len(nameless), replace=False)
        return PUSplit(np.sort(good), np.sort(some), test)
    if setting.is_case_control:
        if not len(test):
            raise DatasetError(f"{setting.name} has no chips to test on.", "Use the whole data set.", kind="few")
        drawn = (truth, pool, test, setting.n_positive, setting.n_unlabeled, setting.prior, generator)
        return classified.case_control(*drawn)
    if setting.prior is not None and len(test):
        test = classified.thinned(truth, test, setting.prior, np.random.default_rng(0))
    return classified.single_set(truth, pool, test if len(test) else None, setting.n_positive, setting.prior, generator)


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
        raise DatasetError(
            f"No footprint says {unknown[0]!r} in {field!r}; they say {', '.join(sorted(found)) or 'nothing'}.",
            "Correct --exclude, or leave it out.",
        )
    names = tuple(sorted(found - exclude))
    if not names:
        there = ", ".join(sorted({name for row in table.attributes for name in row})) or "none"
        raise DatasetError(f"No footprint says anything in {field!r}; there are {there}.", "Name one of them with --field.")
    number = {name: n for n, name in enumerate(names)}
    classes = np.array([number.get(str(value), UNKNOWN_CLASS) for value in values], np.int64)
    chips = optical_chips(layout, chip_set)
    return ClassifiedChips(chips, classes, names, np.zeros(len(classes), np.bool_))
