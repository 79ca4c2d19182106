"""What the Imagery screen and the command line ask for: what is there, and the jobs that add scenes, footprints and
chips.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pu_geo import jobs
from pu_geo.errors import ProjectError
from pu_geo.records import Grid, Scene, Units
from pu_geo.scenes.layers import missing_ids
from pu_geo.store import aoi, areas, contents, freshness, import_log, store
from pu_geo.store.aoi import Aoi
from pu_geo.store.contents import chip_facts as chip_facts
from pu_geo.store.import_log import ImportRecord
from pu_geo.store.layout import Layout, read_json


@dataclass(frozen=True)
class Overview:
    """What a project holds. `chips` are the facts of the newest chip set, None before there is one; `chip_sets` starts with
    it.

    `problem` is what is lost of the newest chip set, "" if nothing; its facts are None then.

    `layers` are the pyramids that the map shows, see `map_layers`; `layer_scenes` the files of layers beside pre and post.

    `units` say what footprints are, where they were asked for: all footprints are read for it.
    """

    scenes: Sequence[Scene]
    grid: Grid | None
    n_buildings: int
    chips: Mapping[str, Any] | None
    layers: Sequence[Mapping[str, Any]]
    units: Units = field(default_factory=lambda: Units(0))
    chip_sets: Sequence[str] = ()
    problem: str = ""
    layer_scenes: Sequence[Scene] = ()


def overview(layout: Layout, *, with_units: bool = False) -> Overview:
    """Collect what screens show of it."""
    with store.connect(layout) as db:
        every = contents.all_scenes(db)
        scenes, layer_scenes = ([one for one in every if (one.role == "layer") is is_layer] for is_layer in (False, True))
        grid = contents.grid(db) if any(scene.role == "post" for scene in scenes) else None
        n_buildings, units = contents.count_footprints(db), contents.units(db) if with_units else Units(0)
        chip_sets = contents.chip_sets(db)
    chips, problem = None, ""
    try:
        chips = chip_facts(layout, chip_sets[0]) if chip_sets else None
    except ProjectError as error:  # a lost file: chips can be cut again
        problem = str(error)
    return Overview(scenes, grid, n_buildings, chips, map_layers(layout), units, chip_sets, problem, layer_scenes)


def is_running(layout: Layout) -> bool:
    """Return whether a job of this screen runs or waits; none other can be started meanwhile."""
    return any(job.is_active for job in jobs.exclusive_jobs(layout))


def last_task(layout: Layout) -> str:
    """Return which task of this screen was started last; "" before there is one."""
    return next((job.task for job in jobs.exclusive_jobs(layout)), "")


def role_by_name(path: str) -> Literal["pre", "post"] | None:
    """Return which date an image shows, as its name or else that of its folder tells; None where neither does.

    >>> [role_by_name(path) for path in ("/a/x_pre_disaster.png", "/after/1.tif", "/c/20110529.tif")]
    ['pre', 'post', None]
    """
    for name in (Path(path).stem.lower(), Path(path).parent.name.lower()):
        is_pre, is_post = (
            re.search(rf"(?<![a-z])({words})(?![a-z])", name) is not None for words in ("pre|before", "post|after")
        )
        if is_pre != is_post:
            return "pre" if is_pre else "post"
    return None


def chip_set_facts(layout: Layout, chip_set: str | None = None) -> Mapping[str, Any]:
    """Return the facts of a chip set, the newest if None, see `contents.chip_facts`. Raises ProjectError if there is
    none.
    """
    return chip_facts(layout, store.call(layout, contents.chosen_chip_set, chip_set))


def map_layers(layout: Layout) -> list[dict[str, Any]]:
    """Return the quicklook pyramids that exist: {"name": "pre" | "post", "v": another one for other tiles, "max_zoom",
    "width", "height", ...}.
    """
    return [{"name": role, **facts} for role in ("pre", "post") if (facts := _pyramid(layout.quicklooks / role))]


def _pyramid(folder: Path) -> dict[str, Any]:
    """Return the facts of a folder of map tiles, and what names its state; nothing where there are none."""
    path = folder / "pyramid.json"
    return {**read_json(path), "v": str(path.stat().st_mtime_ns)} if path.is_file() else {}


def layer_tiles(layout: Layout, chips: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the layers beside pre and post that have map tiles, in the order in which they were added.

    Args:
        chips: facts of the newest chip set, see `contents.chip_facts`; None if there is none.

    Returns:
        As `map_layers` each, and {"when", "n_bands", "is_gray": shown in gray, as fewer than three bands are, "low", "high":
        of a gray one, the values shown as black and as white, in "unit", "missing": ids of the buildings of the newest chip
        set that it does not show; none where that was cut without it, or from other files of it}.
    """
    missing, found = missing_ids(chips or {}), []
    for layer in store.call(layout, contents.layers):
        if tiles := _pyramid(layout.layer_tiles(layer.name)):
            low, high = layer.scaling[0]
            lacks = missing.get(layer.name, []) if chips and freshness.is_of_now(chips, layer) else []
            found.append(
                {
                    "name": layer.name,
                    "when": layer.when,
                    "n_bands": layer.bands,
                    "is_gray": layer.bands < 3,
                    "low": low,
                    "high": high,
                    "unit": layer.unit,
                    "missing": lacks,
                    **tiles,
                }
            )
    return found


def paths_in(text: str) -> list[str]:
    """Read one path a line; quotes around a path and empty lines do not matter."""
    return [line.strip().strip("\"'") for line in text.splitlines() if line.strip()]


def first_path(text: str | None) -> str:
    """Read the path in a field of one; "" where it is empty."""
    return "".join(paths_in(text or "")[:1])


# Accounts of footprint files, the area of interest, uploads


@dataclass(frozen=True)
class Outlines:
    """The accounts of footprint files, newest first, the area of interest, and the number of areas of each layer of
    districts.

    `aoi_before` can be put back.
    """

    imports: Sequence[ImportRecord]
    aoi: Aoi | None
    aoi_before: Aoi | None
    areas: Mapping[str, int]


def outlines(layout: Layout) -> Outlines:
    """Collect them."""
    with store.connect(layout) as db:
        return Outlines(import_log.all_records(db), aoi.current(db), aoi.before(db), areas.layers(db))


def aoi_words(result: Mapping[str, Any]) -> str:
    """Return what `add_aoi` returned in words: the area, and what of the project lies outside it."""
    km2 = result["area_km2"]
    words = f"{result['source']} is the area of interest, " + (f"{km2:,.2f} km2" if km2 >= 0.1 else f"{km2 * 1e6:,.0f} m2")
    if not result["n"]:
        return f"{words}. Footprints added from now on are limited to it."
    return (
        f"{words}. {result['n_outside']:,} of the {result['n']:,} footprints that are here lie outside it and stay; "
        "those added from now on are limited to it."
    )


def last_aoi_words(layout: Layout) -> str:
    """Return in words what setting the present area of interest found; "" where no job of this project set it."""
    found = store.call(layout, aoi.current)
    done = (job for job in jobs.all_jobs(layout) if job.task == "add_aoi" and job.state == "done")
    last = next(done, None)
    return aoi_words(last.result) if found and last and last.result.get("source") == found.source else ""


def remove_aoi(layout: Layout) -> bool:
    """Remove the area of interest; footprints stay. Return whether there was one."""
    return store.call(layout, aoi.remove)


def put_back_aoi(layout: Layout) -> Aoi | None:
    """Undo the last change that took the area of interest away or replaced it; None if there was none before."""
    return store.call(layout, aoi.put_back)


def keep_uploads(layout: Layout, files: Sequence[tuple[str, bytes | memoryview]]) -> list[str]:
    """Store uploaded files that belong together, such as a picture and its world file; return their paths:
    `contents.keep`.
    """
    return [str(path) for path in contents.keep(layout, files)]
