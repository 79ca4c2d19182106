"""Labels at the door of the losses: bools, or integers that are 0 or 1; all else is refused in words."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from golden_parts import require_refusals
from loss_parts import MODULE_OF, call
from torch import Tensor
from torch._subclasses import FakeTensorMode

from pu_geo import losses
from pu_geo.errors import ShapeError
from pu_geo.losses import inputs

B = 6
DRAW = torch.Generator().manual_seed(0)
ONE, TWO = torch.randn(2, B, 4, generator=DRAW)
LOGITS, TARGETS = ONE[:, :2], TWO[:, :2].softmax(1)
START = losses.ThresholdState.start(ONE)
BOTH = torch.stack([ONE, TWO])


def labeled(function: Callable[..., Any], name: str, **others: Any) -> Callable[[Any], Any]:
    """Return a function of the labels alone; labels [B] become [B, 1] where a loss takes several."""

    def ask(y: Any) -> Any:
        labels = {name: y[:, None] if name == "labels" and isinstance(y, Tensor) else y}
        found = call(function, ONE, TWO, classification=ONE.sum(), **labels, **others)
        return torch.stack(found) if isinstance(found, losses.NnpuRisk) else found

    return ask


def labeled_by(name: str) -> dict[str, Callable[[Any], Any]]:
    return {each.__name__: labeled(each, name) for each in MODULE_OF if name in inspect.signature(each).parameters}


# Each takes the labels [B], 1 = positive.
LABELED: dict[str, Callable[[Any], Any]] = {
    **labeled_by("is_positive"),
    "start_pseudo_targets": losses.start_pseudo_targets,
    "updated_prototypes": lambda y: losses.updated_prototypes(ONE[:2], ONE, y, momentum=0.9),
    "updated_pseudo_targets": lambda y: losses.updated_pseudo_targets(TARGETS, LOGITS, y, momentum=0.9),
    "phantom_gate": lambda y: losses.phantom_gate(TARGETS, TARGETS[:, 0], 0.5, y),
    "updated_threshold": lambda y: losses.updated_threshold(START, LOGITS, y, momentum=0.9, variant="released").shares,
    "supervised_loss": labeled(losses.supervised_loss, "labels"),
    "NcPULoss": labeled(losses.NcPULoss().forward, "is_positive"),
    "HeroConLoss": labeled(losses.HeroConLoss(unsupervised_weight=1, supervised_weight=1).forward, "labels"),
}
# Each takes class numbers [B].
OF_CLASSES = labeled_by("classes")
LABELS = torch.tensor([1, 1, 0, 0, 1, 0])


@pytest.mark.parametrize("name", LABELED)
def test_labels_are_bools_or_integers_0_and_1(name: str) -> None:
    ask, is_chain = LABELED[name], name == "start_pseudo_targets"  # which takes any number of labels
    for dtype in (torch.int64, torch.uint8):
        torch.testing.assert_close(ask(LABELS.to(dtype)), ask(LABELS == 1), rtol=0, atol=0)
    takes = inspect.signature(getattr(getattr(losses, name), "forward", getattr(losses, name))).parameters
    argument = next(each for each in ("labels", "is_damaged", "is_positive") if each in takes)
    require_refusals(
        (ValueError, f"{argument} .* got -1. -1 is no label here", lambda: ask(2 * LABELS - 1)),
        (ValueError, f"{argument} .* got 2.$", lambda: ask(2 * LABELS)),
        (TypeError, f"{argument} .* got torch.float32. Write {argument} == 1", lambda: ask(LABELS.float())),
        (TypeError, "must be a tensor: .* got list", lambda: ask(LABELS.tolist())),
        *(() if is_chain else ((ShapeError, r"\(5, 1\)|\(5,\)", lambda: ask(LABELS[:5] == 1)),)),
    )


@pytest.mark.parametrize("name", OF_CLASSES)
def test_class_numbers_from_0_on_are_taken_and_all_else_is_refused(name: str) -> None:
    ask = OF_CLASSES[name]
    torch.testing.assert_close(ask(LABELS.to(torch.uint8)), ask(LABELS), rtol=0, atol=0)
    require_refusals(
        (ValueError, "classes must be class numbers from 0 on.*; got -1", lambda: ask(LABELS - 1)),
        (TypeError, "classes must be class numbers.*; got torch.float32", lambda: ask(LABELS.float())),
        (TypeError, "must be a tensor: .* got ndarray", lambda: ask(LABELS.numpy())),
        (ShapeError, r"classes must be \[6\].*got shape \(5,\)", lambda: ask(LABELS[:5])),
    )


def test_other_things_than_tensors_are_refused_in_words() -> None:
    full = losses.HeroConLoss(unsupervised_weight=1, supervised_weight=1)
    ask = partial(full, ONE.sum(), BOTH, BOTH, is_labeled=LABELS)
    require_refusals(
        (TypeError, "labels must be a tensor.*got list", lambda: ask([[1]] * B)),
        (ShapeError, r"labels must be \[6, c\].*got \(5, 1\)", lambda: ask(LABELS[:5, None])),
        (TypeError, "sscl_loss takes torch tensors; got ndarray, ndarray", lambda: losses.sscl_loss(*BOTH.numpy())),
    )


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


def test_autocast_is_off_on_all_devices_of_the_tensors_and_float64_stays() -> None:
    """The weight of a loss may be a scalar on the CPU while the embeddings are on a GPU, here a fake one."""
    got: dict[str, object] = {}

    @inputs.float32_inside
    def ask(*values: Tensor, **more: Tensor) -> None:
        """Its own words."""
        got.update(cpu=torch.is_autocast_enabled("cpu"), cuda=torch.is_autocast_enabled("cuda"))
        got.update(dtypes=[each.dtype for each in (*values, *more.values())])

    with FakeTensorMode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.set_autocast_enabled("cuda", True)
        try:
            half = torch.ones(2, 2, device="cuda", dtype=torch.float16)
            ask(half, torch.ones((), dtype=torch.float64), integers=torch.arange(2), half=half)
            assert torch.is_autocast_enabled("cuda")
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert got == {
        "cpu": False, "cuda": False, "dtypes": [torch.float32, torch.float64, torch.int64, torch.float32],
    }  # fmt: skip
    assert (ask.__name__, ask.__doc__) == ("ask", "Its own words.")


def products_and_gradients(multiply: Any, first: Tensor, second: Tensor, *, is_bf16: bool) -> list[Tensor]:
    """The product, its gradients and those of their squares."""
    leaves = [each.detach().requires_grad_() for each in (first, second)]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        value = multiply(*leaves)
        once = torch.autograd.grad(value.sin().sum(), leaves, create_graph=True)
        twice = torch.autograd.grad(sum(each.square().sum() for each in once), leaves)
    return [value.detach(), *once, *twice]


@pytest.mark.parametrize("is_turned", [False, True])
def test_product_and_its_gradients_are_those_of_matmul_without_autocast(is_turned: bool) -> None:
    """Also for a matrix that is stored column after column."""
    draw = torch.Generator().manual_seed(0)
    first, second = torch.randn(3, 24, 16, generator=draw), torch.randn(3, 16, 8, generator=draw)
    if is_turned:
        first, second = (each.mT.contiguous().mT for each in (first, second))
    expected = products_and_gradients(torch.matmul, first, second, is_bf16=False)
    for found, right in zip(products_and_gradients(inputs.product, first, second, is_bf16=True), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=0)
