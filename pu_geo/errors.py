"""The errors a user can cause. Pages and the command line print `problem` and `hint`, and nothing else."""

from __future__ import annotations

import errno
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)  # a terminal acts on them, or they turn the direction of a text


class PuGeoError(Exception):
    """A mistake of the user's, in three parts.

    Args:
        problem: what is wrong, with its value, and what would be right. Whole sentences.
        hint: what to do now. Whole sentences.
        kind: one lowercase word for machines that read reports, such as "crs" or "corrupt".
    """

    def __init__(self, problem: str, hint: str, *, kind: str = "refused") -> None:
        self.problem, self.hint = (UNSEEN.sub("?", text) for text in (problem, hint))
        super().__init__(f"{self.problem} {self.hint}")
        self.kind = kind


class ProjectError(PuGeoError):
    """The project folder is missing, too new, or lacks what this step needs."""


class OutOfReach(ProjectError, PermissionError):
    """A file of a project is neither read nor written: a link leads elsewhere, or another installation made the project.

    A PermissionError too: who goes on where a project may only be read goes on here.
    """

    def __init__(self, problem: str, hint: str, *, kind: str) -> None:
        super().__init__(problem, hint, kind=kind)
        self.strerror = problem.removesuffix(".")


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


class FederationError(PuGeoError):
    """What partners of a federation agreed on, claim or sent cannot be used, or too few of them took part."""


class InputError(PuGeoError, ValueError):
    """An array that was handed to the library cannot be used; a ValueError too, as scikit-learn's conventions ask."""


class NoProbability(PuGeoError, AttributeError):
    """An estimator's scores are no probabilities; an AttributeError too, so that `hasattr` and scikit-learn find none."""


class ShapeError(ValueError):
    """A programming error: an array has another shape than the formula needs."""


class JobCancelled(Exception):
    """Raised inside a running task once its user asked it to stop. Not an error."""


class JobPaused(JobCancelled):
    """Raised inside a running task that stops for now: its state is on disk, and it goes on from there."""


def printable(value: object, most: int = 80) -> str:
    """Return a stranger's text without signs that a terminal would act on, cut to `most` characters."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(value)[:most])


def name_too_long(error: BaseException) -> PuGeoError | None:
    """Return the words for a path that no file system takes; None for another error."""
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return None
    name = max(str(error.filename or "").split("/"), key=len)
    return PuGeoError(
        f"The name {printable(name, 40)}... is too long: it has {len(name.encode()):,} bytes, and a file's name has at "
        "most 255; some are taken by endings such as .json and by temporary files.",
        "Choose a shorter one, of up to 200 letters.",
        kind="name",
    )


@contextmanager
def writing(path: Path, kind: type[PuGeoError] = PuGeoError) -> Iterator[None]:
    """Raise a PuGeoError where a file or folder that a person named cannot be written.

    Raises:
        PuGeoError: of that kind, in place of an OSError.
    """
    try:
        yield
    except OutOfReach:
        raise
    except OSError as error:
        raise kind(
            f"{path} cannot be written: {error.strerror or error}.", "Choose another place, or make room there.", kind="disk"
        ) from error


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold an interrupt (Ctrl+C, SIGTERM, SIGHUP) back until the end of the block, and raise it there.

    For imports: torch, interrupted half way, cannot be imported again in the same process. Threads but the main one get no
    interrupts; a signal that is ignored, or has no handler of Python's, is left alone.

    Raises:
        KeyboardInterrupt: at the end, or whatever the process's handler does; also where the block ends with another error.
    """
    held: list[tuple[int, FrameType | None]] = []
    before = {number: signal.getsignal(number) for number in _stops()}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held:
            handlers[held[0][0]](*held[0])


@contextmanager
def stops_as_interrupts() -> Iterator[None]:
    """Let each signal that asks for an end raise KeyboardInterrupt, also where a shell had it ignored (`pu-geo app &`).

    A closed terminal asks for no end where it shall not: under `nohup pu-geo app`. Threads but the main one get no signals.

    Raises:
        KeyboardInterrupt: from the block, at SIGINT, SIGTERM and SIGHUP.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    hangup = getattr(signal, "SIGHUP", None)
    numbers = [number for number in _stops() if number != hangup or signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: of a library in C


def _stops() -> list[int]:
    """Return the signals that ask a process to end; none in threads but the main one, where no handler can be set."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
