"""The texts of the screens: each is shown somewhere."""

from __future__ import annotations

import re

import pytest
from small_parts import REPOSITORY

TEXTS = sorted((REPOSITORY / "pu_geo" / "ui").glob("*/texts.py"))
CODE = [*(REPOSITORY / "pu_geo" / "ui").rglob("*.py"), *(REPOSITORY / "pages").glob("*.py")]


@pytest.mark.parametrize("screen", [path.parent.name for path in TEXTS])
def test_each_text_of_a_screen_is_used(screen: str) -> None:
    own = (REPOSITORY / "pu_geo" / "ui" / screen / "texts.py").read_text(encoding="utf-8")
    names = set(
        re.findall(r"^([A-Z][A-Z_0-9]+)\b(?=.* = )(?!.* = .* = )", own, re.MULTILINE)
    )  # one of a tuple with a name may go unused
    words = re.findall(r"\b[A-Z][A-Z_0-9]+\b", "\n".join(path.read_text(encoding="utf-8") for path in CODE))
    assert {name for name in names if words.count(name) < 2} == set()
