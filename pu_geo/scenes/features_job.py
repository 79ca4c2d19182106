"""Make another set of frozen features of the newest chips: of a network from a local file, or one trained on the chips
themselves.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis import assessability, sensors
from pu_geo.errors import PuGeoError, TrainingError
from pu_geo.features import weights
from pu_geo.features.bank import FEATURE_SEED, Maker, fit_maker, from_state
from pu_geo.features.layers import LayerBanks, fill_missing
from pu_geo.features.rcf import RcfBank
from pu_geo.features.shared import N_BANDS, SharedBank, sha256_of
from pu_geo.features.views import Report
from pu_geo.geo.chips import Outlines, chip_windows, outline_mask, whole_pixels
from pu_geo.records import FeatureRequest
from pu_geo.scale import cluster as clusters
from pu_geo.scale import features as on_cluster
from pu_geo.scale import shards
from pu_geo.scenes.features import words_of
from pu_geo.store import contents, feature_sets, freshness, layout, store
from pu_geo.store.contents import chip_facts
from pu_geo.store.feature_sets import FeatureSet
from pu_geo.store.job import Job
from pu_geo.store.layout import LAYERS, RCF, SHARED, Layout, read_array
from pu_geo.store.store import now
from pu_geo.training.run import best_device

FOOTPRINT = "footprint"
FIT = 0.3  # of the job, at most, for making the maker
FILL = 0.9  # of the job, after which what buildings lack is filled in


def features(job: Job, *, request: Mapping[str, Any], use: bool = False, cluster: str = "") -> dict[str, object]:
    """Make a set of features of the newest chips; the same weights and settings are found again and not made twice.

    Args:
        request: fields of a `FeatureRequest`.
        use: make it the set that is used from then on.
        cluster: of Dask, see `scale.cluster.FORMS`; "" for this process alone.

    Returns:
        {"name", "about": in words, "chip_set", "n", "n_features", "n_views", "seconds", "was_there", "in_use": the set that
        is used now,
        "layers_lacking": how many buildings lack which layer, in words}

    Raises:
        PuGeoError: if the weights cannot be used, or do not fit the settings or the chips.
        ProjectError: if there are no chips yet, or they show a former picture.
        JobCancelled: if the user cancelled.
    """
    wanted = FeatureRequest(**request)
    if wanted.maker == RCF and replace(wanted, licence="") != FeatureRequest():
        raise PuGeoError(
            "The features 'rcf' have no weights and no settings: they come with the chips.", "Name the maker rcf alone."
        )
    chip_set = freshness.require(job.layout)
    if wanted.maker == LAYERS and not wanted.layers:
        wanted = replace(wanted, layers=feature_sets.usual_layers(contents.views_of(chip_facts(job.layout, chip_set))))
    job.report(0.01, "reading the weights" if wanted.maker != LAYERS else "reading the chips")
    sha256 = _sha256_of_files(wanted)
    name = feature_sets.name_of(wanted, sha256)
    was_there = feature_sets.is_there(job.layout, chip_set, name)
    if not was_there:
        if name == RCF:
            raise PuGeoError(
                f"The features 'rcf' of the chips {chip_set} are gone.", "Cut chips again: they come with them."
            )
        with clusters.of_job(cluster, job.folder, job.echo) as on:
            _make(job, wanted, chip_set, name, sha256, on)
        shards.remove(job.folder)
    found = feature_sets.find(job.layout, chip_set, name)
    if wanted.licence and wanted.licence != found.licence and name != RCF:
        found = replace(found, maker={**found.maker, "licence": wanted.licence})
        feature_sets.put(job.layout, chip_set, found)
    with store.connect(job.layout) as db:
        if use:
            feature_sets.choose(db, job.layout, chip_set, name)
        used = feature_sets.in_use(db, job.layout, chip_set).name
    feature_sets.look_next(job, chip_set, used)
    return {
        "name": name, "about": words_of(name, found.maker), "chip_set": chip_set,
        "n": found.n_chips, "n_features": found.n_features, "n_views": found.n_views,
        "seconds": found.seconds, "was_there": was_there, "in_use": used,
        "layers_lacking": feature_sets.lacking_words(found.maker, chip_facts(job.layout, chip_set)),
    }  # fmt: skip


def _make(
    job: Job, request: FeatureRequest, chip_set: str, name: str, sha256: str, cluster: clusters.JobCluster | None
) -> None:
    """Make the maker, then the features by it, and store both; `sha256` is that of the files as they were named."""
    began, layout, device = time.monotonic(), job.layout, best_device()
    feature_sets.remove_unfinished(layout, chip_set)
    facts = chip_facts(layout, chip_set)
    chips = feature_sets.chips_for(request.maker, read_array(layout.chips(chip_set)), facts)
    is_visible = assessability.reasons(facts) == ""
    rows = shown_rows(facts)
    masks = footprint_masks(layout, chip_set) if request.pool == FOOTPRINT else None
    maker = fit_maker(
        request, chips, rows, generator=torch.Generator().manual_seed(FEATURE_SEED), device=device,
        report=job.part(0.02, FIT, f"making {name}"), is_cancelled=job.is_cancelled, views=contents.views_of(facts),
        is_missing=contents.is_missing(facts) if request.maker == LAYERS else None,
    )  # fmt: skip
    job.stop_if_cancelled()
    if sha256 and request.maker != SHARED and maker.facts()["weights_sha256"] not in sha256:
        raise PuGeoError(
            f"The weights of {name} changed while they were read.", "Start again once the file is whole.", kind="weights"
        )
    shape = (request.n_views, len(chips), maker.n_features)
    _require_room(layout, shape, times=2 if cluster else 1)
    words = f"features of {len(chips)} chips in {request.n_views} views by {name}"
    until = FILL if request.maker == LAYERS else 1.0
    with feature_sets.new_views(layout, chip_set, name, shape) as out:
        transform(job, maker, layout.chips(chip_set), chips, out, words, (FIT, until), cluster=cluster, masks=masks)
        if not all(np.isfinite(view).all() for view in out):
            raise TrainingError(
                f"The weights give features of {name} that are no finite numbers.",
                "Check that they belong to this network, or choose another layer.",
                kind="weights",
            )
        settle(
            out, maker, facts, is_visible, report=job.part(until, 1.0, f"filling in what buildings lack in {name}"),
            is_cancelled=job.is_cancelled,
        )  # fmt: skip
    feature_sets.write_maker(layout, chip_set, name, maker.state())
    made = FeatureSet(name, maker.facts(), *shape, created_at=now(), seconds=round(time.monotonic() - began, 2))
    feature_sets.put(layout, chip_set, made)


def transform(
    job: Job, maker: Maker, path: Path, chips: NDArray[np.uint8], out: NDArray[np.float16], words: str,
    part: tuple[float, float], *, seed: int = FEATURE_SEED, cluster: clusters.JobCluster | None = None,
    masks: NDArray[np.bool_] | None = None,
) -> None:  # fmt: skip
    """Compute the features of all chips of a set, in this process or on a cluster, with the same result.

    Args:
        path: of the file that `chips`, uint8 [N, C, H, W], are the first C bands of.
        out: float16 [V, N, D], what is written into.
        words, part: what the job reports meanwhile, and from where to where.
        cluster: of the job; None for this process alone.
    """
    report = job.part(*part, words)
    if cluster:
        on_cluster.transform(
            maker, path, chips.shape[1], out, seed=seed, cluster=cluster, report=report, is_cancelled=job.is_cancelled,
            masks=masks,
        )  # fmt: skip
        return
    maker.transform(
        chips, len(out), seed=seed, device=best_device(), out=out, report=report, is_cancelled=job.is_cancelled, masks=masks
    )


def maker_in(layout: Layout, chip_set: str, name: str) -> Maker | None:
    """Return the maker of a set of a chip set; None where it has no such set, or its maker was not kept."""
    arrays = feature_sets.maker_state(layout, chip_set, name) if feature_sets.is_there(layout, chip_set, name) else {}
    return from_state(arrays, feature_sets.find(layout, chip_set, name).maker) if arrays else None


def shown_rows(facts: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the chips of a set that makers learn from, int64 [M]: those that show something; all where none does.

    Args:
        facts: of the chip set.
    """
    is_visible = assessability.reasons(facts) == ""
    return np.flatnonzero(is_visible) if is_visible.any() else np.arange(len(is_visible))


def with_statistics(maker: Maker, chips: NDArray[np.uint8], facts: Mapping[str, Any]) -> Maker:
    """Return a maker with the statistics of the bands of a chip set, where it came without any; else the maker.

    Models that several projects trained together come without: each project's statistics stay in it.

    Args:
        chips: pre and post of the set, uint8 [N, C, H, W].
        facts: of the chip set.
    """
    if isinstance(maker, SharedBank) and not maker.is_measured:
        return maker.measured(chips, shown_rows(facts))
    return maker


def needs_masks(maker: Maker) -> bool:
    """Return whether a maker takes masks of the footprints, see `footprint_masks`."""
    return maker.facts().get("pool") == FOOTPRINT


def settle(
    features: NDArray[np.float16], maker: Maker, facts: Mapping[str, Any], is_visible: NDArray[np.bool_],
    *, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None,
) -> None:  # fmt: skip
    """Make features ready for use, in place: match sensor groups, then fill in layers that a building lacks.

    Groups are of optical scenes: columns of other layers are not matched, see `sensors.match_groups`. A missing layer takes
    what the building's other layers lead to expect, see `layers.fill_missing`.

    Args:
        features: float16 [V, N, D], as `maker` gave them for all chips of a set.
        facts: of the chip set; groups are not known in older ones.
        is_visible: bool [N]; the others have no part in the statistics.
    """
    group = None if facts.get("sensor_group") is None else np.asarray(facts["sensor_group"], np.int64)
    is_missing = feature_sets.is_missing(maker.facts(), facts)
    if not isinstance(maker, LayerBanks) or is_missing is None:
        if group is not None:
            sensors.match_groups(features, group, is_visible, is_signed=not isinstance(maker, RcfBank))
        return
    for view, lacks in zip(maker.views, is_missing, strict=True):
        if group is not None and not {"pre", "post"}.isdisjoint(view.name.split("+")):
            sensors.match_groups(features[:, :, view.start : view.stop], group, is_visible & ~lacks)
    fill_missing(features, maker.views, is_missing, is_visible, report=report, is_cancelled=is_cancelled)


def _require_room(layout: Layout, shape: tuple[int, int, int], times: int) -> None:
    """Refuse features that the disk has no room for, as often as they lie there, before they are computed."""
    needed, free = int(np.prod(shape, dtype=np.int64)) * 2 * times, shutil.disk_usage(layout.folder).free
    if needed > free:
        raise PuGeoError(
            f"These features take {needed / 1e9:,.1f} GB; {free / 1e9:,.1f} GB are free on the disk of "
            f"{layout.folder.name}.",
            "Make room there, use one date (`--dates post`), or fewer views (`--views 1` is enough for rankings).",
            kind="disk",
        )


def footprint_masks(layout: Layout, chip_set: str) -> NDArray[np.bool_]:
    """Return which pixels of each chip its own footprint covers, bool [N, H, W]; one pixel at least.

    Pre chips that an alignment moved show the building at the same place, so one mask holds for both dates.

    Raises:
        PuGeoError: if a footprint is gone.
    """
    with store.connect(layout) as db:
        grid, table = contents.grid(db), contents.footprints(db)
    facts, place = chip_facts(layout, chip_set), {building: i for i, building in enumerate(table.building_ids)}
    ids = facts["building_ids"]
    if gone := [building for building in ids if building not in place]:
        raise PuGeoError(
            f"{len(gone):,} of the chips belong to footprints that are gone, such as {gone[0]!r}.",
            "Cut chips again, or choose another pooling (`--pool mean`).",
        )
    wkb, size_px = [table.wkb[place[building]] for building in ids], int(facts["size_px"])
    shapes, boxes = Outlines.of(wkb, grid, 1).shapes, whole_pixels(chip_windows(wkb, grid))
    found = np.zeros((len(ids), size_px, size_px), np.bool_)
    for row, (shape, box) in enumerate(zip(shapes, boxes, strict=True)):
        found[row] = outline_mask(shape, box[:2], (box[2:] - box[:2]) / size_px, (size_px, size_px))
    return found


def _sha256_of_files(request: FeatureRequest) -> str:
    """Return the sha256 of what the network is read from, or of shared filters; "" without a file.

    Raises:
        PuGeoError: if a file is not there.
    """
    if request.maker == SHARED:
        return sha256_of(request.dates) if request.dates in N_BANDS else ""
    files = weights.files_of(Path(request.backbone)) if request.backbone else []
    return "+".join(layout.sha256_of(path) for path in files)
