"""The folder in which a training goes to another machine and its outcome comes back, and how a stranger's is read.

`spec.json` is what every worker reads. `pack.json` says what to train and holds the sha256 of all that was packed,
`outcome.json` what came of it and the sha256 of that. Numbers lie in .npy files, and weights in a safetensors file.
Files are opened without following links, and nothing is believed before its size, type and sha256 are checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ModelError
from pu_geo.project.strict_json import MAX_BYTES, BadJson, parse_object

PACK_FORMAT, OUTCOME_FORMAT, VERSION = "pu-geo training", "pu-geo outcome", 1
SPEC, PACK, OUTCOME = "spec.json", "pack.json", "outcome.json"
INPUTS, CLASSES, LEFT_OUT, IDS = "inputs.npy", "classes.npy", "left_out.npy", "building_ids.json"
ACCEPTED = "accepted.npy"
"""There where buildings of accepted clusters are among the positives."""
SCORES, EMBEDDINGS, WEIGHTS, CURVE = "scores.npy", "embeddings.npy", "model.safetensors", "curve.json"
OUTCOME_FILES = (SCORES, EMBEDDINGS, WEIGHTS, CURVE)
MAX_WEIGHTS = 2**29
_MAX_HEADER = 4096
_BLOCK = 1 << 20
_BAD_HEADER = (ValueError, TypeError, SyntaxError, LookupError, RecursionError, MemoryError, OverflowError, EOFError)
"""How numpy fails on a header that it evaluates as a literal."""
_HINT = "Copy the folder again as a whole, or pack the training again with `pu-geo pack`."


def refusal(what: str, problem: str, hint: str = _HINT) -> ModelError:
    """Return the error that says why a packed training is not used; `problem` goes on after what it is about."""
    return ModelError(f"{what} {problem}.", hint, kind="packed")


@contextmanager
def opened(folder: Path, name: str, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file of a packed folder; no link is followed, and no pipe is waited for.

    Args:
        most: bytes that it may have; any number if None.

    Raises:
        ModelError: if it is missing, no regular file, too large or cannot be read.
    """
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise refusal(str(folder), f"holds no {name}") from error
    except OSError as error:
        told = "is a link" if (folder / name).is_symlink() else f"cannot be read: {error.strerror or error}"
        raise refusal(f"{name} in {folder}", f"{told}; it must be a regular file") from error
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise refusal(f"{name} in {folder}", "is no regular file")
        if most is not None and found.st_size > most:
            raise refusal(f"{name} in {folder}", f"has {found.st_size:,} bytes; at most {most:,} are read")
        yield stream


def read_object(folder: Path, name: str, form: str | None = None) -> dict[str, Any]:
    """Read one JSON object.

    Args:
        form: what its "format" must be, with "format_version" 1; not looked at if None.

    Raises:
        ModelError: if it is none, or of another format or version.
    """
    with opened(folder, name, MAX_BYTES) as stream:
        content = stream.read()
    try:
        found = parse_object(content)
    except BadJson as error:
        raise refusal(f"{name} in {folder}", str(error)) from error
    if form is not None and found.get("format") != form:
        raise refusal(f"{name} in {folder}", f"is not of a {form}: its format is {str(found.get('format'))[:60]!r}")
    version = found.get("format_version")
    if form is not None and (type(version) is not int or version != VERSION):
        raise refusal(
            f"{name} in {folder}", f"is written in version {str(version)[:20]} of its format; this program reads {VERSION}",
            "Use the same version of PU-Geo on both machines.",
        )  # fmt: skip
    return found


def checked(told: Mapping[str, Any], name: str, kinds: type | tuple[type, ...], where: str) -> Any:
    """Return a value of an object if it is there and of one of these types; True and False are no numbers.

    Raises:
        ModelError: otherwise.
    """
    value = told.get(name)
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise refusal(where, f"has no proper {name!r}: {str(value)[:60]!r}")
    return value


def sha256_in(folder: Path, name: str) -> str:
    """Return the lowercase hex sha256 of a file of the folder.

    Raises:
        ModelError: see `opened`.
    """
    digest = hashlib.sha256()
    with opened(folder, name) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def ids_as_bytes(ids: Sequence[str]) -> bytes:
    """Return the content of `building_ids.json`: the same buildings in the same order give the same bytes."""
    return json.dumps(list(ids), ensure_ascii=True).encode("ascii")


def read_array(
    folder: Path, name: str, dtype: str, shape: tuple[int | None, ...], sha256: object, *, most_values: int = 2**34
) -> NDArray[Any]:
    """Read a .npy file of a stranger's into memory.

    Args:
        dtype: numpy name of the only type that is taken.
        shape: sizes that it must have; None stands for any from 1 on.
        sha256: what it must have, lowercase hex.
        most_values: numbers that it may hold.

    Raises:
        ModelError: if it is missing, a link, too large, damaged, or of another type or shape.
    """
    wanted = np.dtype(dtype)
    with opened(folder, name, most_values * wanted.itemsize + _MAX_HEADER) as stream:
        content = stream.read()
    where = f"{name} in {folder}"
    if hashlib.sha256(content).hexdigest() != sha256:
        raise refusal(where, "is damaged: it has another sha256 than was written down")
    found, first = _header(content, where)
    if found["fortran"] or found["dtype"] != wanted:
        raise refusal(where, f"holds numbers of type {found['dtype']}; {wanted} in rows are needed")
    there: tuple[int, ...] = found["shape"]
    if len(there) != len(shape) or any(
        size < 1 or need not in (None, size) for size, need in zip(there, shape, strict=True)
    ):
        words = " x ".join("any" if size is None else str(size) for size in shape)
        raise refusal(where, f"has the shape {list(there)}; {words} is needed")
    if math.prod(there) * wanted.itemsize != len(content) - first:
        raise refusal(where, f"is cut off or too long for its shape {list(there)}")
    return np.frombuffer(content, wanted, offset=first).reshape(there)


def _header(content: bytes, where: str) -> tuple[dict[str, Any], int]:
    """Read the head of a .npy file, version 1.0 as `numpy.save` writes it, and where its numbers begin."""
    stream = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
    except _BAD_HEADER as error:
        raise refusal(where, "is no .npy file, or a damaged one") from error
    return {"shape": shape, "fortran": fortran and len(shape) > 1, "dtype": dtype}, stream.tell()
