"""How every verb of the command line does a job and prints what came of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobCancelled, PuGeoError
from pu_geo.jobs import processes
from pu_geo.project import events
from pu_geo.project.layout import Layout


def say(options: argparse.Namespace, result: Mapping[str, Any], words: str) -> None:
    """Print a result: as one JSON line with --json, as words otherwise."""
    print(json.dumps(result, ensure_ascii=False) if options.json else words)


def run_job(layout: Layout, task: str, args: Mapping[str, Any], options: argparse.Namespace) -> Mapping[str, Any]:
    """Do a job in this process, with its folder and events like any other; progress goes to stderr."""
    from pu_geo.jobs import worker

    folder, lock = jobs.create_held(layout, task, args)
    os.environ[processes.JOB_VARIABLE] = str(folder)  # whom this process starts can be known by it
    events.append(folder, "launched")
    quiet = not sys.stderr.isatty()
    width = 79

    def echo(line: str) -> None:
        if quiet and line.startswith(worker.WAITING):  # without it, a script would seem to hang
            print(line, file=sys.stderr, flush=True)
        elif not quiet:
            print(f"\r{line[:width]:<{width}}", end="", file=sys.stderr, flush=True)

    try:
        result = worker.run(folder, echo=None if options.json else echo)
    except (JobCancelled, KeyboardInterrupt):
        if task in jobs.CAN_PAUSE:
            print(f"\nStopped. `pu-geo jobs {layout.folder} resume {folder.name}` goes on.", file=sys.stderr)
        raise
    else:
        return result
    finally:
        os.environ.pop(processes.JOB_VARIABLE, None)
        os.close(lock)
        if not (quiet or options.json):
            print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)


def absolute(paths: list[str]) -> list[str]:
    """Return paths as they are understood from any folder."""
    return [str(Path(path).expanduser().resolve()) for path in paths]


def overrides_of(pairs: list[str]) -> dict[str, str]:
    """Read settings that were written as key=value.

    Raises:
        PuGeoError: if one is not.
    """
    for pair in pairs:
        if "=" not in pair:
            raise PuGeoError(f"--set {pair!r} is not of the form key=value.", "Write, for example, --set epochs=80.")
    return dict(pair.split("=", 1) for pair in pairs)


def in_brackets(label: str) -> str:
    """Write a label behind a building: " (not damaged)"; nothing where there is none."""
    return f" ({label.replace('_', ' ')})" if label else ""
