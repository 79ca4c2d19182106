"""Versions of the damage map: `exports/v1`, `exports/v2`, ..., each a folder that is there whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pu_geo.errors import ProjectError
from pu_geo.files import make_folder, move_path, remove_path, write_file
from pu_geo.store import removals, store
from pu_geo.store.layout import Layout, lost, read_json, reading, write_facts
from pu_geo.store.locks import one_at_a_time
from pu_geo.store.store import now

_NAME = re.compile(r"v([1-9]\d*)")
_MOST_STATE = 2**29  # bytes; that of a million buildings has 200 MB
FACTS, _STATE = "version.json", "state.json.gz"


def numbers(layout: Layout) -> list[int]:
    """Return the numbers of the versions there are, rising."""
    if not layout.exports.is_dir():
        return []
    found = [_NAME.fullmatch(path.name) for path in layout.exports.iterdir() if path.is_dir()]
    return sorted(int(match[1]) for match in found if match)


def next_number(layout: Layout) -> int:
    """Return the number of the next version: one that was removed keeps its number."""
    return max([*numbers(layout), *store.call(layout, removals.removed_versions)], default=0) + 1


@contextmanager
def new_version(layout: Layout) -> Iterator[tuple[int, Path]]:
    """Yield the number of the next version and a folder to fill; it gets its name at the end, or is removed.

    One at a time in a project: whoever comes second waits, and gets the next number.
    """
    with one_at_a_time(layout.exports / ".lock"):
        for left in layout.exports.glob(".new-*"):  # of a process that was killed: nobody else has the lock
            remove_path(left)
        number = next_number(layout)
        folder = layout.exports / f".new-{secrets.token_hex(4)}"
        make_folder(folder)  # with the rights that the umask leaves
        try:
            yield number, folder
            for path in folder.iterdir():
                with path.open("rb") as written:
                    os.fsync(written.fileno())
            move_path(folder, layout.exports / f"v{number}")
        finally:
            remove_path(folder)


def put_facts(folder: Path, facts: Mapping[str, object]) -> None:
    """Write `version.json`, what a version is; all its other files are there by now."""
    write_facts(folder / FACTS, {"made_at": now(), **facts}, [path for path in sorted(folder.rglob("*")) if path.is_file()])


def all_facts(layout: Layout) -> list[dict[str, Any]]:
    """Return `version.json` of each version, the newest first."""
    paths = [layout.exports / f"v{number}" / FACTS for number in reversed(numbers(layout))]
    return [read_json(path) for path in paths if path.is_file()]


def write_state(folder: Path, building_ids: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> None:
    """Write what the next version is compared with: columns of a map, each of length N."""
    state = {"building_id": list(building_ids), **{name: list(values) for name, values in columns.items()}}
    write_file(folder / _STATE, gzip.compress(json.dumps(state, ensure_ascii=False).encode(), compresslevel=3))


def read_state(layout: Layout, version: str) -> dict[str, list[Any]]:
    """Return what a version, such as "v2", says: "building_id" and the columns that were written, each of length N.

    Raises:
        ProjectError: if there is no such version, or it holds nothing to compare with.
    """
    path = layout.exports / version / _STATE
    if not _NAME.fullmatch(version) or not path.is_file():
        raise ProjectError(
            f"Version {version} cannot be compared: {_STATE} is not in its folder.", "Choose versions that hold it."
        )
    with reading(path), gzip.open(path) as stream:
        text = stream.read(_MOST_STATE + 1)
        if len(text) > _MOST_STATE:
            raise lost(path, ValueError())
        found: dict[str, list[Any]] = json.loads(text)
    return found
