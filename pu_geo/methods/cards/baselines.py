"""Baselines: cross entropy, uPU, nnPU, these with NcPU's noisy-pair loss, supervised, linear. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pu_geo.methods.settings import NO_LIMIT, STANDARD, MethodCard, NetworkSettings, setting

PRIOR_UNLABELED = 3000  # unlabeled chips that an estimate of the class prior uses
GUESSED_PRIORS = (0.05, 0.35)
"""Between these a class prior that is guessed from clicks is kept. Below, risks order badly (`baselines.PRIOR_RANGE`);
above, being wrong
costs most: with .35 in place of .5 the AP of uPU and nnPU, 30 clicks, was .02 lower on Joplin (58 % damaged), and higher by
.10 where 20 % of it are and by .01 and .32 on Harvey with 5 %."""


@dataclass(frozen=True)
class BatchSettings(NetworkSettings):
    """How the baselines with a network are trained."""

    epochs: int = setting(
        100, "Times every unlabeled chip is looked at, unless max_steps ends training before.", min=1, max=5000
    )
    max_steps: int = setting(500, "Steps that training takes at most; at least one epoch is done.", min=1, max=NO_LIMIT)
    batch_size: int = setting(128, "Chips per step.", min=4, max=8192)
    positive_share: float = setting(
        0.25, "Share of each batch that is drawn from the positives, again and again where they are few.", min=0.01, max=0.9
    )
    optimizer: str = setting("sgd", "How weights move; networks from chips learn faster by adamw.", choices=("sgd", "adamw"))
    lr: float = setting(0.01, "Learning rate at the start; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(
        0.5, "Pull of the weights towards zero; on cached features the linear ranking's l2.", min=0.0, max=10.0
    )
    grad_clip: float = setting(30.0, "Longest gradient that is let through.", min=1e-3, max=1e6)


@dataclass(frozen=True)
class CrossEntropySettings(BatchSettings):
    """Settings of cross entropy with the unlabeled taken for undamaged."""

    balanced: bool = setting(True, "Let positives and unlabeled weigh one half each; else every chip weighs the same.")


@dataclass(frozen=True)
class SupervisedSettings(BatchSettings):
    """Settings of training on labels alone."""


@dataclass(frozen=True)
class UpuSettings(BatchSettings):
    """Settings of uPU. Names in parentheses are the papers' symbols."""

    class_prior: float = setting(
        0.0, "Share of damaged among the unlabeled (pi); 0 guesses it from the clicks, .05 to .35.", min=0.0, max=1.0
    )
    surrogate: str = setting(
        "logistic",
        "What a wrong margin costs: at most 1 (sigmoid), or more and more (logistic).",
        choices=("sigmoid", "logistic"),
    )


@dataclass(frozen=True)
class NnpuSettings(UpuSettings):
    """Settings of nnPU. Names in parentheses are the papers' symbols."""

    when_negative: str = setting(
        "undo",
        "Where the risk of the undamaged falls below zero: step back (Kiryo et al.), or count it as zero (PUCL, Eq. 13).",
        choices=("undo", "clip"),
    )
    beta: float = setting(0.0, "How far it may fall below zero before a step back (beta).", min=0.0, max=1.0)
    gamma: float = setting(1.0, "Share of the learning rate with which a step back is taken (gamma).", min=0.0, max=1.0)


@dataclass(frozen=True)
class PairSettings(BatchSettings):
    """What NcPU's noisy-pair loss adds. Names in parentheses are the paper's symbols."""

    max_steps: int = setting(300, "Steps that training takes at most; at least one epoch is done.", min=1, max=NO_LIMIT)
    width: int = setting(64, "Hidden units on cached features; with 0 the pairs have nothing to teach.", min=0, max=4096)
    optimizer: str = setting("adamw", "How weights move; the NcPU paper uses sgd.", choices=("sgd", "adamw"))
    lr: float = setting(3e-3, "Learning rate at the start; it falls to zero along a cosine.", min=1e-7, max=10.0)
    weight_decay: float = setting(1.0, "Pull of the weights towards zero.", min=0.0, max=10.0)
    rep_weight: float = setting(1.0, "Weight of the noisy-pair robust loss (w_r).", min=0.0, max=1000.0)
    agreement: float = setting(
        0.5, "Chance of one class from which two chips are pulled together (tau); 0.5: the same predicted class.",
        min=0.0, max=1.0,
    )  # fmt: skip
    embedding_dim: int = setting(64, "Length of an embedding.", min=2, max=2048)
    projection_hidden: int = setting(128, "Hidden units of the projection head.", min=2, max=8192)
    prediction_hidden: int = setting(128, "Hidden units of the prediction head.", min=2, max=8192)
    ema_momentum: float = setting(0.99, "How slowly the EMA target follows the online network.", min=0.0, max=1.0)


@dataclass(frozen=True)
class UpuPairSettings(PairSettings, UpuSettings):
    """Settings of uPU with the noisy-pair loss."""


@dataclass(frozen=True)
class NnpuPairSettings(PairSettings, NnpuSettings):
    """Settings of nnPU with the noisy-pair loss."""


@dataclass(frozen=True)
class LinearSettings(NetworkSettings):
    """Settings of the logistic regression."""

    l2: float = setting(0.5, "Pull of the coefficients towards zero; more where much is damaged.", min=1e-6, max=1e3)


_STANDARD = {**STANDARD, "max_steps": 3000, "optimizer": "adamw", "lr": 1e-4, "weight_decay": 0.1}
# NcPU, Appendix H, trains risk estimators on CIFAR-100 with 1,000 positives and 20,000 unlabeled: ResNet-18, SGD 0.9, lr
# 0.001 along a cosine, w_r 100, tau 0.2. 1,300 epochs are Appendix F's. Ours, as it does not say: shares of a batch (those
# of the data), surrogate, beta and gamma (Kiryo et al.). The rest is its published recipe for CIFAR. Its Table 3 has the
# real class prior: set class_prior.
_PAPER = {
    "backbone": "preact_resnet18", "precision": "bf16", "augmentation": "natural", "epochs": 1300, "max_steps": NO_LIMIT,
    "batch_size": 256, "positive_share": 0.05, "optimizer": "sgd", "lr": 1e-3, "weight_decay": 1e-3, "surrogate": "sigmoid",
}  # fmt: skip
_PAPER_PAIRS = {
    **_PAPER,
    "rep_weight": 100.0,
    "agreement": 0.2,
    "embedding_dim": 128,
    "projection_hidden": 2048,
    "prediction_hidden": 512,
}
_ORDER = "Its scores order buildings; they are no probabilities."
_PRIOR = (
    "At least 5 damaged buildings, better 30, and the share damaged among those not reviewed, which labels can only guess."
)
_RARE = f"{_ORDER} The share it needs is guessed from your labels unless you set it, and its order depends on it."
_PAIRED_RARE = f"{_RARE} Where few are damaged, or few are labeled, the pairs can pull damage and the rest into one."
_UPU = "du Plessis, Niu and Sugiyama, Analysis of Learning from Positive and Unlabeled Data (NeurIPS 2014)"
_NNPU = "Kiryo et al., Positive-Unlabeled Learning with Non-Negative Risk Estimator (NeurIPS 2017)"
_NCPU = "Zhao et al., Noisy-Pair Robust Representation Alignment for Positive-Unlabeled Learning, Table 3"
_PAIRED = "and pulls together the embeddings of chips that it takes for one class, as NcPU does."

_card = partial(MethodCard, min_positives=5, entry="pu_geo.methods.baselines:fit", group="baseline")

CARDS = (
    _card(
        name="linear",
        estimator="LinearRanking",
        title="Linear ranking",
        paper="None: logistic regression, the baseline of every other method",
        summary=(
            "The instant ranker as a method: a logistic regression of damaged against not reviewed buildings, both "
            "weighing the same."
        ),
        needs="At least 1 damaged building, better 10.",
        cannot=f"{_ORDER} It takes what is not reviewed for undamaged, so it falls behind where much is damaged.",
        min_positives=1,
        settings=LinearSettings,
        presets={"quick": {}},
        entry="pu_geo.methods.linear:fit",
        score_type="linear",
    ),
    _card(
        name="ce",
        estimator="CrossEntropy",
        title="Cross entropy",
        paper="None: the simplest baseline, CE in the NcPU paper",
        summary="Trains a network as if every building that is not reviewed were undamaged.",
        needs="At least 5 damaged buildings, better 30.",
        cannot=f"{_ORDER} The more damage is not reviewed yet, the more it learns to call damage undamaged.",
        settings=CrossEntropySettings,
        presets={"quick": {}, "standard": _STANDARD},
    ),
    _card(
        name="upu",
        estimator="UPU",
        title="uPU",
        paper=_UPU,
        summary="Corrects cross entropy for the damage among the buildings not reviewed; it needs to know the share.",
        needs=_PRIOR,
        cannot=f"{_RARE} A network that overfits drives its risk below zero: nnPU mends that.",
        settings=UpuSettings,
        presets={"quick": {}, "standard": _STANDARD, "paper": _PAPER},
    ),
    _card(
        name="nnpu",
        estimator="NNPU",
        title="nnPU",
        paper=_NNPU,
        summary="uPU that notices when it overfits, and takes a step back then.",
        needs=_PRIOR,
        cannot=_RARE,
        settings=NnpuSettings,
        presets={"quick": {}, "standard": _STANDARD, "paper": _PAPER},
    ),
    _card(
        name="upu+noisncl",
        estimator="UPUNoiSNCL",
        title="uPU + noisy pairs",
        paper=_NCPU,
        summary=f"uPU, {_PAIRED}",
        needs=_PRIOR,
        cannot=_PAIRED_RARE,
        settings=UpuPairSettings,
        presets={"quick": {}, "standard": _STANDARD, "paper": _PAPER_PAIRS},
    ),
    _card(
        name="nnpu+noisncl",
        estimator="NNPUNoiSNCL",
        title="nnPU + noisy pairs",
        paper=_NCPU,
        summary=f"nnPU, {_PAIRED}",
        needs=_PRIOR,
        cannot=_PAIRED_RARE,
        settings=NnpuPairSettings,
        presets={"quick": {}, "standard": _STANDARD, "paper": _PAPER_PAIRS},
    ),
    _card(
        name="supervised",
        estimator="SupervisedBaseline",
        title="Supervised",
        paper="None: what the labels alone are worth",
        summary="Learns from buildings marked damaged and not damaged alone.",
        needs="At least 5 damaged and 5 not damaged buildings, better 30 of each, drawn evenly.",
        cannot=f"{_ORDER} It knows nothing of kinds of undamaged buildings that nobody marked.",
        settings=SupervisedSettings,
        presets={"quick": {}, "standard": _STANDARD},
        entry="pu_geo.methods.baselines:fit_supervised",
        min_not_damaged=5,
    ),
)
