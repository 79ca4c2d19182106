"""What every loss does with its inputs: float32 at least, no autocast, labels that are 0 or 1, settings in their range."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from pu_geo.errors import ShapeError

P = ParamSpec("P")
T = TypeVar("T")


def float32_inside(loss: Callable[P, T]) -> Callable[P, T]:
    """Return the loss with its float16 and bfloat16 tensors as float32, and autocast off; float64 stays.

    Two views of a chip have a cosine of about .97. In bfloat16, whose steps there are .004, the gap to 1 is mostly rounding.
    Gradients come back in the type of the inputs.
    """

    @wraps(loss)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        devices = {each.device.type for each in (*args, *kwargs.values()) if isinstance(each, Tensor)}
        if not devices:
            found = ", ".join(type(each).__name__ for each in args) or "none"
            raise TypeError(f"{loss.__name__} takes torch tensors; got {found}. Convert arrays by torch.as_tensor.")
        with torch.autocast(min(devices), enabled=False):
            return loss(*map(_wide, args), **{name: _wide(each) for name, each in kwargs.items()})  # type: ignore[arg-type]

    return inside


def at_least_float32(values: Tensor) -> Tensor:
    """Return the values in float32, or in float64 where they come in it."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


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
    _require_integers(name, values, "bool, or integers that are 0 or 1", f"{name} == 1")
    if values.shape != shape:
        raise ShapeError(f"{name} must be {list(shape)}; got shape {tuple(values.shape)}.")
    if values.dtype == torch.bool:
        return values
    wrong = values[(values != 0) & (values != 1)]
    if len(wrong):
        hint = " -1 is no label here; write 0 for not reviewed." if is_label and (wrong == -1).any() else ""
        raise ValueError(f"{name} must be bool, or integers that are 0 or 1; got {int(wrong[0])}.{hint}")
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


def _require_integers(name: str, values: Tensor, right: str, instead: str) -> None:
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor: {right}; got {type(values).__name__}. Convert it by torch.as_tensor.")
    if values.is_floating_point() or values.is_complex():
        raise TypeError(f"{name} must be {right}; got {values.dtype}. Write {instead}.")


def _wide(value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value
