"""Feature sets and layers compared on the analyst's own clicks: which judge, what is learned from, and what is kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine
from comparison_parts import BETTER, clicks_of, set_project
from layered_chip_parts import layer_set, with_layers
from numpy.typing import NDArray
from small_parts import answer, click, job_of, op_of, small_project

from pu_geo.errors import JobCancelled, TrainingError
from pu_geo.runs import compare_features_job as task
from pu_geo.runs import feature_comparison as comparison
from pu_geo.runs.inputs_job import read_inputs
from pu_geo.store import feature_sets, store
from pu_geo.store.job import Job
from pu_geo.store.layout import write_array


def compare(job: Job, methods: Sequence[str], of: str = "features") -> dict[str, object]:
    return task.compare_features(job, of=of, methods=methods)


def test_the_better_set_is_picked_and_nothing_is_chosen(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    result = compare(job_of(layout), methods=["ranker"])
    found = comparison.last(layout, "features")
    assert found is not None
    assert comparison.Comparison.from_json(result) == found
    assert found.picked == BETTER
    assert (found.n_clicks, found.n_others, found.judged_by) == (clicks_of(layout), 0, "ranker")
    assert [row.name for row in found.rows] == ["rcf", BETTER]
    assert found.rows[1].place.mean < found.rows[0].place.mean
    with store.connect(layout) as db:
        assert feature_sets.chosen(db) == "rcf"


def test_a_click_is_learned_from_by_no_fit_that_judges_it_and_queue_answers_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = set_project(tmp_path, n_clicks=9)
    answer(layout, *(op_of(f"b{i}", shown="exploit") for i in (30, 31)))
    click(layout, "b50", "b51", label="not_damaged")
    asked: list[NDArray[np.bool_]] = []
    learned: list[Sequence[NDArray[np.bool_]]] = []
    fit = task.ranker.fit_ranking

    def spy(prepared: Any, is_positive: Any, **how: Any) -> Any:
        learned.append((is_positive, how["is_excluded"], how["is_not_damaged"]))
        return fit(prepared, is_positive, **how)

    monkeypatch.setattr(task.ranker, "fit_ranking", spy)
    scorer = task.scorer

    def asked_of(*given: Any) -> Any:
        score = scorer(*given)
        return lambda is_out: asked.append(is_out) or score(is_out)

    monkeypatch.setattr(task, "scorer", asked_of)
    found = comparison.Comparison.from_json(compare(job_of(layout), methods=["ranker"]))
    assert (found.n_clicks, found.n_others) == (9, 2)
    rows = read_inputs(layout).pu
    queued = [rows.building_ids.index(f"b{i}") for i in (30, 31)]
    known = [rows.building_ids.index(f"b{i}") for i in (50, 51)]
    assert len(asked) == len(learned) == 2 * 5 * 3
    for is_out, (is_positive, is_excluded, is_known) in zip(asked, learned, strict=True):
        assert not is_positive[is_out].any()
        assert is_excluded[is_out].all()
        assert is_positive[queued].all()
        assert is_known[known].all()
        assert not is_excluded[[*queued, *known]].any()


def test_of_many_unlabeled_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MOST_UNLABELED", 12)
    layout = set_project(tmp_path, n_clicks=10, nodata_share=[1.0] + [0.0] * 99)  # b0 neither judges nor teaches
    click(layout, "b50", label="not_damaged")
    found = comparison.Comparison.from_json(compare(job_of(layout), methods=["ranker"]))
    assert (found.n_clicks, found.n_unlabeled) == (9, 12)
    inputs = read_inputs(layout)
    rows = task.drawn(inputs)
    assert len(rows) == 9 + 1 + 12
    np.testing.assert_array_equal(rows, task.drawn(inputs))
    less = task.of_rows(inputs, rows)
    assert list(less.pu.building_ids) == [inputs.pu.building_ids[row] for row in rows]
    assert (less.pu.is_positive.sum(), less.pu.is_not_damaged.sum(), less.pu.is_excluded.sum()) == (9, 1, 0)


def test_what_cannot_be_compared_is_refused_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = set_project(tmp_path, n_clicks=10)
    write_array(layout.features("set", BETTER), feature_sets.views(layout, "set", BETTER)[:1].copy())
    monkeypatch.setattr(task, "places_by", None)
    with pytest.raises(TrainingError, match=f"PUCL \\+ PUPL compares 2 views of each chip; {BETTER} has 1."):
        compare(job_of(layout), methods=["ranker", "pucl"])
    with pytest.raises(TrainingError, match="There is no method 'nothing'"):
        compare(job_of(layout), methods=["nothing"])
    assert comparison.last(layout, "features") is None


@pytest.mark.parametrize(("method", "n_done"), [("ranker", 1), ("propagation", 0)])
def test_cancel_ends_it_at_the_fit_that_runs_and_keeps_the_last_result(
    tmp_path: Path, method: str, n_done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = set_project(tmp_path, n_clicks=10)
    compare(job_of(layout), methods=["ranker"])
    before, job, scorer, begun, done = (
        comparison.last(layout, "features"),
        job_of(layout),
        task.scorer,
        list[Any](),
        list[Any](),
    )

    def cancelling(*given: Any) -> Any:
        score = scorer(*given)

        def rank(is_out: NDArray[np.bool_]) -> NDArray[np.floating]:
            begun.append((job.folder / "cancel").touch())
            done.append(score(is_out))
            return done[-1]

        return rank

    monkeypatch.setattr(task, "scorer", cancelling)
    with pytest.raises(JobCancelled):
        compare(job, methods=[method])
    assert (len(begun), len(done)) == (1, n_done)
    assert comparison.last(layout, "features") == before


@pytest.mark.slow
def test_trained_methods_are_compared_and_the_default_one_judges(tmp_path: Path) -> None:
    layout = set_project(tmp_path, n_clicks=10)
    found = comparison.Comparison.from_json(compare(job_of(layout), methods=["ranker", "linear", "propagation"]))
    assert [(row.name, row.method) for row in found.rows] == [
        (name, method) for name in ("rcf", BETTER) for method in ("ranker", "linear", "propagation")
    ]
    assert found.judged_by == "propagation"
    assert all(0 < row.place.low <= row.place.mean <= row.place.high <= 1 for row in found.rows)
    rcf, better = (row.place.mean for row in found.rows if row.method == "linear")
    assert better < rcf


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_layer_that_shows_damage_adds_and_a_useless_one_is_not_blamed(run: CommandLine, tmp_path: Path) -> None:
    layout = small_project(tmp_path / "event.pugeo", 120)
    with_layers(layout, 120, n_clicks=20, optical=12.0, missing=0.2)
    result = run.json("compare-features", layout.folder, "--layers", "--methods", "ranker")
    found = comparison.last(layout, "layers")
    assert found is not None
    assert comparison.Comparison.from_json(result) == found
    rows = {row.name: row.difference for row in found.rows}
    assert list(rows) == ["", "pre+post", "sar-post", "dsm"]
    assert rows["sar-post"].low > 0, "a held-out click comes later without it"
    assert rows["dsm"].mean < 0.1
    assert (found.n_clicks, found.n_others, found.n_unlabeled) == (20, 0, 100)
    assert [one.name for one in feature_sets.all_sets(layout, "set")] == ["rcf", layer_set(layout, n_views=17)], (
        "made on the way"
    )
    out = run.text("compare-features", layout.folder, "--layers", "--methods", "ranker")
    assert "all layers: a held-out click is typically in the top" in out
    click(layout, "b50")
    assert comparison.what_changed(layout, found) == "There are new answers since: compare again."
