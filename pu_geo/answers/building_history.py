"""The history of one building: its answers and when they were given, its score in each run, and the chips most like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pu_geo.answers import ranking
from pu_geo.records import RunFacts
from pu_geo.scenes.image_quality import imagery_of
from pu_geo.store import contents, grades, history, population, rounds, run_names, runs, store
from pu_geo.store.layout import Layout

N_RUNS, N_ALIKE, N_EVENTS, N_ATTRIBUTES = 8, 6, 40, 12


@store.one_connection()
def building_history(layout: Layout, place: int) -> dict[str, Any] | None:
    """Return all that is known of a building.

    Args:
        place: of the building in the map's geometry.

    Returns:
        {"building_id", "area_m2", "attributes", "events": oldest first, "runs": newest first, "alike": places of the chips
        most like it, None while these are worked out for the first time (ask again), "before": answers of earlier rounds,
        "imagery": see `image_quality.imagery_of`}; None if there is no such building.
    """
    with store.connect(layout) as db:
        known = contents.building_at(db, place) if place >= 0 else None
        if known is None:
            return None
        building, area_m2, attributes = known
        events, scale = history.of_building(db, building)[-N_EVENTS:], grades.known(db)
        found = runs.all_runs(db)[:N_RUNS]
    names = run_names.names(layout)
    return {
        "building_id": building,
        "area_m2": round(area_m2, 1),
        "attributes": dict(list(attributes.items())[:N_ATTRIBUTES]),
        "events": [{**event, "grade": grades.name_of(scale, str(event["grade"]))} for event in events],
        "runs": [one for one in (_scored(layout, run, building, names) for run in found) if one],
        "alike": _alike(layout, building),
        "imagery": imagery_of(layout, building),
        "before": [
            {name: getattr(one, name) for name in ("round", "label", "damage_binary", "labelled_at", "grade")}
            for one in rounds.read(layout).past
            if one.building_id == building
        ],
    }


def _scored(layout: Layout, run: RunFacts, building: str, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a run's score and rank of a building; None if it has none there."""
    run_id = run.run_id
    row = runs.row_of(layout, run_id, building)
    if row is None:
        return None
    found = population.of_run(layout, run, runs.building_ids_of(layout, run_id))
    if not np.isfinite(found.scores[row]):
        return None
    return {
        "run_id": run_id, "name": names.get(run_id, run_id), "method": run.method, "score": float(found.scores[row]),
        "rank": int(found.ranks()[row]), "n": int(np.isfinite(found.scores).sum()),
    }  # fmt: skip


def _alike(layout: Layout, building: str) -> list[int] | None:
    """Return the places of the nearest chips, nearest first; None while very many features are prepared in the
    background.
    """
    if not ranking.has_plain_features(layout):
        return None
    nearest = ranking.most_alike(layout, building, N_ALIKE)
    places = store.call(layout, contents.places_of, nearest)
    return [places[one] for one in nearest]
