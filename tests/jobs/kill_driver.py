"""Workers for tests that kill them: a checkpoint after every epoch, a start in milliseconds, an end at a chosen moment.

    kill_driver.py warm SOCKET        import once what trainings need, then make each worker by a fork
    kill_driver.py ask SOCKET FOLDER  have the warm one make the worker of a job, and hand it the job's lock

A worker whose job has a file "kill_at" kills itself with SIGKILL at the moment that is written there: "training-newest.pt 3"
is right before it renames a file to that name for the third time, and "done 1" right before it tells that event. A job with
a file "fill_at" has its disk filled at such a moment instead, but for so many bytes as a third word names.
"""

import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

KILL_AT, FILL_AT = "kill_at", "fill_at"
LOCK_FD_VARIABLE = "PU_GEO_LOCK_FD"


def work(folder: str) -> int:
    """Be the worker of a job; return its exit code."""
    import torch

    from pu_geo.jobs import worker
    from pu_geo.runs import train_job
    from pu_geo.training.checkpoints import Checkpoints

    train_job.Checkpoints = partial(Checkpoints, seconds_between=0.0)
    train_job.best_device = partial(torch.device, "cpu")  # a GPU does not promise the same bits
    torch.set_num_threads(1)  # on a busy machine several wait for each other
    _at_the_moment_of(Path(folder) / KILL_AT, lambda: os.kill(os.getpid(), signal.SIGKILL))
    _at_the_moment_of(Path(folder) / FILL_AT, partial(fill, Path(folder), free_bytes(Path(folder) / FILL_AT)))
    return worker.main([folder])


def free_bytes(note: Path) -> int:
    """Return how many bytes of a disk that is filled are to stay free."""
    words = note.read_text().split() if note.exists() else []
    return int(words[2]) if len(words) > 2 else 0


def fill(folder: Path, free: int = 0) -> None:
    """Write to the disk of a folder until nothing more fits, or until so many bytes are free."""
    with (folder / "filler").open("wb", buffering=0) as stream:
        for size in (4096, 1):
            try:
                while stream.write(bytes(size)):
                    pass
            except OSError:
                continue
        stream.truncate(max(stream.tell() - free, 0))


def _at_the_moment_of(note: Path, do: Callable[[], None]) -> None:
    """Do something at the moment that a note names, if there is one; the note is removed then."""
    if not note.exists():
        return
    from pu_geo.store import events

    (name, count), replace, append = note.read_text().split()[:2], Path.replace, events.append
    left = [int(count)]

    def pass_by(what: str) -> None:
        left[0] -= what == name
        if left[0] == 0 and note.exists():
            note.unlink()
            do()

    def watched_replace(source: Path, target: Path) -> Path:
        pass_by(Path(target).name)
        return replace(source, target)

    def watched_append(folder: Path, kind: str, values: Mapping[str, object] | None = None) -> None:
        pass_by(kind)
        append(folder, kind, values)

    Path.replace = watched_replace
    events.append = watched_append


def warm(address: str) -> None:
    """Make workers by forks until whoever started this is gone."""
    from pu_geo.methods.catalog import METHODS

    methods = (card.entry.partition(":")[0] for card in METHODS.values())
    for name in ("pu_geo.jobs.worker", "pu_geo.runs.train_job", *methods):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        os.write(1, b"ready\n")
        while server in select.select([server, sys.stdin], [], [])[0]:
            caller, _ = server.accept()
            message, (lock, log), _, _ = socket.recv_fds(caller, 4096, 2)
            if os.fork() == 0:
                os._exit(_be_worker(message.decode(), lock, log))
            os.close(lock)
            os.close(log)
            caller.sendall(b"1")
            caller.close()


def _be_worker(folder: str, lock: int, log: int) -> int:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ[LOCK_FD_VARIABLE] = str(lock)
    try:
        return work(folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 2


def ask(address: str, folder: str) -> None:
    """Have a worker made; return once it exists."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(address)
        socket.send_fds(caller, [folder.encode()], [int(os.environ[LOCK_FD_VARIABLE]), 1])
        caller.recv(1)


if __name__ == "__main__":
    todo = {"warm": warm, "ask": ask}[sys.argv[1]]
    sys.exit(todo(*sys.argv[2:]))
