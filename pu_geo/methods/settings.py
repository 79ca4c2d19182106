"""How a setting is declared and checked, and what all methods let an analyst set. Imports no torch.

One frozen dataclass a method (`methods.cards`). Each number carries its help text and its bounds, from which forms are
drawn and by which `check` refuses a wrong value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pu_geo.errors import PuGeoError, TrainingError

NO_LIMIT = 10**7
PRETRAINING_BATCH = 256  # chips a step of self-supervised training, each in two views
STANDARD: Mapping[str, object] = {"backbone": "resnet18", "precision": "bf16", "pretrain_epochs": 100}
"""What presets `standard` share: a network trained from the chips, after self-supervised training on all of them."""


def setting(
    default: Any,
    help: str,
    *,
    min: float | None = None,
    max: float | None = None,
    choices: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """Declare one field of a settings class: int, float, bool or str; `min` and `max` are allowed themselves.

    Args:
        default: MISSING where it must be given.
        choices: for a str, the allowed words.
        more: what an action says of it, see `jobs.actions`.
    """
    return field(default=default, metadata={"help": help, "min": min, "max": max, "choices": choices, **more})


def check(settings: Any, error: type[PuGeoError] = TrainingError) -> None:
    """Refuse settings with a value out of its bounds; None is within all of them.

    Raises:
        error: for the first value out of bounds.
    """
    for item in fields(settings):
        value, low, high = getattr(settings, item.name), item.metadata.get("min"), item.metadata.get("max")
        choices = item.metadata.get("choices") or ()
        if value is None:
            continue
        if choices and value not in choices:
            raise error(
                f"{item.name} is {value!r}; it must be one of {', '.join(choices)}.",
                f"Choose one of them for {item.name}.",
                kind="settings",
            )
        if isinstance(value, str) or (low is None and high is None):
            continue
        if not ((low is None or value >= low) and (high is None or value <= high)):
            raise error(
                f"{item.name} is {value}; it must be {bounds_of(low, high)}.",
                f"Set {item.name} within these bounds, or leave it out.",
                kind="settings",
            )


def bounds_of(low: float | None, high: float | None) -> str:
    """Write bounds as words; "" without any."""
    if low is None:
        return "" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"


@dataclass(frozen=True)
class NetworkSettings:
    """What every method asks about its network."""

    backbone: str = setting(
        "features",
        "What looks at the chips: cached frozen features (seconds on a laptop), or a network trained from the chips.",
        choices=("features", "small", "resnet18", "preact_resnet18"),
    )
    width: int = setting(0, "Hidden units on cached features; 0 looks straight at them.", min=0, max=4096)
    weights_file: str = setting(
        "", "Path of weights, or of a model file, that the network starts from; empty starts at random."
    )
    augmentation: str = setting(
        "aerial",
        "Views of chips: flips, rotation and crop (aerial), or mirror, crop and colour (natural). Cached features are "
        "aerial.",
        choices=("aerial", "natural"),
    )
    pretrain_epochs: int = setting(
        0, "Epochs of self-supervised contrastive training of the backbone on all chips before.", min=0, max=5000
    )
    precision: str = setting(
        "float32", "Number type of the backbone; bf16 is about twice as fast.", choices=("float32", "bf16")
    )
    compiled: bool = setting(False, "Let torch.compile work on the backbone: minutes at the start, gains on a GPU alone.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class MethodCard:
    """What the Train page and the command line show of one method.

    Attributes:
        name: short name, as typed on the command line.
        paper: authors, title, venue, year.
        summary: what it does, in two sentences.
        min_positives: fewer are refused.
        presets: name of a preset -> values that differ from the dataclass's defaults.
        entry: "module:function" of its `fit`; `from_state` lies beside it.
        min_not_damaged: fewer buildings that a person called not damaged are refused.
        score_type: enum of the export schema.
        group: where it is shown: "default", "pu", "types" (works with damage types) or "baseline".
        uses_types: whether it learns from the kind of damage of each positive.
        takes_layers: whether a network that it trains from the chips takes the layers beside pre and post, as named views.
        several_types: whether it learns several types of one building, and buildings of which nobody said any; else one kind
            each.
        estimator: name of its class in `methods.estimators`.
        min_views: views of each chip that it needs at least where features are cached.
        seconds_per_1000: what a thousand chips take in its preset `quick` on two processor cores, see `benchmarks/outcomes`.
        uses_place: whether its settings have `neighbors`: scores of neighboring buildings may count, see `analysis.place`.
        averages_features: whether it learns from several feature sets, each by itself, see `fitting.fit_and_score`.
    """

    name: str
    title: str
    paper: str
    summary: str
    needs: str
    cannot: str
    min_positives: int
    settings: type[Any]
    presets: Mapping[str, Mapping[str, object]]
    entry: str
    estimator: str
    min_not_damaged: int = 0
    score_type: str = "pu_probability"
    group: str = "pu"
    uses_types: bool = False
    several_types: bool = False
    takes_layers: bool = False
    min_views: int = 1
    seconds_per_1000: float = 0.2
    uses_place: bool = False
    averages_features: bool = False
