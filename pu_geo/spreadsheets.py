"""Texts in cells of CSV files that a spreadsheet must not take for formulas."""

from __future__ import annotations

import re

# With full-width signs, as East Asian keyboards write them; Excel takes these for formulas too. A bar may start a command
# (DDE).
_START = r"[=+\-@|\t\r\n＝＋－＠｜]"
_MAY_BE_A_FORMULA = re.compile(rf"['\s]*{_START}")
_GUARDED = re.compile(rf"'['\s]*{_START}")


def guarded(text: str) -> str:
    """Prefix a text that a spreadsheet could take for a formula with an apostrophe; `unguarded` removes it.

    Blanks before the sign do not matter: programs trim them.

    >>> guarded("=1+1"), guarded("roof")
    ("'=1+1", 'roof')
    """
    return f"'{text}" if _MAY_BE_A_FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """Return a cell as it was before `guarded`."""
    return text[1:] if _GUARDED.match(text) else text
