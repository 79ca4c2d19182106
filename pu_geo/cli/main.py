"""The command line: the same steps as the screens, one verb each. Errors end in exit code 2, problem and hint on stderr."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pu_geo import __version__
from pu_geo.cli import annotate, damage_map, explore, imagery, project, train
from pu_geo.errors import JobCancelled, PuGeoError


class Root(TyperGroup):
    """`pu-geo` itself: lists the verbs by screen, and ends with an exit code for each kind of error."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                summary = command.get_short_help_str(200)
                panels.setdefault(command.rich_help_panel, []).append((name, summary))  # type: ignore[attr-defined]
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PuGeoError as error:
            print(error.problem, error.hint, sep="\n", file=sys.stderr)
            raise typer.Exit(2) from error
        except (JobCancelled, KeyboardInterrupt) as stopped:
            print("Cancelled.", file=sys.stderr)
            raise typer.Exit(1) from stopped
        except BrokenPipeError as gone:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from gone


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


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 cancelled, 2 refused."""
    try:
        typer.main.get_command(app)(args=argv, prog_name="pu-geo")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
