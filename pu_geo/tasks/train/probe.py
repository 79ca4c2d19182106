"""Measure how fast this machine trains, within some seconds: real steps of each method, and each backbone on random chips."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pu_geo.errors import JobCancelled
from pu_geo.methods import catalog, training_size
from pu_geo.methods.expected_time import CHIP_PX, LIKE, Speed, machine_name
from pu_geo.methods.settings import NO_LIMIT
from pu_geo.project.layout import write_json
from pu_geo.project.store import now
from pu_geo.tasks.job import Job
from pu_geo.tasks.train import train  # noqa: F401  # what a training loads is a part of what its start takes
from pu_geo.training.backbones import BACKBONES
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import FEATURES, FeatureExtractor
from pu_geo.training.run import Run, best_device

N_BANDS, N_FEATURES, N_VIEWS = 6, 512, 17
N_LABELED = 30
BATCHES_AN_EPOCH, EPOCHS = 2, 8
IMAGES_ON_CPU, IMAGES_ON_GPU = {"preact_resnet18": 4}, 128
TRIES = 5
SECONDS_A_NETWORK = 0.8
PRECISIONS = ("float32", "bf16")
EFFICIENCY = 0.8
"""What each of several threads is worth beside a single one; measured on one, so that a busy machine does not mislead."""
Report = Callable[[float, str], None]


def probe(job: Job, *, into: str) -> dict[str, object]:
    """Measure this machine and keep what was found.

    Args:
        into: path of a JSON file, the user's own.

    Returns:
        {"device", "seconds", "path"}

    Raises:
        JobCancelled: if the user cancelled.
    """
    began = time.monotonic()
    found = measure(job.report, job.is_cancelled)
    keep(found, Path(into))
    return {"device": found.device, "seconds": round(time.monotonic() - began, 1), "path": into}


def keep(speed: Speed, path: Path) -> None:
    """Write a measurement; the folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, speed.to_json())


def measure(report: Report = lambda share, words: None, is_cancelled: Callable[[], bool] = lambda: False) -> Speed:
    """Measure this machine.

    Args:
        report: told the share that is done, 0..1, and what is measured.
        is_cancelled: asked once a step.

    Raises:
        JobCancelled: if the user cancelled.
    """
    with _one_thread() as n_threads:
        return _measured(report, is_cancelled, n_threads)


def _measured(report: Report, is_cancelled: Callable[[], bool], n_threads: int) -> Speed:
    began, start = time.monotonic(), time.process_time()  # of this process: Python, torch, all else that a training loads
    device = best_device()
    torch.zeros(8, device=device).sum().item()  # wakes a GPU up
    start += time.monotonic() - began
    methods = [name for name in catalog.METHODS if name not in LIKE]
    steps: dict[str, tuple[float, float]] = {}
    for number, name in enumerate(methods):
        report(0.4 * number / len(methods), f"steps of {catalog.card(name).title}")
        steps[name] = _steps(name, device, is_cancelled)
    trained, seen = {}, {FEATURES: _seen_features(device)}
    networks = [(backbone, precision) for backbone in BACKBONES for precision in PRECISIONS]
    at_once = 1.0 if device.type != "cpu" or n_threads == 1 else n_threads * EFFICIENCY
    for number, (backbone, precision) in enumerate(networks):
        report(0.4 + 0.6 * number / len(networks), f"{backbone}, {precision}")
        key = f"{backbone} {precision}"
        trained[key], seen[key] = (each / at_once for each in _network(backbone, precision, device, is_cancelled))
    return Speed(
        device_name(device), device.type != "cpu", machine_name(), torch.__version__, now(), round(start, 2), steps, trained, seen
    )  # fmt: skip


def device_name(device: torch.device) -> str:
    """Name a device for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {'GPU' if device.type == 'mps' else 'CPU'}, {os.cpu_count()} cores"


def _steps(method: str, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[float, float]:
    """Measure a step on cached features: what it takes by itself, and for each of its chips.

    From two short trainings, with whole and with half batches.
    """
    (few, quick), (many, slow) = (_step(method, share, device, is_cancelled) for share in (0.5, 1.0))
    of_chip = min(max((slow - quick) / (many - few), 0.0), slow / many)
    return slow - many * of_chip, of_chip


def _step(method: str, share: float, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[float, float]:
    """Train a method for some epochs on made-up features; return chips a step, and seconds a step."""
    settings = catalog.settings_for(method, "quick")
    batch_size = round(share * settings.batch_size)
    filled = 2 * getattr(settings, "queue_size", 0) // (BATCHES_AN_EPOCH * batch_size)  # the first half fills a queue
    n_epochs = max(EPOCHS, filled)
    lengths = {"epochs": n_epochs, "rounds": n_epochs, "max_steps": NO_LIMIT, "batch_size": batch_size}
    settings = replace(settings, **{name: value for name, value in lengths.items() if name in vars(settings)})
    amount = training_size.TrainingSize(2 * N_LABELED + BATCHES_AN_EPOCH * settings.batch_size, N_LABELED, N_LABELED)
    counted = training_size.count(method, settings, amount).stages[-1]
    ends: list[float] = []

    def note(_: Mapping[str, object]) -> None:
        ends.append(_clock(device))

    catalog.load_fit(method)(_made_up(amount), settings, Run(device, report=note, is_cancelled=is_cancelled))
    epochs = np.diff(ends)[len(ends) // 2 - 1 :]  # memories have filled up by then
    return counted.chips / counted.steps, float(np.quantile(epochs, 0.25)) / (counted.steps / len(ends))


def _made_up(amount: training_size.TrainingSize) -> PUData:
    n = amount.n_chips
    views = np.random.default_rng(0).normal(size=(2, n, N_FEATURES)).astype(np.float16)
    known = np.full(n, -1)
    known[:N_LABELED], known[-N_LABELED:] = 1, 0
    held = np.broadcast_to(views[:, None], (2, N_VIEWS // 2, n, N_FEATURES)).reshape(-1, n, N_FEATURES)
    return PUData(FeatureViews(held), known == 1, np.zeros(n, np.bool_), known.astype(np.int64))


@torch.inference_mode()
def _seen_features(device: torch.device) -> float:
    """Measure what a view on cached features takes in scoring, with the hidden layer that most presets have."""
    rows = np.zeros((4096, N_FEATURES), np.float16)
    trunk = FeatureExtractor((N_FEATURES,), "features", 256, torch.Generator()).to(device).eval()
    return _quickest(lambda: trunk(torch.from_numpy(rows).to(device)).cpu(), 0.2, device) / len(rows)


def _network(backbone: str, precision: str, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[float, float]:
    """Measure what a view of a chip takes: made, forward and backward; and forward alone."""
    n = IMAGES_ON_CPU.get(backbone, 32) if device.type == "cpu" else IMAGES_ON_GPU
    generator, shape = torch.Generator().manual_seed(0), (N_BANDS, CHIP_PX, CHIP_PX)
    inputs = ChipImages(np.random.default_rng(0).integers(0, 255, (n, *shape)).astype(np.uint8))
    rows = np.arange(n)
    trunk = FeatureExtractor(shape, backbone, 0, generator, precision=precision).to(device)

    def forward_and_backward() -> Any:
        if is_cancelled():
            raise JobCancelled
        (views,) = inputs.draw(rows, ("strong",), generator, device)
        trunk(views).square().mean().backward()
        return _done(device)

    def forward() -> Any:
        with torch.inference_mode():
            trunk(plain)
        return _done(device)

    (plain,) = inputs.draw(rows, ("plain",), generator, device)
    trained = _quickest(forward_and_backward, SECONDS_A_NETWORK, device) / n
    trunk.eval()
    return trained, _quickest(forward, SECONDS_A_NETWORK / 3, device) / n


def _done(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _quickest(work: Callable[[], Any], limit: float, device: torch.device) -> float:
    """Time some work: the quickest of several tries, fewer where they take longer than the limit."""
    began = time.monotonic()
    found: list[float] = []
    while len(found) < 2 or (len(found) < TRIES and time.monotonic() - began < limit):
        start = _clock(device)
        work()
        found.append(_clock(device) - start)
        if time.monotonic() - began > 2 * limit:
            break
    return min(found)


def _clock(device: torch.device) -> float:
    """Read a clock, seconds: on a CPU that of the processor, since there other programs do not count."""
    return time.process_time() if device.type == "cpu" else time.perf_counter()


@contextmanager
def _one_thread() -> Iterator[int]:
    """Work on one thread for a while; gives how many there were. Threads that wait for each other would count as work."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)
