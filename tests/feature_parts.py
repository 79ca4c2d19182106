"""A tiny maker of features, in the place of a network: means and spreads of the bands, mixed by the numbers of a weights file."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from pu_geo.errors import JobCancelled
from pu_geo.features import bank
from pu_geo.records import FeatureRequest
from pu_geo.store.layout import Layout, sha256_of

D = 12


@dataclass(frozen=True)
class TinyMaker:
    """The face of a maker, see `features.bank.Maker`."""

    weight: NDArray[np.float32]
    about: Mapping[str, Any]
    kind = "backbone"

    @property
    def n_features(self) -> int:
        return self.weight.shape[1]

    @classmethod
    def fit_request(cls, request: FeatureRequest, chips: NDArray[np.uint8], *_: object) -> Self:
        made = asdict(request)
        facts = {name: made[name] for name in ("pool", "layer", "size_px", "dates", "licence")}
        sha256 = sha256_of(Path(request.backbone))
        about = {**facts, "weights_file": Path(request.backbone).name, "weights_sha256": sha256, "backbone": "tiny"}
        return cls(load_file(request.backbone)["weight"][: 2 * chips.shape[1]], {"kind": cls.kind, **about})

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        return cls(arrays["weight"], facts)

    def transform(
        self, chips: NDArray[np.uint8], n_views: int, *, seed: int, device: torch.device, out: Any = None,
        masks: NDArray[np.bool_] | None = None, is_cancelled: Callable[[], bool] | None = None, **_: object,
    ) -> NDArray[np.float16]:  # fmt: skip
        assert (masks is not None) == (self.about["pool"] == "footprint")
        if is_cancelled and is_cancelled():
            raise JobCancelled
        out = np.empty((n_views, len(chips), self.n_features), np.float16) if out is None else out
        noise = np.random.default_rng(seed)
        where = np.ones((len(chips), 1, 1, 1), np.bool_) if masks is None else masks[:, None]
        pixels = np.where(where, np.asarray(chips, np.float32) / 100, np.nan)
        found = np.concatenate([np.nanmean(pixels, (2, 3)), np.nanstd(pixels, (2, 3))], axis=1) @ self.weight
        for view in range(n_views):
            out[view] = found + (noise.normal(size=(1, self.n_features)) * 0.01 if view else 0)
        return np.asarray(out)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"weight": self.weight}

    def facts(self) -> dict[str, Any]:
        return dict(self.about)


@pytest.fixture
def tiny_maker(monkeypatch: pytest.MonkeyPatch) -> type[TinyMaker]:
    """Put it in the place of networks."""
    monkeypatch.setitem(bank.MAKERS, "backbone", TinyMaker)
    return TinyMaker


def weights_file(folder: Path, seed: int = 0, name: str = "tiny.safetensors") -> Path:
    """Write weights for chips of up to 6 bands."""
    weight = np.random.default_rng(seed).normal(size=(12, D)).astype(np.float32)
    save_file({"weight": weight}, folder / name)
    return folder / name


def request_of(path: Path, **more: object) -> dict[str, object]:
    """Return a request as a job takes it."""
    return asdict(FeatureRequest("backbone", str(path), **{"n_views": 3, **more}))  # type: ignore[arg-type]


def made(layout: Layout, path: Path, *, use: bool = False, **more: object) -> str:
    """Make a set for a project in this process; return its name."""
    from small_parts import job_of

    from pu_geo.scenes.features_job import features

    return str(features(job_of(layout, "features"), request=request_of(path, **more), use=use)["name"])
