"""NcPU: its settings, presets and card. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import NO_LIMIT, STANDARD, MethodCard, NetworkSettings, setting

MIN_EPOCHS = 5  # `max_steps` cuts no further: after one or two epochs scores can still be inverted (docs/methods.md)


@dataclass(frozen=True)
class NcpuSettings(NetworkSettings):
    """Settings of NcPU. Names in parentheses are the paper's symbols."""

    variant: str = setting(
        "paper", "Follow the paper's equations, or its released code where the two differ.", choices=("paper", "released")
    )
    epochs: int = setting(60, "Times every chip is looked at, unless max_steps ends training before.", min=1, max=5000)
    max_steps: int = setting(300, "Steps that training takes at most; five epochs are always done.", min=1, max=NO_LIMIT)
    warmup_epochs: int = setting(
        5, "First epochs, in which pseudo targets stay fixed; a quarter at most where max_steps cuts.", min=0, max=1000
    )
    batch_size: int = setting(128, "Chips per step.", min=2, max=4096)
    lr: float = setting(0.005, "Learning rate at the start; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1e-3, "Pull of the weights towards zero.", min=0.0, max=1.0)
    embedding_dim: int = setting(64, "Length of an embedding.", min=2, max=2048)
    projection_hidden: int = setting(128, "Hidden units of the projection head.", min=2, max=8192)
    prediction_hidden: int = setting(128, "Hidden units of the prediction head.", min=2, max=8192)
    ema_momentum: float = setting(0.99, "How slowly the EMA target follows the online network.", min=0.0, max=1.0)
    prototype_momentum: float = setting(0.99, "How slowly prototypes move (alpha).", min=0.0, max=1.0)
    target_momentum: float = setting(0.9, "How slowly pseudo targets move (beta).", min=0.0, max=1.0)
    rare_momentum: float = setting(
        0.97, "The same where few seem damaged, on cached features; target_momentum counts where most do.", min=0.0, max=1.0
    )
    threshold_momentum: float = setting(0.99, "How slowly the self-adaptive threshold moves (gamma).", min=0.0, max=1.0)
    rep_weight: float = setting(5.0, "Weight of the noisy-pair robust loss (w_r).", min=0.0, max=1000.0)
    entropy_weight: float = setting(0.5, "Weight of the entropy term after warm-up (w_ent).", min=0.0, max=100.0)
    grad_clip: float = setting(30.0, "Longest gradient that is let through.", min=1e-3, max=1e6)


CARD = MethodCard(
    name="ncpu",
    title="NcPU",
    paper="Zhao et al., Noisy-Pair Robust Representation Alignment for Positive-Unlabeled Learning",
    summary=(
        "Learns from the damaged buildings you marked and from all others, and works out which of those are "
        "damaged. A second opinion where a third or more are damaged."
    ),
    needs="At least 5 damaged buildings, better 10 to 30, of every damage type to be found.",
    cannot=(
        "It was ahead of the propagated ranking at no share of damage. Where a fifth or fewer are damaged do not rely on "
        "it: average precision was .20 behind the instant ranker to .04 ahead, by the event. Its scores order buildings; "
        "they are no probabilities. It does not distinguish damage types."
    ),
    min_positives=5,
    settings=NcpuSettings,
    presets={
        "quick": {},
        "standard": {**STANDARD, "max_steps": 3000, "lr": 0.01, "rare_momentum": 0.9},
        "paper": {
            "backbone": "preact_resnet18",
            "precision": "bf16",
            "epochs": 1300,
            "max_steps": NO_LIMIT,
            "warmup_epochs": 30,
            "batch_size": 128,
            "lr": 1e-4,
            "embedding_dim": 128,
            "projection_hidden": 2048,
            "prediction_hidden": 512,
            "target_momentum": 0.99,
            "rare_momentum": 0.99,
            "rep_weight": 50.0,
            "entropy_weight": 5.0,
        },
    },
    entry="pu_geo.methods.ncpu:fit",
    estimator="NcPU",
)
