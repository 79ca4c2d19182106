"""Both faces of a loss: the function, and the function as its `nn.Module` computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import nn

from pu_geo import losses
from pu_geo.losses.pu_risk import NnpuRisk

Function = Callable[..., Any]

MODULE_OF: dict[Function, type[nn.Module]] = {
    losses.sscl_loss: losses.SSCLLoss,
    losses.scl_loss: losses.SupConLoss,
    losses.scl_pu_loss: losses.SCLPULoss,
    losses.pucl_loss: losses.PUCLLoss,
    losses.mcl_loss: losses.MCLLoss,
    losses.dcl_loss: losses.DCLLoss,
    losses.label_cross_entropy: losses.LDCELoss,
    losses.classification_loss: losses.NcPUClassificationLoss,
    losses.entropy: losses.EntropyLoss,
    losses.self_alignment: losses.SelfAlignmentLoss,
    losses.same_class_alignment: losses.SameClassAlignmentLoss,
    losses.noisy_pair_loss: losses.NoiSNCLLoss,
    losses.upu_risk: losses.UPULoss,
    losses.nnpu_risk: losses.NNPULoss,
    losses.nnpu_risk_clipped: losses.ClippedNNPULoss,
    losses.neighborhood_loss: losses.NeighborhoodContrastiveLoss,
    losses.supervised_queue_loss: losses.SupervisedQueueLoss,
    losses.pair_cross_entropy: losses.PairCrossEntropyLoss,
    losses.consistency_loss: losses.ConsistencyLoss,
    losses.single_view_loss: losses.HeroConSingleViewLoss,
    losses.multi_view_loss: losses.HeroConMultiViewLoss,
    losses.supervised_loss: losses.HeroConSupervisedLoss,
    losses.spreadout_loss: losses.SpreadoutLoss,
    losses.nearest_spreadout_loss: losses.NearestSpreadoutLoss,
    losses.class_contrastive_loss: losses.ClassContrastiveLoss,
    losses.spreadout_contrastive_loss: losses.SpreadoutContrastiveLoss,
    losses.positive_contrastive_loss: losses.PositiveContrastiveLoss,
    losses.positive_hinge_loss: losses.PositiveHingeLoss,
}
"""Every loss that is a function, and its module. Those of a whole batch, `NcPULoss` and `HeroConLoss`, have no function."""


def setting_names(module: type[nn.Module]) -> set[str]:
    return set(inspect.signature(module).parameters)


def through_module(function: Function) -> Function:
    """Return a function of the same arguments that makes the module and calls it."""
    module = MODULE_OF[function]
    names = setting_names(module)

    def call(*args: Any, **kwargs: Any) -> Any:
        settings = {name: value for name, value in kwargs.items() if name in names}
        if "reduction" in names:
            settings["reduction"] = "none"
        value = module(**settings)(*args, **{name: given for name, given in kwargs.items() if name not in names})
        if module is not losses.NNPULoss:
            return value
        # Its value is the reported one, its gradient that of the other; put back together as the function gives them.
        differentiated = function(*args, **kwargs).differentiated.detach()
        return NnpuRisk(value.detach(), differentiated + (value - value.detach()))

    return call


def both_faces(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test module use its loss functions as they are, or through their modules, which have to be called then."""
    calls = 0

    def counted(function: Function) -> Function:
        face = through_module(function)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            return face(*args, **kwargs)

        return call

    if request.param == "module":
        own = vars(request.module).values()
        families = [each for each in own if inspect.ismodule(each) and each.__name__.startswith("pu_geo.losses.")]
        for holder in (request.module, *families):
            for name, value in list(vars(holder).items()):
                if inspect.isfunction(value) and value in MODULE_OF:
                    patch.setattr(holder, name, counted(value))
    yield
    whole_batch = request.node.callspec.params.get("name") in losses.__all__
    assert calls > 0 or request.param == "function" or whole_batch
