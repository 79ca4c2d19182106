"""Part a of `benchmarks.gpu`: a GPU computes what the CPU does in float64, resumes to the same bits, waits for nothing, ends in words."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache, partial
from types import CellType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu import Case, Figures, Place, Wrong
from pu_geo import losses
from pu_geo.errors import JobPaused, TrainingError
from pu_geo.losses.inputs import at_least_float32
from pu_geo.methods import catalog
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.optim import OPTIMIZERS, new_optimizer
from pu_geo.training.run import Run
from tests.loss_parts import MODULE_OF, NEEDED, call, setting_names

CPU = torch.device("cpu")
PRECISIONS = ("float32", "tf32", "bf16")
OF_LOSS: Mapping[str, float] = {"float32": 1e-4, "tf32": 2e-2, "bf16": 2e-2}
OF_STEP: Mapping[str, float] = {"float32": 1e-4, "tf32": 5e-3, "bf16": 0.05}
OF_GRADIENT: Mapping[str, float] = {"float32": 0.01, "tf32": 0.25, "bf16": 0.8}
"""How far a loss, that of a training's first step, and its gradient by its length may be from float64's, as a share of it. The gradient of
a ResNet-18 is that far on a CPU, too: its batch normalizations are steep where weights are new."""
WITH_STEPS = ("ncpu", "pucl", "ncl", "herocon", "fedaws", "ce", "nnpu", "nnpu+noisncl", "supervised")
WAITS = {"ncpu": 1, "pucl": 0}
"""How often a step waits for the device. NcPU's prototypes are brought to unit length after every chip (Eq. 9), a chain that would
take some 1,300 kernels there; its inner products are read instead."""


def cases(is_dry: bool) -> list[Case]:
    """Return the checks, quickest first."""
    named = [(f"losses, {each}", partial(_losses, precision=each)) for each in PRECISIONS]
    named += [("optimizers", _optimizers)]
    named += [(f"{method} waits for the device", partial(_waits, method=method)) for method in WAITS]
    named += [
        (f"{method}'s gradient, {each}", partial(_gradient, method=method, precision=each))
        for method in WITH_STEPS for each in (PRECISIONS[:1] if is_dry else PRECISIONS)
    ]  # fmt: skip
    named += [(f"{method} goes on to the same bits", partial(_resumed, method=method)) for method in ("ncpu", "pucl")]
    named += [("memory runs out", _out_of_memory)]
    return [Case("a", name, 2.0 if is_dry else 15.0, work) for name, work in named]


@contextlib.contextmanager
def _precision(which: str) -> Iterator[None]:
    """Let matrix products take TF32, or exactly float32, for a while."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = which == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _losses(place: Place, precision: str) -> Figures:
    """Every loss, and its gradient for both views, of 96 chips of 24 numbers."""
    views = torch.randn(2, 96, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    given = views.to(torch.bfloat16 if precision == "bf16" else torch.float32)
    found = {}
    for name, loss in _all_losses().items():
        (exact, exact_slope), (value, slope) = (_value(loss, given.double()), _value(loss, given.to(place.device)))
        found[name] = max(_apart(value, exact), _apart(slope, exact_slope))
    worst = max(found, key=found.__getitem__)
    figures = {"n": len(found), "worst": worst, "apart": found[worst], "bound": OF_LOSS[precision]}
    if not found[worst] <= OF_LOSS[precision]:
        raise Wrong(f"{worst} is {found[worst]:.2g} from float64", figures)
    return figures


def _all_losses() -> dict[str, Any]:
    """Return every loss by the name of its module, called with two views alone."""

    def of_function(function: Any, one: Tensor, two: Tensor) -> Tensor:
        module = MODULE_OF[function]
        made = module(**{name: NEEDED[name] for name in setting_names(module) & set(NEEDED)})
        return call(made.forward, one, two)

    def whole(module: Any, one: Tensor, two: Tensor, *, is_ncpu: bool) -> Tensor:
        rows = torch.arange(len(one), device=one.device)
        one, two = at_least_float32(one), at_least_float32(two)
        if is_ncpu:
            return module(one[:, :2], one, two, two[:, :2].softmax(1), rows % 3 == 0)
        return module(one.square().mean(), torch.stack([one, two]), torch.tanh(torch.stack([two, one])), (rows[:, None] % 4 == torch.arange(4, device=one.device)).long())  # fmt: skip

    found = {module.__name__: partial(of_function, function) for function, module in MODULE_OF.items()}
    hero = losses.HeroConLoss(unsupervised_weight=0.5, supervised_weight=0.5)
    return found | {
        "NcPULoss": partial(whole, losses.NcPULoss(), is_ncpu=True),
        "HeroConLoss": partial(whole, hero, is_ncpu=False),
    }


def _value(loss: Any, views: Tensor) -> tuple[Tensor, Tensor]:
    leaf = views.clone().requires_grad_()
    value = loss(leaf[0], leaf[1]).sum()
    (slope,) = torch.autograd.grad(value, leaf)
    return value.detach(), slope


def _apart(found: Tensor, exact: Tensor) -> float:
    """Return the length of the difference as a share of the exact one's."""
    found, exact = found.detach().to("cpu", torch.float64), exact.detach().double()
    return float((found - exact).norm() / exact.norm().clamp_min(1e-6))


def _optimizers(place: Place) -> Figures:
    """Ten steps of each optimiser, from the same gradients, against float64."""
    figures = {}
    for name in OPTIMIZERS:
        ends = []
        for device, dtype in ((CPU, torch.float64), (place.device, torch.float32)):
            generator = torch.Generator().manual_seed(0)
            weights = [
                torch.randn(shape, generator=generator).to(device, dtype).requires_grad_() for shape in ((64, 32), (64,))
            ]
            optimizer = new_optimizer(name, weights, 0.1, 1e-3)
            for _ in range(10):
                for each in weights:
                    each.grad = torch.randn(each.shape, generator=generator).to(device, dtype)
                optimizer.step()
            ends.append(torch.cat([each.flatten() for each in weights]))
        figures[name] = _apart(ends[1], ends[0])
    if not max(figures.values()) <= 1e-5:
        raise Wrong("an optimiser steps elsewhere than in float64", figures)
    return figures


# What a training's first step computes


def _data(n: int, side: int) -> PUData:
    """Made-up chips of two dates: a quarter have a bright spot after, of which a third are known; others are known undamaged."""
    rng = np.random.default_rng(0)
    chips = rng.integers(60, 120, (n, 6, side, side)).astype(np.uint8)
    is_damaged = np.arange(n) % 4 == 0
    chips[is_damaged, 3:, side // 4 : side // 2] += 100
    known = np.where(
        is_damaged & (np.arange(n) % 12 == 0), 1 + np.arange(n) % 24 // 12, np.where(np.arange(n) % 12 == 1, 0, -1)
    )
    return PUData(
        ChipImages(chips), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), ("not damaged", "one", "two")
    )


def _settings(method: str, precision: str, **more: object) -> Any:
    """Settings for a few quick steps from chips, which a method takes as far as it knows them."""
    wanted = {
        "backbone": "small", "precision": "bf16" if precision == "bf16" else "float32",
        "batch_size": 48, "epochs": 2, "rounds": 2, "warmup_epochs": 0, "pseudo_labels": "two_means", "pretrain_epochs": 0, **more,
    }  # fmt: skip
    card = catalog.card(method)
    known = {each.name for each in fields(card.settings)}
    return card.settings(**{name: value for name, value in wanted.items() if name in known})


def _network(is_dry: bool) -> dict[str, str]:
    return {} if is_dry else {"backbone": "resnet18"}


class _Seen(Exception):
    """The first step's loss and gradient."""


def _gradient(place: Place, method: str, precision: str) -> Figures:
    """The gradient of a training's first batch against that of float64 on the CPU, with the same draws."""
    data = _chips(place.is_dry)
    with _precision(precision):
        loss, slope = _first_step(
            method, data, _settings(method, precision, **_network(place.is_dry)), place.run(), is_exact=False
        )
    exact, exact_slope = _exact_step(method, place.is_dry)
    figures = {"apart": _apart(slope, exact_slope), "bound": OF_GRADIENT[precision], "loss_apart": _apart(loss, exact), "loss_bound": OF_STEP[precision]}  # fmt: skip
    for what, bound in (("apart", "bound"), ("loss_apart", "loss_bound")):
        if not figures[what] <= figures[bound]:
            raise Wrong(f"{what}: {figures[what]:.2g} from float64", figures)
    return figures


@lru_cache(maxsize=1)
def _exact_step(method: str, is_dry: bool) -> tuple[Tensor, Tensor]:
    return _first_step(method, _chips(is_dry), _settings(method, "float32", **_network(is_dry)), Run(CPU), is_exact=True)


def _chips(is_dry: bool) -> PUData:
    return _data(48 if is_dry else 96, 16 if is_dry else 32)


def _double(value: Tensor) -> Tensor:
    """Stand for `Tensor.float`, also of masks that become numbers."""
    return value.double() if value.is_floating_point() else value.to(torch.float32)


def _first_step(method: str, data: PUData, settings: Any, run: Run, *, is_exact: bool) -> tuple[Tensor, Tensor]:
    """Stop a training after the backward pass of its first batch. Exactly: all that the pass reads is made float64 before."""

    def each(_: MicroBatcher, n_chips: int, begin: Any, work: Any) -> None:
        networks: dict[int, nn.Module] = {}
        _walk(begin, is_exact, networks)
        begin()
        _walk(work, is_exact, networks)
        with mock.patch.object(Tensor, "float", _double) if is_exact else contextlib.nullcontext():
            told = work(slice(0, n_chips), 1.0)
        weights = {id(weight): weight for network in networks.values() for weight in network.parameters()}
        told = told[0] if isinstance(told, tuple) else told
        loss = told["loss"] if isinstance(told, Mapping) else told
        raise _Seen(
            torch.as_tensor(loss, dtype=torch.float64).detach().cpu(),
            torch.cat([weight.grad.flatten().cpu() for weight in weights.values() if weight.grad is not None]),
        )

    try:
        with mock.patch.object(MicroBatcher, "each", each):
            catalog.load_fit(method)(data, settings, run)
    except _Seen as seen:
        return seen.args
    raise AssertionError(f"{method} works on no batches")


def _walk(function: Any, is_exact: bool, networks: dict[int, nn.Module]) -> None:
    """Collect the networks that a function reads from around it; make them, and all tensors there, float64 if asked for."""
    for cell in function.__closure__ or ():
        if isinstance(cell, CellType):
            cell.cell_contents = _exact(cell.cell_contents, is_exact, networks)


def _exact(value: Any, is_exact: bool, networks: dict[int, nn.Module]) -> Any:
    if isinstance(value, nn.Module):
        networks[id(value)] = value
        return value.double() if is_exact else value
    if isinstance(value, Tensor):
        return value.double() if is_exact and value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(_exact(each, is_exact, networks) for each in value)
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("pu_geo.methods"):
        for item in fields(value):
            object.__setattr__(value, item.name, _exact(getattr(value, item.name), is_exact, networks))
    if is_dataclass(value) and type(value).__name__ == "ContrastiveLearner":
        _exact(value.encoder, is_exact, networks)
        _exact(value.head, is_exact, networks)
    return value


# What a training on a device promises besides


def _resumed(place: Place, method: str) -> Figures:
    """A training that was paused after its first epoch ends with the same bits as one that was not, where torch is told to repeat itself."""
    data = _data(48 if place.is_dry else 192, 16 if place.is_dry else 32)
    settings = _settings(method, "float32" if place.is_dry else "bf16", epochs=3, max_steps=9, **_network(place.is_dry))
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    try:
        whole = catalog.load_fit(method)(data, settings, place.run())
        paused = place.run(checkpoints=Checkpoints(place.folder, seconds_between=0.0), is_paused=lambda: True)
        with contextlib.suppress(JobPaused):
            catalog.load_fit(method)(data, settings, paused)
        epochs: list[object] = []
        again = place.run(
            checkpoints=Checkpoints(place.folder, seconds_between=0.0), report=lambda told: epochs.append(told.get("epoch"))
        )
        resumed = catalog.load_fit(method)(data, settings, again)
    finally:
        torch.use_deterministic_algorithms(False)
    apart = {name: float((value.double() - resumed.state()[name].double()).abs().max()) for name, value in whole.state().items() if value.numel()}  # fmt: skip
    figures = {"tensors": len(apart), "furthest": max(apart.values())}
    if 1 in epochs or 2 not in epochs:
        raise Wrong(f"it went on with epochs {epochs}", figures)
    if not figures["furthest"] == 0:
        raise Wrong(f"{max(apart, key=apart.__getitem__)} is not the same", figures)
    return figures


def _waits(place: Place, method: str) -> Figures:
    """How often the processor waits for the device in a step, the drawing of its views with it: warnings of torch, counted.

    They tell neither of events that are waited for, as for the numbers of the batch before, nor of page-locked memory being made. On the CPU,
    which waits for nothing, the step is only done.
    """
    data, counts = _data(96, 16 if place.is_dry else 32), []
    settings = _settings(method, "bf16" if place.device.type == "cuda" else "float32", epochs=4, **_network(place.is_dry))
    draw = ChipImages.draw

    def counting(self: ChipImages, *given: Any) -> Any:
        counts.append(len([each for each in seen if "synchroniz" in str(each.message)]))
        return draw(self, *given)

    is_cuda = place.device.type == "cuda"
    with warnings.catch_warnings(record=True) as seen, mock.patch.object(ChipImages, "draw", counting):
        warnings.simplefilter("always")
        if is_cuda:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            catalog.load_fit(method)(data, settings, place.run())
        finally:
            if is_cuda:
                torch.cuda.set_sync_debug_mode("default")
    steps = np.diff(counts)[1:]  # the first one also finds out how to convolve
    waits = int(min(steps)) if len(steps) else 0  # those of an epoch's end come between two steps, too
    places = sorted(
        {f"{each.filename.rpartition('pu_geo')[2]}:{each.lineno}" for each in seen if "synchroniz" in str(each.message)}
    )
    figures = {
        "a_step": waits,
        "median": float(np.median(steps)) if len(steps) else 0.0,
        "bound": WAITS[method],
        "steps": len(steps),
        "where": places[:20],
    }
    if waits > WAITS[method]:
        raise Wrong(f"a step waits {waits} times", figures)
    return figures


def _out_of_memory(place: Place) -> Figures:
    """With less memory than a batch takes, batches are cut and the person is told; with hardly any, training ends in words."""
    data, run = _data(64, 16 if place.is_dry else 64), place.run()
    settings = replace(_settings("ncpu", "float32", **_network(place.is_dry)), batch_size=64, epochs=1)
    fit, room = catalog.load_fit("ncpu"), 24
    if (
        place.device.type == "cuda"
    ):  # half of what a step takes beside four copies of the weights: two networks, momentum, gradients
        before = torch.cuda.memory_allocated()
        held = 4 * sum(weight.nbytes for weight in fit(data, settings, place.run()).state().values() if weight.ndim) / 2**20
        room = round(held + ((torch.cuda.max_memory_allocated() - before) / 2**20 - held) / 2)
    with _little_memory(place, room):
        fit(data, settings, run)
    told = [text for text in run.warnings if text.startswith("Memory ran out")]
    if not told:
        raise Wrong("nobody was told that batches were cut", {"room_mb": room})
    try:
        with _little_memory(place, 0):
            fit(data, settings, place.run())
    except TrainingError as error:
        if error.kind == "memory":
            return {"cut": told[0], "ended": error.problem, "room_mb": room}
        raise
    raise Wrong("a training went through without memory", {"cut": told[0]})


@contextlib.contextmanager
def _little_memory(place: Place, room: int) -> Iterator[None]:
    """Leave so many MB of the device; on the CPU the backbone refuses more than so many chips."""
    if place.device.type == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(place.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + max(room, 120) * 2**20) / total))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    forward = FeatureExtractor.forward

    def limited(self: FeatureExtractor, inputs: Tensor) -> Tensor:
        if self.training and len(inputs) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, inputs)

    with mock.patch.object(FeatureExtractor, "forward", limited):
        yield
