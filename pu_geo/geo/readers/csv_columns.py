"""What the header of a CSV table says: how its fields are separated, and which one holds outlines."""

from __future__ import annotations

from collections.abc import Sequence

WKT_COLUMNS = ("wkt", "geometry", "geom", "the_geom", "wkt_geom", "geometry_wkt", "polygon", "footprint")


def delimiter_of(first_line: str) -> str:
    """Return the sign that separates the fields of a header: the most frequent of comma, semicolon, tab and bar."""
    return max(",;\t|", key=first_line.count)


def wkt_column(header: Sequence[str]) -> int | None:
    """Return where the outlines are, by the column's name; None if none has such a name."""
    lower = [name.strip().strip('"').lower() for name in header]
    return next((lower.index(name) for name in WKT_COLUMNS if name in lower), None)
