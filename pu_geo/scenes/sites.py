"""The sites of an event: what each of them has and lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pu_geo.geo.vector.crs import lonlat_nodes
from pu_geo.geo.vector.sites import sites_under
from pu_geo.records import Grid, Scene
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout
from pu_geo.wording import plural


@dataclass(frozen=True)
class Site:
    """One site of an event.

    Attributes:
        grid: its own.
        pre, post: ids of the scenes that show it.
        n_buildings: how many belong to it.
    """

    grid: Grid
    pre: Sequence[str]
    post: Sequence[str]
    n_buildings: int

    @property
    def name(self) -> str:
        return self.grid.name

    @property
    def lacks(self) -> list[str]:
        """What is missing in it, in words."""
        return ["no pre-event scene"] * (not self.pre) + ["no buildings"] * (not self.n_buildings)

    @property
    def words(self) -> str:
        """What it has, in one line."""
        scenes = f"{len(self.post)} post and {plural(len(self.pre), 'pre scene')} in pixels of {self.grid.gsd_m:.2g} m"
        return "; ".join([f"{plural(self.n_buildings, 'building')}, {scenes}", *self.lacks])


def sites(layout: Layout) -> list[Site]:
    """Return the sites of an event in their order; none before there is a post scene."""
    with store.connect(layout) as db:
        grid = contents.any_grid(db)
        if grid is None:
            return []
        scenes, of = contents.scenes(db), contents.sites(db)
    pre = _pre_of(tuple(scene for scene in scenes if scene.role == "pre"), grid)
    n = np.bincount(of[of >= 0], minlength=len(grid.parts)).tolist()
    return [Site(one, pre[k], one.scenes, n[k]) for k, one in enumerate(grid.parts)]


@lru_cache(maxsize=16)
def _pre_of(scenes: tuple[Scene, ...], grid: Grid) -> list[list[str]]:
    """Return ids of the scenes that show a part of each site."""
    if not grid.sites:
        return [[scene.scene_id for scene in scenes]]
    rows = {scene.scene_id: {site.name for site in sites_under(scene, grid)} for scene in scenes}
    return [[one for one, names in rows.items() if site.name in names] for site in grid.sites]


def lacking_words(found: Collection[Site]) -> list[str]:
    """Return what some of several sites lack, and others have, in sentences."""
    counts = Counter(words for site in found for words in site.lacks)
    some = [(words, n) for words, n in counts.items() if n < len(found)]
    return [f"{n} of {len(found)} sites {'has' if n == 1 else 'have'} {words}." for words, n in some]


@lru_cache(maxsize=16)
def for_browser(grid: Grid) -> list[dict[str, object]]:
    """Return the sites as the map takes them, from top to bottom.

    Returns:
        {"name", "box": column, row, right and bottom in pixels of the project, "gsd_m", "lonlat": longitude and latitude of
        n x n places spread over it, {"n", "lon", "lat"} row by row in degrees; None for a project without a place}
    """
    found: list[dict[str, object]] = []
    for site in grid.parts:
        nodes, lonlat = lonlat_nodes(site), None
        if nodes is not None:
            lon, lat = np.round(nodes.reshape(-1, 2).T, 8).tolist()
            lonlat = {"n": len(nodes), "lon": lon, "lat": lat}
        found.append({"name": site.name, "box": [*site.span], "gsd_m": site.gsd_m, "lonlat": lonlat})
    return found
