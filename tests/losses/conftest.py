"""A fixture that runs a test over both faces of the losses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loss_parts import both_faces


@pytest.fixture(params=["function", "module"])
def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test twice: with the loss functions, and with their modules in place of the functions."""
    yield from both_faces(request, monkeypatch)
