"""The threshold of a run's map and what it flags: a person's, a number of buildings, an audit's; and the jobs on the map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mapped_parts import RUN, TRUTH, N, answer_audit, say
from small_parts import add_run, small_project, square_table

from pu_geo.errors import PuGeoError
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import auditing, mapping
from pu_geo.services.damage_map.mapping import ThresholdView
from pu_geo.services.project import choices


def scores_of(layout: Layout) -> Any:
    return np.asarray(runs.array(layout, RUN, "scores"), np.float64).round(4)


def test_a_threshold_flags_what_is_open_and_reaches_it(mapped: Layout) -> None:
    for building, label in (("b5", "positive"), ("b6", "not_damaged"), ("b7", "not_assessable")):
        say(mapped, building, label)
    with store.connect(mapped) as db:
        contents.add_footprints(db, square_table(N + 2))
    scores = scores_of(mapped)
    is_open = ~np.isin(np.arange(N), (0, 1, 5, 6, 7))
    limit = float(np.sort(scores[is_open])[-30])  # the 30th
    counts = {"n_flagged": 30, "n_confirmed": 1, "n_not_assessed": 3, "n_open": N - 5, "n_later": 2}
    assert mapping.at_threshold(mapped, RUN, limit) == ThresholdView(n=N, **counts)
    kinds = mapping.classes_now(mapped, RUN, limit)
    flagged = {f"b{row}" for row in np.flatnonzero(is_open & (scores >= limit))}
    assert {building for building, kind in kinds.items() if kind == "flagged"} == flagged
    assert [kinds[f"b{row}"] for row in (0, 5, 6, 7, N)] == [
        "not_assessed", "confirmed", "not_flagged", "not_assessed", "not_assessed",
    ]  # fmt: skip
    assert mapping.top(mapped, RUN, 30) == (pytest.approx(limit), "top:30")
    for k in (0, N - 4, True, 2.0):
        with pytest.raises(PuGeoError, match=f"top {k} buildings"):
            mapping.top(mapped, RUN, k)
    with pytest.raises(PuGeoError, match="both asked for"):
        mapping.map_arguments(mapped, RUN, 0.5, 30)
    own = {"run_id": RUN, "threshold": 0.5, "threshold_origin": mapping.threshold(mapped, RUN).origin}
    assert mapping.map_arguments(mapped, RUN, None) == mapping.map_arguments(mapped, RUN, 0.5) == own
    assert mapping.map_arguments(mapped, RUN, 0.61234) == {**own, "threshold": 0.6123, "threshold_origin": "person"}
    published = mapping.publish_arguments(mapped, RUN, None, ("csv",), ("xbd",), local=True, top=30)
    found = {"run_id": RUN, "threshold": pytest.approx(limit), "threshold_origin": "top:30"}
    assert published == {**found, "formats": ["csv"], "profiles": ["xbd"], "local": True}


def test_an_audit_sets_the_threshold_of_a_run_that_had_a_starting_point_alone(mapped: Layout) -> None:
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), start_k=88)
    assert mapping.threshold(mapped, "ranker-2") == (0.5, "start:88")
    assert "1 in" in auditing.planned_words(mapped)
    check = answer_audit(mapped, 200)
    told = auditing.how_many(mapped)
    found = mapping.threshold(mapped, "ranker-2")
    assert found.origin == f"audit:{check.id}"
    wanted = round(told.total.value) - told.confirmed
    assert mapping.at_threshold(mapped, "ranker-2", found.value).n_flagged == pytest.approx(wanted, abs=1)
    assert choices.threshold(mapped, "ranker-2") == found, "it is stored, as a person's choice is"
    assert mapping.threshold(mapped, RUN).value == 0.5, "a run's own boundary stays"
    assert "as random checks estimate it" in auditing.planned_words(mapped)
    assert 0.05 < TRUTH.mean() < 0.2


def test_jobs_on_a_map_are_started_with_its_run_and_threshold(
    mapped: Layout, started: list[tuple[str, dict[str, Any]]], tmp_path: Any
) -> None:
    args = mapping.map_arguments(mapped, RUN, 0.6)
    mapping.start_publish(mapped, RUN, 0.6, ["csv"], [], local=False)
    mapping.start_summing_up(mapped, RUN, 0.6, 250)
    mapping.start_adding_areas(mapped, "/data/areas.geojson", "adm2")
    assert started == [
        ("publish", {**args, "formats": ["csv"], "profiles": [], "local": False}),
        ("sum_up", {**args, "cell_m": 250}),
        ("add_areas", {"path": "/data/areas.geojson", "layer": "adm2"}),
    ]
    with pytest.raises(PuGeoError, match="No file of areas"):
        mapping.start_adding_areas(mapped, "", "adm2")
    assert mapping.has_place(small_project(tmp_path / "here.pugeo"))
    assert (mapping.area_layers(mapped), mapping.last_summing_up(mapped, RUN), mapping.published(mapped)) == ({}, None, [])
    assert mapping.newer_words(mapped, RUN) == []
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), created_at="2026-02-01T00:00:00.000Z")
    assert "ranker-2 is newer" in mapping.newer_words(mapped, RUN)[0]
    facts = {"run_id": RUN, "threshold": 0.5, "method": "ncpu", "threshold_origin": "person", "audit_id": "check-1"}
    assert mapping.which_words(facts) == "Run ranker-1 (NcPU), threshold 0.5 (chosen by a person), audit check-1."
    assert mapping.which_words({"run_id": RUN, "threshold": 0.51239}) == "Run ranker-1, threshold 0.5124."
