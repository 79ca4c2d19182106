"""FedAwS against its baselines on Fashion-MNIST of ten clients with one class each: the pattern of the paper's Table 1.

`python -m benchmarks.fedaws_fmnist FOLDER` adds to benchmarks/outcomes/fedaws_fmnist.jsonl what is not there yet, in about two minutes
of one core; `python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchmarks.kept import Kept, ahead, row, spread, table
from pu_geo.datasets import binary_files
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.methods.fedaws import Client, Embedder, Learner, client_update, server_round, theta_of
from pu_geo.training.data import FeatureViews, Ints
from pu_geo.training.heads import linear
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

N_CLASSES, N_PER_CLASS, N_VALIDATION, N_TEST, N_SEEDS = 10, 400, 2000, 5000, 5
CHOSEN_ON, REPORTED, CHOSEN_SEED = "validation", "test", 0
ROUNDS = {CHOSEN_ON: 60, REPORTED: 100}
SHARED = FedawsSettings(local_steps=2, width=128, weight_decay=1e-4)
ALONE, FIXED, MARGIN, NEAREST, ORACLE = (
    "positives alone",
    "fixed W",
    "FedAwS, Eq. 7",
    "FedAwS, Eq. 8",
    "softmax, all data in one place",
)
METHODS: Mapping[str, Mapping[str, bool | float | str]] = {
    ALONE: {"spread_weight": 0.0}, FIXED: {"fixed_vectors": True}, MARGIN: {},
    NEAREST: {"spread": "nearest", "n_nearest": 3, "spread_weight": 0.1}, ORACLE: {},
}  # fmt: skip
"""What differs from the method's defaults."""
FEDERATED = ((1.0, 0.0), (0.3, 0.9), (1.0, 0.9))
CENTRAL = ((0.1, 0.0), (0.03, 0.9), (0.1, 0.9))
"""Learning rates and momentum of the server, or of plain gradient descent, of which each method's are chosen: three for each."""
SHORT, LONG = 8, 64
ROWS = (*((SHORT, method) for method in METHODS), *((LONG, method) for method in (FIXED, MARGIN, ORACLE)))
"""Length of an embedding, and method."""


@dataclass(frozen=True)
class Found:
    """Accuracy of one training, and the mean and the largest cosine of two class vectors."""

    dim: int
    method: str
    part: str
    seed: int
    rounds: int
    lr: float
    momentum: float
    accuracy: float
    mean_cosine: float
    largest_cosine: float


KEPT = Kept("fedaws_fmnist", Found, "dim method part seed lr momentum")


@dataclass(frozen=True)
class Trained:
    """What was learned: W has one row a class, float [C, E]."""

    embedder: Embedder
    class_vectors: Tensor
    is_cosine: bool = True

    @torch.inference_mode()
    def logits(self, views: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return cosines with the class vectors, or Eq. 1 where they were not learned by cosines: mean over views [V, N, D], float32 [N, C]."""
        found = []
        for view in views:
            embeddings = self.embedder.represent(torch.from_numpy(view.astype(np.float32)))
            found.append((functional.normalize(embeddings, dim=1) if self.is_cosine else embeddings) @ self.class_vectors.T)
        mean: NDArray[np.float32] = torch.stack(found).mean(0).numpy()
        return mean

    @property
    def cosines(self) -> tuple[float, float]:
        """Mean and largest cosine of two class vectors."""
        unit = functional.normalize(self.class_vectors, dim=1)
        between = (unit @ unit.T)[~torch.eye(len(unit), dtype=torch.bool)]
        return round(float(between.mean()), 4), round(float(between.max()), 4)


def new_embedder(inputs: FeatureViews, rows: Ints, settings: FedawsSettings, run: Run) -> Embedder:
    """Build the network of all methods, standardised by these rows."""
    extractor = FeatureExtractor(inputs.shape, "features", settings.width, run.generator(5))
    (views,) = inputs.draw(rows, ("weak",), run.generator(2), torch.device("cpu"))
    extractor.standardize.fit(views)
    return Embedder(extractor, linear(extractor.out_dim, settings.embedding_dim, run.generator(1)))


def federated(inputs: FeatureViews, clients: Sequence[Ints], settings: FedawsSettings, seed: int) -> Trained:
    """Train by FedAwS or one of its baselines; client c has the rows of class c."""
    run = Run(torch.device("cpu"), seed)
    embedder, pieces = new_embedder(inputs, np.concatenate(clients), settings, run), MicroBatcher(run)
    learner = after_rounds([Client(inputs, rows, embedder, pieces) for rows in clients], embedder, settings, run)
    return Trained(embedder.eval(), learner.class_vectors)


def after_rounds(clients: Sequence[Client], embedder: Embedder, settings: FedawsSettings, run: Run) -> Learner:
    """Do all rounds of FedAwS with clients that share an embedder, which has the last theta then; client c has row c of W."""
    drawn = torch.randn(len(clients), settings.embedding_dim, generator=run.generator(11))
    learner = Learner(theta_of(embedder), functional.normalize(drawn, dim=1))
    for number in range(1, settings.rounds + 1):
        updates = {
            c: client_update(
                one, learner.theta, learner.class_vectors[c], settings, run.generator(20 + c, number), lambda _: None
            )
            for c, one in enumerate(clients)
        }
        learner = server_round(learner, updates, settings)
    embedder.load_state_dict(learner.theta)
    return learner


def central(inputs: FeatureViews, clients: Sequence[Ints], settings: FedawsSettings, seed: int) -> Trained:
    """Train by softmax and cross entropy with the rows of all clients in one place: as many steps, each with all clients' batches.

    Batches have as many of each class, as averages of clients that count alike do.
    """
    run = Run(torch.device("cpu"), seed)
    embedder = new_embedder(inputs, np.concatenate(clients), settings, run)
    classes = linear(settings.embedding_dim, len(clients), run.generator(11), bias=False)
    optimizer = torch.optim.SGD(
        [*embedder.parameters(), classes.weight], settings.lr, settings.server_momentum, weight_decay=settings.weight_decay
    )
    generator = run.generator(20)
    each = [min(settings.batch_size, len(rows)) for rows in clients]
    known = torch.repeat_interleave(torch.arange(len(clients)), torch.tensor(each))
    share = torch.cat([torch.full((n,), 1 / n / len(clients)) for n in each])
    for _ in range(settings.rounds * settings.local_steps):
        rows = np.concatenate(
            [own[torch.randperm(len(own), generator=generator)[:n].numpy()] for own, n in zip(clients, each, strict=True)]
        )
        (views,) = inputs.draw(rows, ("strong",), generator, torch.device("cpu"))
        loss = (share * functional.cross_entropy(classes(embedder.represent(views)), known, reduction="none")).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return Trained(embedder.eval(), classes.weight.detach(), is_cosine=False)


def trained(
    inputs: FeatureViews, clients: Sequence[Ints], method: str, shared: FedawsSettings, lr: float, momentum: float, seed: int
) -> Trained:  # fmt: skip
    """Train one method."""
    settings = replace(shared, lr=lr, server_momentum=momentum, **METHODS[method])  # type: ignore[arg-type]
    return (central if method == ORACLE else federated)(inputs, clients, settings, seed)


@dataclass(frozen=True)
class Drawn:
    """Pixels 0 to 1 of all pictures, halved to 14 px of a draw, the rows of each class to train on, and rows to judge by with their classes, by part."""

    inputs: FeatureViews
    clients: Sequence[Ints]
    judged: Mapping[str, tuple[Ints, Ints]]


def parts(folder: Path, seed: int) -> Drawn:
    """Draw pictures of the training files to train on and to choose by, and of the test files."""
    data, rng = binary_files.read_fmnist(folder), np.random.default_rng([seed, 26])
    learned, tested = (rng.permutation(np.flatnonzero(data.is_test == is_test)) for is_test in (False, True))
    own = np.concatenate([learned[data.classes[learned] == c][:N_PER_CLASS] for c in range(N_CLASSES)])
    rest = rng.permutation(np.setdiff1d(learned, own, assume_unique=True))[:N_VALIDATION]
    rows = np.concatenate([own, rest, tested[:N_TEST]])
    halved = data.chips[rows].reshape(len(rows), 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    pixels = halved.reshape(1, len(rows), -1) / 255
    clients = np.split(np.arange(len(own)), N_CLASSES)
    first, last = len(own), len(own) + len(rest)
    judged = {CHOSEN_ON: np.arange(first, last), REPORTED: np.arange(last, len(rows))}
    return Drawn(FeatureViews(pixels), clients, {part: (own, data.classes[rows[own]]) for part, own in judged.items()})


def outcome(drawn: Drawn, dim: int, method: str, part: str, seed: int, lr: float, momentum: float) -> Found:
    """Train one method and judge it on one part."""
    settings = replace(SHARED, embedding_dim=dim, rounds=ROUNDS[part])
    found = trained(drawn.inputs, drawn.clients, method, settings, lr, momentum, seed)
    rows, classes = drawn.judged[part]
    share = float((found.logits(drawn.inputs.array[:, rows]).argmax(1) == classes).mean())
    return Found(dim, method, part, seed, settings.rounds, lr, momentum, round(share, 4), *found.cosines)


def grid(method: str) -> Sequence[tuple[float, float]]:
    """Return the learning rates and momentums of which a method's are chosen."""
    return CENTRAL if method == ORACLE else FEDERATED


def best_setting(found: Sequence[Found], method: str) -> tuple[float, float]:
    """Return learning rate and momentum of the highest accuracy on the validation pictures, with short embeddings."""
    tried = [each for each in found if (each.method, each.part) == (method, CHOSEN_ON)]
    best = max(tried, key=lambda each: each.accuracy)
    return best.lr, best.momentum


def tables() -> list[str]:
    """Return the table of docs/tables.md."""
    tested = [each for each in KEPT.read() if each.part == REPORTED]
    by_key = {(each.dim, each.method, each.seed): each for each in tested}

    def rows() -> Iterator[str]:
        for dim, method in ROWS:
            own = [each for each in tested if (each.dim, each.method) == (dim, method)]
            above = [by_key[dim, MARGIN, each.seed].accuracy - each.accuracy for each in own]
            cosines = (f"{np.mean([getattr(each, name) for each in own]):.2f}" for name in ("mean_cosine", "largest_cosine"))
            accuracy = spread([each.accuracy for each in own])
            yield row(
                dim,
                method,
                f"{own[0].lr:g}, {own[0].momentum:g}",
                accuracy,
                "" if method == MARGIN else ahead(above),
                *cosines,
            )

    head = "d | method | lr, momentum | accuracy | FedAwS's (Eq. 7) above it, 95 % | mean cosine of class vectors | largest"
    return [table(head, rows())]


def do(drawn: Drawn, dim: int, method: str, part: str, seed: int, lr: float, momentum: float) -> None:
    key = dim, method, part, seed, lr, momentum
    KEPT.once(key, lambda: [outcome(drawn, *key)])


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the four files of Fashion-MNIST")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    drawn = parts(folder, CHOSEN_SEED)
    for method in METHODS:
        for lr, momentum in grid(method):
            do(drawn, SHORT, method, CHOSEN_ON, CHOSEN_SEED, lr, momentum)
    found = KEPT.read()
    chosen = {(dim, method): best_setting(found, method) for dim, method in ROWS}
    for seed in range(1, 1 + N_SEEDS):
        drawn = parts(folder, seed)
        for (dim, method), setting in chosen.items():
            do(drawn, dim, method, REPORTED, seed, *setting)


if __name__ == "__main__":
    main()
