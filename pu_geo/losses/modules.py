"""The losses as `nn.Module`s: settings go to the constructor, tensors to `forward`.

Each calls the function of the same formula with the tensors that it is given, which names the source, their shapes, the
range of the value and the edge cases; a module holds no weights and no state. What the function takes by name alone, so
does the module. A setting can be changed later (`loss.temperature = 0.1`), is checked then as by the constructor, and counts
from the next call on.

Shared terms. B chips, D elements of an embedding, C classes, V views, Q items of a queue. `is_positive` holds bools, or
integers that are 0 or 1: 1 = positive, 0 = unlabeled; anything else is refused. Embeddings are normalized inside; float16
and bfloat16 are computed in float32, also under `torch.autocast`, and so are the gradients where `backward` is called under
it; float64 stays. Every loss is a scalar to call `backward` on, but for `reduction="none"`.

The papers, and where to find them:

- PUCL: Acharya et al., Understanding Contrastive Representation Learning from Positive Unlabeled (PU) Data, 2024,
  arXiv:2402.06038. Equation numbers are those of its earlier text, Contrastive Positive Unlabeled Learning.
- NcPU: Zhao et al., Noisy-Pair Robust Representation Alignment for Positive-Unlabeled Learning, ICLR 2026, arXiv:2510.01278.
- uPU: du Plessis, Niu, Sugiyama, Analysis of Learning from Positive and Unlabeled Data, NeurIPS 2014 (has no DOI).
- nnPU: Kiryo et al., Positive-Unlabeled Learning with Non-Negative Risk Estimator, NeurIPS 2017, arXiv:1703.00593.
- NCL: Zhong et al., Neighborhood Contrastive Learning for Novel Class Discovery, CVPR 2021, arXiv:2106.10731.
- HeroCon: Zheng et al., Contrastive Learning with Complex Heterogeneity, KDD 2022, doi:10.1145/3534678.3539311.
- FedAwS: Yu et al., Federated Learning with Only Positive Labels, ICML 2020, arXiv:2004.10342.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, cast, dataclass_transform, get_args

import torch
from torch import Tensor, nn

from pu_geo.errors import ShapeError
from pu_geo.losses.contrastive import dcl_loss, mcl_loss, pucl_loss, scl_loss, scl_pu_loss, sscl_loss
from pu_geo.losses.herocon import multi_view_loss, single_view_loss, supervised_loss
from pu_geo.losses.herocon import total_loss as herocon_total
from pu_geo.losses.inputs import (
    as_bools,
    require_above_0,
    require_at_least,
    require_below_1,
    require_one_of,
    require_tensor,
    require_within,
)
from pu_geo.losses.ncpu import (
    VARIANTS,
    Variant,
    classification_loss,
    entropy,
    label_cross_entropy,
    noisy_pair_loss,
    same_class_alignment,
    same_class_pairs,
    self_alignment,
)
from pu_geo.losses.ncpu import total_loss as ncpu_total
from pu_geo.losses.neighborhood import consistency_loss, neighborhood_loss, pair_cross_entropy, supervised_queue_loss
from pu_geo.losses.pu_risk import SURROGATES, Surrogate, nnpu_risk, nnpu_risk_clipped, upu_risk
from pu_geo.losses.spreadout import (
    DISTANCES,
    Distance,
    class_contrastive_loss,
    nearest_spreadout_loss,
    positive_contrastive_loss,
    positive_hinge_loss,
    spreadout_contrastive_loss,
    spreadout_loss,
)

Reduction = Literal["mean", "none"]

_at_least_0 = partial(require_at_least, low=0)
_share = partial(require_within, low=0, high=1)
_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "temperature": require_above_0,
    "margin": require_above_0,
    "same_class_share": require_below_1,
    "supervised_share": _share,
    "class_prior": _share,
    "gamma": _share,
    "self_weight": _share,
    "agreement": _share,
    "enough": partial(require_within, low=-1, high=1),
    "beta": _at_least_0,
    "floor": _at_least_0,
    "rep_weight": _at_least_0,
    "entropy_weight": _at_least_0,
    "unsupervised_weight": _at_least_0,
    "supervised_weight": _at_least_0,
    "k": partial(require_at_least, low=1),
    "surrogate": partial(require_one_of, words=SURROGATES),
    "variant": partial(require_one_of, words=VARIANTS),
    "distance": partial(require_one_of, words=DISTANCES),
    "reduction": partial(require_one_of, words=get_args(Reduction)),
}


@dataclass_transform(kw_only_default=True, eq_default=False)
class _Loss(nn.Module):
    """A loss with its settings, which are fields, and the function of its formula."""

    formula: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, formula: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        if formula is not None:
            cls.formula = staticmethod(formula)

    def __post_init__(self) -> None:
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CHECKS:
            _CHECKS[name](name, value)
        super().__setattr__(name, value)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {item.name: getattr(self, item.name) for item in fields(cast(Any, self))}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())

    def forward(self, *tensors: Any, **named: Any) -> Tensor:
        """Compute the formula of what its function takes beside the settings."""
        found: Tensor = self.formula(*tensors, **named, **self.settings)
        return found


class _LossOfChips(_Loss):
    """A loss that its function gives chip by chip; "mean" over the chips of the batch, or "none" for one value a chip."""

    reduction: Reduction = "mean"

    def forward(self, *tensors: Any, **named: Any) -> Tensor:
        """Compute the formula of what its function takes beside the settings, and its mean over the chips."""
        terms = {name: value for name, value in self.settings.items() if name != "reduction"}
        each: Tensor = self.formula(*tensors, **named, **terms)
        return each.mean() if self.reduction == "mean" else each


class SSCLLoss(_Loss, formula=sscl_loss):
    """Self-supervised contrastive loss of two views (ssCL; also known as NT-Xent, InfoNCE, the loss of SimCLR).

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import SSCLLoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = SSCLLoss(temperature=0.5)(z1, z2)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(e^2 + 4) - 2
        0.4327
    """

    temperature: float = 0.5


class SupConLoss(_Loss, formula=scl_loss):
    """Supervised contrastive loss of two views (SupCon; SCL in the PUCL paper), for any number of classes.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import SupConLoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = SupConLoss(temperature=0.5)(z1, z2, torch.tensor([0, 2, 2]))
        >>> loss.backward()
        >>> round(loss.item(), 4)
        1.3215
    """

    temperature: float = 0.5


SCLLoss = SupConLoss


class SCLPULoss(_Loss, formula=scl_pu_loss):
    """Supervised contrastive loss that takes the unlabeled for a class of their own (SCL-PU); biased with few positives.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import SCLPULoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = SCLPULoss(temperature=0.5)(z1, z2, torch.tensor([1, 1, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)
        1.3215
    """

    temperature: float = 0.5


class PUCLLoss(_Loss, formula=pucl_loss):
    """Positive-unlabeled contrastive loss (PUCL, puCL): positives pull each other, an unlabeled chip its own view only.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import PUCLLoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = PUCLLoss(temperature=0.5)(z1, z2, torch.tensor([1, 1, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # a third of log(e^2 + 4) - 2, two of log(e^2 + 4) - 2/3
        1.3215
    """

    temperature: float = 0.5


class MCLLoss(_Loss, formula=mcl_loss):
    """Mixed contrastive loss (MCL): SCL-PU and ssCL in fixed parts.

    Args:
        supervised_share: lambda of the paper, 0..1; 0 is `SSCLLoss`, 1 is `SCLPULoss`.
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import MCLLoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = MCLLoss(supervised_share=0.5)(z1, z2, torch.tensor([1, 1, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # the mean of ssCL 0.4327 and SCL-PU 1.3215
        0.8771
    """

    supervised_share: float
    temperature: float = 0.5


class DCLLoss(_Loss, formula=dcl_loss):
    """Debiased contrastive loss (DCL): ssCL without the share of the negatives that are expected to be of one's own class.

    Args:
        same_class_share: lambda of PUCL, in [0, 1); 0 is `SSCLLoss`.
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import DCLLoss
        >>> z1, z2 = torch.eye(3, requires_grad=True), torch.eye(3)
        >>> loss = DCLLoss(same_class_share=0.1)(z1, z2)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(1 + (4 - 0.4 e^2) / 0.9 / e^2)
        0.1459
    """

    same_class_share: float
    temperature: float = 0.5


class SelfAlignmentLoss(_Loss, formula=self_alignment):
    """Non-contrastive alignment of two views of one chip, as in BYOL (and SimSiam, with the same network as target).

    Example:
        >>> import torch
        >>> from pu_geo.losses import SelfAlignmentLoss
        >>> online, target = torch.eye(2, requires_grad=True), torch.tensor([[0.6, 0.8], [0.0, 1.0]])
        >>> loss = SelfAlignmentLoss()(online, target)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 2 (1 - 0.6) and 0
        0.4
    """


class SameClassAlignmentLoss(_Loss, formula=same_class_alignment):
    """Non-contrastive alignment of all chips of one pseudo class, every pair alike; kept to compare with `NoiSNCLLoss`.

    Example:
        >>> import torch
        >>> from pu_geo.losses import SameClassAlignmentLoss
        >>> online, target = torch.eye(2, requires_grad=True), torch.tensor([[0.6, 0.8], [0.0, 1.0]])
        >>> loss = SameClassAlignmentLoss()(online, target, torch.ones(2, 2, dtype=torch.bool))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # cosines 0.6, 0, 0.8 and 1
        0.8
    """


class NoiSNCLLoss(_Loss, formula=noisy_pair_loss):
    """Noisy-pair robust supervised non-contrastive loss (NoiSNCL): of the chips of one pseudo class, wrong pairs pull least.

    Args:
        variant: "paper", or "released" for the published recipe; see `noisy_pair_loss`.
        floor: smallest 1 - cosine under the root, 0 or more.

    Example:
        >>> import torch
        >>> from pu_geo.losses import NoiSNCLLoss
        >>> online, target = torch.eye(2, requires_grad=True), torch.tensor([[0.6, 0.8], [0.0, 1.0]])
        >>> loss = NoiSNCLLoss()(online, target, torch.eye(2, dtype=torch.bool))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 2 sqrt(1 - 0.6) and 0
        0.6325
    """

    variant: Variant = "paper"
    floor: float = 1e-12


class LDCELoss(_LossOfChips, formula=label_cross_entropy):
    """Label-disambiguation cross entropy (LDCE) to soft pseudo targets.

    Args:
        reduction: "mean" over the batch, or "none".

    Example:
        >>> import torch
        >>> from pu_geo.losses import LDCELoss
        >>> logits = torch.zeros(1, 2, requires_grad=True)
        >>> loss = LDCELoss()(logits, torch.tensor([[0.25, 0.75]]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log 2
        0.6931
    """


class NcPUClassificationLoss(_Loss, formula=classification_loss):
    """The classifier's part of NcPU: mean LDCE over the positives plus mean LDCE over the unlabeled.

    Example:
        >>> import torch
        >>> from pu_geo.losses import NcPUClassificationLoss
        >>> logits, is_positive = torch.zeros(2, 2, requires_grad=True), torch.tensor([1, 0])
        >>> loss = NcPUClassificationLoss()(logits, torch.tensor([[0.0, 1.0], [0.5, 0.5]]), is_positive)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 2 log 2
        1.3863
    """


class EntropyLoss(_Loss, formula=entropy):
    """Mean entropy of the predictions (entropy minimization), in nats.

    Example:
        >>> import torch
        >>> from pu_geo.losses import EntropyLoss
        >>> logits = torch.zeros(2, 2, requires_grad=True)
        >>> loss = EntropyLoss()(logits)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log 2
        0.6931
    """


class NcPULoss(_Loss):
    """All of NcPU's loss for a batch: LDCE, NoiSNCL over the pairs of one predicted class, and entropy.

    It keeps nothing between batches. The pseudo targets come from `start_pseudo_targets`, `updated_prototypes`,
    `nearest_prototype`, `updated_pseudo_targets`, `updated_threshold` and `phantom_gate`; `pu_geo.methods.ncpu` is the
    whole of Algorithm 1.

    Source: NcPU, Eq. 14 and the text below it (arXiv:2510.01278).

    Args:
        rep_weight: w_r, 0 or more; 50 in the paper.
        entropy_weight: w_ent, 0 or more; the paper takes 0.5 to 5, after its warm-up.
        variant: "paper", or "released" for the published recipe; of NoiSNCL and of the pair mask.
        agreement: p_i . p_j from which on two chips are a pair, with "released" alone.

    Shape:
        ============== ============== =============================================
        logits         float [B, 2]   of the weak view; column 1 = damaged
        online         float [B, D]   of a strong view, from the online network
        target         float [B, D]   of another one, from the EMA target; no gradient
        pseudo_targets float [B, 2]   rows sum to 1; get no gradient
        is_positive    bool or 0/1 [B]
        same_class     bool or 0/1 [B, B]; None takes `same_class_pairs` of the logits
        returns        scalar         0 or more
        ============== ============== =============================================

    Departs from the source: as `noisy_pair_loss`, which has a floor.

    Example:
        >>> import torch
        >>> from pu_geo.losses import NcPULoss, start_pseudo_targets
        >>> logits, is_positive = torch.zeros(2, 2, requires_grad=True), torch.tensor([1, 0])
        >>> online, target = torch.eye(2, requires_grad=True), torch.tensor([[0.6, 0.8], [0.0, 1.0]])
        >>> loss = NcPULoss(rep_weight=50.0)(logits, online, target, start_pseudo_targets(is_positive), is_positive)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 2 log 2 + 50 * 1.0398
        53.378
    """

    rep_weight: float = 50.0
    entropy_weight: float = 0.0
    variant: Variant = "paper"
    agreement: float = 0.5

    def forward(
        self,
        logits: Tensor,
        online: Tensor,
        target: Tensor,
        pseudo_targets: Tensor,
        is_positive: Tensor,
        same_class: Tensor | None = None,
    ) -> Tensor:
        """Compute `classification_loss`, `noisy_pair_loss` and `entropy`, and add them up."""
        if same_class is None:
            same_class = same_class_pairs(logits, variant=self.variant, agreement=self.agreement)
        return ncpu_total(
            classification_loss(logits, pseudo_targets, is_positive),
            noisy_pair_loss(online, target, same_class, variant=self.variant),
            entropy(logits),
            rep_weight=self.rep_weight,
            entropy_weight=self.entropy_weight,
        )


class UPULoss(_Loss, formula=upu_risk):
    """Unbiased risk of positives and unlabeled chips (uPU); it can fall below 0, where a network overfits.

    Args:
        class_prior: share of positives among the unlabeled, 0..1.
        surrogate: "sigmoid" or "logistic".

    Example:
        >>> import torch
        >>> from pu_geo.losses import UPULoss
        >>> margins = torch.tensor([3.0, 4.0]).log().requires_grad_()
        >>> loss = UPULoss(class_prior=0.4)(margins, torch.tensor([1, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 0.4 / 4 + 4 / 5 - 0.4 * 3 / 4
        0.6
    """

    class_prior: float
    surrogate: Surrogate = "sigmoid"


class NNPULoss(_Loss):
    """Non-negative risk of positives and unlabeled chips (nnPU): where a batch overfits, it steps uphill to undo it.

    The value is the risk of the paper, for the log. The gradient is that of the objective which the paper differentiates:
    where the undamaged part is below -beta, it is another one than that of the value. `loss.backward()` is right in both
    cases.

    Source: Kiryo et al., NeurIPS 2017, Algorithm 1 (arXiv:1703.00593).

    Args:
        class_prior: share of positives among the unlabeled, 0..1.
        surrogate: "sigmoid" or "logistic".
        beta: how far the undamaged part may fall below 0, at least 0.
        gamma: share of the learning rate with which the uphill step is taken, 0..1.

    Shape:
        ============ ============== =====================================
        margins      float [B]      above 0 = damaged; logits[:, 1] - logits[:, 0]
        is_positive  bool or 0/1 [B]
        returns      scalar         at least -beta
        ============ ============== =====================================

    Example:
        >>> import torch
        >>> from pu_geo.losses import NNPULoss
        >>> margins = torch.tensor([3.0, 0.25]).log().requires_grad_()
        >>> loss = NNPULoss(class_prior=0.4)(margins, torch.tensor([1, 0]))
        >>> loss.backward()  # the undamaged part is 1/5 - 0.4 * 3/4 = -0.1: uphill for it, so the unlabeled margin rises
        >>> round(loss.item(), 4), bool(margins.grad[1] < 0)
        (0.1, True)
    """

    class_prior: float
    surrogate: Surrogate = "sigmoid"
    beta: float = 0.0
    gamma: float = 1.0

    def forward(self, margins: Tensor, is_positive: Tensor) -> Tensor:
        """Compute `nnpu_risk`: its reported value, with the gradient of its differentiated one."""
        risk = nnpu_risk(margins, is_positive, **self.settings)
        return risk.reported + (risk.differentiated - risk.differentiated.detach())


class ClippedNNPULoss(_Loss, formula=nnpu_risk_clipped):
    """nnPU with a negative undamaged part counted as 0: such a batch teaches from its positives alone.

    Args:
        class_prior: share of positives among the unlabeled, 0..1.
        surrogate: "sigmoid" or "logistic".

    Example:
        >>> import torch
        >>> from pu_geo.losses import ClippedNNPULoss
        >>> margins = torch.tensor([3.0, 0.25]).log().requires_grad_()
        >>> loss = ClippedNNPULoss(class_prior=0.4)(margins, torch.tensor([1, 0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 0.4 / 4, and 1/5 - 0.4 * 3/4 counts as 0
        0.1
    """

    class_prior: float
    surrogate: Surrogate = "sigmoid"


class NeighborhoodContrastiveLoss(_Loss, formula=neighborhood_loss):
    """Neighborhood contrastive loss (NCL): an unlabeled chip pulls its own other view and its nearest queue items.

    Args:
        k: number of neighbors, 1 or more.
        self_weight: alpha, 0..1; what the own view takes of the pull.
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import NeighborhoodContrastiveLoss
        >>> view1, view2 = torch.eye(2, requires_grad=True), torch.eye(2)
        >>> loss = NeighborhoodContrastiveLoss(k=1, temperature=1.0)(view1, view2, queue=-torch.eye(2))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(1 + e + 1 / e) - 0.2
        1.2076
    """

    k: int
    self_weight: float = 0.2
    temperature: float = 0.05


class SupervisedQueueLoss(_Loss, formula=supervised_queue_loss):
    """Supervised contrastive loss of NCL: a labeled chip pulls its own other view and the queue items of its class.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import SupervisedQueueLoss
        >>> view, classes = torch.eye(2, requires_grad=True), torch.tensor([0, 1])
        >>> loss = SupervisedQueueLoss(temperature=1.0)(view, torch.eye(2), classes, torch.eye(2), classes)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(2 e + 1) - 1
        0.862
    """

    temperature: float = 0.05


class PairCrossEntropyLoss(_Loss, formula=pair_cross_entropy):
    """Pairwise binary cross entropy of novel class discovery: similar chips go to one category, others to different ones.

    Example:
        >>> import torch
        >>> from pu_geo.losses import PairCrossEntropyLoss
        >>> logits = torch.zeros(2, 2, requires_grad=True)
        >>> loss = PairCrossEntropyLoss()(logits, logits, torch.eye(2, dtype=torch.bool))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log 2
        0.6931
    """


class ConsistencyLoss(_Loss, formula=consistency_loss):
    """Consistency of one head on two views: the mean squared difference of its softmax (MSE consistency).

    Example:
        >>> import torch
        >>> from pu_geo.losses import ConsistencyLoss
        >>> logits = torch.tensor([[3.0, 1.0]]).log().requires_grad_()
        >>> loss = ConsistencyLoss()(logits, torch.zeros(1, 2))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 3/4 and 1/4 against halves
        0.0625
    """


class HeroConSingleViewLoss(_Loss, formula=single_view_loss):
    """Weighted unsupervised contrastive loss of one view: a chip pulls its input, and pushes look-alikes the least.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import HeroConSingleViewLoss
        >>> hidden = torch.eye(2, requires_grad=True)
        >>> loss = HeroConSingleViewLoss()(torch.eye(2), hidden, torch.ones(2, 2))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(1 + g / e), g = exp(1 - 1 / sqrt 2)
        0.4008
    """

    temperature: float = 1.0


class HeroConMultiViewLoss(_Loss, formula=multi_view_loss):
    """Weighted unsupervised contrastive loss of several views: they pull each other, and push look-alikes the least.

    Args:
        temperature: above 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import HeroConMultiViewLoss
        >>> views = torch.eye(2).repeat(2, 1, 1).requires_grad_()
        >>> loss = HeroConMultiViewLoss()(views, torch.ones(2, 2, 2))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # log(1 + 2 g / e), g = exp(1 - 1 / sqrt 2)
        0.6862
    """

    temperature: float = 1.0


class HeroConSupervisedLoss(_Loss, formula=supervised_loss):
    """Weighted supervised contrastive loss of chips that carry several labels; pairs weigh by all of them.

    Args:
        temperature: above 0.
        with_itself: whether a chip also pairs with itself.

    Example:
        >>> import torch
        >>> from pu_geo.losses import HeroConSupervisedLoss
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], requires_grad=True)
        >>> loss = HeroConSupervisedLoss(with_itself=False)(views, torch.tensor([[1, 0], [1, 1], [0, 1]]))
        >>> loss.backward()
        >>> round(loss.item(), 4)
        1.2319
    """

    temperature: float = 1.0
    with_itself: bool = True


class HeroConLoss(_Loss):
    """All of HeroCon's loss for a batch: the classifier's, the unsupervised one of all chips, the supervised one of labeled.

    Source: HeroCon, Eq. 1, with Eq. 5 and 7 (doi:10.1145/3534678.3539311).

    Args:
        unsupervised_weight: alpha, 0 or more.
        supervised_weight: beta, 0 or more.
        temperature: above 0.
        with_itself: whether a chip also pairs with itself in Eq. 7.

    Shape:
        ============== ================== =============================================
        classification scalar             L_c, such as a binary cross entropy of the labeled
        views          float [V, B, D]    Z of every view of every chip
        mapped         float [V, B, D]    H(Z), a linear layer and a sigmoid of Z
        labels         bool or 0/1 [B, c] rows of chips without a label are not read
        is_labeled     bool or 0/1 [B]    None takes all chips for labeled
        is_missing     bool or 0/1 [V, B] views that a chip lacks, or None
        is_known       bool or 0/1 [B, c] labels that somebody gave, or None for all
        dates          ints, V of them    a number for each view; only equal ones are compared; None compares all
        returns        scalar
        ============== ================== =============================================

    Departs from the source: any number of views, some of which may be missing; without a labeled chip L_s is 0.

    Example:
        >>> import torch
        >>> from pu_geo.losses import HeroConLoss
        >>> views, classification = torch.eye(2).repeat(2, 1, 1).requires_grad_(), torch.tensor(0.5)
        >>> loss = HeroConLoss(unsupervised_weight=0.1, supervised_weight=0.01)
        >>> value = loss(classification, views, torch.ones(2, 2, 2), torch.eye(2, dtype=torch.bool))
        >>> value.backward()
        >>> round(value.item(), 4)  # 0.5 + 0.1 * 0.6862 + 0.01 * 0.5513
        0.5741
    """

    unsupervised_weight: float
    supervised_weight: float
    temperature: float = 1.0
    with_itself: bool = True

    def forward(
        self,
        classification: Tensor,
        views: Tensor,
        mapped: Tensor,
        labels: Tensor,
        *,
        is_labeled: Tensor | None = None,
        is_missing: Tensor | None = None,
        is_known: Tensor | None = None,
        dates: Sequence[int] | None = None,
    ) -> Tensor:
        """Compute `multi_view_loss` and `supervised_loss`, and add them to L_c."""
        unsupervised = multi_view_loss(views, mapped, is_missing=is_missing, dates=dates, temperature=self.temperature)
        if is_labeled is not None:
            is_labeled = as_bools("is_labeled", is_labeled, views.shape[1:2], is_label=False)
            require_tensor("labels", labels)
            if labels.ndim != 2 or len(labels) != len(is_labeled):
                raise ShapeError(f"labels must be [{len(is_labeled)}, c], one row for each chip; got {tuple(labels.shape)}.")
            views, labels = views[:, is_labeled], labels[is_labeled]
            is_missing = None if is_missing is None else is_missing[:, is_labeled]
            is_known = None if is_known is None else is_known[is_labeled]
        supervised = torch.zeros_like(unsupervised)
        if views.shape[1]:
            supervised = supervised_loss(
                views, labels, is_missing=is_missing, is_known=is_known, temperature=self.temperature,
                with_itself=self.with_itself,
            )  # fmt: skip
        return herocon_total(
            classification,
            unsupervised,
            supervised,
            unsupervised_weight=self.unsupervised_weight,
            supervised_weight=self.supervised_weight,
        )


class SpreadoutLoss(_Loss, formula=spreadout_loss):
    """Spreadout regularizer (FedAwS): how far each two class vectors are short of a margin, squared and added up.

    Args:
        margin: nu of the paper, above 0.
        distance: "cosine", "dot" or "euclid".

    Example:
        >>> import torch
        >>> from pu_geo.losses import SpreadoutLoss
        >>> class_vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
        >>> loss = SpreadoutLoss(margin=1.0)(class_vectors)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # (1 - 0.4)^2, the pair counted twice
        0.72
    """

    margin: float
    distance: Distance = "cosine"


class NearestSpreadoutLoss(_Loss, formula=nearest_spreadout_loss):
    """Spreadout regularizer without a margin (FedAwS): each class is pushed from its k nearest ones.

    Args:
        k: number of neighbors, 1 or more.
        distance: "cosine", "dot" or "euclid".

    Example:
        >>> import torch
        >>> from pu_geo.losses import NearestSpreadoutLoss
        >>> class_vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
        >>> loss = NearestSpreadoutLoss(k=1)(class_vectors)
        >>> loss.backward()
        >>> round(loss.item(), 4)  # minus the squared distance 0.8, twice
        -1.6
    """

    k: int
    distance: Distance = "euclid"


class ClassContrastiveLoss(_LossOfChips, formula=class_contrastive_loss):
    """Contrastive loss of chips and class vectors: pulled to one's own, pushed from all others up to a margin.

    Args:
        margin: nu of the paper, above 0.
        distance: "cosine", "dot" or "euclid".
        reduction: "mean" over the batch, or "none".

    Example:
        >>> import torch
        >>> from pu_geo.losses import ClassContrastiveLoss
        >>> chips = torch.tensor([[0.6, 0.8]], requires_grad=True)
        >>> loss = ClassContrastiveLoss(margin=1.1)(chips, torch.eye(2), torch.tensor([0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 0.4^2 + (1.1 - 0.2)^2
        0.97
    """

    margin: float
    distance: Distance = "cosine"


class SpreadoutContrastiveLoss(_LossOfChips, formula=spreadout_contrastive_loss):
    """What FedAwS's clients and server do separately, in one loss: other classes are pushed from the chip's class.

    Args:
        margin: nu of the paper, above 0.
        distance: "cosine", "dot" or "euclid".
        reduction: "mean" over the batch, or "none".

    Example:
        >>> import torch
        >>> from pu_geo.losses import SpreadoutContrastiveLoss
        >>> chips = torch.tensor([[0.6, 0.8]], requires_grad=True)
        >>> loss = SpreadoutContrastiveLoss(margin=1.1)(chips, torch.eye(2), torch.tensor([0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # 0.4^2 + (1.1 - 1)^2
        0.17
    """

    margin: float
    distance: Distance = "cosine"


class PositiveContrastiveLoss(_LossOfChips, formula=positive_contrastive_loss):
    """The positive part of the contrastive loss: a client's chips are pulled to its class vector, without any negative.

    Args:
        distance: "cosine", "dot" or "euclid".
        reduction: "mean" over the batch, or "none".

    Example:
        >>> import torch
        >>> from pu_geo.losses import PositiveContrastiveLoss
        >>> chips = torch.tensor([[0.6, 0.8]], requires_grad=True)
        >>> loss = PositiveContrastiveLoss()(chips, torch.tensor([1.0, 0.0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # (1 - 0.6)^2
        0.16
    """

    distance: Distance = "cosine"


class PositiveHingeLoss(_LossOfChips, formula=positive_hinge_loss):
    """Squared hinge of FedAwS: a client's chips are pulled to its class vector until they are near enough.

    Args:
        enough: similarity from which on a chip adds nothing, -1..1; 0.9 in the paper.
        distance: "cosine", "dot" or "euclid".
        reduction: "mean" over the batch, or "none".

    Example:
        >>> import torch
        >>> from pu_geo.losses import PositiveHingeLoss
        >>> chips = torch.tensor([[0.6, 0.8]], requires_grad=True)
        >>> loss = PositiveHingeLoss(enough=0.9)(chips, torch.tensor([1.0, 0.0]))
        >>> loss.backward()
        >>> round(loss.item(), 4)  # (0.9 - 0.6)^2
        0.09
    """

    enough: float = 0.9
    distance: Distance = "cosine"
