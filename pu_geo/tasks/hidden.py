"""How much of each chip's window is hidden, and how: by the scenes' borders, by missing data, by clouds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.clouds import cloud_cells
from pu_geo.geo.coverage import outside_shares
from pu_geo.project.layout import Layout
from pu_geo.records import Grid, Scene

DECIMALS = 4


def hidden_shares(
    layout: Layout,
    windows: NDArray[np.float64],
    scenes: Sequence[Scene],
    grid: Grid,
    nodata_share: NDArray[np.float32],
    *,
    pre_shift_px: NDArray[np.float64] | None = None,
) -> dict[str, list[float]]:
    """Return what a chip set's facts say of hidden windows; see `analysis.assessability.SHARES`.

    Args:
        windows: float64 [N, 4] from `chip_windows`.
        nodata_share: float32 [N], 0..1, from `cut_chips`.
        pre_shift_px: float64 [N, 2], by which the content of pre moves; None where it stays.

    Returns:
        "nodata_share", and "outside_share"; "cloud_share" and, with a pre scene, "pre_cloud_share", where clouds can be told.
    """
    post = [scene for scene in scenes if scene.role == "post"]
    outside = np.minimum(outside_shares(windows, post, grid), nodata_share)
    found = {"nodata_share": nodata_share, "outside_share": outside}
    for role, key in (("post", "cloud_share"), ("pre", "pre_cloud_share")):
        cells = cloud_cells(layout.quicklooks / role, grid.gsd_m)
        if cells is None:
            continue
        moved = windows.copy()
        if role == "pre" and pre_shift_px is not None:
            moved[:, :2] -= pre_shift_px
        share = cells.shares(moved)
        found[key] = np.minimum(share, 1 - nodata_share) if role == "post" else share
    return {key: [round(float(one), DECIMALS) for one in shares] for key, shares in found.items()}
