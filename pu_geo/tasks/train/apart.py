"""Train from a packed folder, on a machine that has torch, torchvision and numpy alone, and leave the outcome in the folder.

Killed, it goes on after its last checkpoint when it is called again. `tasks.pack` makes the folder, `tasks.bring_in` takes
the outcome home.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo import __version__
from pu_geo.atomic_write import atomic_write
from pu_geo.errors import PuGeoError
from pu_geo.methods import catalog
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import events, packed
from pu_geo.project.layout import write_array, write_json
from pu_geo.project.packed import CLASSES, CURVE, EMBEDDINGS, INPUTS, LEFT_OUT, OUTCOME, PACK, SCORES, WEIGHTS, checked
from pu_geo.project.safe_tensors import write_tensors
from pu_geo.tasks.job import Job
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.devices import name_of
from pu_geo.training.network import FEATURES, TrainedModel
from pu_geo.training.run import Run, best_device

MAX_CHIPS, MAX_CURVE = 20_000_000, 900_000
FIGURE = re.compile(r"[A-Za-z0-9_]{1,40}")
"""Names of what an epoch reports."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_START = re.compile(r"start(\.pugeo-model\.zip|\.pt|\.pth)")


@dataclass(frozen=True)
class Packed:
    """What `pack.json` says, checked by itself.

    Attributes:
        hold_out: positives that were set aside; they are left out here.
        settings: of the method; the class prior is in them where the method asks for one.
        start: name of the weights file that the network starts from, in the folder; "" for none.
        share: estimated damaged share of the unlabeled, 0..1, or None.
        warnings: what came up when it was packed.
        types_from: attribute of the footprints that named the kinds of damage.
        class_names: see `PUData`.
        began_with: chip set and label event that it was packed with, as `tasks.inputs` notes them.
        n: buildings.
        sums: name of a file -> sha256.
        sha256: of `pack.json` itself.
    """

    method: str
    preset: str
    seed: int
    hold_out: int
    settings: NetworkSettings
    start: str
    share: float | None
    warnings: tuple[str, ...]
    types_from: str | None
    class_names: tuple[str, ...]
    began_with: Mapping[str, str | int]
    n: int
    sums: Mapping[str, str]
    sha256: str


def train_apart(job: Job) -> dict[str, object]:
    """Train what the folder of the job holds, and write scores, embeddings, weights and `outcome.json` into it.

    Returns:
        {"outcome": path, "device": name, "seconds"}

    Raises:
        ModelError: if the folder is not as it was packed.
        TrainingError: if the training diverged, or memory is too small.
        JobCancelled: if the user cancelled.
    """
    began, folder = time.monotonic(), job.folder
    pack = read_pack(folder)
    if (folder / OUTCOME).exists():
        told = packed.read_object(folder, OUTCOME, packed.OUTCOME_FORMAT)
        if told.get("pack_sha256") == pack.sha256:
            return {"outcome": str(folder / OUTCOME), "device": told.get("device_name"), "seconds": told.get("seconds")}
    job.report(0.01, "checking what was packed")
    require_sums(folder, pack)
    data, device = read_data(folder, pack), best_device()
    name = name_of(device)
    if isinstance(data.inputs, FeatureViews):
        torch.set_num_threads(1)  # as at home; the last bits of a sum hang on it
    run = Run(
        device=device, seed=pack.seed, report=_reporter(job, pack, name), is_cancelled=job.is_cancelled,
        is_paused=job.is_paused, checkpoints=Checkpoints(folder / "checkpoints"),
    )  # fmt: skip
    settings = replace(pack.settings, weights_file=str(folder / pack.start)) if pack.start else pack.settings
    model = catalog.load_fit(pack.method)(data, settings, run)
    job.report(0.95, "scoring all buildings")
    _write(folder, model, data)
    told = {
        "device": device.type,
        "device_name": name,
        "seconds": round(time.monotonic() - began, 2),
        "warnings": run.warnings,
    }
    _write_outcome(folder, pack, told)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return {"outcome": str(folder / OUTCOME), "device": name, "seconds": told["seconds"]}


def read_pack(folder: Path) -> Packed:
    """Read `pack.json` and check all that it says by itself.

    Raises:
        ModelError: if it is missing, damaged, or asks for what this version cannot do.
    """
    where, told = f"{PACK} in {folder}", packed.read_object(folder, PACK, packed.PACK_FORMAT)
    texts = {name: checked(told, name, str, where) for name in ("method", "preset", "start")}
    counts = {name: checked(told, name, int, where) for name in ("seed", "hold_out", "n")}
    share = checked(told, "share", (float, int, type(None)), where)
    if min(counts.values()) < 0 or not 1 <= counts["n"] <= MAX_CHIPS or not (share is None or 0 <= share <= 1):
        raise packed.refusal(where, f"tells of {counts}, and of a share of {share}, which cannot be")
    if texts["start"] and not _START.fullmatch(texts["start"]):
        raise packed.refusal(where, f"names the weights file {texts['start'][:60]!r}, which is none of ours")
    sums = checked(told, "sha256", dict, where)
    if not all(isinstance(value, str) and _SHA256.fullmatch(value) for value in sums.values()):
        raise packed.refusal(where, "does not give the sha256 of each file")
    return Packed(
        method=texts["method"], preset=texts["preset"], seed=counts["seed"], hold_out=counts["hold_out"], start=texts["start"],
        settings=_settings(told, texts, where), share=None if share is None else float(share),
        warnings=texts_in(told, "warnings", where), types_from=checked(told, "types_from", (str, type(None)), where),
        class_names=texts_in(told, "class_names", where), began_with=_began_with(told, where),
        n=counts["n"], sums=sums, sha256=packed.sha256_in(folder, PACK),
    )  # fmt: skip


def _began_with(told: Mapping[str, Any], where: str) -> dict[str, str | int]:
    found = checked(told, "began_with", dict, where)
    checked(found, "chip_set", str, where)
    numbers = [checked(found, name, int, where) for name in ("at_event", *sorted(found.keys() - {"chip_set", "at_event"}))]
    if not all(0 <= number < 2**53 for number in numbers):
        raise packed.refusal(where, "began with labels that cannot be")
    return dict(found)


def texts_in(told: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """Return a list of texts, at most 300 of at most 500 signs, without signs that a terminal would act on.

    Raises:
        ModelError: if it is none.
    """
    found = checked(told, name, list, where)
    if len(found) > 300 or not all(isinstance(text, str) and len(text) <= 500 for text in found):
        raise packed.refusal(where, f"has no proper list of texts {name!r}")
    return tuple("".join(sign if sign.isprintable() else "?" for sign in text) for text in found)


def _settings(told: Mapping[str, Any], texts: Mapping[str, str], where: str) -> NetworkSettings:
    values = checked(told, "settings", dict, where)
    if not all(isinstance(value, str | int | float) for value in values.values()):
        raise packed.refusal(where, "has a setting that is neither a word nor a number")
    try:
        found: NetworkSettings = catalog.settings_for(texts["method"], texts["preset"], values)
    except PuGeoError as error:
        hint = "Use the same version of PU-Geo on both machines."
        raise packed.refusal(where, f"does not fit this version of PU-Geo: {error.problem.rstrip('.')}", hint) from error
    if found.weights_file and not texts["start"]:
        raise packed.refusal(where, "asks for a weights file that was not packed")
    return found


def require_sums(folder: Path, pack: Packed) -> None:
    """See that every file is what was packed.

    Raises:
        ModelError: names the first that is missing or other.
    """
    some = [name for name in (pack.start, packed.ACCEPTED if packed.ACCEPTED in pack.sums else "") if name]
    for name in (INPUTS, CLASSES, LEFT_OUT, packed.IDS, *some):
        if packed.sha256_in(folder, name) != pack.sums.get(name):
            raise packed.refusal(f"{name} in {folder}", "is not the file that was packed: it has another sha256")


def read_data(folder: Path, pack: Packed) -> PUData:
    """Read what a method learns from; features or chips stay on disk, as a memory map.

    Raises:
        ModelError: if an array has another type or shape than it must have.
    """
    classes = packed.read_array(folder, CLASSES, "int64", (pack.n,), pack.sums.get(CLASSES), most_values=MAX_CHIPS)
    left_out = packed.read_array(folder, LEFT_OUT, "bool", (pack.n,), pack.sums.get(LEFT_OUT), most_values=MAX_CHIPS)
    if classes.min() < -1 or classes.max() >= len(pack.class_names):
        raise packed.refusal(f"{CLASSES} in {folder}", "names classes that are not listed")
    array = _inputs(folder)
    is_features = pack.settings.backbone == FEATURES
    kinds, n_axes, axis = (("float16", "float32"), 3, 1) if is_features else (("uint8",), 4, 0)
    if array.dtype.name not in kinds or array.ndim != n_axes or array.shape[axis] != pack.n:
        raise packed.refusal(
            f"{INPUTS} in {folder}",
            f"holds {array.dtype} {list(array.shape)}, which are no {kinds[0]} inputs of {pack.n} chips",
        )
    inputs = FeatureViews(array) if is_features else ChipImages(array, pack.settings.augmentation)
    accepted = None
    if packed.ACCEPTED in pack.sums:
        accepted = packed.read_array(
            folder, packed.ACCEPTED, "bool", (pack.n,), pack.sums.get(packed.ACCEPTED), most_values=MAX_CHIPS
        )
        if (accepted & (classes < 1)).any():
            raise packed.refusal(f"{packed.ACCEPTED} in {folder}", "marks buildings that are no positives")
    return PUData(inputs, classes >= 1, left_out, classes, pack.class_names, accepted)


def _inputs(folder: Path) -> NDArray[Any]:
    try:
        with packed.opened(folder, INPUTS):
            found: NDArray[Any] = np.load(folder / INPUTS, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, SyntaxError) as error:
        raise packed.refusal(f"{INPUTS} in {folder}", "is no .npy file, or a damaged one") from error
    return found


def _reporter(job: Job, pack: Packed, device: str) -> Callable[[Mapping[str, object]], None]:
    title = catalog.card(pack.method).title

    def report(values: Mapping[str, object]) -> None:
        job.epoch(values)
        words = f"{title} on {device}: {values['stage']}, epoch {values['epoch']} of {values['epochs']}"
        job.report(0.05 + 0.9 * float(str(values["progress"])), words)

    return report


def _write(folder: Path, model: TrainedModel, data: PUData) -> None:
    """Write the answers, the weights and the curve, each atomically."""
    write_array(folder / SCORES, model.score(data.inputs.array).astype(np.float32))
    write_array(folder / EMBEDDINGS, model.embed(data.inputs.plain_array).astype(np.float32))
    with atomic_write(folder / WEIGHTS) as temporary:
        temporary.write_bytes(write_tensors({name: tensor.numpy() for name, tensor in model.state().items()}))
    write_json(folder / CURVE, {"curve": _curve(folder)})


def _curve(folder: Path) -> list[dict[str, object]]:
    """Return the reports of all epochs, over all starts; every other one is left out while they take too much room."""
    told = events.curve(events.read(folder))
    rows = [{key: value for key, value in row.items() if _is_kept(key, value)} for row in told]
    while len(rows) > 2 and len(json.dumps(rows, indent=1)) * 1.2 > MAX_CURVE:
        rows = [*rows[:-1:2], rows[-1]]
    return rows


def _is_kept(name: str, value: object) -> bool:
    is_plain = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return is_plain and name not in ("at", "event", "look") and FIGURE.fullmatch(name) is not None


def _write_outcome(folder: Path, pack: Packed, told: Mapping[str, object]) -> None:
    """Write `outcome.json`: there is an outcome once it is there."""
    versions = {"pu_geo": __version__, "python": platform.python_version()}
    for name in ("torch", "torchvision", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in packed.OUTCOME_FILES}
    head = {"format": packed.OUTCOME_FORMAT, "format_version": packed.VERSION, "pack_sha256": pack.sha256}
    write_json(folder / OUTCOME, {**head, **told, "versions": versions, "sha256": sums})
