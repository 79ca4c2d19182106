"""`pu-geo demo`: every step on the sample event, from imagery to an exported damage map, with its figures."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from pu_geo.cli.run import run_job, say
from pu_geo.errors import PuGeoError
from pu_geo.project import store
from pu_geo.services.annotate import labeling
from pu_geo.services.project import projects
from pu_geo.services.train import training
from pu_geo.tasks.train.evaluate import evaluate

N_CLICKS = 30
DAMAGED = ("destroyed", "major-damage")
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rank", {}),
    ("train", {"method": training.DEFAULT_METHOD, "preset": "quick"}),
    ("train", {"method": "ncpu", "preset": "quick"}),
    ("train", {"method": "pucl", "preset": "quick"}),
)


def run_demo(options: argparse.Namespace) -> None:
    """Do everything on the sample event; print where the map is, and AUC and AP of each method.

    The map that is exported is that of the method which the app recommends.

    Raises:
        PuGeoError: if the folder holds an earlier demo.
    """
    began = time.monotonic()
    folder = Path(options.out).expanduser().resolve()
    if (folder / "sample.pugeo").exists():
        raise PuGeoError(f"{folder} holds a demo already.", "Choose another folder with --out, or remove that one.")
    folder.mkdir(parents=True, exist_ok=True)
    layout = store.create(folder / "sample.pugeo", projects.SAMPLE_NAME)
    run_job(layout, "prepare", projects.sample_arguments(), options)
    labeling.simulate(layout, field="damage", values=DAMAGED, count=N_CLICKS, seed=0, analyst="demo")
    measured = []
    for task, args in STEPS:
        run_id = run_job(layout, task, args, options)["run_id"]
        measured.append(evaluate(layout, run_id, field="damage", positive=DAMAGED))
        row = measured[-1]
        if not options.json:
            say(options, row, f"{row['method']:11} AUC {row['auc']:.3f}  AP {row['ap']:.3f}")
    out = folder / "damage_map.geojson"
    recommended = next(row for row in measured if row["method"] == training.DEFAULT_METHOD)
    args = {"run_id": recommended["run_id"], "format": "geojson", "out": str(out)}
    exported = run_job(layout, "export", args, options)
    seconds = time.monotonic() - began
    result = {"map": str(out), "project": str(layout.folder), "runs": measured, "seconds": round(seconds, 1)}
    words = f"Damage map of {exported['n']} buildings: {out}\nProject: {layout.folder}\nTook {seconds:.0f} s."
    say(options, result, words)
