"""Answers until half, 80 % and 95 % of the damaged buildings are found, by what the queue is mixed of; on real chips.

An analyst who is never wrong starts from three damaged buildings drawn at random, answers queues of 20, and everything is
ranked anew after each, by what was called damaged and what was not. `python -m benchmarks.queue_simulation` prints the table of docs/methods.md in a few minutes; it
needs the folder ../shared (or $PU_GEO_SHARED) with the real chips. Features are kept in the system's temporary folder.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import ranking_sources
from pu_geo.analysis import estimates, ranker
from pu_geo.analysis.queue import Mix, QueueState, next_queue
from pu_geo.features import rcf

SHARED = Path(os.environ.get("PU_GEO_SHARED", Path(__file__).resolve().parents[2] / "shared"))
N_FILTERS = 256
N_START, N_QUEUE, MOST_QUEUES, N_SEEDS = 3, 20, 60, 5
SHARES_FOUND = (0.5, 0.8, 0.95)
MIXES: dict[str, Mix | None] = {
    "random": None,
    "100/0/0": Mix(1, 0, 0),
    "90/0/10": Mix(0.9, 0, 0.1),
    "80/10/10": Mix(0.8, 0.1, 0.1),
    "70/20/10": Mix(0.7, 0.2, 0.1),
    "50/40/10": Mix(0.5, 0.4, 0.1),
    "70/10/20": Mix(0.7, 0.1, 0.2),
    "0/90/10": Mix(0, 0.9, 0.1),
}
DEFAULT = "80/10/10"


@dataclass(frozen=True)
class Event:
    """Chips of an event: features float32 [N, 512], positions in metres float64 [N, 2], and the truth bool [N]."""

    features: NDArray[np.float32]
    xy_m: NDArray[np.float64]
    is_damaged: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> Event:
        return Event(self.features[rows], self.xy_m[rows], self.is_damaged[rows])


def joplin() -> Event:
    """Both scenes, pre and post; major damage and destroyed count, un-classified buildings are dropped."""
    found = ranking_sources.joplin(SHARED / "data")
    return Event(
        described(found["chips"].astype(np.uint8)), found["xy_m"].astype(np.float64), found["is_damaged"].astype(np.bool_)
    )


def harvey() -> Event:
    """Region A, post only: all undamaged chips and 1,000 of the damaged ones."""
    found = ranking_sources.harvey(SHARED / "data" / "harvey_chips" / "region_A.zip")
    is_damaged = found["is_damaged"].astype(np.bool_)
    some = np.random.default_rng(0).choice(np.flatnonzero(is_damaged), 1000, replace=False)
    rows = np.sort(np.concatenate([np.flatnonzero(~is_damaged), some]))
    return Event(described(found["chips"][rows].astype(np.uint8)), found["xy_m"][rows].astype(np.float64), is_damaged[rows])


def described(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Features of the chips as cut, float32 [N, 512]."""
    bank = rcf.RcfBank.fit(pictures, torch.Generator().manual_seed(0), rcf.RcfSettings(n_filters=N_FILTERS))
    return bank.transform(pictures, 1, seed=0, device=torch.device("cpu"))[0].astype(np.float32)


def kept(make: Callable[[], Event]) -> Event:
    """Make an event, or take it from the temporary folder of an earlier call."""
    version = zlib.crc32(Path(rcf.__file__).read_bytes())
    path = Path(tempfile.gettempdir()) / "pu_geo_queue_simulation" / f"{make.__name__}-{version:08x}.npz"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, **vars(make()))
        part.rename(path)
    with np.load(path) as arrays:
        return Event(**arrays)


def thinned(event: Event, share: float, seed: int) -> Event:
    """Keep so many of the damaged chips, others for each seed, that they are `share` of all."""
    undamaged = np.flatnonzero(~event.is_damaged)
    n_damaged = round(share / (1 - share) * len(undamaged))
    chosen = np.random.default_rng(seed).choice(np.flatnonzero(event.is_damaged), n_damaged, replace=False)
    return event.take(np.sort(np.concatenate([undamaged, chosen])))


def answers_needed(event: Event, mix: Mix | None, seed: int, uses_not_damaged: bool = True) -> list[float]:
    """Answers after the first three until each share of all damaged chips is found; inf if beyond the last queue."""
    draw = np.random.default_rng(seed)
    start = draw.choice(np.flatnonzero(event.is_damaged), N_START, replace=False)
    is_answered = np.zeros(len(event.is_damaged), np.bool_)
    is_answered[start] = True
    wanted = np.ceil(np.array(SHARES_FOUND) * event.is_damaged.sum())
    order = (
        draw.permutation(np.flatnonzero(~is_answered))
        if mix is None
        else searched(event, mix, seed, is_answered, wanted[-1], uses_not_damaged)
    )
    found = N_START + np.cumsum(event.is_damaged[order])
    return [float(np.searchsorted(found, n) + 1) if found[-1] >= n else np.inf for n in wanted]


def searched(
    event: Event, mix: Mix, seed: int, is_answered: NDArray[np.bool_], enough: float, uses_not_damaged: bool
) -> NDArray[np.int64]:
    """Answer queue after queue until enough are found; return the rows in the order of the answers."""
    prepared = ranker.prepare(event.features)
    state = QueueState(is_answered, is_answered.copy())
    order: list[int] = []
    for _ in range(MOST_QUEUES):
        is_positive = state.is_answered & event.is_damaged
        if is_positive.sum() >= enough:
            break
        said_no = state.is_answered & ~event.is_damaged if uses_not_damaged else None
        scores, _ = estimates.rank_with_estimate(prepared, is_positive, is_not_damaged=said_no)
        queue = next_queue(scores, prepared.values, event.xy_m, state, mix=mix, n=N_QUEUE, seed=seed)
        order += [item.row for item in queue.items]
        state = replace(queue.state, is_answered=queue.state.is_shown)
    return np.array(order)


def row_of(events: list[list[Event]], mix: Mix | None, uses_not_damaged: bool = True) -> list[str]:
    """For each event "median / median / median (worst)" over the seeds."""
    cells = []
    for per_seed in events:
        needed = np.array([answers_needed(event, mix, seed, uses_not_damaged) for seed, event in enumerate(per_seed)])
        told = [told_count(value) for value in np.median(needed, axis=0)]
        cells.append(f"{' / '.join(told)} ({told_count(needed[:, -1].max())})")
    return cells


def told_count(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else f"> {MOST_QUEUES * N_QUEUE:,}"


def main() -> None:
    if not (SHARED / "data" / "harvey_chips" / "region_A.zip").is_file():
        print(f"skipped: no real chips under {SHARED}; set PU_GEO_SHARED to the folder that has data/harvey_chips.")
        return
    began = time.monotonic()
    flood = kept(harvey)
    sets = {"Joplin 61 %": [kept(joplin)] * N_SEEDS}
    for share in (0.05, 0.01, 0.005):
        sets[f"Harvey {share:.1%}"] = [thinned(flood, share, seed) for seed in range(N_SEEDS)]
    sizes = [f"{name}: {events[0].is_damaged.sum()} of {len(events[0].is_damaged):,}" for name, events in sets.items()]
    print(f"| exploit/explore/audit | {' | '.join(sizes)} |")
    print("|---" * (len(sets) + 1) + "|")
    for name, mix in MIXES.items():
        print(f"| {name} | {' | '.join(row_of(list(sets.values()), mix))} |", flush=True)
    blind = row_of(list(sets.values()), MIXES[DEFAULT], uses_not_damaged=False)
    print(f'| {DEFAULT}, ranker ignores "not damaged" | {" | ".join(blind)} |')
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
