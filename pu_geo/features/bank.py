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
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.errors import TrainingError
from pu_geo.features import networks, rcf
from pu_geo.features.layers import LayerBanks
from pu_geo.features.networks import KINDS, NetworkMaker
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.features.shared import SharedBank
from pu_geo.features.views import Report
from pu_geo.records import FeatureRequest, View
from pu_geo.training.augment import AERIAL, AugmentSettings

FEATURE_SEED = 0  # of the views that the features of every chip set are made of
N_VIEWS = RcfSettings().n_views  # views per chip, the chip as it was cut included
DEFAULT_MAKER = "rcf"
ROWS_TOGETHER = math.lcm(rcf.BLOCK, networks.BLOCK)  # chips after which every maker starts anew with random numbers


class Maker(Protocol):
    """What makes frozen features of chips.

    Attributes:
        kind: its row in `MAKERS`.
        n_features: per chip, D.
    """

    @property
    def kind(self) -> str: ...

    @property
    def n_features(self) -> int: ...

    @classmethod
    def fit_request(
        cls, request: FeatureRequest, chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None,
        *, generator: torch.Generator, device: torch.device, report: Report | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Self:  # fmt: skip
        """Make what the request asks for; see `fit_maker`."""
        ...

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the maker from what `state` and `facts` gave; both may come from a stranger's file."""
        ...

    def transform(
        self, chips: NDArray[np.uint8], n_views: int, *, seed: int, device: torch.device,
        out: NDArray[np.float16] | None = None, augmentation: AugmentSettings = AERIAL, report: Report | None = None,
        is_cancelled: Callable[[], bool] | None = None, masks: NDArray[np.bool_] | None = None, first: int = 0,
    ) -> NDArray[np.float16]:  # fmt: skip
        """Compute features of several views of every chip, float16 [V, N, D]; view 0 is the chip as it was cut.

        Args:
            chips: uint8 [N, C, H, W], may be a memory map.
            seed: it and the rows' order decide the views.
            out: float16 [V, N, D] to write into.
            report: called with {"done", "total", "seconds"}, counted in chips.
            masks: bool [N, H, W], the footprints; given where facts()["pool"] is "footprint", and nowhere else.
            first: chips of the set before these, a multiple of `ROWS_TOGETHER`: so parts of a set get the features that they
                have in the whole, bit for bit on one kind of processor.

        Raises:
            ShapeError: if chips, out or masks do not fit the maker.
            JobCancelled: if the user cancelled.
        """
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the maker is made of as plain arrays, for a file that cannot run code."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know, as JSON: kind, backbone, weights_file, weights_sha256, licence,
        pool, layer, size_px, dates, None where a maker has no such thing; and "holds_imagery": whether its arrays are
        patches of a project's imagery, or were learned from it, so that whoever gets them gets some of it."""
        ...


MAKERS: dict[str, type[Maker]] = {one.kind: one for one in (RcfBank, SharedBank, LayerBanks)} | dict.fromkeys(
    KINDS, NetworkMaker
)
_NOT_OF_SPACE = ("scale", "licence", "weights_file", "weights_sha256", "holds_imagery")
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
    kind = _row(request.maker.partition(":")[0])
    if kind is LayerBanks:
        return kind.fit_request(request, chips, rows, generator=generator, device=device, views=views, is_missing=is_missing)
    return kind.fit_request(
        request, chips, rows, generator=generator, device=device, report=report, is_cancelled=is_cancelled
    )


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
