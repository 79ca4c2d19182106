"""How much there is to do in a training: steps, and chips that go through the network, counted from the settings. No torch.

Counts follow the `fit` of each method; `tests/methods/test_work.py` holds them against real trainings. What is counted are
views (one look at one chip), forward and backward, or forward alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pu_geo.methods.cards.baselines import PRIOR_UNLABELED, BatchSettings, LinearSettings, PairSettings, SupervisedSettings
from pu_geo.methods.cards.fedaws import SETTLING_BATCH, SETTLING_BATCHES, FedawsSettings
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.cards.ncpu import MIN_EPOCHS, NcpuSettings
from pu_geo.methods.cards.propagation import MOST_UNLABELED, PropagationSettings
from pu_geo.methods.cards.pucl import PuclSettings
from pu_geo.methods.settings import PRETRAINING_BATCH, NetworkSettings
from pu_geo.training.batching import epochs_within, n_batches

FEATURES = "features"
LOOKS_AFTER = {PuclSettings: 2, NclSettings: 3, PropagationSettings: 3}
"""What looks at all views more than once afterwards: findings are worked out of what they see, or scores of many anchors."""
PAIR_BANDS = 6


@dataclass(frozen=True)
class TrainingSize:
    """What a training would see.

    Attributes:
        n_chips: all that are scored.
        n_positive, n_not_damaged, n_left_out: of them, as people said; those left out are never trained on.
        n_kinds: kinds of damage among the positives.
        size_px, n_bands: of one chip.
        n_views: cached views of each chip.
    """

    n_chips: int
    n_positive: int = 30
    n_not_damaged: int = 0
    n_left_out: int = 0
    n_kinds: int = 1
    size_px: int = 64
    n_bands: int = 6
    n_views: int = 17

    @property
    def n_trained(self) -> int:
        """Chips that may be trained on."""
        return max(2, self.n_chips - self.n_left_out)

    @property
    def n_unlabeled(self) -> int:
        """Of them, those that nobody spoke of."""
        return max(1, self.n_trained - self.n_positive - self.n_not_damaged)


@dataclass(frozen=True)
class Stage:
    """A part of a training whose steps are alike.

    Attributes:
        steps: how often the weights are moved; 0 where chips are only looked at.
        chips: chips in all steps together.
        trained: views of each that go through the backbone forward and backward.
        seen: views of each that go through it forward alone.
        method: whose steps they are; pretraining's are PUCL's.
    """

    steps: int
    chips: int
    trained: int
    seen: int
    method: str


@dataclass(frozen=True)
class Work:
    """All of a training.

    Attributes:
        stages: pretraining and training.
        views_after: views that the trained network looks at afterwards, to score and to embed.
    """

    stages: tuple[Stage, ...]
    views_after: int


def count(method: str, settings: Any, amount: TrainingSize) -> Work:
    """Count what a training by these settings has to do.

    Args:
        method: short name.
        settings: of this method.
        amount: what it would see.

    Raises:
        ValueError: if nobody said how to count the steps of such settings.
    """
    for kind, counted in COUNTS.items():
        if isinstance(settings, kind):
            steps, chips, trained, seen = counted(settings, amount)
            break
    else:
        raise ValueError(f"no count of the work of {type(settings).__name__}; add a row to COUNTS")
    training = Stage(steps, chips, trained, seen, method)
    before = _before(settings, amount)
    each = amount.n_views if settings.backbone == FEATURES else 1
    n_looks = LOOKS_AFTER.get(type(settings), 1)
    return Work((*before, training), amount.n_chips * (each * n_looks + 1))


def _before(settings: NetworkSettings, amount: TrainingSize) -> list[Stage]:
    """Count pretraining, and what looks at the chips before the first step."""
    n = amount.n_trained
    if isinstance(settings, FedawsSettings):
        n = max(2, n - amount.n_positive)
    looks = _dates(settings, amount) * _looks_before(settings, amount, n)
    found = [Stage(0, looks, 0, 1, "")] if looks else []
    has_layers = settings.backbone != FEATURES or settings.width > 0
    if settings.pretrain_epochs and has_layers:
        epochs = settings.pretrain_epochs
        views = 2 * _dates(settings, amount)
        found.append(Stage(epochs * n_batches(n, PRETRAINING_BATCH), epochs * n, views, 0, "pucl"))
    return found


def _looks_before(settings: NetworkSettings, amount: TrainingSize, n: int) -> int:
    """Count chips that the fresh network looks at once: for BatchNorm's statistics, or an estimate of the class prior."""
    if isinstance(settings, FedawsSettings):
        batches = min(SETTLING_BATCHES, n_batches(n, SETTLING_BATCH))
        return 0 if settings.pretrain_epochs else min(n, batches * SETTLING_BATCH)
    if settings.backbone != FEATURES and isinstance(settings, HeroconSettings) and not settings.weight_decay:
        return amount.n_positive + min(PRIOR_UNLABELED, amount.n_unlabeled)
    return 0


def _dates(settings: NetworkSettings, amount: TrainingSize) -> int:
    """HeroCon's backbone looks at each date of a chip with two by itself."""
    is_pair = settings.backbone != FEATURES and amount.n_bands == PAIR_BANDS
    return 2 if is_pair and isinstance(settings, HeroconSettings) else 1


Counts = tuple[int, int, int, int]
"""Steps, chips in all of them, views of each forward and backward, and forward alone."""


def _ncpu(settings: NcpuSettings, amount: TrainingSize) -> Counts:
    n, per_epoch = amount.n_trained, n_batches(amount.n_trained, settings.batch_size)
    epochs = min(settings.epochs, max(MIN_EPOCHS, settings.max_steps // per_epoch))
    return epochs * per_epoch, epochs * n, 2, 1


def _pucl(settings: PuclSettings, amount: TrainingSize) -> Counts:
    n, per_epoch = amount.n_trained, n_batches(amount.n_trained, settings.batch_size)
    epochs = epochs_within(settings.epochs, settings.max_steps, per_epoch)
    return epochs * per_epoch, epochs * n, 2, 0


def _with_labeled(settings: NclSettings | HeroconSettings, amount: TrainingSize) -> Counts:
    """NCL and HeroCon: unlabeled chips are dealt out, and labeled ones go along in every step."""
    per_epoch = n_batches(amount.n_unlabeled, settings.batch_size)
    epochs = epochs_within(settings.epochs, settings.max_steps, per_epoch)
    labeled = min(settings.labeled_batch, amount.n_positive + amount.n_not_damaged)
    return epochs * per_epoch, epochs * (amount.n_unlabeled + per_epoch * labeled), 2, 0


def _fedaws(settings: FedawsSettings, amount: TrainingSize) -> Counts:
    clients = [amount.n_trained - amount.n_positive]
    n_kinds = max(1, min(amount.n_kinds, amount.n_positive))
    clients += [amount.n_positive // n_kinds + (kind < amount.n_positive % n_kinds) for kind in range(n_kinds)]
    n_steps, there = settings.rounds * settings.local_steps, [n for n in clients if n > 0]
    return n_steps * len(there), n_steps * sum(max(2, min(settings.batch_size, n)) for n in there), 1, 0


def _mixed(settings: BatchSettings, amount: TrainingSize) -> Counts:
    """Yardsticks with a network: others are dealt out, and positives go along in every step."""
    n_positive = max(1, round(settings.positive_share * settings.batch_size))
    others = amount.n_not_damaged if isinstance(settings, SupervisedSettings) else amount.n_trained - amount.n_positive
    per_epoch = n_batches(others, max(2, settings.batch_size - n_positive))
    epochs = epochs_within(settings.epochs, settings.max_steps, per_epoch)
    views = (2, 1) if isinstance(settings, PairSettings) else (1, 0)
    return epochs * per_epoch, epochs * (others + per_epoch * n_positive), *views


def _linear(settings: LinearSettings, amount: TrainingSize) -> Counts:
    return 0, amount.n_trained, 0, 1


def _propagation(settings: PropagationSettings, amount: TrainingSize) -> Counts:
    """All views of the chips that are learned from; the fits to them take about as long again."""
    return 0, min(amount.n_trained, amount.n_positive + amount.n_not_damaged + MOST_UNLABELED), 0, 2 * amount.n_views


COUNTS: dict[type[NetworkSettings], Callable[[Any, TrainingSize], Counts]] = {
    NcpuSettings: _ncpu,
    PuclSettings: _pucl,
    NclSettings: _with_labeled,
    HeroconSettings: _with_labeled,
    FedawsSettings: _fedaws,
    BatchSettings: _mixed,
    LinearSettings: _linear,
    PropagationSettings: _propagation,
}
"""How the work of a method is counted, by its settings class."""
