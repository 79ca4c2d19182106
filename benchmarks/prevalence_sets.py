"""Events of which the damage is known, from 0.5 % to 70 % damaged: what `benchmarks.prevalence` holds methods against.

Methods and presets are chosen while looking at one half of the sets, and judged by the other.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.datasets import binary_files, chip_files
from pu_geo.datasets.classified import ClassifiedChips
from pu_geo.errors import DatasetError
from pu_geo.project import contents, store
from pu_geo.project.contents import chip_facts
from pu_geo.services.project import projects
from pu_geo.tasks.imagery.chip import prepare
from pu_geo.tasks.job import Job
from pu_geo.training import augment

CHOSEN, REPORTED = "chosen on", "reported on"
CLICKS = (10, 30)
MOST_CLICKS = max(CLICKS)
PLACE_DIGITS = 6
"""Of lon and lat in degrees: chips of one house share a place, which is about 0.1 m wide."""
N_UNDAMAGED_FMNIST = 2000
_HARVEY, _JOPLIN, _FMNIST = "harvey_chips/region_A.zip", "joplin_xbd", "fashion_mnist"
_DAMAGED, _UNKNOWN = ("destroyed", "major-damage"), "un-classified"


@dataclass(frozen=True)
class Source:
    """Chips that events are drawn from.

    Attributes:
        chips: uint8 [N, C, H, W].
        is_damaged: bool [N].
        place: int64 [N], the same number for chips of one place; None where that is no matter.
    """

    chips: NDArray[np.uint8]
    is_damaged: NDArray[np.bool_]
    place: NDArray[np.int64] | None = None

    def take(self, chosen: NDArray[np.bool_]) -> Source:
        """Return the chips of a mask, bool [N]."""
        return Source(self.chips[chosen], self.is_damaged[chosen], None if self.place is None else self.place[chosen])


@dataclass(frozen=True)
class Event:
    """What one seed draws from a source.

    Attributes:
        rows: int64 [M] numbers of its chips in the source.
        is_damaged: bool [M].
        clicks: int64 [30], numbers of chips among the M, all damaged; those with 10 clicks are the first 10.
        others_left_out: whether damaged chips that are not clicked with fewer clicks belong to the event no more, so
            that the share among the unlabeled stays; otherwise they are unlabeled.
    """

    rows: NDArray[np.int64]
    is_damaged: NDArray[np.bool_]
    clicks: NDArray[np.int64]
    others_left_out: bool

    def clicked(self, n_clicks: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the chips that stay with so many clicks, int64 [K] among the M, and which of them are clicked, bool [K]."""
        is_in, is_positive = np.ones(len(self.rows), np.bool_), np.zeros(len(self.rows), np.bool_)
        is_positive[self.clicks[:n_clicks]] = True
        if self.others_left_out:
            is_in[self.clicks[n_clicks:]] = False
        return np.flatnonzero(is_in), is_positive[is_in]


@dataclass(frozen=True)
class EventSet:
    """Events of one kind, a seed each.

    Attributes:
        half: `CHOSEN` or `REPORTED`.
        needs: file or folder that it is made of, in the folder of data; "" if it comes with the program.
        read: makes the source, given the folder of data.
        n_seeds: how many draws.
        share: of damaged among the unlabeled, 0..1; None leaves all chips in.
        undamaged_places: share of the places that give undamaged chips, the others give damaged ones; None: any does both.
        most_undamaged: draw so many of the undamaged; all if None.
    """

    name: str
    half: str
    needs: str
    read: Callable[[Path], Source]
    n_seeds: int = 10
    share: float | None = None
    undamaged_places: float | None = None
    most_undamaged: int | None = None
    augmentation: augment.AugmentSettings = augment.AERIAL

    def draw(self, source: Source, seed: int) -> Event:
        """Draw chips and clicks; another set draws others from the same seed."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        rows = np.arange(len(source.is_damaged))
        if self.undamaged_places is not None:
            rows = by_place(source, self.undamaged_places, rng)
        if self.share is not None:
            rows = thinned(rows, source.is_damaged, self.share, rng, self.most_undamaged)
        is_damaged = source.is_damaged[rows]
        clicks = rng.permutation(np.flatnonzero(is_damaged))[:MOST_CLICKS]
        return Event(rows, is_damaged, clicks, self.share is not None)


def by_place(source: Source, undamaged_places: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Let every place give either its undamaged or its damaged chips, so that no method can know a chip by its place.

    Args:
        undamaged_places: share of the places that give the undamaged ones, 0..1.

    Returns:
        Row numbers, int64 [K].
    """
    assert source.place is not None
    names, place = np.unique(source.place, return_inverse=True)
    gives_undamaged = rng.permutation(len(names)) < undamaged_places * len(names)
    return np.flatnonzero(gives_undamaged[place] != source.is_damaged)


def thinned(
    rows: NDArray[np.int64], is_damaged: NDArray[np.bool_], share: float, rng: np.random.Generator,
    most_undamaged: int | None = None,
) -> NDArray[np.int64]:  # fmt: skip
    """Keep so many of the damaged that they are a share of the unlabeled, and 30 more to be clicked.

    Where there are too few damaged ones, undamaged ones are left out too.

    Args:
        rows: numbers of chips to keep some of, int64 [K].
        is_damaged: of all chips, bool [N].
        share: of damaged among the unlabeled, inside (0, 1).
        most_undamaged: keep so many of the undamaged at most; None: all.

    Returns:
        Row numbers, int64 [M], shuffled.

    Raises:
        DatasetError: if fewer than 31 are damaged.
    """
    undamaged, damaged = (rng.permutation(rows[is_damaged[rows] == which]) for which in (False, True))
    if len(damaged) <= MOST_CLICKS:
        raise DatasetError(f"{len(damaged)} chips are damaged; {MOST_CLICKS} are clicked and more must be left.",
                           "Leave this set out with --sets.", kind="size")  # fmt: skip
    odds = share / (1 - share)
    undamaged = undamaged[: min(most_undamaged or len(undamaged), int((len(damaged) - MOST_CLICKS) / odds))]
    return rng.permutation(np.concatenate([undamaged, damaged[: round(len(undamaged) * odds) + MOST_CLICKS]]))


@lru_cache(maxsize=1)
def _all_harvey(path: Path) -> tuple[Source, NDArray[np.float64]]:
    """Read region A, and the lon of each chip in degrees, float64 [N]."""
    data = chip_files.read_chips(path)
    with zipfile.ZipFile(path) as pack:
        index = list(csv.DictReader(io.TextIOWrapper(pack.open("index.csv"), "utf-8-sig")))
    lonlat = np.array([[float(row["lon"]), float(row["lat"])] for row in index])
    _, place = np.unique(np.round(lonlat, PLACE_DIGITS), axis=0, return_inverse=True)
    return Source(data.chips, data.is_one_of(("damage",)), place.ravel().astype(np.int64)), lonlat[:, 0]


def harvey(folder: Path, *, is_west: bool) -> Source:
    """Read one half of region A: west or east of the median longitude of the undamaged chips."""
    source, lon = _all_harvey(folder / _HARVEY)
    return source.take((lon < np.median(lon[~source.is_damaged])) == is_west)


@lru_cache(maxsize=1)
def _all_joplin(folder: Path) -> tuple[Source, NDArray[np.int64]]:
    """Cut the buildings of both scenes whose damage is known, and tell the scene of each, int64 [N]."""
    scenes = sorted(path for path in folder.iterdir() if path.is_dir())
    files = [scene / "buildings.geojson" for scene in scenes]
    chips, damage, uids = _cut(
        {
            "pre": [str(scene / "pre.tif") for scene in scenes],
            "post": [str(scene / "post.tif") for scene in scenes],
            "footprints": [str(file) for file in files],
        }
    )
    rows = [json.loads(file.read_text(encoding="utf-8"))["features"] for file in files]
    scene_of = {row["properties"]["uid"]: number for number, own in enumerate(rows) for row in own}
    known = damage != _UNKNOWN
    scene = np.array([scene_of[uid] for uid in uids], np.int64)
    return Source(chips, np.isin(damage, _DAMAGED)).take(known), scene[known]


def joplin(folder: Path, *, scenes: tuple[int, ...]) -> Source:
    """Read buildings of some of the scenes; major damage and destroyed count, un-classified ones are left out."""
    source, scene = _all_joplin(folder / _JOPLIN)
    return source.take(np.isin(scene, scenes))


@lru_cache(maxsize=1)
def sample(_: Path) -> Source:
    """Read the made-up event that comes with the program."""
    chips, damage, _uids = _cut(projects.sample_arguments())
    return Source(chips, np.isin(damage, _DAMAGED))


def _cut(arguments: dict[str, object]) -> tuple[NDArray[np.uint8], NDArray[np.str_], list[str]]:
    """Cut chips as the app does, in a project of their own; uint8 [N, 6, 64, 64], with attributes "damage" and "uid"."""
    with tempfile.TemporaryDirectory() as name:
        layout, job = store.create(Path(name) / "event.pugeo", "Event"), Path(name) / "job"
        job.mkdir()
        prepare(Job(layout, job), **arguments)  # type: ignore[arg-type]
        with store.connect(layout) as db:
            chip_set, table = contents.latest_chip_set(db), contents.footprints(db)
        assert chip_set is not None
        buildings = chip_facts(layout, chip_set)["building_ids"]
        damage, uids = table.values("damage"), table.values("uid")
        chips = np.load(layout.chips(chip_set), allow_pickle=False)
    return chips, np.array([str(damage[one]) for one in buildings]), [str(uids[one]) for one in buildings]


@lru_cache(maxsize=1)
def _all_fmnist(folder: Path) -> ClassifiedChips:
    return binary_files.read_fmnist(folder)


def fmnist(folder: Path, *, positive: int) -> Source:
    """Read Fashion-MNIST, one class of which counts as damaged."""
    data = _all_fmnist(folder / _FMNIST)
    return Source(data.chips, data.classes == positive)


def percent(share: float) -> str:
    """Write a share, 0..1, in percent."""
    return f"{100 * share:g} %"


def _make() -> Iterator[EventSet]:
    for name, half, is_west in (("W", CHOSEN, True), ("E", REPORTED, False)):
        read = partial(harvey, is_west=is_west)
        for share, n_seeds, places in (
            (0.5, 4, 0.5), (0.35, 4, 0.5), (0.2, 10, 0.75), (0.05, 10, 0.75), (0.01, 10, 0.75), (0.005, 10, 0.75)
        ):  # fmt: skip
            yield EventSet(f"Harvey {name} at {percent(share)}", half, _HARVEY, read, n_seeds, share, places)
    for name, half, scenes in (("0", CHOSEN, (0,)), ("1", REPORTED, (1,)), ("0+1", REPORTED, (0, 1))):
        yield EventSet(f"Joplin {name}", half, _JOPLIN, partial(joplin, scenes=scenes))
    for share in (0.2, 0.05):
        both = partial(joplin, scenes=(0, 1))
        yield EventSet(f"Joplin thinned to {percent(share)}", CHOSEN, _JOPLIN, both, share=share)
    for positive, half in ((4, CHOSEN), (6, CHOSEN), (2, REPORTED), (8, REPORTED)):
        for share in (0.2, 0.05, 0.01):
            yield EventSet(
                f"FMNIST {positive} at {percent(share)}", half, _FMNIST, partial(fmnist, positive=positive), 5, share,
                most_undamaged=N_UNDAMAGED_FMNIST, augmentation=augment.NATURAL,
            )  # fmt: skip
    yield EventSet("Sample", CHOSEN, "", sample, 5)


SETS = {each.name: each for each in _make()}
"""All sets by name, in the order of the table."""
