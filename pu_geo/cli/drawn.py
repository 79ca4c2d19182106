"""Verbs that are drawn from actions: options, arguments, bounds and help of a command come from the fields of its class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from pu_geo.cli.run import Json, Project, Screen, repeated, run_job, show
from pu_geo.jobs.actions import Action
from pu_geo.lifecycle import projects
from pu_geo.store.layout import Layout

Words = Callable[[Layout, Mapping[str, Any]], str]


def draw(
    screen: Screen,
    name: str,
    action: type[Action],
    *examples: str,
    facts: Callable[[Layout, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Callable[[Words], Words]:
    """Declare the verb of an action. What it decorates returns the result in words, given the project and the result.

    Args:
        facts: what is printed with --json in place of the result.
    """

    def add(words: Words) -> Words:
        def act(project: str, as_json: bool, **given: Any) -> None:
            layout = projects.find(project)
            result = run_job(layout, action(**given), as_json)
            show(facts(layout, result) if facts else result, words(layout, result), as_json)

        screen.verb(name, *examples)(with_options(act, action))
        return words

    return add


def with_options(act: Callable[..., None], action: type[Action], **flags: Any) -> Callable[..., None]:
    """Return a function as Typer reads it: of a project, the settings of an action, flags of its own, and --json."""
    parameters = [
        inspect.Parameter("project", inspect.Parameter.KEYWORD_ONLY, annotation=Project),
        *options(action),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False)
            for name, kind in flags.items()
        ),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False),
    ]
    act.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    act.__annotations__ = {one.name: one.annotation for one in parameters}
    act.__doc__ = (action.__doc__ or "").partition("\n")[0]
    return act


def options(action: type[Action]) -> list[inspect.Parameter]:
    """Return the settings of an action as parameters that Typer reads."""
    hints = get_type_hints(action)
    return [_parameter(item, hints[item.name]) for item in fields(action)]


def _parameter(item: Field[Any], hint: Any) -> inspect.Parameter:
    about = item.metadata
    is_many, given = about.get("is_many", False), {"help": about["help"], "metavar": about.get("metavar")}
    flag = about.get("flag", f"--{item.name.replace('_', '-')}")
    default: Any = inspect.Parameter.empty if item.default is MISSING else item.default
    if about.get("is_positional"):
        info = typer.Argument(**{**given, "metavar": given["metavar"] or item.name.upper()}, show_default=False)
    elif is_many:
        info = repeated(given["metavar"], given["help"], flag, default=default)
        default = inspect.Parameter.empty
    else:
        default = "" if default == () else default
        info = typer.Option(
            flag,
            **given,
            min=about["min"],
            max=about["max"],
            show_default=default not in ("", None) and default is not False,
        )
    kind = list[str] if is_many else _typed(hint, about, default is None)
    return inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default)


def _typed(hint: Any, about: Mapping[str, Any], is_optional: bool) -> Any:
    """Return what Typer reads an option as: a number, a flag, one of some words, or text."""
    if choices := about.get("choices"):
        return Literal[choices] | None if is_optional else Literal[choices]
    known = [one for one in (get_args(hint) if NoneType in get_args(hint) else (hint,)) if one is not NoneType]
    if len(known) == 1 and (known[0] in (bool, int, float, str) or get_origin(known[0]) is Literal):
        return hint
    return str | None if is_optional else str
