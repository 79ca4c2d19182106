"""Train in a copy of a project, on a machine with torch, torchvision, numpy, scipy, scikit-learn and safetensors alone.

`pu-geo project copy` makes the copy, `pu-geo model apply` takes the run home. Killed, it goes on after its last checkpoint
when it is called again with the same words. Where all of PU-Geo is installed, `pu-geo train` does the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from pu_geo.errors import JobCancelled, PuGeoError, TrainingError
from pu_geo.files import make_folder, sign
from pu_geo.methods import catalog
from pu_geo.records import Facts
from pu_geo.runs.train_job import train
from pu_geo.store import contents, decisions, labels, locks, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, find_project


def main(arguments: Sequence[str] | None = None) -> int:
    """Train by the command line; return 0, 1 if it was stopped, or 2 if it was refused."""
    request = vars(_parser().parse_args(arguments))
    try:
        folder = find_project(request.pop("folder")).folder
        if request.pop("from_elsewhere"):
            sign(folder)
        layout = store.open_project(folder)
        result = _train(layout, {**request, "overrides": dict(request["overrides"])})
    except PuGeoError as error:
        print(error.problem, error.hint, sep="\n", file=sys.stderr)
        return 2
    except (JobCancelled, KeyboardInterrupt):
        print("Stopped. Call it again with the same words to go on.", file=sys.stderr)
        return 1
    print(f"Done. Where the project is: pu-geo model apply PROJECT {layout.folder.name}/runs/{result['run_id']}")
    return 0


def _train(layout: Layout, request: dict[str, Any]) -> Facts:
    """Train in a folder of its own, named after the request and what it learns from; the app lists no job without a spec."""
    with store.connect(layout) as db:
        learned = [contents.latest_chip_set(db), labels.last_event(db), decisions.last_decision(db)]
    digest = hashlib.sha256(json.dumps([request, learned], sort_keys=True).encode()).hexdigest()
    folder = layout.jobs / f"alone-{digest[:12]}"
    make_folder(folder)
    lock = locks.take(folder / locks.JOB_LOCK)
    if lock is None:
        raise TrainingError("This training is running already.", "Wait for it, or choose another seed.", kind="running")
    try:
        return train(Job(layout, folder, partial(print, flush=True)), **request)
    finally:
        os.close(lock)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return name.strip(), value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m pu_geo.runs", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="copy of a project")
    parser.add_argument("--method", default=catalog.DEFAULT_METHOD, choices=catalog.METHODS)
    parser.add_argument("--from-elsewhere", action="store_true", help="you trust where the copy comes from")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--hold-out", type=int, default=0, metavar="N", help="positives to judge the run by, not to learn from"
    )
    parser.add_argument("--types-from", choices=("answers", "grades"), help="where the damage types to learn come from")
    parser.add_argument(
        "--set",
        dest="overrides",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting of the preset",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
