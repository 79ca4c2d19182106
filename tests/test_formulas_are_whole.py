"""Nothing is left out: every golden file is tested, every function that the docs name exists."""

import pkgutil
import re

from golden_parts import GOLDEN
from small_parts import REPOSITORY


def test_every_golden_file_is_named_in_a_test() -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py"))
    files = sorted(path.name for path in GOLDEN.glob("*.npz"))
    assert len(files) == 25
    assert [name for name in files if name not in texts] == []


def test_every_function_that_the_docs_name_exists() -> None:
    """The first name of a cell is whole, such as `losses.ncpu.entropy`; short ones after it are of the same module."""
    text = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    named = 0
    for row in re.findall(r"^\|.*\|$", text, flags=re.MULTILINE):
        module = ""
        for name in re.findall(r"`((?:losses|analysis|methods)\.[\w.]+|\w+(?:\.\w+)?)`", row.split("|")[-2]):
            if name.partition(".")[0] in ("losses", "analysis", "methods"):
                found = pkgutil.resolve_name(f"pu_geo.{name}")
                module = getattr(found, "__module__", module)
            elif module:
                pkgutil.resolve_name(f"{module}:{name}")
            named += bool(module)
    assert named >= 40
