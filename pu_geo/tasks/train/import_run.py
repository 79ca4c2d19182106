"""Import a finished run of another copy of this project: its scores, embeddings and weights, and never labels."""

from __future__ import annotations

import re
import sys
import time
import tokenize
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis.estimates import without_guesses
from pu_geo.errors import ModelError, printable
from pu_geo.methods import catalog
from pu_geo.methods.fitting import place_unused
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import contents, feature_sets, labels, model_files, runs, store
from pu_geo.project.layout import RCF, Layout, find_project, sha256_of, write_json
from pu_geo.tasks.imagery.features import maker_in
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.inputs import BEGAN_WITH, RunInputs, read_inputs, set_aside
from pu_geo.tasks.train.model_card import Learned, chips_learned, sha256_of_array, sha256_of_labels, write_model
from pu_geo.tasks.train.restored_model import RestoredModel, restore
from pu_geo.tasks.train.train import CURVE, RUN_NOTE, Outcome, finish, first_threshold, stored_before
from pu_geo.training.data import FeatureViews, PUData

MAX_LENGTH = 8192  # longest embedding; settings allow 2,048
ROWS_TRIED, MOST_OFF = 256, 0.02
"""Buildings that are scored again here, and how far the middle one may be off; two devices differ by a tenth of it."""
UNIT = 1e-3
MAX_CURVE = 2**24
MAX_EPOCHS, LARGEST = 10**9, sys.float_info.max
FIGURE = re.compile(r"[A-Za-z0-9_]{1,40}")  # names of what an epoch reports
_BROKEN = (
    ValueError, TypeError, SyntaxError, LookupError, RecursionError, OverflowError, EOFError, AttributeError, MemoryError,
    tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip
_TOLD = ("method", "preset", "seed", "device")
NO_FIGURES = ("at", "event", "look", "alarms")
"""What is not taken of a report: the job's own names, and those of pictures that stay where they are."""


@dataclass(frozen=True)
class OtherRun:
    """A run of another copy, checked by itself.

    Attributes:
        folder: of its files.
        sums: name of a file -> sha256, as its manifest has them.
        restored: its model.
        settings: of its method.
    """

    run_id: str
    folder: Path
    sums: Mapping[str, Any]
    restored: RestoredModel
    settings: NetworkSettings

    @property
    def card(self) -> Mapping[str, Any]:
        """What `model.json` says, see `tasks.train.model_card`."""
        return self.restored.card

    @property
    def learned_from(self) -> Mapping[str, Any]:
        there: Mapping[str, Any] = self.card["learned_from"]
        return there


def import_run(job: Job, *, folder: str, run_id: str) -> dict[str, object]:
    """Store a run that was trained in another copy of this project as a run of this one, under the same id.

    The labels count as they stood when it was trained. Everything that can be worked out here is worked out here; of the copy
    only scores, embeddings and weights are taken, and the scores of some buildings are worked out again. Scores come without
    evidence from place: it is of the copy's run, and no part of its model.

    Args:
        folder: of the other copy.
        run_id: of its run; "latest" and "chosen" as in `runs.find`.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        ModelError: if a file is missing or damaged, or the run is not of these chips, footprints and labels.
        ProjectError: if it is another project, or has no such run, or there are no chips.
    """
    stored = stored_before(job)
    if stored:
        return stored
    job.report(0.05, "checking the run")
    found = _read(job.layout, find_project(folder), run_id)
    write_json(job.folder / RUN_NOTE, {"run_id": found.run_id})
    inputs, data, held_out = _same_inputs(job, found)
    job.report(0.4, "checking scores and weights")
    scores, embeddings = _answers(found, len(inputs.pu.building_ids))
    types = found.restored.types
    type_scores = _type_scores(found, len(scores)) if types else None
    _try(found, data, scores, type_scores)
    for report in _curve(found):
        job.epoch(without_guesses(report))
    card, types_from = catalog.card(str(found.card["method"])), found.learned_from.get("types_from")
    learned = Learned(found.restored.model.state(), data, types_from, inputs.at_decision)
    versions, warnings = found.card.get("versions"), found.card.get("warnings")
    versions = {name: text for name, text in versions.items() if isinstance(text, str)} if isinstance(versions, dict) else {}
    warnings = [printable(words, 500) for words in warnings[:300]] if isinstance(warnings, list) else []
    seed, seconds = (_number(found, name, found.card.get(name)) for name in ("seed", "seconds"))
    device, where = printable(found.card.get("device"), 100), found.folder.parent.parent.name
    made_by = ", ".join(
        f"{name} {printable(versions[name], 40)}" for name in ("pu_geo", "torch", "numpy") if name in versions
    )
    threshold = first_threshold(scores, inputs.pu, inputs.start_k())
    outcome = Outcome(
        card.name, str(found.card["preset"]), scores, embeddings, card.score_type, threshold,
        seed=int(seed), settings=asdict(found.settings), device=device, held_out=held_out,
        warnings=[*warnings, f"Trained in another copy of this project ({device}; {made_by}) and imported from {where}."],
        versions={name: printable(versions[name], 100) for name in ("torch", "numpy") if name in versions},
        write_files=lambda facts: write_model(job.layout, facts, inputs.pu, learned),
        place=place_unused(card, found.settings, "an imported run has the scores of its model alone"),
        types=types, types_from=str(types_from) if types else None, is_ordinal=bool(types) and data.is_ordinal,
        type_scores=type_scores, views=tuple(view.name for view in data.views),
    )  # fmt: skip
    return finish(job, inputs, time.monotonic() - seconds, outcome)


def refusal(what: str, problem: str, hint: str = "Copy the project again as a whole, or train again.") -> ModelError:
    """Return the error that says why a run is not taken; `problem` goes on after what it is about."""
    return ModelError(f"{what} {problem}.", hint, kind="import")


def _read(here: Layout, other: Layout, run_id: str) -> OtherRun:
    """Find a run in another copy of this project, and see that its files are whole and its model one of ours."""
    with store.connect(here) as db:
        project_id, known = store.project_id(db), {facts.run_id for facts in runs.all_runs(db)}
        newest = contents.latest_chip_set(db)
    with store.connect(other) as db:
        if store.project_id(db) != project_id or other.folder == here.folder:
            which = "this project itself" if other.folder == here.folder else "another project than this one, no copy of it"
            raise refusal(
                str(other.folder), f"is {which}", "Name a copy that `pu-geo project copy` made, and that was trained in."
            )
        try:
            run_id = runs.find(db, run_id).run_id
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise refusal(str(other.folder), "has runs whose facts are damaged") from error
    folder, name = other.run(run_id), f"Run {run_id} of {other.folder.name}"
    if run_id in known:
        problem = f"is stored here already{_difference(here.run(run_id), folder)}"
        raise refusal(
            f"Run {run_id}", problem, "Compare, card and map know it by that name. Remove it here to take the other one."
        )
    sums = _parsed(folder / "manifest.json").get("sha256")
    if not isinstance(sums, dict):
        raise refusal(f"manifest.json in {folder}", "does not give the sha256 of each file")
    if model_files.CARD not in sums:
        raise refusal(name, "has no model: the instant ranker has none", "Make it here again; that is quick.")
    limits = ((model_files.CARD, model_files.MAX_CARD), (model_files.WEIGHTS, model_files.MAX_FILE))
    card, weights = [_whole(folder, part, sums, most) for part, most in limits]
    found = model_files.from_parts(card.read_bytes(), weights.read_bytes(), name)
    restored = restore(found, torch.device("cpu"), lambda name: maker_in(here, newest, name) if newest else None)
    settings = catalog.settings_for(found.card["method"], found.card["preset"], found.card["settings"])
    return OtherRun(run_id, folder, sums, restored, settings)


def _difference(here: Path, there: Path) -> str:
    """Return in which way a run of another copy is another training than the one of the same id here, in a clause."""
    if not (there / model_files.CARD).is_file() or not (here / model_files.CARD).is_file():
        return ""
    cards = [_parsed(folder / model_files.CARD) for folder in (here, there)]
    facts = [
        {**{name: card.get(name) for name in _TOLD}, "labels up to event": (card.get("learned_from") or {}).get("at_event")}
        for card in cards
    ]
    parts = [f"{name} {printable(facts[0][name], 40)} here and {printable(facts[1][name], 40)} there" for name in facts[0]
             if facts[0][name] != facts[1][name]]  # fmt: skip
    if parts:
        return f", and it is another training: {'; '.join(parts)}"
    return "" if cards[0].get("sha256") == cards[1].get("sha256") else ", and it has other weights"


def _whole(folder: Path, name: str, sums: Mapping[str, Any], most: int) -> Path:
    """Return the path of a file that is the one in the manifest."""
    path = _regular(folder / name, most)
    if sha256_of(path) != sums.get(name):
        raise refusal(f"{name} in {folder}", "is damaged: it has another sha256 than its manifest says")
    return path


def _regular(path: Path, most: int) -> Path:
    if path.is_symlink() or not path.is_file():
        raise refusal(f"{path.name} in {path.parent}", "is not there, or no regular file")
    if (size := path.stat().st_size) > most:
        raise refusal(f"{path.name} in {path.parent}", f"has {size:,} bytes; at most {most:,} are read")
    return path


def _parsed(path: Path) -> dict[str, Any]:
    """Read an object of JSON; a list becomes one under the name "list"."""
    text = _regular(path, MAX_CURVE).read_bytes()
    try:
        return model_files.parse_object(b'{"list":' + text + b"}" if text.startswith(b"[") else text, MAX_CURVE)
    except ValueError as error:
        raise refusal(f"{path.name} in {path.parent}", str(error)) from error


def _same_inputs(job: Job, found: OtherRun) -> tuple[RunInputs, PUData, NDArray[np.int64]]:
    """Return chips and labels of this project as they stood for the run, and the rows that were held out.

    Raises:
        ModelError: if the chips, footprints or labels are others than those that the run learned from.
    """
    there, layout = found.learned_from, job.layout
    at_event, at_decision = (_number(found, name, there.get(name, 0), (int,), 2**53) for name in ("at_event", "at_decision"))
    with store.connect(layout) as db:
        here, newest = contents.latest_chip_set(db), labels.last_event(db)
    if there.get("chip_set") != here:
        raise refusal(
            f"Run {found.run_id}", f"was trained on the chips {str(there.get('chip_set'))[:60]!r}; the newest of this project are {here!r}",
            "Copy the project again, and train in the new copy.",
        )  # fmt: skip
    if at_event > newest:
        raise refusal(f"Run {found.run_id}", f"knew label event {at_event}, which this project does not have yet")
    feature_set = found.card.get("feature_set", RCF)
    if not isinstance(feature_set, str) or not feature_sets.is_there(layout, str(here), feature_set):
        raise refusal(
            f"Run {found.run_id}", f"learned from the features {str(feature_set)[:60]!r}, which this project does not have",
            "Make them here with the same weights (`pu-geo features`), or copy the project again.",
        )  # fmt: skip
    note = {"chip_set": here, "at_event": at_event, "at_decision": at_decision, "feature_set": feature_set}
    write_json(job.folder / "checkpoints" / BEGAN_WITH, note)
    inputs = read_inputs(layout, job.folder / "checkpoints")
    held_out = np.zeros(0, np.int64)
    if "held_out.npy" in found.sums:
        held_out = _array(found, "held_out.npy", "int64", (None,), len(inputs.pu.building_ids))
    pu, ours = set_aside(
        inputs.pu,
        len(held_out),
        int(_number(found, "seed", found.card.get("seed"))),
        catalog.card(str(found.card["method"])),
    )
    types_from = there.get("types_from")
    if types_from is not None and not isinstance(types_from, str):
        raise refusal(f"Run {found.run_id}", "names kinds of damage by no attribute")
    card = catalog.card(str(found.card["method"]))
    inputs = inputs.with_clicks(pu).with_types(layout, types_from, card)
    data = inputs.data(layout, found.settings, takes_layers=card.takes_layers)
    footprints = store.call(layout, contents.footprints_sha256, pu.building_ids)
    chips = chips_learned(layout, inputs.chip_set, data)
    features = sha256_of_array(data.inputs.array) if isinstance(data.inputs, FeatureViews) else None
    same = {"chips": sha256_of_array(chips), "features": features, "footprints": footprints}
    for name, sha256 in same.items():
        if there.get(f"sha256_{name}") != sha256:
            raise refusal(
                f"Run {found.run_id}", f"was trained on other {name} than this project has", "Copy the project again."
            )
    if there.get("sha256_labels") != sha256_of_labels(pu, data) or not np.array_equal(ours, held_out):
        raise refusal(
            f"Run {found.run_id}", f"was trained with other labels than this project had after event {at_event}",
            "Labels are not taken from a copy. Click here, copy the project again, and train in the new copy.",
        )  # fmt: skip
    return inputs, data, held_out


def _answers(found: OtherRun, n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read scores [N] in 0..1 and embeddings [N, E] of unit length."""
    name = "scores_alone.npy" if "scores_alone.npy" in found.sums else "scores.npy"
    scores = _array(found, name, "float32", (n,), n)
    embeddings = _array(found, "embeddings.npy", "float32", (n, None), n * MAX_LENGTH)
    if not np.isfinite(scores).all() or scores.min() < 0 or scores.max() > 1:
        raise refusal(f"{name} in {found.folder}", "holds scores that are no numbers from 0 to 1")
    lengths = np.linalg.norm(embeddings, axis=1)
    is_unit = (np.abs(lengths - 1) < UNIT) | (lengths == 0)  # NaN is neither; a zero stays one when made of unit length
    if not is_unit.all():
        raise refusal(f"embeddings.npy in {found.folder}", "holds embeddings that are not of length 1")
    return scores, embeddings


def _type_scores(found: OtherRun, n: int) -> NDArray[np.float32]:
    """Read the scores of damage types [N, c] in 0..1."""
    n_types, name = len(found.restored.types), f"{runs.TYPE_SCORES}.npy"
    scores = _array(found, name, "float32", (n, n_types), n * n_types)
    if not np.isfinite(scores).all() or scores.min() < 0 or scores.max() > 1:
        raise refusal(f"{name} in {found.folder}", "holds scores that are no numbers from 0 to 1")
    return scores


def _array(found: OtherRun, name: str, dtype: str, shape: tuple[int | None, ...], most_values: int) -> NDArray[Any]:
    """Read a .npy file into memory.

    Args:
        dtype: numpy name of the only type that is taken.
        shape: sizes that it must have; None stands for any from 1 on.
        most_values: numbers that it may hold.
    """
    wanted, where = np.dtype(dtype), f"{name} in {found.folder}"
    path = _whole(found.folder, name, found.sums, most_values * wanted.itemsize + 4096)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        header = int(array.offset)
    except _BROKEN as error:
        raise refusal(where, "is no .npy file, or a damaged one") from error
    if array.dtype != wanted or not array.flags.c_contiguous:
        raise refusal(where, f"holds numbers of type {array.dtype}; {wanted} in rows are needed")
    if len(array.shape) != len(shape) or any(
        size < 1 or need not in (None, size) for size, need in zip(array.shape, shape, strict=True)
    ):
        words = " x ".join("any" if size is None else str(size) for size in shape)
        raise refusal(where, f"has the shape {list(array.shape)}; {words} is needed")
    if header + array.nbytes != path.stat().st_size:
        raise refusal(where, f"is cut off or too long for its shape {list(array.shape)}")
    return np.array(array)


def _try(
    found: OtherRun, data: PUData, scores: NDArray[np.float32], type_scores: NDArray[np.float32] | None
) -> None:  # fmt: skip
    """Score some buildings again, and refuse scores that are not this model's."""
    rows, array = np.unique(np.linspace(0, len(scores) - 1, ROWS_TRIED).astype(np.int64)), data.inputs.array
    some = np.asarray(array[:, rows] if isinstance(data.inputs, FeatureViews) else array[rows])
    gone, model = None if data.is_missing is None else data.is_missing[:, rows], found.restored.model
    offs = [np.abs(model.score(some, gone) - scores[rows])]
    if type_scores is not None:
        offs += list(np.abs(model.type_scores(some, gone) - type_scores[rows]).T)
    for off in map(np.median, offs):
        if not off <= MOST_OFF:
            raise refusal(str(found.folder), f"holds scores that its model does not give: they are off by {off:.2f}")


def _curve(found: OtherRun) -> list[dict[str, Any]]:
    """Read the reports of the epochs: an epoch and its stage each, and finite numbers by short names."""
    if CURVE not in found.sums:
        return []
    rows = _parsed(_whole(found.folder, CURVE, found.sums, MAX_CURVE)).get("list")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise refusal(f"{CURVE} in {found.folder}", "holds something else than reports of epochs")
    kept = [{name: value for name, value in row.items() if name not in NO_FIGURES} for row in rows]
    if not all(map(_is_report, kept)):
        raise refusal(f"{CURVE} in {found.folder}", "holds something else than reports of epochs")
    return kept


def _is_report(row: Mapping[str, Any]) -> bool:
    """Return whether this is what a training writes of an epoch."""
    stage, epoch, epochs = (row.get(name) for name in ("stage", "epoch", "epochs"))
    figures = {name: value for name, value in row.items() if name != "stage"}
    is_named = isinstance(stage, str) and stage.isprintable() and 1 <= len(stage) <= 100
    is_counted = type(epoch) is int and type(epochs) is int and 1 <= epoch <= epochs <= MAX_EPOCHS
    are_numbers = all(type(value) in (int, float) and abs(value) <= LARGEST for value in figures.values())
    return is_named and is_counted and are_numbers and all(map(FIGURE.fullmatch, figures))


def _number(found: OtherRun, name: str, value: Any, kinds: tuple[type, ...] = (int, float), most: float = 1e9) -> Any:
    """Return a number of the card, 0 up to `most`. Raises ModelError if it is none."""
    if type(value) not in kinds or not 0 <= value < most:
        raise refusal(f"Run {found.run_id}", f"has no proper {name!r}: {str(value)[:60]!r}")
    return value
