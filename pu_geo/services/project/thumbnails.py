"""Small pictures of rasters for the file picker, made as the browser asks for them, and kept in memory.

A file of other people is read by the limited child process alone; one that cannot be read there has no picture.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pu_geo.errors import PuGeoError
from pu_geo.geo.child_process import Answer, Limits, ReaderEnded, ask_each

SIDE_PX = 160
MOST_KEPT = 2_000  # pictures of about 8 kB
_TOGETHER = 6  # files of one child, which takes a quarter of a second to start
_TOGETHER_S = 0.05  # in which a browser asks for the next ones
_LIMITS = Limits(15.0, 12, 4 * 1024**3, 64 * 1024**2, 4_000_000)
_PATIENCE_S = 20.0
Read = Callable[[Sequence[Path]], Sequence[bytes | None]]


def read_pictures(paths: Sequence[Path]) -> list[bytes | None]:
    """Return JPEG pictures of at most 160 pixels a side; None for each file of which none can be made."""
    found: list[bytes | None] = []
    while len(found) < len(paths):
        left = paths[len(found) :]
        answers = ask_each("thumbnail", left, [{"side_px": SIDE_PX}] * len(left), _LIMITS)
        found += [answer.blobs[0] if isinstance(answer, Answer) else None for answer in answers]
    return found


class Thumbnails:
    """The pictures of one server. Safe to call from several threads."""

    def __init__(self, read: Read = read_pictures) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._paths: OrderedDict[str, Path] = OrderedDict()
        self._known: OrderedDict[str, bytes | None] = OrderedDict()
        self._wanted: OrderedDict[str, Path] = OrderedDict()
        self._is_reading = False

    def name(self, path: Path) -> str:
        """Return the name under which the picture of a file can be asked for; it changes when the file does, and says nothing."""
        try:
            found = path.stat()
        except OSError:
            return ""
        name = hashlib.sha256(f"{path}\0{found.st_size}\0{found.st_mtime_ns}".encode(errors="surrogateescape")).hexdigest()[
            :32
        ]
        with self._changed:
            self._paths[name] = path
            _forget(self._paths)
        return name

    def picture(self, name: str, seconds: float = _PATIENCE_S) -> bytes | None:
        """Return the picture of that name, once it is made; None where none can be made, or nobody asked for its name."""
        with self._changed:
            path = self._paths.get(name)
            if path is None:
                return None
            if name not in self._known:
                self._wanted[name] = path
                if not self._is_reading:
                    self._is_reading = True
                    threading.Thread(target=self._work, name="thumbnails", daemon=True).start()
            self._changed.wait_for(lambda: name in self._known, seconds)
            return self._known.get(name)

    def _work(self) -> None:
        """Read what is wanted, the newest first, until nothing is."""
        while True:
            time.sleep(_TOGETHER_S)
            with self._changed:
                batch = [self._wanted.popitem() for _ in range(min(_TOGETHER, len(self._wanted)))]
                batch = [(name, path) for name, path in batch if name not in self._known]
                self._is_reading = bool(batch or self._wanted)
                if not self._is_reading:
                    return
            pictures = self._pictures([path for _, path in batch])
            with self._changed:
                self._known.update((name, picture) for (name, _), picture in zip(batch, pictures, strict=True))
                _forget(self._known)
                self._changed.notify_all()

    def _pictures(self, paths: Sequence[Path]) -> Sequence[bytes | None]:
        try:
            return self._read(paths)
        except (PuGeoError, ReaderEnded, OSError):  # no room for the child, or for its folder
            return [None] * len(paths)


def _forget(kept: OrderedDict[str, Any]) -> None:
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)


_THUMBNAILS = Thumbnails()
name_of = _THUMBNAILS.name
picture = _THUMBNAILS.picture
