"""What the estimators take and reach: time on one thread and on all, and F1 at the first threshold and at the true number.

`python -m benchmarks.estimators threads` compares NcPU quick on 500 x 16 with one thread and with the default number, each in a
process of its own. `python -m benchmarks.estimators thresholds FOLDER_OF_DATA` adds to benchmarks/outcomes/first_threshold.jsonl
what is not there yet; `python -m benchmarks.tables` writes the table. The folder holds joplin_xbd.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.ranking_sources import joplin
from pu_geo.analysis import estimates, metrics
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.methods import catalog
from pu_geo.methods.estimators import ALL, NcPU, PURanker

KEPT = Path(__file__).resolve().parent / "outcomes" / "first_threshold.jsonl"
N_CLICKS, N_DRAWS = 30, 5
ENOUGH = 0.8
NAMES = tuple(name for name in catalog.ESTIMATORS if name != "PUPL" and not (name in ALL and ALL[name].card.min_not_damaged))
_WORDS = f"""## First threshold: Joplin, {N_CLICKS} clicks

Both scenes, {N_DRAWS} draws of {N_CLICKS} damaged buildings at random; all others are ranked and judged, presets `quick` by the
estimators. At the true number: the k highest scores are called damaged, where k is how many are, so that F1, precision and recall are
one number; calling all damaged gives .73. At `threshold_`: k is `start_k_`, here half of the chips, the most that are flagged at first.
At 0.5: a method's own boundary. The last column has what clicks suggest, which only a benchmark may show: here the truth is known.

`python -m benchmarks.estimators thresholds FOLDER_OF_DATA`

| estimator | draws | AUC | F1 at the true number | draws of .8 or more | F1 at `threshold_` | F1 at 0.5 | share, suggested / true |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Outcome:
    """One estimator on one draw; figures are of the unlabeled chips, F1 at three thresholds."""

    name: str
    draw: int
    auc: float
    at_true_number: float
    at_threshold: float
    at_half: float
    suggested: float
    share: float


def f1(is_called: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """Return F1 of what is called damaged; 0 where nothing is."""
    return float(2 * (is_called & truth).sum() / max(is_called.sum() + truth.sum(), 1))


def outcome_of(name: str, draw: int, views: NDArray[np.float16], is_damaged: NDArray[np.bool_]) -> Outcome:
    """Click, fit, and judge the chips that were not clicked."""
    clicks = np.random.default_rng(draw).choice(np.flatnonzero(is_damaged), N_CLICKS, replace=False)
    y = np.zeros(len(is_damaged), np.int64)
    y[clicks] = 1
    model = PURanker() if name == "PURanker" else ALL[name](preset="quick", random_state=draw, device="cpu")
    scores, truth = model.fit(views, y).decision_function(views)[y == 0], is_damaged[y == 0]
    share = estimates.share_to_start_from(np.asarray(views[0], np.float32), y == 1)
    at_true = scores >= np.sort(scores)[::-1][truth.sum() - 1]
    figures = (
        metrics.auc(scores, truth),
        f1(at_true, truth),
        f1(scores >= model.threshold_, truth),
        f1(scores >= 0.5, truth),
    )
    return Outcome(name, draw, *(round(each, 4) for each in (*figures, share or 0.0, float(truth.mean()))))


def read_kept(path: Path = KEPT) -> list[Outcome]:
    """Read what was done before."""
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def run_thresholds(folder: Path, names: Iterable[str], kept: Path = KEPT) -> None:
    """Do what is not kept yet."""
    table, done = joplin(folder), {(each.name, each.draw) for each in read_kept(kept)}
    chips, is_damaged = table["chips"].astype(np.uint8), table["is_damaged"].astype(np.bool_)
    bank = fit_default(chips)
    views = bank.transform(chips, N_VIEWS, seed=FEATURE_SEED, device=torch.device("cpu"))
    for name in names:
        for draw in range(N_DRAWS):
            if (name, draw) in done:
                continue
            found = outcome_of(name, draw, views, is_damaged)
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
            print(found, flush=True)


def section(outcomes: Sequence[Outcome] | None = None) -> str:
    """Return the section of docs/tables.md; "" without outcomes."""
    outcomes = read_kept() if outcomes is None else outcomes
    lines = [_WORDS]
    for name in NAMES:
        own = [each for each in outcomes if each.name == name]
        if own:
            cells = [_spread([getattr(each, field) for each in own]) for field in ("auc", "at_true_number")]
            n = sum(each.at_true_number >= ENOUGH for each in own)
            cells += [str(n), *(_spread([getattr(each, field) for each in own]) for field in ("at_threshold", "at_half"))]
            shares = f"{np.mean([each.suggested for each in own]):.2f} / {np.mean([each.share for each in own]):.2f}"
            lines.append(f"| {name} | {len(own)} | {' | '.join(cells)} | {shares} |")
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def seconds_of_fit(*, is_capped: bool) -> float:
    """Fit NcPU quick on 500 chips with 16 features in 5 views; without the cap, on as many threads as torch takes."""
    draw = np.random.default_rng(0)
    views = draw.normal(size=(5, 500, 16)).astype(np.float32)
    y = np.arange(500) < 30
    began = time.perf_counter()
    with nullcontext() if is_capped else mock.patch("pu_geo.training.threads.torch.set_num_threads"):
        NcPU(preset="quick", device="cpu").fit(views, y).decision_function(views)
    return time.perf_counter() - began


def run_threads() -> None:
    """Print the times of both, each in a process of its own, and their ratio."""
    times = {}
    for words in ("capped", "default"):
        command = [sys.executable, "-m", "benchmarks.estimators", "one", words]
        times[words] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ratio = times["default"] / times["capped"]
    print(f"NcPU quick, 500 x 16: {times['capped']:.1f} s; without the cap, on {torch.get_num_threads()} threads, "
          f"{times['default']:.1f} s ({ratio:.1f} times as long).")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("threads", "thresholds", "one"))
    parser.add_argument("rest", nargs="?", help="folder of data")
    parser.add_argument("--names", default=",".join(NAMES), help="estimators, with commas between")
    options = parser.parse_args(arguments)
    if options.what == "threads":
        run_threads()
    elif options.what == "one":
        print(seconds_of_fit(is_capped=options.rest == "capped"))
    elif options.rest is None:
        parser.error("FOLDER_OF_DATA is missing.")
    else:
        run_thresholds(Path(options.rest), options.names.split(","))


if __name__ == "__main__":
    main()
