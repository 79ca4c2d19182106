"""A package of geo is entered by the modules that its `__init__` lists; everything else in it is private."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from small_parts import REPOSITORY

import pu_geo.geo.alignment as alignment
import pu_geo.geo.export as export
import pu_geo.geo.raster as raster
import pu_geo.geo.readers as readers
import pu_geo.geo.vector as vector

CODE = [path for path in (REPOSITORY / "pu_geo").rglob("*.py") if "node_modules" not in path.parts]


def private_imports(path: Path, package: str, public: list[str]) -> list[str]:
    """Return what a file imports of a package beyond its public modules."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            found.append(str(node.module).removeprefix(f"{package}."))
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith(package)]
    return [name for name in found if name not in public]


@pytest.mark.parametrize("package", [alignment, export, raster, readers, vector], ids=lambda package: package.__name__)
def test_a_package_is_entered_by_its_public_modules(package: object) -> None:
    name, public = package.__name__, package.__all__  # type: ignore[attr-defined]
    folder = REPOSITORY / name.replace(".", "/")
    assert all((folder / f"{module}.py").is_file() for module in public)
    outside = [path for path in CODE if folder not in path.parents]
    assert {path.name: wrong for path in outside if (wrong := private_imports(path, name, public))} == {}
