"""Trained models: the two files of a run that are one, and the one file in which people hand them on.

`model.safetensors` holds numbers alone, `model.json` (the card) says what they are, what they were learned from and which
sha256 they have. A model file is a zip of the two, not compressed. Nothing here runs code from a file or unpacks to disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from pu_geo.errors import ModelError
from pu_geo.files import atomic_write

FORMAT, VERSION = "pu-geo model", 1
CARD, WEIGHTS = "model.json", "model.safetensors"
SUFFIX = ".pugeo-model.zip"
MAX_FILE = 2**29  # larger files are not read; a network with ResNet-18 takes 50 MB, the largest that settings allow 270 MB
MAX_CARD = 1_000_000  # bytes; the card of a network of 200 tensors takes 20,000
MAX_DEPTH = 6  # of what is nested in JSON
MAX_HEADER, MAX_TENSORS, MAX_AXES, MAX_NAME = 1_000_000, 2_000, 6, 200
DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}  # what our models are made of
FILTERS, MAKER = "random_filters.", "feature_maker."
"""First parts of the names of tensors outside the network: they make the features that it takes of chips, rcf and others."""
MAX_WITH_MAKER = MAX_FILE - 2 * MAX_CARD  # bytes of all tensors up to which those of a maker go into the file
_END = struct.Struct("<4s4H2LH")  # end of a zip: signature, disk numbers, entries here and in all, size and place, comment
_MAX_DIRECTORY = 1_000
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError, OverflowError, RuntimeError,
)  # fmt: skip
_NEXT = "Ask for it to be exported again, on the Research page or with `pu-geo model export`, and copied as a whole."


@dataclass(frozen=True)
class Model:
    """A model as it was read: checked by itself, not yet against the method that it says it is of.

    Attributes:
        card: what `runs.model_card_job` wrote.
        tensors: name -> array, float or int, C order, at least one value each, all of them finite.
        name: of the file it came from, for messages.
        card_bytes, weights: both parts as they came.
    """

    card: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    name: str
    card_bytes: bytes
    weights: bytes


def refusal(name: str, problem: str, hint: str = _NEXT, *, kind: str = "model") -> ModelError:
    """Return the error that says why a model file is not used; `problem` goes on after its name."""
    return ModelError(f"{name} {problem}.", hint, kind=kind)


def is_there(folder: Path) -> bool:
    """Return whether the folder of a run has a model with a card."""
    return all((folder / name).is_file() for name in (CARD, WEIGHTS))


def of_run(folder: Path) -> tuple[bytes, bytes]:
    """Return card and weights of a run, as they are in its folder, which has its id as name.

    Raises:
        ModelError: if the run has none, or they do not belong together.
    """
    if not is_there(folder):
        raise ModelError(
            f"Run {folder.name} has no model: the instant ranker and an average over feature sets have none.",
            "Choose a run of a method, or train it again on one feature set.",
            kind="no_model",
        )
    card, weights = (folder / CARD).read_bytes(), (folder / WEIGHTS).read_bytes()
    if _card(card, folder.name)["sha256"] != hashlib.sha256(weights).hexdigest():
        raise refusal(f"Run {folder.name}", "has weights that are damaged: their sha256 is not the card's", "Train again.")
    return card, weights


def write(path: Path, card: bytes, weights: bytes) -> None:
    """Write a model file atomically; the same model gives the same bytes."""
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in ((CARD, card), (WEIGHTS, weights)):
            archive.writestr(zipfile.ZipInfo(name), content)


def read(path: Path) -> Model:
    """Read a model of somebody else's.

    Args:
        path: of a model file; of the folder of a run, or of a project, whose newest run with a model is read.

    Raises:
        ModelError: if it is not a model of ours, too large, damaged, or its parts do not fit each other.
    """
    if path.is_dir():
        cards = [path / CARD] if (path / CARD).exists() else list(path.glob(f"runs/*/{CARD}"))
        if not cards:
            raise refusal(
                str(path), "holds no run with a model", "Name a model file, or a project in which a method was trained."
            )
        newest = max(cards, key=lambda each: str(_card(_content(each), str(each)).get("created_at")))
        return from_parts(_content(newest), _content(newest.with_name(WEIGHTS)), f"Run {newest.parent.name}")
    content = _content(path)
    card, weights = _members(content, path)
    return from_parts(card, weights, path.name)


def from_parts(card: bytes, weights: bytes, name: str) -> Model:
    """Check card and weights against each other.

    Raises:
        ModelError: see `read`.
    """
    facts = _card(card, name)
    if hashlib.sha256(weights).hexdigest() != facts["sha256"]:
        raise refusal(name, "is damaged: its weights have another sha256 than its card says")
    try:
        tensors = _tensors(weights)
    except ValueError as error:
        raise refusal(name, f"has weights in a file that {error}") from error
    there = {key: {"shape": list(array.shape), "dtype": array.dtype.name} for key, array in tensors.items()}
    if there != facts["tensors"]:
        odd = sorted(key for key in {*there, *facts["tensors"]} if there.get(key) != facts["tensors"].get(key))
        raise refusal(name, f"does not hold the tensors that its card lists: {', '.join(map(_short, odd[:3]))}")
    return Model(facts, tensors, name, card, weights)


def _tensors(content: bytes) -> dict[str, NDArray[Any]]:
    """Read a safetensors file, see `Model.tensors`. Raises ValueError; its text goes on after what holds them."""
    if (length := int.from_bytes(content[:8], "little")) > MAX_HEADER:
        raise ValueError(f"claims a header of {length:,} bytes; at most {MAX_HEADER:,} are read")
    try:
        parts = deserialize(content)
    except SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing: ")[:120]
        raise ValueError(f"is no safetensors file, or a damaged one ({reason})") from error
    if not 1 <= len(parts) <= MAX_TENSORS:
        raise ValueError(f"has {len(parts)} tensors; 1 to {MAX_TENSORS:,} are read")
    found = {}
    for name, part in parts:
        if not 1 <= len(name) <= MAX_NAME or not name.isascii() or not name.isprintable():
            raise ValueError(f"names a tensor {name[:60]!r}; names are short plain texts")
        if part["dtype"] not in DTYPES:
            raise ValueError(f"holds {name!r} of type {part['dtype']}; models are made of {', '.join(DTYPES)}")
        if len(part["shape"]) > MAX_AXES or not part["data"]:
            raise ValueError(f"gives {name!r} the shape {_short(part['shape'])}; 1 value at least, {MAX_AXES} axes at most")
        found[name] = np.frombuffer(part["data"], DTYPES[part["dtype"]]).reshape(part["shape"])
        if n_bad := int((~np.isfinite(found[name])).sum()):
            raise ValueError(f"holds {n_bad} values in {name!r} that are not finite numbers")
    return found


def parse_object(text: bytes, most: int = MAX_CARD) -> dict[str, Any]:
    """Parse one JSON object of somebody else's, within limits and only where it can mean one thing.

    Args:
        text: UTF-8.
        most: bytes that it may have.

    Returns:
        The object: dicts, lists, texts, whole numbers, finite floats, bools and None, nested at most `MAX_DEPTH` deep.

    Raises:
        ValueError: if it is larger or deeper, no object, names one thing twice, or holds NaN, Infinity or half of a sign
            that takes two (a surrogate); its text goes on after what it is about.
    """
    if len(text) > most:
        raise ValueError(f"has {len(text):,} bytes; at most {most:,} are read")
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once_each)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON that can be read ({str(error)[:120]})") from error
    if not isinstance(found, dict):
        raise ValueError("is no JSON object")
    nested: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        nested = [one for value in nested for one in (value.values() if isinstance(value, dict) else value)]
        nested = [value for value in nested if isinstance(value, dict | list)]
    if nested:
        raise ValueError(f"is nested more than {MAX_DEPTH} deep")
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"it names {Counter(name for name, _ in pairs).most_common(1)[0][0][:60]!r} twice")
    return found


def _card(text: bytes, name: str) -> dict[str, Any]:
    """Read a card and check its form."""
    try:
        facts = parse_object(text)
    except ValueError as error:
        raise refusal(name, f"has a card ({CARD}) that {error}") from error
    if facts.get("format") != FORMAT:
        raise refusal(name, f"has a card that is not of a {FORMAT}: its format is {_short(facts.get('format'))}")
    version = facts.get("format_version")
    if type(version) is not int or version != VERSION:
        raise refusal(
            name, f"is written in version {_short(version)} of the format; this program reads version {VERSION}",
            "Install the PU-Geo version that wrote it, or export it from one that is as old as this.",
        )  # fmt: skip
    texts, objects = ("method", "preset", "sha256"), ("settings", "tensors", "input", "learned_from")
    for key, kind in {**dict.fromkeys(texts, str), **dict.fromkeys(objects, dict)}.items():
        if not isinstance(facts.get(key), kind):
            raise refusal(name, f"has a card without a proper {key!r}")
    return facts


def _short(value: object) -> str:
    return repr(value)[:60]


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise refusal(str(path), "is not there, or not a regular file", "Check the path.")
    if path.stat().st_size > MAX_FILE:
        raise refusal(path.name, f"is larger than the {MAX_FILE / 1e6:,.0f} MB that a model file may have")
    try:
        return path.read_bytes()
    except OSError as error:
        raise refusal(path.name, f"cannot be read: {error.strerror or error}", "Check the disk and your rights.") from error


def _members(content: bytes, path: Path) -> tuple[bytes, bytes]:
    """Return card and weights of a zip that holds these two and nothing else."""
    if not content.startswith(b"PK\x03\x04") or not _has_two_members(content):
        raise refusal(path.name, _what_else(content, path.suffix))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for info in archive.infolist():
                if info.filename not in (CARD, WEIGHTS):
                    words = f"it holds {_short(info.filename)}, while a model file holds {CARD} and {WEIGHTS} alone"
                    raise refusal(path.name, f"is not a model file of PU-Geo: {words}")
                is_odd = info.flag_bits & 1 or stat.S_ISLNK(info.external_attr >> 16) or info.is_dir()
                if is_odd or info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                    raise refusal(path.name, f"was packed by another program: {info.filename} is compressed or a link")
                if info.file_size > (MAX_CARD if info.filename == CARD else MAX_FILE):
                    raise refusal(path.name, f"has a {info.filename} of {info.file_size:,} bytes, which is too large")
            return archive.read(CARD), archive.read(WEIGHTS)
    except _BROKEN as error:
        raise refusal(path.name, "is a damaged zip file") from error


def _has_two_members(content: bytes) -> bool:
    """Check the end of a zip before anything reads its table of contents, which may be as long as it likes."""
    if len(content) < _END.size:
        return False
    signature, disk, first_disk, n_here, n_all, n_bytes, _, n_comment = _END.unpack_from(content, len(content) - _END.size)
    is_whole = signature == b"PK\x05\x06" and disk == first_disk == 0 and n_comment == 0
    return bool(is_whole and n_here == n_all == 2 and n_bytes <= _MAX_DIRECTORY)


def _what_else(content: bytes, suffix: str) -> str:
    """Return what a file is that is no model file of ours."""
    if not content:
        return "is empty"
    if b"/data.pkl" in content[:4096] and content.startswith(b"PK"):
        return "is a PyTorch checkpoint; such files can run code when they are opened, so PU-Geo never opens them"
    if content.startswith(b"PK"):
        return f"is a zip file that is cut off, or holds something else than {CARD} and {WEIGHTS}"
    if content[:1] == b"\x80" or content[:2] in (b"c_", b"cp", b"co", b"(d", b"(l", b"(S"):
        return "is a Python pickle; such files can run code when they are opened, so PU-Geo never opens them"
    if suffix != ".safetensors":
        return "is not a model file of PU-Geo: it is no zip file"
    try:
        return f"holds {len(_tensors(content))} tensors without the card that says what they are"
    except ValueError as error:
        return str(error)
