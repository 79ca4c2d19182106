"""An action is declared once: what a person sets, with bounds and words, and the task that does it.

From its class come the options of its verb (`cli.drawn`), the method of `Project` (`api`), the bounds of a form's fields,
the arguments of the job, and their check. Settings are declared as those of methods are, by `setting`; here they may
also say

    read: what makes a value of what was given, such as absolute paths of one or several.
    flag, metavar: as the command line writes it; `--name-of-the-field` where none is named.
    is_positional: on the command line without a flag.
    is_many: on the command line it may be given several times.
    noun: what is missing where a required one is empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pu_geo.errors import PuGeoError
from pu_geo.jobs.tasks import Task, declare
from pu_geo.methods.settings import check, setting
from pu_geo.store import chosen
from pu_geo.store.layout import Layout

PathOrText = str | Path
Files = PathOrText | Sequence[PathOrText]
REQUIRED = MISSING
RUN_HELP = (
    "a run's id, latest (the newest), or chosen: the run that a person chose on the Damage map page or with "
    "`pu-geo choose`, else the one published last, else the one assessed last, else the newest of the recommended method"
)


class OfARun(Protocol):
    """What knows the id of its run, as `RunFacts` and `api.Run` do."""

    @property
    def run_id(self) -> str: ...


RunName = str | OfARun
"""How a run is named: by its id, "latest", "chosen", or by what `Project.run`, `train` and `runs` return."""


@dataclass(frozen=True)
class Action:
    """What a person asks for; a job keeps it as plain values, `args`."""

    task: ClassVar[Task]

    def __init_subclass__(cls) -> None:
        if "task" in cls.__dict__:
            declare(cls.task)

    def __post_init__(self) -> None:
        for item in fields(self):
            if read := item.metadata.get("read"):
                object.__setattr__(self, item.name, read(getattr(self, item.name)))
            if item.default is REQUIRED and getattr(self, item.name) in (None, "", []):
                raise PuGeoError(f"No {item.metadata.get('noun', item.name)} was named.", "Choose it, or write its path.")
        check(self, PuGeoError)

    @property
    def title(self) -> str:
        """What people call a job of it."""
        return self.task.title

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return what the job is given; runs are named by their ids. Raises PuGeoError for what the project lacks."""
        return asdict(self)


@dataclass(frozen=True)
class OfRun(Action):
    """An action on one run."""

    _: KW_ONLY
    run: RunName = setting("chosen", RUN_HELP, metavar="ID", read=lambda run: run_name(run))

    def args(self, layout: Layout) -> Mapping[str, Any]:
        given = dict(super().args(layout))
        return {"run_id": chosen.run(layout, given.pop("run")).run_id, **given}


def run_name(run: RunName) -> str:
    """Return the id of a run, "latest" or "chosen". Raises PuGeoError for what names none."""
    if isinstance(run, str):
        return run
    if isinstance(found := getattr(run, "run_id", None), str):
        return found
    raise PuGeoError(
        f"A run is named by its id; this is none: {kind_of(run)}.",
        'Give an id, "latest", "chosen", or what `project.run()` returns.',
    )


def described(action: type[Action]) -> str:
    """Return what an action does, its settings, and what comes of it, as the docstring of a method."""
    summary, _, rest = inspect.cleandoc(action.__doc__ or "").partition("\n\nReturns:")
    lines = [f"    {item.name}: {item.metadata['help'].rstrip('.')}." for item in fields(action) if item.metadata["help"]]
    settings = "\n".join(["\n\nArgs:", *lines]) if lines else ""
    return f"{summary}{settings}" + (f"\n\nReturns:{rest}" if rest else "")


def limits(action: type[Action], name: str) -> dict[str, Any]:
    """Return the bounds of a setting as a field of a form takes them: {"min_value", "max_value"}."""
    about = next(item.metadata for item in fields(action) if item.name == name)
    return {"min_value": about["min"], "max_value": about["max"]}


def kind_of(value: object) -> str:
    """Return what a value is, for refusals: never the value, which may be an array."""
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    return f"A {type(value).__name__}{shape}"


def absolute(path: PathOrText | None) -> str | None:
    """Return a path from the root of the disk; None for none.

    Quotes and blanks around it are those of pasting, unless a file is called so.
    """
    text = str(path or "")
    bare = text.strip().strip("\"'")
    is_called_so = bare not in ("", text) and Path(text).expanduser().exists()
    return str(Path(text if is_called_so else bare).expanduser().resolve()) if bare else None


def absolutes(files: Files) -> list[str]:
    """Return the paths of one file or several from the root of the disk."""
    return [path for one in ([files] if isinstance(files, str | Path) else files) if (path := absolute(one))]


def or_none(text: str | None) -> str | None:
    """Return a text, None for an empty one, as fields of forms have it."""
    return (text or "").strip() or None
