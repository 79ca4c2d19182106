"""Whether chips, and so what was made of them, show the scenes, layers and outlines that are there: the one judge of it.

A chip set keeps fingerprints of what it was cut from, under "made_from" in its facts. Runs, features, audits and maps name
their chip set. No clock is asked: it may have been set back, and a project may have been copied.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pu_geo import wording
from pu_geo.errors import ProjectError
from pu_geo.records import Layer, Scene, scene_fingerprint
from pu_geo.store import alignment, contents, store
from pu_geo.store.layout import Layout

CUT_AGAIN = "Cut chips again on the Imagery page, or with `pu-geo chip`."


def made_from(db: sqlite3.Connection, layout: Layout, shown: Collection[str], ids: Sequence[str]) -> dict[str, object]:
    """Return what a chip set keeps of what it was cut from.

    Args:
        shown: ids of the scenes that the chips show.
        ids: of its buildings, [N].

    Returns:
        {"scenes": {fingerprint: [name, whether the chips show it, layer]}, "outlines": [N] of checksums, "geometry_v",
        "alignment": the fingerprint of the alignment, "" without one, "pixels": of the grids of the sites}
    """
    outlines = _outlines(db)
    return {
        "scenes": {
            scene_fingerprint(scene): [_name(scene), scene.scene_id in shown, scene.layer]
            for scene in _in_order(contents.all_scenes(db))
        },
        "outlines": [outlines.get(one, 0) for one in ids],
        "geometry_v": contents.geometry_v(db),
        "alignment": alignment.fingerprint(layout, contents.scenes(db)),
        "pixels": _pixels(db),
    }


def _pixels(db: sqlite3.Connection) -> list[list[Any]]:
    """Return coordinate system and size of the pixels of each site, those of one kind once."""
    grid = contents.any_grid(db)
    return sorted([*one] for one in {(site.crs, *site.transform[::4]) for site in (grid.parts if grid else ())})


def _in_order(scenes: Sequence[Scene]) -> list[Scene]:
    """Return scenes by date and layer, those of one in the order in which they cover one another."""
    return sorted(scenes, key=lambda scene: (scene.role, scene.layer))


def _name(scene: Scene) -> str:
    return f"{scene.scene_id} of the layer {scene.layer}" if scene.layer else scene.scene_id


def _outlines(db: sqlite3.Connection) -> dict[str, int]:
    return {building: zlib.crc32(geom) for building, geom in db.execute("SELECT building_id, geom FROM footprints")}


@dataclass(frozen=True)
class Freshness:
    """How chips stand to what is there now.

    Attributes:
        gone: names of files that the chips show, and that the project has no more, or reads in another way.
        new: names of files that came, or are read in another way, since the chips were cut.
        n_added: buildings that have no chip.
        n_changed: buildings whose outline is another one.
        is_realigned: pre was aligned with post anew, with another result.
        is_redivided: a site was joined with another one, or divided, and its pixels are others.
    """

    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    n_added: int = 0
    n_changed: int = 0
    is_realigned: bool = False
    is_redivided: bool = False

    @property
    def former(self) -> str:
        """Return in a sentence which former pictures the chips show; "" where they show none."""
        if not self.gone:
            return ""
        what = wording.listed(self.gone)
        return f"The chips show {what}, which {'was' if len(self.gone) == 1 else 'were'} removed, replaced or moved since."

    @property
    def words(self) -> str:
        """Return why the chips should be cut again, a sentence each; "" where they are current."""
        new = wording.plural(len(self.new), "file") + " of scenes or layers came after the chips were cut."
        parts = [
            self.former,
            new if self.new and not self.gone else "",
            f"{wording.plural(self.n_added, 'footprint')} added after the chips were cut." if self.n_added else "",
            f"{wording.plural(self.n_changed, 'outline')} changed after the chips were cut." if self.n_changed else "",
            "The scenes were aligned after the chips were cut." if self.is_realigned else "",
            "The sites have other pixels than when the chips were cut." if self.is_redivided else "",
        ]
        return " ".join(filter(None, parts))


def of_chips(layout: Layout, chip_set: str | None = None) -> Freshness:
    """Judge a chip set, the newest if None; what is not there, or whose facts are lost, is no older than anything."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db) if chip_set is None else chip_set
        if chip_set is None or not layout.chip_facts(chip_set).is_file():
            return Freshness()
        facts = contents.chip_facts(layout, chip_set)
        made: Mapping[str, Any] = facts["made_from"]
        every, version, pixels = contents.all_scenes(db), contents.geometry_v(db), _pixels(db)
        is_same = version == made["geometry_v"]
        n_added, n_changed = (0, 0) if is_same else _compared(layout, store.project_id(db), version, chip_set)
    now = {scene_fingerprint(scene): _name(scene) for scene in _in_order(every)}
    cut: Mapping[str, Sequence[Any]] = made["scenes"]
    shown = {sign: name for sign, (name, is_shown, _) in cut.items() if is_shown}
    gone = [name for sign, name in shown.items() if sign not in now]
    if not gone:  # of several that overlap, the first is seen
        gone = [shown[was] for was, sign in zip(shown, filter(shown.get, now), strict=True) if was != sign]
    new = tuple(name for sign, name in now.items() if sign not in cut)
    aligned = alignment.fingerprint(layout, [scene for scene in every if scene.role != "layer"])
    is_realigned = facts["bands"] != "post" and aligned not in ("", made["alignment"])
    is_redivided = not gone and not new and pixels != made["pixels"]
    return Freshness(tuple(gone), new, n_added, n_changed, is_realigned, is_redivided)


@lru_cache(maxsize=16)
def _compared(layout: Layout, project_id: str, version: str, chip_set: str) -> tuple[int, int]:
    """Return how many buildings came after a chip set, and how many have another outline, by project and state of its
    footprints.
    """
    facts = contents.chip_facts(layout, chip_set)
    cut = dict(zip(facts["building_ids"], facts["made_from"]["outlines"], strict=True))
    now = store.call(layout, _outlines)
    return len(now.keys() - cut.keys()), sum(cut.get(one, sign) != sign for one, sign in now.items())


def require(layout: Layout) -> str:
    """Return the newest chip set, where it may be learned from, ranked and judged.

    Raises:
        ProjectError: if there is none, or it shows a picture that the project has no more.
    """
    found = store.call(layout, contents.chosen_chip_set)
    refuse_former(layout, found)
    return found


def refuse_former(layout: Layout, chip_set: str) -> None:
    """Raise ProjectError if chips show a picture that the project has no more; chips that were removed are judged by their
    facts.
    """
    if former := of_chips(layout, chip_set).former:
        raise ProjectError(f"{former} Nothing is learned from them or judged by them.", CUT_AGAIN, kind="stale")


def is_of_now(facts: Mapping[str, Any], layer: Layer) -> bool:
    """Return whether a chip set, of these facts, was cut from the files that a layer has now as they are read, and no
    others.
    """
    return [sign for sign, (_, _, name) in facts["made_from"]["scenes"].items() if name == layer.name] == [
        scene_fingerprint(scene) for scene in layer.scenes
    ]
