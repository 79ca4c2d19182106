"""Project a run's embeddings to the plane with UMAP, once; the Explore page shows PCA until this is ready.

Buildings that the run does not know are embedded by the run's own model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import neighbors, projection, ranker
from pu_geo.errors import ModelError, TrainingError
from pu_geo.explore import exploring
from pu_geo.explore.exploring import Picture, UmapSettings
from pu_geo.features.bank import Maker
from pu_geo.features.layers import LayerBanks, fill_missing
from pu_geo.files import remove_path
from pu_geo.methods import catalog
from pu_geo.records import PUSet, RunFacts
from pu_geo.runs.restored_model_job import lacking, restore
from pu_geo.runs.train_job import RANKER_NAME
from pu_geo.scenes import layers
from pu_geo.scenes.features_job import footprint_masks, maker_in, needs_masks, with_statistics
from pu_geo.store import contents, feature_sets, labels, runs, store
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.job import Job
from pu_geo.store.layout import LAYERS, read_array, write_array
from pu_geo.training import model_files
from pu_geo.training.network import FEATURES
from pu_geo.training.run import best_device

_STAGES = {
    "axes": "widest axes",
    "neighbors": "neighbors of each building",
    "layout": "layout (compiled the first time, some seconds)",
}


def embed(job: Job, *, run_id: str, settings: Mapping[str, Any] | None = None) -> dict[str, object]:
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
    known = np.asarray(runs.array(job.layout, facts.run_id, "embeddings"), dtype=np.float32)
    before = exploring.picture(job.layout, facts.run_id)
    made = before if before and settings is None else _wanted(UmapSettings(**(settings or {})), pu)
    path = job.layout.run(facts.run_id) / "umap.npy"

    def report(values: Mapping[str, object]) -> None:
        job.stop_if_cancelled()
        job.report(0.02 + 0.88 * float(str(values["share"])), _STAGES[str(values["stage"])])

    if before is None or (before.settings, before.labels) != (made.settings, made.labels):
        how = asdict(made.settings)
        classes = np.where(pu.is_positive, 1, np.where(pu.is_not_damaged, 0, -1)) if how.pop("supervised") else None
        positions = projection.umap_2d(known, **how, labels=classes, report=report)
        remove_path(path)  # without it there is no picture: at no moment one with the facts of another
        exploring.store_picture(job.layout, facts.run_id, made, np.zeros((0, 2), np.float32))
        write_array(path, positions)
    job.report(0.9, "placing new buildings")
    positions = np.load(path, allow_pickle=False)
    ids, placed, words = _place(job, facts, newest, known, positions)
    job.stop_if_cancelled()
    made = replace(made, chip_set=newest, new_ids=ids, note=words)
    exploring.store_picture(job.layout, facts.run_id, made, placed)
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
    job: Job, facts: RunFacts, newest: str | None, known: NDArray[np.float32], positions: NDArray[np.float32]
) -> tuple[list[str], NDArray[np.float32], str]:
    """Return the buildings that only the newest chips have, their positions [M, 2], and why there are none, if so."""
    nothing = np.zeros((0, 2), np.float32)
    if newest is None or newest == facts.chip_set:
        return [], nothing, ""
    there = set(runs.building_ids_of(job.layout, facts.run_id))
    order = chip_facts(job.layout, newest)["building_ids"]
    rows = [row for row, building in enumerate(order) if building not in there]
    if not rows:
        return [], nothing, ""
    try:
        embedded = embed_again(job, facts, newest, np.array(rows, np.int64))
    except ModelError as error:
        return [], nothing, f"{len(rows):,} new buildings are not shown. {error.problem} {error.hint}"
    return [order[row] for row in rows], projection.place(embedded, known, positions), ""


ROWS_TRIED, LEAST_COSINE = 64, 0.99


@dataclass(frozen=True)
class _Shown:
    """Chips, uint8 [M, C, H, W], and of which sets they are: chip set -> rows of its own ones, then of the new ones."""

    chips: NDArray[np.uint8]
    parts: Sequence[tuple[str, NDArray[np.int64]]]


def embed_again(job: Job, facts: RunFacts, chip_set: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
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
    if not job.layout.chips(facts.chip_set).is_file():
        raise ModelError(
            f"The chips {facts.chip_set} that run {facts.run_id} learned from were removed.",
            "Bring them back on the Project screen, or train again to see all buildings.",
        )
    if _learned_layers(job, facts):
        tables = [contents.views_of(chip_facts(job.layout, name)) for name in (facts.chip_set, chip_set)]
        if tables[0] != tables[1]:
            raise ModelError(
                f"The newest chips have other layers than those that run {facts.run_id} learned from.",
                "Train again on the new chips to see all buildings.",
                kind="bands",
            )
        _require_same_scaling(job, facts, chip_set)
        own, newest = (read_array(job.layout.chips(name)) for name in (facts.chip_set, chip_set))
    else:
        own, newest = (optical_chips(job.layout, name) for name in (facts.chip_set, chip_set))
    if own.shape[1:] != newest.shape[1:]:
        raise ModelError(
            f"The chips of run {facts.run_id} are {list(own.shape[1:])}; the newest are {list(newest.shape[1:])}.",
            "Train again on the new chips to see all buildings.",
            kind="bands",
        )
    tried = np.unique(np.linspace(0, len(own) - 1, ROWS_TRIED).astype(np.int64))
    embed = _embed_by_ranker if facts.method == RANKER_NAME else _embed_by_model
    shown = _Shown(np.concatenate([own[tried], newest[rows]]), ((facts.chip_set, tried), (chip_set, rows)))
    found = embed(job, facts, shown)
    stored = np.asarray(runs.array(job.layout, facts.run_id, "embeddings"), np.float32)[tried]
    cosine = float(np.median((neighbors.unit_rows(found[: len(tried)]) * neighbors.unit_rows(stored)).sum(axis=1)))
    if not cosine >= LEAST_COSINE:
        raise ModelError(
            f"The model of run {facts.run_id} gives its own buildings other embeddings than it stored (cosine "
            f"{cosine:.2f}).",
            "Train again to see all buildings.",
        )
    return found[len(tried) :]


def _require_same_scaling(job: Job, facts: RunFacts, chip_set: str) -> None:
    """Refuse chips whose layers were made 0 to 255 in another way than those that a run learned from."""
    before, now = (chip_facts(job.layout, name).get("scaling", {}) for name in (facts.chip_set, chip_set))
    for name in before.keys() & now.keys() & set(layers.learned_views(facts)):
        known, here = ([[float(each) for each in pair] for pair in one[name]["bands"]] for one in (before, now))
        if known != here:
            raise ModelError(
                f"The layer {name} of the newest chips is scaled from {here}; run {facts.run_id} learned from {known}.",
                "Train again on the new chips to see all buildings.",
                kind="bands",
            )


def _learned_layers(job: Job, facts: RunFacts) -> bool:
    """Return whether a run learned from layers: from features of these, or from all bands of its chips."""
    card = catalog.METHODS.get(facts.method)
    is_trained_on_chips = facts.settings.get("backbone", FEATURES) != FEATURES
    if card is not None and card.takes_layers and is_trained_on_chips:
        return "views" in chip_facts(job.layout, facts.chip_set)
    return facts.feature_maker.get("kind") == LAYERS


def _embed_by_model(job: Job, facts: RunFacts, shown: _Shown) -> NDArray[np.float32]:
    found = model_files.from_parts(*model_files.of_run(job.layout.run(facts.run_id)), facts.run_id)
    restored = restore(found, best_device(), lambda name: maker_in(job.layout, facts.chip_set, name))
    if restored.bank is None:
        inputs: NDArray[Any] = shown.chips
    else:
        known = optical_chips(job.layout, facts.chip_set)
        inputs = _plain(job, facts, with_statistics(restored.bank, known, chip_facts(job.layout, facts.chip_set)), shown)
    each = ((lacking(restored, chip_facts(job.layout, name)), rows) for name, rows in shown.parts)
    gone = [is_missing[:, rows] for is_missing, rows in each if is_missing is not None]
    return restored.model.embed(inputs, np.concatenate(gone, axis=1) if gone else None)


def _embed_by_ranker(job: Job, facts: RunFacts, shown: _Shown) -> NDArray[np.float32]:
    """Embed as the instant ranker did: maker, mean and axes are those of the chips that it knew."""
    bank = maker_in(job.layout, facts.chip_set, facts.feature_set)
    if bank is None:
        raise ModelError(f"The features of the chips {facts.chip_set} are gone.", "Rank again to see all buildings.")
    known = np.asarray(feature_sets.views(job.layout, facts.chip_set, facts.feature_set)[0], np.float32)
    mean, spread = known.mean(0), known.std(0)
    values = (_plain(job, facts, bank, shown).astype(np.float32) - mean) / np.where(spread > 1e-6, spread, np.inf)
    return ranker.embeddings_along(ranker.widest_axes(ranker.prepare(known).values), values.astype(np.float32))


def _plain(job: Job, facts: RunFacts, bank: Maker, shown: _Shown) -> NDArray[np.float16]:
    """Compute features of the shown chips; a layer that one lacks is filled in by the chips that the run knew."""
    masks = None
    if needs_masks(bank):
        masks = np.concatenate([footprint_masks(job.layout, *part) for part in shown.parts])
    found = bank.transform(shown.chips, 1, seed=0, device=best_device(), is_cancelled=job.is_cancelled, masks=masks)
    plain: NDArray[np.float16] = found[0]
    if not isinstance(bank, LayerBanks):
        return plain
    known = feature_sets.views(job.layout, facts.chip_set, facts.feature_set)[:1]
    tables = [
        feature_sets.is_missing(bank.facts(), chip_facts(job.layout, name)) for name in (facts.chip_set, *dict(shown.parts))
    ]
    parts = [
        (tables[0], np.arange(known.shape[1])),
        *((table, rows) for table, (_, rows) in zip(tables[1:], shown.parts, strict=True)),
    ]
    is_missing = np.concatenate([table[:, rows] for table, rows in parts if table is not None], axis=1)
    both = np.concatenate([known, found], axis=1)
    fill_missing(both, bank.views, is_missing, np.arange(both.shape[1]) < known.shape[1])
    plain = both[0, known.shape[1] :]
    return plain
