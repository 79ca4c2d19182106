"""What all shards of a step are given: arrays and plain facts in two files of the job's folder, under a name made of their
content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.files import atomic_write
from pu_geo.records import Facts
from pu_geo.store.layout import read_arrays, read_json, write_json


def write(folder: Path, kind: str, arrays: Mapping[str, NDArray[Any]], about: Facts) -> str:
    """Write what shards need into a folder, and return the name of the file with the arrays.

    Args:
        kind: first part of the name.
        about: JSON.
    """
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    path = folder / f"{kind}-{digest.hexdigest()[:16]}.npz"
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    write_json(path.with_suffix(".json"), about)
    return path.name


@lru_cache(maxsize=1)
def read(path: Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """Read what `write` wrote: arrays, and the facts about them."""
    return read_arrays(path), read_json(path.with_suffix(".json"))
