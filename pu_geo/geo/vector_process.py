"""Footprint formats read by foreign libraries: in a process of its own, with limits, that never opens a project.

GDAL (through pyogrio) and Arrow parse bytes in C++: a made-up file may end the process, or ask for all memory. Here it can
only end the reading. GDAL also brings a second SQLite library, which must not share a process with an open project.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

from pu_geo.errors import FootprintError
from pu_geo.geo.raw_footprints import RawFootprints, broken, from_blobs, known_crs

MAX_CPU_SECONDS = 120
MAX_SECONDS = 180.0
MAX_MEMORY_BYTES = 4 * 1024**3  # of address space; 100,000 buildings take under 0.6 GB of it
MAX_ANSWER_BYTES = 3 * 1024**3
SHAPES, ANSWER = "shapes.bin", "answer.json"
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_NUM_THREADS": "1",
    "PROJ_NETWORK": "OFF",
    "SHAPE_RESTORE_SHX": "NO",
    "VERIFY_BUFFERS": "YES",
}
_TOO_LARGE = ("MemoryError", "bad_alloc", "ArrowMemoryError", "Out of memory")


def read_in_process(path: Path, kind: str, crs: str | None = None) -> RawFootprints:
    """Read a file of kind "zip", "shp", "fgb", "parquet" or "csv" in a limited child process.

    Args:
        path: real path of a regular file.
        crs: "EPSG:n" or WKT, for a file that does not name its own.

    Raises:
        FootprintError: the child's refusal; kind "timeout" or "size" where a limit ended it, "parse" where it broke.
    """
    with tempfile.TemporaryDirectory(prefix="pu-geo-") as folder:
        # -P: no module from wherever we are, least of all from the folder that files are unpacked to.
        command = [sys.executable, "-P", "-m", "pu_geo.geo.vector_child", kind, str(path), folder, crs or ""]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**os.environ, **_SETTINGS},
                timeout=MAX_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as cause:
            raise _took_too_long(path.name) from cause
        if done.returncode:
            raise _ended(path.name, done.returncode, done.stderr.decode(errors="replace"))
        return _answer(Path(folder), path.name)


def _took_too_long(name: str) -> FootprintError:
    return broken(name, "reading took too long", "Cut it to the area of the scenes, or save it as GeoPackage.", "timeout")


def _ended(name: str, code: int, said: str) -> FootprintError:
    """Tell why the child ended, from its exit status and the last line it wrote."""
    last = said.strip().splitlines()[-1][:160] if said.strip() else f"the reader stopped with {code}"
    if code == -getattr(signal, "SIGXCPU", 0):
        return _took_too_long(name)
    if any(word in last for word in _TOO_LARGE):
        return broken(
            name, "it needs more memory than a footprint file may take", "Cut it to the area of the scenes.", "size"
        )
    return broken(name, f"it is damaged ({last})")


def _answer(folder: Path, name: str) -> RawFootprints:
    """Check and take over what the child wrote; nothing of it is code."""
    answer = orjson.loads((folder / ANSWER).read_bytes())
    if "problem" in answer:
        raise FootprintError(answer["problem"], answer["hint"], kind=answer["kind"])
    try:
        crs = known_crs(answer["crs"])
    except ValueError as cause:
        raise broken(
            name, f"its coordinate system {answer['crs'][:60]!r} is not known", "Save it in EPSG:4326.", "crs"
        ) from cause
    data, blobs, at = (folder / SHAPES).read_bytes(), [], 0
    for size in answer["sizes"]:
        blobs.append(None if size is None else data[at : at + size])
        at += size or 0
    return from_blobs(blobs, answer["attributes"], [None] * len(blobs), crs, name)
