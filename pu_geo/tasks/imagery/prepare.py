"""Everything between imagery and the first click in one job: scenes, footprints, chips, features."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pu_geo.atomic_write import atomic_write
from pu_geo.tasks.imagery.align import align
from pu_geo.tasks.imagery.chip import Bands, chip
from pu_geo.tasks.imagery.footprints import add_footprints
from pu_geo.tasks.imagery.scenes import add_scenes
from pu_geo.tasks.job import Job, Part


def prepare(
    job: Job, *, pre: Sequence[str], post: Sequence[str], footprints: Sequence[str],
    bands: Bands = "auto", size_px: int = 64, copy_sources: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Add scenes and footprints, align pre with post, then cut chips and compute features.

    Args:
        copy_sources: first copy the scenes into the project folder (used for the sample event, which may move).

    Returns:
        what the parts returned: {"scenes", "footprints", "alignment", "chips"}
    """
    if copy_sources:
        pre, post = ([_copied(job, path) for path in paths] for paths in (pre, post))
    scenes = add_scenes(Part(job, 0.0, 0.15), pre=pre, post=post)
    added = [add_footprints(Part(job, 0.15, 0.2), path=path) for path in footprints]
    shifts = align(Part(job, 0.2, 0.3)) if pre and bands != "post" else None
    chips = chip(Part(job, 0.3, 1.0), size_px=size_px, bands=bands)
    return {"scenes": scenes, "footprints": added, "alignment": shifts, "chips": chips}


def _copied(job: Job, path: str) -> str:
    source = Path(path)
    target = job.layout.folder / "sources" / source.name
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
    return str(target)
