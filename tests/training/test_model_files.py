"""Model files: one zip of two parts, and everything else is refused in words, unopened."""

import hashlib
import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from pu_geo.errors import ModelError
from pu_geo.training import model_files
from pu_geo.training.model_files import CARD, WEIGHTS


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


def test_weights_of_every_type_come_as_they_were_written_and_are_written_alike_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "half": rng.normal(size=(3, 2)).astype(np.float16), "single": rng.normal(size=(2, 1, 5)).astype(np.float32),
        "double": rng.normal(size=4), "whole": np.arange(3), "scalar": np.array(7),
    }  # fmt: skip
    listed = {name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in arrays.items()}
    weights = save(arrays, metadata={"made": "here"})
    path = packed(tmp_path / "m.zip", card_of(weights, tensors=listed), weights)
    found = model_files.read(path)
    assert (found.name, found.card, found.tensors.keys()) == ("m.zip", card_of(weights, tensors=listed), arrays.keys())
    for name, array in arrays.items():
        assert found.tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(found.tensors[name], array)
    model_files.write(tmp_path / "again.zip", found.card_bytes, found.weights)
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_hostile_files_are_refused_alone_and_inside_a_model_file_and_run_nothing(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    traps = set(Path("/tmp").glob("PWNED_*"))
    corpus = {path.name: path for path in (shared / "bad_inputs" / "model").iterdir()}
    assert len(corpus) == 26
    good = corpus["ok.safetensors"].read_bytes()
    for name, path in corpus.items():
        assert words_of(path)  # also of a good one without a card
        assert not list(tmp_path.iterdir())
        weights = path.read_bytes()
        if name.endswith(".safetensors") and name != "ok.safetensors":
            assert "sha256" in words_of(packed(tmp_path / "m.zip", card_of(good), weights))
            if name != "bitflip.safetensors":  # which is a good file of other numbers
                assert "has weights in a file that" in words_of(packed(tmp_path / "m.zip", card_of(weights), weights)), name
            (tmp_path / "m.zip").unlink()
    assert model_files.read(packed(tmp_path / "m.zip", card_of(good), good)).tensors["a"].shape == (4, 4)
    assert set(Path("/tmp").glob("PWNED_*")) == traps


def file_of(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin: int = 0, end: int = 16, shape: Any = (4,), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


CLAIMS: dict[str, tuple[bytes, str]] = {
    "no tensors": (file_of({}), "has 0 tensors"),
    "many": (file_of({"a": tensor()} | {f"b{i}": tensor(16, 16, (0,)) for i in range(2_000)}, bytes(16)), "has 2001 tensors"),
    "spaces": (file_of(b" " * (model_files.MAX_HEADER + 1)), "claims a header"),
    "name": (file_of({"a\n": tensor()}, bytes(16)), "names a tensor"),
    "type": (file_of({"a": tensor(dtype="U8", end=4)}, bytes(4)), "of type U8; models are made of"),
    "empty": (file_of({"a": tensor(0, 0, (2**60, 0))}), "1 value at least"),
    "axes": (file_of({"a": tensor(shape=(1,) * 70 + (4,))}, bytes(16)), "6 axes at most"),
    "infinite": (file_of({"a": tensor()}, np.array([0, 1, np.nan, np.inf], "<f4").tobytes()), "2 values in 'a' that are not"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_weights_that_cannot_be_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(CLAIMS[name][0])
    assert CLAIMS[name][1] in words_of(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"format": "resnet"}, "its format is 'resnet'"), ({"format_version": True}, "version True of the format"),
     ({"settings": []}, "without a proper 'settings'"), ({"sha256": "0" * 64}, "another sha256"),
     ({"tensors": {"a": {"shape": [16], "dtype": "float32"}}}, "does not hold the tensors"),
     ({"more": [[[[[[[1]]]]]]]}, "nested more than"), ({"more": "x" * 1_000_001}, "which is too large")],
)  # fmt: skip
def test_a_card_that_does_not_fit_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    weights = some_weights()
    assert words in words_of(packed(tmp_path / "m.zip", card_of(weights, **change), weights))


@pytest.mark.parametrize(
    ("text", "words"),
    [(b'{"a": {"b": 2, "b": 3}}', "names 'b' twice"), (b"[1]", "no JSON object"), (b'{"a": 1e999}', "Out of range float"),
     (b'{"a": "\\ud800"}', "surrogates not allowed"), (b'{"a": "\xff"}', "is no JSON that can be read")],
)  # fmt: skip
def test_json_that_can_mean_two_things_is_refused(text: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        model_files.parse_object(text)
    assert "has a card (model.json) that" in words_of(packed(tmp_path / "m.zip", text, some_weights()))


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


EMPTY = zip_of((CARD, b"{}"), (WEIGHTS, b""))
ZIPS: dict[str, tuple[bytes, str]] = {
    "traversal": (zip_of(("../model.json", b"{}"), (WEIGHTS, b"")), "it holds '../model.json'"),
    "three": (zip_of((CARD, b"{}"), (WEIGHTS, b""), ("x", b"")), "holds something else"),
    "link": (zip_of((CARD, b"{}"), (link(WEIGHTS), b"/etc/passwd")), "compressed or a link"),
    "bomb": (zip_of((CARD, b"{}"), (WEIGHTS, bytes(2_000_000)), method=zipfile.ZIP_DEFLATED), "compressed or a link"),
    "long contents": (EMPTY[:-10] + struct.pack("<L", 1_000_000) + EMPTY[-6:], "holds something else"),
    "comment": (EMPTY + b"more", "cut off, or holds"),
    "byte": (zip_of((CARD, b"{}"), (WEIGHTS, b"abc")).replace(b"abc", b"abd"), "is a damaged zip"),
    "cut": (zip_of((CARD, b"{}"), (WEIGHTS, b"abc"))[:-30], "cut off, or holds"),
}


@pytest.mark.parametrize("name", ZIPS)
def test_zips_that_are_no_model_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(ZIPS[name][0])
    assert ZIPS[name][1] in words_of(tmp_path / "m.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["m.zip"]


def test_what_is_no_file_or_too_large_is_not_read(tmp_path: Path) -> None:
    assert "is not there" in words_of(tmp_path / "missing.zip")
    assert "holds no run with a model" in words_of(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in words_of(tmp_path / "pipe")
    with (tmp_path / "m.zip").open("wb") as stream:
        stream.truncate(model_files.MAX_FILE + 1)
    assert "is larger than the 537 MB" in words_of(tmp_path / "m.zip")
