"""HeroCon: its settings, presets and card. Imports no torch.

There is no preset `paper`. The paper trains fully connected networks on tables and VGG-16 on faces, with an alpha and a
beta for each data set, none of which is like buildings. What all its trainings share is in reach here: `optimizer=lars`,
`lr=0.05`, `temperature=1`, and all labeled chips in every step. Our alpha and beta are those of its only set of pictures
with two views and several labels (CelebA).
"""

from __future__ import annotations

from dataclasses import dataclass

from pu_geo.methods.settings import NO_LIMIT, STANDARD, MethodCard, NetworkSettings, setting


@dataclass(frozen=True)
class HeroconSettings(NetworkSettings):
    """Settings of HeroCon. Names in parentheses are the paper's symbols."""

    epochs: int = setting(
        100, "Times every unlabeled chip is looked at, unless max_steps ends training before.", min=1, max=5000
    )
    max_steps: int = setting(200, "Steps that training takes at most; at least one epoch is done.", min=1, max=NO_LIMIT)
    batch_size: int = setting(256, "Unlabeled chips per step.", min=2, max=8192)
    labeled_batch: int = setting(
        256, "Labeled chips per step beside them: all where there are fewer, else drawn anew for each step.", min=2, max=2048
    )
    optimizer: str = setting("sgd", "How weights move; the paper uses lars.", choices=("sgd", "lars", "adamw"))
    lr: float = setting(0.05, "Learning rate after warm-up; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(
        0.0, "Pull of the weights towards zero; 0 chooses it, by the share of damage that the clicks speak for.",
        min=0.0, max=10.0,
    )  # fmt: skip
    unsupervised_weight: float = setting(
        0.05, "Weight of pulling the views of a chip together (alpha); 0 leaves it out.", min=0.0, max=1000.0
    )
    supervised_weight: float = setting(
        0.1, "Weight of pulling chips of one kind of damage together (beta); 0 leaves it out.", min=0.0, max=1000.0
    )
    across_dates: bool = setting(
        False,
        "Pull the views of different dates together, too, as the paper does: pre and post then come to be alike, and what "
        "the event changed is lost.",
    )
    temperature: float = setting(1.0, "Scale of similarities; smaller looks at nearer chips (tau).", min=0.01, max=10.0)
    unlabeled_weight: float = setting(
        1.0, "What an unlabeled chip counts as an undamaged one, against a chip that a person called so.", min=0.001, max=1.0
    )
    embedding_dim: int = setting(64, "Length of an embedding; 0 takes what the backbone gives.", min=0, max=2048)


CARD = MethodCard(
    name="herocon",
    title="HeroCon",
    paper="Zheng et al., Contrastive Learning with Complex Heterogeneity (KDD 2022)",
    summary=(
        "Learns several damage types of one building at once, and from buildings marked as not damaged too. Layers, and "
        "the pre and the post image, are views of a building; it does without those that a building lacks."
    ),
    needs="At least 5 damaged buildings, better 10 of each damage type, and some buildings marked as not damaged.",
    cannot=(
        "Takes what is not reviewed for undamaged, and trusts that less where much is damaged; grades are learned from "
        "answers, so grade some buildings of each, and mark some as not damaged. On Joplin's grades it is behind the "
        "propagated ranking, run once a grade. Its scores are no probabilities. Other than in the paper, only views of one "
        "date are pulled together, as pre and post differ by the damage: across_dates gives the paper's form. Layers have "
        "one classifier in common, and what it says of each is added up, where the paper has one on all joined. Of "
        "features, pre+post, which comes with the usual features, is compared with no other layer: features of post, pre "
        "and each layer by itself (--layers post,pre,sar-post) compare SAR after the event with post."
    ),
    min_positives=5,
    settings=HeroconSettings,
    presets={
        "quick": {},
        "standard": {
            **STANDARD,
            "max_steps": 3000,
            "optimizer": "adamw",
            "lr": 1e-4,
            "weight_decay": 0.1,
            "embedding_dim": 128,
        },
    },
    entry="pu_geo.methods.herocon:fit",
    estimator="HeroCon",
    seconds_per_1000=0.6,
    group="types",
    uses_types=True,
    several_types=True,
    takes_layers=True,
)
