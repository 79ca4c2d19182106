"""A run of a copy is taken as if it had been trained here, and what is damaged or of other inputs is refused in words."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import copy_of, job_of, with_chips
from small_parts import click, facts_of, in_tiers, small_project

from pu_geo.errors import PuGeoError
from pu_geo.methods import catalog
from pu_geo.project import contents, decisions, model_files, pseudo_positives, runs, store
from pu_geo.project.layout import Layout, sha256_of
from pu_geo.services.annotate import labeling
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.import_run import import_run

pytestmark = pytest.mark.slow
QUICK = {"preset": "quick", "seed": 5}
FEW = {"epochs": "2", "max_steps": "4", "batch_size": "10"}
WAYS: dict[str, dict[str, Any]] = {
    "chips": {"method": "ncpu", "overrides": {**FEW, "backbone": "small", "precision": "bf16"}},
    "types": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "name"},
    "several types": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "answers"},
    "grades": {"method": "herocon", "overrides": {"epochs": "2", "max_steps": "4"}, "types_from": "grades"},
    "recommended": {"method": catalog.DEFAULT_METHOD, "overrides": {"neighbors": "off"}},  # with: see test_place.py
    "held out": {"method": "nnpu", "overrides": FEW, "hold_out": 1},
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Both trainings of a comparison share this process: the first one must not leave the other fewer threads than it had."""
    torch.set_num_threads(1)


def trained(layout: Layout, way: dict[str, Any]) -> str:
    return str(train_task.train(job_of(layout, "train"), **{**QUICK, **way})["run_id"])


def taken(layout: Layout, other: Layout, run_id: str = "latest", job: str = "came") -> str:
    return str(import_run(job_of(layout, job), folder=str(other.folder), run_id=run_id)["run_id"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Layout]:
    """A project, and a copy with a run; tests only read them."""
    layout = with_chips(small_project(tmp_path_factory.mktemp("pair") / "event.pugeo"))
    other = copy_of(layout)
    trained(other, {**WAYS["held out"], "method": "ncpu"})
    return layout, other


@pytest.fixture
def own_pair(pair: tuple[Layout, Layout], tmp_path: Path) -> tuple[Layout, Layout]:
    here, there = (Layout(Path(shutil.copytree(each.folder, tmp_path / each.folder.name))) for each in pair)
    return here, there


@pytest.mark.parametrize("way", in_tiers(WAYS, "contract", quick=("chips", "several types", "held out")))
def test_it_is_the_run_that_would_have_been_trained_here(way: str, chipped: Layout) -> None:
    click(chipped, "b0", "b1", damage_types=["roof"], absent_types=["mud"], grade="minor")
    click(chipped, "b2", "b3", damage_types=["roof", "mud"], grade="major")
    with store.connect(chipped) as db:
        decide(db, "first", ["b8", "b11"])
    other = copy_of(chipped)
    here, there = trained(chipped, WAYS[way]), trained(other, WAYS[way])
    click(chipped, "b9")  # what was clicked and decided since counts for nothing
    with store.connect(chipped) as db:
        decide(db, "later", ["b10"])
    assert taken(chipped, other) == there
    names = sorted(path.name for path in chipped.run(here).iterdir())
    assert names == sorted(path.name for path in chipped.run(there).iterdir())
    for name in set(names) - {"curve.json", "manifest.json", "model.json"}:
        assert (chipped.run(here) / name).read_bytes() == (chipped.run(there) / name).read_bytes(), name
    told, wanted = (asdict(facts_of(chipped, run_id)) for run_id in (there, here))
    (where,) = {*told["warnings"]} - {*wanted["warnings"]}
    assert where.startswith("Trained in another copy of this project (CPU, 1 thread; pu_geo ")
    assert where.endswith("and imported from copy.pugeo.")
    changing = ("run_id", "created_at", "seconds", "warnings")
    assert {k: v for k, v in told.items() if k not in changing} == {k: v for k, v in wanted.items() if k not in changing}
    assert model_files.of_run(chipped, there)
    losses = [[row["loss"] for row in json.loads((chipped.run(run) / "curve.json").read_text())] for run in (here, there)]
    assert losses[0] == losses[1]


def decide(db: Any, op: str, ids: list[str]) -> None:
    facts = {"run_id": "run", "decision": "accept", "building_ids": ids}
    decisions.decide(db, op, pseudo_positives.KIND, op, facts, analyst="ann")


def test_killed_after_it_was_stored_it_gives_the_same_run(own_pair: tuple[Layout, Layout]) -> None:
    here, other = own_pair
    job = job_of(here, "came")
    first = import_run(job, folder=str(other.folder), run_id="latest")
    assert import_run(job, folder=str(other.folder), run_id="latest") == first
    with pytest.raises(PuGeoError, match=r"is stored here already\."):
        taken(here, other, job="again")
    card = other.run(str(first["run_id"])) / model_files.CARD
    card.write_text(json.dumps({**json.loads(card.read_text()), "seed": 7}))
    with pytest.raises(PuGeoError, match="stored here already, and it is another training: seed 5 here and 7 there"):
        taken(here, other, job="other")


def newer_chips(layout: Layout) -> None:
    with store.connect(layout) as db:
        contents.add_chip_set(db, "newer", "post", 16, 20)


def other_chips(layout: Layout) -> None:
    np.load(layout.chips("set"), mmap_mode="r+")[3] += 1


def other_footprints(layout: Layout) -> None:
    with store.connect(layout) as db:
        db.execute(
            "UPDATE footprints SET geom = (SELECT geom FROM footprints WHERE building_id = 'b1') WHERE building_id = 'b0'"
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (newer_chips, "the newest of this project are 'newer'"), (other_chips, "other chips than"),
        (other_footprints, "other footprints than"),
    ],
)  # fmt: skip
def test_changed_inputs_are_refused(change: Callable[[Layout], None], words: str, own_pair: tuple[Layout, Layout]) -> None:
    here, other = own_pair
    change(here)
    with pytest.raises(PuGeoError, match=words):
        taken(here, other)


def test_labels_of_a_copy_are_never_taken(chipped: Layout) -> None:
    other = copy_of(chipped)
    click(other, "b9", analyst="bob")
    trained(other, WAYS["held out"])
    with pytest.raises(PuGeoError, match="label event 13, which this project does not have yet"):
        taken(chipped, other)
    click(chipped, "b9", label="not_damaged")
    with pytest.raises(PuGeoError, match="other labels than this project had after event 13"):
        taken(chipped, other, job="again")
    assert labeling.current_labels(chipped)["b9"] == "not_damaged"


def test_what_is_no_run_of_a_copy_is_refused(chipped: Layout, tmp_path: Path) -> None:
    copied, other = copy_of(chipped), with_chips(small_project(tmp_path / "other.pugeo"))
    ranked = str(train_task.rank(job_of(copied, "rank"))["run_id"])
    for layout, run_id, words in (
        (other, "latest", "is another project than this one"), (chipped, "latest", "is this project itself"),
        (copied, "ncpu-0101-0000-0000", "has no run"), (copied, ranked, "has no model"), (Layout(tmp_path), "x", "not a PU-Geo project"),
    ):  # fmt: skip
        with pytest.raises(PuGeoError, match=words):
            taken(chipped, layout, run_id, job=f"came-{words.split()[-1].lower()}")
    with store.connect(chipped) as db:
        assert runs.all_runs(db) == []


Harm = Callable[[Path], object]


def sealed(folder: Path) -> None:
    """Write down the sha256 of what is in the folder now, as somebody would who knows the format."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"] = {name: sha256_of(folder / name) for name in manifest["sha256"] if (folder / name).is_file()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def content(name: str, new: bytes, *, is_sealed: bool = True) -> Harm:
    def work(folder: Path) -> None:
        (folder / name).write_bytes(new)
        if is_sealed:
            sealed(folder)

    return work


def array(name: str, new: Callable[[Any], Any]) -> Harm:
    def work(folder: Path) -> None:
        np.save(folder / name, new(np.load(folder / name)))
        sealed(folder)

    return work


def parsed(name: str, change: Callable[[Any], object]) -> Harm:
    """Change what a file of JSON holds."""

    def work(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        change(found)
        content(name, json.dumps(found).encode())(folder)

    return work


def card(**values: object) -> Harm:
    return parsed("model.json", lambda found: found.update(values))


def first_is(value: float) -> Callable[[Any], Any]:
    return lambda values: np.concatenate([np.full_like(values[:1], value), values[1:]])


def link(folder: Path) -> None:
    (folder / "scores.npy").rename(folder / "real")
    (folder / "scores.npy").symlink_to(folder / "real")


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
BAD: dict[str, tuple[Harm, str]] = {
    "a manifest of nothing": (content("manifest.json", b"{}", is_sealed=False), "does not give the sha256"),
    "scores missing": (lambda folder: (folder / "scores.npy").unlink(), "is not there"),
    "scores not sealed": (content("scores.npy", b"x", is_sealed=False), "has another sha256"),
    "scores of other kind": (array("scores.npy", lambda x: x.astype(np.float64)), "holds numbers of type float64"),
    "scores too few": (array("scores.npy", lambda x: x[:-1]), r"shape \[19\]; 20 is needed"),
    "a score of NaN": (array("scores.npy", first_is(np.nan)), "no numbers from 0 to 1"),
    "a score of 1.5": (array("scores.npy", first_is(1.5)), "no numbers from 0 to 1"),
    "scores of no model": (array("scores.npy", lambda x: 1 - x), "scores that its model does not give"),
    "a pickle": (content("scores.npy", b"\x80\x04N."), "no .npy file"),
    "numbers after the end": (content("scores.npy", (HEADER % b"20").ljust(127) + b"\n" + bytes(84)), "cut off or too long"),
    "embeddings by columns": (array("embeddings.npy", np.asfortranarray), "in rows are needed"),
    "embeddings of inf": (array("embeddings.npy", first_is(np.inf)), "not of length 1"),
    "an unknown preset": (card(preset="magic"), "no preset"),
    "a seed below 0": (card(seed=-1), "no proper 'seed'"),
    "another event": (parsed("model.json", lambda found: found["learned_from"].update(at_event=3)), "other labels|needs at least|held-out"),
    "an attribute of a list": (parsed("model.json", lambda found: found["learned_from"].update(types_from=[1])), "by no attribute"),
    "a curve of lists": (content("curve.json", b"[[1]]"), "something else than reports"),
    "a curve of NaN": (content("curve.json", b'[{"loss": NaN}]'), "Out of range float"),
    **{f"a curve of {kind}": (parsed("curve.json", lambda rows, row=row: rows[-1].update(row)), "something else than reports") for kind, row in {  # type: ignore[arg-type]
        "epoch 0": {"epoch": 0}, "epoch True": {"epoch": True}, "an epoch too many": {"epoch": 3}, "10^400 epochs": {"epochs": 10**400},
        "signs": {"stage": "\u001b"}, "a loss of 10^400": {"loss": 10**400}, "a loss of nothing": {"loss": [None]}, "a long name": {"x" * 41: 1},
    }.items()},
    "a link": (link, "no regular file"),
    "a huge file": (lambda folder: os.truncate(folder / "scores.npy", 2**33), "bytes; at most"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_damaged_and_hostile_files_are_refused_and_nothing_is_stored(
    kind: str, pair: tuple[Layout, Layout], tmp_path: Path
) -> None:
    layout, good = pair
    spoil, words = BAD[kind]
    other = Layout(tmp_path / "copied.pugeo")
    shutil.copytree(good.folder, other.folder)
    (folder,) = (other.folder / "runs").iterdir()
    spoil(folder)
    with pytest.raises(PuGeoError, match=words):
        taken(layout, other, job=f"bad-{list(BAD).index(kind)}")
    with store.connect(layout) as db:
        assert runs.all_runs(db) == []
    assert not list(layout.run("any").parent.glob("*"))


def test_scores_of_damage_types_are_checked(chipped: Layout) -> None:
    other = copy_of(chipped)
    folder = other.run(trained(other, WAYS["types"]))
    scores = np.load(folder / "type_scores.npy")
    for number, (wrong, words) in enumerate(
        ((1 - scores, "its model does not give"), (scores[:, :-1], f"{scores.shape[1]} is needed"), (scores + 1, "0 to 1"))
    ):
        array("type_scores.npy", lambda _, wrong=wrong: wrong.astype(np.float32))(folder)
        with pytest.raises(PuGeoError, match=words):
            taken(chipped, other, job=f"came-{number}")
