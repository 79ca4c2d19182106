"""The verb for researchers: reproduce rows of tables on the published data sets."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from pu_geo.cli_run import say
from pu_geo.errors import DatasetError


def _benchmark(options: argparse.Namespace) -> None:
    from pu_geo.tasks import benchmark  # loads torch

    tables = benchmark.TABLES
    if options.table not in tables:
        listed = "\n".join(f"{name}: {table.title}; --data {table.wants}" for name, table in tables.items())
        if options.table == "list":
            say(options, {name: {"title": table.title, "data": table.wants} for name, table in tables.items()}, listed)
            return
        raise DatasetError(f"There is no table {options.table!r}; there are {', '.join(tables)}.", "Choose one of these.")
    if not options.data:
        raise DatasetError(f"The table {options.table} needs files.", f"Name {tables[options.table].wants} with --data.")
    overrides = dict(pair.partition("=")[::2] for pair in options.set)
    outcomes = benchmark.run_table(
        options.table, Path(options.data).expanduser(), methods=[m for m in options.methods.split(",") if m],
        preset=options.preset, seeds=options.seeds, only=options.only, overrides=overrides,
        kept=Path(options.keep) if options.keep else None, say=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    text = benchmark.as_markdown(options.table, outcomes, "pu-geo " + shlex.join(_plain(options)), not overrides)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")
    say(options, {"outcomes": [asdict(each) for each in outcomes], "hardware": benchmark.hardware()}, text.rstrip())


def _plain(options: argparse.Namespace) -> list[str]:
    """Return the command without its files, which lie elsewhere for everybody."""
    words = ["benchmark", options.table, "--data", "FILES", "--seeds", str(options.seeds), "--preset", options.preset]
    words += ["--methods", options.methods] if options.methods else []
    words += ["--only", options.only] if options.only else []
    return [*words, *(word for pair in options.set for word in ("--set", pair))]


COMMANDS = {"benchmark": _benchmark}
