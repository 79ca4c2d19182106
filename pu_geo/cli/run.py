"""What the verbs of all screens share: how one is declared, does a job in the terminal, and prints the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from pu_geo.jobs import foreground, tasks
from pu_geo.jobs.actions import RUN_HELP, Action
from pu_geo.store.layout import Layout

Function = TypeVar("Function", bound=Callable[..., None])
Json = Annotated[bool, typer.Option("--json", help="print JSON for machines")]
Project = Annotated[str, typer.Argument(metavar="P.pugeo", help="the project folder", show_default=False)]
File = Annotated[str, typer.Argument(metavar="FILE", show_default=False)]
RunId = Annotated[str, typer.Option("--run", metavar="ID", help=RUN_HELP)]
Analyst = Annotated[str | None, typer.Option("--analyst", help="who does this (a pseudonym will do)")]

FileCrs = Annotated[str | None, typer.Option("--crs", metavar="EPSG:N", help="where the file names none")]
Bands = Annotated[str, typer.Option(metavar="R,G,B", help="numbers of the red, green and blue band, such as 3,2,1")]


def repeated(metavar: str, help: str, *flags: str, default: Sequence[str] = ()) -> Any:
    """Return an option that may be given several times; with dots in `metavar` it also takes all words up to the next
    option.
    """
    return typer.Option(
        *flags, metavar=metavar, help=help, default_factory=lambda: list(default), show_default=" ".join(default) or False
    )


class Verb(TyperCommand):
    """A command whose options with a metavar like `FORMAT...` take several words, as in `--formats csv gpkg`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        many = {name for each in self.params if str(each.metavar).endswith("...") for name in each.opts}
        words: list[str] = []
        flag = ""
        for word in args:
            if word.startswith("-"):
                flag = word if word in many else ""
            elif flag and words[-1] != flag:
                words.append(flag)
            words.append(word)
        return super().parse_args(ctx, words)


class Verbs(TyperGroup):
    """A group that lists its verbs by screen."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                summary = command.get_short_help_str(200)
                panels.setdefault(command.rich_help_panel, []).append((name, summary))  # type: ignore[attr-defined]
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class Screen(typer.Typer):
    """The verbs of one screen; `title` heads them in `pu-geo --help`."""

    def __init__(self, title: str, *, group: str = "") -> None:
        super().__init__(cls=Verbs, rich_markup_mode=None)
        self.title, self.group = title, group

    def verb(self, name: str, *examples: str) -> Callable[[Function], Function]:
        """Declare a verb; its docstring is its help. `examples` follow its name there."""
        lines = [f"  pu-geo {self.group}{name} {example}".rstrip() for example in examples]

        def add(function: Function) -> Function:
            epilog = "\n".join(["\b", "Examples:", *lines])
            self.command(name, cls=Verb, rich_help_panel=self.title, epilog=epilog)(function)
            return function

        return add


def show(result: Mapping[str, Any], words: str, as_json: bool) -> None:
    """Print a result: as one JSON line with --json, as words otherwise."""
    print(in_json(result) if as_json else words)


def in_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, with escapes for what the terminal's encoding does not have."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def run_job(
    layout: Layout, task: str | Action, as_json: bool, args: Mapping[str, Any] | None = None, *, has_news: bool = False
) -> Mapping[str, Any]:  # fmt: skip
    """Do an action, or a task by its name, as a job of this process; progress goes to stderr, unless `as_json`.

    Args:
        has_news: its reports are few and people wait for them: each is a line of its own.
    """
    is_terminal = sys.stderr.isatty() and not has_news
    draw = _news if has_news else _bar if is_terminal else _lines()

    def stopped(job_id: str) -> None:
        if (task.task if isinstance(task, Action) else tasks.of(task)).can_pause:
            print(f"\nStopped. `pu-geo jobs {layout.folder} resume {job_id}` goes on.", file=sys.stderr)

    try:
        return foreground.run(layout, task, args, echo=None if as_json else draw, named=stopped)
    finally:
        if is_terminal and not as_json:
            print(f"\r{'':<79}\r", end="", file=sys.stderr, flush=True)


def _bar(report: str) -> None:
    """Draw a report over the one before, with a bar."""
    percent = foreground.share_of(report)
    line = report if percent is None else f"[{'#' * (percent // 5):<20}] {report}"
    print(f"\r{line[:79]:<79}", end="", file=sys.stderr, flush=True)


def _news(report: str) -> None:
    print(report, file=sys.stderr, flush=True)


def _lines() -> Callable[[str], None]:
    """Return what prints each full tenth as a line of its own, and whatever has no share, such as waiting."""
    printed = 0

    def draw(report: str) -> None:
        nonlocal printed
        percent = foreground.share_of(report)
        if percent is None or percent // 10 > printed:
            printed = printed if percent is None else percent // 10
            print(report, file=sys.stderr, flush=True)

    return draw


def absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def in_brackets(label: str) -> str:
    """Return a label to stand behind a building: " (not damaged)"; nothing where there is none."""
    return f" ({label.replace('_', ' ')})" if label else ""
