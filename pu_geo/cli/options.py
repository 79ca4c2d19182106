"""What every part of the command line's words is made with: a verb, options that several have, a reader of whole numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name for it


def whole(low: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `low` on."""

    def read(text: str) -> int:
        if not text.isdigit() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} on")
        return int(text)

    return read


def run_option(verb: argparse.ArgumentParser) -> None:
    """Add the option that names a run."""
    verb.add_argument(
        "--run",
        default="chosen",
        metavar="ID",
        help="a run's id, latest (the newest), or chosen (default): the run that a person chose on the Damage map page or with "
        "`pu-geo choose`, else the one published last, else the one audited last, else the newest of the recommended method",
    )


def verb_of(
    verbs: Verbs, name: str, help: str, example: str, *, project: bool = True, group: str = ""
) -> argparse.ArgumentParser:  # fmt: skip
    """Make a verb, with the options that all of them have.

    Args:
        example: what stands behind the name in the example.
        project: whether it works on a project.
        group: verb that it belongs to, with a space behind it.
    """
    verb = verbs.add_parser(name, help=help, description=help, epilog=f"Example: pu-geo {group}{name} {example}")
    if project:
        verb.add_argument("project", metavar="P.pugeo", help="the project folder")
    verb.add_argument("--json", action="store_true", help="print JSON for machines")
    return verb
