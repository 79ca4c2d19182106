"""Files of other people are read in a process of its own, with limits: the side that asks, and the child that answers.

GDAL, Arrow, GEOS and SQLite parse bytes in C and C++: a made-up file may end the process, or ask for all memory. Here it can
only end the reading. GDAL also brings a second SQLite library, which must not share a process with an open project.

The child is started as `python -m pu_geo.geo.child_process` with the request on its standard input. It limits itself, reads
the files, and writes answers into its folder; it holds no project and no database. Refusals are answers; whatever else goes
wrong ends the process, and the parent reports why.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from pu_geo.errors import FootprintError, ImageryError, PuGeoError
from pu_geo.geo.readers.file_kinds import regular_file
from pu_geo.records import FootprintTable, Grid

OUTPUT = "output.txt"
MAX_OUTPUT_BYTES = 4_000
ERRORS: Mapping[str, type[PuGeoError]] = {"FootprintError": FootprintError, "ImageryError": ImageryError}
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_NUM_THREADS": "1",
    "GDAL_SKIP": "VRT,HTTP,WMS,WMTS,WCS,OGCAPI,STACIT,STACTA,PLMOSAIC,EEDAI,DAAS,Derived",  # read before GDAL is loaded
    "PROJ_NETWORK": "OFF",
    "SHAPE_RESTORE_SHX": "NO",
    "VERIFY_BUFFERS": "YES",
}
_TOO_LARGE = ("MemoryError", "bad_alloc", "Out of memory")
SECONDS_TO_END = 5


@dataclass(frozen=True)
class Limits:
    """What one child may take.

    Attributes:
        seconds: on the clock, for all of its files together.
        cpu_seconds: of processor time, of all its threads.
        memory_bytes: of address space; more than what is in use at a time.
        file_bytes: of each file that it writes into its folder.
        answer_bytes: that are taken over from it.
    """

    seconds: float
    cpu_seconds: int
    memory_bytes: int
    file_bytes: int
    answer_bytes: int


@dataclass(frozen=True)
class Answer:
    """What a reader found: values that JSON has, and blobs, None where one is missing."""

    values: Mapping[str, object]
    blobs: Sequence[bytes | None]


class ReaderEnded(Exception):
    """The child ended without an answer, most often because of the file. Callers turn it into an error of theirs.

    Args:
        kind: "timeout", "size" (memory, or an answer too large) or "crash".
        last_words: its last line, or its exit status.
    """

    def __init__(self, kind: str, last_words: str) -> None:
        super().__init__(f"{kind}: {last_words}")
        self.kind = kind
        self.last_words = last_words


def ask(reader: str, path: Path, arguments: Mapping[str, object], limits: Limits) -> Answer:
    """Have one file read; see `ask_each`."""
    (answer,) = ask_each(reader, [path], [arguments], limits)
    if not isinstance(answer, Answer):
        raise answer
    return answer


def ask_each(
    reader: str, paths: Sequence[Path], arguments: Sequence[Mapping[str, object]], limits: Limits
) -> list[Answer | PuGeoError | ReaderEnded]:
    """Have files read in turn by one child, since a child takes a third of a second to start.

    Args:
        reader: key of `READERS`.
        paths: absolute; arguments: of each, values that JSON has.

    Returns:
        For each file its answer, its refusal or how it ended the child; nothing for those after that one.
    """
    with tempfile.TemporaryDirectory(prefix="pu-geo-") as name:
        folder = Path(name)
        ended = _run(folder, {
            "reader": reader,
            "limits": asdict(limits),
            "paths": [str(path) for path in paths],
            "arguments": list(arguments),
        }, limits.seconds)  # fmt: skip
        found: list[Answer | PuGeoError | ReaderEnded] = []
        for i in range(len(paths)):
            answer = folder / f"{i}.json"
            if not answer.is_file():
                return [*found, ended or ReaderEnded("crash", "the reader stopped without a word")]
            found.append(_taken_over(answer, limits))
        return found


def _run(folder: Path, request: Mapping[str, object], seconds: float) -> ReaderEnded | None:
    """Start the child in a folder of its own and wait for it; return why it ended, None if it finished."""
    here = {name: str(folder) for name in ("TMPDIR", "TEMP", "TMP", "CPL_TMPDIR", "SQLITE_TMPDIR")}
    with (folder / OUTPUT).open("wb") as output:  # a file: it must not fill our memory
        try:
            done = subprocess.run(
                # -P: no module from wherever we are, least of all from the folder that files are unpacked to.
                [sys.executable, "-P", "-m", "pu_geo.geo.child_process"],
                input=orjson.dumps(request),
                stdout=subprocess.DEVNULL,
                stderr=output,
                cwd=folder,
                env={**os.environ, **_SETTINGS, **here},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ReaderEnded("timeout", f"it took over {seconds:g} s")
    if not done.returncode:
        return None
    with (folder / OUTPUT).open("rb") as output:
        output.seek(max(0, (folder / OUTPUT).stat().st_size - MAX_OUTPUT_BYTES))
        lines = output.read().decode(errors="replace").strip().splitlines()
    last = lines[-1][:160] if lines else f"the reader stopped with {done.returncode}"
    if done.returncode == -getattr(signal, "SIGXCPU", 0):
        return ReaderEnded("timeout", "it took too much processor time")
    return ReaderEnded("size" if any(word in last for word in _TOO_LARGE) else "crash", last)


def _taken_over(path: Path, limits: Limits) -> Answer | PuGeoError | ReaderEnded:
    """Check and take over what the child wrote; nothing of it is code."""
    if (n_bytes := path.stat().st_size) > limits.answer_bytes:
        return ReaderEnded("size", f"its contents take {n_bytes / 1e6:,.0f} MB")
    answer = orjson.loads(path.read_bytes())
    if "error" in answer:
        return ERRORS.get(answer["error"], PuGeoError)(answer["problem"], answer["hint"], kind=answer["kind"])
    return Answer(answer["values"], [None if blob is None else bytes.fromhex(blob) for blob in answer["blobs"]])


# The child


def main() -> None:
    """Read files under limits; see the module."""
    request = orjson.loads(sys.stdin.buffer.read())
    _limit(request["limits"])
    gc.disable()  # it would go through millions of coordinates time and again, nearly half of the time; we end soon
    read = READERS[request["reader"]]
    for i, (name, arguments) in enumerate(zip(request["paths"], request["arguments"], strict=True)):
        part = Path(f"{i}.part")
        try:
            answer = read(Path(name), arguments)
        except PuGeoError as refusal:
            # What a file holds need not be Unicode.
            words = {
                key: getattr(refusal, key).encode(errors="backslashreplace").decode() for key in ("problem", "hint", "kind")
            }
            found = {"error": type(refusal).__name__, **words}
        else:
            found = {"values": answer.values, "blobs": [None if blob is None else blob.hex() for blob in answer.blobs]}
        part.write_bytes(orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY))
        part.replace(f"{i}.json")  # in one step: half of an answer is none


def _limit(limits: Mapping[str, int]) -> None:
    """Bound memory, processor time and what may be written; systems without these limits have the parent's clock alone."""
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    wanted = {
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_CORE: 0,
    }
    for limit, most in wanted.items():
        _, hard = resource.getrlimit(limit)
        # The softer limit on time ends the process by a signal of its own; at the hard one it is simply killed.
        last = most + SECONDS_TO_END if limit == resource.RLIMIT_CPU else most
        last = last if hard == resource.RLIM_INFINITY else min(last, hard)
        with contextlib.suppress(ValueError):  # macOS does not take every limit on memory
            resource.setrlimit(limit, (min(most, last), last))


# Readers. Their libraries are loaded late, so that the limits hold from their first line on, and none is loaded for another.


def _described(describe: str, path: Path, arguments: Mapping[str, Any]) -> Answer:
    scene = asdict(getattr(importlib.import_module("pu_geo.geo.raster.scene_files"), describe)(path, **arguments))
    return Answer({key: value for key, value in scene.items() if key != "path"}, [])


def _footprints(path: Path, arguments: Mapping[str, Any]) -> Answer:
    read = importlib.import_module("pu_geo.geo.vector.footprints").read_footprints
    return _table(read(path, **{**arguments, "grid": _grid(arguments["grid"])}))


def _summary(path: Path, _: Mapping[str, Any]) -> Answer:
    return Answer({"text": importlib.import_module("pu_geo.geo.vector.footprints").describe_footprints(path)}, [])


def _xbd_place(path: Path, arguments: Mapping[str, Any]) -> Answer:
    labels = regular_file(path, ImageryError)
    return Answer(asdict(importlib.import_module("pu_geo.geo.readers.xbd").place_of(labels, **arguments)), [])


def _xbd_footprints(path: Path, arguments: Mapping[str, Any]) -> Answer:
    """Read label files, of which the folder is `path`, as one; what they are called is `name`."""
    load = importlib.import_module("pu_geo.geo.readers.footprint_files").load_features
    reader = importlib.import_module("pu_geo.geo.vector.footprints")
    raw = importlib.import_module("pu_geo.geo.readers.raw_footprints").joined(
        [load(labels) for labels in arguments["labels"]]
    )
    return _table(reader.footprint_table(raw, arguments["name"], _grid(arguments["grid"])))


def _table(table: FootprintTable) -> Answer:
    return Answer({key: value for key, value in vars(table).items() if key != "wkb"}, table.wkb)


def _grid(values: Mapping[str, Any]) -> Grid:
    return Grid.from_json(values)


def _write_layer(path: Path, arguments: Mapping[str, Any]) -> Answer:
    return importlib.import_module("pu_geo.geo.export.layers").write_layer(path, arguments)


READERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Answer]] = {
    "scene": partial(_described, "describe"),
    "layer": partial(_described, "describe_layer"),
    "footprints": _footprints,
    "summary": _summary,
    "xbd_place": _xbd_place,
    "xbd_footprints": _xbd_footprints,
    "write_layer": _write_layer,
}

if __name__ == "__main__":
    main()
