"""Model files: one zip of two parts, and everything else is refused in words, unopened."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from pu_geo.errors import ModelError
from pu_geo.project import model_files
from pu_geo.project.model_files import CARD, WEIGHTS

CORPUS = {
    "bad_dtype.safetensors": "type 'OBJ'",
    "bitflip.pt": "PyTorch checkpoint",
    "bitflip.safetensors": "without the card",
    "dup_key.safetensors": "names 'a' twice",
    "empty.pt": "is empty",
    "evil_legacy.pth": "Python pickle",
    "evil_raw.pkl": "Python pickle",
    "evil_zip.pt": "PyTorch checkpoint",
    "expand_bomb.pt": "PyTorch checkpoint",
    "hdr_200MB_claim.safetensors": "claims a header of 209,715,200 bytes",
    "hdr_len_huge.safetensors": "claims a header of 4,611,686,018,427,387,904 bytes",
    "hole.safetensors": "leave a gap",
    "html.pt": "not a model file",
    "missing_key.pt": "PyTorch checkpoint",
    "nan_weights.pt": "PyTorch checkpoint",
    "neg_shape.safetensors": "sizes are whole numbers from 1 on",
    "not_json.safetensors": "is no JSON",
    "ok.safetensors": "holds 1 tensors without the card",
    "oob.safetensors": "is cut off",
    "overlap.safetensors": "overlap",
    "shape_mismatch.safetensors": "its shape [4000000, 4000000] needs",
    "shape_overflow.safetensors": "its shape [8589934592, 8589934592] needs",
    "trunc.pt": "PyTorch checkpoint",
    "trunc.safetensors": "is cut off",
    "wrong_shape.pt": "PyTorch checkpoint",
    "zip_bomb.pt": "PyTorch checkpoint",
}


def card_of(weights: bytes, **others: Any) -> dict[str, Any]:
    """A card that fits weights of one tensor "a", float32 [4, 4]."""
    return {
        "format": model_files.FORMAT, "format_version": 1, "method": "ncpu", "preset": "quick", "settings": {}, "input": {},
        "learned_from": {}, "tensors": {"a": {"shape": [4, 4], "dtype": "float32"}},
        "sha256": hashlib.sha256(weights).hexdigest(), **others,
    }  # fmt: skip


def some_weights() -> bytes:
    return save({"a": np.arange(16, dtype=np.float32).reshape(4, 4)})


def packed(path: Path, card: object, weights: bytes) -> Path:
    text = card if isinstance(card, bytes) else json.dumps(card).encode()
    model_files.write(path, text, weights)
    return path


def words_of(path: Path) -> str:
    with pytest.raises(ModelError) as refused:
        model_files.read(path)
    assert refused.value.hint
    return refused.value.problem


def test_what_is_written_is_read_and_written_alike_again(tmp_path: Path) -> None:
    weights = some_weights()
    path = packed(tmp_path / "m.zip", card_of(weights), weights)
    found = model_files.read(path)
    assert found.card["method"] == "ncpu"
    assert found.name == "m.zip"
    np.testing.assert_array_equal(found.tensors["a"], np.arange(16).reshape(4, 4))
    model_files.write(tmp_path / "again.zip", found.card_bytes, found.weights)
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("name", "words"), CORPUS.items())
def test_hostile_files_are_refused_and_run_nothing(
    name: str, words: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    traps = set(Path("/tmp").glob("PWNED_*"))
    assert words in words_of(shared / "bad_inputs" / "model" / name)
    assert not list(tmp_path.iterdir())
    assert set(Path("/tmp").glob("PWNED_*")) == traps


def test_the_corpus_has_no_other_files(shared: Path) -> None:
    assert {path.name for path in (shared / "bad_inputs" / "model").iterdir()} == CORPUS.keys()


@pytest.mark.parametrize("name", [name for name in CORPUS if name.endswith(".safetensors")])
def test_hostile_weights_are_refused_inside_a_model_file_too(name: str, shared: Path, tmp_path: Path) -> None:
    good = (shared / "bad_inputs" / "model" / "ok.safetensors").read_bytes()
    weights = (shared / "bad_inputs" / "model" / name).read_bytes()
    if name == "ok.safetensors":
        assert model_files.read(packed(tmp_path / "m.zip", card_of(good), weights)).tensors["a"].shape == (4, 4)
        return
    assert "sha256" in words_of(packed(tmp_path / "m.zip", card_of(good), weights))
    if name != "bitflip.safetensors":  # which is a good file of other numbers
        assert "weights in a file that" in words_of(packed(tmp_path / "m.zip", card_of(weights), weights))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "resnet"}, "its format is 'resnet'"),
        ({"format_version": 2}, "version 2 of the format"),
        ({"format_version": True}, "version True of the format"),
        ({"settings": []}, "without a proper 'settings'"),
        ({"method": None}, "without a proper 'method'"),
        ({"sha256": "0" * 64}, "another sha256"),
        ({"tensors": {}}, "does not hold the tensors that its card lists: 'a'"),
        ({"tensors": {"a": {"shape": [16], "dtype": "float32"}}}, "does not hold the tensors"),
        ({"more": [[[[[[[1]]]]]]]}, "nested more than"),
        ({"more": "x" * 1_000_001}, "which is too large"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    weights = some_weights()
    assert words in words_of(packed(tmp_path / "m.zip", card_of(weights, **change), weights))


@pytest.mark.parametrize("card", [b"", b"null", b'{"format": "pu-geo model", "format": 1}', b"\xff", b'{"a": Infinity}'])
def test_a_card_that_is_no_plain_json_is_refused(card: bytes, tmp_path: Path) -> None:
    assert "has a card (model.json) that" in words_of(packed(tmp_path / "m.zip", card, some_weights()))


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content, method)
    return stream.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


def with_long_contents() -> bytes:
    """A zip that says at its end that it has two members, and a megabyte of table of contents."""
    whole = bytearray(zip_of((CARD, b"{}"), (WEIGHTS, b"")))
    struct.pack_into("<L", whole, len(whole) - 10, 1_000_000)
    return bytes(whole)


ZIPS: dict[str, tuple[Callable[[], bytes], str]] = {
    "traversal": (lambda: zip_of(("../model.json", b"{}"), (WEIGHTS, b"")), "it holds '../model.json'"),
    "absolute": (lambda: zip_of((CARD, b"{}"), ("/tmp/PWNED_zip", b"")), "it holds '/tmp/PWNED_zip'"),
    "one": (lambda: zip_of((CARD, b"{}")), "holds something else"),
    "three": (lambda: zip_of((CARD, b"{}"), (WEIGHTS, b""), ("x", b"")), "holds something else"),
    "folder": (lambda: zip_of((CARD, b"{}"), ("model.safetensors/", b"")), "it holds 'model.safetensors/'"),
    "link": (lambda: zip_of((CARD, b"{}"), (link(WEIGHTS), b"/etc/passwd")), "compressed or a link"),
    "bomb": (
        lambda: zip_of((CARD, b"{}"), (WEIGHTS, bytes(20_000_000)), method=zipfile.ZIP_DEFLATED),
        "compressed or a link",
    ),
    "twice": (lambda: zip_of((CARD, b"{}"), (CARD, b"{}")), "damaged zip"),
    "contents": (with_long_contents, "holds something else"),
    "comment": (lambda: zip_of((CARD, b"{}"), (WEIGHTS, b"")) + b"more", "cut off, or holds"),
    "cut": (lambda: zip_of((CARD, b"{}"), (WEIGHTS, b"abc"))[:-30], "cut off, or holds"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ZIPS)
def test_zips_that_are_no_model_files_are_refused(name: str, tmp_path: Path) -> None:
    make, words = ZIPS[name]
    (tmp_path / "m.zip").write_bytes(make())
    assert words in words_of(tmp_path / "m.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["m.zip"]


def test_a_byte_that_changed_on_its_way_is_noticed(tmp_path: Path) -> None:
    weights = some_weights()
    path = packed(tmp_path / "m.zip", card_of(weights), weights)
    content = bytearray(path.read_bytes())
    content[content.index(weights[-8:]) + 3] ^= 1
    path.write_bytes(bytes(content))
    assert "damaged" in words_of(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    assert "is not there" in words_of(tmp_path / "missing.zip")
    assert "not a regular file" in words_of(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in words_of(tmp_path / "pipe")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "m.zip").open("wb") as stream:
        stream.truncate(model_files.MAX_FILE + 1)
    assert "is larger than the 537 MB" in words_of(tmp_path / "m.zip")
