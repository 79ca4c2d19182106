"""What the documents name is there: tests by their path, benchmarks, modules and functions by their names; golden files are tested."""

import os
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest
from golden_parts import GOLDEN
from small_parts import REPOSITORY

PAGES = [*(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("*.md")]
CITED = re.compile(r"(?<![\w/.])(?:tests|benchmarks|pu_geo|docs)/[\w/.-]*\w\.(?:py|md|mjs|js)\b|python -m (benchmarks\.\w+)")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_what_a_page_cites_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {f"{found[1].replace('.', '/')}.py" if found[1] else found[0] for found in CITED.finditer(text)}
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []
    assert page.name != "trust.md" or len([path for path in named if path.startswith("tests/")]) > 10


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


def test_make_app_says_first_what_it_installs_and_takes_torch_without_cuda(tmp_path: Path) -> None:
    def planned(*words: str) -> str:
        command = ["make", "--dry-run", "app", f"VENV={tmp_path / 'new'}", *words]
        plain = {name: value for name, value in os.environ.items() if name not in ("EXTRAS", "MAKEFLAGS")}
        done = subprocess.run(command, cwd=REPOSITORY, env=plain, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    usual, small, readme = planned(), planned("TORCH=cpu"), (REPOSITORY / "README.md").read_text()
    for words, size, n_pins in ((usual, "7.2 GB", 0), (small, "2.6 GB", 1)):
        assert words.index(size) < words.index("-m venv") < words.index('-e ".[dev]"')
        assert size in readme
        assert words.count("-r constraints-cpu.txt") == n_pins
    assert "TORCH=cpu" in usual
    assert small.index("-r constraints-cpu.txt") < small.index("kept.txt") < small.index("-c constraints.txt -c"), (
        "it is kept"
    )
    assert "-r constraints-cpu.txt" not in planned("TORCH=rocm")
    pins = [
        set(re.findall(r"^(torch(?:vision)?==[\d.]+)", path.read_text(), re.MULTILINE))
        for path in (REPOSITORY / "constraints-cpu.txt", *REPOSITORY.glob("lock-*.txt"))
    ]
    assert len(pins) > 1
    assert all(one == pins[0] for one in pins), "make lock"
