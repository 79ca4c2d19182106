"""The makers of frozen features: a class each, with `fit_request`, `transform` and `state`, and a row in `MAKERS`.

`fit_maker(request, chips, ...)` makes what a `FeatureRequest` asks for, from a project's own chips or a local file;
`transform(chips, n_views, seed=...)` computes features of augmented views, float16 [V, N, D]; `state()` and `facts()` give
all that a maker is made of as plain arrays and JSON, from which `from_state` builds it again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.errors import TrainingError
from pu_geo.features import networks, rcf
from pu_geo.features.layers import LayerBanks
from pu_geo.features.networks import KINDS, NetworkMaker
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.features.shared import SharedBank
from pu_geo.features.views import Maker as Maker
from pu_geo.features.views import Making, Report
from pu_geo.records import FeatureRequest, View

FEATURE_SEED = 0  # of the views that the features of every chip set are made of
N_VIEWS = RcfSettings().n_views  # views per chip, the chip as it was cut included
DEFAULT_MAKER = "rcf"
ROWS_TOGETHER = math.lcm(rcf.BLOCK, networks.BLOCK)  # chips after which every maker starts anew with random numbers


MAKERS: dict[str, type[Maker]] = {one.kind: one for one in (RcfBank, SharedBank, LayerBanks)} | dict.fromkeys(
    KINDS, NetworkMaker
)
_NOT_OF_SPACE = ("scale", "licence", "weights_file", "weights_sha256", "holds_imagery", "stored_as", "layer_is")
"""Facts that change no direction of the features: a factor for all of them, and words on where weights came from."""


def fit_maker(
    request: FeatureRequest, chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None,
    *, generator: torch.Generator, device: torch.device, report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None, views: Sequence[View] = (), is_missing: NDArray[np.bool_] | None = None,
) -> Maker:  # fmt: skip
    """Make what a request asks for; the same request, chips and generator give the same maker.

    Args:
        chips: uint8 [N, C, H, W], may be a memory map; with all bands for features of layers, else pre and post alone.
        rows: int64 [M], the chips to learn from, such as those that show something; all if None.
        report: called with {"done", "total", "seconds"} where making takes long.
        views: bands of the chips, for features of layers.
        is_missing: bool [V, N], which chips lack which of `views`; None where all have all.

    Raises:
        TrainingError: if there is no such maker, or it cannot do what the request asks for.
        JobCancelled: if the user cancelled.
    """
    making = Making(
        generator=generator, device=device, report=report, is_cancelled=is_cancelled, views=views, is_missing=is_missing
    )
    chosen = np.arange(len(chips)) if rows is None else rows
    return _row(request.maker).fit_request(request, chips, chosen, making)


def from_state(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Maker:
    """Build a maker from what its `state` and `facts` gave. Without facts it is RCF, as in projects of the first version.

    Raises:
        TrainingError: if the two do not make one of `MAKERS`.
    """
    return _row(str(facts.get("kind", DEFAULT_MAKER))).from_state(arrays, facts)


def fingerprint(maker: Maker) -> str:
    """Return the lowercase hex sha256 of what decides the feature space: two makers with the same one can share a model.

    That is kind and settings, filters or weights, and for networks from files the statistics of the bands that came with
    them. Left out is what belongs to the chips at hand: statistics of bands of random convolutions, a network's power of
    two, the place of the bands in a chip, and names of files.
    """
    space, facts = maker.state(), maker.facts()
    if isinstance(maker, SharedBank):
        space = RcfBank.state(maker)
    facts["chip_views"] = sorted(
        (view["name"], view["when"], view["stop"] - view["start"]) for view in facts.get("chip_views", ())
    )
    plain = {name: value for name, value in sorted(facts.items()) if name not in _NOT_OF_SPACE}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name in sorted(space):
        if name.rpartition(".")[2] not in ("band_mean", "band_std"):
            array = np.ascontiguousarray(space[name], np.float32).astype("<f4", copy=False)
            digest.update(f"{name} {array.shape}".encode())
            digest.update(array.data)
    return digest.hexdigest()


def fit_default(chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None) -> RcfBank:
    """Choose the filters of a chip set, uint8 [N, C, H, W]: the same chips give the same ones. `rows`: see `RcfBank.fit`."""
    return RcfBank.fit(chips, torch.Generator().manual_seed(FEATURE_SEED), rows=rows)


def _row(kind: str) -> type[Maker]:
    if kind not in MAKERS:
        raise TrainingError(
            f"There is no maker of features {kind[:60]!r}; there are {', '.join(MAKERS)}.",
            "Choose one of them.",
            kind="maker",
        )
    return MAKERS[kind]
