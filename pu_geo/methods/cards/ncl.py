"""NCL: its settings, presets and card. Imports no torch.

There is no preset `paper`: our notes on the method give its formulas, but neither network nor optimiser, epochs or weights
of the losses. The published settings that we know of are the defaults here: `temperature` 0.05, `self_weight` 0.2,
`queue_size` 2000, `threshold` 0.95, and neighbors for half of what a cluster has in the queue. All other values are ours,
`pair_rule` among them: on cached features of Joplin 1 pair in 3,000 has a cosine of 0.95 at first, and 1 in 400 at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import NO_LIMIT, STANDARD, MethodCard, NetworkSettings, setting


@dataclass(frozen=True)
class NclSettings(NetworkSettings):
    """Settings of NCL. Names in parentheses are the notes' symbols."""

    width: int = setting(256, "Hidden units on cached features; 0 looks straight at them.", min=0, max=4096)
    n_new: int = setting(
        5, "Clusters that the unlabeled are sorted into (C^u); a run warns where its embeddings suggest another number.",
        min=2, max=200,
    )  # fmt: skip
    epochs: int = setting(
        70, "Times every unlabeled chip is looked at, unless max_steps ends training before.", min=1, max=5000
    )
    max_steps: int = setting(600, "Steps that training takes at most; at least one epoch is done.", min=1, max=NO_LIMIT)
    batch_size: int = setting(128, "Unlabeled chips per step.", min=2, max=2048)
    labeled_batch: int = setting(
        64, "Labeled chips per step beside them: all where there are fewer, else drawn anew each step.", min=2, max=2048
    )
    optimizer: str = setting("adamw", "How weights move.", choices=("adamw", "lars", "sgd"))
    lr: float = setting(2e-3, "Learning rate after warm-up; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1e-3, "Pull of the weights towards zero.", min=0.0, max=10.0)
    embedding_dim: int = setting(64, "Length of an embedding; 0 takes what the backbone gives.", min=0, max=2048)
    pair_rule: str = setting(
        "nearest",
        "Which pairs of a batch are taken for one category: the nearest ones, half of what clusters of equal size would "
        "hold, or all from a cosine on (the notes).",
        choices=("nearest", "cosine"),
    )
    threshold: float = setting(0.95, "Cosine from which on pair_rule cosine takes two chips for one category (gamma).",
                               min=-1.0, max=1.0)  # fmt: skip
    pair_weight: float = setting(
        1.0, "Weight of sorting such pairs into one cluster and all others apart.", min=0.0, max=1e3
    )
    consistency_weight: float = setting(
        20.0, "Weight of answering alike on two views of a chip, once it has ramped up.", min=0.0, max=1e4
    )
    ramp_share: float = setting(0.5, "Share of the epochs over which that weight ramps up.", min=0.0, max=1.0)
    neighbor_weight: float = setting(1.0, "Weight of pulling unlabeled chips to their nearest ones.", min=0.0, max=1e3)
    supervised_weight: float = setting(1.0, "Weight of pulling labeled chips to those of their class.", min=0.0, max=1e3)
    temperature: float = setting(0.05, "Scale of similarities; smaller looks at nearer chips (tau).", min=0.01, max=10.0)
    self_weight: float = setting(0.2, "Share of a chip's own other view in its pull; neighbors get the rest (alpha).",
                                 min=0.0, max=1.0)  # fmt: skip
    queue_size: int = setting(
        2000, "Embeddings remembered of unlabeled chips, and as many of labeled ones.", min=1, max=100_000
    )
    n_neighbors: int = setting(
        0, "Neighbors that a chip is pulled to (k); 0 takes half of what a cluster has in the queue.", min=0, max=100_000
    )
    n_easy: int = setting(64, "Far queue items that hard negatives are mixed from, for each chip.", min=1, max=10_000)
    n_hard: int = setting(16, "Hard negatives that are kept, for each chip; 0 makes none.", min=0, max=10_000)
    smoothing: float = setting(
        5.0,
        "Chips with the average share of positives that are added to each cluster before it is judged.",
        min=0.01,
        max=1e6,
    )
    softness: float = setting(
        5.0,
        "How much chips count for neighboring clusters in the score; 1 as trained, which orders coarsely.",
        min=0.1,
        max=1e3,
    )


CARD = MethodCard(
    name="ncl",
    title="NCL",
    paper="Zhong et al., Neighborhood Contrastive Learning for Novel Class Discovery (CVPR 2021)",
    summary=(
        "Sorts the buildings not reviewed into types, guided by the types named so far, to find those without a name. "
        "A building scores high where its cluster holds many damaged ones."
    ),
    needs=(
        "At least 5 damaged buildings, and the number of clusters to look for. Two damage types or more, or buildings "
        "marked as not damaged, guide it better: a single class gives nothing to compare with. A building of several types "
        "counts as the rarest of them."
    ),
    cannot=(
        "It cannot name a cluster: each is a guess until a person has looked at it. Its estimate of their number is crude. "
        "Where damage looks alike everywhere, the instant ranking orders better."
    ),
    min_positives=5,
    settings=NclSettings,
    presets={"quick": {}, "standard": {**STANDARD, "epochs": 200, "max_steps": 3000, "lr": 1e-4, "embedding_dim": 128}},
    entry="pu_geo.methods.ncl.ncl:fit",
    estimator="NCL",
    seconds_per_1000=1.1,
    min_views=2,
    group="types",
    uses_types=True,
)
