"""Features by filters that are the same everywhere, for agencies that may not show each other imagery.

The filters came once from the made-up imagery of the sample event, whitened there, and lie beside this file. Of a project's
own imagery they hold nothing. Only the bands' mean and standard deviation are of the chips at hand.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load

from pu_geo.errors import ShapeError, TrainingError
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.features.views import Chips, Describe, Making, refuse_choices
from pu_geo.records import FeatureRequest

KIND = "shared"
FILE = Path(__file__).with_name("shared_filters.safetensors")
N_BANDS = {"both": 6, "post": 3}  # by the dates of a request
_STATISTICS = ("band_mean", "band_std")
_BLOCK = 256  # chips that are counted at a time


@dataclass(frozen=True)
class SharedBank(RcfBank):
    """A bank whose filters, biases, step and threshold are this version's, and whose statistics are of some chips.

    Attributes:
        band_mean, band_std: float32 [C], see `band_statistics`; of length 0 where they are not known yet, see `measured`.
    """

    kind = KIND

    @property
    def dates(self) -> str:
        """Dates that it takes: "both", 6 bands, or "post", the last 3 of a chip."""
        return "both" if self.filters.shape[1] == N_BANDS["both"] else "post"

    @property
    def is_measured(self) -> bool:
        """Whether it has statistics of bands; without them it describes no chips."""
        return len(self.band_mean) > 0

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return the statistics of the bands, all that is not the same everywhere; nothing where they are not known."""
        return {name: getattr(self, name).cpu().numpy() for name in _STATISTICS} if self.is_measured else {}

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know: the sha256 is of the filters, see `sha256_of`."""
        sha256 = sha256_of(self.dates)
        return {**super().facts(), "dates": self.dates, "weights_sha256": sha256, "holds_imagery": False}

    @classmethod
    def of(cls, dates: str) -> SharedBank:
        """Return the filters for "both" dates or for "post" alone, without statistics of any chips."""
        nothing = torch.zeros(0)
        filters, bias = (torch.from_numpy(np.array(array, np.float32)) for array in _filters(dates))
        return cls(filters, bias, nothing, nothing, RcfSettings().stride_px, RcfSettings().threshold)

    def measured(self, chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None) -> SharedBank:
        """Return these filters with the statistics of chips, uint8 [N, C, H, W]; those of `rows` alone, int64 [M], if
        given.
        """
        self._require_bands(chips)
        mean, std = band_statistics(chips[:, -self.filters.shape[1] :], rows)
        return replace(self, band_mean=torch.from_numpy(mean), band_std=torch.from_numpy(std))

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None = None) -> SharedBank:
        """Build the bank from what `state` and `facts` gave; both may come from a stranger's file.

        Raises:
            TrainingError: if they name other filters than this version has, or hold what no bank of them gives.
        """
        dates, sha256 = str((facts or {}).get("dates")), str((facts or {}).get("weights_sha256"))
        if dates not in N_BANDS:
            raise _refusal("name no dates that shared filters take")
        if sha256 != sha256_of(dates):
            raise _refusal(
                f"were made by other filters (sha256 {sha256[:12]}) than this version has ({sha256_of(dates)[:12]})"
            )
        bank = cls.of(dates)
        if not arrays:
            return bank
        there = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        if there != dict.fromkeys(_STATISTICS, (np.dtype(np.float32), (N_BANDS[dates],))):
            raise _refusal("hold something else than mean and spread of their bands")
        mean, std = (np.array(arrays[name]) for name in _STATISTICS)
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise _refusal("hold a mean or a spread of bands that cannot be")
        return replace(bank, band_mean=torch.from_numpy(mean), band_std=torch.from_numpy(std))

    @classmethod
    def fit_request(cls, request: FeatureRequest, chips: Chips, rows: NDArray[np.int64], making: Making) -> SharedBank:
        """Measure the bands of the chips; nothing is drawn, so the generator has no part in it.

        Raises:
            TrainingError: if the request has a choice that only networks have, or the chips lack the bands of its dates.
        """
        refuse_choices(
            request, KIND, ("dates",), "Shared filters", "they are the same everywhere, and averaged over the chip",
            "Leave that out; --dates both or post can be chosen.",
        )  # fmt: skip
        if request.dates not in N_BANDS:
            raise TrainingError(
                f"Shared filters take both dates, or post alone; not {request.dates!r}.",
                "Choose --dates both or post.",
                kind="maker",
            )
        n_bands = chips.shape[1] if chips.ndim == 4 else 0
        if n_bands not in (N_BANDS["both"], N_BANDS[request.dates]):
            needed = "3 of pre and 3 of post" if request.dates == "both" else "3 of post, alone or after 3 of pre"
            raise TrainingError(
                f"Shared filters for {request.dates!r} take {needed}; these chips have {n_bands} bands.",
                "Add a pre-event scene and cut chips again, or choose --dates post."
                if n_bands == 3
                else "Cut chips of RGB scenes.",
                kind="maker",
            )
        return cls.of(request.dates).measured(chips, rows)

    def _prepared(self, chips: Chips, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[Chips, Describe, int]:
        self._require_bands(chips)
        if not self.is_measured:
            raise ShapeError("shared filters need statistics of the bands; call `measured` with the chips first.")
        return super()._prepared(chips[:, -self.filters.shape[1] :], device, is_cancelled)

    def _require_bands(self, chips: NDArray[np.uint8]) -> None:
        n_bands = self.filters.shape[1]
        if chips.ndim != 4 or chips.shape[1] not in (n_bands, N_BANDS["both"]):
            raise ShapeError(f"chips must be [N, {n_bands}, H, W] for shared filters of {self.dates!r}; got {chips.shape}.")


def band_statistics(
    chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:  # fmt: skip
    """Compute mean and standard deviation of each band over all pixels, float32 [C] each, in units of uint8.

    They come from whole-number sums, so the same chips give the same bits on every machine, in whatever order.

    Args:
        chips: uint8 [N, C, H, W], may be a memory map; read once, in order.
        rows: int64 [M], the chips that count, such as those that show something; all if None.

    Raises:
        ShapeError: if there is no chip.
    """
    chosen = np.arange(len(chips)) if rows is None else np.sort(rows)
    if not len(chosen):
        raise ShapeError("statistics of bands need one chip or more.")
    counts = np.zeros((chips.shape[1], 256), np.int64)
    for start in range(0, len(chosen), _BLOCK):
        block = np.asarray(chips[chosen[start : start + _BLOCK]])
        for band in range(len(counts)):
            counts[band] += np.bincount(block[:, band].reshape(-1), minlength=256)
    mean, std = [], []
    for each in counts.tolist():
        n, total = sum(each), sum(value * count for value, count in enumerate(each))
        squares = sum(value**2 * count for value, count in enumerate(each))
        mean.append(total / n)
        std.append(max(math.sqrt(n * squares - total**2) / n, 1e-3))  # as `RcfBank.fit`: flat bands divide by no 0
    return np.array(mean, np.float32), np.array(std, np.float32)


@lru_cache(maxsize=len(N_BANDS))
def sha256_of(dates: str) -> str:
    """Return the sha256 of the filters for "both" dates or for "post", with their step and threshold: the same on every
    machine.
    """
    digest, settings = hashlib.sha256(), RcfSettings()
    digest.update(f"{KIND} {dates} {settings.stride_px} {settings.threshold}".encode())
    for array in _filters(dates):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=len(N_BANDS))
def _filters(dates: str) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """Read filters, float16 [128, C, 5, 5], and biases, float32 [128]: little-endian by the file's format."""
    arrays = load(FILE.read_bytes())
    return arrays[f"{dates}.filters"].astype("<f2"), arrays[f"{dates}.bias"].astype("<f4")


def _refusal(problem: str) -> TrainingError:
    return TrainingError(
        f"The stored shared features {problem}.", "Use the version of PU-Geo that they were made with, or make them again.",
        kind="maker",
    )  # fmt: skip
