"""Imports that an interrupt does not cut in half."""

from __future__ import annotations

import importlib
import signal
import threading
from types import FrameType, ModuleType


def import_whole(name: str) -> ModuleType:
    """Import a module; Ctrl+C meanwhile raises KeyboardInterrupt once it is there.

    torch cut off in the middle cannot be imported again in the same process, and a notebook would have to be restarted.
    """
    is_ours = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    if not is_ours:
        return importlib.import_module(name)
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        found = importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
    return found
