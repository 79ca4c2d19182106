"""Add an xBD folder in one step: pictures of both dates as scenes, labels of the post pictures as footprints."""

from __future__ import annotations

from pathlib import Path

from pu_geo.errors import JobCancelled
from pu_geo.geo.readers import in_child, xbd_folder
from pu_geo.project import contents, store
from pu_geo.tasks.imagery.footprints import store_footprints
from pu_geo.tasks.imagery.scenes import add_scenes
from pu_geo.tasks.job import Job, Part

_TOLD = 5  # names of pictures in a note


def add_xbd(job: Job, *, folder: str, chosen: str = "") -> dict[str, object]:
    """Add the pictures of an xBD folder as scenes, placed by their labels, and the buildings of its post labels.

    What the labels say of a building's damage becomes its attribute `damage`; it is never a label or a click.

    Args:
        folder: holds images/ and labels/, or the pictures with their labels beside them, or such folders.
        chosen: how the names of the wanted pictures begin, or a pattern of them with * or ?; all if empty.

    Returns:
        What `add_scenes` does, and {"n_pictures", "n_left_out": those that could not be placed, "notes", "footprints": as
        `add_footprints`}; n_pictures = added + here already + n_left_out.

    Raises:
        ImageryError: if there is no such picture, none can be placed, or they lie too far apart for one project.
        FootprintError: if the labels hold no usable building.
    """
    job.report(0.0, f"looking through {folder}")
    found = xbd_folder.choose_xbd(Path(folder), chosen)
    n_pictures = len(found.pre) + len(found.post)

    def look(number: int) -> None:
        if job.is_cancelled():
            raise JobCancelled
        job.report(0.15 * number / n_pictures, f"placing {n_pictures} pictures by their labels")

    kept, left_out = xbd_folder.placed_xbd(found, look)
    scenes = add_scenes(Part(job, 0.15, 0.9), pre=[str(path) for path in kept.pre], post=[str(path) for path in kept.post])
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
    table = in_child.read_xbd_footprints(kept.labels, f"the labels of {Path(folder).name}", grid)
    return {
        **scenes,
        "n_pictures": n_pictures,
        "n_left_out": len(left_out),
        "notes": [_left_out_words(left_out)] if left_out else [],
        "footprints": store_footprints(Part(job, 0.9, 1.0), table, grid, f"labels of {Path(folder).name}"),
    }


def _left_out_words(names: list[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return (
        f"{len(names)} pictures were left out, since their labels hold too few buildings, or fit too badly, to place them: "
        f"{', '.join(names[:_TOLD])}{more}."
    )
