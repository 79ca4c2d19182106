"""Cells of CSV files that a spreadsheet shall not take for formulas."""

from __future__ import annotations

import re

# With leading apostrophes: so that one more can be taken off again.
_MAY_BE_A_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")


def guarded(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet could take for a formula; `unguarded` takes it off again."""
    return f"'{text}" if _MAY_BE_A_FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """Return a cell as it was before `guarded`."""
    return text[1:] if _GUARDED.match(text) else text
