"""The card of a trained model: what it is, what it learned from, and by which sha256 both can be known again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
from pu_geo.project import contents, feature_sets, model_files, store
from pu_geo.project.contents import chip_facts, optical_chips
from pu_geo.project.layout import LAYERS, RCF, Layout, read_array, write_json
from pu_geo.project.model_files import CARD, FILTERS, MAKER, MAX_WITH_MAKER, WEIGHTS
from pu_geo.records import PUSet, RunFacts
from pu_geo.tasks.train.layer_match import described
from pu_geo.training.data import ChipImages, FeatureViews, PUData

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


@dataclass(frozen=True)
class Learned:
    """What a method learned, and from what.

    Attributes:
        weights: name -> tensor, on the CPU.
        data: what `fit` was given.
        types_from: where damage types came from, see `TrainingRequest`; None without types.
        at_decision: see `RunInputs`.
        threshold: to start from where the model scores chips one by one, without the places of buildings; the run's if None.
    """

    weights: Mapping[str, torch.Tensor]
    data: PUData
    types_from: str | None
    at_decision: int = 0
    threshold: float | None = None


def write_model(layout: Layout, facts: RunFacts, pu: PUSet, learned: Learned) -> list[Path]:
    """Write `model.safetensors` and `model.json` into the folder of a run, each atomically; the two are a whole model.

    Returns:
        Paths of both files.
    """
    path = layout.run(facts.run_id) / WEIGHTS
    card, weights = card_and_weights(layout, facts, pu, learned)
    with atomic_write(path) as temporary:
        temporary.write_bytes(weights)  # the library's own writer does not tell a full disk from other faults
    write_json(path.with_name(CARD), card)
    return [path, path.with_name(CARD)]


def card_and_weights(layout: Layout, facts: RunFacts, pu: PUSet, learned: Learned) -> tuple[dict[str, Any], bytes]:
    """Return the two parts of a model.

    Where it takes cached features, what made these is among the tensors, unless it is too large for a model file.
    """
    tensors = {name: tensor.contiguous().cpu().numpy() for name, tensor in learned.weights.items()}
    if isinstance(learned.data.inputs, FeatureViews):
        tensors |= maker_of(layout, facts, MAX_WITH_MAKER - sum(array.nbytes for array in tensors.values()))
    weights = save(tensors)
    card = _card(layout, facts, pu, learned)
    card["tensors"] = {name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in tensors.items()}
    card["threshold"] = facts.threshold if learned.threshold is None else round(learned.threshold, 4)
    card["sha256"] = hashlib.sha256(weights).hexdigest()
    return card, weights


def maker_of(layout: Layout, facts: RunFacts, most_bytes: int) -> dict[str, NDArray[Any]]:
    """Read what made the features of a run, by its names in a model; nothing where it was not kept, or has more bytes."""
    arrays = feature_sets.maker_state(layout, facts.chip_set, facts.feature_set)
    first = FILTERS if facts.feature_set == RCF else MAKER
    is_small = sum(array.nbytes for array in arrays.values()) <= most_bytes
    return {first + name: value for name, value in arrays.items()} if is_small else {}


def _card(layout: Layout, facts: RunFacts, pu: PUSet, learned: Learned) -> dict[str, Any]:
    method, inputs = catalog.card(facts.method), learned.data.inputs
    settings = {**facts.settings, "weights_file": Path(str(facts.settings.get("weights_file", ""))).name}
    libraries = {name: metadata.version(name) for name in ("torch", "torchvision", "numpy")}
    of_run = {name: value for name, value in asdict(facts).items() if name not in _ELSEWHERE}
    is_features = isinstance(inputs, FeatureViews)
    views: dict[str, Any] = (
        {"kind": "features", "n_views": len(inputs.array), "seed": FEATURE_SEED} if is_features else {"kind": "chips"}
    )
    if not is_features and learned.data.views:
        views["views"] = [asdict(view) for view in learned.data.views]
    return {
        "format": model_files.FORMAT,
        "format_version": model_files.VERSION,
        **of_run,
        "title": method.title,
        "paper": method.paper,
        "variant": facts.settings.get("variant"),
        "settings": settings,
        "versions": {"pu_geo": __version__, "python": platform.python_version(), **libraries, **facts.versions},
        "input": {**views, "shape": list(inputs.shape)},
        "learned_from": _learned_from(layout, facts, pu, learned),
    }


def _learned_from(layout: Layout, facts: RunFacts, pu: PUSet, learned: Learned) -> dict[str, Any]:
    chips = chips_learned(layout, facts.chip_set, learned.data)
    with store.connect(layout) as db:
        grid, sha256_footprints = contents.grid(db), contents.footprints_sha256(db, pu.building_ids)
    inputs, of_set = learned.data.inputs, chip_facts(layout, facts.chip_set)
    is_features = isinstance(inputs, FeatureViews)
    taken = chips
    names = [view.name for view in learned.data.views]
    maker: Mapping[str, Any] = facts.feature_maker
    if is_features and maker["kind"] == LAYERS:
        taken = read_array(layout.chips(facts.chip_set))
        names = [view["name"] for view in maker.get("chip_views", ())]
    layers = described(of_set, names)
    return {
        "chip_set": facts.chip_set,
        "bands": of_set["bands"],
        "chip_shape": list(taken.shape[1:]),
        "gsd_m": grid.gsd_m,
        "n_chips": len(chips),
        "n_positive": facts.n_positive,
        "n_not_damaged": int(pu.is_not_damaged.sum()),
        "n_left_out": int(pu.is_excluded.sum()),
        "n_unlabeled": facts.n_unlabeled,
        "at_event": facts.at_event,
        "at_decision": learned.at_decision,
        "types_from": learned.types_from,
        "class_names": list(learned.data.class_names),
        "sha256_chips": sha256_of_array(chips),
        "sha256_features": sha256_of_array(inputs.array) if is_features else None,
        "sha256_footprints": sha256_footprints,
        "sha256_labels": sha256_of_labels(pu, learned.data),
        **({"layers": layers} if layers else {}),
    }


def chips_learned(layout: Layout, chip_set: str, data: PUData) -> NDArray[np.uint8]:
    """Return the chips that a model rests on: those that it was trained on, or pre and post where it was trained on features."""
    return data.inputs.chips if isinstance(data.inputs, ChipImages) else optical_chips(layout, chip_set)


def sha256_of_array(array: NDArray[Any]) -> str:
    """Return the lowercase hex sha256 of an array's values in C order, whatever its file; a mapped one is not read into memory."""
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
