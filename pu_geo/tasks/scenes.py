"""Add pre and post scenes to a project and build the map tiles that the browser shows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from pu_geo.errors import JobCancelled
from pu_geo.geo import quicklooks, raster
from pu_geo.project import contents, store
from pu_geo.records import Grid, Role, Scene
from pu_geo.tasks.footprints import write_geometry
from pu_geo.tasks.job import Job


def add_scenes(job: Job, *, pre: Sequence[str], post: Sequence[str]) -> dict[str, object]:
    """Check scenes, put them on the project grid, store them, and make quicklooks.

    Args:
        pre, post: paths of GeoTIFF files; several of one date form a mosaic. A file that is here already is left as it is.

    Returns:
        {"added": ids, "width", "height", "gsd_m", "crs", "pre_share": share of the grid that pre scenes cover or None}

    Raises:
        ImageryError: if a file cannot be used, or pre and post do not overlap.
    """
    with store.connect(job.layout) as db:
        known = contents.scenes(db)
    new: list[Scene] = []
    wanted: list[tuple[Role, str]] = [("pre", path) for path in pre] + [("post", path) for path in post]
    for i, (role, path) in enumerate(wanted):
        job.report(0.2 * i / len(wanted), f"checking {path}")
        number = sum(scene.role == role for scene in known + new) + 1
        scene = raster.describe(path, role, f"{role}-{number}")
        if not any((other.role, other.sha256) == (role, scene.sha256) for other in known + new):
            new.append(scene)
    scenes = known + new
    grid = raster.project_grid([scene for scene in scenes if scene.role == "post"])
    pre_scenes = [scene for scene in scenes if scene.role == "pre"]
    pre_share = raster.check_overlap(pre_scenes, grid) if pre_scenes else None
    with store.connect(job.layout) as db:
        contents.add_scenes(db, new, grid)
    _rebuild_quicklooks(job, scenes, grid)
    return {
        "added": [scene.scene_id for scene in new],
        "width": grid.width,
        "height": grid.height,
        "gsd_m": grid.gsd_m,
        "crs": grid.crs,
        "pre_share": pre_share,
    }


def _rebuild_quicklooks(job: Job, scenes: Sequence[Scene], grid: Grid) -> None:
    """Make the tile pyramids of both dates anew, beside the old ones, and change them over at the end."""
    roles: list[Role] = [role for role in ("post", "pre") if any(scene.role == role for scene in scenes)]
    for i, role in enumerate(roles):
        report = job.part(0.2 + 0.8 * i / len(roles), 0.2 + 0.8 * (i + 1) / len(roles), f"map tiles of the {role} scenes")
        folder = job.layout.quicklooks / role
        fresh = folder.with_name(f"{role}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        with raster.Mosaic([scene for scene in scenes if scene.role == role], grid) as mosaic:
            quicklooks.build_pyramid(mosaic, fresh, report=report, is_cancelled=job.is_cancelled)
        if job.is_cancelled():
            raise JobCancelled
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    with store.connect(job.layout) as db:
        if contents.count_footprints(db):
            write_geometry(job.layout, db)
