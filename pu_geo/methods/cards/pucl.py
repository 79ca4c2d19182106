"""PUCL with PUPL: its settings, presets and card. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import NO_LIMIT, MethodCard, NetworkSettings, setting


@dataclass(frozen=True)
class PuclSettings(NetworkSettings):
    """Settings of PUCL with PUPL. Names in parentheses are the paper's symbols."""

    width: int = setting(256, "Hidden units on cached features; 0 makes the backbone linear.", min=0, max=4096)
    loss: str = setting(
        "pucl",
        "Contrastive loss: PUCL, without labels (sscl), or with the unlabeled as one class (scl_pu).",
        choices=("pucl", "sscl", "scl_pu"),
    )
    epochs: int = setting(100, "Times every chip is looked at, unless max_steps ends training before.", min=1, max=5000)
    max_steps: int = setting(2000, "Steps that training takes at most; at least one epoch is done.", min=1, max=NO_LIMIT)
    batch_size: int = setting(256, "Chips per step, each in two views (b).", min=2, max=8192)
    optimizer: str = setting("adamw", "How weights move; the paper uses lars.", choices=("adamw", "lars", "sgd"))
    lr: float = setting(1e-3, "Learning rate after warm-up; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1e-4, "Pull of the weights towards zero.", min=0.0, max=1.0)
    temperature: float = setting(0.5, "Scale of similarities; smaller looks at nearer chips (tau).", min=0.01, max=10.0)
    embedding_dim: int = setting(128, "Length of an embedding (k); 0 takes what the backbone gives.", min=0, max=2048)
    projection_hidden: int = setting(128, "Hidden units of the projection head, which only training uses.", min=2, max=8192)
    projection_dim: int = setting(64, "Output of the projection head (p).", min=2, max=2048)
    projection_norm: bool = setting(False, "Batch normalisation in the projection head, as in the paper.")
    pseudo_labels: str = setting(
        "auto",
        "What the classifier is taught: two clusters (the paper), chances by many small ones, clicks against all others, or "
        "whichever of them puts held-out clicks first (auto).",
        choices=("auto", "two_means", "clusters", "clicks"),
    )
    n_seedings: int = setting(8, "Starts of the pseudo labelling; the best one counts.", min=1, max=256)
    classifier_l2: float = setting(1e-3, "Pull of the linear classifier towards zero.", min=1e-8, max=10.0)


CARD = MethodCard(
    name="pucl",
    title="PUCL + PUPL",
    paper="Contrastive Positive Unlabeled Learning (PUCL and PUPL)",
    summary=(
        "Learns embeddings in which damaged buildings are close, splits them into clusters, and trains a linear classifier "
        "on the result. A second opinion where a third or more are damaged; its embeddings suit the Explore page."
    ),
    needs="At least 5 damaged buildings, better 30.",
    cannot=(
        "Where a fifth or fewer are damaged do not use it: average precision was .06 behind the instant ranker to .06 ahead "
        "at a fifth, and .06 to .21 behind at 5 % and below. Clusters follow what splits the scene most, which need not be "
        "damage; held-out clicks choose what the classifier is taught, and the run says where they cannot tell. Then "
        "rounding can decide: another processor or bf16 can give another order (rank correlation .89; else .98 to .99). Its "
        "scores order buildings; they are no probabilities."
    ),
    min_positives=5,
    settings=PuclSettings,
    presets={
        "quick": {},
        "standard": {
            "backbone": "resnet18",
            "precision": "bf16",
            "epochs": 200,
            "max_steps": 20_000,
            "embedding_dim": 0,
            "projection_hidden": 512,
            "projection_dim": 128,
            "projection_norm": True,
        },
        "paper": {
            "backbone": "resnet18",
            "epochs": 200,
            "max_steps": NO_LIMIT,
            "batch_size": 1024,
            "optimizer": "lars",
            "lr": 1.2,
            "augmentation": "natural",
            "embedding_dim": 0,
            "projection_hidden": 512,
            "projection_dim": 128,
            "projection_norm": True,
            "pseudo_labels": "two_means",
        },
    },
    entry="pu_geo.methods.pucl:fit",
    estimator="PUCL",
    seconds_per_1000=4.0,
    min_views=2,
)
