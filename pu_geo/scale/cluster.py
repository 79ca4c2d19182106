"""The cluster that a job works on: its name as people write it, and the connection.

Dask runs the cluster; there is no scheduler of ours. Import of `distributed` is left to whoever connects: it takes a second,
and the extra may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pu_geo.errors import JobError
from pu_geo.store import events
from pu_geo.wording import plural

CONNECT_S = 20.0  # for the first answer of a scheduler, and its first worker
FORMS = "local:4 or tcp://HOST:8786"
LEAST_MEMORY = 2 * 10**9
"""Bytes of a worker's limit: it holds 1 GB once it has loaded what computes chips and features, libraries' files
included.
"""
GO_ON = "'Start again' on the job's card, or `pu-geo jobs P.pugeo resume ID`, goes on with the shards that are not finished."
"""What people find, on the screen and on the command line, after a job on a cluster has failed."""


def n_local(text: str) -> int:
    """Return how many workers a job starts on this computer for a cluster; 0 for one that runs already.

    Raises:
        JobError: if it is none of `FORMS`.

    Example:
        >>> n_local("local:4"), n_local("tcp://head-node:8786")
        (4, 0)
    """
    found = re.fullmatch(r"local:([1-9][0-9]{0,2})|(tcp|tls)://[A-Za-z0-9.:\[\]_-]+:[0-9]{1,5}", text)
    if not found:
        raise JobError(f"{text[:80]!r} names no cluster.", f"Write {FORMS}.", kind="cluster")
    return int(found[1] or 0)


def memory_of(n_workers: int) -> int:
    """Return the bytes that each worker of this computer may take: an equal share of its memory; one is left to the job
    itself.

    A worker that reaches 95 % of its limit is ended and started anew by Dask, which gives its shard to another try.

    Raises:
        JobError: where they may take more together than there is: the system would end them, or the job itself.
    """
    from distributed.system import MEMORY_LIMIT  # of this computer, or of the control group that the job runs in

    there = int(MEMORY_LIMIT)
    each = max(there // (n_workers + 1), LEAST_MEMORY)
    if n_workers * each > there:
        raise JobError(
            f"{n_workers} workers of 2 GB need {n_workers * 2} GB; this computer has {there / 1e9:.0f} GB.",
            f"Take local:{max(1, there // LEAST_MEMORY)} at most, or workers on further computers.",
            kind="cluster",
        )
    return each


def require(text: str) -> None:
    """Raise JobError where a job cannot work on a cluster of this name: see `n_local` and `memory_of`."""
    if (n_workers := n_local(text)) and find_spec("distributed") is not None:
        memory_of(n_workers)


class JobCluster(NamedTuple):
    """The cluster of one job: the job's folder, and Dask's client."""

    folder: Path
    client: Any


@contextmanager
def of_job(name: str, folder: Path, echo: Callable[[str], object] | None = None) -> Iterator[JobCluster | None]:
    """Start the workers of a job, or connect to its cluster, until the block ends; yield None for the name "".

    Args:
        name: as `n_local` reads it.
        folder: the job's; its log, and so its card, says when workers are started or the cluster is connected to.
        echo: also gets what the log says; the command line prints it.

    Raises:
        JobError: if the extra is missing, workers do not start, or no scheduler with a worker answers.
    """
    with ExitStack() as stack:
        yield JobCluster(folder, _connected(name, folder, echo, stack)) if name else None


def _connected(name: str, folder: Path, echo: Callable[[str], object] | None, stack: ExitStack) -> Any:
    n_workers = n_local(name)
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise JobError(
            "Work on a cluster needs Dask, which is not installed here.", 'pip install "pu-geo[scale]"', kind="extra"
        ) from error
    words = f"starting {plural(n_workers, 'worker')}" if n_workers else f"connecting to {name}"
    events.append(folder, "stage", {"message": words})
    if echo:
        echo(words)
    try:
        address = name
        if n_workers:
            address = stack.enter_context(LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, host="127.0.0.1", scheduler_port=0,
                dashboard_address="127.0.0.1:0", memory_limit=memory_of(n_workers),
                security=True,  # made for this cluster: no other account of the machine can use its ports
            ))  # fmt: skip
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
        stack.callback(_close, client)
        client.wait_for_workers(n_workers or 1, timeout=None if n_workers else CONNECT_S)
    except (OSError, TimeoutError, RuntimeError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
        raise JobError(
            f"The cluster {name} does not answer, or has no workers: "
            f"{' '.join(str(error).split())[:200] or type(error).__name__}.",
            "On this computer: start the job again later, with fewer workers or without a cluster. Elsewhere: see that "
            "`dask scheduler` and a `dask worker` run there and that the port can be reached from here; tls:// needs "
            "certificates in Dask's configuration.",
            kind="cluster",
        ) from error
    return client


def _close(client: Any) -> None:
    with suppress(OSError, TimeoutError):  # the scheduler may be what is gone
        client.close(timeout=2)


def gone() -> JobError:
    """Return the error for a scheduler that does not answer any more."""
    return JobError(
        "The cluster's scheduler is gone, or gave up the shards of this job.",
        f"Start the cluster again; then {GO_ON}",
        kind="cluster",
    )
