"""The card of a trained model: what it is, what it learned from, and by which sha256 both can be known again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from pu_geo import __version__
from pu_geo.features.bank import FEATURE_SEED
from pu_geo.files import atomic_write
from pu_geo.methods import catalog
from pu_geo.records import Chips, Facts, PUSet, RunFacts
from pu_geo.runs.inputs_job import RunInputs
from pu_geo.runs.layer_match_job import described
from pu_geo.store import contents, feature_sets, store
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.layout import LAYERS, RCF, Layout, read_array, write_json
from pu_geo.training import model_files
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.model_files import CARD, FILTERS, MAKER, MAX_WITH_MAKER, WEIGHTS

_ELSEWHERE = (
    "from_model",
    "chip_set",
    "at_event",
    "n_positive",
    "n_unlabeled",
    "start_k",
    "place",
    "types_from",
    "type_grades",
    "federation",
)
"""Facts of a run that stand in "learned_from", or nowhere."""
_HASHED_ROWS = 1024  # of an array at a time


def write_model(
    layout: Layout, facts: RunFacts, inputs: RunInputs, data: PUData, state: Mapping[str, torch.Tensor], threshold: float
) -> list[Path]:  # fmt: skip
    """Write `model.safetensors` and `model.json` into the folder of a run, each atomically; see `card_and_weights`.

    Returns:
        Paths of both files.
    """
    path = layout.run(facts.run_id) / WEIGHTS
    card, weights = card_and_weights(layout, facts, inputs, data, state, threshold)
    with atomic_write(path) as temporary:
        temporary.write_bytes(weights)  # the library's own writer does not tell a full disk from other faults
    write_json(path.with_name(CARD), card)
    return [path, path.with_name(CARD)]


def card_and_weights(
    layout: Layout, facts: RunFacts, inputs: RunInputs, data: PUData, state: Mapping[str, torch.Tensor], threshold: float
) -> tuple[dict[str, Any], bytes]:  # fmt: skip
    """Return the two parts of a model.

    Where it takes cached features, what made these is among the tensors, unless it is too large for a model file.

    Args:
        data: what `fit` was given of `inputs`.
        state: name -> tensor of the network.
        threshold: to start from where the model scores chips one by one, without the places of buildings.
    """
    tensors = {name: tensor.contiguous().cpu().numpy() for name, tensor in state.items()}
    if isinstance(data.inputs, FeatureViews):
        tensors |= maker_of(layout, facts, MAX_WITH_MAKER - sum(array.nbytes for array in tensors.values()))
    weights = save(tensors)
    card = _card(layout, facts, inputs, data)
    card["tensors"] = {name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in tensors.items()}
    card["threshold"] = round(threshold, 4)
    card["sha256"] = hashlib.sha256(weights).hexdigest()
    return card, weights


def maker_of(layout: Layout, facts: RunFacts, most_bytes: int) -> dict[str, NDArray[Any]]:
    """Read what made the features of a run, by its names in a model; nothing where it was not kept, or has more bytes."""
    arrays = feature_sets.maker_state(layout, facts.chip_set, facts.feature_set)
    first = FILTERS if facts.feature_set == RCF else MAKER
    is_small = sum(array.nbytes for array in arrays.values()) <= most_bytes
    return {first + name: value for name, value in arrays.items()} if is_small else {}


def _card(layout: Layout, facts: RunFacts, inputs: RunInputs, data: PUData) -> dict[str, Any]:
    method, taken = catalog.card(facts.method), data.inputs
    settings = {**facts.settings, "weights_file": Path(str(facts.settings.get("weights_file", ""))).name}
    libraries = {name: metadata.version(name) for name in ("torch", "torchvision", "numpy")}
    of_run = {name: value for name, value in asdict(facts).items() if name not in _ELSEWHERE}
    is_features = isinstance(taken, FeatureViews)
    views: dict[str, Any] = (
        {"kind": "features", "n_views": len(taken.array), "seed": FEATURE_SEED} if is_features else {"kind": "chips"}
    )
    if not is_features and data.views:
        views["views"] = [asdict(view) for view in data.views]
    return {
        "format": model_files.FORMAT,
        "format_version": model_files.VERSION,
        **of_run,
        "title": method.title,
        "paper": method.paper,
        "variant": facts.settings.get("variant"),
        "settings": settings,
        "versions": {"pu_geo": __version__, "python": platform.python_version(), **libraries, **facts.versions},
        "input": {**views, "shape": list(taken.shape)},
        "learned_from": _learned_from(layout, facts, inputs, data),
    }


def _learned_from(layout: Layout, facts: RunFacts, inputs: RunInputs, data: PUData) -> Facts:
    grid = store.call(layout, contents.grid)
    chips, pu, of_set = chips_learned(layout, facts.chip_set, data), inputs.pu, chip_facts(layout, facts.chip_set)
    taken, names = chips, [view.name for view in data.views]
    maker: Facts = facts.feature_maker
    if isinstance(data.inputs, FeatureViews) and maker["kind"] == LAYERS:
        taken = read_array(layout.chips(facts.chip_set))
        names = [view["name"] for view in maker.get("chip_views", ())]
    layers = described(of_set, names)
    return {
        "chip_set": facts.chip_set,
        "bands": of_set["bands"],
        "chip_shape": list(taken.shape[1:]),
        "gsd_m": grid.gsd_m,
        **({"sites_gsd_m": [site.gsd_m for site in grid.sites]} if grid.sites else {}),
        "n_chips": len(chips),
        "n_positive": facts.n_positive,
        "n_not_damaged": int(pu.is_not_damaged.sum()),
        "n_left_out": int(pu.is_excluded.sum()),
        "n_held_out": len(inputs.held_out),
        "n_unlabeled": facts.n_unlabeled,
        "at_event": facts.at_event,
        "at_decision": inputs.at_decision,
        "types_from": inputs.types_from,
        "class_names": list(data.class_names),
        "sha256_chips": sha256_of_array(chips),
        "sha256_labels": sha256_of_labels(pu, data),
        **({"layers": layers} if layers else {}),
    }


def chips_learned(layout: Layout, chip_set: str, data: PUData) -> Chips:
    """Return the chips that a model rests on: those that it was trained on, or pre and post where it was trained on
    features.
    """
    return data.inputs.chips if isinstance(data.inputs, ChipImages) else optical_chips(layout, chip_set)


def sha256_of_array(array: NDArray[Any]) -> str:
    """Return the lowercase hex sha256 of an array's values in C order, whatever its file; a mapped one is not read into
    memory.
    """
    digest = hashlib.sha256()
    for start in range(0, len(array), _HASHED_ROWS):  # the bands of some layers are no block of the file
        digest.update(np.ascontiguousarray(array[start : start + _HASHED_ROWS]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def sha256_of_labels(pu: PUSet, data: PUData) -> str:
    """Return the sha256 of a line a building, in the order of the chips: id, tab, what was learned of it, line feed.

    That is "left out", the name of its class, or "unlabeled"; where several types of one building are learned, its row of
    `PUData.type_labels` after another tab, and the names of the types in a line before.
    """
    digest = hashlib.sha256()
    types = data.type_labels
    if types is not None:
        digest.update("\t".join(data.type_names).encode() + b"\n")
    for row, (building, is_excluded, known) in enumerate(zip(pu.building_ids, pu.is_excluded, data.classes, strict=True)):
        state = "left out" if is_excluded else "unlabeled" if known < 0 else data.class_names[known]
        several = "" if types is None else "\t" + " ".join(map(str, types[row].tolist()))
        digest.update(f"{building}\t{state}{several}\n".encode())
    return digest.hexdigest()
