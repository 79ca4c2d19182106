"""Weigh the project and compare it with `ceiling.toml`: `make size`. Ends with 1 where something is over its ceiling.

Code is counted in nodes of its syntax tree, so that breaking a line costs nothing and packing one gains nothing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
CEILING = Path(__file__).with_name("ceiling.toml")
SCRIPTS = (".js", ".mjs", ".css", ".html")


def tracked(*folders: str) -> list[Path]:
    """Return the files of these folders that git tracks or has not seen yet, by path; ignored ones are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(path for name in set(listed.stdout.split("\0")) if name and (path := ROOT / name).is_file())


def nodes(path: Path) -> int:
    """Return how many nodes the syntax tree of a Python file has."""
    return sum(1 for _ in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def lines(paths: list[Path]) -> int:
    """Return how many lines these files have in all."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def by_folder() -> Counter[str]:
    """Return the nodes of `pu_geo` by the folder below it; modules that lie directly in it stand under "." """
    found: Counter[str] = Counter()
    for path in tracked("pu_geo"):
        if path.suffix == ".py":
            below = path.relative_to(ROOT / "pu_geo").parts
            found[below[0] if len(below) > 1 else "."] += nodes(path)
    return found


def sizes() -> dict[str, int]:
    """Return each figure that has a ceiling, and the nodes of tests, by name."""
    tests = [path for path in tracked("tests") if path.suffix == ".py"]
    return {
        "nodes_of_pu_geo": by_folder().total(),
        "modules_in_pu_geo": sum(path.suffix == ".py" and path.parent == ROOT / "pu_geo" for path in tracked("pu_geo")),
        "lines_of_scripts": lines([path for path in tracked("pu_geo") if path.suffix in SCRIPTS]),
        "lines_of_tests": lines(tests),
        "nodes_of_tests": sum(map(nodes, tests)),
        "lines_of_benchmarks": lines([path for path in tracked("benchmarks") if path.suffix == ".py"]),
        "words_of_docs": sum(
            len(path.read_text(encoding="utf-8").split()) for path in tracked("docs") if path.suffix == ".md"
        ),
    }


def main() -> int:
    """Print all figures. Return 1 where one is over its ceiling, else 0."""
    for folder, count in by_folder().most_common():
        print(f"  pu_geo/{folder:<22} {count:>9,} nodes")
    ceilings = tomllib.loads(CEILING.read_text(encoding="utf-8"))["size"]
    over = []
    for name, size in sizes().items():
        ceiling = ceilings.get(name)
        print(f"{name:<31} {size:>9,}" + (f"   ceiling {ceiling:>9,}" if ceiling else ""))
        if ceiling and size > ceiling:
            over.append(
                f"{name} is {size:,}: {size - ceiling:,} over its ceiling in .ci/ceiling.toml. Remove as much, or raise "
                "it in an issue."
            )
    print(*over, sep="\n", file=sys.stderr)
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
