"""What the Damage map screen asks for: how many buildings a threshold flags, and the export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.analysis import scenes
from pu_geo.analysis.estimates import first_threshold
from pu_geo.analysis.scenes import SceneRow as SceneRow
from pu_geo.errors import PuGeoError
from pu_geo.jobs import JobView
from pu_geo.methods import catalog
from pu_geo.project import areas, contents, labels, runs, store, versions
from pu_geo.project.layout import Layout, checked_id, read_json
from pu_geo.records import NOT_IN_RUN
from pu_geo.services.damage_map import auditing, random_audits
from pu_geo.services.imagery.preparation import chip_facts
from pu_geo.services.project import choices, population
from pu_geo.services.project.choices import Threshold
from pu_geo.services.project.population import Class

FORMATS = {
    "geojson": "GeoJSON", "gpkg": "GeoPackage (opens colored in QGIS)", "csv": "CSV", "parquet": "GeoParquet", "fgb": "FlatGeobuf",
    "kml": "KML", "heat": "Heat raster (COG)",
}  # fmt: skip
LOCAL_FORMATS = ("gpkg", "csv")  # the formats that can say that a map has no place on the Earth
PROFILES = {
    "copernicus": "Copernicus EMS", "unosat": "UNOSAT", "xbd": "xBD joint damage scale", "fema": "FEMA",
}  # fmt: skip


@dataclass(frozen=True)
class ThresholdView:
    """What a threshold means in a run. Counts are of buildings.

    Attributes:
        n_flagged: unlabeled with at least this score.
        n_open: unlabeled and assessed: those that some threshold flags.
        n_confirmed: positives.
        n_not_assessed: of which nothing is known.
        n_later: footprints that were added after the run and that it does not score.
        units: the words for what is counted: "buildings", "cells of 30 m", or both.
    """

    n: int
    n_flagged: int
    n_confirmed: int
    n_not_assessed: int
    n_open: int = 0
    n_later: int = 0
    units: str = "buildings"


def at_threshold(layout: Layout, run_id: str, threshold: float) -> ThresholdView:
    """Count what a threshold flags, with the labels of this moment."""
    found = population.of_run(layout, choices.run(layout, run_id))
    is_later, n_open = (found.why == NOT_IN_RUN) & found.given(""), int(found.is_open.sum())
    n = len(found.ids) - int(is_later.sum())
    return ThresholdView(
        n=n,
        n_flagged=int((found.is_open & (found.scores >= round(threshold, 4))).sum()),
        n_open=n_open,
        n_confirmed=int(found.given("positive").sum()),
        n_not_assessed=n - n_open - int(found.given("positive", "not_damaged").sum()),
        n_later=int(is_later.sum()),
        units=store.call(layout, contents.units).full,
    )


def classes_now(layout: Layout, run_id: str, threshold: float, *, is_taught: bool = False) -> dict[str, Class]:
    """Return building id -> class, of all footprints as the next version would have them.

    Args:
        is_taught: as it would be without the answers of audits.
    """
    found = population.of_run(layout, choices.run(layout, run_id))
    if is_taught:
        with store.connect(layout) as db:
            taught = labels.taught(db, labels.last_event(db))
        given = {building: event.label for building, event in taught.items() if event is not None}
        found = replace(found, answers=list(map(given.get, found.ids)))
    return dict(zip(found.ids, found.classes(threshold), strict=True))


@dataclass(frozen=True)
class Offer:
    """A threshold that an audit offers for a run's map; nothing is changed before a person takes it.

    Attributes:
        threshold: it, with the audit as its origin.
        n_flagged, n_now: buildings that it flags, and that the map flags now.
        words: what each of both costs.
    """

    threshold: Threshold
    n_flagged: int
    n_now: int
    words: str


def offer(layout: Layout, run_id: str) -> Offer | None:
    """Return the threshold that flags as many as an audit, of this run or another, says are damaged and not confirmed.

    None without an audit that has ended and found damage, where hardly any is left, and where the map flags just as many.
    """
    found, now = auditing.how_many(layout), choices.threshold(layout, run_id)
    if found.basis != "audit" or found.audit_state not in ("finished", "reduced") or found.total.value is None:
        return None
    scores, left = _open_scores(layout, run_id), round(found.total.value) - found.confirmed
    if not len(scores) or left < 1 or not found.n_damaged or found.check_id is None:
        return None
    limit = Threshold(first_threshold(scores, left), f"{choices.AUDIT}:{found.check_id}")
    n_now, n_flagged = (int((scores >= one.value).sum()) for one in (now, limit))
    if n_now == n_flagged:
        return None
    check = random_audits.load(layout, found.check_id)
    judged: list[float | None] = [None, None]
    if choices.run(layout, run_id).chip_set == check.chip_set:
        judged = [at.damaged.value for at in auditing.at_by(layout, run_id, check, [now.value, limit.value])]
    costs = [_costs(damaged, n, left) for damaged, n in zip(judged, (n_now, n_flagged), strict=True)]
    words = f"The audit estimates about {left:,} damaged beside the {found.confirmed:,} confirmed. Now {costs[0]}. With its threshold {costs[1]}."
    return Offer(limit, n_flagged, n_now, words)


def _costs(damaged: float | None, n: int, left: int) -> str:
    """Return how many of n flagged buildings are right, and how many of `left` damaged ones are missed."""
    if damaged is None:
        return f"{n:,} flagged: these checks cannot tell how many of them are damaged"
    right = min(round(damaged), n)
    return f"{n:,} flagged: about {right:,} of them damaged, {n - right:,} not, and about {max(left - right, 0):,} damaged missed"


def top(layout: Layout, run_id: str, k: int) -> Threshold:
    """Return the threshold that flags the k highest-ranked of the buildings that may be flagged; nothing is stored.

    Where scores are equal it flags the number nearest to k. What people answered is never flagged, whatever its score.

    Raises:
        PuGeoError: if there are not so many buildings, or k is no whole number.
    """
    scores = _open_scores(layout, run_id)
    n_open = len(scores)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n_open:
        raise PuGeoError(
            f"The top {k} buildings were asked for; {n_open:,} are assessed and have no answer.",
            f"Choose a whole number between 1 and {n_open:,}."
            if n_open
            else "Every building is answered; nothing is left to flag.",
        )
    return Threshold(first_threshold(scores, int(k)), f"{choices.TOP}:{int(k)}")


def _open_scores(layout: Layout, run_id: str) -> NDArray[np.float64]:
    """Return the scores of the buildings that a threshold may flag, as written."""
    found = population.of_run(layout, choices.run(layout, run_id))
    return found.scores[found.is_open]


def choose_top(layout: Layout, run_id: str, k: int) -> Threshold:
    """Store the threshold that flags the k highest-ranked buildings; return it. Raises as `top`."""
    limit = top(layout, run_id, k)
    choices.choose_threshold(layout, run_id, *limit)
    return limit


def basis_words(origin: str) -> str:
    """Return who or what set a threshold, for people. Counts and ids are left out: answers since then change how many it flags.

    >>> basis_words("start:88"), basis_words("top:120"), basis_words("audit:check-1")
    ('a starting point, not an estimate', 'chosen by a person', 'set from the accuracy assessment')
    """
    kind = origin.partition(":")[0]
    if kind == choices.START:
        return "a starting point, not an estimate"
    if kind == "audit":
        return "set from the accuracy assessment"
    return "chosen by a person" if kind == choices.TOP else choices.origin_words(origin)


def wanted_of(origin: str) -> int | None:
    """Return how many buildings a threshold was set to flag; None where it was not set by a number.

    >>> wanted_of("start:88"), wanted_of("person")
    (88, None)
    """
    kind, _, rest = origin.partition(":")
    return int(rest) if kind in (choices.START, choices.TOP) and rest.isdecimal() else None


def limit_of(layout: Layout, run_id: str, value: float) -> Threshold:
    """Return a threshold with its origin: the stored one's where it is that, else a person's."""
    found = choices.threshold(layout, run_id)
    return found if round(value, 4) == found.value else Threshold(round(value, 4), choices.PERSON)


def scene_rows(layout: Layout, run_id: str, threshold: float) -> list[SceneRow]:
    """Return what a run says in each post-event scene, with the labels of this moment; see `analysis.scenes`."""
    facts = choices.run(layout, run_id)
    if not layout.chip_facts(facts.chip_set).is_file():
        return []
    chips = chip_facts(layout, facts.chip_set)
    found = population.of_run(layout, facts, chips["building_ids"])
    return scenes.scene_rows(chips, found.scores, threshold, found.why, found.answers)


def doubts(layout: Layout, run_id: str, threshold: float) -> list[str]:
    """Return in which scenes the result of a run is doubtful and what to do, one sentence a scene."""
    return scenes.doubts(scene_rows(layout, run_id, threshold))


def start_publish(
    layout: Layout, run_id: str, threshold: float, formats: Sequence[str], profiles: Sequence[str], *, local: bool
) -> str:
    """Start the job that writes the next version of the damage map into `exports/`; return its id."""
    return jobs.start(layout, "publish", publish_arguments(layout, run_id, threshold, formats, profiles, local=local))


def has_place(layout: Layout) -> bool:
    """Return whether a project has a place on the Earth; pictures without a georeference have local coordinates."""
    return store.call(layout, contents.grid).has_place


def publish_arguments(
    layout: Layout, run_id: str, threshold: float | None, formats: Sequence[str], profiles: Sequence[str], *,
    local: bool = False, top: int | None = None,
) -> dict[str, object]:  # fmt: skip
    """Return what the job "publish" takes, see `map_arguments`; `local`: meters, for a map without a place on the Earth."""
    chosen = {"formats": list(formats), "profiles": list(profiles), "local": local}
    return {**map_arguments(layout, run_id, threshold, top), **chosen}


def map_arguments(layout: Layout, run_id: str, limit: float | None, k: int | None = None) -> dict[str, object]:
    """Return what every job on a run's map takes.

    Args:
        limit: the threshold; the one chosen for the run if None.
        k: flag the k highest-ranked buildings instead.

    Raises:
        PuGeoError: if both are given, or as `top`.
    """
    run_id = choices.run(layout, run_id).run_id
    found = choices.threshold(layout, run_id)
    if k is not None:
        one_of_both(limit, k)
        found = top(layout, run_id, k)
    elif limit is not None:
        found = limit_of(layout, run_id, limit)
    return {"run_id": run_id, "threshold": found.value, "threshold_origin": found.origin}


def one_of_both(limit: float | None, k: int | None) -> None:
    """Refuse a threshold and a number to flag together."""
    if limit is not None and k is not None:
        raise PuGeoError(
            f"A threshold of {limit:g} and the top {k} buildings were both asked for.",
            "Give one of the two.",
            kind="threshold",
        )


def which_words(facts: Mapping[str, Any]) -> str:
    """Return of which run a map is, at which threshold, who or what set that, and whether it was audited.

    Args:
        facts: "run_id" and "threshold", "method", "threshold_origin", "audit_id".
    """
    method, origin = catalog.title(str(facts["method"])), choices.origin_words(str(facts["threshold_origin"]))
    audit = f"audit {facts['audit_id']}"
    if facts["audit_id"] == "not audited":
        by_audit = str(facts["threshold_origin"]).startswith(f"{choices.AUDIT}:")
        audit = "which estimates nothing any more: not audited" if by_audit else "not audited"
    return f"Run {facts['run_id']} ({method}), threshold {float(facts['threshold']):.4g} ({origin}), {audit}."


def newer_words(layout: Layout, run_id: str) -> list[str]:
    """Return that a newer run waits to be chosen, in a sentence; nothing where this is the newest."""
    newest = store.call(layout, runs.find, "latest").run_id
    if newest == run_id:
        return []
    return [f"Run {newest} is newer and not shown; `pu-geo choose {layout.folder.name} --run latest` makes it the map."]


def start_adding_areas(layout: Layout, path: str, layer: str) -> str:
    """Start the job that reads areas such as districts; return its id. Raises PuGeoError if no path is given."""
    if not path:
        raise PuGeoError("No file of areas was named.", "Write the path of a GeoJSON or GeoPackage file of polygons.")
    return jobs.start(layout, "add_areas", {"path": path, "layer": areas.checked_layer(layer)})


def area_layers(layout: Layout) -> dict[str, int]:
    """Return the layers of areas that were added, and how many areas each has."""
    return store.call(layout, areas.layers)


def start_summing_up(layout: Layout, run_id: str, threshold: float, cell_m: int) -> str:
    """Start the job that sums a run's map up by area; return its id."""
    return jobs.start(layout, "sum_up", {**map_arguments(layout, run_id, threshold), "cell_m": cell_m})


def last_summing_up(layout: Layout, run_id: str) -> JobView | None:
    """Return the newest finished job "sum_up" of a run."""
    done = (job for job in jobs.all_jobs(layout) if job.task == "sum_up" and job.state == "done")
    return next((job for job in done if job.result.get("run_id") == run_id), None)


def area_table(layout: Layout, job_id: str, layer: str) -> dict[str, Any]:
    """Return what the job "sum_up" found for one layer: {"rows", "outlines", "n_outside"}."""
    path = layout.jobs / checked_id(job_id) / f"{layer}.json"
    found: dict[str, Any] = read_json(path)
    return found


def published(layout: Layout) -> list[dict[str, Any]]:
    """Return what each version of the damage map is, the newest first."""
    return versions.all_facts(layout)
