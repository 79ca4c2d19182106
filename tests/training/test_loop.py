"""The outer loop: reports, the last good state, batches that do not fit into memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from pu_geo.errors import JobCancelled, TrainingError
from pu_geo.training.loop import MicroBatcher, Training, restore, snapshot
from pu_geo.training.optim import new_optimizer
from pu_geo.training.run import Run

CPU = torch.device("cpu")


@dataclass
class Inner:
    values: Tensor
    count: int


@dataclass
class Learner:
    network: nn.Linear
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    memory: Inner


def new_learner() -> Learner:
    network = nn.Linear(3, 1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
        network.bias.zero_()
    optimizer = new_optimizer("sgd", network, 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return Learner(network, optimizer, schedule, Inner(torch.zeros(2), 0))


def step(learner: Learner, inputs: Tensor) -> float:
    learner.optimizer.zero_grad()
    loss = learner.network(inputs).square().mean()
    loss.backward()
    learner.optimizer.step()
    learner.schedule.step()
    learner.memory.values += learner.network.bias.detach()
    learner.memory.count += 1
    return float(loss.detach())


def facts_of(learner: Learner) -> list[object]:
    rates = [group["lr"] for group in learner.optimizer.param_groups]
    buffers = [state["momentum_buffer"].tolist() for state in learner.optimizer.state.values()]
    weights = [weight.tolist() for weight in learner.network.parameters()]
    return [weights, buffers, rates, learner.schedule.last_epoch, learner.memory.values.tolist(), learner.memory.count]


def test_going_on_from_a_snapshot_is_bit_equal_to_never_having_stopped() -> None:
    inputs = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
    learner = new_learner()
    for batch in inputs[:2]:
        step(learner, batch)
    saved = snapshot(learner)
    for batch in inputs[2:]:
        step(learner, batch)
    straight = facts_of(learner)
    for other in (learner, new_learner()):  # back in time, and in a fresh process
        restore(other, saved)
        for batch in inputs[2:]:
            step(other, batch)
        assert facts_of(other) == straight
    for missing in saved:
        other = new_learner()
        restore(other, {name: value for name, value in saved.items() if name != missing})
        for batch in inputs[2:]:
            step(other, batch)
        assert facts_of(other) != straight


def run_epochs(losses: list[list[float]], run: Run, learner: Learner) -> None:
    for epoch in Training(run, learner, len(losses), stage="trial", span=(0.5, 1.0)).epochs():
        with epoch:
            for loss in losses[epoch.number - 1]:
                step(learner, torch.full((1, 3), loss))
                epoch.add({"loss": loss, "other": 2 * loss})


def test_epochs_report_means_and_progress() -> None:
    told: list[Mapping[str, object]] = []
    run_epochs([[1.0, 3.0], [5.0]], Run(CPU, report=told.append), new_learner())
    assert [(event["epoch"], event["epochs"], event["loss"], event["other"]) for event in told] == [
        (1, 2, 2.0, 4.0), (2, 2, 5.0, 10.0),
    ]  # fmt: skip
    assert [event["progress"] for event in told] == [0.75, 1.0]
    assert {event["stage"] for event in told} == {"trial"}


def test_a_loss_that_is_no_number_ends_with_the_last_good_epoch() -> None:
    told: list[Mapping[str, object]] = []
    run, learner, good = Run(CPU, report=told.append), new_learner(), new_learner()
    run_epochs([[1.0], [0.5]], Run(CPU), good)
    run_epochs([[1.0], [0.5], [0.2, float("nan")], [0.1]], run, learner)
    assert facts_of(learner) == facts_of(good)
    assert [event["epoch"] for event in told] == [1, 2]
    assert run.warnings == [
        "Training stopped at epoch 3, batch 2: the loss became nan, which is not a finite number. "
        "The model is that of epoch 2 of 4; a smaller learning rate (lr) may get further."
    ]


def test_no_good_epoch_at_all_is_an_error_and_other_errors_and_cancelling_pass_through() -> None:
    with pytest.raises(TrainingError, match="epoch 1, batch 2: the loss became inf") as caught:
        run_epochs([[1.0, float("inf")]], Run(CPU), new_learner())
    assert caught.value.kind == "diverged"
    with pytest.raises(JobCancelled):
        run_epochs([[1.0]], Run(CPU, is_cancelled=lambda: True), new_learner())
    (epoch,) = Training(Run(CPU), new_learner(), 1).epochs()
    with pytest.raises(ZeroDivisionError), epoch:
        raise ZeroDivisionError


def gradient_in_pieces(most: int, error: Exception) -> tuple[Tensor, int, Run]:
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    network, run = new_learner().network, Run(CPU)
    pieces = MicroBatcher(run)

    def work(part: slice, share: float) -> float:
        if len(inputs[part]) > most:
            (network(inputs[part]) * 100).mean().backward()  # what a broken attempt leaves behind
            raise error
        loss = network(inputs[part]).square().mean() * share
        loss.backward()
        return float(loss.detach())

    def begin() -> None:
        network.zero_grad()

    first = sum(pieces.each(8, begin, work))
    assert sum(pieces.each(8, begin, work)) == pytest.approx(first)
    return network.weight.grad, pieces.n, run


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")],
)
def test_pieces_add_up_to_the_gradient_of_the_batch(error: Exception) -> None:
    whole, n, run = gradient_in_pieces(8, error)
    assert (n, run.warnings) == (1, [])
    cut, n, run = gradient_in_pieces(3, error)
    torch.testing.assert_close(cut, whole)
    assert n == 4
    assert len(run.warnings) == 1
    assert "4 pieces" in run.warnings[0]


def test_a_device_too_small_for_two_chips_is_told_of_and_other_faults_are_not_taken_for_that() -> None:
    with pytest.raises(TrainingError, match="even for 2 chips") as caught:
        gradient_in_pieces(1, torch.OutOfMemoryError("CUDA out of memory"))
    assert caught.value.kind == "memory"
    with pytest.raises(RuntimeError, match="shapes"):
        gradient_in_pieces(1, RuntimeError("shapes do not fit"))


def test_generators_of_epochs_and_streams_are_independent_and_repeatable() -> None:
    run = Run(CPU, seed=3)
    pairs = [(stream, epoch) for stream in range(3) for epoch in range(3)]
    drawn = {pair: torch.rand(4, generator=run.generator(*pair)).tolist() for pair in pairs}
    assert len({tuple(values) for values in drawn.values()}) == 9
    assert torch.rand(4, generator=run.generator(1, 2)).tolist() == drawn[1, 2]
