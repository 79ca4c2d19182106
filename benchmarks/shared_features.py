"""Filters without imagery of any agency: made from the sample event, and what they cost beside each project's own patches.

`python -m benchmarks.shared_features make` writes pu_geo/features/shared_filters.safetensors from sample_data. Another machine may
round otherwise while it makes them: what counts are the numbers in that file, whose sha256 a test holds.
`python -m benchmarks.shared_features run CACHE`, of the folder that `benchmarks.ranking prepare` filled, adds to benchmarks/outcomes/shared_features.jsonl what is not there yet, and
`python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor

from benchmarks import ranking_sources
from benchmarks.kept import Kept, bootstrap, row, table
from benchmarks.ranking import METHODS, Event
from benchmarks.ranking_sets import CHOSEN, REPORTED, Source
from pu_geo.analysis import estimates, metrics, ranker
from pu_geo.features import shared
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.features.shared import SharedBank
from pu_geo.methods import catalog, fedaws
from pu_geo.training.data import UNKNOWN, FeatureViews, PUData
from pu_geo.training.run import Run

SAMPLE = Path(__file__).resolve().parent.parent / "sample_data"
N_DRAWS, CLICKS, N_CARRIED = 5, (10, 30), 30
LEAST_LEFT, CLICKS_OF_TYPE = 20, 20
OWN, SHARED = "own patches", "shared"
CANDIDATES = (OWN, SHARED, "sample, fixed", "sample, own whitening", "noise, whitened", "noise")
"""As docs/tables.md describes them."""
Chips, Bools = NDArray[np.uint8], NDArray[np.bool_]
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Place:
    """One set of chips: a project of its own.

    Attributes:
        source: what `benchmarks.ranking prepare` calls these chips.
        scene: of these chips alone; None for all.
        is_flat: with a third of the contrast, as an agency may stretch its scenes.
    """

    name: str
    source: str
    scene: int | None = None
    is_flat: bool = False


JOPLIN_0, JOPLIN_1 = (Place(f"Joplin, scene {k}", "joplin", k) for k in (0, 1))
SANTA_ROSA, MATTHEW = Place("Santa Rosa", "santa_rosa_a"), Place("Matthew", "matthew_wind")
FLAT = tuple(replace(one, name=f"{one.name}, flat", is_flat=True) for one in (JOPLIN_0, SANTA_ROSA))
ROLES = dict.fromkeys((JOPLIN_0, SANTA_ROSA, *FLAT), CHOSEN) | dict.fromkeys((JOPLIN_1, MATTHEW), REPORTED)
CARRIED = (
    (JOPLIN_0, SANTA_ROSA, CHOSEN),
    (SANTA_ROSA, JOPLIN_0, CHOSEN),
    (JOPLIN_1, MATTHEW, REPORTED),
    (MATTHEW, JOPLIN_1, REPORTED),
)
FEDERATIONS = ((JOPLIN_0, JOPLIN_1), (JOPLIN_1, JOPLIN_0))


@dataclass(frozen=True)
class Outcome:
    """One ranking of one draw of clicks.

    Attributes:
        measure: what ranks, with how many clicks.
        where: whose unlabeled chips the figures are of.
    """

    measure: str
    where: str
    role: str
    candidate: str
    seed: int
    ap: float
    auc: float


KEPT = Kept("shared_features", Outcome, "candidate seed")


def sample_chips() -> Chips:
    """Cut the chips of the sample event, uint8 [1600, 6, 64, 64]."""
    return ranking_sources.cut([SAMPLE], "footprints.geojson")["chips"].astype(np.uint8)


def made(chips: Chips) -> Mapping[str, NDArray[np.floating]]:
    """Return filters and biases for both dates and for post, chosen from chips, uint8 [N, 6, H, W]."""
    found: dict[str, NDArray[np.floating]] = {}
    for dates, n_bands in shared.N_BANDS.items():
        bands = np.arange(6 - n_bands, 6)
        bank = RcfBank.fit(chips, torch.Generator().manual_seed(FEATURE_SEED), bands=bands)
        found[f"{dates}.filters"] = bank.filters.numpy().astype(np.float16)
        found[f"{dates}.bias"] = bank.bias.numpy()
    return found


# Candidates


@dataclass(frozen=True)
class Patches:
    """Patches of chips, float [n, C * 5 * 5] around their mean, what whitens them, and statistics of the bands."""

    centered: Tensor
    mean: Tensor
    whiten: Tensor
    band_mean: Tensor
    band_std: Tensor

    @classmethod
    def of(cls, chips: Chips) -> Patches:
        """Draw them as `RcfBank.fit` does."""
        settings, generator = RcfSettings(), torch.Generator().manual_seed(FEATURE_SEED)
        images = torch.from_numpy(chips).float()
        band_mean, band_std = images.mean((0, 2, 3)), images.std((0, 2, 3)).clamp_min(1e-3)
        images = (images - band_mean[:, None, None]) / band_std[:, None, None]
        n, side = settings.n_patches, settings.size_px
        which = torch.randint(len(images), (n,), generator=generator).tolist()
        top, left = (torch.randint(images.shape[2] - side + 1, (n,), generator=generator).tolist() for _ in range(2))
        each = [images[i, :, y : y + side, x : x + side].reshape(-1) for i, y, x in zip(which, top, left, strict=True)]
        patches = torch.stack(each)
        centered = patches - patches.mean(0)
        values, vectors = torch.linalg.eigh(centered.T @ centered / n)
        values = values.clamp_min(0) + settings.whitening * values.mean() + 1e-8
        return cls(centered, patches.mean(0), vectors @ torch.diag(values.rsqrt()) @ vectors.T, band_mean, band_std)


def bank_of(candidate: str, chips: Chips, sample: Patches) -> RcfBank:
    """Make a candidate's filters for the chips of a project."""
    if candidate == OWN:
        return RcfBank.fit(chips, torch.Generator().manual_seed(FEATURE_SEED))
    if candidate == SHARED:
        return SharedBank.of("both").measured(chips)
    if candidate == "sample, fixed":
        return replace(SharedBank.of("both"), band_mean=sample.band_mean, band_std=sample.band_std)
    settings, here = RcfSettings(), Patches.of(chips)
    if candidate == "sample, own whitening":
        filters = sample.centered[: settings.n_filters] @ here.whiten @ here.whiten
    else:
        drawn = np.random.Generator(np.random.PCG64(7)).standard_normal((settings.n_filters, len(here.mean)))
        filters = torch.from_numpy(drawn.astype(np.float32))
        filters = filters @ sample.whiten if candidate == "noise, whitened" else filters
    filters = filters / (here.centered @ filters.T).std(0).clamp_min(1e-6)[:, None]
    shape = (settings.n_filters, chips.shape[1], settings.size_px, settings.size_px)
    return RcfBank(
        filters.view(shape), -(filters @ here.mean), here.band_mean, here.band_std, settings.stride_px, settings.threshold
    )


# Measures


class Bench:
    """Chips and features that several measures share."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        if not (cache / "sample.npz").exists():
            np.savez(cache / "sample.npz", chips=sample_chips())
        with np.load(cache / "sample.npz", allow_pickle=False) as kept:
            self.sample = Patches.of(kept["chips"])
        self.table, self.bank = lru_cache(maxsize=None)(self._table), lru_cache(maxsize=8)(self._bank)
        self.described = lru_cache(maxsize=32)(self._described)

    def _table(self, place: Place) -> ranking_sources.Table:
        with np.load(self.cache / f"{place.source}.npz", allow_pickle=False) as kept:
            found = {name: kept[name] for name in ("chips", "damage", "is_damaged", "scene", "xy_m")}
        if place.scene is not None:
            found = {name: values[found["scene"] == place.scene] for name, values in found.items()}
        if place.is_flat:
            found["chips"] = (found["chips"].astype(np.float32) * 0.3 + 15).round()
        return {**found, "chips": found["chips"].astype(np.uint8)}

    def _bank(self, candidate: str, *places: Place) -> RcfBank:
        return bank_of(candidate, np.concatenate([self.table(place)["chips"] for place in places]), self.sample)

    def _described(self, place: Place, candidate: str, *fitted_to: Place, n_views: int = N_VIEWS) -> NDArray[np.float16]:
        """Describe the chips of a place by the filters that a candidate has for some places, float16 [V, N, D]."""
        bank = self.bank(candidate, *(fitted_to or (place,)))
        return bank.transform(self.table(place)["chips"], n_views, seed=FEATURE_SEED, device=_CPU)

    def source(self, place: Place, candidate: str) -> Source:
        table = self.table(place)
        return Source(table["is_damaged"], self.described(place, candidate), table["scene"], table["xy_m"])


def is_asked(candidate: str, place: Place, role: str) -> bool:
    """Return whether a candidate is measured there: all are where one was chosen, the chosen one and own patches everywhere."""
    return candidate in (OWN, SHARED) or (role == CHOSEN and (not place.is_flat or candidate == "sample, fixed"))


def clicked(is_wanted: Bools, n: int, seed: int) -> Bools:
    """Draw n of the wanted chips."""
    found = np.zeros(len(is_wanted), np.bool_)
    found[np.random.default_rng([seed, n]).choice(np.flatnonzero(is_wanted), n, replace=False)] = True
    return found


def rankings(bench: Bench, candidate: str, seed: int) -> Iterator[Outcome]:
    """Rank each project by its own clicks, with the linear ranker and with the default."""
    for place, role in ROLES.items():
        if not is_asked(candidate, place, role):
            continue
        source = bench.source(place, candidate)
        for n in CLICKS:
            if source.is_damaged.sum() - n < LEAST_LEFT:
                continue
            is_positive = clicked(source.is_damaged, n, seed)
            event = Event(source, np.arange(len(is_positive)), is_positive, seed)
            for method, title in (("linear", "linear ranker"), ("default", "propagation")):
                scores = np.asarray(METHODS[method](event))
                yield _outcome(f"{title}, {n} clicks", place, role, candidate, seed, scores, source.is_damaged, ~is_positive)


def carried(bench: Bench, candidate: str, seed: int) -> Iterator[Outcome]:
    """Rank one project by the clicks of another: filters as they went with the model, or measured anew where they can be."""
    for there, here, role in CARRIED:
        if not is_asked(candidate, here, role):
            continue
        truth_there, truth = (bench.table(place)["is_damaged"] for place in (there, here))
        known = bench.described(there, candidate)[0].astype(np.float32)
        mean, spread = known.mean(0), known.std(0)
        ranking, _ = estimates.fit_with_estimate(ranker.prepare(known), clicked(truth_there, N_CARRIED, seed))
        kinds = {"as trained": there, **({"of the bands here": here} if candidate == SHARED else {})}
        for kind, fitted_to in kinds.items():
            found = bench.described(here, candidate, fitted_to, n_views=1)[0].astype(np.float32)
            scores = ranking.scores((found - mean) / np.where(spread > 1e-6, spread, np.inf))
            where = replace(here, name=f"{there.name} to {here.name}")
            measure = f"linear ranker, {N_CARRIED} clicks elsewhere, statistics {kind}"
            yield _outcome(measure, where, role, candidate, seed, scores, truth, np.ones(len(truth), np.bool_))


def federated(bench: Bench, candidate: str, seed: int) -> Iterator[Outcome]:
    """Train FedAwS of two projects, each with its own statistics: "destroyed" and the rest of one, "major-damage" of the other.

    Own patches are those of both together, as if the projects showed each other their chips.
    """
    if candidate not in (OWN, SHARED):
        return
    for first, second in FEDERATIONS:
        tables = [bench.table(place) for place in (first, second)]
        together = (first, second) if candidate == OWN else ()
        parts = [bench.described(place, candidate, *together) for place in (first, second)]
        views = np.concatenate([_standardised(part) for part in parts], axis=1)
        known, is_positive = [], []
        for number, (each, damage) in enumerate(zip(tables, ("destroyed", "major-damage"), strict=True)):
            is_clicked = clicked(each["damage"] == damage, CLICKS_OF_TYPE, seed)
            known.append(np.where(is_clicked, number + 1, UNKNOWN))
            is_positive.append(is_clicked)
        is_second = np.repeat([False, True], [len(table["damage"]) for table in tables])
        every = np.concatenate(is_positive)
        data = PUData(
            FeatureViews(views), every, is_second & ~every, known_class=np.concatenate(known),
            class_names=("not damaged", "destroyed", "major-damage"),
        )  # fmt: skip
        settings = catalog.settings_for("fedaws", "quick", {})
        scores = fedaws.fit(data, settings, Run(_CPU, seed)).score(views)  # type: ignore[arg-type]
        for place, each, is_here in zip((first, second), tables, (~is_second, is_second), strict=True):
            where = replace(place, name=f"{place.name} (destroyed and rest: {first.name})")
            yield _outcome(
                f"FedAwS, {CLICKS_OF_TYPE} clicks a type", where, REPORTED, candidate, seed, scores[is_here], each["is_damaged"], ~every[is_here]
            )  # fmt: skip


def _standardised(views: NDArray[np.float16]) -> NDArray[np.float32]:
    """Scale the features of one project by its own mean and spread, over all its chips."""
    plain = views[0].astype(np.float32)
    spread = plain.std(0)
    return np.asarray((views.astype(np.float32) - plain.mean(0)) / np.where(spread > 1e-6, spread, np.inf))


def _outcome(
    measure: str, place: Place, role: str, candidate: str, seed: int, scores: NDArray[np.floating], truth: Bools, is_open: Bools
) -> Outcome:  # fmt: skip
    own, wanted = scores[is_open], truth[is_open]
    ap, auc = metrics.average_precision(own, wanted), metrics.auc(own, wanted)
    return Outcome(measure, place.name, role, candidate, seed, round(ap, 5), round(auc, 5))


def run(cache: Path) -> None:
    """Do what is not kept yet, candidate by candidate."""
    bench = Bench(cache)
    for candidate, seed in itertools.product(CANDIDATES, range(N_DRAWS)):
        measures = (measure(bench, candidate, seed) for measure in (rankings, carried, federated))
        KEPT.once((candidate, seed), partial(itertools.chain.from_iterable, measures))


# The table


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    found, rows = KEPT.read(), []
    draws: dict[tuple[str, str, str], dict[int, Outcome]] = {}
    for each in found:
        draws.setdefault((each.measure, each.where, each.candidate), {})[each.seed] = each
    for role in (CHOSEN, REPORTED):
        for measure, where in dict.fromkeys((each.measure, each.where) for each in found if each.role == role):
            base = draws[
                measure.replace("of the bands here", "as trained"), where, OWN
            ]  # own patches are as they were trained
            own = (base if name == OWN else draws.get((measure, where, name), {}) for name in CANDIDATES)
            rows.append(row(where, role, measure, len(base), *(_cell(each, base) for each in own)))
    return [table(" | ".join(("chips", "part", "measure", "draws", *CANDIDATES)), rows)]


def _cell(draws: Mapping[int, Outcome], base: Mapping[int, Outcome]) -> str:
    """Write mean AP / AUC, and the paired difference in AP from own patches."""
    if not draws:
        return ""
    words = f"{np.mean([each.ap for each in draws.values()]):.3f} / {np.mean([each.auc for each in draws.values()]):.3f}"
    gains = np.array([draws[seed].ap - base[seed].ap for seed in sorted(draws) if seed in base])
    if not gains.any():
        return words
    low, high = bootstrap(gains)
    return f"{words} ({gains.mean():+.3f} [{low:+.3f}, {high:+.3f}])"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("cache", nargs="?", type=Path, help="what `benchmarks.ranking prepare` made")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "run":
        if options.cache is None:
            parser.error("CACHE is missing.")
        run(options.cache)
    else:
        shared.FILE.write_bytes(save(dict(made(sample_chips()))))
