"""Whether a comparison can start, whose clicks judge, and what its result says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from comparison_parts import BETTER, set_project
from small_parts import add_chips, answer, click, op_of

from pu_geo import jobs
from pu_geo.analysis.bakeoff import Interval, Verdict
from pu_geo.errors import ProjectError, TrainingError
from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.services.train import layer_comparison as by_layer

BAD = [
    (7, ["ranker"], "it takes 8 of your own; this project has 7"),
    (12, ["nothing"], "There is no method 'nothing'"),
    (12, ["ncl"], "not compared by NCL"),
    (12, ["ranker", "supervised"], "not compared by Supervised"),
    (12, [], "No method was named"),
]


def own(layout: Layout) -> list[str]:
    pu = store.call(layout, labels.pu_set)
    return [building for building, is_own in zip(pu.building_ids, comparison.own_clicks(pu), strict=True) if is_own]


def test_answers_to_a_queue_or_an_audit_are_no_own_clicks(project: Layout) -> None:
    click(project, "b0", "b1")
    click(project, "b2", shown="exploit")
    click(project, "b3", shown="explore")
    click(project, "b5", label="not_damaged")
    click(project, "b6", shown="audit", inclusion=0.5)
    assert own(project) == ["b0", "b1"]
    click(project, "b1", label="not_damaged")
    click(project, "b0", shown="audit", inclusion=0.5)  # its own click before still counts
    assert own(project) == ["b0"]


def test_an_undone_correction_brings_an_own_click_back(project: Layout) -> None:
    click(project, "b0")
    click(project, "b0", label="cleared")
    assert own(project) == []
    with store.connect(project) as db:
        labels.undo(db, "undo-1", analyst="ann", screen="map")
    assert own(project) == ["b0"]


@pytest.mark.parametrize(("n_clicks", "methods", "problem"), BAD)
def test_what_cannot_be_compared_is_refused_before_there_is_a_job(
    tmp_path: Path, n_clicks: int, methods: list[str], problem: str
) -> None:
    layout = set_project(tmp_path, n_clicks=n_clicks)
    answer(layout, *(op_of(f"b{i}", shown="exploit") for i in range(20, 30)))  # which are no clicks of one's own
    for service in (comparison, by_layer):
        with pytest.raises(TrainingError, match=problem):
            service.start(layout, methods)
        assert service.last(layout) is None
    assert not jobs.all_jobs(layout)


def test_a_comparison_needs_chips_layers_and_enough_buildings(project: Layout) -> None:
    with pytest.raises(ProjectError, match="chips"):
        comparison.require(project, ["ranker"])
    add_chips(project, [f"b{i}" for i in range(20)], bands="pre+post")
    click(project, *(f"b{i}" for i in range(8)))
    comparison.require(project, ["ranker"])
    with pytest.raises(TrainingError, match=r"one layer, pre\+post: there is nothing to leave out"):
        by_layer.require(project, ["ranker"])
    for n_unlabeled, n_positive, problem in ((4, 8, "5 buildings not reviewed at least"), (5, 6, "held out there are 4")):
        comparison.require_clicks(8, n_positive + 1, n_unlabeled + 1, ["propagation"])
        with pytest.raises(TrainingError, match=problem):
            comparison.require_clicks(8, n_positive, n_unlabeled, ["propagation"])


def test_a_job_gets_the_methods_that_were_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: started.append((task, args)) or "id")
    assert comparison.start(set_project(tmp_path, n_clicks=8), ["ranker"]) == "id"
    assert started == [("compare_features", {"methods": ["ranker"]})]


def compared(kind: str, **more: object) -> comparison.Comparison:
    place = {"rcf": Interval(0.2, 0.1, 0.3), BETTER: Interval(0.05, 0.01, 0.0996)}
    rows = [comparison.Row(name, "ranker", place[name], 1.25) for name in ("rcf", BETTER)]
    differences = {BETTER: Interval(-0.5, -0.8, -0.2)}
    verdict = Verdict(kind, BETTER if kind == "better" else "rcf", differences)  # type: ignore[arg-type]
    found = comparison.Comparison("2026-01-01T00:00:00.000Z", 62, "set", 62, 3, 38, rows, "ranker", verdict)
    return replace(found, **more)  # type: ignore[arg-type]


def test_the_verdict_is_one_sentence_and_the_table_has_the_best_first() -> None:
    found = compared("better")
    assert comparison.Comparison.from_json(found.as_json()) == found
    assert comparison.verdict_words(found) == (
        f"{BETTER} is better than rcf: a held-out click is in the top 5.0 % instead of the top 20 % "
        "(instant ranker, 62 clicks, 95% interval)."
    )
    assert comparison.verdict_words(compared("same")).startswith("No difference seen, use either (instant ranker")
    assert comparison.verdict_words(compared("few")).startswith("Not enough clicks to choose by: 62 of your own")
    alone = replace(found, verdict=Verdict("same", "rcf", {}))
    assert comparison.verdict_words(alone).startswith("There is one feature set, rcf")
    cells = [list(row.values()) for row in comparison.table(found)]
    assert cells == [
        [BETTER, "Instant ranker", "top 5.0 % (1.0 to 10)", "1.2"], ["rcf", "Instant ranker", "top 20 % (10 to 30)", "1.2"],
    ]  # fmt: skip
    assert "62 clicks of your own" in comparison.how_made(found)
    assert "3 that the queue proposed" in comparison.how_made(found)
    assert "queue" not in comparison.how_made(compared("better", n_others=0))


def test_a_comparison_that_is_out_of_date_says_why_and_proposes_nothing(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    found = compared("better")
    assert comparison.what_changed(layout, found) == ""
    assert comparison.proposed(layout, found) == BETTER
    assert comparison.proposed(layout, compared("same")) == ""
    for less, words in (
        ({"rows": found.rows[:1]}, "Feature sets were made or removed"),
        ({"chip_set": "old"}, "Chips were cut anew"),
    ):
        other = replace(found, **less)  # type: ignore[arg-type]
        assert comparison.what_changed(layout, other).startswith(words)
        assert comparison.proposed(layout, other) == ""
    click(layout, "b99", label="not_damaged")  # as many own clicks as before
    assert comparison.what_changed(layout, found).startswith("There are new answers since")
    click(layout, "b90")
    assert comparison.what_changed(layout, found).startswith("There are 63 by now")


def test_what_a_layer_adds_follows_the_interval() -> None:
    row = by_layer.LayerRow("dsm", "propagation", 0.6, 0.5, Interval(0.1, 0.02, 0.2))
    worse, same = (
        replace(row, gain=Interval(mean, low, high)) for mean, low, high in ((-0.1, -0.2, -0.02), (0.1, -0.02, 0.2))
    )
    better = replace(row, layer="sar", gain=Interval(0.3, 0.1, 0.4))
    by_ranker = replace(row, method="ranker")
    found = by_layer.LayerComparison("2026-01-01", 0, "set", "layers-1", 12, 0, 100, [row, better, by_ranker], {"sar": 7})
    assert by_layer.LayerComparison.from_json(found.as_json()) == found
    assert by_layer.judged(found, row) == "dsm adds to the ranking: AP +0.10, 95 % interval +0.02 to +0.20."
    assert by_layer.judged(found, worse).startswith("The ranking is better without dsm: AP -0.10")
    assert by_layer.judged(found, same).startswith("No difference found with or without dsm")
    assert len(by_layer.verdict_words(found)) == 2
    few = replace(found, n_clicks=9)
    assert by_layer.verdict_words(few) == ["Not enough answers to judge: 9 held-out clicks, and it takes 10."]
    assert "judge" not in by_layer.verdict_words(replace(found, n_clicks=10))[0]
    cells = [list(line.values()) for line in by_layer.table(found)]
    assert cells == [
        ["sar", "Propagated ranking", "0.60", "0.50", "+0.30 (+0.10 to +0.40)", "7"],
        ["dsm", "Propagated ranking", "0.60", "0.50", "+0.10 (+0.02 to +0.20)", "0"],
        ["dsm", "Instant ranker", "0.60", "0.50", "+0.10 (+0.02 to +0.20)", "0"],
    ]
