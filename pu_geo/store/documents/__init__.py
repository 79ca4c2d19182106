"""Documents to print and to pass on: lists of sections, drawn as a page or as Markdown; nothing in a name ends up as markup.

A page is one file. Its policy forbids scripts and requests; `base.html` has the styles and draws sections and pictures.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pu_geo.wording import percent

if TYPE_CHECKING:
    from jinja2 import Environment

DASH = "\u2013"
_LONGEST, _LONGEST_SENTENCE = 300, 500
_HIDDEN = {"Cc", "Cf", "Cs", "Co"}  # control signs, also those that change the direction of writing
_JOINERS = "\u200c\u200d"  # are control signs too, but Persian and many scripts of India need them

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Picture:
    """Curves in the unit square, y up: shares against a share.

    Attributes:
        words: what stands below it.
        curves: (name, color, dashes as in SVG, points of each piece, bands around pieces as polygons).
        mark: a place on the x axis, and what it is.
    """

    words: str
    x_title: str
    curves: Sequence[tuple[str, str, str, Sequence[Points], Sequence[Points]]]
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class Section:
    """A part of a document: sentences, then a picture, then a table; without a header its rows are names and values."""

    title: str
    sentences: Sequence[str] = ()
    table: Sequence[Sequence[object]] = ()
    header: Sequence[str] = ()
    picture: Picture | None = None


def as_markdown(title: str, lead: str, sections: Iterable[Section], level: int = 1) -> str:
    """Write a document as Markdown, its title at `level` 1 or more; names out of files are escaped and show as they are."""
    parts = [f"{'#' * level} {_markdown(title)}", f"*{_markdown(lead)}*"]
    for section in sections:
        parts.append(f"{'#' * level}# {_markdown(section.title)}")
        if section.sentences:
            parts.append("\n".join(f"- {_markdown(words)}" for words in section.sentences))
        if section.table:
            head = section.header or ("what", "value")
            rows = (head, ["---"] * len(head), *section.table)
            parts.append("\n".join(f"| {' | '.join(map(_markdown, row))} |" for row in rows))
    return "\n\n".join(parts) + "\n"


def _markdown(value: object) -> str:
    """Escape Markdown; a joiner that nobody sees breaks up what viewers make links and icons of afterwards."""
    signs = re.sub(r"([\\`*_{}\[\]#!|~$<>&@])", r"\\\1", plain(value, _LONGEST_SENTENCE))
    return re.sub(r"(?<=:)(?=[^\s\d])|(?<=\\@)(?=\S)|(?<=www)(?=\.)", "\u2060", signs, flags=re.IGNORECASE)


def render(template: str, **values: object) -> str:
    """Fill in a template of this folder. Every value is escaped, see `plain`; one that is not given is an error.

    Raises:
        jinja2.UndefinedError: if the template asks for a value that is not there.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "base64": lambda data: Markup(base64.b64encode(data).decode("ascii")),
        "cut": lambda value, most: escape(plain(value, most)),
        "percent": percent,
        "points": lambda pairs: Markup(_points(pairs)),
    }
    return found


def plain(value: object, most: int = _LONGEST) -> str:
    """Return anything as text on one line, without control signs, cut to `most` characters; a dash for nothing."""
    if value is None or value == "":
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    kept = (sign for sign in str(value) if sign.isspace() or sign in _JOINERS or unicodedata.category(sign) not in _HIDDEN)
    shown = " ".join("".join(kept).split())
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    """Write points of the unit square, y up, for SVG, where y is down; what is outside of it goes to its edge."""
    inside = ([min(max(float(value), 0.0), 1.0) for value in pair] for pair in pairs)
    return " ".join(f"{x:.4f},{1 - y:.4f}" for x, y in inside)
