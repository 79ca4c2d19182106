"""Every loss function, its `nn.Module`, and arguments for it, found by their names."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pu_geo import losses

Function = Callable[..., Any]

MODULE_OF: dict[Function, type[nn.Module]] = {
    losses.sscl_loss: losses.SSCLLoss, losses.scl_loss: losses.SupConLoss, losses.scl_pu_loss: losses.SCLPULoss,
    losses.pucl_loss: losses.PUCLLoss, losses.mcl_loss: losses.MCLLoss, losses.dcl_loss: losses.DCLLoss,
    losses.label_cross_entropy: losses.LDCELoss, losses.classification_loss: losses.NcPUClassificationLoss,
    losses.entropy: losses.EntropyLoss, losses.self_alignment: losses.SelfAlignmentLoss,
    losses.same_class_alignment: losses.SameClassAlignmentLoss, losses.noisy_pair_loss: losses.NoiSNCLLoss,
    losses.upu_risk: losses.UPULoss, losses.nnpu_risk: losses.NNPULoss, losses.nnpu_risk_clipped: losses.ClippedNNPULoss,
    losses.neighborhood_loss: losses.NeighborhoodContrastiveLoss, losses.supervised_queue_loss: losses.SupervisedQueueLoss,
    losses.pair_cross_entropy: losses.PairCrossEntropyLoss, losses.consistency_loss: losses.ConsistencyLoss,
    losses.single_view_loss: losses.HeroConSingleViewLoss, losses.multi_view_loss: losses.HeroConMultiViewLoss,
    losses.supervised_loss: losses.HeroConSupervisedLoss, losses.spreadout_loss: losses.SpreadoutLoss,
    losses.nearest_spreadout_loss: losses.NearestSpreadoutLoss, losses.class_contrastive_loss: losses.ClassContrastiveLoss,
    losses.spreadout_contrastive_loss: losses.SpreadoutContrastiveLoss,
    losses.positive_contrastive_loss: losses.PositiveContrastiveLoss, losses.positive_hinge_loss: losses.PositiveHingeLoss,
}  # fmt: skip
"""Every loss that is a function, and its module. Those of a whole batch, `NcPULoss` and `HeroConLoss`, have no function."""


def setting_names(module: type[nn.Module]) -> set[str]:
    return set(inspect.signature(module).parameters)


NEEDED: dict[str, Any] = {
    "supervised_share": 0.5, "same_class_share": 0.1, "class_prior": 0.3, "k": 3, "margin": 1.5,
    "unsupervised_weight": 0.5, "supervised_weight": 0.5,
}  # fmt: skip
"""What a setting without a default is given."""


def call(function: Function, one: Tensor, two: Tensor, **others: Any) -> Any:
    """Call a loss with tensors made of two views [B, D] by the names of its arguments, and with others where it takes them."""
    module = getattr(function, "__self__", None)  # whose own formula takes what it is given
    names = {*inspect.signature(getattr(module, "formula", function)).parameters} - {*getattr(module, "settings", ())}
    known = NEEDED | _tensors(one, two, has_views="views" in names) | others
    return function(**{name: known[name] for name in names if name in known})


def _tensors(one: Tensor, two: Tensor, *, has_views: bool) -> dict[str, Tensor]:
    """Return what a loss must be given; a third of the chips are positive, four classes take turns."""
    rows, views = torch.arange(len(one), device=one.device), torch.stack([one, two])
    wide = (views if has_views else one).to(torch.promote_types(one.dtype, torch.float32))
    same = rows[:, None] % 3 == rows % 3
    return {
        **dict.fromkeys(("z1", "online", "view1", "logits1", "inputs", "embeddings"), one),
        **dict.fromkeys(("z2", "target", "view2", "logits2", "hidden"), two),
        "views": views, "mapped": torch.tanh(wide + wide.roll(1, dims=-1)), "queue": two.flip(0),
        "class_vectors": two[:4], "own_vector": two[0], "margins": one[:, 0], "logits": one[:, :2],
        "pseudo_targets": two[:, :2].to(wide.dtype).softmax(1), "is_positive": rows % 3 == 0, "classes": rows % 4,
        "queue_classes": rows.flip(0) % 4, "labels": rows[:, None] % 4 == rows[:4], "same_class": same, "same_category": same,
    }  # fmt: skip
