"""Pack a training into a folder that can be copied to another machine, where `tasks.apart` does it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pu_geo import __version__
from pu_geo.errors import PuGeoError, TrainingError, writing
from pu_geo.methods import catalog
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import packed
from pu_geo.project.layout import Layout, write_array, write_json
from pu_geo.project.packed import CLASSES, IDS, INPUTS, LEFT_OUT, PACK, SPEC
from pu_geo.project.runs import sha256_of
from pu_geo.tasks.train.inputs import RunInputs, read_inputs, set_aside
from pu_geo.tasks.train.train import require_labels, with_class_prior
from pu_geo.training.network import FEATURES
from pu_geo.training.run import Run

BEGAN_WITH = "began_with.json"
"""The note that `tasks.inputs.read_inputs` leaves with a training."""
START_SUFFIXES = (".pugeo-model.zip", ".pt", ".pth")
"""Weights files that a machine with torch alone can read."""


def pack(
    layout: Layout, out: str, *, method: str, preset: str, seed: int = 0, overrides: Mapping[str, str] | None = None,
    types_from: str | None = None, hold_out: int = 0,
) -> dict[str, object]:  # fmt: skip
    """Write a folder that holds all that a training needs, with the labels as they stand.

    Args:
        out: folder to make; it may be there if it is empty.
        method, preset, seed, overrides, types_from, hold_out: see `tasks.train.train`.

    Returns:
        {"out": path, "method", "n", "n_positive", "at_event", "bytes"}

    Raises:
        TrainingError: if there are too few labels, or a setting is wrong.
        ProjectError: if there are no chips yet.
        PuGeoError: if the folder is not empty, or cannot be written.
    """
    card, settings = catalog.card(method), catalog.settings_for(method, preset, overrides or {})
    start = _start_of(settings)
    inputs, began_with = _begun(layout)
    folder = Path(out).expanduser().resolve()
    require_labels(card, inputs.pu)
    inputs = inputs.with_clicks(set_aside(inputs.pu, hold_out, seed, card)[0], types_from)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PuGeoError(f"{folder} is there already and not empty.", "Name a folder that is not there yet.")
    data, noted = inputs.data(layout, settings, types_from), Run()
    share = inputs.estimated_share()
    settings = with_class_prior(settings, inputs.prior_of(share), noted)
    told = {
        "format": packed.PACK_FORMAT, "format_version": packed.VERSION, "made_with": __version__, "method": method,
        "preset": preset, "seed": seed, "hold_out": hold_out, "settings": asdict(settings), "start": f"start{start}" if start else "",
        "share": share, "warnings": noted.warnings, "types_from": types_from, "class_names": list(data.class_names),
        "began_with": began_with, "n": data.inputs.n_chips,
    }  # fmt: skip
    arrays = {CLASSES: data.classes, LEFT_OUT: data.is_excluded}
    if data.is_accepted is not None:
        arrays[packed.ACCEPTED] = data.is_accepted
    with writing(folder):
        _write(folder, told, source_of(layout, inputs, settings), arrays, inputs)
    n_bytes = sum(path.stat().st_size for path in folder.iterdir())
    facts = {
        "method": method,
        "n": told["n"],
        "n_positive": int(inputs.pu.is_positive.sum()),
        "at_event": inputs.pu.at_event,
    }
    return {"out": str(folder), **facts, "bytes": n_bytes}


def _begun(layout: Layout) -> tuple[RunInputs, dict[str, Any]]:
    """Read what a training would begin with now, and the note by which it is found again later."""
    with tempfile.TemporaryDirectory() as room:
        inputs = read_inputs(layout, Path(room))
        return inputs, json.loads((Path(room) / BEGAN_WITH).read_text(encoding="utf-8"))


def source_of(layout: Layout, inputs: RunInputs, settings: NetworkSettings) -> Path:
    """Return the file of the project that a network with these settings looks at: features, or chips."""
    return layout.features(inputs.chip_set) if settings.backbone == FEATURES else layout.chips(inputs.chip_set)


def _start_of(settings: NetworkSettings) -> str:
    """Return the suffix of the weights file that a training starts from; "" for none."""
    if not settings.weights_file:
        return ""
    path = Path(settings.weights_file).expanduser()
    found = [suffix for suffix in START_SUFFIXES if path.name.endswith(suffix)]
    if not found or not path.is_file():
        raise TrainingError(
            f"The weights file {path} cannot be packed: it must be there and end in {', '.join(START_SUFFIXES)}.",
            "Name a model file or a state dict of torch, or train on this machine.",
            kind="weights",
        )
    return found[0]


def _write(folder: Path, told: dict[str, Any], source: Path, arrays: Mapping[str, Any], inputs: RunInputs) -> None:
    """Write all files beside the folder, and put it in its place when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as room:
        new = Path(room) / "pack"
        new.mkdir()
        shutil.copyfile(source, new / INPUTS)
        for name, array in arrays.items():
            write_array(new / name, np.ascontiguousarray(array))
        (new / IDS).write_bytes(packed.ids_as_bytes(inputs.pu.building_ids))
        if told["start"]:
            shutil.copyfile(Path(told["settings"]["weights_file"]).expanduser(), new / told["start"])
            told["settings"]["weights_file"] = Path(told["settings"]["weights_file"]).name
        write_json(new / PACK, {**told, "sha256": {path.name: sha256_of(path) for path in sorted(new.iterdir())}})
        write_json(new / SPEC, {"task": "train_apart", "project": None, "args": {}})
        new.replace(folder)
