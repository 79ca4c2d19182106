"""What comes back from another machine is believed nothing: hostile and damaged folders end in words, and no run is stored."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_parts import job_of, with_chips
from small_parts import small_project

from pu_geo.errors import ModelError, PuGeoError
from pu_geo.project import runs, store
from pu_geo.project.layout import Layout
from pu_geo.project.safe_tensors import read_tensors, write_tensors
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.apart import train_apart
from pu_geo.tasks.train.bring_in import bring_in
from pu_geo.tasks.train.pack import pack

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def came_back(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Path]:
    room = tmp_path_factory.mktemp("apart")
    layout = with_chips(small_project(room / "event.pugeo"))
    short = {"epochs": "2", "max_steps": "4", "batch_size": "10"}
    folder = Path(str(pack(layout, str(room / "there"), method="ncpu", preset="quick", overrides=short)["out"]))
    train_apart(Job(Layout(folder), folder))
    return layout, folder


def told(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def change(name: str, **values: object) -> Callable[[Path], None]:
    """Change what a JSON file says; None takes a key away."""

    def work(folder: Path) -> None:
        changed = {key: value for key, value in {**told(folder, name), **values}.items() if value is not None}
        (folder / name).write_text(json.dumps(changed))
        if name == "pack.json":
            sealed(folder)

    return work


def setting(**values: object) -> Callable[[Path], None]:
    return lambda folder: change("pack.json", settings={**told(folder, "pack.json")["settings"], **values})(folder)


def began(**values: object) -> Callable[[Path], None]:
    return lambda folder: change("pack.json", began_with={**told(folder, "pack.json")["began_with"], **values})(folder)


def sealed(folder: Path) -> None:
    """Write down the sha256 of what lies in the folder now, as somebody would who knows the format."""
    outcome = told(folder, "outcome.json")
    outcome["sha256"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in outcome["sha256"]}
    outcome["pack_sha256"] = hashlib.sha256((folder / "pack.json").read_bytes()).hexdigest()
    (folder / "outcome.json").write_text(json.dumps(outcome))


def array(name: str, make: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Path], None]:
    """Put another array in the place of one, and seal the folder again."""

    def work(folder: Path) -> None:
        np.save(folder / name, make(np.load(folder / name)), allow_pickle=True)
        sealed(folder)

    return work


def spoiled(values: np.ndarray[Any, Any], value: float) -> np.ndarray[Any, Any]:
    changed = values.copy()
    changed.flat[-1] = value
    return changed


def content(name: str, made: bytes | Callable[[bytes], bytes], *, is_sealed: bool = True) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        old = (folder / name).read_bytes()
        (folder / name).write_bytes(made if isinstance(made, bytes) else made(old))
        if is_sealed:
            sealed(folder)

    return work


def tensors(make: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    return content("model.safetensors", lambda old: write_tensors(make(dict(read_tensors(old)))))


def curve(values: dict[str, object]) -> Callable[[Path], None]:
    """Change one report of an epoch; None takes a key away."""

    def work(folder: Path) -> None:
        rows = told(folder, "curve.json")["curve"]
        rows[-1] = {key: value for key, value in {**rows[-1], **values}.items() if value is not None}
        (folder / "curve.json").write_text(json.dumps({"curve": rows}))
        sealed(folder)

    return work


def link(name: str) -> Callable[[Path], None]:
    """Put a link in the place of a file; what it points to is the right content."""

    def work(folder: Path) -> None:
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    return work


def pipe(folder: Path) -> None:
    (folder / "scores.npy").unlink()
    os.mkfifo(folder / "scores.npy")


def huge(folder: Path) -> None:
    with (folder / "scores.npy").open("r+b") as stream:
        stream.truncate(1 << 40)  # no room is taken on disk


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "no JSON": (content("outcome.json", b"{", is_sealed=False), "is no JSON"),
    "a list": (content("outcome.json", b"[]", is_sealed=False), "is no JSON object"),
    "deep JSON": (content("outcome.json", b'{"a":' * 9 + b"1" + b"}" * 9, is_sealed=False), "nested more than"),
    "long JSON": (content("outcome.json", b" " * 2_000_000, is_sealed=False), "at most 1,000,000 are read"),
    "another format": (change("outcome.json", format="zip"), "its format is 'zip'"),
    "a newer version": (change("outcome.json", format_version=2), "this program reads 1"),
    "version True": (change("outcome.json", format_version=True), "this program reads 1"),
    "another training": (change("outcome.json", pack_sha256="0" * 64), "is of another training"),
    "no device": (change("outcome.json", device=None), "no proper 'device'"),
    "a device of signs": (change("outcome.json", device="cuda\x1b[2J"), "tells of a training"),
    "a name of signs": (change("outcome.json", device_name="\x1b[2J"), "short plain words"),
    "versions of anything": (change("outcome.json", versions={"torch": ["x"]}), "short plain words"),
    "seconds of text": (change("outcome.json", seconds="1"), "no proper 'seconds'"),
    "seconds below zero": (change("outcome.json", seconds=-1), "tells of a training of -1 s"),
    "warnings of numbers": (change("outcome.json", warnings=[1]), "list of texts 'warnings'"),
    "no sums": (change("outcome.json", sha256={}), "has another sha256"),
    "a sum of a list": (change("pack.json", sha256={"inputs.npy": ["x"]}), "sha256 of each file"),
    "an unknown method": (change("pack.json", method="../x"), "There is no method '../x'"),
    "an unknown preset": (change("pack.json", preset="x" * 300), "has no preset"),
    "an unknown setting": (setting(eval="1"), "no setting 'eval'"),
    "a setting of a list": (setting(epochs=[1]), "neither a word nor a number"),
    "a setting out of bounds": (setting(embedding_dim=10**9), "embedding_dim"),
    "other settings": (setting(embedding_dim=32), "does not hold the network"),
    "a weights file": (setting(weights_file="/etc/passwd"), "was not packed"),
    "a start elsewhere": (change("pack.json", start="../../x.pt"), "which is none of ours"),
    "another seed of text": (change("pack.json", seed="0"), "no proper 'seed'"),
    "a seed below zero": (change("pack.json", seed=-1), "which cannot be"),
    "other chips": (began(chip_set="../set"), "the newest of this project are 'set'"),
    "a later event": (began(at_event=10**9), "does not have yet"),
    "an earlier event": (began(at_event=3), "other labels than this project had"),
    "an event below zero": (began(at_event=-1), "labels that cannot be"),
    "an event of text": (began(at_event="12"), "no proper 'at_event'"),
    "an odd note": (began(other=[1]), "no proper 'other'"),
    "no note": (change("pack.json", began_with=None), "no proper 'began_with'"),
    "more held out": (change("pack.json", hold_out=1), "other labels than this project had"),
    "a hold-out of all": (change("pack.json", hold_out=10**6), "would leave 0"),
    "other classes": (change("pack.json", class_names=["a", "b"]), "other labels than this project had"),
    "kinds of nothing": (change("pack.json", types_from="nowhere"), "has the attribute 'nowhere'"),
    "more buildings": (change("pack.json", n=21), "is of other buildings"),
    "other inputs": (content("inputs.npy", lambda old: old[:-1] + b"x"), "is not the file that was packed"),
    "other ids": (content("building_ids.json", b'["x"]'), "is not the file that was packed"),
    "other scores": (content("scores.npy", lambda old: old[:-1] + b"x", is_sealed=False), "has another sha256"),
    "scores missing": (gone("scores.npy"), "holds no scores.npy"),
    "weights missing": (gone("model.safetensors"), "holds no model.safetensors"),
    "pack missing": (gone("pack.json"), "holds no pack.json"),
    "inputs missing": (gone("inputs.npy"), "holds no inputs.npy"),
    "curve missing": (gone("curve.json"), "holds no curve.json"),
    "scores of float64": (array("scores.npy", lambda x: x.astype(np.float64)), "float32 in rows are needed"),
    "scores of objects": (array("scores.npy", lambda x: x.astype(object)), "holds numbers of type object"),
    "scores in big-endian": (array("scores.npy", lambda x: x.astype(">f4")), "holds numbers of type >f4"),
    "scores too few": (array("scores.npy", lambda x: x[:-1]), r"shape \[19\]; 20 is needed"),
    "scores in a table": (array("scores.npy", lambda x: x[:, None]), r"shape \[20, 1\]"),
    "a score of NaN": (array("scores.npy", lambda x: spoiled(x, np.nan)), "no numbers from 0 to 1"),
    "a score of 1.5": (array("scores.npy", lambda x: spoiled(x, 1.5)), "no numbers from 0 to 1"),
    "scores of no model": (array("scores.npy", lambda x: 1 - x), "scores that its model does not give"),
    "a shape of its own": (content("scores.npy", (HEADER % (b"9" * 18)).ljust(127) + b"\n"), "has the shape"),
    "a header of code": (content("scores.npy", b"\x93NUMPY\x01\x00\x10\x00__import__('os')"), "no .npy file"),
    "an empty array file": (content("scores.npy", b""), "no .npy file"),
    "a pickle": (content("scores.npy", b"\x80\x04N."), "no .npy file"),
    "numbers after the end": (content("scores.npy", lambda old: old + b"more"), "cut off or too long"),
    "embeddings by columns": (array("embeddings.npy", np.asfortranarray), "in rows are needed"),
    "embeddings of inf": (array("embeddings.npy", lambda x: spoiled(x, np.inf)), "not of length 1"),
    "embeddings twice as long": (array("embeddings.npy", lambda x: 2 * x), "not of length 1"),
    "embeddings of nothing": (array("embeddings.npy", lambda x: x[:, :0]), "has the shape"),
    "weights cut off": (content("model.safetensors", lambda old: old[:-4]), "cut off"),
    "weights of a pickle": (content("model.safetensors", b"\x80\x04N." * 9), "claims a header"),
    "weights not sealed": (content("model.safetensors", b"x", is_sealed=False), "has another sha256"),
    "a tensor missing": (tensors(lambda found: dict(list(found.items())[1:])), "does not hold the network"),
    "a tensor more": (tensors(lambda found: {**found, "more": np.zeros(3, np.float32)}), "does not hold the network"),
    "a weight of NaN": (tensors(lambda found: {n: spoiled(a, np.nan) if a.dtype.kind == "f" else a for n, a in found.items()}), "not finite"),
    "a curve of lists": (content("curve.json", b'{"curve": [[1]]}'), "something else than reports"),
    "a curve of NaN": (content("curve.json", b'{"curve": [{"loss": NaN}]}'), "holds NaN"),
    "a curve of signs": (content("curve.json", b'{"curve": [{"stage": "\\u001b"}]}'), "something else than reports"),
    **{f"a curve of {kind}": (curve(row), "something else than reports") for kind, row in {
        "an end": {"event": "done"}, "a time": {"at": "2026-01-01"}, "no epoch": {"epoch": None}, "an epoch of text": {"epoch": "1"},
        "an epoch of 1.5": {"epoch": 1.5}, "epoch 0": {"epoch": 0}, "epoch True": {"epoch": True}, "an epoch too many": {"epoch": 3},
        "no epochs": {"epochs": None}, "10^400 epochs": {"epochs": 10**400}, "no stage": {"stage": None}, "stage 1": {"stage": 1},
        "a loss of text": {"loss": "abc"}, "a loss of 10^400": {"loss": 10**400}, "a loss of True": {"loss": True},
        "a loss of nothing": {"loss": [None]}, "a look": {"look": 1}, "alarms": {"alarms": 1}, "a criterion": {"criterion": 2.0},
        "a long name": {"x" * 41: 1}, "a long stage": {"stage": "x" * 101},
    }.items()},
    "a link": (link("scores.npy"), "is a link; it must be a regular file"),
    "a link to inputs": (link("inputs.npy"), "is a link"),
    "a link as outcome": (link("outcome.json"), "is a link"),
    "a pipe": (pipe, "is no regular file"),
    "a huge file": (huge, "bytes; at most"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_it_is_refused_in_words_and_nothing_is_stored(kind: str, came_back: tuple[Layout, Path], tmp_path: Path) -> None:
    layout, good = came_back
    spoil, words = BAD[kind]
    folder = tmp_path / "copied"
    shutil.copytree(good, folder)
    spoil(folder)
    with pytest.raises(PuGeoError, match=words):
        bring_in(job_of(layout, f"bad-{list(BAD).index(kind)}"), folder=str(folder))
    with store.connect(layout) as db:
        assert runs.all_runs(db) == []
    assert not list(layout.run("any").parent.glob("*"))


def test_untouched_it_is_taken(came_back: tuple[Layout, Path], tmp_path: Path) -> None:
    room = tmp_path / "own"
    shutil.copytree(came_back[0].folder, room)
    shutil.copytree(came_back[1], tmp_path / "copied")
    assert bring_in(job_of(Layout(room), "good"), folder=str(tmp_path / "copied"))["n_positive"] == 6
    with pytest.raises(ModelError, match="is stored already, as run ncpu-"):
        bring_in(job_of(Layout(room), "again"), folder=str(tmp_path / "copied"))


@pytest.mark.parametrize(
    "kind",
    ["an unknown method", "an unknown setting", "a start elsewhere", "other inputs", "inputs missing", "a link to inputs"],
)
def test_the_other_machine_refuses_it_as_well(kind: str, came_back: tuple[Layout, Path], tmp_path: Path) -> None:
    folder = tmp_path / "copied"
    shutil.copytree(came_back[1], folder)
    spoil, words = BAD[kind]
    spoil(folder)
    (folder / "outcome.json").unlink()
    with pytest.raises(ModelError, match=words):
        train_apart(Job(Layout(folder), folder))
    assert not (folder / "outcome.json").exists()
