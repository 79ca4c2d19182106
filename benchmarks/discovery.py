"""Are hidden kinds found? NCL's groups against k-means, where the truth is known: some classes are hidden, the others named.

`python -m benchmarks.discovery --joplin joplin.pugeo --fmnist FOLDER` adds to benchmarks/outcomes/discovery.jsonl what is
not there yet; `python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.kept import Kept, row, spread, table
from pu_geo.analysis import clustering
from pu_geo.datasets import binary_files
from pu_geo.features import rcf
from pu_geo.methods import catalog
from pu_geo.methods.ncl import consensus_clusters
from pu_geo.store import contents, store
from pu_geo.training import augment
from pu_geo.training.data import NOT_DAMAGED, UNKNOWN, FeatureViews, PUData
from pu_geo.training.run import Run

N_DRAWS, N_SEEDS = 3, 3
JOPLIN = ("no-damage", "minor-damage", "major-damage", "destroyed")
N_FMNIST, N_HIDDEN, N_FMNIST_CLICKS = 1000, 2, 30
READINGS = {
    "k-means": "k-means on the features, no training",
    "ncl, memberships": "NCL, the heads (one training)",
    "ncl, embeddings": "NCL, k-means on embeddings (one training)",
    "ncl, three": "NCL, three trainings, as `discover`",
}


@dataclass(frozen=True)
class Setting:
    """Which classes are named, and with how many clicks each; class 0 stands for "not damaged" where `has_undamaged`."""

    name: str
    clicks: Mapping[int, int]
    n_classes: int
    has_undamaged: bool


@dataclass(frozen=True)
class Found:
    """One way of grouping in one draw of clicks; figures are of the unlabeled.

    Attributes:
        accuracy: share in the right group, once groups are matched with classes one to one (Han et al. 2019, and NCL).
        nmi: normalized mutual information with the classes.
        hidden_f1: mean over the hidden classes of the F1 of the group matched with each.
        agreement: adjusted Rand between trainings, or seedings; None where there is one sorting.
    """

    setting: str
    reading: str
    draw: int
    n_unlabeled: int
    accuracy: float
    nmi: float
    hidden_f1: float
    agreement: float | None


KEPT = Kept("discovery", Found, "setting draw")


JOPLIN_SETTINGS = (
    Setting("Joplin, major hidden", {0: 10, 1: 20, 3: 20}, 4, True),
    Setting("Joplin, minor and major hidden", {0: 10, 3: 20}, 4, True),
    Setting("Joplin, destroyed hidden", {0: 10, 1: 20, 2: 20}, 4, True),
)


def fmnist_setting(draw: int) -> Setting:
    """Name all classes but two, which each draw chooses anew."""
    named = np.random.default_rng(100 + draw).permutation(10)[N_HIDDEN:].tolist()
    return Setting("FMNIST, two of ten hidden", dict.fromkeys(sorted(named), N_FMNIST_CLICKS), 10, False)


def read_joplin(project: Path) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
    """Return cached features of the buildings whose grade is known, float16 [V, N, D], and the grades, int64 [N]."""
    layout = store.open_project(project)
    with store.connect(layout) as db:
        chip_set, table = contents.latest_chip_set(db), contents.footprints(db)
    assert chip_set is not None
    grade = {name: i for i, name in enumerate(JOPLIN)}
    classes = np.array([grade.get(str(value), UNKNOWN) for value in table.values("damage").values()], np.int64)
    return np.load(layout.features(chip_set))[:, classes != UNKNOWN], classes[classes != UNKNOWN]


def read_fmnist(folder: Path) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
    """Return features of 1,000 training chips as a project would cache them, float16 [V, N, D], and their classes."""
    data = binary_files.read_fmnist(folder)
    rows = np.sort(np.random.default_rng(0).choice(np.flatnonzero(~data.is_test), N_FMNIST, replace=False))
    chips = np.ascontiguousarray(data.chips[rows])
    bank = rcf.RcfBank.fit(chips, torch.Generator().manual_seed(0))
    device = torch.device("cpu")
    views = bank.transform(chips, 17, seed=0, device=device, augmentation=augment.NATURAL)
    return views, data.classes[rows]


def draw_clicks(setting: Setting, views: NDArray[np.float16], truth: NDArray[np.int64], draw: int) -> PUData:
    """Say the class of some chips of the named classes, half of a class at most."""
    rng, known = np.random.default_rng(draw), np.full(len(truth), UNKNOWN)
    for number, (one, clicks) in enumerate(setting.clicks.items()):
        own = np.flatnonzero(truth == one)
        known[rng.choice(own, min(clicks, len(own) // 2), replace=False)] = number + (not setting.has_undamaged)
    names = ("not damaged", *(str(i) for i in range(1, int(known.max()) + 1)))
    return PUData(FeatureViews(views), known > NOT_DAMAGED, np.zeros(len(truth), np.bool_), known, names)


def groupings(setting: Setting, data: PUData, draw: int) -> Iterator[tuple[str, list[NDArray[np.int64]]]]:
    """Group all chips in every way; a way that hangs on a seed comes three times."""
    k, seeds = setting.n_classes, [N_SEEDS * draw + i for i in range(N_SEEDS)]
    assert isinstance(data.inputs, FeatureViews)
    seen = consensus_clusters.principal_axes(data.inputs)
    yield "k-means", [consensus_clusters.sort_into_groups(seen, k, torch.Generator().manual_seed(seed)) for seed in seeds]
    settings = catalog.settings_for("ncl", "quick", {"n_new": k})
    found = consensus_clusters.find_consensus(data, settings, [Run(torch.device("cpu"), seed) for seed in seeds])
    for way, sortings in found.alone.items():
        yield f"ncl, {way}", list(sortings)
    yield "ncl, three", [found.groups]


def _accuracy(groups: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    n = int(max(groups.max(), truth.max())) + 1
    return float((clustering.matching(truth, groups, n)[groups] == truth).mean())


def judged(
    setting: Setting, reading: str, draw: int, groups: Sequence[NDArray[np.int64]], truth: NDArray[np.int64], data: PUData
) -> Found:
    """Compare sortings with the truth, on the unlabeled alone; figures are means over the sortings."""
    is_open = data.classes == UNKNOWN
    own, right = [each[is_open] for each in groups], truth[is_open]
    f1 = [_hidden_f1(each, right, sorted(set(range(setting.n_classes)) - set(setting.clicks))) for each in own]
    agreement = clustering.adjusted_rand(own)
    return Found(
        setting.name, reading, draw, int(is_open.sum()),
        round(float(np.mean([_accuracy(each, right) for each in own])), 4),
        round(float(np.mean([normalized_mutual_info_score(right, each) for each in own])), 4),
        round(float(np.mean(f1)), 4), None if agreement is None else round(agreement, 4),
    )  # fmt: skip


def _hidden_f1(groups: NDArray[np.int64], truth: NDArray[np.int64], hidden: Sequence[int]) -> float:
    n = int(max(groups.max(), truth.max())) + 1
    called = clustering.matching(truth, groups, n)[groups]
    found = [2 * ((called == one) & (truth == one)).sum() / ((called == one).sum() + (truth == one).sum()) for one in hidden]
    return float(np.mean(found))


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    found = KEPT.read()

    def rows() -> Iterator[str]:
        for setting in dict.fromkeys(each.setting for each in found):
            for reading, words in READINGS.items():
                own = [each for each in found if (each.setting, each.reading) == (setting, reading)]
                agree = [each.agreement for each in own if each.agreement is not None]
                cells = (spread([getattr(each, name) for each in own]) for name in ("accuracy", "nmi", "hidden_f1"))
                n = round(np.mean([each.n_unlabeled for each in own]))
                yield row(setting, words, len(own), n, *cells, spread(agree) if agree else "")

    return [table("setting | groups by | draws | unlabeled | accuracy | NMI | F1 of hidden | seeds agree", rows())]


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--joplin", type=Path, help="a project of the Joplin scenes with chips")
    parser.add_argument("--fmnist", type=Path, help="the folder with train-images-idx3-ubyte.gz")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.joplin:
        views, truth = read_joplin(options.joplin)
        for draw, setting in itertools.product(range(N_DRAWS), JOPLIN_SETTINGS):
            _do(setting, views, truth, draw)
    if options.fmnist:
        views, truth = read_fmnist(options.fmnist)
        for draw in range(N_DRAWS):
            _do(fmnist_setting(draw), views, truth, draw)


def _do(setting: Setting, views: NDArray[np.float16], truth: NDArray[np.int64], draw: int) -> None:
    def work() -> Iterator[Found]:
        data = draw_clicks(setting, views, truth, draw)
        for reading, groups in groupings(setting, data, draw):
            yield judged(setting, reading, draw, groups, truth, data)

    KEPT.once((setting.name, draw), work)


if __name__ == "__main__":
    main()
