"""The child process of `child_process`: limits itself, reads files of other people, writes answers into its folder.

Started as `python -m pu_geo.geo.readers.child_main` with the request on its standard input. It holds no project and no database.
Refusals are answers; whatever else goes wrong ends the process, and the parent tells why.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from pu_geo.errors import ImageryError, PuGeoError
from pu_geo.geo.readers.child_process import ANSWER, BLOBS, Answer
from pu_geo.geo.readers.file_kinds import regular_file
from pu_geo.records import FootprintTable, Grid

SECONDS_TO_END = 5


def main() -> None:
    """Read files under limits; see the module."""
    request = orjson.loads(sys.stdin.buffer.read())
    _limit(request["limits"])
    gc.disable()  # it would look through millions of coordinates time and again, nearly half of the time; we end soon
    read = READERS[request["reader"]]
    for i, (name, arguments) in enumerate(zip(request["paths"], request["arguments"], strict=True)):
        part = Path(f"{i}")
        part.mkdir()
        try:
            answer = read(Path(name), arguments)
        except PuGeoError as refusal:
            words = {key: _text(getattr(refusal, key)) for key in ("problem", "hint", "kind")}
            _write(part, {"error": type(refusal).__name__, **words})
            continue
        with (part / BLOBS).open("wb") as file:
            file.writelines(blob for blob in answer.blobs if blob is not None)
        _write(part, {"values": answer.values, "sizes": [None if blob is None else len(blob) for blob in answer.blobs]})


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
        # The softer limit on time ends the process by a signal that tells why; at the hard one it is simply killed.
        last = most + SECONDS_TO_END if limit == resource.RLIMIT_CPU else most
        last = last if hard == resource.RLIM_INFINITY else min(last, hard)
        with contextlib.suppress(ValueError):  # macOS does not take every limit on memory
            resource.setrlimit(limit, (min(most, last), last))


def _write(part: Path, answer: Mapping[str, object]) -> None:
    """Write an answer in one step: half of one is none."""
    whole = part / f"{ANSWER}.part"
    whole.write_bytes(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY))
    whole.replace(part / ANSWER)


def _text(text: str) -> str:
    """Make a text that JSON can hold; what a file holds need not be Unicode."""
    return text.encode(errors="backslashreplace").decode()


# Readers. Their libraries are loaded late, so that the limits hold from their first line on, and none is loaded for another.


def _scene(path: Path, arguments: Mapping[str, Any]) -> Answer:
    scene = asdict(importlib.import_module("pu_geo.geo.raster.scene_files").describe(path, **arguments))
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
    return Grid(**{**values, "transform": tuple(values["transform"])})


READERS: Mapping[str, Callable[[Path, Mapping[str, Any]], Answer]] = {
    "scene": _scene,
    "footprints": _footprints,
    "summary": _summary,
    "xbd_place": _xbd_place,
    "xbd_footprints": _xbd_footprints,
}

if __name__ == "__main__":
    main()
