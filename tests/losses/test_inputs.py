"""Labels at the door of the losses: bools, or integers that are 0 or 1; all else is refused in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from golden_parts import require_refusals
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from pu_geo import losses
from pu_geo.errors import ShapeError
from pu_geo.losses import inputs

B = 6
DRAW = torch.Generator().manual_seed(0)
ONE, TWO = torch.randn(2, B, 4, generator=DRAW)
LOGITS, TARGETS, MARGINS = ONE[:, :2], TWO[:, :2].softmax(1), ONE[:, 0]
START = losses.ThresholdState.start(ONE)
BOTH = torch.stack([ONE, TWO])


def column(y: Any) -> Any:
    """Labels [B] as [B, 1]; a list as it is."""
    return y[:, None] if isinstance(y, Tensor) else y


# Each takes the labels [B], 1 = positive.
LABELED: dict[str, Callable[[Tensor], Any]] = {
    "scl_pu_loss": lambda y: losses.scl_pu_loss(ONE, TWO, y),
    "pucl_loss": lambda y: losses.pucl_loss(ONE, TWO, y),
    "mcl_loss": lambda y: losses.mcl_loss(ONE, TWO, y, supervised_share=0.5),
    "classification_loss": lambda y: losses.classification_loss(LOGITS, TARGETS, y),
    "upu_risk": lambda y: losses.upu_risk(MARGINS, y, class_prior=0.3),
    "nnpu_risk": lambda y: torch.stack(losses.nnpu_risk(MARGINS, y, class_prior=0.3)),
    "nnpu_risk_clipped": lambda y: losses.nnpu_risk_clipped(MARGINS, y, class_prior=0.3),
    "start_pseudo_targets": losses.start_pseudo_targets,
    "updated_prototypes": lambda y: losses.updated_prototypes(ONE[:2], ONE, y, momentum=0.9),
    "updated_pseudo_targets": lambda y: losses.updated_pseudo_targets(TARGETS, LOGITS, y, momentum=0.9),
    "phantom_gate": lambda y: losses.phantom_gate(TARGETS, TARGETS[:, 0], 0.5, y),
    "updated_threshold": lambda y: losses.updated_threshold(START, LOGITS, y, momentum=0.9, variant="released").shares,
    "supervised_loss": lambda y: losses.supervised_loss(BOTH, column(y)),
    "SCLPULoss": lambda y: losses.SCLPULoss()(ONE, TWO, y),
    "PUCLLoss": lambda y: losses.PUCLLoss()(ONE, TWO, y),
    "MCLLoss": lambda y: losses.MCLLoss(supervised_share=0.5)(ONE, TWO, y),
    "NcPUClassificationLoss": lambda y: losses.NcPUClassificationLoss()(LOGITS, TARGETS, y),
    "NcPULoss": lambda y: losses.NcPULoss()(LOGITS, ONE, TWO, TARGETS, y),
    "UPULoss": lambda y: losses.UPULoss(class_prior=0.3)(MARGINS, y),
    "NNPULoss": lambda y: losses.NNPULoss(class_prior=0.3)(MARGINS, y),
    "ClippedNNPULoss": lambda y: losses.ClippedNNPULoss(class_prior=0.3)(MARGINS, y),
    "HeroConSupervisedLoss": lambda y: losses.HeroConSupervisedLoss()(BOTH, column(y)),
    "HeroConLoss": lambda y: losses.HeroConLoss(unsupervised_weight=1, supervised_weight=1)(
        MARGINS.sum(), BOTH, BOTH.sigmoid(), column(y)
    ),
}
# Each takes class numbers [B].
OF_CLASSES: dict[str, Callable[[Tensor], Any]] = {
    "scl_loss": lambda y: losses.scl_loss(ONE, TWO, y),
    "SupConLoss": lambda y: losses.SupConLoss()(ONE, TWO, y),
    "SCLLoss": lambda y: losses.SCLLoss()(ONE, TWO, y),
    "supervised_queue_loss": lambda y: losses.supervised_queue_loss(ONE, TWO, y, TWO, torch.arange(B) - 1),
    "SupervisedQueueLoss": lambda y: losses.SupervisedQueueLoss()(ONE, TWO, y, TWO, torch.arange(B) - 1),
    "class_contrastive_loss": lambda y: losses.class_contrastive_loss(ONE, TWO[:3], y, margin=1),
    "ClassContrastiveLoss": lambda y: losses.ClassContrastiveLoss(margin=1)(ONE, TWO[:3], y),
    "spreadout_contrastive_loss": lambda y: losses.spreadout_contrastive_loss(ONE, TWO[:3], y, margin=1),
    "SpreadoutContrastiveLoss": lambda y: losses.SpreadoutContrastiveLoss(margin=1)(ONE, TWO[:3], y),
}
LABELS = torch.tensor([1, 1, 0, 0, 1, 0])


def takes(what: Any, *names: str) -> bool:
    """Whether a function, or the `forward` of a module, has an argument of one of these names."""
    is_module = inspect.isclass(what) and issubclass(what, nn.Module)
    if not (is_module or inspect.isfunction(what)):
        return False
    return not set(names).isdisjoint(inspect.signature(what.forward if is_module else what).parameters)


def test_every_exported_name_that_takes_labels_is_asked() -> None:
    exported = {name: getattr(losses, name) for name in losses.__all__}
    labeled = {name for name, what in exported.items() if takes(what, "is_positive", "is_damaged", "labels")}
    assert labeled == set(LABELED)
    assert {name for name, what in exported.items() if takes(what, "classes")} == set(OF_CLASSES)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", LABELED)
def test_integers_0_and_1_mean_the_same_as_bools(name: str, dtype: torch.dtype) -> None:
    torch.testing.assert_close(LABELED[name](LABELS.to(dtype)), LABELED[name](LABELS == 1), rtol=0, atol=0)


@pytest.mark.parametrize("name", LABELED)
def test_labels_that_are_neither_0_nor_1_are_refused_in_words(name: str) -> None:
    ask = LABELED[name]
    argument = (
        "labels" if takes(getattr(losses, name), "labels") else "is_damaged" if "prototypes" in name else "is_positive"
    )
    right = f"{argument} must be bool, or integers that are 0 or 1"
    require_refusals(
        (ValueError, f"{right}; got -1. -1 is no label here; write 0 for not reviewed", lambda: ask(2 * LABELS - 1)),
        (ValueError, f"{right}; got 2.$", lambda: ask(2 * LABELS)),
        (TypeError, f"{right}; got torch.float32. Write {argument} == 1", lambda: ask(LABELS.float())),
        (TypeError, f"{right}; got torch.float64", lambda: ask(LABELS.double() * 0.5)),
    )
    if name != "start_pseudo_targets":
        require_refusals((ShapeError, r"\(5, 1\)|\(5,\)", lambda: ask(LABELS[:5] == 1)))


@pytest.mark.parametrize("name", OF_CLASSES)
def test_class_numbers_from_0_on_are_taken_and_all_else_is_refused(name: str) -> None:
    ask = OF_CLASSES[name]
    torch.testing.assert_close(ask(LABELS.to(torch.uint8)), ask(LABELS), rtol=0, atol=0)
    require_refusals(
        (
            ValueError,
            "classes must be class numbers from 0 on.*; got -1. Leave chips without a class",
            lambda: ask(LABELS - 1),
        ),
        (TypeError, "classes must be class numbers.*; got torch.float32", lambda: ask(LABELS.float())),
        (ShapeError, r"classes must be \[6\].*got shape \(5,\)", lambda: ask(LABELS[:5])),
    )


@pytest.mark.parametrize("labels", [LABELS.tolist(), LABELS.numpy(), None], ids=["list", "array", "none"])
@pytest.mark.parametrize("name", [*LABELED, *OF_CLASSES])
def test_labels_that_are_no_tensor_are_refused_in_words(name: str, labels: Any) -> None:
    kind = type(labels).__name__
    with pytest.raises(TypeError, match=f"must be a tensor: .* got {kind}. Convert it by torch.as_tensor"):
        {**LABELED, **OF_CLASSES}[name](labels)


def test_other_things_than_tensors_are_refused_in_words() -> None:
    full = losses.HeroConLoss(unsupervised_weight=1, supervised_weight=1)
    require_refusals(
        (
            TypeError,
            "labels must be a tensor.*got list",
            lambda: full(MARGINS.sum(), BOTH, BOTH, [[1]] * B, is_labeled=LABELS),
        ),
        (
            ShapeError,
            r"labels must be \[6, c\], one row for each chip; got \(5, 1\)",
            lambda: full(MARGINS.sum(), BOTH, BOTH, LABELS[:5, None], is_labeled=LABELS),
        ),
        (TypeError, "sscl_loss takes torch tensors; got ndarray, ndarray", lambda: losses.sscl_loss(*np.ones((2, 3, 4)))),
    )


class NothingIsRead(TorchDispatchMode):
    """Fail where a number is read off a tensor, or a shape depends on values: a GPU would be waited for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(each is not None and each.dtype == torch.bool for each in args[1])
        is_reading = by_mask or name in {"_local_scalar_dense", "nonzero", "_unique2"}
        assert not is_reading, f"{name} reads"
        return func(*args, **(kwargs or {}))


# These read numbers by themselves, whatever the labels: the prototypes' chain, and rows chosen by a mask.
READS = {"updated_prototypes", "updated_threshold"}


@pytest.mark.parametrize("name", sorted(set(LABELED) - READS))
def test_bool_labels_cost_no_wait_for_a_gpu_and_integers_do(name: str) -> None:
    is_positive = LABELS == 1
    with NothingIsRead():
        LABELED[name](is_positive)
    with NothingIsRead(), pytest.raises(AssertionError, match="index reads"):
        LABELED[name](LABELS)


def test_masks_are_asked_as_labels_are() -> None:
    pairs, views = torch.ones(B, B), torch.zeros(2, B)
    masks: dict[str, Callable[[Tensor], Tensor]] = {
        "same_class": lambda mask: losses.noisy_pair_loss(ONE, TWO, mask),
        "same_class,": lambda mask: losses.same_class_alignment(ONE, TWO, mask),
        "same_category": lambda mask: losses.pair_cross_entropy(ONE, TWO, mask),
        "is_missing": lambda mask: losses.multi_view_loss(BOTH, BOTH.sigmoid(), is_missing=mask),
        "is_candidate": lambda mask: losses.nearest_spreadout_loss(ONE, k=1, is_candidate=mask),
    }
    for name, ask in masks.items():
        mask = views if name == "is_missing" else pairs[0] if name == "is_candidate" else pairs
        torch.testing.assert_close(ask(mask.long()), ask(mask == 1), rtol=0, atol=0)
        with pytest.raises(TypeError, match=f"{name}.* must be bool.*float32"):
            ask(mask)
        with pytest.raises(ValueError, match=r"got -1\.$"):
            ask(-1 - mask.long().clamp(max=0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_decorated_function_gets_float32_at_least_and_no_autocast(dtype: torch.dtype) -> None:
    got: dict[str, Any] = {}

    @inputs.float32_inside
    def ask(first: Tensor, *, second: Tensor, count: int) -> None:
        """Its own words."""
        got.update(first=first.dtype, second=second.dtype, count=count, product=(second @ second).dtype)

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ask(torch.arange(2), second=torch.ones(2, 2, dtype=dtype), count=3)
        assert torch.is_autocast_enabled("cpu")
    assert got == {"first": torch.int64, "second": wide, "count": 3, "product": wide}
    assert (ask.__name__, ask.__doc__) == ("ask", "Its own words.")


@pytest.mark.parametrize("others", ["cpu", "meta"])
def test_autocast_is_off_on_all_devices_of_the_tensors(others: str) -> None:
    """The weight of a loss may be a scalar on the CPU while the embeddings are on a GPU, here a fake one."""
    got: dict[str, bool] = {}

    @inputs.float32_inside
    def ask(*values: Tensor) -> None:
        got.update(cpu=torch.is_autocast_enabled("cpu"), cuda=torch.is_autocast_enabled("cuda"))

    with FakeTensorMode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.set_autocast_enabled("cuda", True)
        try:
            ask(torch.ones(2, 2, device="cuda"), torch.ones((), device=others))
            assert torch.is_autocast_enabled("cuda")
        finally:
            torch.set_autocast_enabled("cuda", False)
        assert got == {"cpu": others != "cpu", "cuda": False}


def products_and_gradients(multiply: Any, first: Tensor, second: Tensor, *, is_bf16: bool) -> list[Tensor]:
    """The product, its gradients and those of their squares, and the forward derivative."""
    along = [torch.randn(each.shape, generator=torch.Generator().manual_seed(1)) for each in (first, second)]
    leaves = [each.detach().requires_grad_() for each in (first, second)]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        value = multiply(*leaves)
        once = torch.autograd.grad(value.sin().sum(), leaves, create_graph=True)
        twice = torch.autograd.grad(sum(each.square().sum() for each in once), leaves)
        _, forward = torch.func.jvp(multiply, tuple(each.detach() for each in leaves), tuple(along))
        mapped = torch.func.vmap(torch.func.grad(lambda a, b: multiply(a, b).sin().sum()))(
            *(torch.stack([each.detach()] * 2) for each in leaves)
        )
    return [value.detach(), *once, *twice, forward, mapped]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # of forward derivatives of any kind
@pytest.mark.parametrize("is_bf16", [False, True])
@pytest.mark.parametrize("shape", [(24, 32, 24), (37, 5, 64), (1, 8, 1), (128, 128, 200), (3, 24, 16, 1)])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_product_and_its_gradients_are_those_of_matmul_without_autocast(
    shape: tuple[int, ...], turned: tuple[bool, bool], *, is_bf16: bool
) -> None:
    *batch, n, d, m = shape
    draw = torch.Generator().manual_seed(0)
    first, second = (
        torch.randn(*batch, *((b, a) if is_turned else (a, b)), generator=draw)
        for a, b, is_turned in ((n, d, turned[0]), (d, m, turned[1]))
    )
    first, second = (each.mT if is_turned else each for each, is_turned in zip((first, second), turned, strict=True))
    expected = products_and_gradients(torch.matmul, first, second, is_bf16=False)
    for found, right in zip(products_and_gradients(inputs.product, first, second, is_bf16=is_bf16), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=0)
