"""Run a task's shards on a cluster, and remember in the job's folder those that are finished.

A shard is a range of rows and plain JSON. Its worker writes arrays under a temporary name, renames the file, and writes
beside it which sha256 it has: a shard is finished once that is there. So a worker, a scheduler or a driver that is killed
loses running shards alone; a job that is resumed reads the finished ones, compares them with their sha256, and has the rest
done.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import __version__
from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.features.views import Report
from pu_geo.files import atomic_write, make_folder, remove_path, vouch
from pu_geo.records import Facts
from pu_geo.scale import cluster as clusters
from pu_geo.store import events
from pu_geo.store.layout import SHARDS, write_json

RETRIES = 2  # of a shard that ended with an error
SECONDS_BETWEEN_LOOKS = 0.05
_VISIBLE_S = 30.0  # a network disk may show a file of another computer some seconds later
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
Arrays = dict[str, NDArray[Any]]
Work = Callable[[Facts, int, int, Callable[[], bool]], Arrays]
"""What a worker does: (spec, first row, one past the last row, is_cancelled) -> arrays. A function at the top of a module of
`pu_geo.scale`, so that workers find it by its name; "project" in the spec is the project's folder."""


@dataclass(frozen=True)
class Shard:
    """A part of a task: rows start..stop, and what decides the result, as JSON. Paths in the project are relative to its
    folder.
    """

    start: int
    stop: int
    spec: Facts

    @property
    def name(self) -> str:
        """Of its files, without the ending: other rows or another spec give another name."""
        text = json.dumps([self.start, self.stop, self.spec], sort_keys=True)
        return f"{self.start:09d}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def planned(n_rows: int, rows: int, spec: Facts) -> list[Shard]:
    """Return shards of `rows` rows each, the last one shorter, of one spec."""
    return [Shard(start, min(start + rows, n_rows), spec) for start in range(0, n_rows, rows)]


def folder_of(job_folder: Path) -> Path:
    """Return the folder of a job's shards, which is made where it is missing."""
    make_folder(job_folder / SHARDS)
    return job_folder / SHARDS


def remove(job_folder: Path) -> None:
    """Remove a job's shards, once what they are for is stored."""
    remove_path(job_folder / SHARDS)


def run(
    work: Work, plan: Sequence[Shard], take: Callable[[Shard, Arrays], None], *, cluster: clusters.JobCluster,
    report: Report, is_cancelled: Callable[[], bool],
) -> None:  # fmt: skip
    """Do all shards of a plan, on the cluster those that are not finished, and hand the arrays of each to `take` once.

    Shards come in any order, so `take` must not depend on it.

    Args:
        cluster: of a job whose folder is on a disk that all workers have; its log gets an event "shard" for each that is
            done.
        report: called with {"done", "total"} in rows.

    Raises:
        JobError: if the cluster cannot be used, its scheduler is gone, or a shard cannot be finished.
        PuGeoError: what a shard refused.
        JobCancelled: if the user cancelled; finished shards stay.
    """
    folder, now = folder_of(cluster.folder), versions()
    total, done, todo = sum(shard.stop - shard.start for shard in plan), 0, []
    for shard in (replace(each, spec={**each.spec, "versions": now}) for each in plan):
        if is_cancelled():
            raise JobCancelled
        arrays = finished(folder, shard)
        if arrays is None:
            todo.append(shard)
            continue
        take(shard, arrays)
        done += shard.stop - shard.start
        report({"done": done, "total": total})
    if len(todo) < len(plan):
        words = f"{len(plan) - len(todo)} of {len(plan)} shards were finished before"
        events.append(cluster.folder, "kept", {"message": words})
    if not todo:
        return
    if cluster.client.status != "running":
        raise clusters.gone()
    for shard, record in _completed(cluster.client, work, folder, todo, is_cancelled):
        take(shard, _fresh(folder, shard, record))
        done += shard.stop - shard.start
        facts = {name: record[name] for name in ("host", "pid", "seconds")}
        events.append(cluster.folder, "shard", {"rows": [shard.start, shard.stop], **facts})
        report({"done": done, "total": total})


def versions() -> dict[str, str]:
    """Return the versions of PU-Geo and of the libraries that compute chips and features, by name: other ones, other
    results.
    """
    import cv2
    import rasterio
    import shapely
    import torch

    return {
        "pu-geo": __version__, "numpy": np.__version__, "torch": str(torch.__version__), "rasterio": rasterio.__version__,
        "GDAL": rasterio.__gdal_version__, "cv2": cv2.__version__, "shapely": shapely.__version__,
    }  # fmt: skip


def _completed(
    client: Any, work: Work, folder: Path, todo: Sequence[Shard], is_cancelled: Callable[[], bool]
) -> Iterator[tuple[Shard, Facts]]:
    """Have the cluster do shards; yield each with its record as it is finished."""
    from distributed import as_completed
    from distributed.comm import CommClosedError

    futures = client.map(partial(do, work, folder), todo, pure=False, retries=RETRIES)
    shard_of = dict(zip((future.key for future in futures), todo, strict=True))
    ready, left = as_completed(futures, loop=client.loop), len(futures)
    try:
        while left:
            if is_cancelled():
                raise JobCancelled
            if not ready.has_ready():
                time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            future = next(ready)
            if future.status in ("lost", "pending"):
                ready.add(future)  # its worker died as it handed the record over: the scheduler has it done again
                continue
            left -= 1
            yield shard_of[future.key], _record(future)
            future.release()
    except CommClosedError as error:
        raise clusters.gone() from error
    finally:
        if left:
            with suppress(Exception):  # the scheduler may be what is gone
                client.cancel(futures)


def _record(future: Any) -> Facts:
    """Return what a shard's worker returned; raise what it refused, or why there is nothing."""
    if future.status == "cancelled":
        raise clusters.gone()
    if future.status == "error":
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            raise JobError(
                f"A shard ended all workers that tried it: {' '.join(str(error).split())[:300]}",
                "Workers may have too little memory: start the job anew on fewer of them, or on another cluster. Or: "
                f"{clusters.GO_ON}",
                kind="cluster",
            ) from error
        if isinstance(error, ImportError):
            raise JobError(
                f"A worker cannot load PU-Geo: {' '.join(str(error).split())[:200]}.",
                f'Install this version there with `pip install "pu-geo[scale]"`; then {clusters.GO_ON}',
                kind="cluster",
            ) from error
        raise error.with_traceback(future.traceback())
    record: Facts = future.result()
    if "refused" in record:
        problem, hint, kind = record["refused"]
        raise PuGeoError(problem, hint, kind=kind)
    if "cancelled" in record:
        raise JobCancelled
    return record


def do(work: Work, folder: Path, shard: Shard) -> Facts:
    """Do one shard, on a worker: write its arrays, then its record, and return the record.

    A refusal is returned, so that nobody tries it again: {"refused": [problem, hint, kind]}; a cancelled one is
    {"cancelled"}.
    """
    import torch

    began, here, where = time.monotonic(), versions(), f"The worker on {socket.gethostname()} (process {os.getpid()})"
    other = [
        f"{name} {here[name]} there, {version} here"
        for name, version in shard.spec["versions"].items()
        if here[name] != version
    ]
    if other:
        hint = "Install the same versions on all computers of the cluster; then start the job again."
        return {"refused": [f"{where} has other versions: {', '.join(other)}.", hint, "cluster"]}
    if not os.access(folder, os.W_OK):
        hint = (
            "The project's folder and its scenes must be on a disk that all computers mount at the same path, for one user."
        )
        return {
            "refused": [f"{where} does not find the folder {folder} of this job, or may not write there.", hint, "cluster"]
        }
    vouch(folder.parents[2])
    cancel, spec = folder.parent / "cancel", {**shard.spec, "project": str(folder.parents[2])}
    torch.set_num_threads(1)  # the last bits of a sum may depend on their number
    _keep_freed_memory()
    try:
        arrays = work(spec, shard.start, shard.stop, cancel.exists)
    except JobCancelled:
        return {"cancelled": True}
    except PuGeoError as error:
        return {"refused": [error.problem, error.hint, error.kind]}
    path = folder / f"{shard.name}.npz"
    with atomic_write(path) as temporary:
        with temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
        with temporary.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    record = {
        "sha256": sha256, "host": socket.gethostname(), "pid": os.getpid(), "seconds": round(time.monotonic() - began, 3)
    }  # fmt: skip
    write_json(path.with_suffix(".json"), record)
    return record


def _keep_freed_memory() -> None:
    """Let malloc of glibc keep freed blocks up to 32 MB, as it learns to by itself where nobody sets a threshold.

    Dask sets `MALLOC_TRIM_THRESHOLD_` for its workers, which ends that learning: each array of torch above 128 kB is then
    new pages of the system, and features of chips took 2.8 times the processor's time.
    """
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 128 << 20)


def finished(folder: Path, shard: Shard) -> Arrays | None:
    """Return the arrays of a shard that is finished; None where it is not, or its file is not the one that was written."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads((folder / f"{shard.name}.json").read_text(encoding="utf-8"))
        return _read(folder / f"{shard.name}.npz", str(record["sha256"]))
    return None


def _fresh(folder: Path, shard: Shard, record: Facts) -> Arrays:
    """Return the arrays that a worker has just written."""
    path, until = folder / f"{shard.name}.npz", time.monotonic() + _VISIBLE_S
    while True:
        found = None
        with suppress(OSError):  # a network disk may know it later, or the file before it
            found = _read(path, record["sha256"])
        if found is not None:
            return found
        if time.monotonic() > until:
            raise JobError(
                f"{path} is missing here, or is not what the worker on {record['host']} wrote (sha256 "
                f"{record['sha256'][:12]}...).",
                f"See whether the shared disk works; then {clusters.GO_ON}",
                kind="cluster",
            )
        time.sleep(0.2)


def _read(path: Path, sha256: str) -> Arrays | None:
    """Return the arrays of a file; None where it has another sha256."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
