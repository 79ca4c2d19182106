"""FedAwS: its settings, presets and card. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import STANDARD, MethodCard, NetworkSettings, setting

SETTLING_BATCH, SETTLING_BATCHES = 64, 64
"""Chips a batch, and batches at most, of the rest that give BatchNorm its statistics."""


@dataclass(frozen=True)
class FedawsSettings(NetworkSettings):
    """Settings of FedAwS. Names in parentheses are the paper's symbols."""

    width: int = setting(256, "Hidden units on cached features; 0 makes the backbone linear.", min=0, max=4096)
    rounds: int = setting(30, "Rounds between clients and server (T).", min=1, max=100_000)
    local_steps: int = setting(5, "Steps that each client takes in a round.", min=1, max=10_000)
    batch_size: int = setting(64, "Chips per step; a client with fewer takes all it has.", min=2, max=8192)
    lr: float = setting(0.1, "Learning rate of clients, and of the server's spreadout step (eta).", min=1e-7, max=10.0)
    server_momentum: float = setting(
        0.0,
        "Part of its last move that the server repeats when it averages; at .9 far fewer rounds are needed. Class vectors "
        "have none.",
        min=0.0,
        max=0.99,
    )
    weight_decay: float = setting(0.01, "Pull of the clients' weights towards zero.", min=0.0, max=1.0)
    embedding_dim: int = setting(64, "Length of an embedding and of a class vector (d).", min=2, max=2048)
    enough: float = setting(
        0.9,
        "Cosine to its class vector from which on a chip is near enough (Eq. 23); at 1 none is (Eq. 11).",
        min=-1.0,
        max=1.0,
    )
    spread: str = setting(
        "margin",
        "What keeps class vectors apart: every pair below a margin (Eq. 7), or the nearest ones of each class (Eq. 8).",
        choices=("margin", "nearest"),
    )
    spread_weight: float = setting(0.5, "Weight of the spreadout (lambda); 0 lets the classes collapse.", min=0.0, max=1e4)
    spread_margin: float = setting(1.0, "Cosine distance from which on two classes are left alone (nu).", min=0.01, max=2.0)
    n_nearest: int = setting(10, "How many classes each one is pushed from with spread nearest (k).", min=1, max=10_000)
    fixed_vectors: bool = setting(False, "Leave class vectors as they were drawn; the paper's second baseline.")
    weighting: str = setting(
        "equal",
        "What a client counts for in the average: as much as any other (the paper), or by its number of chips.",
        choices=("equal", "chips"),
    )
    temperature: float = setting(
        0.25, "Scale of cosines in the score; smaller makes scores more extreme.", min=0.05, max=10.0
    )


_HIDDEN = "It takes damage that is not reviewed for undamaged."
CANNOT = {
    "none": f"{_HIDDEN} What clients send is not proof against reconstruction: there is no noise and no secure "
    "aggregation, and a class "
    "vector reveals something of its class.",
    "local": f"{_HIDDEN} Each member added noise before it sent, which costs accuracy; a class vector still reveals "
    "something of its class.",
    "central": f"{_HIDDEN} The leader added noise, which costs accuracy, and got what members sent without it; a class "
    "vector still reveals "
    "something of its class.",
}
"""What it cannot do, by the noise of its federation."""

CARD = MethodCard(
    name="fedaws",
    title="FedAwS",
    paper="Yu, Rawat, Menon and Kumar, Federated Learning with Only Positive Labels, ICML 2020",
    summary=(
        "For agencies that each label one damage type and may not share imagery: each trains on its own chips alone, "
        "and a server keeps the classes apart. Here all of them run in one process, to try it out."
    ),
    needs=(
        "At least 5 damaged buildings, and damage types where they are known; all other buildings are one class of their "
        "own. A building of several types counts as the rarest of them."
    ),
    cannot=CANNOT["none"],
    min_positives=5,
    settings=FedawsSettings,
    presets={"quick": {}, "standard": {**STANDARD, "rounds": 200, "lr": 0.03, "spread_weight": 1.7, "weight_decay": 1e-4}},
    entry="pu_geo.methods.fedaws:fit",
    estimator="FedAwS",
    group="types",
    uses_types=True,
)
