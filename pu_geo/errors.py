"""The errors a user can cause. Pages and the command line print `problem` and `hint`, and nothing else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class PuGeoError(Exception):
    """A mistake of the user's, in three parts.

    Args:
        problem: what is wrong, with its value, and what would be right. Whole sentences.
        hint: what to do now. Whole sentences.
        kind: one lowercase word for machines that read reports, such as "crs" or "corrupt".
    """

    def __init__(self, problem: str, hint: str, *, kind: str = "refused") -> None:
        super().__init__(f"{problem} {hint}")
        self.problem = problem
        self.hint = hint
        self.kind = kind


class ProjectError(PuGeoError):
    """The project folder is missing, too new, or lacks what this step needs."""


class ImageryError(PuGeoError):
    """A scene cannot be used."""


class FootprintError(PuGeoError):
    """A footprint file, or a footprint in it, cannot be used."""


class LabelError(PuGeoError):
    """A label, or a file of labels, cannot be used."""


class DatasetError(PuGeoError):
    """The files of a published data set are missing or damaged, or do not allow what a table asks for."""


class ModelError(PuGeoError):
    """A model file cannot be made or used."""


class TrainingError(PuGeoError):
    """A method cannot train on what it was given, or had to stop."""


class JobError(PuGeoError):
    """A background job cannot be started, cancelled or resumed."""


class InputError(PuGeoError, ValueError):
    """An array that was handed to the library cannot be used; a ValueError too, as scikit-learn's conventions ask."""


class ShapeError(ValueError):
    """A programming error: an array has another shape than the formula needs."""


class JobCancelled(Exception):
    """Raised inside a running task once its user asked it to stop. Not an error."""


class JobPaused(JobCancelled):
    """Raised inside a running task that stops for now: its state is on disk, and it goes on from there."""


def printable(value: object, most: int = 80) -> str:
    """Return a stranger's text without signs that a terminal would act on, cut to `most` characters."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(value)[:most])


@contextmanager
def writing(path: Path, kind: type[PuGeoError] = PuGeoError) -> Iterator[None]:
    """Raise a PuGeoError where a file or folder that a person named cannot be written.

    Raises:
        PuGeoError: of that kind, in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise kind(
            f"{path} cannot be written: {error.strerror or error}.", "Choose another place, or make room there.", kind="disk"
        ) from error


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold an interrupt (Ctrl+C) back until the end of the block, and raise it there.

    For imports: torch, interrupted half way, cannot be imported again in the same process. Threads but the main one get no
    interrupts; a process that ignores them, or has no handler of Python's, is left alone.

    Raises:
        KeyboardInterrupt: at the end, or whatever the process's handler does; also where the block ends with another error.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(*held[0])
