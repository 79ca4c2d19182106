"""What is looked at, for the Imagery screen and the command line: accounts of footprint files, and the area of interest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pu_geo import jobs
from pu_geo.errors import PuGeoError
from pu_geo.project import aoi, areas, contents, import_log, store
from pu_geo.project.aoi import Aoi
from pu_geo.project.import_log import Intake
from pu_geo.project.layout import Layout


@dataclass(frozen=True)
class Outlines:
    """What a project says about where it looks.

    Attributes:
        intakes: the accounts of files, newest first.
        aoi: the area of interest, or None.
        aoi_before: the one that can be put back, or None.
        areas: how many areas each layer of districts has.
    """

    intakes: Sequence[Intake]
    aoi: Aoi | None
    aoi_before: Aoi | None
    areas: Mapping[str, int]


def outlines(layout: Layout) -> Outlines:
    """Collect them."""
    with store.connect(layout) as db:
        return Outlines(import_log.all_intakes(db), aoi.current(db), aoi.before(db), areas.layers(db))


def start_adding_aoi(layout: Layout, *, path: str = "", text: str = "") -> str:
    """Start the job that sets the area of interest from a polygon file or from typed text; return its id.

    Raises:
        PuGeoError: unless one of the two is given.
    """
    if bool(path) == bool(text.strip()):
        raise PuGeoError(
            "No area was named, or two were.", "Name a polygon file, or write a box or WKT, and empty the other."
        )
    return jobs.start(layout, "add_aoi", {"path": path or None, "text": text})


def aoi_words(result: Mapping[str, Any]) -> str:
    """Say what `add_aoi` returned: the area, and what of the project lies outside it."""
    km2 = result["area_km2"]
    words = f"{result['source']} is the area of interest, " + (f"{km2:,.2f} km2" if km2 >= 0.1 else f"{km2 * 1e6:,.0f} m2")
    if not result["n"]:
        return f"{words}. Footprints added from now on are limited to it."
    return (
        f"{words}. {result['n_outside']:,} of the {result['n']:,} footprints that are here lie outside it and stay; "
        "those added from now on are limited to it."
    )


def last_aoi_words(layout: Layout) -> str:
    """Say what setting the area of interest that stands now found; "" where no job of this project set it."""
    with store.connect(layout) as db:
        found = aoi.current(db)
    done = (job for job in jobs.all_jobs(layout) if job.task == "add_aoi" and job.state == "done")
    last = next(done, None)
    return aoi_words(last.result) if found and last and last.result.get("source") == found.source else ""


def remove_aoi(layout: Layout) -> bool:
    """Take the area of interest away; footprints stay. Returns whether there was one."""
    with store.connect(layout) as db:
        return aoi.remove(db)


def put_back_aoi(layout: Layout) -> Aoi | None:
    """Undo the last change that took the area of interest away or replaced it; None if there was none before."""
    with store.connect(layout) as db:
        return aoi.put_back(db)


def keep_uploads(layout: Layout, files: Sequence[tuple[str, bytes | memoryview]]) -> list[str]:
    """Store uploaded files in the project and return their paths.

    Args:
        files: name and content; files that belong together, such as a picture and its world file, come together.

    Raises:
        ProjectError: if one is empty or over 50 MB, or two have the same name.
    """
    return [str(path) for path in contents.keep(layout, files)]
