"""The texts of the screens: each is shown somewhere."""

from __future__ import annotations

import re
from collections import Counter

from small_parts import REPOSITORY

TEXTS = sorted((REPOSITORY / "pu_geo" / "ui").glob("*/texts.py"))
CODE = [*(REPOSITORY / "pu_geo" / "ui").rglob("*.py"), *(REPOSITORY / "pages").glob("*.py")]


def test_each_text_of_a_screen_is_used() -> None:
    words = Counter(re.findall(r"\b[A-Z][A-Z_0-9]+\b", "\n".join(path.read_text(encoding="utf-8") for path in CODE)))
    for path in TEXTS:  # one of a tuple with a name may go unused
        own = re.findall(r"^([A-Z][A-Z_0-9]+)\b(?=.* = )(?!.* = .* = )", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not [name for name in own if words[name] < 2], path
