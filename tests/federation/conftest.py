"""Two agencies, made once a test run and copied."""

import shutil
from pathlib import Path

import pytest
from federation_parts import agency

from pu_geo.store.layout import Layout


@pytest.fixture(scope="session")
def made_agencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both projects; not to be changed."""
    folder = tmp_path_factory.mktemp("agencies")
    agency(folder / "joplin.pugeo", "destroyed", seed=1)
    agency(folder / "moore.pugeo", "flooded", seed=2)
    return folder


@pytest.fixture
def agencies(made_agencies: Path, tmp_path: Path) -> tuple[Layout, Layout]:
    """Own copies: a project with destroyed buildings, and one with flooded ones."""
    for name in ("joplin.pugeo", "moore.pugeo"):
        shutil.copytree(made_agencies / name, tmp_path / name)
    return Layout(tmp_path / "joplin.pugeo"), Layout(tmp_path / "moore.pugeo")
