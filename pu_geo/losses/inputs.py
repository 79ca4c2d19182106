"""What every loss does with its inputs: float32 at least, no autocast, labels that are 0 or 1, settings in their range.

A loss that multiplies matrices calls `product`: PyTorch would compute the gradient of `@` in bfloat16 where `backward` is
called under autocast, whatever the precision of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pu_geo.errors import ShapeError

P = ParamSpec("P")
T = TypeVar("T")
LABELS = "bool, or integers that are 0 or 1"


def float32_inside(loss: Callable[P, T]) -> Callable[P, T]:
    """Return the loss with its float16 and bfloat16 tensors as float32, and autocast off on all their devices; float64
    stays.

    Two views of a chip have a cosine of about .97. In bfloat16, whose steps there are .004, the gap to 1 is mostly rounding.
    Gradients come back in the type of the inputs.
    """

    @wraps(loss)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        if not tensors:
            found = ", ".join(type(each).__name__ for each in args) or "none"
            raise TypeError(f"{loss.__name__} takes torch tensors; got {found}. Convert arrays by torch.as_tensor.")
        with _no_autocast(*tensors):
            return loss(*map(_wide, args), **{name: _wide(each) for name, each in kwargs.items()})  # type: ignore[arg-type]

    return inside


def at_least_float32(values: Tensor) -> Tensor:
    """Return the values in float32, or in float64 where they come in it."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def product(first: Tensor, second: Tensor) -> Tensor:
    """Compute the matrix product in the dtype of the two, and its gradients too, wherever autocast is on.

    Args:
        first: float [N, D] or [B, N, D].
        second: float [D, M] or [B, D, M], in the dtype of `first`.

    Returns:
        What `first @ second` is without autocast, bit for bit, as are its gradients of any order.
    """
    if not (torch.is_grad_enabled() and (first.requires_grad or second.requires_grad)):
        return _Product.forward(first, second)
    together: Tensor = _Product.apply(first, second)
    return together


def as_bools(name: str, values: Tensor, shape: tuple[int, ...], *, is_label: bool = True) -> Tensor:
    """Return 0/1 labels or a mask as bool; refuse all that is neither bool nor an integer 0 or 1.

    Bools are not read, so that they cost no wait for a GPU; integers cost one.

    Args:
        name: of the argument, for the error.
        values: bool, or integers that are 0 or 1.
        shape: the one that fits the other arrays.
        is_label: whether -1 is likely to stand for "no label", which the error then answers.

    Raises:
        ShapeError(ValueError): if the shape is another one.
        TypeError: if it is no tensor of bools or integers.
        ValueError: if an integer is neither 0 nor 1.
    """
    _require_integers(name, values, LABELS, f"{name} == 1")
    if values.shape != shape:
        raise ShapeError(f"{name} must be {list(shape)}; got shape {tuple(values.shape)}.")
    if values.dtype == torch.bool:
        return values
    wrong = values[(values != 0) & (values != 1)]
    if len(wrong):
        hint = " -1 is no label here; write 0 for not reviewed." if is_label and (wrong == -1).any() else ""
        raise ValueError(f"{name} must be {LABELS}; got {int(wrong[0])}.{hint}")
    return values.bool()


def as_classes(name: str, values: Tensor, n_rows: int, *, lowest: int | None = 0, n_classes: int | None = None) -> Tensor:
    """Return class numbers; refuse all that is neither bool nor an integer from 0 on.

    Args:
        name: of the argument, for the error.
        values: class number of each row, bool or integer [n_rows].
        n_rows: number of chips.
        lowest: numbers below are refused; None lets all pass, which costs no wait for a GPU.
        n_classes: numbers from here on are refused; None knows no last one.

    Raises:
        ShapeError, TypeError, ValueError: as in `as_bools`.
    """
    right = "class numbers" if lowest is None else f"class numbers from {lowest} on"
    right += "" if n_classes is None else f" and below {n_classes}"
    _require_integers(name, values, right, f"{name}.long()")
    if values.shape != (n_rows,):
        raise ShapeError(f"{name} must be [{n_rows}], one class for each chip; got shape {tuple(values.shape)}.")
    if lowest is None or (values.dtype == torch.bool and (n_classes is None or n_classes >= 2)):
        return values
    is_wrong = values < lowest if n_classes is None else (values < lowest) | (values >= n_classes)
    if is_wrong.any():
        raise ValueError(f"{name} must be {right}; got {int(values[is_wrong][0])}. Leave chips without a class out.")
    return values


def require_above_0(name: str, value: float) -> None:
    """Raise ValueError for a setting that is not above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0; got {value}.")


def require_below_1(name: str, value: float) -> None:
    """Raise ValueError for a setting outside [0, 1)."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1); got {value}.")


def require_within(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError for a setting outside low..high."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in {low}..{high}; got {value}.")


def require_at_least(name: str, value: float, low: float) -> None:
    """Raise ValueError for a setting below `low`."""
    if not value >= low:
        raise ValueError(f"{name} must be {low} or more; got {value}.")


def require_one_of(name: str, value: str, words: tuple[str, ...]) -> None:
    """Raise ValueError for a word that is none of those known."""
    if value not in words:
        known = " or ".join(f'"{word}"' for word in words)
        raise ValueError(f'{name} must be {known}; got "{value}".')


def require_tensor(name: str, values: object, right: str = LABELS) -> None:
    """Raise TypeError for what is no tensor, such as a list of labels; call it before the shape is asked for."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor: {right}; got {type(values).__name__}. Convert it by torch.as_tensor.")


def _require_integers(name: str, values: Tensor, right: str, instead: str) -> None:
    require_tensor(name, values, right)
    if values.is_floating_point() or values.is_complex():
        raise TypeError(f"{name} must be {right}; got {values.dtype}. Write {instead}.")


def _wide(value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value


def _no_autocast(*tensors: Tensor) -> ExitStack:
    """Return a context without autocast on the devices of all tensors: a scalar may be on the CPU, the others on a GPU."""
    context = ExitStack()
    for device in {each.device.type for each in tensors}:
        if torch.amp.is_autocast_available(device):
            context.enter_context(torch.autocast(device, enabled=False))
    return context


def _is_by_columns(matrix: Tensor) -> bool:
    """Whether it is stored column after column; PyTorch then computes the gradient in the same order."""
    return matrix.ndim == 2 and matrix.stride() == (1, matrix.shape[0])


class _Product(torch.autograd.Function):
    """`@` with the gradients of PyTorch's, which call `product` again instead of what autocast would cast."""

    generate_vmap_rule = True

    @staticmethod
    def forward(first: Tensor, second: Tensor) -> Tensor:
        with _no_autocast(first, second):
            return first @ second

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None]:
        first, second = ctx.saved_tensors
        of_first = of_second = None
        if ctx.needs_input_grad[0]:
            is_turned = _is_by_columns(first)
            of_first = product(second, upstream.mT).mT if is_turned else product(upstream, second.mT)
        if ctx.needs_input_grad[1]:
            is_turned = _is_by_columns(second)
            of_second = product(upstream.mT, first).mT if is_turned else product(first.mT, upstream)
        return of_first, of_second
