"""The outer loop that all methods share: epochs, their reports, the last good state, and batches that do not fit."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pu_geo.errors import JobPaused, TrainingError
from pu_geo.training.callbacks import Evaluator, memory_mb
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

T = TypeVar("T")
_OUT_OF_MEMORY = "Memory ran out"
_Stateful = (nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)


class _Diverged(Exception):
    """The loss of a batch is no finite number."""


def snapshot(learner: Any) -> dict[str, Any]:
    """Copy all that decides how a training goes on.

    Args:
        learner: a dataclass of networks, optimisers, schedules, tensors, numbers, and dataclasses of such.

    Returns:
        Field name -> copy, made of tensors, numbers, texts, lists and dicts alone; what was there is not shared.
    """
    return {item.name: _copied(getattr(learner, item.name)) for item in fields(learner)}


def _copied(value: Any) -> Any:
    if isinstance(value, _Stateful):
        return copy.deepcopy(value.state_dict())
    if isinstance(value, Tensor):
        return value.detach().clone()
    return snapshot(value) if is_dataclass(value) else copy.deepcopy(value)


def restore(learner: Any, saved: Mapping[str, Any]) -> None:
    """Restore a learner to its `snapshot`. The learner is changed; `saved` is not, and can serve again."""
    for name, value in saved.items():
        setattr(learner, name, _restored(getattr(learner, name), value))


def _restored(held: Any, saved: Any) -> Any:
    """Return what is held as it was saved: networks changed, tensors on the device of those held, dataclasses made anew."""
    if isinstance(held, _Stateful):
        held.load_state_dict(copy.deepcopy(saved))
        return held
    if isinstance(held, Tensor):
        return saved.detach().to(held.device, copy=True)
    if not is_dataclass(held):
        return copy.deepcopy(saved)
    fresh = copy.copy(held)
    for name, value in saved.items():
        object.__setattr__(fresh, name, _restored(getattr(held, name), value))
    return fresh


def model_of(learner: Any) -> Callable[[], TrainedModel]:
    """Return what gives the model as it is now, of a learner with a `network`."""
    return lambda: TrainedModel(learner.network, learner.network.trunk)


Values = Mapping[str, float] | Mapping[str, Tensor]
"""What a batch reports: numbers, or scalars on the training's device, which are read once the next batch is under way."""


class _OnTheirWay:
    """Scalars that a GPU is still computing, on their way to the CPU; reading them waits for them alone, not for what comes
    after.
    """

    def __init__(self, values: Values) -> None:
        scalars = [each.detach() for each in values.values() if isinstance(each, Tensor)]
        self._names, self._event = list(values), None
        self._numbers: Tensor | list[float] = torch.stack(scalars) if scalars else [float(each) for each in values.values()]
        if isinstance(self._numbers, Tensor) and self._numbers.is_cuda:
            self._numbers = torch.empty_like(self._numbers, device="cpu", pin_memory=True).copy_(
                self._numbers, non_blocking=True
            )
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(scalars[0].device))

    def read(self) -> dict[str, float]:
        if self._event is not None:
            self._event.synchronize()
        numbers = self._numbers.tolist() if isinstance(self._numbers, Tensor) else self._numbers
        return dict(zip(self._names, numbers, strict=True))


class Epoch:
    """One epoch: collects what its batches report. Use it as a context, so that a loss that is no number is caught."""

    def __init__(self, training: Training, number: int) -> None:
        self._training = training
        self._values: list[Mapping[str, float]] = []
        self._newest: _OnTheirWay | None = None
        self._began, self._n_before = time.monotonic(), training.run.n_chips_trained
        self.number = number

    def generator(self, stream: int) -> torch.Generator:
        """Return this epoch's CPU generator of a stream."""
        return self._training.run.generator(stream, self.number)

    def add(self, values: Values) -> None:
        """Collect what one batch reports, "loss" among it, and read the batch before. Raises JobCancelled if the user
        cancelled.
        """
        self._training.run.stop_if_cancelled()
        self._read()
        self._newest = _OnTheirWay(values)

    def _read(self) -> None:
        if self._newest is None:
            return
        values, self._newest = self._newest.read(), None
        self._values.append(values)
        if not math.isfinite(values["loss"]):
            raise _Diverged(
                f"epoch {self.number}, batch {len(self._values)}: the loss became {values['loss']}, "
                "which is not a finite number"
            )

    def means(self) -> dict[str, float]:
        """Average over batches so far."""
        self._read()
        n = max(len(self._values), 1)
        return {name: sum(each[name] for each in self._values) / n for name in (self._values or [{}])[0]}

    def chips_per_s(self) -> float:
        """Return how many chips a second were trained on since the epoch began."""
        n_trained = self._training.run.n_chips_trained - self._n_before
        return round(n_trained / max(time.monotonic() - self._began, 1e-6), 1)

    def __enter__(self) -> Epoch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            try:
                self._read()
            except _Diverged as found:
                error = found
        if isinstance(error, _Diverged):
            self._training.stop(self.number, str(error))
            return True
        if error is None:
            self._training.finish(self)
        return False


class Training:
    """The epochs of one stage of a training.

    Args:
        learner: see `snapshot`; kept as it was after the last good epoch.
        stage: what is being done, in a word or two.
        span: which part of the whole training the stage is, within 0..1; its end is reported as "progress".
        model: gives the model as it is now, for the evaluations of the run, in evaluation mode meanwhile. None: no
            evaluation.
    """

    def __init__(
        self, run: Run, learner: Any, n_epochs: int, *, stage: str = "training", span: tuple[float, float] = (0.0, 1.0),
        model: Callable[[], TrainedModel] | None = None,
    ) -> None:  # fmt: skip
        self.run, self.learner, self.n_epochs, self.stage, self._span = run, learner, n_epochs, stage, span
        self._began, self._stopped = time.monotonic(), False
        self._evaluator = Evaluator(run.evaluate, model, n_epochs, run.stop_if_cancelled)
        self._good: dict[str, Any] | None = None

    def epochs(self) -> Iterator[Epoch]:
        """Yield one epoch after the other, numbered from 1; ends early where a loss was no number.

        Where the run has checkpoints of this stage, begins after the newest one: its state is the learner's from then on.
        """
        found, done = self.run.checkpoints.begin(self.stage) if self.run.checkpoints else None, 0
        if found is not None:
            done, self._good = found
            restore(self.learner, self._good)
        for number in range(done + 1, self.n_epochs + 1):
            yield Epoch(self, number)
            if self._stopped:
                return

    def finish(self, epoch: Epoch) -> None:
        """Keep the state after a good epoch, evaluate the model where that is due, and report.

        Raises:
            JobPaused: if the user wants to go on later; the state is on disk then, where the run has checkpoints.
        """
        start, end = self._span
        self._good = snapshot(self.learner)
        report = {
            "stage": self.stage,
            "epoch": epoch.number,
            "epochs": self.n_epochs,
            **epoch.means(),
            "progress": start + (end - start) * epoch.number / self.n_epochs,
            "seconds": time.monotonic() - self._began,
            "chips_per_s": epoch.chips_per_s(),
            "memory_mb": memory_mb(self.run.device),
        }
        self.run.report({**report, **self._evaluator.after(epoch.number, report)})
        is_paused = self.run.is_paused()
        if self.run.checkpoints:  # after the report: killed between the two, an epoch is reported twice rather than never
            must_keep = is_paused or epoch.number == self.n_epochs
            self.run.checkpoints.offer(self.stage, epoch.number, self._good, is_last=must_keep)
        if is_paused:
            raise JobPaused

    def stop(self, number: int, where: str) -> None:
        """Go back to the last good epoch, with a warning. Raises TrainingError if there is none."""
        if self._good is None:
            raise TrainingError(
                f"Training stopped at {where}.",
                "Start again with a smaller learning rate (lr) or another seed.",
                kind="diverged",
            )
        restore(self.learner, self._good)
        self._stopped = True
        self.run.warnings.append(
            f"Training stopped at {where}. The model is that of epoch {number - 1} of {self.n_epochs}; "
            "a smaller learning rate (lr) may get further."
        )


class MicroBatcher:
    """Cuts batches into as many pieces as memory asks for: one at first, twice as many after each error.

    Gradients of the pieces add up to that of the batch where a loss is a mean over chips. Losses over pairs of chips then
    get fewer pairs, and BatchNorm fewer chips: a training that had to cut is a slightly different one, and warns of it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.n = 1

    def each(self, n_chips: int, begin: Callable[[], None], work: Callable[[slice, float], T]) -> list[T]:
        """Do the work on a batch, piece by piece; all of it again where memory ran out.

        Args:
            begin: forgets what an attempt before has left, such as gradients.
            work: does the forward and the backward pass of one piece; gets its place in the batch and its share, 0..1.

        Returns:
            What `work` returned, one a piece.

        Raises:
            TrainingError: if not even pieces of 2 chips fit.
        """
        while True:
            begin()
            try:
                found = [work(part, (part.stop - part.start) / n_chips) for part in self._parts(n_chips)]
                self._run.n_chips_trained += n_chips
                return found
            except RuntimeError as error:  # torch has an error of its own for a device, not for the host
                if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
                    raise
            self._cut_finer(n_chips)

    def _parts(self, n_chips: int) -> Iterator[slice]:
        cuts = [round(number * n_chips / self.n) for number in range(self.n + 1)]
        for number, (start, end) in enumerate(itertools.pairwise(cuts)):
            if number:  # the epoch asks once a batch
                self._run.stop_if_cancelled()
            yield slice(start, end)

    def _cut_finer(self, n_chips: int) -> None:
        if n_chips // (2 * self.n) < 2:
            raise TrainingError(
                f"The device has too little memory even for {n_chips // self.n} chips at once.",
                "Choose a smaller backbone or smaller chips, or close other programs that use the device.",
                kind="memory",
            )
        if self._run.device.type == "cuda":
            torch.cuda.empty_cache()
        self.n *= 2
        self._run.warnings[:] = [text for text in self._run.warnings if not text.startswith(_OUT_OF_MEMORY)]
        self._run.warnings.append(
            f"{_OUT_OF_MEMORY}: batches were worked on in {self.n} pieces. A smaller batch_size makes all steps alike."
        )


def stepped(
    learner: Any, pieces: MicroBatcher, n_chips: int, losses_of: Callable[[slice], dict[str, Tensor]], *,
    begin: Callable[[], None] = lambda: None, grad_clip: float = 0.0,
) -> dict[str, Tensor]:  # fmt: skip
    """Move the weights of a learner, and its schedule, once.

    Args:
        learner: with `network`, `optimizer` and `schedule`.
        losses_of: scalars of some chips of the batch, "loss" among them. That is what is differentiated, unless there is
            "differentiated", which is not reported.
        begin: called before every attempt, see `MicroBatcher.each`.
        grad_clip: longest gradient that is let through; 0 for any.

    Returns:
        What the pieces of the batch report, by their shares.
    """

    def begun() -> None:
        begin()
        learner.optimizer.zero_grad(set_to_none=True)

    def work(part: slice, share: float) -> dict[str, Tensor]:
        values = losses_of(part)
        (share * values.pop("differentiated", values["loss"])).backward()
        return {name: share * each.detach() for name, each in values.items()}

    found = pieces.each(n_chips, begun, work)
    if grad_clip:
        nn.utils.clip_grad_norm_(learner.network.parameters(), grad_clip)
    learner.optimizer.step()
    learner.schedule.step()
    return {name: torch.stack([each[name] for each in found]).sum() for name in found[0]}
