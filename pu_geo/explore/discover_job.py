"""Propose groups of buildings: given the kinds of damage named so far, which other kinds are among the unlabeled?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch

from pu_geo.analysis import clustering
from pu_geo.errors import TrainingError
from pu_geo.files import remove_path
from pu_geo.methods import catalog
from pu_geo.methods.fitting import require_labels
from pu_geo.methods.ncl import consensus_clusters
from pu_geo.methods.ncl.discovery import SuggestedNumber, central_chips, suggested_number
from pu_geo.records import Facts, Ints, PUSet
from pu_geo.runs.inputs_job import RunInputs, read_inputs
from pu_geo.store import damage_types, discoveries, store
from pu_geo.store.discoveries import NO_GROUP
from pu_geo.store.job import Job
from pu_geo.store.layout import RCF, read_json, write_json
from pu_geo.store.store import now
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import NOT_DAMAGED, UNKNOWN, FeatureViews, PUData
from pu_geo.training.network import FEATURES
from pu_geo.training.run import Run, best_device

METHOD = "ncl"
FEWEST_OF_A_KIND = 5  # a kind of damage that fewer buildings were given is not learned from
MOST_GROUPS = 12
TRAINED = (0.1, 0.9)
NOTE = "discovery.json"  # in the folder of a job: the id of its discovery


def discover(job: Job, *, seed: int = 0, n_seeds: int = 3, n_groups: int | None = None, preset: str = "quick") -> Facts:
    """Sort all buildings into groups with several trainings of NCL, and store the proposal.

    Started again, it goes on after its last checkpoint, with the answers it began with, and ends as if nothing had been.

    The known kinds are the damage types that people named, of at least 5 buildings each, and "not damaged"; where no type
    was named often enough, "damaged" and "not damaged". A positive without such a type counts as unlabeled then,
    and one with several as the rarest of them. Groups that
    were named in an earlier discovery teach nothing: only a person's answer does.

    Args:
        seed: of the first training; the others follow.
        n_seeds: trainings, from 1 on. What they say is read together, and compared to tell how stable it is.
        n_groups: K, 2 to 200; None takes the suggested number, which is more than there are known kinds.
        preset: of NCL.

    Returns:
        {"discovery", "n_groups", "n_buildings", "adjusted_rand", "seconds"}

    Raises:
        TrainingError: if there are too few labels or buildings, or a setting is wrong.
        JobCancelled: if the user cancelled, JobPaused if it shall go on later. Nothing is stored then.
    """
    began, stored = time.monotonic(), _stored_before(job)
    if stored:
        return stored
    if n_seeds < 1:
        raise TrainingError(f"{n_seeds} trainings were asked for.", "Ask for 1 or more; 3 tell how stable groups are.")
    kept = job.folder / "checkpoints"
    takes_features = catalog.settings_for(METHOD, preset).backbone == FEATURES
    inputs = read_inputs(job.layout, kept, "" if takes_features else RCF)
    known, rows = _known_kinds(job, inputs.pu), np.flatnonzero(~inputs.pu.is_excluded)
    job.report(0.02, "estimating how many groups there may be")
    suggested = _suggested(inputs, rows, len(known.counts()), seed, job.stop_if_cancelled)
    job.stop_if_cancelled()
    number = n_groups or suggested.number
    settings = catalog.settings_for(METHOD, preset, {"n_new": number})
    trainings = [
        Run(
            seed=seed + i,
            device=best_device(),
            report=_reporter(job, i, n_seeds),
            is_cancelled=job.is_cancelled,
            is_paused=job.is_paused,
            checkpoints=Checkpoints(kept / str(i)),
        )
        for i in range(n_seeds)
    ]
    features = inputs.data(job.layout, settings).inputs
    data = PUData(features, known.classes > NOT_DAMAGED, inputs.pu.is_excluded, known.classes, known.names)
    found = consensus_clusters.find_consensus(data, settings, trainings)
    job.report(TRAINED[1], "comparing the trainings")
    facts: dict[str, Any] = {
        "discovery": _id_of(job), "made_at": now(), "chip_set": inputs.chip_set, "at_event": inputs.pu.at_event,
        "feature_set": inputs.feature_set,
        "method": METHOD, "preset": preset, "settings": asdict(settings), "seeds": [run.seed for run in trainings],
        "n_groups": number, "asked_for": n_groups, "suggested": suggested.number,
        "silhouettes": {str(k): round(value, 4) for k, value in suggested.silhouettes.items()}, "known": known.counts(),
        "device": str(best_device()), "versions": {name: metadata.version(name) for name in ("torch", "numpy")},
    }  # fmt: skip
    result = _finish(job, inputs, known, found, facts, began)
    remove_path(kept)
    return result


def _finish(
    job: Job,
    inputs: RunInputs,
    known: Known,
    found: consensus_clusters.ConsensusClusters,
    facts: dict[str, Any],
    began: float,
) -> Facts:
    """Store the groups with their stability and central buildings; return the result of the job."""
    pu, rows = inputs.pu, np.flatnonzero(~inputs.pu.is_excluded)
    number, agreement = facts["n_groups"], found.agreement.get(found.reading)
    jaccard = clustering.stability(found.groups, found.sortings, number)
    central = central_chips(found.points, np.where(known.classes[rows] == UNKNOWN, found.groups, NO_GROUP), number)
    facts |= {
        "reading": found.reading,
        "agreement": {way: round(value, 4) for way, value in found.agreement.items()},
        "adjusted_rand": None if agreement is None else round(agreement, 4),
        "groups": [
            {
                "group": group,
                "size": int(size),
                "jaccard": round(float(jaccard[group]), 4) if size else None,
                "central": [pu.building_ids[row] for row in rows[middle]],  # nearest to its middle first
            }
            for group, (size, middle) in enumerate(zip(np.bincount(found.groups, minlength=number), central, strict=True))
        ],
        "seconds": round(time.monotonic() - began, 2),
    }
    groups = np.full(len(pu.building_ids), NO_GROUP, np.int16)
    groups[rows] = found.groups
    job.stop_if_cancelled()
    discoveries.keep(job.layout, job.folder / "discovery", facts, pu.building_ids, groups)
    return _result(facts, len(rows))


def _result(facts: Facts, n_buildings: int) -> Facts:
    return {
        "n_buildings": n_buildings,
        **{name: facts[name] for name in ("discovery", "n_groups", "adjusted_rand", "seconds")},
    }


def _id_of(job: Job) -> str:
    """Return the id of the job's discovery, the same one after a restart."""
    if not (job.folder / NOTE).exists():
        write_json(job.folder / NOTE, {"discovery": discoveries.new_id()})
    return str(read_json(job.folder / NOTE)["discovery"])


def _stored_before(job: Job) -> Facts | None:
    """Return the job's result if it was killed after its discovery was stored."""
    if not (job.folder / NOTE).exists() or not job.layout.discovery(_id_of(job)).exists():
        return None
    facts = discoveries.load(job.layout, _id_of(job)).facts
    remove_path(job.folder / "checkpoints")
    return _result(facts, sum(group["size"] for group in facts["groups"]))


@dataclass(frozen=True)
class Known:
    """The class that people gave each building, int64 [N], -1 for none, and the names of classes 0, 1, ..."""

    classes: Ints
    names: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Return how many buildings each kind was given; those that none was given are left out."""
        numbers = Counter(self.classes[self.classes != UNKNOWN].tolist())
        return {self.names[number]: n for number, n in sorted(numbers.items())}


def _known_kinds(job: Job, pu: PUSet) -> Known:
    """Read what people answered of each building; of several types of one building the rarest counts, see `rarest_of_each`.

    NCL takes one class a building. Types that people said a building has not teach it nothing.

    Raises:
        TrainingError: if there are fewer positives than NCL needs.
    """
    require_labels(catalog.card(METHOD), int(pu.is_positive.sum()), int(pu.is_not_damaged.sum()))
    has = store.call(job.layout, damage_types.answered, pu)
    chosen = damage_types.rarest_of_each(has, FEWEST_OF_A_KIND)
    often = [name for name, _ in sorted(Counter(chosen.values()).items(), key=lambda item: (-item[1], item[0]))]
    number = {name: i for i, name in enumerate(often, 1)}
    damaged = [number.get(chosen.get(row, ""), UNKNOWN) for row in range(len(pu.building_ids))] if often else 1
    classes = np.where(pu.is_positive, damaged, np.where(pu.is_not_damaged, NOT_DAMAGED, UNKNOWN))
    classes[pu.is_excluded] = UNKNOWN
    return Known(classes.astype(np.int64), ("not damaged", *(often or ("damaged",))))


def _suggested(inputs: RunInputs, rows: Ints, n_known: int, seed: int, check: Callable[[], None]) -> SuggestedNumber:
    """Estimate the number of groups by their features, before any training: more than there are known kinds.

    Raises:
        TrainingError: if there are too few buildings.
    """
    first = max(2, n_known + 1)
    candidates = range(first, max(first, MOST_GROUPS) + 1)
    if len(rows) <= candidates[-1]:
        raise TrainingError(
            f"There are {len(rows)} buildings to sort; looking for kinds needs at least {candidates[-1] + 1}.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    features = consensus_clusters.principal_axes(FeatureViews(inputs.views))[rows]
    return suggested_number(features, candidates, torch.Generator().manual_seed(seed), check)


def _reporter(job: Job, number: int, n_seeds: int) -> Any:
    start, end = TRAINED

    def report(values: Facts) -> None:
        done, stage = (number + float(values["progress"])) / n_seeds, f"{values['stage']} {number + 1} of {n_seeds}"
        job.epoch({**values, "stage": stage, "progress": done})
        job.report(start + (end - start) * done, f"{stage}: epoch {values['epoch']}")

    return report
