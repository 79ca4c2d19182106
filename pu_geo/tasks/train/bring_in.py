"""Take home what a training made on another machine: checked against this project, then stored as a run like any other."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.methods import catalog
from pu_geo.project import contents, labels, packed, runs, store
from pu_geo.project.layout import write_json
from pu_geo.project.model_files import Model
from pu_geo.project.packed import (
    CLASSES,
    CURVE,
    EMBEDDINGS,
    IDS,
    INPUTS,
    LEFT_OUT,
    MAX_WEIGHTS,
    OUTCOME,
    SCORES,
    WEIGHTS,
    checked,
)
from pu_geo.project.runs import sha256_of
from pu_geo.project.safe_tensors import BadTensors, read_tensors
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.apart import FIGURE, Packed, read_pack, require_sums, texts_in
from pu_geo.tasks.train.inputs import RunInputs, read_inputs, set_aside
from pu_geo.tasks.train.model_card import Learned, filters_of, write_model
from pu_geo.tasks.train.pack import BEGAN_WITH, source_of
from pu_geo.tasks.train.restored_model import restore
from pu_geo.tasks.train.train import Outcome, finish, first_threshold, stored_before
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.network import TrainedModel

MAX_LENGTH = 8192
"""Longest embedding; settings allow 2,048."""
ROWS_TRIED, MOST_OFF = 256, 0.02
"""Buildings that are scored again here, and how far the middle one may be off; two devices differ by a tenth of it."""
UNIT = 1e-3
MAX_EPOCHS, LARGEST = 10**9, sys.float_info.max
NO_FIGURES = ("at", "event", "look", "alarms", "criterion")
"""What a report from elsewhere cannot have: the job's own names, and those of looks, which only a training here takes."""
_APART = "Trained on another machine"
_DEVICE = re.compile(r"cpu|cuda|mps")


@dataclass(frozen=True)
class _Told:
    """What `outcome.json` says, checked by itself."""

    device: str
    device_name: str
    seconds: float
    warnings: tuple[str, ...]
    versions: Mapping[str, str]
    sums: Mapping[str, Any]


def bring_in(job: Job, *, folder: str) -> dict[str, object]:
    """Store the outcome of a packed training as a run of the project that it was packed from.

    The labels count as they stood when it was packed. Everything that can be worked out here is worked out here; of the
    folder only scores, embeddings and weights are taken, and the scores of some buildings are worked out again.

    Args:
        folder: that `pu-geo pack` made and a worker trained in.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        ModelError: if something is missing or damaged, or it is not of these buildings and labels.
        ProjectError: if there are no chips.
    """
    stored = stored_before(job)
    if stored:
        return stored
    where = Path(folder)
    job.report(0.05, "checking what came back")
    if not where.is_dir():
        raise packed.refusal(str(where), "is not there, or no folder", "Name the folder that came back.")
    pack = read_pack(where)
    told = _read_outcome(where, pack)
    _require_new(job, where, told)
    inputs, held_out = _inputs_then(job, where, pack)
    data = inputs.data(job.layout, pack.settings, pack.types_from)
    _require_same(job, where, pack, inputs, data)
    job.report(0.4, "checking scores and weights")
    scores, embeddings = _answers(where, pack, told)
    model = _model(job, where, pack, told, inputs, data)
    _try(where, model, data, scores)
    share = inputs.estimated_share()
    learned = Learned(model.state(), data, pack.types_from)
    for report in _curve(where, told):
        job.epoch(report)
    threshold = first_threshold(scores, inputs.pu, inputs.share_to_start_from(), catalog.card(pack.method).score_type)
    outcome = Outcome(
        pack.method, pack.preset, scores, embeddings, catalog.card(pack.method).score_type, threshold, share, seed=pack.seed,
        settings=asdict(pack.settings), device=told.device_name, warnings=(*pack.warnings, *told.warnings, _where_trained(told)),
        write_files=lambda facts: write_model(job.layout, facts, inputs.pu, learned), held_out=held_out,
        versions={name: told.versions[name] for name in ("torch", "numpy") if name in told.versions},
    )  # fmt: skip
    result = finish(job, inputs, time.monotonic() - told.seconds, outcome)
    shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)
    return result


def _require_new(job: Job, folder: Path, told: _Told) -> None:
    """Refuse an outcome that is stored already: two runs that are one would agree in every comparison."""
    with store.connect(job.layout) as db:
        known = [facts.run_id for facts in runs.all_runs(db) if any(text.startswith(_APART) for text in facts.warnings)]
    for run_id in known:
        manifest = job.layout.run(run_id) / "manifest.json"
        if not manifest.is_file():
            continue
        sums = json.loads(manifest.read_text(encoding="utf-8"))["sha256"]
        if all(told.sums.get(name) == sums.get(name) for name in (SCORES, EMBEDDINGS)):
            raise packed.refusal(
                str(folder), f"is stored already, as run {run_id}", "Compare, card and map know it by that name."
            )


def _where_trained(told: _Told) -> str:
    versions = ", ".join(f"{name} {told.versions[name]}" for name in sorted(told.versions))
    return f"{_APART} ({told.device_name}; {versions}) and brought in."


def _read_outcome(folder: Path, pack: Packed) -> _Told:
    if not (folder / OUTCOME).exists():
        raise packed.refusal(
            str(folder), f"holds no {OUTCOME}: this training has not ended",
            "Let `python -m pu_geo.jobs.worker FOLDER` end on the other machine, and copy the folder then.",
        )  # fmt: skip
    where, found = f"{OUTCOME} in {folder}", packed.read_object(folder, OUTCOME, packed.OUTCOME_FORMAT)
    if found.get("pack_sha256") != pack.sha256:
        raise packed.refusal(where, "is of another training than the one that lies beside it")
    device, seconds = checked(found, "device", str, where), checked(found, "seconds", (int, float), where)
    versions = checked(found, "versions", dict, where)
    texts = [checked(found, "device_name", str, where), *versions, *versions.values()]
    if not _DEVICE.fullmatch(device) or not 0 <= seconds < 1e9:
        raise packed.refusal(where, f"tells of a training of {str(seconds)[:20]} s on {device[:20]!r}")
    if not all(isinstance(text, str) and text.isprintable() and len(text) <= 100 for text in texts) or len(texts) > 20:
        raise packed.refusal(where, "does not name device and versions in short plain words")
    return _Told(
        device, texts[0], float(seconds), texts_in(found, "warnings", where), versions, checked(found, "sha256", dict, where)
    )


def _inputs_then(job: Job, folder: Path, pack: Packed) -> tuple[RunInputs, NDArray[np.int64]]:
    """Return the chips and labels of this project as they stood when it was packed, and the rows that were held out."""
    at_event, chip_set = pack.began_with["at_event"], str(pack.began_with["chip_set"])
    with store.connect(job.layout) as db:
        here, newest = contents.latest_chip_set(db), labels.last_event(db)
    if here != chip_set:
        raise packed.refusal(
            str(folder), f"was packed from the chips {chip_set[:60]!r}; the newest of this project are {here!r}",
            "Bring it into the project that it was packed from, or pack the training again from the new chips.",
        )  # fmt: skip
    if int(at_event) > newest:
        raise packed.refusal(str(folder), f"tells of label event {at_event}, which this project does not have yet")
    write_json(job.folder / "checkpoints" / BEGAN_WITH, dict(pack.began_with))
    inputs = read_inputs(job.layout, job.folder / "checkpoints")
    pu, held_out = set_aside(inputs.pu, pack.hold_out, pack.seed, catalog.card(pack.method))
    return inputs.with_clicks(pu, pack.types_from), held_out


def _require_same(job: Job, folder: Path, pack: Packed, inputs: RunInputs, data: PUData) -> None:
    """Refuse a training on other chips, buildings or labels than this project has."""
    require_sums(folder, pack)
    if sha256_of(source_of(job.layout, inputs, pack.settings)) != pack.sums[INPUTS]:
        raise packed.refusal(f"{INPUTS} in {folder}", "is not what this project has for these chips")
    ids = inputs.pu.building_ids
    if hashlib.sha256(packed.ids_as_bytes(ids)).hexdigest() != pack.sums[IDS] or pack.n != len(ids):
        raise packed.refusal(str(folder), "is of other buildings than this project has, or of the same in another order")
    classes = packed.read_array(folder, CLASSES, "int64", (pack.n,), pack.sums[CLASSES])
    left_out = packed.read_array(folder, LEFT_OUT, "bool", (pack.n,), pack.sums[LEFT_OUT])
    is_same = np.array_equal(classes, data.classes) and np.array_equal(left_out, data.is_excluded)
    if not is_same or pack.class_names != data.class_names:
        raise packed.refusal(
            str(folder), f"was trained with other labels than this project had after event {inputs.pu.at_event}",
            "Bring it into the project that it was packed from.",
        )  # fmt: skip


def _answers(folder: Path, pack: Packed, told: _Told) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read scores [N] in 0..1 and embeddings [N, E] of unit length."""
    scores = packed.read_array(folder, SCORES, "float32", (pack.n,), told.sums.get(SCORES), most_values=pack.n)
    embeddings = packed.read_array(
        folder, EMBEDDINGS, "float32", (pack.n, None), told.sums.get(EMBEDDINGS), most_values=pack.n * MAX_LENGTH
    )
    if not np.isfinite(scores).all() or scores.min() < 0 or scores.max() > 1:
        raise packed.refusal(f"{SCORES} in {folder}", "holds scores that are no numbers from 0 to 1")
    lengths = np.linalg.norm(embeddings, axis=1)
    is_unit = np.abs(lengths - 1) < UNIT
    if not (is_unit | (lengths == 0)).all():  # NaN is neither; a zero stays one when it is made of unit length
        raise packed.refusal(f"{EMBEDDINGS} in {folder}", "holds embeddings that are not of length 1")
    return scores, embeddings


def _model(job: Job, folder: Path, pack: Packed, told: _Told, inputs: RunInputs, data: PUData) -> TrainedModel:
    """Read the weights, and see that they are a network of this method and settings."""
    with packed.opened(folder, WEIGHTS, MAX_WEIGHTS) as stream:
        content = stream.read()
    where = f"{WEIGHTS} in {folder}"
    if hashlib.sha256(content).hexdigest() != told.sums.get(WEIGHTS):
        raise packed.refusal(where, "is damaged: it has another sha256 than was written down")
    try:
        tensors = read_tensors(content)
    except BadTensors as error:
        raise packed.refusal(where, str(error)) from error
    is_features = isinstance(data.inputs, FeatureViews)
    chips = np.load(job.layout.chips(inputs.chip_set), mmap_mode="r", allow_pickle=False)
    card = {
        "method": pack.method, "preset": pack.preset, "settings": asdict(pack.settings),
        "input": {"shape": list(data.inputs.shape), "n_views": len(data.inputs.array) if is_features else 1, "seed": 0},
        "learned_from": {"chip_shape": list(chips.shape[1:])},
    }  # fmt: skip
    filters = filters_of(job.layout, inputs.chip_set) if is_features else {}
    return restore(Model(card, {**tensors, **filters}, where, b"", b""), torch.device("cpu")).model


def _try(folder: Path, model: TrainedModel, data: PUData, scores: NDArray[np.float32]) -> None:
    """Score some buildings again, and refuse scores that are not this model's."""
    rows = np.unique(np.linspace(0, len(scores) - 1, ROWS_TRIED).astype(np.int64))
    array = data.inputs.array
    again = model.score(np.asarray(array[:, rows] if isinstance(data.inputs, FeatureViews) else array[rows]))
    off = float(np.median(np.abs(again - scores[rows])))
    if not off <= MOST_OFF:
        raise packed.refusal(str(folder), f"holds scores that its model does not give: they are off by {off:.2f}")


def _curve(folder: Path, told: _Told) -> list[dict[str, Any]]:
    """Read the reports of the epochs: an epoch and its stage each, and finite numbers by short names."""
    where, found = f"{CURVE} in {folder}", packed.read_object(folder, CURVE)
    if packed.sha256_in(folder, CURVE) != told.sums.get(CURVE):
        raise packed.refusal(where, "is damaged: it has another sha256 than was written down")
    rows: list[dict[str, Any]] = checked(found, "curve", list, where)
    for row in rows:
        if not isinstance(row, dict) or not _is_report(row):
            raise packed.refusal(where, "holds something else than reports of epochs")
    return rows


def _is_report(row: Mapping[str, Any]) -> bool:
    """Tell whether this is what `apart` writes of an epoch."""
    stage, epoch, epochs = (row.get(name) for name in ("stage", "epoch", "epochs"))
    is_named = isinstance(stage, str) and stage.isprintable() and 1 <= len(stage) <= 100
    is_counted = type(epoch) is int and type(epochs) is int and 1 <= epoch <= epochs <= MAX_EPOCHS
    figures = {name: value for name, value in row.items() if name != "stage"}
    return is_named and is_counted and all(_is_figure(name, value) for name, value in figures.items())


def _is_figure(name: str, value: object) -> bool:
    is_named = FIGURE.fullmatch(name) is not None and name not in NO_FIGURES
    return is_named and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
