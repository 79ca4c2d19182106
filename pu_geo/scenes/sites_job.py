"""Name the sites of an event, join them, divide them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pu_geo.errors import ProjectError
from pu_geo.geo.raster.placement import project_grid
from pu_geo.records import Grid
from pu_geo.scenes import scene_files
from pu_geo.scenes.scenes_job import drawn, exchange_folder
from pu_geo.store import contents, store
from pu_geo.store.job import Job
from pu_geo.wording import listed


def put_in_site(job: Job, *, what: Sequence[str], name: str) -> dict[str, object]:
    """Make post scenes one site under a name: one of another name is renamed, several are joined, some of one divide it.

    Args:
        what: names of sites or post scenes.
        name: of a site that is here, whose scenes stay in it, or a new one.

    Returns:
        {"sites": their names, "is_redrawn": whether pixels lie elsewhere than before}

    Raises:
        ProjectError: if there is no such site or scene.
        ImageryError: if the scenes are too far from each other for one grid, or a file is missing or changed.
    """
    with store.connect(job.layout) as db:
        grid, everything, share = contents.grid(db), contents.all_scenes(db), contents.pre_share(db)
    post = [scene for scene in everything if scene.role == "post"]
    named = {site.name for site in grid.parts}
    what = [one if one in named else scene_files.id_of(post, one) for one in what]
    new, folder = project_grid(post, _divided(grid, what, name), grid.crs), None
    is_redrawn = contents.lattice(new) != contents.lattice(grid)
    if is_redrawn:
        everything = scene_files.require(job.layout, everything, is_cancelled=job.is_cancelled)
        made = drawn(job, [scene for scene in everything if scene.role != "layer"], [], new)
        share, folder = made.pre_share, made.folder
    with store.connect(job.layout) as db:
        if folder is not None:
            exchange_folder(folder, job.layout.quicklooks)
        contents.add_scenes(db, [], new, share)
    return {"sites": [site.name for site in new.parts], "is_redrawn": is_redrawn}


def _divided(grid: Grid, what: Sequence[str], name: str) -> Grid:
    """Return a grid whose sites have the scenes that a person wants, for `project_grid` to start from."""
    of_name = {site.name: set(site.scenes) for site in grid.parts}
    every = set[str]().union(*of_name.values())
    if unknown := [one for one in what if one not in of_name and one not in every]:
        raise ProjectError(
            f"There is no site or post-event scene {listed(unknown)}; the sites are {listed(list(of_name))}.",
            "`pu-geo sites` lists sites and their scenes.",
        )
    moved = set[str]().union(*(of_name.get(one, {one}) for one in what))
    mine = replace(grid.parts[0], name=name, scenes=tuple(moved | of_name.get(name, set())), is_named=True)
    others = [site for site in grid.parts if site.name != name and not moved.issuperset(site.scenes)]
    left = [
        replace(site, scenes=tuple(one for one in site.scenes if one not in moved), is_named=True)
        if moved.intersection(site.scenes)
        else site
        for site in others
    ]
    return replace(grid, sites=(mine, *left))
