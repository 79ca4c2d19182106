"""HeroCon's losses against SupCon, InfoNCE and cross entropy on noisy views of Fashion-MNIST, as in the noisy rows of its Table 2.

`python -m benchmarks.herocon_fmnist FOLDER` adds to benchmarks/outcomes/herocon_fmnist.jsonl what is not there yet, in about five
minutes on one core; `python -m benchmarks.tables` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.kept import Kept, ahead, row, spread, table
from pu_geo import losses
from pu_geo.datasets import binary_files
from pu_geo.training.heads import linear

N_PER_CLASS, N_UNLABELED, N_VALIDATION, N_TEST, N_SEEDS = 10, 3000, 1000, 2000, 5
N_STEPS, BATCH, HIDDEN, DIM, LR = 150, 64, 256, 64, 1e-3
WEIGHTS, TEMPERATURES = (0.05, 0.5), (0.2, 1.0)
GROUPS: Mapping[str, tuple[int, ...]] = {
    "worn above the waist": (0, 2, 3, 4, 6), "long sleeves": (2, 4, 6), "shoe": (5, 7, 9), "covers the legs": (1, 3),
    "opens in front": (4, 6), "closed shoe": (7, 9),
}  # fmt: skip
TASKS = {
    "ten classes": np.eye(10, dtype=bool),
    "six labels": np.array([[k in each for each in GROUPS.values()] for k in range(10)]),
}
CHOSEN_ON, REPORTED = "validation", "test"
CHOSEN_SEEDS: Mapping[str, tuple[int, ...]] = {"ten classes": (0,), "six labels": (0, 101, 102)}
"""Of each task, the seeds on whose validation pictures settings are chosen, by mean F1."""


@dataclass(frozen=True)
class Found:
    """One training: macro F1 and macro AUC, with the weights of L_u and L_s (alpha, beta) and the temperature."""

    task: str
    method: str
    part: str
    seed: int
    alpha: float
    beta: float
    temperature: float
    f1: float
    auc: float


KEPT = Kept("herocon_fmnist", Found, "task method part seed alpha beta temperature")


@dataclass(frozen=True)
class Part:
    """Two noisy views of pictures, float32 [2, N, 784], and their classes, int64 [N]."""

    views: Tensor
    classes: NDArray[np.int64]


class Network(nn.Module):
    """An encoder for each view, the map H, and one classifier on both representations: the same for every method."""

    def __init__(self, n_outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(
            nn.Sequential(linear(784, HIDDEN, generator), nn.ReLU(), linear(HIDDEN, DIM, generator)) for _ in range(2)
        )
        self.mapping = nn.Sequential(linear(DIM, DIM, generator), nn.Sigmoid())
        self.classifier = linear(2 * DIM, n_outputs, generator)

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Map two views [2, B, 784] to Z [2, B, DIM] and log odds [B, c]."""
        z = torch.stack([encoder(view) for encoder, view in zip(self.encoders, views, strict=True)])
        return z, self.classifier(torch.cat([z[0], z[1]], dim=1))


def noisy_views(pictures: NDArray[np.uint8], classes: NDArray[np.int64], seed: int) -> Part:
    """Make the two views of Wang et al. (2015), which the paper follows.

    The picture turned by up to 45 degrees, and another one of its class with noise, uniform in [0, 1], added and cut at 1.
    """
    rng = np.random.default_rng(seed)
    plain = pictures.astype(np.float32) / 255
    turned = [ndimage.rotate(each, rng.uniform(-45, 45), reshape=False, order=1) for each in plain]
    partner = np.arange(len(classes))
    for one in range(10):
        own = np.flatnonzero(classes == one)
        partner[own] = rng.choice(own, len(own))
    noisy = (plain[partner] + rng.random(plain.shape)).clip(0, 1)
    views = np.stack([np.stack(turned), noisy]).reshape(2, len(plain), 784).astype(np.float32)
    return Part(torch.from_numpy(views), classes)


def parts(folder: Path, seed: int) -> dict[str, Part]:
    """Draw labeled, unlabeled and validation pictures of the training files, and test pictures of the others."""
    data, rng = binary_files.read_fmnist(folder), np.random.default_rng(seed)
    learned, tested = (rng.permutation(np.flatnonzero(data.is_test == is_test)) for is_test in (False, True))
    labeled = np.concatenate([learned[data.classes[learned] == one][:N_PER_CLASS] for one in range(10)])
    rest = np.setdiff1d(learned, labeled, assume_unique=True)
    rest = rng.permutation(rest)[: N_UNLABELED + N_VALIDATION]
    rows = {"labeled": labeled, "unlabeled": rest[:N_UNLABELED], CHOSEN_ON: rest[N_UNLABELED:], REPORTED: tested[:N_TEST]}
    found = {}
    for number, (name, chosen) in enumerate(rows.items()):
        found[name] = noisy_views(data.chips[chosen][:, 0], data.classes[chosen], 10 * seed + number)
    return found


Extra = Callable[[Network, Tensor, NDArray[np.int64], Tensor, float, float, float], Tensor]
"""What a method adds to L_c: from the network, Z of labeled and unlabeled [2, B, DIM], classes and Y of the labeled, alpha, beta, tau."""


def _info_nce(_: Network, z: Tensor, __: NDArray[np.int64], ___: Tensor, alpha: float, ____: float, tau: float) -> Tensor:
    return alpha * losses.sscl_loss(z[0], z[1], temperature=tau)


def _sup_con(_: Network, z: Tensor, ids: NDArray[np.int64], __: Tensor, ___: float, beta: float, tau: float) -> Tensor:
    own = z[:, : len(ids)]
    return beta * losses.scl_loss(own[0], own[1], torch.from_numpy(ids), temperature=tau)


def _hero_con(
    network: Network, z: Tensor, ids: NDArray[np.int64], labels: Tensor, alpha: float, beta: float, tau: float
) -> Tensor:  # fmt: skip
    unsupervised = losses.multi_view_loss(z, network.mapping(z), temperature=tau)
    return alpha * unsupervised + beta * losses.supervised_loss(z[:, : len(ids)], labels, temperature=tau)


METHODS: Mapping[str, tuple[Extra | None, bool, bool]] = {
    "cross entropy": (None, False, False),
    "InfoNCE": (_info_nce, True, False),
    "SupCon": (_sup_con, False, True),
    "HeroCon-u": (_hero_con, True, False),
    "HeroCon-s": (_hero_con, False, True),
    "HeroCon": (_hero_con, True, True),
}
"""What a method adds to L_c, and whether alpha and beta count; where not, they are 0."""


def trained(
    task: str, method: str, data: Mapping[str, Part], seed: int, part: str, setting: tuple[float, float, float]
) -> Found:  # fmt: skip
    """Train one method and judge it on one part."""
    extra, (alpha, beta, tau) = METHODS[method][0], setting
    table, labeled, unlabeled = TASKS[task], data["labeled"], data["unlabeled"]
    generator = torch.Generator().manual_seed(seed)
    network = Network(table.shape[1], generator)
    optimizer = torch.optim.AdamW(network.parameters(), LR, weight_decay=1e-4)
    labels = torch.from_numpy(table[labeled.classes])
    vectors = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)[labeled.classes]  # chips of equal labels
    for _ in range(N_STEPS):
        rows = torch.randint(N_UNLABELED, (BATCH,), generator=generator)
        z, logits = network(torch.cat([labeled.views, unlabeled.views[:, rows]], dim=1))
        own = logits[: len(labels)]
        if task == "ten classes":
            loss = functional.cross_entropy(own, torch.from_numpy(labeled.classes))
        else:
            loss = functional.binary_cross_entropy_with_logits(own, labels.float())
        if extra is not None:
            loss = loss + extra(network, z, vectors, labels, alpha, beta, tau)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    f1, auc = judged(task, network, data[part])
    return Found(task, method, part, seed, alpha, beta, tau, round(f1, 5), round(auc, 5))


@torch.inference_mode()
def judged(task: str, network: Network, part: Part) -> tuple[float, float]:
    """Return macro F1 and macro AUC: of the likeliest class, or of each label with even odds as its threshold."""
    logits, truth = network(part.views)[1].numpy(), TASKS[task][part.classes]
    called = logits > 0
    if task == "ten classes":
        called = np.eye(10, dtype=bool)[logits.argmax(axis=1)]
    return float(f1_score(truth, called, average="macro")), float(roc_auc_score(truth, logits, average="macro"))


def grid(method: str) -> list[tuple[float, float, float]]:
    """Return the alphas, betas and temperatures among which a method's are chosen."""
    extra, has_alpha, has_beta = METHODS[method]
    if extra is None:
        return [(0.0, 0.0, 1.0)]
    return list(itertools.product(WEIGHTS if has_alpha else (0.0,), WEIGHTS if has_beta else (0.0,), TEMPERATURES))


def best_setting(found: Sequence[Found], task: str, method: str) -> tuple[float, float, float]:
    """Return alpha, beta and temperature of the highest mean F1 on the validation pictures of `CHOSEN_SEEDS`."""
    tried: dict[tuple[float, float, float], list[float]] = {}
    for each in found:
        if (each.task, each.method, each.part) == (task, method, CHOSEN_ON) and each.seed in CHOSEN_SEEDS[task]:
            tried.setdefault((each.alpha, each.beta, each.temperature), []).append(each.f1)
    return max(tried, key=lambda setting: float(np.mean(tried[setting])))


def tables() -> list[str]:
    """Return the table of docs/tables.md, of the seeds that have all."""
    tested = [each for each in KEPT.read() if each.part == REPORTED]

    def rows() -> Iterator[str]:
        for task, method in itertools.product(TASKS, METHODS):
            own, hero = (
                {each.seed: each for each in tested if (each.task, each.method) == (task, name)}
                for name in (method, "HeroCon")
            )
            used = next(iter(own.values()))
            named = (("alpha", used.alpha), ("beta", used.beta), ("tau", used.temperature))
            settings = ", ".join(f"{name} {value:g}" for name, value in named if value and method != "cross entropy")
            seeds = sorted(own.keys() & hero.keys())
            above = "" if method == "HeroCon" else ahead([hero[seed].f1 - own[seed].f1 for seed in seeds], 4)
            cells = (spread([getattr(own[seed], name) for seed in seeds], 4) for name in ("f1", "auc"))
            yield row(task, method, settings, *cells, above)

    return [table("labels | loss | settings | macro F1 | macro AUC | HeroCon's F1 above it, 95 %", rows())]


def do(
    task: str, method: str, data: Mapping[str, Part], seed: int, part: str, setting: tuple[float, float, float]
) -> None:  # fmt: skip
    KEPT.once((task, method, part, seed, *setting), lambda: [trained(task, method, data, seed, part, setting)])


def main() -> None:
    """Do what is not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the four files of Fashion-MNIST")
    folder = parser.parse_args().folder
    for seed in sorted(set(itertools.chain(*CHOSEN_SEEDS.values()))):
        data = parts(folder, seed)
        for task, method in itertools.product(TASKS, METHODS):
            for setting in grid(method) if seed in CHOSEN_SEEDS[task] else []:
                do(task, method, data, seed, CHOSEN_ON, setting)
    found = KEPT.read()
    chosen = {pair: best_setting(found, *pair) for pair in itertools.product(TASKS, METHODS)}
    for seed in range(1, 1 + N_SEEDS):
        data = parts(folder, seed)
        for (task, method), setting in chosen.items():
            do(task, method, data, seed, REPORTED, setting)


if __name__ == "__main__":
    main()
