"""A home of its own for every test of the command line."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home_of_a_test(home: Path) -> None:
    pass
