"""What each layer adds, on the analyst's own clicks: which judge, what is learned from, what is kept and said."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine
from layered_chip_parts import layer_set, with_layers
from numpy.typing import NDArray
from small_parts import add_chips, answer, click, job_of, op_of, small_project

from pu_geo import jobs
from pu_geo.analysis.bakeoff import Interval
from pu_geo.api import Project
from pu_geo.errors import JobCancelled, ProjectError, TrainingError
from pu_geo.runs import compare_layers_job as task
from pu_geo.runs import inputs_job
from pu_geo.runs import layer_comparison as comparison
from pu_geo.runs.actions import CompareLayers
from pu_geo.runs.inputs_job import read_inputs
from pu_geo.store import feature_sets, labels, store
from pu_geo.store.layout import Layout


@pytest.fixture
def layered(tmp_path: Path) -> Layout:
    """100 buildings with three layers, of which every fourth is damaged and nine are clicked: b0, b4, ... b32."""
    layout = small_project(tmp_path / "event.pugeo", 100)
    with_layers(layout, 100, n_clicks=9)
    return layout


def by_chance(monkeypatch: pytest.MonkeyPatch, learned: list[Any]) -> None:
    """Let every fit keep what it learns from, and score by chance."""
    prepare = inputs_job.pu_data

    def spied(views: Any, is_positive: Any, **how: Any) -> Any:
        learned.append((is_positive, how["is_excluded"], how["is_not_damaged"]))
        return prepare(views, is_positive, **how)

    monkeypatch.setattr(inputs_job, "pu_data", spied)
    chance = np.random.default_rng(0)
    monkeypatch.setattr(
        task, "fit_and_score", lambda _card, data, *_, **__: SimpleNamespace(scores=chance.random(len(data.is_positive)))
    )


def test_a_click_is_learned_from_by_no_fit_that_judges_it_and_queue_answers_by_all(
    layered: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(layered, *(op_of(f"b{i}", shown="exploit") for i in (40, 44)))
    click(layered, "b50", "b51", label="not_damaged")
    asked: list[NDArray[np.bool_]] = []
    learned: list[Any] = []
    by_chance(monkeypatch, learned)
    score = task.scores
    monkeypatch.setattr(task, "scores", lambda there, is_out, job: asked.append(is_out) or score(there, is_out, job))
    monkeypatch.setattr(task, "MOST_UNLABELED", 12)
    found = comparison.Comparison.from_json(task.compare_layers(job_of(layered)))
    assert (found.n_clicks, found.n_others, found.n_unlabeled) == (9, 2, 12)
    assert [row.name for row in found.rows] == ["", "pre+post", "sar-post", "dsm"]
    inputs = read_inputs(layered)
    rows = task.drawn(inputs)
    np.testing.assert_array_equal(rows, task.drawn(inputs))
    ids = [inputs.pu.building_ids[row] for row in rows]
    assert list(task.of_rows(inputs, rows).pu.building_ids) == ids
    assert len(rows) == 9 + 2 + 2 + 12
    queued, known = ([ids.index(f"b{i}") for i in some] for some in ((40, 44), (50, 51)))
    assert len(asked) == len(learned) == 4 * 5 * 3
    for is_out, (is_positive, is_excluded, is_known) in zip(asked, learned, strict=True):
        assert not is_positive[is_out].any()
        assert is_excluded[is_out].all()
        assert is_positive[queued].all()
        assert is_known[known].all()
        assert not is_excluded[[*queued, *known]].any()


def test_cancel_ends_it_at_the_fit_that_runs_and_keeps_the_last_result(
    layered: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_chance(monkeypatch, [])
    task.compare_layers(job_of(layered))
    before, job, score, begun = comparison.last(layered), job_of(layered), task.scores, list[Any]()

    def cancelling(*given: Any) -> Any:
        begun.append((job.folder / "cancel").touch())
        return score(*given)

    monkeypatch.setattr(task, "scores", cancelling)
    with pytest.raises(JobCancelled):
        task.compare_layers(job)
    assert len(begun) == 1
    assert comparison.last(layered) == before


def test_what_cannot_be_compared_is_refused_before_there_is_a_job(project: Layout) -> None:
    with pytest.raises(ProjectError, match="chips"):
        comparison.require(project)
    add_chips(project, [f"b{i}" for i in range(20)], bands="pre+post")
    click(project, *(f"b{i}" for i in range(7)))
    answer(project, op_of("b8", shown="exploit"))  # which is no click of one's own
    with pytest.raises(TrainingError, match="it takes 8 of your own; this project has 7"):
        jobs.start(project, CompareLayers())
    click(project, "b7")
    with pytest.raises(TrainingError, match=r"one layer, pre\+post: there is nothing to leave out"):
        jobs.start(project, CompareLayers())
    assert not jobs.all_jobs(project)
    with pytest.raises(TrainingError, match="5 buildings not reviewed at least"):
        comparison.require_clicks(8, 4)


def test_answers_to_a_queue_or_an_audit_are_no_own_clicks(project: Layout) -> None:
    def own() -> list[str]:
        pu = store.call(project, labels.pu_set)
        return [building for building, is_own in zip(pu.building_ids, comparison.own_clicks(pu), strict=True) if is_own]

    click(project, "b0", "b1")
    click(project, "b2", shown="exploit")
    click(project, "b3", shown="explore")
    click(project, "b5", label="not_damaged")
    click(project, "b6", shown="audit", inclusion=0.5)
    assert own() == ["b0", "b1"]
    click(project, "b1", label="not_damaged")
    click(project, "b0", shown="audit", inclusion=0.5)  # its own click before still counts
    assert own() == ["b0"]


def compared(low: float, high: float, **more: object) -> comparison.Comparison:
    first = comparison.Row("", Interval(0.05, 0.01, 0.0996), Interval(0.0, 0.0, 0.0))
    other = comparison.Row("sar", Interval(0.2, 0.1, 0.3), Interval((low + high) / 2, low, high))
    found = comparison.Comparison("2026-01-01T00:00:00.000Z", 9, "set", 62, 3, 38, [first, other])
    return replace(found, **more)  # type: ignore[arg-type]


def test_what_is_better_is_said_by_the_interval_and_the_table_has_the_best_first() -> None:
    found = compared(0.2, 0.8)
    assert comparison.Comparison.from_json(asdict(found)) == found
    by = "(62 clicks, 95% interval)."
    words = f"all layers: a held-out click is typically in the top 5.0 %; without sar: in the top 20 % {by}"
    assert comparison.verdict_words(found) == [words]
    assert comparison.verdict_words(compared(-0.2, 0.8)) == [f"No difference found between without sar and all layers {by}"]
    few = comparison.verdict_words(compared(0.2, 0.8, n_clicks=9))
    assert few == ["Not enough clicks to judge by: 9 of your own, and it takes 10."]
    cells = [list(row.values()) for row in comparison.table(found)]
    assert cells == [["all layers", "top 5.0 % (1.0 to 10)"], ["without sar", "top 20 % (10 to 30)"]]
    assert "62 clicks of your own" in comparison.how_made(found)
    assert "3 that the queue proposed" in comparison.how_made(found)
    assert "queue" not in comparison.how_made(replace(found, n_others=0))


def test_a_comparison_that_is_out_of_date_says_why(layered: Layout) -> None:
    found = compared(0.2, 0.8, at_event=store.call(layered, labels.pu_set).at_event)
    assert comparison.what_changed(layered, found) == ""
    assert comparison.what_changed(layered, replace(found, chip_set="old")).startswith("Chips were cut anew")
    click(layered, "b99", label="not_damaged")  # as many own clicks as before
    assert comparison.what_changed(layered, found).startswith("There are new answers since")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_layer_that_shows_damage_adds_and_a_useless_one_is_not_blamed(run: CommandLine, tmp_path: Path) -> None:
    layout = small_project(tmp_path / "event.pugeo", 120)
    with_layers(layout, 120, n_clicks=20, optical=12.0, missing=0.2)
    result = run.json("compare-layers", layout.folder)
    found = comparison.last(layout)
    assert found is not None
    assert comparison.Comparison.from_json(result) == found
    rows = {row.name: row.difference for row in found.rows}
    assert list(rows) == ["", "pre+post", "sar-post", "dsm"]
    assert rows["sar-post"].low > 0, "a held-out click comes later without it"
    assert rows["dsm"].mean < 0.1
    assert (found.n_clicks, found.n_others, found.n_unlabeled) == (20, 0, 100)
    made = [one.name for one in feature_sets.all_sets(layout, "set")]
    assert made == ["rcf", layer_set(layout, n_views=17)], "made on the way"
    out = run.text("compare-layers", layout.folder)
    assert "all layers: a held-out click is typically in the top" in out
    again = Project.open(layout.folder, progress=False).compare_layers()
    assert again.rows == found.rows
