"""What a picture on Explore shows: a *source* of embeddings, their place in the plane, its regions, and what may be said.

A source is `LOOK`, how the buildings look by the features in use: no label and no training has a part in it. Or it is the
id of a run, whose training made the embeddings. The look is made once a feature set, by itself as soon as there are chips.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from pu_geo import jobs, wording
from pu_geo.answers import ranking
from pu_geo.errors import ProjectError
from pu_geo.records import Singles
from pu_geo.store import chosen, contents, feature_sets, labels, locks, run_names, runs, store
from pu_geo.store.layout import Layout, read_array, read_json

LOOK = "look"
TASK = "look"
TITLE = "The look"
OF_TRAINING = "A training may draw an island for any clicks, also random ones: that clicks lie together here proves nothing."
NO_LABEL = "No label and no training has a part in this picture."
_WITHOUT_LABELS = ("propagation",)  # methods whose embeddings labels have no part in
_STARTING = "look.lock"
_CELLS, _LEAST_OF = 72, 0.05  # of an outline: cells across the picture, and what an island of dots holds at least


def feature_set_of(layout: Layout) -> tuple[str, str] | None:
    """Return the chip set and its feature set that the look is of: the newest, and the one in use; None without features."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        name = feature_sets.in_use(db, layout, chip_set).name if chip_set else ""
    return (chip_set, name) if chip_set and feature_sets.is_there(layout, chip_set, name) else None


def sources(layout: Layout) -> dict[str, str]:
    """Return what pictures can show: source -> words, the look first, then the runs, newest first."""
    look = {LOOK: TITLE} if feature_set_of(layout) else {}
    return look | run_names.names(layout)


def run_of(layout: Layout, source: str) -> str:
    """Return the run by whose scores a picture is colored: the one it is of, for the look the chosen one; "" without any."""
    if source != LOOK:
        return source
    found = chosen.chosen_run(layout)
    return "" if found is None else found.run_id


def chip_set_of(layout: Layout, source: str) -> str:
    """Return the chips that a source is of. Raises ProjectError if there is no such source."""
    return _of_look(layout)[0] if source == LOOK else store.call(layout, runs.find, source).chip_set


def ids_of(layout: Layout, source: str) -> Sequence[str]:
    """Return the building of each row of a source. Raises ProjectError if there is no such source."""
    if source == LOOK:
        found: Sequence[str] = contents.chip_facts(layout, _of_look(layout)[0])["building_ids"]
        return found
    return runs.building_ids_of(layout, source)


def rows_of(layout: Layout, source: str) -> Singles:
    """Return the embeddings of a source, unit rows, float32 [N, D]. Raises ProjectError if it has none, or none yet."""
    if source != LOOK:
        return np.asarray(runs.array(layout, source, "embeddings"), np.float32)
    return _made(layout, layout.look(*_of_look(layout)))


def traits_of(layout: Layout) -> Singles:
    """Return how buildings of the look changed, float32 [N, 10], see `analysis.looks.traits`. Raises as `rows_of` does."""
    return _made(layout, layout.look_traits(*_of_look(layout)))


def _made(layout: Layout, path: Path) -> Singles:
    if not path.is_file():
        raise ProjectError(
            "How the buildings look has not been worked out yet.",
            f"Open the Explore screen, or `pu-geo look {layout.folder.name}`.",
            kind="look",
        )
    return np.asarray(read_array(path), np.float32)


def plane_of(layout: Layout, source: str) -> Singles | None:
    """Return where each row of a source is in its picture, float32 [N, 2]; None before its job has laid it out."""
    path = plane_file(layout, source)
    return np.asarray(read_array(path), np.float32) if path.is_file() else None


def plane_file(layout: Layout, source: str) -> Path:
    """Return the file of `plane_of`. Raises ProjectError if there is no such source."""
    return layout.look_plane(*_of_look(layout)) if source == LOOK else layout.run(source) / "umap.npy"


def groups_file(layout: Layout, source: str) -> Path:
    """Return the file of a source's clusters, see `look_job`. Raises ProjectError if there is no such source."""
    return layout.look_groups(*_of_look(layout)) if source == LOOK else layout.run(source) / "groups.json"


def is_drawn(layout: Layout, source: str) -> bool:
    """Return whether all that its job makes of a source is there. Raises ProjectError if there is no such source."""
    rows = [layout.look(*_of_look(layout))] if source == LOOK else []
    return all(path.is_file() for path in (*rows, plane_file(layout, source), groups_file(layout, source)))


def plane_v(layout: Layout, source: str) -> str:
    """Return a text that changes with a picture and with the order of the footprints; "" where there is no picture."""
    path = plane_file(layout, source)
    return f"{ranking.geometry_v(layout)}-{path.stat().st_mtime_ns}" if path.is_file() else ""


def positions_for_browser(layout: Layout, source: str) -> bytes | None:
    """Return the plane in the order of the map's geometry, little-endian float32 [M, 2]; NaN for a building without a place.

    None where there is no such source, or no picture of it.
    """
    plane = plane_of(layout, source) if source in sources(layout) else None
    return None if plane is None else ranking.in_map_order(layout, ids_of(layout, source), plane).astype("<f4").tobytes()


def n_unplaced(layout: Layout, source: str) -> int:
    """Count the buildings of the newest chips that a source does not know, and which have no place in its picture."""
    newest = store.call(layout, contents.latest_chip_set)
    if newest in (None, chip_set_of(layout, source)):
        return 0
    return len(set(contents.chip_facts(layout, newest)["building_ids"]).difference(ids_of(layout, source)))


def _of_look(layout: Layout) -> tuple[str, str]:
    found = feature_set_of(layout)
    if found is None:
        raise ProjectError(
            "There are no features of chips yet, so nothing is known of how buildings look.",
            "Cut chips first, on the Imagery screen or with `pu-geo chip`.",
            kind="look",
        )
    return found


# The job that lays a source out


def arguments(layout: Layout, source: str) -> dict[str, Any]:
    """Return what the job of a source is given. Raises ProjectError if there is no such source."""
    if source != LOOK:
        return {"source": store.call(layout, runs.find, source).run_id}
    return {"source": LOOK, **dict(zip(("chip_set", "feature_set"), _of_look(layout), strict=True))}


def job(layout: Layout, source: str) -> jobs.JobView | None:
    """Return the newest job that lays a source out, of the look by the features in use; None where none was started."""
    given = arguments(layout, source)
    return next((one for one in jobs.all_jobs(layout) if one.task == TASK and one.args == given), None)


def start(layout: Layout, source: str = LOOK) -> jobs.JobView | None:
    """Start the job of a source that has no picture or no clusters, unless one was started before; return the newest.

    One that failed or was cancelled stays so until a person starts it again.

    Returns:
        None where there is nothing to start: the picture is there, or the project may not be changed.
    """
    if is_drawn(layout, source) or not store.is_writable(layout):
        return None
    with locks.one_at_a_time(layout.jobs / _STARTING):
        found = job(layout, source)
        if found is None or found.state == "done":  # its picture went with former features
            jobs.start(layout, TASK, arguments(layout, source))
    return job(layout, source)


def progress_of(layout: Layout, source: str) -> tuple[str, str] | None:
    """Return how far the job of a source is, and what it does, in words; None once it is not active."""
    found = job(layout, source)
    if found is None or not found.is_active:
        return None
    return f"Drawing the picture, {wording.percent(found.progress or 0.0)}", found.message or NO_LABEL


# What may be said of it


def words_of(layout: Layout, source: str) -> str:
    """Return what may be read from how near clicks are to each other in a picture, in one or two sentences.

    Raises:
        ProjectError: if there is no such source, or the look is not there yet.
    """
    if source != LOOK and store.call(layout, runs.find, source).method not in _WITHOUT_LABELS:
        return OF_TRAINING
    found = nearness(layout, source)
    if found is None:
        return NO_LABEL
    return f"Buildings marked damaged lie {found:.2g} times nearer to each other than chance. {NO_LABEL}"


def nearness(layout: Layout, source: str) -> float | None:
    """Return how many times nearer the buildings marked damaged lie to each other than as many random ones; None for few."""
    with store.connect(layout) as db:
        at, answers = labels.moment(db), labels.current_labels(db)
    clicked = frozenset(building for building, label in answers.items() if label == "positive")
    return _nearness(layout, source, plane_v(layout, source), at, clicked)


@lru_cache(maxsize=8)
def _nearness(layout: Layout, source: str, v: str, at: labels.Moment, clicked: Collection[str]) -> float | None:
    from pu_geo.analysis import looks

    is_clicked = np.fromiter((each in clicked for each in ids_of(layout, source)), np.bool_)
    return looks.nearer_than_chance(rows_of(layout, source), is_clicked)


@dataclass(frozen=True)
class Region:
    """A part of a picture, for a thumbnail that stands for it.

    Attributes:
        place: of the building that stands for it, in the order of the map.
        x, y: where this one is in the plane.
        n, clicks: buildings of it, and how many of them are marked damaged.
        flagged: share of those with a score that the threshold flags, 0..1; None without scores.
    """

    place: int
    x: float
    y: float
    n: int
    clicks: int
    flagged: float | None

    @property
    def words(self) -> str:
        """Return these numbers in words, for example "146 buildings, 23 marked, 93 % flagged"."""
        found = [wording.plural(self.n, "building"), f"{self.clicks:,} marked"]
        return ", ".join(found if self.flagged is None else [*found, f"{wording.percent(self.flagged)} flagged"])


def regions_of(layout: Layout, source: str) -> list[Region]:
    """Return the regions of a picture, largest first; none before there is one.

    Which buildings make a region, and which one stands for it, stays with the picture; the counts are of this moment.
    """
    if not groups_file(layout, source).is_file():
        return []
    ids, part, stands, plane = _regions(layout, source, plane_v(layout, source))
    answers, run_id = store.call(layout, labels.current_labels), run_of(layout, source)
    is_clicked = np.fromiter((answers.get(each) == "positive" for each in ids), np.bool_, len(ids))
    scores = np.full(len(part), np.nan, np.float32) if not run_id else scores_on_map(layout, run_id)
    limit = chosen.threshold(layout, run_id).value if run_id else 0.0
    found = []
    for region, place in stands.items():
        own = part == region
        known = runs.written(scores[own & np.isfinite(scores)])
        flagged = float((known >= limit).mean()) if len(known) else None
        x, y = plane[place].tolist()
        found.append(Region(place, x, y, int(own.sum()), int(is_clicked[own].sum()), flagged))
    return sorted(found, key=lambda one: -one.n)


@lru_cache(maxsize=4)
def _regions(layout: Layout, source: str, v: str) -> tuple[Sequence[str], Singles, dict[int, int], Singles]:
    """Return the buildings of the map, the region of each, NaN without a place, the place that stands for each region, and
    the plane. A region whose building was removed has none.
    """
    found, ids = read_json(groups_file(layout, source))["regions"], ids_of(layout, source)
    on_map = store.call(layout, contents.building_ids)
    part = ranking.in_map_order(layout, ids, np.array(found["part"], np.float32))
    places = store.call(layout, contents.places_of, [ids[row] for row in found["stands"]])
    stands = {region: places[ids[row]] for region, row in enumerate(found["stands"]) if ids[row] in places}
    return on_map, part, stands, np.frombuffer(positions_for_browser(layout, source) or b"", "<f4").reshape(-1, 2)


def scores_on_map(layout: Layout, run_id: str) -> Singles:
    """Return a run's scores in the order of the map's geometry, float32 [M]; NaN for a building that has none."""
    scores = np.asarray(runs.array(layout, run_id, "scores"), np.float32)
    return ranking.in_map_order(layout, runs.building_ids_of(layout, run_id), scores)


def outline_of(layout: Layout, source: str, building_ids: Collection[str]) -> list[list[tuple[float, float]]]:
    """Return rings around the dots of some buildings in the plane, one for each island that holds a twentieth of them; none
    before there is a picture.
    """
    plane = plane_of(layout, source)
    if plane is None or not building_ids:
        return []
    wanted = set(building_ids)
    dots = plane[np.fromiter(map(wanted.__contains__, ids_of(layout, source)), np.bool_, len(plane))]
    cell = float(np.ptp(plane, axis=0).max()) / _CELLS or 1.0  # as many cells as there may be dots
    spots, counts = np.unique(np.floor(dots / cell), axis=0, return_counts=True)
    middles = shapely.points((spots.astype(np.float64) + 0.5) * cell)
    around = shapely.union_all(shapely.buffer(middles, 2.6 * cell, quad_segs=3))
    area = shapely.simplify(shapely.buffer(around, -cell), cell / 6)
    kept = [
        each for each in shapely.get_parts(area) if counts[shapely.contains(each, middles)].sum() >= _LEAST_OF * len(dots)
    ]
    return [[(float(x), float(y)) for x, y in shapely.get_coordinates(shapely.get_exterior_ring(each))] for each in kept]
