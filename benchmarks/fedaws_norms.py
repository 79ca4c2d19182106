"""Normalisation of a federated backbone: BatchNorm frozen, averaged or local, against group norm, on Fashion-MNIST of one class a client.

`python -m benchmarks.fedaws_norms FOLDER` adds to benchmarks/outcomes/fedaws_norms.jsonl what is not there yet, in about three minutes
of one core; `python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fedaws_fmnist import after_rounds
from benchmarks.herocon_views import interval
from pu_geo.datasets import binary_files
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.methods.fedaws import Client, Embedder, Learner
from pu_geo.training.data import ChipImages, Ints, Strength
from pu_geo.training.heads import linear
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

Uint8s = NDArray[np.uint8]
KEPT = Path(__file__).resolve().parent / "outcomes" / "fedaws_norms.jsonl"
N_CLASSES, N_PER_CLASS, N_JUDGED, N_SEEDS = 10, 200, 500, 3
RATES, CHOSEN_ON = (0.1, 0.4), 0
"""Learning rates of which each training's is chosen, by pictures of the training files that nobody trains on, of this seed."""
FROZEN, LIVE, GROUP = "BatchNorm, frozen", "BatchNorm, each batch's own", "group norm"
READ = {
    FROZEN: ("statistics of one class",), GROUP: ("",),
    LIVE: ("mean of the clients' statistics", "each client's own statistics", "statistics of the pictures judged"),
}  # fmt: skip
"""Ways to train, and of each the ways to read what was trained."""


@dataclass(frozen=True)
class Found:
    """Accuracy of one reading of one training."""

    way: str
    read: str
    seed: int
    lr: float
    accuracy: float


class PlainImages(ChipImages):
    """Pictures as they are: nothing of them is turned or cropped."""

    def draw(
        self, rows: Ints, strengths: Sequence[Strength], generator: torch.Generator, device: torch.device
    ) -> list[Tensor]:
        """Return the pictures, once for each view that is asked for."""
        return super().draw(rows, ("plain",) * len(strengths), generator, device)


class LiveEmbedder(Embedder):
    """Normalises each batch by itself while it trains, where FedAwS leaves statistics as they are."""

    def eval(self) -> Self:
        """Stay in training mode, which `client_update` leaves."""
        return self.train()


def settings_of(lr: float) -> FedawsSettings:
    """Return the settings of all ways."""
    return FedawsSettings(
        backbone="small", rounds=20, local_steps=2, batch_size=32, lr=lr, weight_decay=1e-4,
        server_momentum=0.9,
    )  # fmt: skip


def embedder_of(way: str, chips: ChipImages, settings: FedawsSettings, run: Run) -> Embedder:
    """Build the network, standardised by the chips of one class as FedAwS does."""
    extractor = FeatureExtractor(chips.shape, "small", 0, run.generator(5))
    pixels = torch.from_numpy(chips.array[:N_PER_CLASS].copy()).float()  # those of rest
    extractor.standardize.fit(pixels)
    if way == GROUP:
        for name, layer in list(extractor.backbone.named_children()):
            if isinstance(layer, nn.BatchNorm2d):
                setattr(extractor.backbone, name, nn.GroupNorm(8, layer.num_features))
    kind = LiveEmbedder if way == LIVE else Embedder
    return kind(extractor, linear(extractor.out_dim, settings.embedding_dim, run.generator(1)))


@torch.no_grad()
def settle(embedder: Embedder, chips: Uint8s) -> None:
    """Set BatchNorm to the statistics of chips, uint8 [n, 1, 28, 28]."""
    for norm in (module for module in embedder.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.reset_running_stats()
        norm.momentum = None  # running statistics become plain means
    nn.Module.train(embedder)
    for part in np.array_split(chips, max(1, len(chips) // 100)):
        embedder.trunk(torch.from_numpy(part.copy()))


def trained(way: str, chips: ChipImages, lr: float, seed: int) -> tuple[Embedder, Learner]:
    """Train by FedAwS, each client on the chips of one class: row numbers 200 c to 200 c + 199."""
    settings, run = settings_of(lr), Run(torch.device("cpu"), seed)
    embedder, pieces = embedder_of(way, chips, settings, run), MicroBatcher(run)
    if way == FROZEN:
        settle(embedder, chips.array[:N_PER_CLASS])
    clients = [Client(chips, np.arange(c * N_PER_CLASS, (c + 1) * N_PER_CLASS), embedder, pieces) for c in range(N_CLASSES)]
    return embedder, after_rounds(clients, embedder, settings, run)


@torch.inference_mode()
def accuracy(embedder: Embedder, learner: Learner, chips: Uint8s, classes: Ints) -> float:
    """Return the share of chips, uint8 [n, 1, 28, 28], whose nearest class vector is that of their class."""
    nn.Module.train(embedder, mode=False)
    embeddings = torch.cat([embedder.represent(torch.from_numpy(part.copy())) for part in np.array_split(chips, 10)])
    return float(((functional.normalize(embeddings, dim=1) @ learner.class_vectors.T).argmax(1).numpy() == classes).mean())


def outcomes(way: str, learned: ChipImages, judged: tuple[Uint8s, Ints], lr: float, seed: int) -> list[Found]:
    """Train one way and read it in all its ways."""
    embedder, learner = trained(way, learned, lr, seed)
    found = []
    for read in READ[way]:
        if read == "each client's own statistics":
            each = []
            for chips in np.array_split(learned.array, N_CLASSES):
                settle(embedder, chips)
                each.append(accuracy(embedder, learner, *judged))
            value = float(np.mean(each))
        else:
            if read == "statistics of the pictures judged":
                settle(embedder, judged[0])
            value = accuracy(embedder, learner, *judged)
        found.append(Found(way, read, seed, lr, round(value, 4)))
    return found


def parts(folder: Path, seed: int) -> tuple[ChipImages, tuple[Uint8s, Ints]]:
    """Draw pictures of the training files, 200 a class in order, and others to judge by: of the test files but for the first seed."""
    data, rng = binary_files.read_fmnist(folder), np.random.default_rng([seed, 26])
    learned, tested = (rng.permutation(np.flatnonzero(data.is_test == is_test)) for is_test in (False, True))
    own = np.concatenate([learned[data.classes[learned] == c][:N_PER_CLASS] for c in range(N_CLASSES)])
    judged = (tested if seed != CHOSEN_ON else np.setdiff1d(learned, own, assume_unique=True))[:N_JUDGED]
    return PlainImages(data.chips[own]), (data.chips[judged], data.classes[judged])


def read_kept(kept: Path = KEPT) -> list[Found]:
    """Read the outcomes that were kept, oldest first."""
    return [Found(**json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []


def best_rate(found: Sequence[Found], way: str) -> float:
    """Return the learning rate with the best reading on the seed that settings are chosen on."""
    tried = [each for each in found if each.way == way and each.seed == CHOSEN_ON]
    return max(tried, key=lambda each: each.accuracy).lr


def section(kept: Path = KEPT) -> str:
    """Return the section of docs/tables.md, "" where there are no outcomes."""
    tested = [each for each in read_kept(kept) if each.seed != CHOSEN_ON]
    lines = ["## FedAwS: BatchNorm or group norm in a federated network", "", _WORDS, "", _HEAD, "|---|---|---|---|---|"]
    group = {each.seed: each.accuracy for each in tested if each.way == GROUP}
    for way, read in ((way, read) for way, reads in READ.items() for read in reads):
        rows = [each for each in tested if (each.way, each.read) == (way, read)]
        if not rows:
            return ""
        words = (
            ""
            if way == GROUP
            else "{:+.3f} ({:+.3f} to {:+.3f})".format(*interval([group[each.seed] - each.accuracy for each in rows]))
        )
        accuracy = np.array([each.accuracy for each in rows])
        lines.append(f"| {way} | {read} | {rows[0].lr:g} | {accuracy.mean():.3f} ± {accuracy.std(ddof=1):.3f} | {words} |")
    return "\n".join([*lines, ""])


_HEAD = "| trained with | read with | lr | accuracy | group norm's above it, 95 % |"
_WORDS = f"""FedAwS from the pixels of Fashion-MNIST, backbone `small`, ten clients with {N_PER_CLASS} pictures of one class each, 20 rounds of 2 steps of 32 pictures, server momentum
.9; accuracy on {N_JUDGED} pictures of the test files, {N_SEEDS} seeds, paired. The learning rate is the best of {", ".join(f"{lr:g}" for lr in RATES)} on other pictures of
the training files, seed {CHOSEN_ON}. "Frozen": the statistics of one client's class, set before training, as FedAwS does with those of rest. "Each batch's own":
clients normalise by their batches of one class; read afterwards with statistics in three ways. Group norm: 8 groups in place of each BatchNorm.

So statistics stay frozen, as they are. Where clients normalise by their own batches, the network cannot see which class a batch is of, since that is what
normalising takes away; no statistics repair it afterwards, be they averaged, local, or of the pictures judged. Group norm needs no
statistics and was not better than frozen ones, so there is no setting for it. Its networks had the same learning rates to choose from, of which the smallest
was best for all; other numbers of groups, and longer trainings, were not tried.

`python -m benchmarks.fedaws_norms fashion_mnist`"""


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the four files of Fashion-MNIST")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    done = {(each.way, each.seed, each.lr) for each in read_kept()}

    def do(way: str, lr: float, seed: int, drawn: tuple[ChipImages, tuple[Uint8s, Ints]]) -> None:
        if (way, seed, lr) in done:
            return
        rows = [json.dumps(asdict(each)) + "\n" for each in outcomes(way, *drawn, lr, seed)]
        with KEPT.open("a", encoding="utf-8") as file:
            file.writelines(rows)

    drawn = parts(folder, CHOSEN_ON)
    for way, lr in itertools.product(READ, RATES):
        do(way, lr, CHOSEN_ON, drawn)
    found = read_kept()
    for seed in range(1, 1 + N_SEEDS):
        drawn = parts(folder, seed)
        for way in READ:
            do(way, best_rate(found, way), seed, drawn)


if __name__ == "__main__":
    main()
