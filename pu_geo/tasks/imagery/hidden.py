"""How much of each building and of its chip's window is hidden, and how: by the scenes' borders, missing data, clouds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.chips import Outlines, outline_mask, whole_pixels
from pu_geo.geo.raster import clouds
from pu_geo.geo.raster.clouds import cloud_cells
from pu_geo.geo.raster.placement import outside_shares, shares_outside
from pu_geo.project.layout import Layout
from pu_geo.records import Grid, Role, Scene

DECIMALS = 4
BATCH = 512
MOST_SAMPLED = 500  # chips of a scene that show what is usual in it


def hidden_shares(
    layout: Layout,
    windows: NDArray[np.float64],
    scenes: Sequence[Scene],
    grid: Grid,
    nodata_share: NDArray[np.float32],
    *,
    pre_shift_px: NDArray[np.float64] | None = None,
) -> dict[str, list[float]]:
    """Return what a chip set's facts say of hidden windows; see `analysis.assessability.hidden_parts`.

    Args:
        windows: float64 [N, 4] from `chip_windows`.
        nodata_share: float32 [N], 0..1, from `cut_chips`.
        pre_shift_px: float64 [N, 2], by which the content of pre moves; None where it stays.

    Returns:
        "nodata_share", and "outside_share"; "cloud_share" and, with a pre scene, "pre_cloud_share", where clouds can be found.
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
    return {key: _rounded(shares) for key, shares in found.items()}


def _rounded(shares: NDArray[np.floating]) -> list[float]:
    return [round(float(one), DECIMALS) for one in shares]


@dataclass(frozen=True)
class _Date:
    """The chips of one date.

    Attributes:
        scenes: of this date, in the mosaic's order.
        chips, other: uint8 [N, 3, S, S] of this date, and of the other one or None.
        outlines, column: what is known of each outline, and the column of this date in it.
        shift_px: float64 [N, 2], by which this date's content was moved.
    """

    role: Role
    scenes: Sequence[Scene]
    chips: NDArray[np.uint8]
    other: NDArray[np.uint8] | None
    outlines: Outlines
    column: int
    shift_px: NDArray[np.float64]


def outline_facts(
    layout: Layout,
    windows: NDArray[np.float64],
    scenes: Sequence[Scene],
    grid: Grid,
    chips: NDArray[np.uint8],
    outlines: Outlines,
    *,
    pre_shift_px: NDArray[np.float64] | None = None,
) -> dict[str, object]:
    """Return what a chip set's facts say of each building itself, on each date that its chips show.

    Args:
        windows: float64 [N, 4] from `chip_windows`.
        chips: uint8 [N, 6 or 3, S, S], pre bands first.
        outlines: filled in by `cut_chips`.
        pre_shift_px: as for `hidden_shares`.

    Returns:
        "post_outline", and "pre_outline" for chips with pre bands: {"outside", "nodata", "cloud"}, each [N], the share of
        the outline that lies beyond all scenes, that has no data within them, and that clouds hide; they do not overlap.
        "post_scene", "pre_scene": the scene that shows most of it, or None. "scenes": what these scenes are, by id.
    """
    roles: list[Role] = ["pre", "post"] if chips.shape[1] == 6 else ["post"]
    stay = np.zeros((len(windows), 2))
    facts: dict[str, object] = {}
    for k, role in enumerate(roles):
        of_date = [scene for scene in scenes if scene.role == role]
        other = chips[:, 3 - 3 * k : 6 - 3 * k] if len(roles) == 2 else None
        shift_px = pre_shift_px if role == "pre" and pre_shift_px is not None else stay
        date = _Date(role, of_date, chips[:, 3 * k : 3 * k + 3], other, outlines, k, shift_px)
        missing = outlines.missing[:, k]
        outside = np.minimum(shares_outside(_moved(outlines.shapes, -shift_px), of_date, grid), missing)
        cloud = np.minimum(_cloud_shares(layout, date, windows, grid), 1 - missing)
        shares = {"outside": outside, "nodata": missing - outside, "cloud": cloud}
        facts[f"{role}_outline"] = {key: _rounded(values) for key, values in shares.items()}
        facts[f"{role}_scene"] = [of_date[n].scene_id if n >= 0 else None for n in outlines.scene[:, k].tolist()]
    facts["scenes"] = {
        scene.scene_id: {name: getattr(scene, name) for name in ("role", "sha256", "date", "gsd_m", "dtype", "path")}
        for scene in scenes
        if scene.role in roles
    }
    return facts


def _moved(shapes: NDArray[np.object_], by_px: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return shapes, each moved by its own (columns, rows), float64 [N, 2]."""
    if not by_px.any():
        return shapes
    xy, of_shape = shapely.get_coordinates(shapes, return_index=True)
    return np.asarray(shapely.set_coordinates(shapes.copy(), xy + by_px[of_shape]), dtype=object)


def _cloud_shares(layout: Layout, date: _Date, windows: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    """Return the share of each outline under cloud on one date, float64 [N], 0..1."""
    cells = cloud_cells(layout.quicklooks / date.role, grid.gsd_m)
    boxes = whole_pixels(windows)
    own = np.concatenate([boxes[:, :2] - date.shift_px, boxes[:, 2:] - boxes[:, :2]], axis=1)
    is_near = np.zeros(len(boxes), dtype=bool) if cells is None else cells.shares(own) > 0
    usual = _usual(date)
    least = np.array([scene.least_veil for scene in usual])
    gsd_m = np.array([scene.gsd_m for scene in date.scenes] or [grid.gsd_m])[date.outlines.scene[:, date.column]]
    share = np.zeros(len(boxes))
    for start in range(0, len(boxes), BATCH):
        part = np.s_[start : start + BATCH]
        bands = np.asarray(date.chips[part])
        for i in np.flatnonzero(is_near[part] | clouds.may_be_veiled(bands, least[part])).tolist():
            row = start + i
            size = bands.shape[-1]
            side_px = (boxes[row, 2:] - boxes[row, :2]) / size
            outline = outline_mask(date.outlines.shapes[row], boxes[row, :2], side_px, (size, size))
            other = None if date.other is None else np.asarray(date.other[row])
            side_m = float(side_px.mean()) * grid.gsd_m
            hidden = clouds.veil(bands[i], other, outline, side_m, max(gsd_m[row], grid.gsd_m), usual[row])
            if cells is not None and is_near[row]:
                box, along = boxes[row] - np.tile(date.shift_px[row], 2), (np.arange(size) + 0.5) / size
                in_cells = cells.at(box[0] + (box[2] - box[0]) * along, box[1] + (box[3] - box[1]) * along)
                hidden = hidden | in_cells  # of the chip's pixels, bool [size, size]
            share[row] = hidden[outline].mean() if outline.any() else 0.0
    return share


def _usual(date: _Date) -> list[clouds.Usual]:
    """Return what is usual in the scene that each chip shows, [N]; found once for each scene, from some of its chips."""
    scene = date.outlines.scene[:, date.column]
    usual = [clouds.Usual()] * len(scene)
    for number in np.unique(scene[scene >= 0]).tolist():
        rows = np.flatnonzero(scene == number)
        chosen = rows[:: -(-len(rows) // MOST_SAMPLED)]
        sample = np.asarray(date.chips[chosen])
        rise = 0.0 if date.other is None else clouds.usual_rise(sample, np.asarray(date.other[chosen]))
        found = clouds.Usual(clouds.least_veil(clouds.darkness(sample)), rise)
        for row in rows.tolist():
            usual[row] = found
    return usual
