"""States of a training on disk, so that one that was killed can go on bit-equal to one that was not."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pu_geo.files import make_folder, move_path, opened, remove_path

SECONDS_BETWEEN = 5.0
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass
class Checkpoints:
    """A folder with the newest state of each stage of one training, and the one before it.

    A file is written beside, flushed and renamed; it begins with the sha256 of the rest. What is damaged is not read.

    Attributes:
        folder: of one training; made where it is missing.
        seconds_between: states that come faster than this, after the start of a stage or after each other, are not all
            written; the last one of a stage always is. So a kill costs that long and one epoch at most.
    """

    folder: Path
    seconds_between: float = SECONDS_BETWEEN
    _since: float = field(default_factory=time.monotonic, repr=False)

    def begin(self, stage: str) -> tuple[int, dict[str, Any]] | None:
        """Start the clock of a stage; return what it goes on from, see `newest`."""
        self._since = time.monotonic()
        return self.newest(stage)

    def offer(self, stage: str, epoch: int, state: Mapping[str, Any], *, is_last: bool) -> None:
        """Write the state after an epoch where it is due.

        Args:
            state: made of tensors, numbers, texts, lists and dicts alone; see `training.loop.snapshot`.

        Raises:
            OSError: if the folder cannot be written; what was there before is still good.
        """
        if not is_last and time.monotonic() - self._since < self.seconds_between:
            return
        self._write(stage, {"epoch": epoch, "state": dict(state)})
        self._since = time.monotonic()

    def finish(self, stage: str, state: Mapping[str, Any]) -> None:
        """Write what the training came to as a stage of its own, and remove all other states: nothing goes on from them."""
        self._write(stage, {"epoch": 0, "state": dict(state)})
        for path in self.folder.glob("*.pt"):
            if path != self._path(stage):
                remove_path(path)

    def newest(self, stage: str) -> tuple[int, dict[str, Any]] | None:
        """Return (epochs done, state) of the newest file that is whole; None if there is none."""
        for path in (self._path(stage), self._path(stage, "previous")):
            found = _read(path)
            if found is not None:
                return int(found["epoch"]), found["state"]
        return None

    def _path(self, stage: str, which: str = "newest") -> Path:
        return self.folder / f"{stage}-{which}.pt"

    def _write(self, stage: str, content: Mapping[str, Any]) -> None:
        make_folder(self.folder)
        temporary, newest = self._path(stage, "unfinished"), self._path(stage)
        buffer = io.BytesIO()  # torch's own writer does not report a full disk
        torch.save(content, buffer)
        try:
            with os.fdopen(opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as stream:
                stream.write(hashlib.sha256(buffer.getbuffer()).digest())
                stream.write(buffer.getbuffer())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            remove_path(temporary)  # gives the room back, so that there is some to record the failure
            raise
        if newest.exists():
            move_path(newest, self._path(stage, "previous"))
        move_path(temporary, newest)


def _read(path: Path) -> dict[str, Any] | None:
    """Read a file if it is there and is what was written."""
    try:
        content = memoryview(path.read_bytes())
    except OSError:
        return None
    digest, saved = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(saved).digest() != digest:
        return None
    return torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
