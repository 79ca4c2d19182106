"""The project that the services of the Explore page are asked of."""

from __future__ import annotations

from pathlib import Path

import pytest
from clustered_parts import explored_project

from pu_geo.project.layout import Layout


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    """80 buildings in four groups, of which the first holds eight clicks, and a finished run."""
    return explored_project(tmp_path)
