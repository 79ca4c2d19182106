"""Back up once a day every project that the app has open, in a thread of its own that no click waits for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pu_geo.errors import PuGeoError
from pu_geo.store import backups, in_use
from pu_geo.store.backups import Backup
from pu_geo.store.layout import Layout

_ROUND_S = 20.0
_AGAIN_S = 600.0  # until the same project is asked again
_RETRY_S = 3600.0  # after a failure
_next: dict[Path, float] = {}  # folder -> earliest time to ask again, of the monotonic clock
_failed: dict[Path, PuGeoError] = {}


def start() -> threading.Event:
    """Start the thread; return what ends it, as the end of the process does."""
    ended = threading.Event()

    def rounds() -> None:
        while not ended.wait(_ROUND_S):
            back_up_open_projects()

    threading.Thread(target=rounds, name="daily backups", daemon=True).start()
    return ended


def back_up_open_projects() -> list[Backup]:
    """Make the daily backups that are due, and return them. One that fails is kept for `problem`, and work goes on."""
    made = []
    for layout in in_use.held_here():
        if _next.get(layout.folder, 0.0) > time.monotonic():
            continue
        _next[layout.folder] = time.monotonic() + _AGAIN_S
        try:
            backup = backups.make_daily(layout) if layout.gpkg.is_file() else None
        except Exception as error:  # whatever one project has, such as a disk that was unplugged, the others are backed up
            _failed[layout.folder] = error if isinstance(error, PuGeoError) else _in_words(layout, error)
            _next[layout.folder] = time.monotonic() + _RETRY_S
        else:
            _failed.pop(layout.folder, None)
            made += [backup] if backup else []
    return made


def _in_words(layout: Layout, error: Exception) -> PuGeoError:
    return PuGeoError(
        f"No backup of {layout.folder.name} was made: {error or type(error).__name__}.",
        f"See whether its disk is there; `pu-geo repair doctor {layout.folder}` looks for more.",
    )


def problem(layout: Layout) -> PuGeoError | None:
    """Return why the last daily backup of a project failed; None if it did not."""
    return _failed.get(layout.folder)
