"""The command line: the same steps as the screens, one verb each. Errors end in exit code 2, problem and hint on stderr."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from pu_geo import __version__
from pu_geo.cli import annotate, damage_map, explore, imagery, project, train
from pu_geo.cli.run import Verbs
from pu_geo.errors import JobCancelled, PuGeoError, name_too_long

UsageError: Any = typer.BadParameter.__mro__[1]  # of which all are that Typer raises for what was typed
_WORDS = {
    r"^No such option: (\S+?)\.?( .*)?$": r"There is no option \1.\2",
    r"^No such command '(.*)'\.(.*)$": r"There is no command \1.\2",
    r"^Missing command\.$": "No command was named.",
    r"^Missing (?:argument|option) '(.*)'\.(.*)$": r"\1 is missing.\2",
    r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$": r"\1 is more than this command takes.",
    r"^Invalid value for '(.*)': (.*)$": r"\1 cannot be used: \2",
    r"Value error, ": "",
    r"\(Possible options: (.*)\)$": r"Did you mean \1?",
    r"^Option '(.*)' requires (\d+) arguments\.$": r"\1 takes \2 values.",
    r"^Option '(.*)' requires an argument\.$": r"\1 needs a value.",
    r"Input should be a valid integer, unable to parse string as an integer": "it must be a whole number.",
    r"Input should be a valid number, unable to parse string as a number": "it must be a number.",
    r"'?(\S+?)'? is not a valid int(?:eger)?\.": r"\1 is not a whole number.",
    r"'?(\S+?)'? is not a valid float\.": r"\1 is not a number.",
    r"(\S+) is not in the range x>=(\S+)\.": r"\1 is too small; it must be \2 or more.",
    r"Input should be greater than or equal to (\S+)": r"it must be \1 or more.",
    r"Input should be less than or equal to (\S+)": r"it must be \1 or less.",
}
"""What Typer writes, and how we write it."""


def _usage_words(error: Any) -> tuple[str, str]:
    """Return problem and hint of something typed that is not understood."""
    problem = str(error.format_message())
    for theirs, ours in _WORDS.items():
        problem = re.sub(theirs, ours, problem)
    command = "pu-geo" if error.ctx is None else error.ctx.command_path
    return problem, f"`{command} --help` shows what it takes, with examples."


class Root(Verbs):
    """`pu-geo` itself: ends with an exit code for each kind of error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _refusals_in_words():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _refusals_in_words():
            return super().invoke(ctx)


@contextmanager
def _refusals_in_words() -> Iterator[None]:
    """Print what a user can put right as problem and hint, and end with an exit code."""
    try:
        yield
    except UsageError as error:
        problem, hint = _usage_words(error)
    except BrokenPipeError as gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from gone
    except (PuGeoError, OSError) as error:
        words = error if isinstance(error, PuGeoError) else name_too_long(error)
        if words is None:
            raise
        problem, hint = words.problem, words.hint
    except (JobCancelled, KeyboardInterrupt) as stopped:
        print("Cancelled.", file=sys.stderr)
        raise typer.Exit(1) from stopped
    else:
        return
    print(problem, hint, sep="\n", file=sys.stderr)
    raise typer.Exit(2)


app = typer.Typer(cls=Root, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
for _room in (project, imagery, annotate, train, explore, damage_map):
    app.add_typer(_room.screen)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"pu-geo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Map damaged buildings from pre- and post-event imagery with a few clicks."""


def _is_text(argument: str) -> bool:
    """Return whether an argument could be decoded; bytes that could not are lone surrogates."""
    return not any("\ud800" <= sign <= "\udfff" for sign in argument)


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 cancelled, 2 refused."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # names have letters that not every terminal's encoding has
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8")  # clicks come as JSON
    if odd := next((each for each in argv or sys.argv[1:] if not _is_text(each)), None):
        encoding = sys.getfilesystemencoding()
        print(
            f"{odd!a} is no text in the encoding of this terminal, {encoding}; names are UTF-8.",
            "Set a UTF-8 locale first: export LC_ALL=C.UTF-8",
            sep="\n",
            file=sys.stderr,
        )
        return 2
    try:
        typer.main.get_command(app)(args=argv, prog_name="pu-geo")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
