"""Several runs as one: what it is made of, what is refused, and that the rest of the product copes with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import small_parts
from model_parts import N, array_of, job_of
from small_parts import click, facts_of

from pu_geo.analysis import agreement
from pu_geo.errors import JobCancelled, ModelError, ProjectError
from pu_geo.project import runs
from pu_geo.project.layout import Layout, write_json
from pu_geo.records import RunFacts
from pu_geo.services.train import models, training
from pu_geo.tasks.damage_map.publish import publish
from pu_geo.tasks.train.ensemble import ensemble

IDS = [f"b{i}" for i in range(N)]
MEMBERS = ("one-1", "two-1")


def add_run(layout: Layout, run_id: str, seed: int, *, held_out: Sequence[int] = (), **facts: object) -> None:
    """Store a run whose scores are drawn, b0 to b5 on top."""
    draw = np.random.default_rng(seed)
    scores = (draw.random(N) / 2).astype(np.float32)
    scores[:6] += 0.5
    wide = draw.normal(size=(N, 4 + seed)).astype(np.float32)
    arrays = {"embeddings": wide / np.linalg.norm(wide, axis=1, keepdims=True)}
    if held_out:
        arrays["held_out"] = np.array(held_out, np.int64)
    usual = {"method": "pucl", "seed": seed, "n_positive": 6, "n_unlabeled": 14, "at_event": 12, "threshold": 0.4}
    settled = {**usual, "score_type": "pu_probability", **facts}
    small_parts.add_run(layout, run_id, scores=scores, arrays=arrays, **settled)


@pytest.fixture
def layout(chipped: Layout) -> Layout:
    """Twenty buildings, six of them positives, and two runs."""
    for seed, run_id in enumerate(MEMBERS, 1):
        add_run(chipped, run_id, seed)
    return chipped


def averaged(layout: Layout, *run_ids: str, name: str = "average") -> RunFacts:
    return facts_of(layout, str(ensemble(job_of(layout, name), run_ids=list(run_ids or MEMBERS))["run_id"]))


def test_its_score_is_the_mean_of_the_runs_rank_shares(layout: Layout) -> None:
    facts = averaged(layout)
    scores = array_of(layout, facts.run_id).astype(np.float64)
    each = [array_of(layout, run_id).astype(np.float64) for run_id in MEMBERS]
    np.testing.assert_allclose(scores, agreement.rank_average(each), rtol=1e-6)
    assert (facts.method, facts.preset, facts.score_type, facts.chip_set) == ("ensemble", "rank average", "rank", "set")
    assert (facts.n_positive, facts.n_unlabeled, facts.at_event, facts.warnings) == (6, 14, 12, ())
    assert facts.settings == {"run_ids": list(MEMBERS), "methods": ["pucl", "pucl"]}
    assert not (layout.run(facts.run_id) / "curve.json").exists()
    own = array_of(layout, facts.run_id, "embeddings")
    assert own.shape == (N, 5 + 6)
    mean = np.mean([(e := array_of(layout, run_id, "embeddings")) @ e.T for run_id in MEMBERS], axis=0)
    np.testing.assert_allclose(own @ own.T, mean, atol=1e-5)  # a cosine is the mean of the runs' cosines
    n_flagged = (runs.written(scores[6:]) >= facts.threshold).sum()
    assert facts.start_k == n_flagged == 7, "30 at least, but no more than half of 14"


def test_it_holds_out_what_all_runs_held_out_and_knows_the_newest_labels(layout: Layout) -> None:
    add_run(layout, "three-1", 3, held_out=[0, 2, 4], at_event=12)
    click(layout, "b8")
    add_run(layout, "four-1", 4, held_out=[2, 4, 8], at_event=13, warnings=("It calls everything damaged.",))
    facts = averaged(layout, "three-1", "four-1")
    assert np.flatnonzero(runs.held_out(layout, facts.run_id)).tolist() == [2, 4]
    assert (facts.at_event, facts.n_positive) == (13, 5)  # seven clicks but the two
    assert facts.warnings == ("four-1, one of the runs averaged: It calls everything damaged.",)
    assert not runs.held_out(layout, "one-1").any()


@pytest.mark.parametrize(
    ("run_ids", "words"),
    [
        ([], "none was named"),
        (["one-1", "two-1", "one-1"], "one-1 was named 2 times"),
        (["one-1", "nobody-1"], "no run 'nobody-1'"),
        (["one-1", "other-1"], "other-1 the chips other"),
    ],
)
def test_what_cannot_be_averaged_is_refused_in_words(layout: Layout, run_ids: list[str], words: str) -> None:
    if "other-1" in run_ids:
        add_run(layout, "other-1", 3, chip_set="other")
    with pytest.raises(ProjectError, match=words):
        ensemble(job_of(layout, "average"), run_ids=run_ids)
    assert not any(facts.method == "ensemble" for facts in training.all_runs(layout))


def test_a_cancelled_one_stores_nothing_and_one_started_again_after_it_was_stored_nothing_more(layout: Layout) -> None:
    job = job_of(layout, "average")
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        ensemble(job, run_ids=list(MEMBERS))
    assert len(training.all_runs(layout)) == 2
    (job.folder / "cancel").unlink()
    first = ensemble(job, run_ids=list(MEMBERS))
    assert ensemble(job, run_ids=list(MEMBERS)) == first
    assert len(training.all_runs(layout)) == 3


def test_the_rest_of_the_product_copes_with_it(layout: Layout, tmp_path: Path) -> None:
    facts = averaged(layout)
    assert training.pinned_run(layout) == facts.run_id
    n_called = (array_of(layout, facts.run_id) >= facts.threshold)[6:14].sum()  # b14 to b19 are not damaged
    assert models.runs_with_model(layout) == []
    with pytest.raises(ModelError, match="averages of runs have none"):
        models.export(layout, facts.run_id, str(tmp_path))
    made = publish(job_of(layout, "publish"), run_id="latest", formats=["geojson"], threshold=facts.threshold)
    folder = Path(str(made["out"]))
    rows = [feature["properties"] for feature in json.loads((folder / "damage_map.geojson").read_text())["features"]]
    assert {(row["method"], row["score_type"]) for row in rows} == {("ensemble", "rank")}
    assert sum(row["damage_binary"] == "damaged" for row in rows) == 6 + n_called
    assert json.loads((folder / "damage_map.run.json").read_text())["average_of"] == list(MEMBERS)
    assert "the mean rank of several runs" in (folder / "report.html").read_text()


def test_hidden_buildings_teach_an_average_nothing_and_its_members_silent_scenes_are_its_own(layout: Layout) -> None:
    path = layout.chip_facts("set")
    look = [0] * (N - 4) + [1] * 4
    hidden = [0.9 if row in (2, N - 5) else 0.0 for row in range(N)]
    write_json(path, {**json.loads(path.read_text()), "nodata_share": hidden, "look_group": look, "sensor_group": look})
    add_run(layout, "silent-1", 3, without_answers=(1,))
    made = averaged(layout, MEMBERS[0], "silent-1")
    assert (made.n_hidden, made.n_positive) == (2, 5)  # b2 was clicked, and shows nothing
    assert made.without_answers == (1,)
