"""Signals that ask for an end."""

from __future__ import annotations

import signal

import pytest

from pu_geo.errors import stops_as_interrupts


def test_a_handler_that_was_set_from_c_is_no_handler_to_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls such a handler None, and refuses to set it."""
    before, set_handler = signal.getsignal(signal.SIGTERM), signal.signal

    def set_as_if_from_c(number: int, handler: object) -> object:
        found = set_handler(number, handler)  # type: ignore[arg-type]
        return None if number == signal.SIGTERM else found

    monkeypatch.setattr(signal, "signal", set_as_if_from_c)
    try:
        with stops_as_interrupts():
            pass
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        set_handler(signal.SIGTERM, before)
