"""The makers of frozen features: a class each, with `fit`, `transform` and `state`.

`fit(chips, generator, rows=...)` learns what it needs from a project's own chips, `transform(chips, n_views, seed=...)` computes
features of augmented views, float16 [V, N, D], and `state()` gives all that a maker is made of as plain arrays, from which
`from_state` builds it again.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.features.rcf import RcfBank, RcfSettings

FEATURE_SEED = 0  # of the views that the features of every chip set are made of
N_VIEWS = RcfSettings().n_views  # views per chip, the chip as it was cut included
MAKERS: dict[str, type[RcfBank]] = {"rcf": RcfBank}
DEFAULT_MAKER = "rcf"


def fit_default(chips: NDArray[np.uint8], rows: NDArray[np.int64] | None = None) -> RcfBank:
    """Choose the filters of a chip set, uint8 [N, C, H, W]: the same chips give the same ones. `rows`: see `RcfBank.fit`."""
    return MAKERS[DEFAULT_MAKER].fit(chips, torch.Generator().manual_seed(FEATURE_SEED), rows=rows)
