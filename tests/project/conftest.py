"""An open project, for tests of what is written into it."""

from __future__ import annotations

from collections.abc import Iterator
from sqlite3 import Connection

import pytest

from pu_geo.project import store
from pu_geo.project.layout import Layout


@pytest.fixture
def db(project: Layout) -> Iterator[Connection]:
    """A connection to `project`."""
    with store.connect(project) as db:
        yield db
