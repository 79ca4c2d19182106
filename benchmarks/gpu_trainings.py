"""Parts b to f of `benchmarks.gpu`: how fast trainings are, and what they come to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from benchmarks.gpu import Case, Figures, Place, Wrong
from pu_geo import files
from pu_geo.analysis import metrics
from pu_geo.errors import DatasetError, JobCancelled, PuGeoError
from pu_geo.features import bank, self_supervised
from pu_geo.losses import pucl_loss
from pu_geo.methods import catalog, ncpu
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.methods.pretraining import new_extractor
from pu_geo.records import FeatureRequest
from pu_geo.store.layout import Layout
from pu_geo.training import contrastive
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.heads import projection_head
from pu_geo.training.loop import MicroBatcher

MAKERS = ("self-supervised", "rcf")
EVENTS, CLICKS, DRAWS = ("joplin", "santa_rosa_a"), 30, 5
FROM_CHIPS = ("ncpu", "pucl", "ce")
WANTED_RATE = 0.5
WANTED_OA = {"pucl": 0.90, "ncpu": 0.88}
EPOCHS = {"pucl": (20, 200), "ncpu": (9, 60)}  # first, then where there is time
Rows = NDArray[np.int64]


def cases(is_dry: bool) -> list[Case]:
    """Return the trainings, in order of what they are worth; what takes longer comes last."""
    sides, settings, events_, draws = (32, 64), ("FMNIST-I", "FMNIST-II"), EVENTS, DRAWS
    if is_dry:
        sides, settings, events_, draws = (16,), ("FMNIST-I",), EVENTS[:1], 1
    least = 2.0 if is_dry else 30.0
    found = [Case("b", f"{method}, {side} px", least, partial(_rate, method=method, side=side))
             for side in sides for method in ("ncpu", "pucl")]  # fmt: skip
    learned = [[Case("c", f"{name}, {method}, {EPOCHS[method][k]} epochs", least * (2, 8)[k], partial(_fmnist, name=name, method=method, n_epochs=EPOCHS[method][k]))
                for name in settings for method in ("pucl", "ncpu")] for k in (0, 1)]  # fmt: skip
    on_events = [[Case("d", f"{event}, {method}, draw {draw}", 2 * least, partial(_event, name=event, method=method, draw=draw))
                  for event in events_ for method in (FROM_CHIPS[-1:] if is_dry else FROM_CHIPS)] for draw in range(draws)]  # fmt: skip
    found += [Case("f", "a job is cancelled, resumed and ends", 2 * least, _job), *learned[0], *on_events[0]]
    found += [
        Case("e", f"{event}, {maker}", 2 * least, partial(_quick_methods, name=event, maker=maker))
        for event in events_
        for maker in MAKERS
    ]
    return found if is_dry else [*found, *learned[1], *(case for each in on_events[1:] for case in each)]


# b: steps


def _rate(place: Place, method: str, side: int) -> Figures:
    """Steps a second of a method in bf16, the drawing of views on the device with them, and as a share of the floor's."""
    batch = 16 if place.is_dry else 128 if method == "ncpu" else 256
    rng = np.random.default_rng(0)
    chips = rng.integers(0, 256, (8 * batch, 6, side, side)).astype(np.uint8)
    data = PUData(ChipImages(chips), np.arange(len(chips)) % 8 == 0, np.zeros(len(chips), np.bool_))
    settings = catalog.settings_for(method, "standard", {"pretrain_epochs": 0, "batch_size": batch})
    step, supervised, forward = _steps(place, method, data, settings)

    def floor() -> None:
        supervised()
        supervised()
        forward()

    ours, least = _seconds([step, floor], place)
    figures = {
        "steps_per_s": round(1 / ours, 2),
        "floor_per_s": round(1 / least, 2),
        "share": round(least / ours, 3),
        "batch": batch,
    }
    if figures["share"] < WANTED_RATE and place.device.type == "cuda":
        raise Wrong(f"{figures['share']:.2f} of the floor's rate; {WANTED_RATE} is wanted", figures)
    return figures


def _steps(place: Place, method: str, data: PUData, settings: Any) -> tuple[Callable[[], object], ...]:
    """Return a step of the method, a supervised one of a network like it, and a forward pass of that."""
    run, rows = place.run(), data.trained_rows
    drawing, pieces = run.generator(9), MicroBatcher(run)
    positive = torch.from_numpy(data.is_positive).to(place.device)
    order = torch.randperm(len(rows), generator=drawing).split(settings.batch_size)
    turns = iter(int(k) % len(order) for k in range(10**9))
    if method == "ncpu":
        learner = ncpu._new_learner(data, rows, positive, settings, run, 10)
        numbers_of = lambda: order[next(turns)].numpy()  # noqa: E731

        def step() -> object:
            numbers = numbers_of()
            views = data.inputs.draw(numbers, ncpu.VIEWS, drawing, place.device)
            chips = torch.from_numpy(numbers).to(place.device, non_blocking=True)
            return ncpu._step(learner, pieces, ncpu.Batch(chips, views, positive[chips], 1.0), settings)

    else:
        encoder = new_extractor(data, rows, settings, run)
        head = projection_head(encoder.out_dim, settings.projection_hidden, settings.projection_dim, run.generator(3)).to(
            place.device
        )
        contrast = contrastive.contrastive_learner(
            encoder, head, settings.optimizer, settings.lr, settings.weight_decay, 10**6
        )

        def step() -> object:
            numbers = order[next(turns)].numpy()
            views = data.inputs.draw(numbers, contrastive.VIEWS, drawing, place.device)
            chips = torch.from_numpy(numbers).to(place.device, non_blocking=True)
            return contrastive._step(contrast, pieces, views, positive[chips], pucl_loss, None)

    plain = new_extractor(data, rows, settings, run)
    classifier = nn.Linear(plain.out_dim, 2).to(place.device)
    weights = [*plain.parameters(), *classifier.parameters()]
    optimizer = torch.optim.SGD(weights, 1e-3, momentum=0.9, fused=True)
    (view,) = data.inputs.draw(order[0].numpy(), ("weak",), drawing, place.device)
    target = torch.zeros(len(view), dtype=torch.int64, device=place.device)

    def supervised() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(classifier(plain(view)), target).backward()
        nn.utils.clip_grad_norm_(weights, 30.0)
        optimizer.step()

    def forward() -> None:
        with torch.no_grad():
            plain(view)

    return step, supervised, forward


def _seconds(works: list[Callable[[], object]], place: Place) -> list[float]:
    """Return the shortest time of each work, taken in turns, seconds; the device has finished what it was given."""
    n, times = 1 if place.is_dry else 30, [[] for _ in works]
    for k in range(2 if place.is_dry else 6):
        for work, own in zip(works, times, strict=True):
            if place.left_s < 0:
                raise JobCancelled
            began = time.perf_counter()
            for _ in range(n):
                work()
            if place.device.type == "cuda":
                torch.cuda.synchronize()
            if k:  # the first round finds out how to convolve
                own.append((time.perf_counter() - began) / n)
    return [min(own) for own in times]


# c, d, e: what they come to


def _packed(place: Place, name: str) -> dict[str, NDArray[Any]]:
    """Read a file of the folder of data; made up where it is dry and there is none."""
    path = (place.data or Path()) / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            found = dict(file)
    elif place.is_dry:
        rng, n = np.random.default_rng(0), 96
        shape = (n, 1, 28, 28) if name == "fmnist" else (n, 6, 16, 16)
        is_damaged, rows = np.arange(n) % 3 == 0, np.arange(n)
        chips = rng.integers(60, 120, shape) + 80 * is_damaged[:, None, None, None]
        found = {"chips": chips.astype(np.uint8), "is_damaged": is_damaged}
        known = rows[is_damaged][:8]
        found |= {"FMNIST-I positive": known, "FMNIST-I unlabeled": np.setdiff1d(rows[:64], known), "FMNIST-I test": rows[64:], "FMNIST-I truth": is_damaged}  # fmt: skip
    else:
        raise DatasetError(
            f"There is no {path.name} in the folder of data.", "Pack one: python -m benchmarks.gpu_data FOLDER"
        )
    return found


def _scores(
    place: Place, inputs: ChipImages | FeatureViews, is_positive: NDArray[np.bool_], method: str, preset: str, seed: int, test: NDArray[Any],
    overrides: dict[str, Any] | None = None,
) -> NDArray[np.float32]:  # fmt: skip
    """Train a method, in the time that is left, and score other chips."""
    settings = catalog.settings_for(method, preset, overrides or {})
    data = PUData(inputs, is_positive, np.zeros(len(is_positive), np.bool_))
    return catalog.load_fit(method)(data, settings, place.run(seed)).score(test)


def _fmnist(place: Place, name: str, method: str, n_epochs: int) -> Figures:
    """Overall accuracy at 0.5, AUC and AP on the 10,000 test pictures, of the draw that `pu-geo benchmark fmnist` calls seed 0."""
    held = _packed(place, "fmnist")
    positive, unlabeled, test = (held[f"{name} {part}"].astype(np.int64) for part in ("positive", "unlabeled", "test"))
    truth, rows = held[f"{name} truth"].astype(bool), np.concatenate([positive, unlabeled])
    preset = "paper" if method == "pucl" else "standard"
    overrides: dict[str, Any] = {"epochs": n_epochs, "max_steps": 10**7, "augmentation": "natural", "precision": "bf16"}
    if method == "ncpu":
        overrides |= {"pretrain_epochs": max(1, n_epochs // 3), "warmup_epochs": n_epochs // 5}
    if place.is_dry:
        overrides |= {
            "backbone": "small",
            "epochs": 1,
            "max_steps": 20,
            "batch_size": 32,
            "pretrain_epochs": 0,
            "precision": "float32",
        }
    inputs = ChipImages(np.ascontiguousarray(held["chips"][rows]), "natural")
    is_known = np.arange(len(rows)) < len(positive)
    scores = _scores(place, inputs, is_known, method, preset, 0, held["chips"][test], overrides)
    figures = _judged(scores, truth[test]) | {"n_unlabeled": len(unlabeled), "wanted_oa": WANTED_OA[method]}
    if figures["oa"] < WANTED_OA[method] and not place.is_dry:
        raise Wrong(f"OA is {figures['oa']:.3f} after {n_epochs} epochs; {WANTED_OA[method]} is wanted", figures)
    return figures


def _judged(scores: NDArray[np.float32], truth: NDArray[np.bool_]) -> dict[str, float]:
    oa = float(((scores >= 0.5) == truth).mean())
    return {
        "oa": round(oa, 4),
        "auc": round(metrics.auc(scores, truth), 4),
        "ap": round(metrics.average_precision(scores, truth), 4),
    }


def _clicked(is_damaged: NDArray[np.bool_], draw: int, n: int) -> NDArray[np.bool_]:
    """Draw the damaged buildings that an analyst clicked."""
    rows = np.random.default_rng(draw).permutation(np.flatnonzero(is_damaged))[:n]
    return np.isin(np.arange(len(is_damaged)), rows)


def _event(place: Place, name: str, method: str, draw: int) -> Figures:
    """AP on the buildings that nobody clicked, by presets standard (from the chips) and quick (on frozen features)."""
    held = _packed(place, name)
    chips, truth = held["chips"], held["is_damaged"].astype(bool)
    known = _clicked(truth, draw, 8 if place.is_dry else CLICKS)
    overrides: dict[str, Any] = {"precision": "bf16"}
    if place.is_dry:
        overrides = {"backbone": "small", "epochs": 1, "max_steps": 5, "pretrain_epochs": 1, "precision": "float32"}
    views = _features(place, chips, "rcf")
    found = {
        "standard": _scores(place, ChipImages(chips), known, method, "standard", draw, chips, overrides),
        "quick": _scores(place, FeatureViews(views), known, method, "quick", draw, views),
    }
    return {preset: round(metrics.average_precision(scores[~known], truth[~known]), 4) for preset, scores in found.items()}


def _features(place: Place, chips: NDArray[np.uint8], maker: str) -> NDArray[np.float16]:
    """Make frozen features of all views, float16 [V, N, D]."""
    cancelled = lambda: place.left_s < 0  # noqa: E731
    generator = torch.Generator().manual_seed(0)
    with mock.patch.object(self_supervised, "EPOCHS", (1, 1) if place.is_dry else self_supervised.EPOCHS):
        made = bank.fit_maker(
            FeatureRequest(maker=maker), chips, generator=generator, device=place.device, is_cancelled=cancelled
        )
    n_views = 3 if place.is_dry else bank.N_VIEWS
    return made.transform(chips, n_views, seed=bank.FEATURE_SEED, device=place.device, is_cancelled=cancelled)


def _quick_methods(place: Place, name: str, maker: str) -> Figures:
    """AP of every quick method on features of a network that the event's own chips taught, or on the usual ones; draw 0."""
    held = _packed(place, name)
    chips, truth = held["chips"], held["is_damaged"].astype(bool)
    known = _clicked(truth, 0, 8 if place.is_dry else CLICKS)
    methods = [method for method, card in catalog.METHODS.items() if "quick" in card.presets and not card.min_not_damaged and method != "supervised"]  # fmt: skip
    views, found = _features(place, chips, maker), {}
    for method in methods[:2] if place.is_dry else methods:
        try:
            scores = _scores(place, FeatureViews(views), known, method, "quick", 0, views)
            found[method] = round(metrics.average_precision(scores[~known], truth[~known]), 4)
        except JobCancelled:
            if not found:
                raise
            found[method] = "not done in time"
        except PuGeoError as error:
            found[method] = error.problem
    return found


# f: the job engine


def _job(place: Place) -> Figures:
    """A training as a background job on this device: cancelled after an epoch, resumed, and ended with a run that is stored."""
    from pu_geo import jobs  # which needs psutil
    from pu_geo.store import events

    packed = (place.data or Path()) / "project.pugeo"
    if not packed.is_dir():
        raise DatasetError(
            "There is no project.pugeo in the folder of data.", "Pack one: python -m benchmarks.gpu_data FOLDER"
        )
    layout = Layout(place.folder / "project.pugeo")
    shutil.copytree(packed, layout.folder)
    files.sign(layout.folder)
    small = {
        "backbone": "small" if place.is_dry else "resnet18", "pretrain_epochs": 0, "epochs": 60 if place.is_dry else 600,
        "max_steps": 10**6, "precision": "float32" if place.is_dry else "bf16",
    }  # fmt: skip
    here = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    with mock.patch.dict(os.environ, PYTHONPATH=here):  # PU-Geo may not be installed
        job = jobs.start(layout, "train", TrainingRequest("ncpu", "standard", overrides=small).as_args())
        folder = layout.jobs / job

        def epochs() -> int:
            return sum(each["event"] == "epoch" for each in events.read(folder))

        def wait(is_so: Callable[[], bool]) -> None:
            while not is_so() and jobs.view(folder).is_active:
                if place.left_s < 0:
                    raise JobCancelled
                time.sleep(0.05)

        try:
            newest = folder / "checkpoints" / "training-newest.pt"  # written every 5 seconds
            wait(lambda: epochs() >= 2 and (place.is_dry or newest.is_file()))
            if not (first := jobs.view(folder)).is_active:
                log = folder / "log.txt"
                raise Wrong(
                    f"the job was {first.state}: {first.problem}", {"log": log.read_text()[-500:] if log.exists() else ""}
                )
            jobs.cancel(layout, job, wait=True)
            states, n_before = [jobs.view(folder).state], epochs()
            jobs.resume(layout, job)
            wait(lambda: False)
        finally:
            if jobs.view(folder).is_active:
                jobs.cancel(layout, job, wait=True)
    end = jobs.view(folder)
    named = next(
        (str(each.get("message", "")) for each in events.read(folder) if " on " in str(each.get("message", ""))), ""
    )
    figures = {"states": [*states, end.state], "epochs_before": n_before, "epochs": epochs(), "device": named, "run": str(end.result.get("run_id", ""))}  # fmt: skip
    if figures["states"] != ["cancelled", "done"] or not figures["run"]:
        raise Wrong(f"the job is {end.state}: {end.problem}", figures)
    return figures
