"""Golden numbers as tensors, vectors to try formulas on, and a table of refusals."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pu_geo.errors import PuGeoError

GOLDEN = Path(__file__).parent / "golden"


def load_golden(name: str) -> dict[str, Tensor]:
    """Read the arrays of one file of golden numbers."""
    with np.load(GOLDEN / name) as arrays:
        return {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays}


def our_columns(two_columns: Tensor) -> Tensor:
    """Turn the paper's columns (damaged, undamaged) into ours (undamaged, damaged)."""
    return two_columns.flip(-1)


def unit_vectors(n: int, d: int, seed: int) -> Tensor:
    """Draw n random directions, float64 [n, d]."""
    vectors = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors, dim=1)


def seeded(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def kind_of_refusal(function: Callable[..., object], *given: object) -> str:
    """Make a call that must be refused; return the kind of refusal."""
    with pytest.raises(PuGeoError) as refused:
        function(*given)
    return refused.value.kind


def require_refusals(*cases: tuple[type[Exception], str, Callable[[], object]]) -> None:
    """Make each call, and require its error with these words."""
    for error, words, call in cases:
        with pytest.raises(error, match=words):
            call()
