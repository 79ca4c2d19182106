"""The verb for researchers: reproduce rows of tables on the published data sets."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pu_geo.cli.run import say
from pu_geo.errors import DatasetError

if TYPE_CHECKING:
    from pu_geo.tasks.train.tables import Table

OWN = "project"
OWN_TITLE = "Buildings of your own project, where the truth came with the footprints"
OWN_WANTS = "a project with chips, and --field and --positive"


def _benchmark(options: argparse.Namespace) -> None:
    from pu_geo.tasks.train import benchmark, tables  # loads torch

    if options.table == "list":
        wants = {**{name: (each.title, each.wants) for name, each in tables.TABLES.items()}, OWN: (OWN_TITLE, OWN_WANTS)}
        listed = "\n".join(f"{name}: {title}; --data {files}" for name, (title, files) in wants.items())
        say(options, {name: {"title": title, "data": files} for name, (title, files) in wants.items()}, listed)
        return
    table = _chosen(options)
    if not options.data:
        raise DatasetError(f"The table {options.table} needs files.", f"Name {table.wants} with --data.")
    overrides = dict(pair.partition("=")[::2] for pair in options.set)
    outcomes = benchmark.run_table(
        table, Path(options.data).expanduser(), methods=[m for m in options.methods.split(",") if m],
        preset=options.preset, seeds=options.seeds, only=options.only, overrides=overrides,
        kept=Path(options.keep) if options.keep else None, say=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    text = benchmark.as_markdown(table, outcomes, "pu-geo " + shlex.join(_plain(options)), not overrides)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")
    say(options, {"outcomes": [asdict(each) for each in outcomes], "hardware": benchmark.hardware()}, text.rstrip())


def _chosen(options: argparse.Namespace) -> Table:
    """Return the table that was asked for; that of a project is made of the command's other words."""
    from pu_geo.tasks.train import project_table, tables

    if options.table in tables.TABLES:
        return tables.TABLES[options.table]
    if options.table != OWN:
        raise DatasetError(f"There is no table {options.table!r}; there are {', '.join(tables.TABLES)} and {OWN}.",
                           "Choose one of these.")  # fmt: skip
    try:
        clicks = [int(text) for text in options.clicks.split(",")]
    except ValueError as cause:
        raise DatasetError(f"--clicks is {options.clicks!r}.", "Write whole numbers, as in 10,30.") from cause
    name = Path(options.data or OWN).expanduser().stem
    return project_table.project_table(
        name, field=options.field, positive=options.positive, exclude=options.exclude, clicks=clicks
    )


def _plain(options: argparse.Namespace) -> list[str]:
    """Return the command without its files, which lie elsewhere for everybody."""
    words = ["benchmark", options.table, "--data", "FILES", "--seeds", str(options.seeds), "--preset", options.preset]
    words += ["--methods", options.methods] if options.methods else []
    words += ["--only", options.only] if options.only else []
    if options.table == OWN:
        words += ["--field", options.field, "--clicks", options.clicks]
        words += [
            word for name in ("positive", "exclude") for value in getattr(options, name) for word in (f"--{name}", value)
        ]
    return [*words, *(word for pair in options.set for word in ("--set", pair))]


COMMANDS = {"benchmark": _benchmark}
