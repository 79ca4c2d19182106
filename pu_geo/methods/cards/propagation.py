"""Propagated ranking: its settings, preset and card. Imports no torch.

The defaults were chosen on the sets that docs/tables.md, "Is the default ever behind the linear ranker?", calls "chosen on".
"""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import MethodCard, NetworkSettings, setting

NEIGHBORS = "on"  # whether evidence from place is used where nobody chooses: "off" or "on"
MOST_UNLABELED = 20_000  # unlabeled chips that are learned from; of more, so many are drawn


@dataclass(frozen=True)
class PropagationSettings(NetworkSettings):
    """Settings of the propagated ranking."""

    damaged_share: float = setting(
        0.0,
        "Share of damaged among the unlabeled, such as from an accuracy assessment; 0 guesses it from the clicks.",
        min=0.0,
        max=1.0,
    )
    whitening: float = setting(
        0.35, "How far directions in which chips vary little are stretched: 0 not at all, 0.5 until all vary alike.",
        min=0.0, max=0.5,
    )  # fmt: skip
    even_share: float = setting(
        0.2,
        "Damaged share at which whitened and propagated scores count the same, as far as held-out clicks do not say else.",
        min=0.001,
        max=1.0,
    )
    n_neighbors: int = setting(10, "Chips that each one is tied to (k).", min=1, max=200)
    propagation: float = setting(
        0.98, "How far scores travel from neighbor to neighbor (alpha); 0 not at all.", min=0.0, max=0.999
    )
    embedding_dim: int = setting(64, "Widest directions in which neighbors are looked for.", min=2, max=1024)
    n_anchors: int = setting(
        4096, "Chips that scores are propagated among; all others take theirs from the nearest of these.", min=50, max=20_000
    )
    neighbors: str = setting(
        NEIGHBORS,
        "Whether scores of the buildings around a building (60 m, at most 180 m) count for it, too: as much as held-out "
        "clicks bear it out, not at all where damage is not clustered.",
        choices=("off", "on"),
    )


CARD = MethodCard(
    name="propagation",
    title="Propagated ranking",
    paper=(
        "Ours, of known parts: Elkan and Noto (KDD 2008) for the share, Zhou et al., Learning with Local and Global "
        "Consistency (NeurIPS 2003) for the propagation"
    ),
    summary=(
        "Spreads your labels to look-alike buildings. Some labels are held out inside to balance this against a plain "
        "ranking."
    ),
    needs="At least 5 damaged buildings, better 10 or more. Nothing to tune: seconds on a laptop.",
    cannot=(
        "Its scores order buildings; they are no probabilities. It works on frozen features, so it finds no damage that "
        "these do not show."
    ),
    min_positives=5,
    settings=PropagationSettings,
    presets={"quick": {}},
    entry="pu_geo.methods.propagation:fit",
    group="default",
    estimator="PropagatedRanking",
    score_type="linear",
    uses_place=True,
    averages_features=True,
)
