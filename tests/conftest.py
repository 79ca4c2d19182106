"""Fixtures for every room: the shared data folder, a fresh project, a small table of footprints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_parts import REPOSITORY, small_project

from pu_geo.project.layout import HOME_VARIABLE, Layout


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for what concerns all projects of a user; the real one stays as it is."""
    folder = tmp_path_factory.mktemp("own_home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real imagery and damaged files; a user's clone has none."""
    folder = Path(os.environ.get("PU_GEO_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared folder at {folder}; set PU_GEO_SHARED")
    return folder


@pytest.fixture(scope="session")
def joplin(shared: Path) -> Path:
    """The two adjoining Joplin scenes."""
    return shared / "data" / "joplin_xbd"


@pytest.fixture
def project(tmp_path: Path) -> Layout:
    """A project with a grid and twenty footprints, b0 to b19."""
    return small_project(tmp_path / "event.pugeo")
