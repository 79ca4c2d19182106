"""How long a training will take, told before it is started: counted work times the measured speed of a machine. No torch.

A machine is measured by `tasks.probe`. Until then figures measured on two CPU cores stand in, and are said to.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pu_geo.methods.training_size import FEATURES, Stage, TrainingSize, count

LIKE = {"upu": "ce", "nnpu": "ce", "supervised": "ce", "upu+noisncl": "nnpu+noisncl", "linear": "ce", "propagation": "ce"}
"""Methods whose steps cost what those of another one cost, which is measured."""
VERSION = 1
CHIP_PX = 64
"""Side of the chips that speeds are measured with; others take time by their area."""
LONG_S = 3600.0
"""From here on a training is warned of."""


@dataclass(frozen=True)
class Speed:
    """What one machine was measured to need. Times are seconds.

    Attributes:
        device: name for people.
        is_gpu: whether networks run on a GPU.
        machine: by which a machine knows its own measurement; empty for the figures that are shipped.
        torch: version.
        measured_at: RFC 3339.
        start: of a worker until it begins to train.
        steps: method -> what a step on cached features takes by itself, and for each of its chips.
        trained: "backbone precision" -> making a view of a chip of 64 px, and taking it through forward and backward.
        seen: the same forward alone, without making it; "features" is there, too.
    """

    device: str
    is_gpu: bool
    machine: str
    torch: str
    measured_at: str
    start: float
    steps: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    trained: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_shipped(self) -> bool:
        """Whether this is the figures that PU-Geo came with, and not those of the machine at hand."""
        return not self.machine

    def to_json(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        return {"version": VERSION, **asdict(self)}


def speed_from_json(found: Any, machine: str) -> Speed:
    """Read what `Speed.to_json` gave; the shipped figures where it is of another machine or version, or not whole."""
    try:
        if found["version"] != VERSION or found["machine"] != machine:
            return REFERENCE
        return Speed(
            device=str(found["device"]),
            is_gpu=bool(found["is_gpu"]),
            machine=machine,
            torch=str(found["torch"]),
            measured_at=str(found["measured_at"]),
            start=_time(found["start"]),
            steps={name: _pair(found["steps"][name]) for name in REFERENCE.steps},
            trained={name: _time(found["trained"][name]) for name in REFERENCE.trained},
            seen={name: _time(found["seen"][name]) for name in REFERENCE.seen},
        )
    except (TypeError, KeyError, ValueError):
        return REFERENCE


def _pair(found: Any) -> tuple[float, float]:
    of_step, of_chip = found
    return _time(of_step), _time(of_chip)


def _time(value: Any) -> float:
    seconds = float(value)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{value!r} is no time")
    return seconds


def expected_seconds(method: str, settings: Any, amount: TrainingSize, speed: Speed) -> float:
    """Work out how long a training takes, from its start to its stored run.

    Args:
        method: short name.
        settings: of this method.
        amount: what it would see.
        speed: of the machine.

    Returns:
        Seconds, above 0. Meant to be right within a factor of 1.5.
    """
    work = count(method, settings, amount)
    name = settings.backbone if settings.backbone == FEATURES else f"{settings.backbone} {settings.precision}"
    scale = 1.0 if name == FEATURES else (amount.size_px / CHIP_PX) ** 2
    steps = sum(_stage_seconds(stage, name, speed, scale) for stage in work.stages)
    return speed.start + steps + work.views_after * speed.seen[name] * scale


def _stage_seconds(stage: Stage, name: str, speed: Speed, scale: float) -> float:
    of_step, of_chip = speed.steps[LIKE.get(stage.method, stage.method)] if stage.steps else (0.0, 0.0)
    if name == FEATURES:
        looks = 0.0 if stage.steps else stage.seen * speed.seen[name]
        return stage.steps * of_step + stage.chips * (of_chip + looks)
    views = stage.trained * speed.trained[name] + stage.seen * speed.seen[name]
    return stage.steps * of_step + stage.chips * scale * views


def in_words(seconds: float) -> str:
    """Say a time as an estimate is said, with one digit or two: "about 40 s", "about 5 hours", "about 26 days"."""
    if seconds < 150:
        step = 1 if seconds < 8 else 5 if seconds < 60 else 10
        return f"about {max(1, step * round(seconds / step))} s"
    unit_s, unit = (60, "min") if seconds < 90 * 60 else (3600, "hours") if seconds < 48 * 3600 else (86400, "days")
    return f"about {float(f'{seconds / unit_s:.2g}'):,.0f} {unit}"


def machine_name() -> str:
    """Name this machine, so that a measurement made on another one is not taken for its own."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


REFERENCE = Speed(
    device="two CPU cores",
    is_gpu=False,
    machine="",
    torch="2.15.0",
    measured_at="2026-11-21T12:50:45Z",
    start=4.0,
    steps={
        "ncpu": (0.0028, 2.6e-5),
        "pucl": (0.0016, 4.1e-5),
        "ncl": (0.0186, 5.6e-5),
        "herocon": (0.0023, 3.8e-5),
        "fedaws": (0.0019, 0.0),
        "ce": (0.0011, 4e-7),
        "nnpu+noisncl": (0.0030, 2.4e-5),
    },
    trained={
        "small float32": 0.00099,
        "small bf16": 0.00067,
        "preact_resnet18 float32": 0.102,
        "preact_resnet18 bf16": 0.048,
        "resnet18 float32": 0.0073,
        "resnet18 bf16": 0.0043,
    },
    seen={
        "features": 3.6e-6,
        "small float32": 0.00031,
        "small bf16": 0.00018,
        "preact_resnet18 float32": 0.0277,
        "preact_resnet18 bf16": 0.0144,
        "resnet18 float32": 0.0022,
        "resnet18 bf16": 0.0012,
    },
)
"""Measured by `pu-geo methods --probe` on two cores of an AMD EPYC with AVX-512 and bfloat16."""
