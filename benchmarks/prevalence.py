"""One default for both ends of prevalence? Methods against the instant ranker where 0.5 % to 70 % are damaged.

`python -m benchmarks.prevalence FOLDER_OF_DATA` adds to benchmarks/outcomes/prevalence.jsonl what is not there yet;
`python -m benchmarks.tables` writes the table. The folder holds harvey_chips, joplin_xbd and fashion_mnist; sets of files
that are not there are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.prevalence_sets import CLICKS, SETS, Event, EventSet, Source
from benchmarks.prevalence_table import KEPT, RANKER, Outcome, keep, read_kept, section
from benchmarks.prevalence_variants import OF, VARIANTS, Variant, varied
from pu_geo.analysis import estimates, metrics, ranker
from pu_geo.errors import PuGeoError
from pu_geo.features import rcf
from pu_geo.methods import catalog
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

METHODS = (RANKER, "propagation", "ncpu", "pucl", "ncl")
PRESET = "quick"
_CPU = torch.device("cpu")


def made_with(method: str) -> str:
    """Name the settings of a method and of the features.

    Raises:
        TrainingError: if the catalog has no such method, or it no preset quick.
    """
    variant = VARIANTS.get(method, Variant())
    settings = {} if method == RANKER else asdict(catalog.settings_for(_name(method), PRESET, variant.settings))
    text = json.dumps([settings, asdict(rcf.RcfSettings())], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def views_of(chips: NDArray[np.uint8], one: EventSet, seed: int) -> NDArray[np.float16]:
    """Make features as a project does, float16 [V, N, D]."""
    settings = rcf.RcfSettings()
    bank = rcf.RcfBank.fit(chips, torch.Generator().manual_seed(seed))
    return bank.transform(chips, settings.n_views, seed=seed, device=_CPU, augmentation=one.augmentation)


def scored(
    method: str, views: NDArray[np.float16], is_positive: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.floating], float | None]:
    """Learn from clicks and score all chips, float [N]; the ranker tells the share that it estimates, too."""
    if method == RANKER:
        return estimates.rank_with_estimate(ranker.prepare(views[0]), is_positive)
    data = PUData(FeatureViews(views), is_positive, np.zeros(len(is_positive), np.bool_))
    name, variant = _name(method), VARIANTS.get(method, Variant())
    with varied(variant):
        model = catalog.load_fit(name)(data, catalog.settings_for(name, PRESET, variant.settings), Run(_CPU, seed))
    return model.score(views), None


def _name(method: str) -> str:
    return OF if method in VARIANTS else method


def outcomes_of(one: EventSet, source: Source, seed: int, wanted: Sequence[tuple[int, str]]) -> Iterator[Outcome]:
    """Do some (clicks, method) on one draw, with the same features; they are made before clicked chips are left out."""
    event = one.draw(source, seed)
    views = views_of(np.ascontiguousarray(source.chips[event.rows]), one, seed)
    for clicks, method in wanted:
        yield _outcome(one.name, event, views, clicks, method, seed)


def _outcome(name: str, event: Event, views: NDArray[np.float16], clicks: int, method: str, seed: int) -> Outcome:
    rows, is_positive = event.clicked(clicks)
    own = np.ascontiguousarray(views[:, rows])
    began = time.process_time()
    scores, estimate = scored(method, own, is_positive, seed)
    seconds = time.process_time() - began
    open_scores, truth = scores[~is_positive], event.is_damaged[rows][~is_positive]
    return Outcome(
        name, clicks, seed, method, made_with(method), len(truth), int(truth.sum()),
        round(metrics.average_precision(open_scores, truth), 5), round(metrics.auc(open_scores, truth), 5),
        None if estimate is None else round(estimate, 5), round(seconds, 2),
    )  # fmt: skip


def run(folder: Path, names: Sequence[str], methods: Sequence[str], n_seeds: int, kept: Path) -> None:
    """Do what is not kept yet, one event at a time."""
    digests = {method: made_with(method) for method in methods}
    there = {each.key for each in read_kept(kept)}
    for name in names:
        one = SETS[name]
        if not (folder / one.needs).exists():
            print(f"{name}: left out, there is no {one.needs} in {folder}.", flush=True)
            continue
        for seed in range(min(n_seeds, one.n_seeds)):
            asked = [(clicks, method) for clicks in CLICKS for method in methods]
            wanted = [each for each in asked if (name, each[0], seed, each[1], digests[each[1]]) not in there]
            if not wanted:
                continue
            for made in outcomes_of(one, one.read(folder), seed, wanted):
                keep(made, kept)
                print(
                    f"{name}, {made.clicks} clicks, seed {seed}, {made.method}: "
                    f"AP {made.ap:.3f}, AUC {made.auc:.3f}, {made.seconds:.1f} s", flush=True
                )  # fmt: skip


def chosen_sets(asked: str) -> list[str]:
    """Return the sets that are named, or whose names begin like that, in the order of the table; all for "".

    Raises:
        PuGeoError: if one is unknown.
    """
    found = set()
    for word in filter(None, (each.strip().lower() for each in asked.split(","))):
        exact = {name for name in SETS if name.lower() == word}
        own = exact or {name for name in SETS if name.lower().startswith(word)}
        if not own:
            raise PuGeoError(f"There is no set {word!r}; there are {', '.join(SETS)}.", "Correct --sets.")
        found |= own
    return [name for name in SETS if name in found or not asked]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; do what is asked for and not kept, or print the section of the outcomes alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="holds harvey_chips, joplin_xbd and fashion_mnist")
    parser.add_argument("--methods", default=",".join(METHODS), help="of the catalog, or ranker; with commas between")
    parser.add_argument("--ablation", action="store_true", help="do the variants of the default as well")
    parser.add_argument("--sets", default="", help="names of sets, or how they begin, with commas between; all if empty")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of a set at most; a set has 4 to 10")
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of outcomes")
    parser.add_argument("--only-report", action="store_true", help="print the section of docs/tables.md, do nothing else")
    options = parser.parse_args(arguments)
    if options.only_report:
        print(section(read_kept(options.kept)))
        return
    if options.folder is None:
        parser.error("FOLDER_OF_DATA is missing.")
    torch.set_num_threads(1)
    methods = list(dict.fromkeys(each.strip() for each in options.methods.split(",")))
    methods += VARIANTS if options.ablation else []
    try:
        run(options.folder, chosen_sets(options.sets), methods, options.seeds, options.kept)
    except PuGeoError as error:
        parser.error(f"{error.problem} {error.hint}")


if __name__ == "__main__":
    main()
