"""A model file made a model again: only if settings, names, shapes and types are what its method would have written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.errors import ModelError, PuGeoError, printable
from pu_geo.features.bank import Maker, from_state
from pu_geo.features.layers import MOST_BANDS, MOST_BANKS, LayerBanks
from pu_geo.features.networks import NetworkMaker, is_scale
from pu_geo.features.rcf import RcfBank, RcfSettings, problem_of_bank
from pu_geo.methods import catalog
from pu_geo.methods.settings import NetworkSettings
from pu_geo.records import MAX_TYPE, Bools, Facts, View
from pu_geo.store import contents, feature_sets
from pu_geo.store.layout import RCF, SHARED
from pu_geo.training.model_files import FILTERS, MAKER, Model, refusal
from pu_geo.training.network import TrainedModel

MAX_BANDS, SIDES_PX, MAX_SIZE = MOST_BANDS, (16, 256), 8192
MAX_VALUES, MAX_OF_NETWORKS = 65_536, MOST_BANKS * 512 * RcfSettings().n_views
"""Features times views of a chip; ours are 512 in 17 views, as many for each of up to 16 layers, and 6,144 of a network.
20,000
chips then take 2.6 and 5.6 GB at most."""
MAX_WORK = 3 * 10**9
"""Products that the features of one chip may take for every 6 bands of a bank; ours take that at 256 px, a twentieth at 64
px.
"""
MAX_FACTS = 8000  # characters of what a card says of the maker of its features
MAX_LISTED = 256
"""Longest list of whole numbers in a network: kinds of damage, known classes. A network is built by them before it is
compared.
"""
Arrays = dict[str, NDArray[Any]]
_WORD = re.compile(r"[a-z0-9_-]{1,40}")
_OF_A_PLACE = (
    "scale",
    "licence",
    "weights_file",
    "holds_imagery",
    "layer_is",
)  # facts of a maker in which two projects may differ
_BAND_WORDS = {3: "post", 6: "pre+post"}


@dataclass(frozen=True)
class RestoredModel:
    """A model that can score chips.

    Attributes:
        model: in evaluation mode, on its device.
        bank: maker of the features that it takes; None where it takes chips.
        n_views, seed: of these features.
        chip_shape: [C, H, W] of the chips it was made for.
        card: see `runs.model_card_job`.
        settings: of its method, checked; without a name of a weights file.
        types: names of the damage types that it judges; () where nobody named any.
        is_ordinal: see `RunFacts`.
        chip_views: named bands of the chips that it takes; () where it takes features, or pre and post alone.
    """

    model: TrainedModel
    bank: Maker | None
    n_views: int
    seed: int
    chip_shape: tuple[int, int, int]
    card: Facts
    settings: NetworkSettings
    types: tuple[str, ...] = ()
    is_ordinal: bool = False
    chip_views: tuple[View, ...] = ()

    @property
    def bands(self) -> str:
        """Bands of its chips, in the words of `pu-geo chip`."""
        return _BAND_WORDS.get(self.chip_shape[0], f"{self.chip_shape[0]} bands")

    @property
    def features(self) -> tuple[str, Facts]:
        """Name and maker of the features that it takes, as a run keeps them."""
        return _feature_set(self.card), self.bank.facts() if self.bank else {}


def lacking(restored: RestoredModel, facts: Facts) -> Bools | None:
    """Return which of a model's views the buildings of a chip set lack, bool [V, N]; None of a model without named views."""
    if restored.chip_views:
        row = {view.name: k for k, view in enumerate(contents.views_of(facts))}
        return contents.is_missing(facts)[[row[view.name] for view in restored.chip_views]]
    return feature_sets.is_missing(restored.bank.facts(), facts) if isinstance(restored.bank, LayerBanks) else None


FindMaker = Callable[[str], Maker | None]
"""Returns the maker of a feature set of a project by its name; None where it has none."""


def restore(found: Model, device: torch.device, find_maker: FindMaker = lambda _: None) -> RestoredModel:
    """Build the model that a file holds.

    Args:
        find_maker: asked for the maker of its features, where the file does not hold that.

    Raises:
        ModelError: if the method or a setting is not known here, or the tensors are not what these ask for.
    """
    chip_shape, shape = _chip_shape(found), _input_shape(found)
    state, filters, maker = _parted(found)
    _check_numbers(found, state)
    kind = _maker_facts(found).get("kind", RCF)
    if kind == RCF or len(shape) == 3:
        bank: Maker | None = _bank(found, {**filters, **maker}, chip_shape, shape)
    else:
        bank = _other_maker(found, {**filters, **maker}, shape, find_maker)
    settings = _settings(found)
    model = _network(found, state, settings, device)
    _try(found, model, shape)
    stated = found.card["input"]
    n_views, seed = (stated.get("n_views"), stated.get("seed")) if bank else (1, 0)
    most = MAX_VALUES if kind == RCF else MAX_OF_NETWORKS
    if not _is_within(n_views, 1, most // shape[0]) or not _is_within(seed, 0, 2**31):
        raise refusal(found.name, f"asks for {str(n_views)[:20]} views of each chip with seed {str(seed)[:20]}")
    banks = bank.banks if isinstance(bank, LayerBanks) else (bank,) if isinstance(bank, RcfBank) else ()
    if any(max(one.filters.shape[-1], one.stride_px) > chip_shape[1] for one in banks):
        raise refusal(found.name, f"holds filters that are larger than chips of {chip_shape[1]} px")
    if sum(_work(one, chip_shape) for one in banks) * n_views > most_work(banks):
        raise refusal(found.name, "holds filters that take too long on every chip")
    types, is_ordinal = _types(found, model)
    return RestoredModel(
        model, bank, n_views, seed, chip_shape, found.card, settings, types, is_ordinal, _chip_views(found, model)
    )


def _chip_views(found: Model, model: TrainedModel) -> tuple[View, ...]:
    """Return the views that a card names, which its network must agree with; () of a network that knows no named views."""
    stated, spans = found.card["input"].get("views", []), getattr(model.extractor, "spans", None)
    if len(found.card["input"]["shape"]) == 1 or (spans is None and not stated):
        return ()
    try:
        views = tuple(View.from_json(one) for one in stated)
    except (TypeError, KeyError, ValueError) as error:
        raise refusal(found.name, "does not name its views properly") from error
    names = [view.name for view in views]
    is_named = len(set(names)) == len(names) and all(_WORD.fullmatch(name) for name in names)
    if not is_named or spans is None or spans.tolist() != [[view.start, view.stop] for view in views]:
        raise refusal(found.name, "names other views than its network takes")
    return views


def _types(found: Model, model: TrainedModel) -> tuple[tuple[str, ...], bool]:
    """Return the damage types that a card names, and whether they are a scale."""
    names, is_ordinal = found.card.get("types", []), found.card.get("is_ordinal", False)
    is_list = isinstance(names, list) and all(isinstance(name, str) and 0 < len(name) <= MAX_TYPE for name in names)
    if not is_list or len(set(names)) < len(names) or not isinstance(is_ordinal, bool):
        raise refusal(found.name, "does not name its damage types properly")
    if names and len(names) != model.n_types:
        raise refusal(found.name, f"names {len(names)} damage types; its network judges {model.n_types}")
    return tuple(printable(name, MAX_TYPE) for name in names), is_ordinal


def _parted(found: Model) -> tuple[Arrays, ...]:
    """Return the tensors of the network, of filters, and of another maker of features, by their names in these."""
    parts: tuple[Arrays, ...] = ({}, {}, {})
    for name, array in found.tensors.items():
        number = 1 if name.startswith(FILTERS) else 2 if name.startswith(MAKER) else 0
        parts[number][name.removeprefix(("", FILTERS, MAKER)[number])] = array
    return parts


def _maker_facts(found: Model) -> Facts:
    """Return what the card says of the maker of features: short, since it may be a stranger's."""
    facts = found.card.get("feature_maker", {"kind": RCF})
    if not isinstance(facts, dict) or len(str(facts)) > MAX_FACTS:
        raise refusal(found.name, "does not say properly what made its features")
    return facts


def _feature_set(card: Facts) -> str:
    name = card.get("feature_set", RCF)
    return name if isinstance(name, str) and _WORD.fullmatch(name) else "unknown"


def _other_maker(found: Model, arrays: Arrays, shape: tuple[int, ...], find_maker: FindMaker) -> Maker:
    """Build the maker of features that are not rcf: from the file, else that of the project if it makes them in the same
    way.
    """
    facts, maker = _maker_facts(found), None
    if (
        arrays or facts.get("kind") == SHARED
    ):  # whose filters are here, and whose statistics may have stayed where they are of
        try:
            maker = from_state(arrays, facts)
        except (PuGeoError, RuntimeError, ValueError, LookupError, TypeError) as error:
            words = error.problem if isinstance(error, PuGeoError) else _first_words(error)
            raise refusal(found.name, f"does not hold what made its features ({words[:200]})") from error
    elif facts.get("weights_sha256"):
        maker = find_maker(_feature_set(found.card))
        mine = {} if maker is None else maker.facts()
        if any(mine[name] != facts.get(name) for name in mine if name not in _OF_A_PLACE):
            maker = None
    if maker is None:
        file, sha256 = (printable(facts.get(name) or "unknown") for name in ("weights_file", "weights_sha256"))
        raise refusal(
            found.name, f"takes features of the weights {file} (sha256 {sha256[:64]}), which it does not hold",
            f"Get that file, make the set {_feature_set(found.card)} by it here (`pu-geo add-features P.pugeo "
            "--backbone PATH`, with the settings that the model's card names), then apply the model again.", kind="weights",
        )  # fmt: skip
    if isinstance(maker, NetworkMaker) and not arrays:
        if not is_scale(facts.get("scale")):
            raise refusal(found.name, "does not say by what its features are multiplied")
        maker = replace(maker, scale=facts["scale"])  # fitted to the chips there
    if maker.n_features != shape[0]:
        raise refusal(found.name, f"holds a maker of other features than the {shape[0]} its network takes")
    return maker


def most_work(banks: Sequence[RcfBank]) -> int:
    """Return the products that the features of one chip may take: banks of our size, one for each layer, are within it."""
    return MAX_WORK * sum(-(-bank.filters.shape[1] // 6) for bank in banks)


def _work(bank: RcfBank, chip_shape: tuple[int, int, int]) -> int:
    """Return the products that the features of one view of a chip take."""
    side, stride = bank.filters.shape[-1], bank.stride_px
    return bank.filters.numel() * (-(-(chip_shape[1] - side + 1) // stride)) ** 2


def _network(found: Model, state: Arrays, settings: Any, device: torch.device) -> TrainedModel:
    """Build the network that method and settings ask for, and see that it is the file's to the last name, shape and type."""
    method = str(found.card["method"])
    tensors = {name: torch.from_numpy(array.copy()) for name, array in state.items()}
    try:
        model: TrainedModel = catalog.load_from_state(method)(tensors, settings, device)
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        words = f"does not hold the network that {method} builds from its settings ({_first_words(error)})"
        raise refusal(found.name, words) from error
    ours = model.state()
    for name in sorted({*ours, *tensors}):
        if name not in ours or name not in tensors or ours[name].dtype != tensors[name].dtype:
            raise refusal(found.name, f"does not hold the network that {method} builds from its settings: {name} is odd")
    return model


def _try(found: Model, model: TrainedModel, shape: tuple[int, ...]) -> None:
    """Let a network answer once: parts of a size that its settings leave open may not fit each other."""
    inputs = np.full((2, *shape), 100, np.uint8 if len(shape) == 3 else np.float16)
    try:
        answers = model.score(inputs), model.embed(inputs)
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise refusal(found.name, f"holds a network whose parts do not fit each other ({_first_words(error)})") from error
    if not all(len(answer) == 2 and np.isfinite(answer).all() for answer in answers):
        raise refusal(found.name, "holds a network that answers with no finite numbers")


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _settings(found: Model) -> Any:
    method, preset, values = found.card["method"], found.card["preset"], found.card["settings"]
    odd = [name for name, value in values.items() if not isinstance(value, str | int | float) or len(str(value)) > 200]
    if odd:
        raise refusal(found.name, f"has a setting {odd[0][:60]!r} that is neither a word nor a number")
    if not _WORD.fullmatch(preset):
        raise refusal(found.name, f"has a preset {preset[:60]!r} that is no word")
    try:
        presets = catalog.card(method).presets
        known = preset if preset in presets else next(iter(presets))  # for settings that the file lacks
        return catalog.settings_for(method, known, {**values, "weights_file": "", "compiled": "no"})
    except PuGeoError as error:
        hint = "It may come from a newer version of PU-Geo: install that one, or ask for a model of another method."
        raise ModelError(f"{found.name} does not fit this version of PU-Geo: {error.problem}", hint, kind="model") from error


def _chip_shape(found: Model) -> tuple[int, int, int]:
    shape = found.card["learned_from"].get("chip_shape")
    if isinstance(shape, list) and len(shape) == 3 and _is_within(shape[0], 1, MAX_BANDS):
        _, height, width = shape
        if height == width and _is_within(height, *SIDES_PX):
            return shape[0], height, width
    raise refusal(found.name, f"is made for chips of shape {str(shape)[:60]}; PU-Geo cuts none like that")


def _input_shape(found: Model) -> tuple[int, ...]:
    """Return the shape of what the network takes, which its own tensor must agree with."""
    shape = found.card["input"].get("shape")
    if not isinstance(shape, list) or len(shape) not in (1, 3) or not all(_is_within(one, 1, MAX_SIZE) for one in shape):
        raise refusal(found.name, f"is made for inputs of shape {str(shape)[:60]}; PU-Geo makes none like that")
    kept = found.tensors.get("trunk.input_shape")
    if kept is None or kept.dtype != np.int64 or kept.tolist() != shape:
        raise refusal(found.name, "holds a network for other inputs than its card says")
    if len(shape) == 3 and shape != found.card["learned_from"]["chip_shape"]:
        raise refusal(found.name, "says two things about the shape of its chips")
    return tuple(shape)


def _check_numbers(found: Model, state: Arrays) -> None:
    """Refuse what would make a network of any size, or one that answers with no numbers, or with one for all."""
    for name, array in state.items():
        if array.dtype.kind == "i" and array.size > MAX_LISTED:
            raise refusal(found.name, f"lists {array.size:,} whole numbers in {name}; {MAX_LISTED} are a lot")
        if name.endswith("running_var") and (array < 0).any():
            raise refusal(found.name, f"holds variances below 0 in {name}")
        if name.endswith("weight") and array.ndim > 1 and not array.any():
            raise refusal(found.name, f"holds weights that are all 0 in {name}: it tells no building from another")
        if name.endswith("scale") and (array <= 0).any():
            raise refusal(found.name, f"holds standard deviations of 0 or less in {name}")


def _bank(found: Model, filters: Arrays, chip_shape: tuple[int, int, int], shape: tuple[int, ...]) -> RcfBank | None:
    if len(shape) == 3:
        if filters:
            raise refusal(found.name, "holds filters for features, while its network looks at chips")
        return None
    if not filters:
        raise refusal(
            found.name, "lacks the filters that made its features, so it can only be used where it was trained",
            "Cut the chips anew in the project it comes from, train again, and export that model.",
        )  # fmt: skip
    if problem := problem_of_bank(filters, shape[0], chip_shape[0], chip_shape[1]):
        raise refusal(found.name, f"holds {problem}")
    return RcfBank.from_state(filters)


def _is_within(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
