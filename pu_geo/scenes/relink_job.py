"""Find the files of scenes again that were moved or renamed."""

from __future__ import annotations

from pu_geo.scenes import scene_files
from pu_geo.store.job import Job


def relink(job: Job, *, old: str, new: str) -> dict[str, object]:
    """Do what `scene_files.relink` does, as a job: files are read in full, and no other job reads the scenes meanwhile.

    Returns:
        {"relinked": {"scene_id", "role", "old", "new"} of each scene}
    """
    return {"relinked": scene_files.relink(job.layout, old, new, report=job.report, is_cancelled=job.is_cancelled)}
