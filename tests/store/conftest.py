"""A project that is made once and copied for each test, and an open one, for tests of what is written into it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Connection

import pytest
from small_parts import small_project

from pu_geo.store import store
from pu_geo.store.layout import Layout


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_project(tmp_path_factory.mktemp("original") / "event.pugeo").folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Layout:
    """A project with a grid and twenty footprints, b0 to b19."""
    return Layout(Path(shutil.copytree(original, tmp_path / "event.pugeo")))


@pytest.fixture
def db(project: Layout) -> Iterator[Connection]:
    """A connection to `project`."""
    with store.connect(project) as db:
        yield db
