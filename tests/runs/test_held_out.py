"""Held-out clicks: nothing is learned from them, the same seed draws the same, and too many are refused."""

import json
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from model_parts import array_of, job_of, with_chips
from small_parts import click, facts_of

from pu_geo.analysis.estimates import first_threshold
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.records import PUSet
from pu_geo.runs import comparing, train_job
from pu_geo.runs.inputs_job import RunInputs, read_inputs, set_aside, unlabeled_to_judge
from pu_geo.runs.monitor_job import TrainingMonitor, contact_sheet, png_of
from pu_geo.runs.train_job import finish
from pu_geo.store import runs
from pu_geo.store.layout import Layout, write_json
from pu_geo.training.data import FeatureViews, PUData

NCPU: dict[str, Any] = {"method": "ncpu", "preset": "quick", "overrides": {"epochs": "24", "batch_size": "10"}}


NNPU: dict[str, Any] = {
    "method": "nnpu", "preset": "quick", "overrides": {"epochs": "2", "max_steps": "4", "batch_size": "10"},
}  # fmt: skip


def clicked(n_positive: int = 30, n: int = 100) -> PUSet:
    nothing = np.zeros(n, np.bool_)
    return PUSet([f"b{i}" for i in range(n)], np.arange(n) < n_positive, nothing, np.arange(n) >= n - 5, 7)


def test_what_is_set_aside_is_neither_positive_nor_unlabeled() -> None:
    pu, card = clicked(), catalog.card("ncpu")
    left, rows = set_aside(pu, 12, 3, card)
    assert (len(rows), rows.dtype) == (12, np.int64)
    assert (np.diff(rows) > 0).all()
    is_held_out = np.isin(np.arange(100), rows)
    np.testing.assert_array_equal(left.is_positive, pu.is_positive & ~is_held_out)
    np.testing.assert_array_equal(left.is_excluded, pu.is_excluded | is_held_out)
    assert pu.is_positive.sum() == 30
    again, other = (set_aside(pu, 12, seed, card)[1].tolist() for seed in (3, 4))
    assert rows.tolist() == again != other
    left, none = set_aside(pu, 0, 3, card)
    assert (len(none), left.is_positive.sum()) == (0, 30)
    assert max(set_aside(clicked(n_positive=100), 60, 0, card)[1]) < 95, "a positive of an audit is not held out"


@pytest.mark.parametrize(("n", "word"), [(26, "would leave 4"), (40, "would leave 0"), (-1, "-1 held-out")])
def test_a_number_that_leaves_too_few_is_refused(n: int, word: str) -> None:
    with pytest.raises(TrainingError, match=word) as caught:
        set_aside(clicked(), n, 0, catalog.card("ncpu"))
    set_aside(clicked(), 25, 0, catalog.card("ncpu"))
    assert "25 at most" in caught.value.hint


@pytest.fixture
def layout(chipped: Layout) -> Layout:
    """Twelve positives in all."""
    click(chipped, *(f"b{i}" for i in range(6, 12)))
    return chipped


def test_a_run_keeps_its_held_out_clicks_its_judgement_and_its_curve(layout: Layout) -> None:
    job = job_of(layout, "held")
    run_id = str(train_job.train(job, **NCPU, hold_out=4)["run_id"])
    facts, rows = facts_of(layout, run_id), runs.array(layout, run_id, "held_out")
    assert (len(rows), rows.dtype, facts.n_positive, facts.n_unlabeled) == (4, np.int64, 8, 8)
    scores, judged = array_of(layout, run_id), facts.judgement
    assert set(judged) == {"n_held_out", "recall", "share_called", "criterion", "low", "high", "threshold", "n_called"}
    assert (judged["n_held_out"], judged["criterion"]) == (4, None)
    assert judged["recall"] == (scores[rows] >= facts.threshold).mean()
    manifest = json.loads((layout.run(run_id) / "manifest.json").read_text())
    assert {"held_out.npy", "curve.json"} <= set(manifest["sha256"])
    curve = json.loads((layout.run(run_id) / "curve.json").read_text())
    assert [report["epoch"] for report in curve] == list(range(1, 25))
    looked = [report for report in curve if "look" in report]
    assert looked
    for report in looked:
        picture = job.folder / "looks" / report["look"]
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.name == f"training-{report['epoch']:04d}.png"
        assert 0 <= report["share_called"] <= 1
        assert report["n_held_out"] == 4
        assert "criterion" not in report


def test_a_run_is_the_one_that_never_saw_its_held_out_clicks(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    anchors: list[set[int]] = []
    plain = train_job.pupl.pupl

    def seen(embeddings: Any, is_positive: Any, **values: Any) -> Any:
        anchors.append(set(np.flatnonzero(is_positive).tolist()))
        return plain(embeddings, is_positive, **values)

    monkeypatch.setattr(train_job.pupl, "pupl", seen)
    run_id = str(train_job.train(job_of(layout, "held"), **NNPU, hold_out=4)["run_id"])
    rows = runs.array(layout, run_id, "held_out").tolist()
    assert anchors == [set(range(12)) - set(rows)]
    click(layout, *(f"b{row}" for row in rows), label="not_assessable")
    other = str(train_job.train(job_of(layout, "never"), **NNPU)["run_id"])
    held, never = facts_of(layout, run_id), facts_of(layout, other)
    assert held.start_k == never.start_k is not None
    assert never.judgement is None
    assert not (layout.run(other) / "held_out.npy").exists()
    assert (held.n_positive, held.n_unlabeled, held.threshold) == (never.n_positive, never.n_unlabeled, never.threshold)
    for name in ("model.safetensors", "scores.npy", "clusters.npy"):
        assert (layout.run(run_id) / name).read_bytes() == (layout.run(other) / name).read_bytes(), name


class Ordered:
    """Stands for a model that scores chips by their first feature."""

    def score(self, inputs: Any, is_missing: Any = None) -> Any:
        return np.asarray(inputs[0, :, 0], np.float32)

    def embed(self, inputs: Any, is_missing: Any = None) -> Any:
        return np.tile(np.array([1, 0], np.float32), (len(inputs), 1))


EARLY, LATE = ({"stage": "training", "epoch": epoch, "epochs": 10} for epoch in (1, 10))


def watched(layout: Layout, inputs: RunInputs, start_k: int, score_type: str = "pu_probability") -> Any:
    """Return a monitor of the job "look"."""
    data = PUData(FeatureViews(inputs.views), inputs.pu.is_positive, inputs.pu.is_excluded)
    return TrainingMonitor(job_of(layout, "look"), inputs, data, start_k=start_k, score_type=score_type)


def test_a_look_sees_held_out_clicks_alarms_and_the_right_chips(chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(
        "pu_geo.runs.monitor_job.contact_sheet", lambda *rows: shown.extend(rows) or np.zeros((2, 2, 3), np.uint8)
    )
    chips = np.load(chipped.chips("set"))
    values = np.linspace(0, 1, 20).astype(np.float16)
    nothing = np.zeros(20, np.bool_)
    pu = PUSet([f"b{i}" for i in range(20)], nothing, nothing, np.arange(20) < 10, 1)
    inputs = RunInputs("set", np.repeat(values[None, :, None], 2, axis=0), pu, held_out=np.arange(10))
    watch = watched(chipped, inputs, 5)
    early, late = watch(Ordered(), EARLY), watch(Ordered(), LATE)
    assert "alarms" not in early
    assert {alarm["name"] for alarm in late["alarms"]} >= {"calls_all", "embeddings"}
    assert (late["share_called"], late["spread"], late["recall"], late["n_held_out"]) == (1.0, 0.0, 0.0, 10)
    np.testing.assert_array_equal(shown[0], chips[[19, 18, 17, 16, 15]])
    np.testing.assert_array_equal(shown[1], chips[[10, 11, 12, 13, 14]])
    names = [path.name for path in sorted((chipped.jobs / "look" / "looks").iterdir())]
    assert names == ["training-0001.png", "training-0010.png"]
    no_numbers = replace(inputs, views=np.full((1, 20, 3), np.nan, np.float16), held_out=np.arange(0))
    assert watched(chipped, no_numbers, 2, "linear")(Ordered(), LATE) == {}


@pytest.fixture
def partly_audited(project: Layout) -> Layout:
    """Fifteen clicks, an answer of an audit alone, one building that a person and one that the imagery hides; b16, b19 open."""
    layout = with_chips(project, is_clicked=False)
    facts = json.loads(layout.chip_facts("set").read_text())
    write_json(layout.chip_facts("set"), {**facts, "nodata_share": [0.0] * 18 + [0.9, 0.0]})
    click(layout, *(f"b{i}" for i in range(15)))
    click(layout, "b15", shown="audit", inclusion=0.5)
    click(layout, "b17", label="not_assessable")
    return layout


def test_the_run_the_live_look_and_a_comparison_judge_it_alike(partly_audited: Layout) -> None:
    layout = partly_audited
    inputs = read_inputs(layout)
    assert np.flatnonzero(inputs.pu.is_excluded).tolist() == [15, 17, 18]
    pu, held_out = set_aside(inputs.pu, 10, 0, catalog.card("ncpu"))
    views = np.linspace(1, 0, 20).astype(np.float16)[None, :, None]
    scores, embeddings = views[0, :, 0].astype(np.float32), np.eye(20, dtype=np.float32)
    inputs = replace(inputs, pu=pu, held_out=held_out, views=views)
    assert unlabeled_to_judge(layout, inputs).tolist() == [15, 16, 19]
    live = watched(layout, inputs, 1)(Ordered(), EARLY)
    facts = inputs.facts("ncpu", "quick", "pu_probability", first_threshold(scores[inputs.is_unlabeled], 1))
    arrays = {"scores": scores, "embeddings": embeddings}
    one, two = (str(finish(job_of(layout, name), inputs, 0.0, facts, arrays)["run_id"]) for name in ("one", "two"))
    judged = facts_of(layout, one).judgement
    assert (judged["n_held_out"], judged["recall"]) == (10, 1.0)
    assert judged["share_called"] == pytest.approx(2 / 3)  # b15, which an audit alone answered, and b16
    compared = comparing.compare(layout, one, two).sides[0].judgement
    assert compared.as_mapping() == judged
    told = [live[name] for name in ("recall", "criterion", "criterion_low", "criterion_high")]
    assert told == pytest.approx([judged[name] for name in ("recall", "criterion", "low", "high")], abs=1e-5)


def gray_chips(values: list[int]) -> np.ndarray:
    """Chips of one gray each, but for the blue of pre; the post bands are 50 brighter."""
    made = np.array(values, np.uint8)[:, None, None, None] * np.ones((1, 6, 16, 16), np.uint8)
    made[:, 3:] += 50
    made[:, 2] = 7
    return made.astype(np.uint8)


def test_top_is_above_bottom_and_pre_above_post() -> None:
    picture = contact_sheet(gray_chips([10, 20, 30]), gray_chips([110, 120]))
    assert picture.shape == (1 + 2 * (18 + 32), 3 * 16 + 2 * 2, 3)
    row = 1 + 18  # below the first title
    assert [int(picture[row + 8, 8 + 18 * i, 0]) for i in range(3)] == [10, 20, 30]
    assert [int(picture[row + 24, 8 + 18 * i, 0]) for i in range(3)] == [60, 70, 80]
    row += 32 + 18
    assert [int(picture[row + 8, 8 + 18 * i, 0]) for i in range(3)] == [110, 120, 255]
    assert int(picture[row + 24, 8, 0]) == 160
    assert picture[1:19].min() < 128, "no title"
    assert picture[1 + 18 + 8, 8].tolist() == [10, 10, 7]
    back = cv2.imdecode(np.frombuffer(png_of(picture), np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(back[..., ::-1], picture)
