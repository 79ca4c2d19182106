"""What the Explore screen asks for: the embeddings of a run in the plane, the chips of a selection, buildings added after
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.analysis import neighbors, projection
from pu_geo.answers import ranking
from pu_geo.errors import ProjectError
from pu_geo.geo.vector.sites import in_px
from pu_geo.methods.settings import check, setting
from pu_geo.records import Singles
from pu_geo.scenes import image_quality, preparation
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import choices, contents, runs, store
from pu_geo.store.contents import optical_chips
from pu_geo.store.layout import Layout, read_json, write_json

Kind = Literal["UMAP", "PCA"]
_PROJECTION, _UMAP = "explore_projection", "umap"  # names of choices
GROUND_PX = 160  # side of a picture of one date


@dataclass(frozen=True)
class UmapSettings:
    """What people set of a UMAP picture; the defaults are those of umap-learn."""

    n_neighbors: int = setting(
        projection.N_NEIGHBORS, "Neighbors of each dot: few keep small groups, many the overall arrangement.", min=2, max=200
    )
    min_dist: float = setting(0.1, "Least distance between dots; a small one packs similar buildings.", min=0.0, max=0.99)
    metric: str = setting("euclidean", "How the distance of two embeddings is measured.", choices=neighbors.METRICS)
    densmap: bool = setting(
        False, "densMAP: groups whose embeddings are spread out stay so in the picture; takes three times as long."
    )
    supervised: bool = setting(False, "By labels: damaged buildings are drawn together, and away from those not damaged.")
    seed: int = setting(0, "Another one draws another picture.", min=0, max=2**32 - 1)

    def __post_init__(self) -> None:
        check(self)


SUPERVISED = "A supervised picture shows the labels it was given: their closeness is no evidence for the ranking."


@dataclass(frozen=True)
class Picture:
    """A run's UMAP as its job stored it.

    Attributes:
        settings: what made it.
        labels: {"at_event", "n_positive", "n_not_damaged"}, the labels that a supervised one was given; empty otherwise.
    """

    settings: UmapSettings = UmapSettings()
    labels: Mapping[str, int] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Return what made the picture, for example "UMAP: 15 neighbors, least distance 0.1, euclidean, densMAP"."""
        how, labels = self.settings, self.labels
        parts = [f"{how.n_neighbors} neighbors", f"least distance {how.min_dist:g}", how.metric, *["densMAP"] * how.densmap]
        if how.seed:
            parts.append(f"seed {how.seed}")
        if labels:
            parts.append(f"supervised by labels ({labels['n_positive']:,} damaged, {labels['n_not_damaged']:,} not damaged)")
        return f"UMAP: {', '.join(parts)}."

    @property
    def title(self) -> str:
        """Return what kind of picture it is, for example "Supervised UMAP"."""
        kind = "densMAP" if self.settings.densmap else "UMAP"
        return f"Supervised {kind}" if self.labels else kind


def picture(layout: Layout, run_id: str) -> Picture | None:
    """Return what is stored of a run's UMAP; None where there is none."""
    path = layout.run(run_id) / "umap.json"
    if not path.with_name("umap.npy").is_file():
        return None
    facts = read_json(path) if path.is_file() else {}
    return Picture(UmapSettings(**facts.get("settings", {})), facts.get("labels", {}))


def store_picture(layout: Layout, run_id: str, made: Picture) -> None:
    """Store what is known of a run's UMAP."""
    write_json(layout.run(run_id) / "umap.json", asdict(made))


def wanted_projection(layout: Layout) -> Kind:
    """Return how people want runs to be shown; UMAP, where it is there, until somebody chose."""
    return "PCA" if store.call(layout, choices.get, _PROJECTION, "UMAP") == "PCA" else "UMAP"


def choose_projection(layout: Layout, run_id: str, kind: Kind) -> None:
    """Store how people want runs to be shown, and start the job for a UMAP that is not there yet."""
    store.call(layout, choices.put, _PROJECTION, kind)
    job = umap_job(layout, run_id)
    if kind == "UMAP" and picture(layout, run_id) is None and not (job and job.is_active):
        start_umap(layout, run_id, umap_settings(layout, run_id))


def umap_settings(layout: Layout, run_id: str) -> UmapSettings:
    """Return the settings of the next UMAP as people left them, else those of the run's picture, else the usual ones."""
    if given := store.call(layout, choices.get, _UMAP, {}):
        return UmapSettings(**given)
    return (picture(layout, run_id) or Picture()).settings


def choose_umap_settings(layout: Layout, settings: UmapSettings) -> None:
    """Store the settings of the next UMAP."""
    store.call(layout, choices.put, _UMAP, asdict(settings))


def projection_of(layout: Layout, run_id: str, wanted: Kind = "UMAP") -> tuple[Kind, str]:
    """Return how a run is shown in the plane, and a text that changes with it: PCA where that is wanted, or no UMAP is
    there.
    """
    path = layout.run(run_id) / "umap.npy"
    place = store.call(layout, contents.geometry_v)  # a position is sent for each footprint, in their order
    if wanted == "PCA" or not path.is_file():
        return "PCA", place
    return "UMAP", f"{place}-{path.stat().st_mtime_ns}"


def embeddings_of(layout: Layout, run_id: str) -> Singles:
    """Return the embeddings of a run, float32 [N, D]. Raises ProjectError if it has none."""
    return np.asarray(runs.array(layout, run_id, "embeddings"), np.float32)


@lru_cache(maxsize=4)
def _pca(layout: Layout, run_id: str) -> Singles:
    return projection.pca_2d(embeddings_of(layout, run_id))


def positions_for_browser(layout: Layout, run_id: str, kind: Kind) -> bytes | None:
    """Return positions in the order of the map's geometry, little-endian float32 [M, 2]; NaN for a building without any.

    Returns:
        None if there is no such run, or no such projection of it.
    """
    if not is_run(layout, run_id) or (kind == "UMAP" and projection_of(layout, run_id)[0] != "UMAP"):
        return None
    found = _pca(layout, run_id) if kind == "PCA" else np.asarray(runs.array(layout, run_id, "umap"), np.float32)
    return ranking.in_map_order(layout, runs.building_ids_of(layout, run_id), found).astype("<f4").tobytes()


def is_run(layout: Layout, run_id: str) -> bool:
    """Return whether a project has a run of this id."""
    return run_id in {facts.run_id for facts in store.call(layout, runs.all_runs)}


def umap_job(layout: Layout, run_id: str) -> jobs.JobView | None:
    """Return the newest UMAP job of a run, or None."""
    return next((job for job in jobs.all_jobs(layout) if job.task == "embed" and job.args.get("run_id") == run_id), None)


def start_umap(layout: Layout, run_id: str, settings: UmapSettings) -> str:
    """Start the job that draws a run with UMAP; return its id."""
    return jobs.start(layout, "embed", {"run_id": run_id, "settings": asdict(settings)})


def chip_pictures(layout: Layout, run_id: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return `pictures_of` buildings of a run."""
    return pictures_of(layout, store.call(layout, runs.find, run_id).chip_set, building_ids)


def pictures_of(layout: Layout, chip_set: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return pictures of the ground around buildings, uint8 [H, W, 3], pre above post; see `geo.ground`.

    In a project without map tiles they show the chips of the set instead.
    """
    from pu_geo.geo.ground import ground_pictures  # loads OpenCV, which no other answer here needs

    pyramids = [layout.quicklooks / layer["name"] for layer in preparation.map_layers(layout)]
    if not pyramids:
        return _chips_of(layout, chip_set, building_ids)
    with store.connect(layout) as db:
        grid, known, outlines = contents.grid(db), contents.building_ids(db), contents.outlines(db, building_ids)
    shifts = image_quality.pre_shifts_px(layout, grid)
    pictures = []
    shapes = in_px(np.asarray(shapely.from_wkb(outlines)), grid)
    for building, shape in zip(building_ids, shapes, strict=True):
        row = known.index(building)
        moved = [(0.0, 0.0) if shifts is None or folder.name == "post" else tuple(shifts[row]) for folder in pyramids]
        site = grid.parts[int(grid.site_at(np.array(shapely.bounds(shape)[1])))]
        pictures.append(ground_pictures(pyramids, shape, site.gsd_m, GROUND_PX, moved))
    return pictures


def _chips_of(layout: Layout, chip_set: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    rows = {building: i for i, building in enumerate(chip_facts(layout, chip_set)["building_ids"])}
    if not layout.chips(chip_set).is_file():
        raise ProjectError(
            f"The chips {chip_set} were removed, so they cannot be shown.",
            "Bring them back on the Project screen, or cut chips again and train.",
        )
    chips = optical_chips(layout, chip_set)
    pictures = []
    for building in building_ids:
        chip = np.asarray(chips[rows[building]])
        stacked = np.concatenate([chip[band : band + 3] for band in range(0, len(chip), 3)], axis=1)
        pictures.append(np.ascontiguousarray(stacked.transpose(1, 2, 0)))
    return pictures


def n_unplaced(layout: Layout, run_id: str) -> int:
    """Count the buildings of the newest chips that a run does not know, and which have no place in its pictures."""
    newest = store.call(layout, contents.latest_chip_set)
    ids = chip_facts(layout, newest)["building_ids"] if newest else ()
    return len(set(ids).difference(runs.building_ids_of(layout, run_id)))
