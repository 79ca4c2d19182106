"""How much of each building, and of its chip's window, is hidden on each date: beyond scenes, by gaps, by clouds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.chips import Outlines, outline_mask, whole_pixels
from pu_geo.geo.raster import clouds
from pu_geo.geo.raster.placement import shares_outside
from pu_geo.records import Grid, Scene
from pu_geo.store.layout import Layout

DECIMALS = 4
BATCH = 512
MOST_SAMPLED = 500  # chips of a scene that show what is usual in it


def rounded(shares: NDArray[np.floating]) -> list[float]:
    return [round(float(one), DECIMALS) for one in shares]


@dataclass(frozen=True)
class _Date:
    """The chips of one date.

    Attributes:
        scenes: of this date, in the mosaic's order.
        chips, other: uint8 [N, 3, S, S] of this date, and of the other one or None.
        shapes: outlines in grid pixels, [N].
        scene: int64 [N], which of the scenes shows most of each outline; -1 for none.
        shift_px: float64 [N, 2], by which this date's content was moved.
        cells: thick clouds of each site; None where they cannot be found.
    """

    scenes: Sequence[Scene]
    chips: NDArray[np.uint8]
    other: NDArray[np.uint8] | None
    shapes: NDArray[np.object_]
    scene: NDArray[np.int64]
    shift_px: NDArray[np.float64]
    cells: list[clouds.CloudCells | None]


def hidden_facts(
    layout: Layout, windows: NDArray[np.float64], scenes: Sequence[Scene], grid: Grid, chips: NDArray[np.uint8],
    nodata_share: NDArray[np.float32], outlines: Outlines, pre_shift_px: NDArray[np.float64] | None,
) -> dict[str, object]:  # fmt: skip
    """Return what a chip set's facts say of hidden windows, and of each building itself on each date that its chips show.

    See `analysis.assessability.hidden_parts`.

    Args:
        windows: float64 [N, 4] from `chip_windows`.
        chips: uint8 [N, 6 or 3, S, S], pre bands first.
        nodata_share: float32 [N], 0..1, from `cut_chips`.
        outlines: filled in by `cut_chips`.
        pre_shift_px: float64 [N, 2], by which the content of pre moves; None where it stays.

    Returns:
        "nodata_share" of the windows. "post_outline", and "pre_outline" for chips with pre bands: {"outside", "nodata",
        "cloud"}, each [N], the share of the outline that lies beyond all scenes, that has no data within them, and that
        clouds hide; they do not overlap. "post_scene", "pre_scene": the scene that shows most of it, or None. "scenes": what
        these scenes are, by id.
    """
    stay = np.zeros((len(windows), 2))
    shifts = {"pre": stay if pre_shift_px is None else pre_shift_px, "post": stay}
    of_role = {role: [scene for scene in scenes if scene.role == role] for role in shifts}
    facts: dict[str, object] = {"nodata_share": rounded(nodata_share)}
    roles = ["pre", "post"] if chips.shape[1] == 6 else ["post"]
    for k, role in enumerate(roles):
        of_date, scene, missing = of_role[role], outlines.scene[:, k], outlines.missing[:, k]
        cells = [clouds.cloud_cells(layout.quicklooks / role, site) for site in grid.parts]
        other = chips[:, 3 - 3 * k : 6 - 3 * k] if len(roles) == 2 else None
        date = _Date(of_date, chips[:, 3 * k : 3 * k + 3], other, outlines.shapes, scene, shifts[role], cells)
        beyond = np.minimum(shares_outside(_moved(outlines.shapes, -shifts[role]), of_date, grid), missing)
        cloud = np.minimum(_cloud_shares(date, windows, grid), 1 - missing)
        shares = {"outside": beyond, "nodata": missing - beyond, "cloud": cloud}
        facts[f"{role}_outline"] = {key: rounded(values) for key, values in shares.items()}
        facts[f"{role}_scene"] = [of_date[n].scene_id if n >= 0 else None for n in scene.tolist()]
    facts["scenes"] = {
        scene.scene_id: {name: getattr(scene, name) for name in ("role", "sha256", "date", "gsd_m", "dtype", "stretch")}
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


def _cloud_shares(date: _Date, windows: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    """Return the share of each outline under cloud on one date, float64 [N], 0..1."""
    boxes, of = whole_pixels(windows), grid.site_of_windows(windows)
    site_gsd_m = np.array([site.gsd_m for site in grid.parts])[of]
    is_near = np.zeros(len(boxes), dtype=bool)
    for k, found in enumerate(date.cells):
        if found is not None:
            is_near[of == k] = found.touched((boxes - np.tile(date.shift_px, 2))[of == k])
    usual = _usual(date)
    least = np.array([scene.least_veil for scene in usual])
    gsd_m = np.array([scene.gsd_m for scene in date.scenes] or [grid.gsd_m])[date.scene]
    share = np.zeros(len(boxes))
    for start in range(0, len(boxes), BATCH):
        part = np.s_[start : start + BATCH]
        bands = np.asarray(date.chips[part])
        for i in np.flatnonzero(is_near[part] | clouds.may_be_veiled(bands, least[part])).tolist():
            row = start + i
            size = bands.shape[-1]
            side_px = (boxes[row, 2:] - boxes[row, :2]) / size
            outline = outline_mask(date.shapes[row], boxes[row, :2], side_px, (size, size))
            other = None if date.other is None else np.asarray(date.other[row])
            side_m = float(side_px.mean()) * site_gsd_m[row]
            hidden = clouds.veil(bands[i], other, outline, side_m, max(gsd_m[row], site_gsd_m[row]), usual[row])
            if (cells := date.cells[of[row]]) is not None and is_near[row]:
                box, along = boxes[row] - np.tile(date.shift_px[row], 2), (np.arange(size) + 0.5) / size
                in_cells = cells.at(box[0] + (box[2] - box[0]) * along, box[1] + (box[3] - box[1]) * along)
                hidden = hidden | in_cells  # of the chip's pixels, bool [size, size]
            share[row] = hidden[outline].mean() if outline.any() else 0.0
    return share


def _usual(date: _Date) -> NDArray[np.object_]:
    """Return what is usual in the scene that each chip shows, [N]; found once for each scene, from some of its chips."""
    usual = np.full(len(date.scene), clouds.Usual(), dtype=object)
    for number in np.unique(date.scene[date.scene >= 0]).tolist():
        rows = np.flatnonzero(date.scene == number)
        chosen = rows[:: -(-len(rows) // MOST_SAMPLED)]
        sample = np.asarray(date.chips[chosen])
        rise = 0.0 if date.other is None else clouds.usual_rise(sample, np.asarray(date.other[chosen]))
        usual[rows] = clouds.Usual(clouds.least_veil(clouds.darkness(sample)), rise)
    return usual
