"""The cluster that a job works on: its name as people write it, the connection, and whether its workers can do the work.

Dask runs the cluster; there is no scheduler of ours. Import of `distributed` is left to whoever connects: it takes a second, and
the extra may be missing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pu_geo import __version__
from pu_geo.errors import JobCancelled, JobError
from pu_geo.project import events, in_use
from pu_geo.project.layout import write_json
from pu_geo.wording import plural

MOST_LOCAL = 256
CONNECT_S = 20.0  # for the first answer of a scheduler
SECONDS_BETWEEN_LOOKS = 0.2
FORMS = "local:4, local:4,memory=4GB, tcp://HOST:8786, tls://HOST:8786 or scheduler-file=FILE"
TOKEN = "token.json"
CONNECTING = "connecting to the cluster"
NO_WORKERS, WORKERS_CAME, WORKERS_AGAIN = (
    "waiting: the cluster has no workers",
    "the cluster has workers now",
    "the cluster has workers again",
)
_LOCAL, _FILE, _MEMORY = "local:", "scheduler-file=", "memory="
_UNITS = {"MB": 10**6, "GB": 10**9}
LEAST_MEMORY = 2 * 10**9
"""Bytes of a worker's limit: it holds 1 GB once it has loaded what computes chips and features, libraries' files included."""
_REMOTE = re.compile(r"(tcp|tls)://[A-Za-z0-9.:\[\]_-]+:\d{1,5}")


@dataclass(frozen=True)
class Address:
    """Where a cluster is.

    Attributes:
        kind: "local" is started by the job, on this machine, and ends with it.
        n_workers: of a local one; 0 for others.
        memory_bytes: that each worker of a local one may take; 0 for an equal share, see `memory_of`.
        value: the scheduler's address, or the path of its file; "" for a local one.
    """

    kind: Literal["local", "remote", "file"]
    n_workers: int = 0
    value: str = ""
    memory_bytes: int = 0


def parse(text: str) -> Address:
    """Read the name of a cluster.

    Raises:
        JobError: if it is none of `FORMS`.

    Example:
        >>> parse("local:4").n_workers
        4
    """
    if text.startswith(_LOCAL):
        number, comma, memory = text.removeprefix(_LOCAL).partition(",")
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_LOCAL):
            raise JobError(
                f"The cluster {text[:80]!r} asks for {number[:20]!r} workers; 1 to {MOST_LOCAL} work.",
                f"Write local:N, such as local:{min(os.cpu_count() or 1, 4)}.",
                kind="cluster",
            )
        return Address("local", n_workers=int(number), memory_bytes=_memory(text, memory) if comma else 0)
    if text.startswith(_FILE) and len(text) > len(_FILE):
        return Address("file", value=text.removeprefix(_FILE))
    if _REMOTE.fullmatch(text):
        return Address("remote", value=text)
    raise JobError(f"{text[:80]!r} names no cluster.", f"Write {FORMS}.", kind="cluster")


def _memory(text: str, part: str) -> int:
    """Return the bytes of such as "memory=4GB". Raises JobError for anything else, and for less than a worker needs."""
    found = re.fullmatch(rf"{_MEMORY}(\d{{1,6}})({'|'.join(_UNITS)})", part, re.ASCII)
    n_bytes = int(found[1]) * _UNITS[found[2]] if found else 0
    if n_bytes < LEAST_MEMORY:
        raise JobError(
            f"The cluster {text[:80]!r} gives its workers {part[:40]!r}; it takes memory=N with MB or GB, 2GB at least.",
            "Write local:N,memory=4GB, or local:N alone for an equal share of this computer's memory.",
            kind="cluster",
        )
    return n_bytes


def memory_of(address: Address) -> int:
    """Return the bytes that each worker of a local cluster may take: as its name says, else an equal share of this computer's.

    One share of it is left to the job itself. A worker that reaches 95 % of its limit is ended and started anew by Dask, which gives
    its shard to another try.
    """
    from distributed.system import MEMORY_LIMIT  # of this computer, or of the control group that the job runs in

    return address.memory_bytes or max(int(MEMORY_LIMIT) // (address.n_workers + 1), LEAST_MEMORY)


def _require_memory(address: Address) -> None:
    """Raise JobError where the workers may take more together than this computer has: the system would end them, or the job itself."""
    from distributed.system import MEMORY_LIMIT

    each, there = memory_of(address), int(MEMORY_LIMIT)
    if address.n_workers * each > there:
        raise JobError(
            f"{address.n_workers} workers of {each / 1e9:.1f} GB need {address.n_workers * each / 1e9:.0f} GB; this computer has "
            f"{there / 1e9:.0f} GB.",
            f"Take local:{max(1, there // each)} at most, or workers on further computers.",
            kind="cluster",
        )


def checked(text: str) -> str:
    """Return the name of a cluster as a job keeps it, with an absolute path; "" stays "".

    Raises:
        JobError: as `parse`, and where this computer has too little memory for the workers of a local one.
    """
    if not text:
        return ""
    found = parse(text)
    if found.kind == "local" and find_spec("distributed") is not None:
        _require_memory(found)
    return f"{_FILE}{Path(found.value).expanduser().resolve()}" if found.kind == "file" else text


class JobCluster:
    """The cluster of one job: connected to once somebody has shards for it, kept until the job ends. See `of_job`.

    Args:
        name: as `parse` reads it.
        folder: the job's.
        stack: what ends with the job.
        echo: also gets what `say` is given; the command line prints it.
    """

    def __init__(self, name: str, folder: Path, stack: ExitStack, echo: Callable[[str], object] | None = None) -> None:
        self.name, self.folder = name, folder
        self._stack, self._echo = stack, echo
        self._client: Any = None

    def client(self, shards: Path, needs: Mapping[str, object], is_cancelled: Callable[[], bool]) -> Any:
        """Return the client; the first call connects, waits for a worker where there is none, and checks all workers.

        Args:
            shards: folder of the job's shards. The job's log gets an event "cluster" with the workers and the address of Dask's
                dashboard.
            needs: what each worker must have, as `about` returns it.

        Raises:
            JobError: if the extra is missing, no scheduler answers, or a worker cannot do the work, see `misfit`.
            JobCancelled: if the user cancelled before there was a worker.
        """
        if self._client is None:
            self._client = self._stack.enter_context(_connected(self, shards, needs, is_cancelled))
        elif self._client.status != "running":
            raise gone()
        return self._client

    def say(self, words: str) -> None:
        """Write into the job's log, and so on its card, what it waits for."""
        events.append(self.folder, "stage", {"message": words})
        if self._echo:
            self._echo(words)


@contextmanager
def of_job(name: str, folder: Path, echo: Callable[[str], object] | None = None) -> Iterator[JobCluster | None]:
    """Yield the cluster of a job, None for the name ""; whoever has no shards for it starts none."""
    with ExitStack() as stack:
        yield JobCluster(name, folder, stack, echo) if name else None


GO_ON = "'Start again' on the job's card, or `pu-geo jobs P.pugeo resume ID`, goes on with the shards that are not finished."
"""What people find, on the screen and on the command line, after a job on a cluster has failed."""


def gone() -> JobError:
    """Return the error for a scheduler that does not answer any more."""
    return JobError(
        "The cluster's scheduler is gone, or gave up the shards of this job.",
        f"Start the cluster again; then {GO_ON}",
        kind="cluster",
    )


def has_workers(client: Any) -> bool:
    """Return whether a cluster has workers now; True where its scheduler does not answer, whose end cancels the futures."""
    with suppress(OSError, TimeoutError):
        return client.status != "running" or bool(client.nthreads())
    return True


@contextmanager
def _connected(
    job: JobCluster, folder: Path, needs: Mapping[str, object], is_cancelled: Callable[[], bool]
) -> Iterator[Any]:  # fmt: skip
    """Connect to a cluster, check its workers, and yield the client; a local cluster is started first and ended at the end."""
    cluster = job.name
    address = parse(cluster)
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise JobError(
            "Work on a cluster needs Dask, which is not installed here.", 'pip install "pu-geo[scale]"', kind="extra"
        ) from error
    job.say(f"starting {plural(address.n_workers, 'worker')}" if address.kind == "local" else CONNECTING)
    token = secrets.token_hex(8)
    write_json(folder / TOKEN, {"token": token})
    if address.kind == "local":
        _require_memory(address)
        with ExitStack() as stack:
            try:
                started = stack.enter_context(LocalCluster(
                    n_workers=address.n_workers, threads_per_worker=1, processes=True, host="127.0.0.1", scheduler_port=0,
                    dashboard_address="127.0.0.1:0", memory_limit=memory_of(address),
                    security=True,  # made for this cluster: no other account of the machine can use its ports
                ))  # fmt: skip
                client = stack.enter_context(Client(started))
                client.wait_for_workers(address.n_workers)
            except (OSError, TimeoutError, RuntimeError) as error:
                raise JobError(
                    f"The workers of {cluster} did not start: {' '.join(str(error).split())[:200] or type(error).__name__}.",
                    "This computer may be busy, or short of memory. Start the job again later, or with fewer workers or without a "
                    "cluster.",
                    kind="cluster",
                ) from error
            _note(client, folder, _check(client, cluster, folder, token, needs))
            yield client
        return
    if address.kind == "file":
        _check_file(Path(address.value))
    to = {"scheduler_file": address.value} if address.kind == "file" else {"address": address.value}
    try:
        client = Client(**to, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:  # TypeError: of Dask, for TLS without certificates
        raise JobError(
            f"The scheduler of {cluster} does not answer: {' '.join(str(error).split())[:200]}.",
            "See that `dask scheduler` runs there and that its port can be reached from here; tls:// also needs certificates in Dask's "
            "configuration on all computers (`distributed.comm.tls`). Then start the job again.",
            kind="cluster",
        ) from error
    try:
        _wait_for_a_worker(client, job, is_cancelled)
        _note(client, folder, _check(client, cluster, folder, token, needs))
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=2)


def _wait_for_a_worker(client: Any, job: JobCluster, is_cancelled: Callable[[], bool]) -> None:
    """Wait until a cluster has a worker: those of a batch system come once it has room for them. Its job says so, and can be cancelled."""
    if has_workers(client):
        return
    job.say(NO_WORKERS)
    while not has_workers(client):
        if is_cancelled():
            raise JobCancelled
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if client.status != "running":
        raise gone()
    job.say(WORKERS_CAME)


def _check_file(path: Path) -> None:
    """Raise JobError where a file is not one in which a scheduler writes where it is."""
    what, hint = "the file in which a scheduler writes where it is", "Start one with `dask scheduler --scheduler-file FILE`"
    if not path.is_file():
        raise JobError(f"{path} is not there: it is {what}.", f"{hint}, and name the same file.", kind="cluster")
    try:
        is_one = isinstance(json.loads(path.read_bytes())["address"], str)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        is_one = False
    if not is_one:
        raise JobError(f"{path} names no address: it is not {what}.", f"{hint}, and name that file.", kind="cluster")


def about(folder: Path) -> dict[str, object]:
    """Return what decides whether this process can work on the shards of a job, and with which results.

    Returns:
        {"host", "pid", "versions": of PU-Geo and of the libraries that compute chips and features, by name,
        "numbers": device, its model, number type and instructions of the processor,
        "token": what the shared folder says; "" where it is not there, "may_write"}
    """
    import cv2
    import numpy as np
    import rasterio
    import shapely
    import torch

    from pu_geo.features.rcf import fast_dtype
    from pu_geo.training.run import best_device

    device, token = best_device(), ""
    with suppress(OSError, ValueError, KeyError):
        token = str(json.loads((folder / TOKEN).read_text(encoding="utf-8"))["token"])
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    kind = f"{device.type} ({name}), {str(fast_dtype(device)).removeprefix('torch.')}, {torch.backends.cpu.get_cpu_capability()}"
    return {
        "host": socket.gethostname(), "pid": os.getpid(), "numbers": kind, "token": token, "may_write": os.access(folder, os.W_OK),
        "versions": {
            "pu_geo": __version__, "numpy": np.__version__, "torch": str(torch.__version__), "rasterio": rasterio.__version__,
            "GDAL": rasterio.__gdal_version__, "cv2": cv2.__version__, "shapely": shapely.__version__,
        },
    }  # fmt: skip


@cache
def _processor() -> str:
    """Return the model of the processor, as the system names it."""
    with suppress(OSError):
        if found := re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")):
            return found[1]
    return platform.processor() or platform.machine()


def misfit(worker: Mapping[str, Any], folder: Path, token: str, needs: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return problem and hint where a worker cannot do the work: another version, or no shared folder; None where it can.

    Args:
        worker, needs: as `about` returns them, of the worker and of the process that asks.
        token: what the file `TOKEN` in the folder says.
    """
    where = f"The worker on {worker['host']} (process {worker['pid']})"
    other = [
        f"{name.replace('_', '-')} {worker['versions'][name]} there, {version} here"
        for name, version in needs["versions"].items()
        if worker["versions"][name] != version
    ]
    if other:
        return (
            f"{where} has other versions: {', '.join(other)}.",
            "Install the same versions on all computers of the cluster; then start the job again.",
        )
    if worker["token"] != token:
        return (
            f"{where} does not find the folder {folder} of this job, or finds another one under this name.",
            "The project's folder and its scenes must be on a disk that all computers of the cluster mount at the same path.",
        )
    if not worker["may_write"]:
        return f"{where} may not write into {folder}.", "Start it as a user who may write into the project's folder."
    return None


def _check(
    client: Any, cluster: str, folder: Path, token: str, needs: Mapping[str, Any]
) -> list[dict[str, Any]]:  # fmt: skip
    """Ask all workers what they are; return that. Raises JobError for the first that cannot do the work."""
    answers = client.run(about, folder, on_error="return")
    for name, worker in answers.items():
        if isinstance(worker, Exception):
            raise JobError(
                f"The worker {name} of {cluster} cannot load PU-Geo: {' '.join(str(worker).split())[:200]}.",
                'Install this version there with `pip install "pu-geo[scale]"`; then start the job again.',
                kind="cluster",
            )
        if problem := misfit(worker, folder, token, needs):
            raise JobError(*problem, kind="cluster")
    return list(answers.values())


def _note(client: Any, folder: Path, workers: list[dict[str, Any]]) -> None:
    """Log which workers there are and where Dask's own page is; that needs bokeh where the scheduler runs."""
    dashboard = ""
    with suppress(PackageNotFoundError, OSError, TimeoutError):
        client.run_on_scheduler(version, "bokeh")
        dashboard = client.dashboard_link or ""
    facts = [{name: worker[name] for name in ("host", "pid", "numbers")} for worker in workers]
    words = f"working on {len(workers)} worker{'' if len(workers) == 1 else 's'}"
    events.append(folder.parent, "cluster", {"message": words, "dashboard": dashboard, "workers": facts})
    if kind := in_use.network_of(folder):
        words = f"the project is on a network disk ({kind}): it may be open on this computer alone, {socket.gethostname()}"
        events.append(folder.parent, "note", {"message": words})
