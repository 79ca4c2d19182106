"""The child process of `vector_process`: limits itself, reads one footprint file, writes the answer into a folder.

Started as `python -m pu_geo.geo.vector_child KIND PATH FOLDER CRS`. It holds no project and no database. Refusals go into
the answer; whatever else goes wrong ends the process, and the parent tells why.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from pu_geo.errors import FootprintError
from pu_geo.geo import vector_process

_READERS = {"zip": "ogr_files", "shp": "ogr_files", "fgb": "ogr_files", "parquet": "table_files", "csv": "table_files"}


def main(arguments: Sequence[str]) -> None:
    """Read a file under limits; see the module."""
    kind, path, folder, crs = arguments
    _limit()
    # Late, so that the limits hold from the reader's first line on, and Arrow and GDAL are not loaded for each other.
    reader = importlib.import_module(f"pu_geo.geo.{_READERS[kind]}")
    try:
        blobs, attributes, found_crs = reader.read(kind, Path(path), Path(folder), crs or None)
    except FootprintError as refusal:
        _write(Path(folder), {"problem": refusal.problem, "hint": refusal.hint, "kind": refusal.kind})
        return
    with (Path(folder) / vector_process.SHAPES).open("wb") as file:
        file.writelines(blob for blob in blobs if blob is not None)
    sizes = [None if blob is None else len(blob) for blob in blobs]
    _write(Path(folder), {"crs": found_crs, "sizes": sizes, "attributes": attributes})


def _limit() -> None:
    """Bound memory, processor time and what may be written; systems without these limits have the parent's clock alone."""
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    limits = {
        resource.RLIMIT_AS: vector_process.MAX_MEMORY_BYTES,
        resource.RLIMIT_CPU: vector_process.MAX_CPU_SECONDS,
        resource.RLIMIT_FSIZE: vector_process.MAX_ANSWER_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    for limit, most in limits.items():
        _, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def _write(folder: Path, answer: Mapping[str, object]) -> None:
    text = orjson.dumps(answer, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    (folder / vector_process.ANSWER).write_bytes(text)


def _plain(value: object) -> str | None:
    """Turn a value that JSON does not have into text; binary becomes null."""
    return None if isinstance(value, bytes | memoryview) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
