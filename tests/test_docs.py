"""What the documents name is there: tests by their path, benchmarks and modules by their names."""

import re
from pathlib import Path

import pytest
from small_parts import REPOSITORY

PAGES = [*(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("*.md")]
CITED = re.compile(r"(?<![\w/.])(?:tests|benchmarks|pu_geo|docs)/[\w/.-]*\w\.(?:py|md|mjs|js)\b|python -m (benchmarks\.\w+)")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_what_a_page_cites_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {f"{found[1].replace('.', '/')}.py" if found[1] else found[0] for found in CITED.finditer(text)}
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []
    assert page.name != "trust.md" or len([path for path in named if path.startswith("tests/")]) > 10
