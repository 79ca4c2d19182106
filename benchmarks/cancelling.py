"""How fast does a training leave once it is cancelled? Jobs on the sample event are cancelled at random moments.

`python -m benchmarks.cancelling --moments 3` takes all methods from the chips, by each of their presets, and the search for
further kinds. Epochs are few, so that random moments fall into every stage; batches are as large as the preset has them. Printed
are the slowest, and whether each left by itself ("clean") or was ended by force.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo import jobs
from pu_geo.cli.project import DAMAGED, N_CLICKS
from pu_geo.cli.run import run_job
from pu_geo.jobs import control, status
from pu_geo.methods import catalog
from pu_geo.project import events, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.project import projects

SHORT = {"epochs": 2, "pretrain_epochs": 1, "rounds": 2}


@dataclass(frozen=True)
class Left:
    """One cancelled job.

    Attributes:
        seconds: from the cancel until its lock was free.
        is_clean: it noted the cancel itself, its state is cancelled, and the project has no half-written run.
        doing: what it had reported last.
    """

    name: str
    seconds: float
    is_clean: bool
    doing: str


def asked_for(only: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield name, task and arguments of what is cancelled."""
    for method, card in catalog.METHODS.items():
        for preset in card.presets if len(card.presets) > 1 else ():
            fields = {name for name in SHORT if name in card.settings.__dataclass_fields__}
            overrides = {name: SHORT[name] for name in fields if preset != "quick" or name != "pretrain_epochs"}
            yield f"{method} {preset}", "train", {"method": method, "preset": preset, "overrides": overrides}
    if not only:
        yield "discover standard", "discover", {"preset": "standard"}


def cancelled_at(layout: Layout, name: str, task: str, args: Mapping[str, Any], seconds: float) -> Left | None:
    """Cancel a job so many seconds after its start; None if it was done before."""
    folder = layout.jobs / jobs.start(layout, task, args)
    time.sleep(seconds)
    if not (job := jobs.view(folder)).is_active:
        return None
    began = time.monotonic()
    (folder / status.CANCEL).touch()
    while jobs.is_alive(folder):
        if time.monotonic() - began > control.PATIENCE_S:
            jobs.end_overdue(folder)
        time.sleep(0.02)
    left, kinds = time.monotonic() - began, [event["event"] for event in events.read(folder)]
    if "done" in kinds:
        return None
    whole = {facts.run_id for facts in store.call(layout, runs.all_runs)}
    halves = {path.name for path in (layout.folder / "runs").glob("*")} - whole
    is_clean = "cancelled" in kinds and jobs.view(folder).state == "cancelled" and not halves
    return Left(name, left, is_clean, job.message)


def main() -> None:
    """Cancel each several times, and print the slowest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=3)
    parser.add_argument("--longest", type=float, default=60.0, help="moments are drawn from 2 s up to this")
    parser.add_argument("--only", default="", help="a part of the name, as in 'pucl paper'")
    chosen, draw = parser.parse_args(), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        layout = store.create(Path(folder) / "sample.pugeo", "sample")
        run_job(layout, "prepare", projects.sample_arguments(), True)
        for values, label in ((DAMAGED, "positive"), (("no-damage",), "not_damaged")):
            labeling.simulate(layout, field="damage", values=values, count=N_CLICKS, seed=0, analyst="trial", label=label)
        found: list[Left] = []
        for name, task, args in asked_for(chosen.only):
            for seconds in draw.uniform(2, chosen.longest, chosen.moments) if chosen.only in name else ():
                left = cancelled_at(layout, name, task, args, float(seconds))
                if left is not None:
                    print(
                        f"{left.seconds:5.2f} s {'clean' if left.is_clean else 'FORCED'}  {name}  {left.doing}", flush=True
                    )
                    found.append(left)
    slowest = sorted(found, key=lambda left: -left.seconds)[:5]
    clean = sum(left.is_clean for left in found)
    print(
        f"{clean} of {len(found)} left by themselves; slowest: " + ", ".join(f"{x.name} {x.seconds:.2f} s" for x in slowest)
    )


if __name__ == "__main__":
    main()
