"""Small projects whose chips have layers: SAR that shows damage and a third of the buildings lack, elevation that shows nothing."""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from small_parts import add_chips, click, job_of

from pu_geo.features.bank import fit_default
from pu_geo.records import FeatureRequest, View
from pu_geo.scenes.features_job import features
from pu_geo.store.layout import Layout

Mask = NDArray[np.bool_]
SIDE_PX = 20
TABLE = (View("pre", "pre", 0, 3), View("post", "post", 3, 6), View("sar-post", "post", 6, 8), View("dsm", "", 8, 9))
DAMAGED = 4  # every fourth building is
EVERY = ("pre+post", "sar-post", "dsm")
_SCALED = {"dtype": "float32", "nodata": None, "files": []}


def layered_chips(
    n: int, *, seed: int = 0, optical: float = 25.0, sar: float = 70.0, missing: float = 1 / 3
) -> tuple[NDArray[np.uint8], Mask, Mask]:
    """Return chips, uint8 [n, 9, 20, 20]; which are damaged, bool [n]; and which lack SAR, bool [n], by chance alone.

    Args:
        optical, sar: how much brighter damage makes the middle of a post chip, of a SAR chip; buildings differ by about 20 anyway.
    """
    draw = np.random.default_rng(seed)
    is_damaged = np.arange(n) % DAMAGED == 0
    chips = draw.normal(90, 12, (n, 9, SIDE_PX, SIDE_PX)) + draw.normal(0, 20, (n, 9, 1, 1))
    for bands, bright in ((slice(3, 6), optical), (slice(6, 8), sar)):
        chips[is_damaged, bands, 5:15, 5:15] += bright
    lacks = draw.random(n) < missing
    chips[lacks, 6:8] = 0
    return chips.clip(0, 255).astype(np.uint8), is_damaged, lacks


def with_layers(layout: Layout, n: int = 20, *, n_clicks: int = 5, **how: Any) -> tuple[Mask, Mask]:
    """Give a project chips with layers, the features "rcf" of pre and post, and clicks on the first damaged buildings.

    Returns:
        Which buildings are damaged, and which lack SAR, bool [n] each.
    """
    chips, is_damaged, lacks = layered_chips(n, **how)
    ids = [f"b{i}" for i in range(n)]
    facts = {
        "views": [asdict(view) for view in TABLE],
        "view_missing": {"sar-post": lacks.astype(float).tolist(), "dsm": [0.0] * n},
        "scaling": {
            "sar-post": {**_SCALED, "bands": [[-25.0, 0.0], [-30.0, -5.0]], "kind": "sar-db", "unit": "dB"},
            "dsm": {**_SCALED, "bands": [[0.0, 40.0]], "kind": "elevation", "unit": "m"},
        },
    }
    import torch

    rcf = fit_default(chips[:, :6])
    views = rcf.transform(chips[:, :6], 3, seed=0, device=torch.device("cpu"))
    add_chips(layout, ids, bands="pre+post", size_px=SIDE_PX, chips=chips, features=views, **facts)
    np.savez(layout.filters("set"), allow_pickle=False, **rcf.state())
    click(layout, *[ids[i] for i in np.flatnonzero(is_damaged)[:n_clicks]])
    return is_damaged, lacks


def layer_request(*layers: str, n_views: int = 3) -> dict[str, object]:
    """Return a request as a job takes it."""
    return asdict(FeatureRequest("layers", layers=layers, n_views=n_views))


def layer_set(layout: Layout, *layers: str, use: bool = False, n_views: int = 3) -> str:
    """Make a set for a project in this process; return its name."""
    made = features(job_of(layout, "features"), request=layer_request(*layers, n_views=n_views), use=use)
    return str(made["name"])
