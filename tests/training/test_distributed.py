"""Two processes that train together do what one does with the batch of both; measured against the same training in one process."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ranks_parts as ranks
import torch
from ranks_parts import CPU, LOSSES, chips, features, on_ranks, trained
from torch import Tensor

from pu_geo.errors import TrainingError
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, PUData, Strength
from pu_geo.training.distributed import ALONE, Ranks
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.run import Run

DRAW: tuple[Strength, ...] = ("plain", "weak", "strong", "strong")
FEATURES = {"epochs": 4, "batch_size": 20, "width": 16}
SMALL = {"backbone": "small", "batch_size": 8}
HEADS = {"embedding_dim": 8, "projection_hidden": 16, "prediction_hidden": 16}
PUCL = {"embedding_dim": 8, "projection_dim": 8, "optimizer": "sgd", "lr": 0.1}
# Name -> method, data, settings, and how far the weights of the two may be from each other, for the reasons given in docs/methods.md.
TRAININGS: Mapping[str, tuple[str, Callable[[], PUData], Mapping[str, Any], float]] = {
    "pucl": ("pucl", features, {**FEATURES, **PUCL, "projection_norm": True}, 1e-5),
    "ncpu": ("ncpu", features, {**FEATURES, **HEADS, "warmup_epochs": 1}, 1e-5),
    "supervised": ("supervised", features, {**FEATURES, "batch_size": 7}, 1e-5),
    "nnpu+noisncl": ("nnpu+noisncl", features, {**FEATURES, **HEADS, "optimizer": "sgd", "lr": 1e-3}, 1e-5),
    "herocon": ("herocon", features, FEATURES, 1e-5),
    "ce from chips": ("ce", chips, {**SMALL, "epochs": 2}, 1e-5),
    "herocon from chips": ("herocon", chips, {**SMALL, "epochs": 2, "across_dates": True}, 1e-5),
    "pucl from chips": ("pucl", chips, {**SMALL, **PUCL, "epochs": 1, "lr": 0.01}, 1e-3),
    "ncpu from chips": ("ncpu", chips, {**SMALL, **HEADS, "epochs": 1, "warmup_epochs": 0}, 1e-3),
}


def farthest(first: Any, second: Any) -> float:
    """Return the largest difference of two nested values that have the same parts."""
    if isinstance(first, Mapping):
        assert first.keys() == second.keys()
        return max((farthest(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, list | tuple):
        return max((farthest(*pair) for pair in zip(first, second, strict=True)), default=0.0)
    if not isinstance(first, Tensor | bool | int | float):
        return 0.0
    ours, theirs = (torch.as_tensor(each).double() for each in (first, second))
    return float((ours - theirs).abs().max()) if ours.numel() else 0.0


def work_of(name: str) -> Callable[[Ranks], Any]:
    method, data, settings, _ = TRAININGS[name]
    return partial(trained, method=method, data=data, settings=settings)


def require_one_training(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Weights, optimizer, EMA target, prototypes and pseudo-targets after the last epoch, and what each epoch reports."""
    torch.set_num_threads(1)
    method, data, settings, tolerance = TRAININGS[name]
    alone = work_of(name)(ALONE)
    assert farthest(first["kept"], alone["kept"]) < tolerance
    assert farthest(first["losses"], alone["losses"]) < tolerance
    assert farthest(first["kept"], second["kept"]) == 0
    assert farthest(alone["kept"], trained(ALONE, method, data, {**settings, "lr": 0.003})["kept"]) > 10 * tolerance


@pytest.mark.ci
@pytest.mark.slow
def test_two_processes_exchange_rows_and_do_what_one_does_with_the_batch_of_both(tmp_path: Path) -> None:
    losses = {name: partial(ranks.loss_and_gradients, loss=name) for name in LOSSES}
    works = {"exchanged": ranks.exchanged, "batch norm": ranks.batch_norm_of_images, "ncpu": work_of("ncpu"), **losses}
    of_two = on_ranks(works, tmp_path / "ranks")
    for found in of_two["exchanged"]:
        assert found["rows"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert found["columns"].tolist() == [[True, False, True], [False, True, False]]
        assert (found["mine"].tolist(), found["agreed"]) == ([0, 0], 0.1)
        assert found["empty"].tolist() == [[0, 1]]  # one rank has no row of a batch of one
    for name in ("batch norm", *LOSSES):
        alone = works[name](ALONE)
        assert name == "batch norm" or float(alone["gradient 0.weight"].abs().max()) > 0.1
        assert all(farthest(each, alone) < 1e-5 for each in of_two[name])
    require_one_training("ncpu", *of_two["ncpu"])


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each of two processes made of each of the trainings."""
    return on_ranks({name: work_of(name) for name in TRAININGS}, tmp_path_factory.mktemp("ranks"))


@pytest.mark.long(part="slow")
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TRAININGS if name != "ncpu"])
def test_two_processes_train_what_one_does(name: str, of_two: dict[str, list[Any]]) -> None:
    require_one_training(name, *of_two[name])


def test_views_of_a_share_are_those_that_the_whole_batch_would_have() -> None:
    rows = np.array([5, 2, 9, 9, 1])
    for inputs in (features().inputs, chips().inputs, ChipImages(chips().inputs.array, "natural")):
        first = torch.Generator().manual_seed(1)
        whole = inputs.draw(rows, DRAW, first, CPU)
        for number in range(3):
            own = Ranks(number, 3).share(len(rows))
            generator = torch.Generator().manual_seed(1)
            for part, all_of_it in zip(inputs.draw(rows, DRAW, generator, CPU, own), whole, strict=True):
                torch.testing.assert_close(part, all_of_it[own], rtol=1e-6, atol=1e-4)  # of 0..255
            assert torch.equal(generator.get_state(), first.get_state())


def test_going_on_with_another_number_of_processes_is_said_also_after_a_second_stop(tmp_path: Path) -> None:
    """With 1 process, then with 2 that are killed, then with 1 again: the first part's number is that of the last."""
    settings = {**FEATURES, "epochs": 3}
    for epochs in (2, 3, 3):
        found = trained(ALONE, "ce", features, {**settings, "epochs": epochs}, checkpoints=Checkpoints(tmp_path, 0.0))
        assert found["warnings"] == []
    for n_ranks in (2, 1):
        kept = Checkpoints(tmp_path)
        epoch, state = kept.newest("training") or (0, {})
        assert (epoch, kept.ranks) == (3, {1} if n_ranks == 2 else {1, 2})
        kept.offer("training", epoch, state, is_last=True, n_ranks=n_ranks)
        (warning,) = trained(ALONE, "ce", features, settings, checkpoints=Checkpoints(tmp_path, 0.0))["warnings"]
        assert "went on with 1 process after 2" in warning
        assert "not equal to the bit" in warning


def test_shares_deal_every_chip_out_once_and_evenly_and_are_not_cut() -> None:
    for n_ranks in (1, 2, 3, 8):
        for n in (2, 3, 7, 64):
            shares = [np.arange(n)[Ranks(number, n_ranks).share(n)] for number in range(n_ranks)]
            assert np.concatenate(shares).tolist() == list(range(n))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1

    def work(part: slice, share: float) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(TrainingError, match="batch of 64 chips, which 2 share") as caught:
        MicroBatcher(Run(CPU, ranks=Ranks(0, 2))).each(64, lambda: None, work)
    assert caught.value.kind == "memory"
    own = torch.ones(3, 2)  # one process exchanges nothing and gets back what it gave
    assert ALONE.gather(own, 3) is own
    assert (ALONE.agree(0.1), ALONE.share(7)) == (0.1, slice(0, 7))
    ALONE.sum_gradients(ranks.two_heads()[0])
