"""Project a run's embeddings to the plane with UMAP, once; the Explore page shows PCA until this is ready.

Buildings that the run does not know are embedded by the run's own model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import neighbors, projection, ranker
from pu_geo.errors import ModelError, TrainingError
from pu_geo.explore import umap_picture
from pu_geo.explore.umap_picture import Picture, UmapSettings
from pu_geo.features.bank import Maker
from pu_geo.features.layers import LayerBanks, fill_missing
from pu_geo.files import remove_path
from pu_geo.records import Chips, Facts, Ints, PUSet, RunFacts, Singles
from pu_geo.runs.apply_model_job import maker_on, on_chips
from pu_geo.runs.layer_match_job import described, scaled_otherwise
from pu_geo.runs.restored_model_job import RestoredModel, lacking, restore
from pu_geo.runs.train_job import RANKER_NAME
from pu_geo.scenes import layers
from pu_geo.scenes.features_job import footprint_masks, maker_in, needs_masks
from pu_geo.store import contents, feature_sets, labels, runs, store
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.job import Job
from pu_geo.store.layout import read_array, write_array
from pu_geo.training import model_files
from pu_geo.training.run import best_device

_STAGES = {
    "axes": "widest axes",
    "neighbors": "neighbors of each building",
    "layout": "layout (compiled the first time, some seconds)",
}


def embed(job: Job, *, run_id: str, settings: Facts | None = None) -> Facts:
    """Write `runs/<run_id>/umap.npy`, float32 [N, 2]; a picture of the same settings and labels that is there already stays.

    Buildings of the newest chips that the run does not know are embedded by its model and placed among their neighbors:
    `umap_new.npy`, float32 [M, 2], with their ids and chips in `umap.json`, which also has what made the picture.

    Args:
        settings: those of `UmapSettings`; None keeps the picture that is there, and draws the usual one where none is.

    Returns:
        {"run_id", "n", "n_new": buildings placed so, "note": why others could not be, "" if they could, "words": what made
        it}

    Raises:
        ProjectError: if there is no such run, or it has no embeddings.
        TrainingError: if a setting is out of its bounds, or labels shall supervise and no building is marked damaged.
        JobCancelled: if the user cancelled.
    """
    with store.connect(job.layout) as db:
        facts, newest = runs.find(db, run_id), contents.latest_chip_set(db)
        pu = labels.pu_set(db, ids=runs.building_ids_of(job.layout, facts.run_id))
    known = umap_picture.embeddings_of(job.layout, facts.run_id)
    before = umap_picture.picture(job.layout, facts.run_id)
    made = before if before and settings is None else _wanted(UmapSettings(**(settings or {})), pu)
    path = job.layout.run(facts.run_id) / "umap.npy"

    def report(values: Facts) -> None:
        job.stop_if_cancelled()
        job.report(0.02 + 0.88 * float(str(values["share"])), _STAGES[str(values["stage"])])

    if before is None or (before.settings, before.labels) != (made.settings, made.labels):
        how = asdict(made.settings)
        classes = np.where(pu.is_positive, 1, np.where(pu.is_not_damaged, 0, -1)) if how.pop("supervised") else None
        positions = projection.umap_2d(known, **how, labels=classes, report=report)
        remove_path(path)  # without it there is no picture: at no moment one with the facts of another
        umap_picture.store_picture(job.layout, facts.run_id, made, np.zeros((0, 2), np.float32))
        write_array(path, positions)
    job.report(0.9, "placing new buildings")
    positions = np.load(path, allow_pickle=False)
    ids, placed, words = _place(job, facts, newest, known, positions)
    job.stop_if_cancelled()
    made = replace(made, chip_set=newest, new_ids=ids, note=words)
    umap_picture.store_picture(job.layout, facts.run_id, made, placed)
    return {"run_id": facts.run_id, "n": len(positions), "n_new": len(placed), "note": words, "words": made.words}


def _wanted(settings: UmapSettings, pu: PUSet) -> Picture:
    """Return what a new picture will be made of. Raises TrainingError where labels shall supervise and none is positive."""
    if not settings.supervised:
        return Picture(settings)
    if not pu.is_positive.any():
        raise TrainingError(
            "A picture supervised by labels needs at least one building marked damaged; this run knows none.",
            "Mark some on the Annotate page, or compute UMAP without labels.",
            kind="positives",
        )
    counts = {"n_positive": int(pu.is_positive.sum()), "n_not_damaged": int(pu.is_not_damaged.sum())}
    return Picture(settings, {"at_event": pu.at_event, **counts})


def _place(
    job: Job, facts: RunFacts, newest: str | None, known: Singles, positions: Singles
) -> tuple[list[str], Singles, str]:  # fmt: skip
    """Return the buildings that only the newest chips have, their positions [M, 2], and why there are none, if so."""
    nothing = np.zeros((0, 2), np.float32)
    order = chip_facts(job.layout, newest)["building_ids"] if newest else []
    there = set(runs.building_ids_of(job.layout, facts.run_id))
    rows = [row for row, building in enumerate(order) if building not in there]
    if newest is None or not rows:
        return [], nothing, ""
    try:
        embedded = embed_again(job, facts, newest, np.array(rows, np.int64))
    except ModelError as error:
        return [], nothing, f"{len(rows):,} new buildings are not shown. {error.problem} {error.hint}"
    return [order[row] for row in rows], projection.place(embedded, known, positions), ""


ROWS_TRIED, LEAST_COSINE = 64, 0.99
_ANEW = "Train again to see all buildings."


def embed_again(job: Job, facts: RunFacts, chip_set: str, rows: Ints) -> Singles:
    """Embed chips by the model of a run.

    Args:
        chip_set: whose chips.
        rows: int64 [M], which of them.

    Returns:
        float32 [M, D], unit rows, to be compared with the run's own embeddings.

    Raises:
        ModelError: if the run has no model that can, the chips are of another kind than its own, or the model does not give
            its own buildings the embeddings that the run stored.
    """
    layout, name = job.layout, f"Run {facts.run_id}"
    if not layout.chips(facts.chip_set).is_file():
        raise ModelError(
            f"The chips {facts.chip_set} that run {facts.run_id} learned from were removed.",
            "Bring them back on the Project screen, or train again to see all buildings.",
        )
    own, newest = (optical_chips(layout, each).shape for each in (facts.chip_set, chip_set))
    if own[1:] != newest[1:]:
        raise ModelError(f"The chips of {name} are {list(own[1:])}; the newest are {list(newest[1:])}.", _ANEW, kind="bands")
    learned = described(chip_facts(layout, facts.chip_set), layers.learned_views(facts))
    if other := scaled_otherwise({"learned_from": {"layers": learned}}, chip_facts(layout, chip_set), name):
        raise ModelError(f"{other[0].partition(': ')[0]}.", _ANEW, kind="bands")
    embed = (_by_ranker if facts.method == RANKER_NAME else _by_model)(job, facts)
    tried = np.unique(np.linspace(0, own[0] - 1, ROWS_TRIED).astype(np.int64))
    stored = umap_picture.embeddings_of(layout, facts.run_id)[tried]
    both = neighbors.unit_rows(embed(facts.chip_set, tried)) * neighbors.unit_rows(stored)
    cosine = float(np.median(both.sum(axis=1)))
    if not cosine >= LEAST_COSINE:
        raise ModelError(f"{name} gives its own buildings other embeddings than it stored (cosine {cosine:.2f}).", _ANEW)
    return embed(chip_set, rows)


Embed = Callable[[str, Ints], Singles]
"""Embeds some chips of a chip set, float32 [M, D]."""


def _by_model(job: Job, facts: RunFacts) -> Embed:
    layout = job.layout
    found = model_files.from_parts(*model_files.of_run(layout.run(facts.run_id)), facts.run_id)
    known = restore(found, best_device(), lambda name: maker_in(layout, facts.chip_set, name))

    def fitted(model: RestoredModel, chip_set: str) -> tuple[RestoredModel, Chips]:
        return on_chips(model, read_array(layout.chips(chip_set)), chip_facts(layout, chip_set), facts.run_id)

    measured, _ = fitted(known, facts.chip_set)  # statistics are those of the chips that it knew

    def embed(chip_set: str, rows: Ints) -> Singles:
        here, chips = fitted(measured, chip_set)
        inputs: NDArray[Any] = chips[rows]
        if here.bank is not None:
            inputs = _plain(job, facts, here.bank, inputs, chip_set, rows)
        gone = lacking(here, chip_facts(layout, chip_set))
        return here.model.embed(inputs, None if gone is None else gone[:, rows])

    return embed


def _by_ranker(job: Job, facts: RunFacts) -> Embed:
    """Embed as the instant ranker did: maker, mean and axes are those of the chips that it knew."""
    layout = job.layout
    maker = maker_in(layout, facts.chip_set, facts.feature_set)
    if maker is None:
        raise ModelError(f"The features of the chips {facts.chip_set} are gone.", "Rank again to see all buildings.")
    known = np.asarray(feature_sets.views(layout, facts.chip_set, facts.feature_set)[0], np.float32)
    mean, spread = known.mean(0), known.std(0)
    axes = ranker.widest_axes(ranker.prepare(known).values)

    def embed(chip_set: str, rows: Ints) -> Singles:
        about = chip_facts(layout, chip_set)
        chips = feature_sets.chips_for(maker.kind, read_array(layout.chips(chip_set)), about)
        plain = _plain(job, facts, maker_on(maker, chips, about, facts.run_id), chips[rows], chip_set, rows)
        return ranker.embeddings_along(axes, (plain - mean) / np.where(spread > 1e-6, spread, np.float32(np.inf)))

    return embed


def _plain(job: Job, facts: RunFacts, maker: Maker, chips: Chips, chip_set: str, rows: Ints) -> Singles:
    """Compute features of some chips of a set; a layer that one lacks is filled in by the chips that the run knew."""
    masks = footprint_masks(job.layout, chip_set, rows) if needs_masks(maker) else None
    found = maker.transform(chips, 1, seed=0, device=best_device(), is_cancelled=job.is_cancelled, masks=masks)
    if isinstance(maker, LayerBanks):
        known = feature_sets.views(job.layout, facts.chip_set, facts.feature_set)[:1]
        n = known.shape[1]
        each = ((facts.chip_set, np.arange(n)), (chip_set, rows))
        tables = ((feature_sets.is_missing(maker.facts(), chip_facts(job.layout, name)), own) for name, own in each)
        lacks = [table[:, own] for table, own in tables if table is not None]
        found = np.concatenate([known, found], axis=1)
        fill_missing(found, maker.views, np.concatenate(lacks, axis=1), np.arange(found.shape[1]) < n)
        found = found[:, n:]
    plain: Singles = found[0].astype(np.float32)
    return plain
