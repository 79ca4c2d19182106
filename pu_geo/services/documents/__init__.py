"""Documents to print and to pass on: Jinja2 templates, one look for all, and nothing in a name that ends up as markup.

A document is one file. Its policy forbids scripts and requests; `base.html` has the styles and draws sections and curves.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

DASH = "\u2013"
_LONGEST = 300
_HIDDEN = {"Cc", "Cf", "Cs", "Co"}  # control signs, also those that change the direction of writing
_JOINERS = "\u200c\u200d"  # are control signs too, but Persian and many scripts of India need them

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Plot:
    """Curves in the unit square, y up.

    Attributes:
        words: what stands below it.
        curves: (name, color, dashes as in SVG, points of each piece, bands around pieces as polygons).
        x_ticks, y_ticks: (place from 0 to 1, words).
        mark: a place on the x axis, and what it is.
    """

    title: str
    words: str
    curves: Sequence[tuple[str, str, str, Sequence[Points], Sequence[Points]]]
    y_ticks: Sequence[tuple[float, str]]
    x_ticks: Sequence[tuple[float, str]] = ()
    x_title: str = ""
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class Section:
    """A part of a document: paragraphs, (name, value) pairs, sentences, and curves or else a table; a note below it.

    Attributes:
        kinds: of the columns of the table: "text", "count", "range" or "date"; none for any.
    """

    title: str
    text: Sequence[str] = ()
    rows: Sequence[tuple[str, object]] = ()
    lines: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    header: Sequence[str] = ()
    table: Sequence[Sequence[object]] = ()
    kinds: Sequence[str] = ()
    note: str = ""


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
        "number": number,
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
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    kept = (sign for sign in str(value) if sign.isspace() or sign in _JOINERS or unicodedata.category(sign) not in _HIDDEN)
    shown = " ".join("".join(kept).split())
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def number(value: object) -> str:
    """Return a count or a figure with one decimal; a dash where nothing is known."""
    if value is None:
        return DASH
    figure = float(str(value))
    return f"{figure:,.0f}" if figure == round(figure) else f"{figure:,.1f}"


def percent(share: float) -> str:
    """Return a share, 0..1, as whole percent; never 0 or 100 where it is not exactly that."""
    if 0 < share <= 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    """Write points of the unit square, y up, for SVG, where y is down; what is outside of it goes to its edge."""
    inside = ([min(max(float(value), 0.0), 1.0) for value in pair] for pair in pairs)
    return " ".join(f"{x:.4f},{1 - y:.4f}" for x, y in inside)
