"""The verb `model`: hand a trained model on, check one that came, and score a project's buildings by it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pu_geo.cli.run import absolute, run_job, say
from pu_geo.services.project import projects
from pu_geo.services.train import models


def _export(options: argparse.Namespace) -> None:
    result = models.export(projects.find(options.project), options.run, options.out)
    words = f"Wrote the model of {result['run_id']} to {result['out']} ({result['bytes']:,} bytes)."
    say(options, result, words)


def _check(options: argparse.Namespace) -> None:
    from pu_geo.tasks.train.apply_model import check_model

    found = check_model(Path(options.file))
    size = " x ".join(str(one) for one in found["chip_shape"][1:])  # type: ignore[index]
    pixels = "" if found["gsd_m"] is None else f" with pixels of {found['gsd_m']:.2f} m"
    lines = [
        f"{found['file']} can be used: {found['title']} ({found['preset']}), run {found['run_id']} of {found['created_at']}, "
        f"made with PU-Geo {found['made_with']}.",
        f"It learned from {found['n_positive']} positives among {found['n_chips']} buildings.",
        f"It needs chips of {size} px, bands {found['bands']}{pixels}.",
    ]
    say(options, found, "\n".join(lines))


def _apply(options: argparse.Namespace) -> None:
    result = run_job(projects.find(options.project), "apply_model", {"path": absolute([options.file])[0]}, options)
    words = f"Run {result['run_id']}: all buildings were scored by {Path(options.file).name}, in {result['seconds']} s."
    say(options, result, words)


ACTIONS = {"export": _export, "check": _check, "apply": _apply}


def _model(options: argparse.Namespace) -> None:
    ACTIONS[options.action](options)


COMMANDS = {"model": _model}
