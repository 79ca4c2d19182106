"""Does the comparison on an analyst's own clicks pick good features? Simulated on sets of which the damage is known.

`python -m benchmarks.bakeoff prepare FOLDER` computes the candidates' features of the sets that `benchmarks.ranking prepare` left in
a folder, `python -m benchmarks.bakeoff run FOLDER` adds to benchmarks/outcomes/bakeoff.jsonl what is not there yet, and
`python -m benchmarks.tables` writes the section of docs/tables.md.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.kept import Kept, row, table
from benchmarks.ranking_sets import CHOSEN, CONFOUNDED, LEAST_LEFT, Cell, Source, read_source
from pu_geo.analysis import bakeoff, metrics
from pu_geo.features.bank import fit_maker
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.records import FeatureRequest, PUSet
from pu_geo.runs import compare_features_job as product
from pu_geo.runs.inputs_job import RunInputs

SETS: Mapping[str, float | None] = {
    "joplin": None,
    "santa_rosa_a": None,
    "matthew_wind": None,
    "harvey_a": 0.05,
    "harvey_d": 0.2,
}
CLICKS, N_SEEDS = (10, 20, 30, 40, 60), 20
RCF = "rcf"
LEVELS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
NEAR, HARM = 0.02, 0.03  # average precision that a pick may be behind the best one, and behind RCF
_AT_ONCE = 64


@dataclass(frozen=True)
class Outcome:
    """One draw of chips and clicks.

    Attributes:
        candidates: of each feature set {"ap": average precision of the ranker that learned from all clicks, on the unlabeled;
            "seconds": of processor time, of all fits without some clicks; "log_places": of each click, see `analysis.bakeoff.log_places`}
    """

    event_set: str
    clicks: int
    seed: int
    method: str
    n_unlabeled: int
    n_damaged: int
    candidates: Mapping[str, Mapping[str, Any]]

    def picked(self, level: float = bakeoff.LEVEL) -> str:
        """Return what the rule picks, however few clicks there are; at level 0 any better mean, at 1 RCF."""
        if level == 1:
            return RCF
        by_name = {name: np.array(each["log_places"]) for name, each in self.candidates.items()}
        differences = {name: bakeoff.bootstrap(each - by_name[RCF], level) for name, each in by_name.items()}
        return bakeoff.pick(differences) or RCF


KEPT = Kept("bakeoff", Outcome, "event_set clicks seed method")


def cell(name: str, clicks: int) -> Cell:
    """Return the cell of a set."""
    is_harvey = name.startswith("harvey")
    role = CONFOUNDED if is_harvey else CHOSEN
    return Cell(name, role, SETS[name], clicks, undamaged_places=0.75 if is_harvey else None)


# Candidates


def makers(n_bands: int) -> dict[str, Callable[[NDArray[np.uint8]], NDArray[np.float16]]]:
    """Return what computes each candidate's features, [N, C, H, W] to float16 [N, D]; "rcf" itself is there."""

    def learned(chips: NDArray[np.uint8]) -> NDArray[np.float16]:
        request = FeatureRequest("self-supervised", dates="both")
        maker = fit_maker(request, chips, generator=torch.Generator().manual_seed(0), device=torch.device("cpu"))
        return np.asarray(maker.transform(chips, 1, seed=0, device=torch.device("cpu"))[0])

    def rcf(settings: RcfSettings, chips: NDArray[np.uint8]) -> NDArray[np.float16]:
        bank = RcfBank.fit(chips, torch.Generator().manual_seed(0), settings)
        return bank.transform(chips, 1, seed=0, device=torch.device("cpu"))[0]

    found: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.float16]]] = {
        "stride2": lambda chips: rcf(RcfSettings(stride_px=2), chips),
        "dense": lambda chips: rcf(RcfSettings(stride_px=1, whitening=0.03), chips),
        "resnet18_random": random_resnet,
    }
    if n_bands == 6:
        found["post"] = lambda chips: rcf(RcfSettings(), chips[:, 3:])
        found["self_supervised"] = learned
    return found


@torch.inference_mode()
def random_resnet(chips: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Compute what a ResNet-18 that nothing taught makes of chips: [N, 512], of two dates [N, 1536]: pre, post, post - pre."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    network = resnet18(weights=None)
    network.fc = torch.nn.Identity()
    network.eval()
    mean, std = (np.array(each, np.float32)[:, None, None] for each in ((123.675, 116.28, 103.53), (58.4, 57.1, 57.4)))
    parts = []
    for first in range(0, len(chips), _AT_ONCE):
        block = chips[first : first + _AT_ONCE].astype(np.float32)
        dates = network(torch.from_numpy((block.reshape(-1, 3, *block.shape[2:]) - mean) / std)).numpy()
        dates = dates.reshape(len(block), -1, dates.shape[1])
        difference = [dates[:, 1] - dates[:, 0]] if dates.shape[1] == 2 else []
        parts.append(np.concatenate([*dates.swapaxes(0, 1), *difference], axis=1))
    return np.concatenate(parts).astype(np.float16)


def prepare(folder: Path) -> None:
    """Compute features that are not there yet."""
    for name in SETS:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as kept:
            chips = kept["chips"]
        for candidate, make in makers(chips.shape[1]).items():
            path, began = folder / f"bake_{name}_{candidate}.npy", time.monotonic()
            if not path.exists():
                np.save(path, make(chips))
                print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)


def features_of(source: Source, name: str, folder: Path) -> dict[str, NDArray[np.float16]]:
    """Return the features of every candidate that is in the folder, float16 [N, D]; RCF first."""
    found = {RCF: source.views[0]}
    for path in sorted(folder.glob(f"bake_{name}_*.npy")):
        found[path.stem.removeprefix(f"bake_{name}_")] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


# Draws


def judged(
    source: Source, features: Mapping[str, NDArray[np.float16]], where: Cell, seed: int, method: str = "ranker"
) -> Outcome | None:
    """Draw an event and compare the candidates as the product does; None where the cell has too little damage."""
    event = where.draw(source, seed)
    if event is None:
        return None
    rows, is_clicked = event
    is_damaged, nothing = source.is_damaged[rows][~is_clicked], np.zeros(len(rows), np.bool_)
    pu = PUSet([str(row) for row in rows], is_clicked, nothing, nothing, 0)
    found = {}
    for name, each in features.items():
        inputs = RunInputs(where.source, np.asarray(each[rows])[None], pu)
        scores = product.scorer(method, inputs)(nothing)[~is_clicked]
        kept, began = product.drawn(inputs), time.process_time()
        less = product.of_rows(RunInputs(where.source, inputs.views[:, kept], pu), kept)
        places = product.places_by(method, less, np.flatnonzero(is_clicked[kept]))
        seconds = round(time.process_time() - began, 2)
        ap = round(metrics.average_precision(scores, is_damaged), 4)
        found[name] = {"ap": ap, "seconds": seconds, "log_places": np.round(places, 3).tolist()}
    return Outcome(where.source, where.clicks, seed, method, len(is_damaged), int(is_damaged.sum()), found)


def run(folder: Path, method: str, n_seeds: int, clicks: Sequence[int]) -> None:
    """Do the draws that are not kept yet."""
    for name in SETS:
        source = read_source(folder, name)
        features = features_of(source, name, folder)
        for n, seed in itertools.product(clicks, range(n_seeds)):

            def work(given: tuple[Any, ...] = (source, features, cell(name, n), seed, method)) -> list[Outcome]:
                found = judged(*given)
                return [] if found is None else [found]

            KEPT.once((name, n, seed, method), work)


# The tables of docs/tables.md


def tables() -> list[str]:
    """Return the tables of docs/tables.md: of each method picks and candidates, and levels of the first method."""
    found = KEPT.read()
    by_method = [
        [each for each in found if each.method == method] for method in dict.fromkeys(each.method for each in found)
    ]
    pairs = ((_picks(own), _candidates(own)) for own in by_method)
    return [*itertools.chain.from_iterable(pairs), _levels(by_method[0])]


def _picks(found: Sequence[Outcome]) -> str:
    """What the rule picks, by set and number of clicks; a last row for all sets of a number."""
    head = (
        "clicks | set | draws | unlabeled | damaged | another picked | AP of RCF | AP of the pick | AP of the best "
        f"| pick within {NEAR} of the best | worse than RCF by > {HARM} | worst"
    )
    names = [*(name for name in SETS if any(each.event_set == name for each in found)), "all"]
    rows = []
    for clicks, name in itertools.product(sorted({each.clicks for each in found}), names):
        draws = [each for each in found if each.clicks == clicks and name in (each.event_set, "all")]
        if not draws:
            rows.append(row(clicks, name, "0", *["" for _ in range(8)], f"fewer than {LEAST_LEFT} damaged would be left"))
            continue
        damaged = f"{np.mean([each.n_damaged / each.n_unlabeled for each in draws]):.0%}"
        unlabeled = f"{np.mean([each.n_unlabeled for each in draws]):,.0f}"
        about = ("**all**", len(draws), "", "") if name == "all" else (name, len(draws), unlabeled, damaged)
        rows.append(row(clicks, *about, *_figures(draws, bakeoff.LEVEL)))
    return table(head, rows)


def _figures(draws: Sequence[Outcome], level: float) -> list[str]:
    """Return the cells of a row from "another picked" on."""
    picks = [each.picked(level) for each in draws]
    ap = np.array([each.candidates[pick]["ap"] for each, pick in zip(draws, picks, strict=True)])
    rcf = np.array([each.candidates[RCF]["ap"] for each in draws])
    best = np.array([max(one["ap"] for one in each.candidates.values()) for each in draws])
    means = [f"{values.mean():.3f}" for values in (rcf, ap, best)]
    harmed = int((rcf - ap > HARM).sum())
    return [
        f"{np.mean([pick != RCF for pick in picks]):.0%}",
        *means,
        f"{(best - ap <= NEAR).mean():.0%}",
        str(harmed),
        f"{(ap - rcf).min():+.3f}",
    ]


def _candidates(found: Sequence[Outcome]) -> str:
    """Mean AP and typical place of each candidate."""
    names, rows = list(dict.fromkeys(name for each in found for name in each.candidates)), []
    for clicks, event_set in itertools.product(sorted({each.clicks for each in found}), SETS):
        draws = [each.candidates for each in found if (each.clicks, each.event_set) == (clicks, event_set)]
        if draws:
            cells = (_candidate([each[name] for each in draws if name in each]) for name in names)
            rows.append(row(clicks, event_set, *cells))
    return table(" | ".join(("clicks", "set", *names)), rows)


def _candidate(draws: Sequence[Mapping[str, Any]]) -> str:
    if not draws:
        return ""
    place = np.exp(np.mean([np.mean(each["log_places"]) for each in draws])) - bakeoff.FLOOR
    ap, seconds = (np.mean([each[name] for each in draws]) for name in ("ap", "seconds"))
    return f"{ap:.3f} / {place:.0%} / {seconds:.1f} s"


def _levels(found: Sequence[Outcome]) -> str:
    """What other levels of the interval would have given, all sets together."""
    clicks, rows = sorted({each.clicks for each in found}), []
    for level in LEVELS:
        cells = []
        for n in clicks:
            another, _, _, _, near, harmed, worst = _figures([each for each in found if each.clicks == n], level)
            cells.append(f"{near}, {harmed} ({worst}), {another}")
        words = "any better mean" if level == 0 else "RCF always" if level == 1 else f"{level:.0%}"
        rows.append(row(f"**{words}**" if level == bakeoff.LEVEL else words, *cells))
    return table(" | ".join(("level", *(f"{n} clicks" for n in clicks))), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path, help="what `benchmarks.ranking prepare` made")
    parser.add_argument("--method", default="ranker")
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--clicks", type=lambda text: [int(one) for one in text.split(",")], default=list(CLICKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "prepare":
        prepare(options.folder)
    else:
        run(options.folder, options.method, options.seeds, options.clicks)
