"""Nothing is left out: every golden file is tested, every function that the docs name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from small_parts import REPOSITORY


def test_every_golden_file_is_named_in_a_test(shared: Path) -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py"))
    files = sorted(path.name for path in (shared / "golden").glob("*.npz"))
    assert len(files) == 25
    assert [name for name in files if name not in texts] == []


def test_every_function_that_the_docs_name_exists() -> None:
    text = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    named = 0
    for row in re.findall(r"^\|.*\|$", text, flags=re.MULTILINE):
        module = None
        for name in re.findall(r"`((?:losses|analysis|methods)\.[\w.]+|\w+(?:\.\w+)?)`", row.split("|")[-2]):
            room, _, rest = name.partition(".")
            if room in ("losses", "analysis", "methods"):
                file, _, attribute = rest.partition(".")
                module = importlib.import_module(f"pu_geo.{room}.{file}")
            else:
                attribute = name
            found: object = module
            if module is None:
                continue
            for part in attribute.split("."):
                found = getattr(found, part)
            named += 1
    assert named >= 40
