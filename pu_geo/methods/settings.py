"""What an analyst may set for each method. Imports no torch, so that pages and the command line can read it at once.

One frozen dataclass a method. Each number carries its help text and its bounds, from which forms are drawn and by
which `check` refuses a wrong value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pu_geo.errors import TrainingError


def setting(
    default: Any, help: str, *, min: float | None = None, max: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    """Declare one field of a settings class.

    Args:
        default: its value where nobody sets one; int, float, bool or str.
        help: one sentence for the form.
        min: smallest allowed value, itself allowed.
        max: largest allowed value, itself allowed.
        choices: for a str, the allowed words.
    """
    return field(default=default, metadata={"help": help, "min": min, "max": max, "choices": choices})


def check(settings: Any) -> None:
    """Refuse settings with a value out of its bounds.

    Args:
        settings: an instance of one of the dataclasses below.

    Raises:
        TrainingError: for the first value out of bounds.
    """
    name = type(settings).__name__
    for item in fields(settings):
        value, low, high = getattr(settings, item.name), item.metadata.get("min"), item.metadata.get("max")
        choices = item.metadata.get("choices") or ()
        if choices and value not in choices:
            raise TrainingError(
                f"{item.name} of {name} is {value!r}; it must be one of {', '.join(choices)}.",
                f"Choose one of them for {item.name}.",
                kind="settings",
            )
        if isinstance(value, str) or (low is None and high is None):
            continue
        if not ((low is None or value >= low) and (high is None or value <= high)):
            raise TrainingError(
                f"{item.name} of {name} is {value}; it must be {_bounds(low, high)}.",
                f"Set {item.name} within these bounds, or leave it out to use the preset.",
                kind="settings",
            )


def _bounds(low: float | None, high: float | None) -> str:
    """Write bounds as words."""
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"


@dataclass(frozen=True)
class NcpuSettings:
    """Settings of NcPU on cached features. Names in parentheses are the paper's symbols."""

    variant: str = setting(
        "paper",
        "Follow the paper's equations, or its released code where the two differ.",
        choices=("paper", "released"),
    )
    epochs: int = setting(60, "Times every chip is looked at, unless max_steps ends training before.", min=1, max=5000)
    max_steps: int = setting(300, "Steps that training takes at most; five epochs are always done.", min=1, max=10**7)
    warmup_epochs: int = setting(
        5, "First epochs, in which pseudo targets stay fixed; a quarter at most where max_steps cuts.", min=0, max=1000
    )
    batch_size: int = setting(128, "Chips per step.", min=2, max=4096)
    lr: float = setting(0.005, "Learning rate at the start; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1e-3, "Pull of the weights towards zero.", min=0.0, max=1.0)
    width: int = setting(0, "Units of the backbone; 0 makes classifier and heads look at the features.", min=0, max=4096)
    embedding_dim: int = setting(64, "Length of an embedding.", min=2, max=2048)
    ema_momentum: float = setting(0.99, "How slowly the EMA target follows the online network.", min=0.0, max=1.0)
    prototype_momentum: float = setting(0.99, "How slowly prototypes move (alpha).", min=0.0, max=1.0)
    target_momentum: float = setting(0.9, "How slowly pseudo targets move (beta).", min=0.0, max=1.0)
    threshold_momentum: float = setting(0.99, "How slowly the self-adaptive threshold moves (gamma).", min=0.0, max=1.0)
    rep_weight: float = setting(5.0, "Weight of the noisy-pair robust loss (w_r).", min=0.0, max=1000.0)
    entropy_weight: float = setting(0.5, "Weight of the entropy term after warm-up (w_ent).", min=0.0, max=100.0)
    grad_clip: float = setting(30.0, "Longest gradient that is let through.", min=1e-3, max=1e6)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class PuclSettings:
    """Settings of PUCL with PUPL on cached features. Names in parentheses are the paper's symbols."""

    loss: str = setting(
        "pucl",
        "Contrastive loss: PUCL, without labels (sscl), or with the unlabeled as one class (scl_pu).",
        choices=("pucl", "sscl", "scl_pu"),
    )
    epochs: int = setting(100, "Times every chip is looked at, unless max_steps ends training before.", min=1, max=5000)
    max_steps: int = setting(2000, "Steps that training takes at most; at least one epoch is done.", min=1, max=10**7)
    batch_size: int = setting(256, "Chips per step, each in two views (b).", min=2, max=8192)
    lr: float = setting(1e-3, "Learning rate after warm-up; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1e-4, "Pull of the weights towards zero.", min=0.0, max=1.0)
    temperature: float = setting(0.5, "Scale of similarities; smaller looks at nearer chips (tau).", min=0.01, max=10.0)
    width: int = setting(256, "Hidden units of the backbone; 0 makes it linear.", min=0, max=4096)
    embedding_dim: int = setting(128, "Length of an embedding (k).", min=2, max=2048)
    projection_dim: int = setting(64, "Output of the projection head, which only training uses (p).", min=2, max=2048)
    n_seedings: int = setting(8, "Starts of the pseudo labelling; the best one counts.", min=1, max=256)
    classifier_l2: float = setting(1e-3, "Pull of the linear classifier towards zero.", min=1e-8, max=10.0)

    def __post_init__(self) -> None:
        check(self)


PRESETS: dict[str, dict[str, Mapping[str, object]]] = {
    "ncpu": {"quick": {}},
    "pucl": {"quick": {}},
}
