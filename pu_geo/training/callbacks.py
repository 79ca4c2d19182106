"""Evaluation of a model while it is being trained: seldom enough to cost little, and without a trace in the training."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pu_geo.errors import TrainingError
from pu_geo.training.data import ChipImages, FeatureViews, Ints, PUData
from pu_geo.training.network import TrainedModel

Evaluate = Callable[[TrainedModel, Mapping[str, object]], Mapping[str, object]]
"""Gets a model as it is now, and the report of the epoch; returns what belongs into that report besides."""
MOST_EVALUATIONS = 12  # of one stage of a training
MOST_TIME = 0.05  # share of the time of a stage that evaluations may have taken before there is another

MOST_ROWS = 4000  # unlabeled chips that are evaluated


class Evaluator:
    """The evaluations of one stage of a training.

    Args:
        evaluate: see `Evaluate`; None for no evaluation.
        model: gives the model as it is now; it may share its parts with what is trained. None for no evaluation.
        n_epochs: of the stage.
        check: see `TrainedModel`.
    """

    def __init__(
        self, evaluate: Evaluate | None, model: Callable[[], TrainedModel] | None, n_epochs: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._evaluate, self._model, self._n_epochs, self._check = evaluate, model, n_epochs, check
        self._every = max(1, math.ceil(n_epochs / MOST_EVALUATIONS))
        self._began, self._taken = time.monotonic(), 0.0

    def after(self, epoch: int, report: Mapping[str, object]) -> Mapping[str, object]:
        """Evaluate after an epoch, counted from 1, where it is due and a model can be made; return what was found, else
        nothing.

        The model is in evaluation mode meanwhile. What follows is the same to the bit whether it was evaluated or not, as
        long as the evaluation itself draws no random number from what torch shares.
        """
        is_due = epoch % self._every == 0 and self._taken <= MOST_TIME * (time.monotonic() - self._began)
        if (
            self._evaluate is None or self._model is None or not (is_due or epoch == self._n_epochs)
        ):  # the last one always is
            return {}
        began, found = time.monotonic(), {}
        with suppress(TrainingError):  # such as embeddings that cannot be clustered yet: no reason to end a training
            model = replace(self._model(), check=self._check)
            with evaluating(model.network):
                found = dict(self._evaluate(model, report))
        self._taken += time.monotonic() - began
        return found


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Hold a network and all its parts in evaluation mode for a while; each part returns to the mode it was in."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def rows_to_judge(data: PUData, rows: Ints) -> Ints:
    """Return the positives and up to 4,000 of the unlabeled among these chips, int64, rising; the same each time."""
    positive, unlabeled = rows[data.is_positive[rows]], rows[~data.is_positive[rows]]
    return np.sort(np.concatenate([positive, drawn(unlabeled)]))


def drawn(rows: Ints) -> Ints:
    """Draw up to 4,000 of these rows, int64, rising; the same each time."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_ROWS])


def chosen(inputs: FeatureViews | ChipImages, rows: Ints) -> NDArray[Any]:
    """Read what a model scores of some chips: views of features [V, M, D], or chips, uint8 [M, C, H, W]."""
    return np.asarray(inputs.array[:, rows] if isinstance(inputs, FeatureViews) else inputs.array[rows])


def memory_mb(device: torch.device) -> int:
    """Return the memory a training takes, in MB (10^6 bytes): on CUDA the most that tensors took, else what the process
    holds.
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 1e6)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # no Linux: the most it ever held, in bytes on macOS
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(most / 1e6 if sys.platform == "darwin" else most / 1e3)
    return round(pages * resource.getpagesize() / 1e6)
