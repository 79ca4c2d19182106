"""A project with two made-up feature sets, of which one finds the damage better."""

from pathlib import Path

import numpy as np
from small_parts import add_chips, click, small_project

from pu_geo.store import feature_sets, store
from pu_geo.store.feature_sets import FeatureSet
from pu_geo.store.layout import Layout, write_array

N, N_DAMAGED, D, BETTER = 100, 75, 6, "backbone-1a2b3c4d"


def set_project(folder: Path, *, n_clicks: int = 62) -> Layout:
    """Return a project of 100 buildings, of which the first 75 are damaged and some of these clicked."""
    layout, rng = small_project(folder / "event.pugeo", N), np.random.default_rng(0)
    rcf = (4 + rng.normal(size=(3, N, D))).astype(np.float16)
    other = rcf.copy()
    other[:, :N_DAMAGED, :2] += np.float16(2)
    add_chips(layout, [f"b{i}" for i in range(N)], features=rcf)
    write_array(layout.features("set", BETTER), other)
    feature_sets.put(layout, "set", FeatureSet(BETTER, {"kind": "backbone"}, *other.shape, created_at=store.now()))
    click(layout, *(f"b{i}" for i in range(n_clicks)))
    return layout
