"""A training on several devices: torchrun starts a process for each, `runs.rank_job`, and ends them all where one dies.

The process of the job holds the job's lock and waits. Rank 0 does all that a training alone does: it reports, evaluates,
writes checkpoints and stores the run. How each rank ended, it notes in the job's folder (`note_end`); one that was killed
cannot.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pu_geo.errors import JobCancelled, JobPaused, PuGeoError, TrainingError
from pu_geo.files import APPENDED, make_folder, opened, remove_path
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.records import Facts, View
from pu_geo.store.job import Job
from pu_geo.store.layout import read_json, write_json
from pu_geo.wording import plural

RANK = "pu_geo.runs.rank_job"
ENDED = "ended"  # line that a rank prints once it has noted why it ends; the others are not waited for
LOG = "log.txt"  # in a job's folder: what its processes and their libraries print
_ENDS = "ranks"  # folder in a job's
_LISTED = re.compile(r"^\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)", re.MULTILINE)  # torchrun's list of those that failed


def n_devices(request: TrainingRequest, views: Sequence[View]) -> tuple[int, str]:
    """Return on how many devices a training runs, and a warning, "" without one.

    Args:
        request: `devices` of it are used, as far as there are as many CUDA devices; without any, as many processes on the
            CPU, as far as there are cores.
        views: named views of the data; layers are learned from on one device.
    """
    n_cuda = torch.cuda.device_count()
    has_layers = bool({view.name for view in views} - {"pre", "post"})
    if not request.card.takes_devices or (has_layers and request.card.takes_layers):
        reason = f"{request.card.title} learns from layers on one device; {request.devices} were asked for."
        return 1, reason if request.devices > 1 else ""
    if n_cuda and request.devices > n_cuda:
        return n_cuda, f"{request.devices} devices were asked for, and this machine has {n_cuda}, which were used."
    n_cores = os.cpu_count() or 1
    if not n_cuda and request.devices > n_cores:
        cores = plural(n_cores, "core")
        return (
            n_cores,
            f"{request.devices} devices were asked for; this machine has no GPU and {cores}, so {n_cores} trained.",
        )
    return request.devices, ""


def train_on(job: Job, request: TrainingRequest, n: int) -> None:
    """Train as n ranks; returns once rank 0 has stored the run.

    Raises:
        PuGeoError, JobCancelled, JobPaused: as a rank raised it; TrainingError too where a rank was killed.
        OSError, RuntimeError: for a fault in a rank.
    """
    ends = job.folder / _ENDS
    make_folder(ends)
    for path in ends.glob("*.json"):
        remove_path(path)
    log = job.folder / LOG
    n_before = log.stat().st_size if log.exists() else 0
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n), "-m", RANK,
        str(job.layout.folder), str(job.folder), json.dumps(request.as_args()),
    ]  # fmt: skip
    with os.fdopen(opened(log, APPENDED), "ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(n),
            start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:  # until the last rank is gone
            if line.rstrip("\n") == ENDED:
                break
            if job.echo:
                job.echo(line.rstrip("\n"))
        else:
            process.wait()
    finally:
        _end(process)
    _raise_end(_read_ends(ends), process.returncode, n, log.read_bytes()[n_before:].decode("utf-8", errors="replace"))


def _environment(n: int) -> dict[str, str]:
    """Return the variables of the ranks: the machine's threads are shared out, and they talk over the loopback alone.

    Who needs other interfaces sets GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, as with every torchrun.
    """
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "lo")
    given = {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback, **os.environ}
    threads = str(max(1, torch.get_num_threads() // n))
    return {**given, "OMP_NUM_THREADS": threads, "PYTHONSAFEPATH": "1"}  # no module from wherever we are


def _end(process: subprocess.Popen[str]) -> None:
    """Kill torchrun, where it has not ended, and wait for its ranks, which end with it: what they write is whole or not
    there.
    """
    process.kill()
    if process.stdout is not None:
        with process.stdout:
            while process.stdout.readline():  # nothing more once the last of them is gone
                pass
    process.wait()


def note_end(folder: Path, number: int, error: BaseException) -> None:
    """Write into a job's folder what a rank raised.

    "how" it ended is "paused", "cancelled", "refused" (a `PuGeoError`) or "fault"; beside it are "at" and "problem", of a
    refusal "hint" and "kind", of a fault of the system "errno" and "file_name".
    """
    facts: dict[str, Any] = {"how": "fault", "at": time.time(), "problem": f"{type(error).__name__}: {error}"}
    if isinstance(error, PuGeoError):
        facts |= {"how": "refused", "problem": error.problem, "hint": error.hint, "kind": error.kind}
    elif isinstance(error, JobCancelled | KeyboardInterrupt):
        facts |= {"how": "paused" if isinstance(error, JobPaused) else "cancelled"}
    elif isinstance(error, OSError) and error.errno is not None:
        facts |= {"errno": error.errno, "problem": error.strerror, "file_name": error.filename}
    write_json(folder / _ENDS / f"{number}.json", facts)


def _read_ends(folder: Path) -> list[Facts]:
    """Return how ranks ended, the first one to end first."""
    return sorted(map(read_json, folder.glob("*.json")), key=lambda end: end["at"])


def _raise_end(ends: Sequence[Facts], code: int, n: int, log: str) -> None:
    """Raise what ended a training early. A rank that loses another has a fault of its own, which counts the least."""
    raised = [end for end in ends if end["how"] != "fault"]
    if raised:
        first = raised[0]
        if first["how"] == "refused":
            raise TrainingError(first["problem"], first["hint"], kind=first["kind"])
        raise JobPaused if first["how"] == "paused" else JobCancelled
    if code == 0:
        return
    killed = {rank: -int(exit_code) for rank, exit_code in _LISTED.findall(log) if int(exit_code) < 0}
    others = {rank: number for rank, number in killed.items() if number != signal.SIGTERM} or killed  # torchrun's own
    if others or not ends:
        rank, number = next(iter(others.items()), ("", 0))
        which = f"process {int(rank) + 1} of {n} was killed (signal {number})" if others else "its processes were killed"
        raise TrainingError(
            f"The training on {n} devices ended early: {which}.",
            "Memory may have run out; the job's log says more. 'Resume' or 'Start again' on its card, or `pu-geo jobs "
            "P.pugeo resume ID`, "
            "goes on after its last checkpoint.",
            kind="rank",
        )
    fault = ends[0]
    if "errno" in fault:
        raise OSError(fault["errno"], fault["problem"], fault["file_name"])
    raise RuntimeError(f"in one of {n} processes that trained together: {fault['problem']}")


def facts_of(arguments: Sequence[str]) -> tuple[Path, Path, Facts]:
    """Read a rank's arguments: project, folder of the job, and request."""
    project, folder, request = arguments
    return Path(project), Path(folder), json.loads(request)
