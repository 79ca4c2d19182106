"""Evidence from place in the product: in a run's scores, kept without it beside them, shown, and never in an audit's design."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_parts import WKT_UTM15, add_chips, click, facts_of, job_of, small_grid, small_project, small_scene, square_table

from pu_geo.analysis import metrics, place
from pu_geo.analysis.audit import design
from pu_geo.features import rcf
from pu_geo.geo.vector.crs import LOCAL
from pu_geo.methods import catalog, fitting
from pu_geo.methods.cards.propagation import NEIGHBORS
from pu_geo.methods.estimators import PropagatedRanking
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import Grid
from pu_geo.services.damage_map import auditing, random_audits
from pu_geo.services.project.copying import copy_project
from pu_geo.services.train import models, run_card, training
from pu_geo.tasks.damage_map.publish import publish
from pu_geo.tasks.train.apply_model import apply_model
from pu_geo.tasks.train.ensemble import ensemble
from pu_geo.tasks.train.import_run import import_run
from pu_geo.tasks.train.inputs import places
from pu_geo.tasks.train.train import train
from pu_geo.training.data import FeatureViews, PUData

pytestmark = pytest.mark.slow
N, CLICKS = 160, tuple(f"b{row}" for row in range(52, 92, 4))
TRUTH = (np.arange(N) >= 50) & (np.arange(N) < 100)  # one stretch of a street


def features_of(seed: int = 0) -> NDArray[np.float16]:
    """Three views of features in which damage shows somewhat."""
    draw = np.random.default_rng(seed)
    plain = draw.normal(size=(N, 8)) + 1.2 * TRUTH[:, None] * (np.arange(8) < 3)
    views: NDArray[np.float16] = np.exp(0.4 * (plain + 0.1 * draw.normal(size=(3, N, 8)))).astype(np.float16)
    return views


def street(folder: Path, grid: Grid | None = None) -> Layout:
    """A project of buildings 16 m apart in one row, ten of them clicked."""
    import torch

    layout = small_project(folder, N)
    if grid is not None:
        with store.connect(layout) as db:
            contents.add_scenes(db, [small_scene("pre")], grid)
    bank = rcf.RcfBank.fit(np.zeros((4, 3, 16, 16), np.uint8), torch.Generator(), rcf.RcfSettings(n_filters=4))
    add_chips(layout, [f"b{row}" for row in range(N)], chips=np.zeros((N, 3, 16, 16), np.uint8), features=features_of())
    np.savez(layout.filters("set"), allow_pickle=False, **bank.state())
    click(layout, *CLICKS)
    return layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return street(tmp_path / "street.pugeo")


def trained(layout: Layout, neighbors: str = "on", name: str = "") -> str:
    job = job_of(layout, name or f"train-{neighbors}")
    overrides = {"neighbors": neighbors} if neighbors else {}
    return str(train(job, method="propagation", preset="quick", overrides=overrides)["run_id"])


def array(layout: Layout, run_id: str, name: str = "scores") -> NDArray[np.float32]:
    return np.asarray(runs.array(layout, run_id, name), np.float32)


def place_of(layout: Layout, run_id: str = "latest") -> Mapping[str, Any]:
    found = facts_of(layout, run_id).place
    assert found is not None
    return found


def test_neighbors_count_and_the_scores_without_them_are_kept(layout: Layout) -> None:
    on, off = trained(layout, "on"), trained(layout, "off")
    found = place_of(layout, on)
    assert found["used"] is True
    assert 0.3 < found["weight"] <= found["b"] <= 1
    np.testing.assert_array_equal(array(layout, on, "scores_alone"), array(layout, off))
    np.testing.assert_array_equal(runs.scores_alone(layout, on), array(layout, off))
    scores, alone, hidden = array(layout, on), array(layout, off), np.array([f"b{row}" not in CLICKS for row in range(N)])
    assert ((scores >= 0) & (scores <= 1)).all()
    ap, before = (metrics.average_precision(each[hidden], TRUTH[hidden]) for each in (scores, alone))
    assert ap > before + 0.05
    pairs = ((scores, on), (alone, off))
    n_flagged = [int((runs.written(each)[hidden] >= facts_of(layout, run_id).threshold).sum()) for each, run_id in pairs]
    assert abs(n_flagged[0] - n_flagged[1]) <= 1  # as many, but for 4 decimals
    manifest = json.loads((layout.run(on) / "manifest.json").read_text())
    assert "scores_alone.npy" in manifest["sha256"]
    assert manifest["facts"]["place"] == found


def test_off_is_off_and_the_default_is_one_constant(layout: Layout) -> None:
    assert catalog.settings_for("propagation", "quick").neighbors == NEIGHBORS
    run_id = trained(layout, "off")
    assert place_of(layout, run_id) == place.unused("it is switched off")
    assert not (layout.run(run_id) / "scores_alone.npy").exists()
    np.testing.assert_array_equal(runs.scores_alone(layout, run_id), array(layout, run_id))


def test_it_is_shown_and_reported(layout: Layout) -> None:
    run_id = trained(layout)
    words = f"Neighbors count: {place_of(layout)['weight']:.2g}"
    assert training.place_words(facts_of(layout)) == f"{words} (1 would be as much as the building itself)"
    assert words in run_card.as_markdown(run_card.card(layout, run_id))
    folder = Path(str(publish(job_of(layout, "publish"), run_id=run_id, formats=["geojson"], threshold=0.5)["out"]))
    assert words in (folder / "report.html").read_text()
    assert json.loads((folder / "damage_map.run.json").read_text())["evidence_from_place"] == place_of(layout)
    trained(layout, "off")
    assert "Neighbors do not count here: it is switched off" in run_card.as_html(run_card.card(layout, "latest"))


def test_the_model_is_without_it(layout: Layout, tmp_path: Path) -> None:
    on, off = trained(layout, "on"), trained(layout, "off")
    cards = [json.loads((layout.run(run_id) / "model.json").read_text()) for run_id in (on, off)]
    assert "place" not in cards[0]
    assert cards[0]["threshold"] == cards[1]["threshold"] == facts_of(layout, off).threshold
    assert cards[0]["sha256"] == cards[1]["sha256"]
    path = str(models.export(layout, on, str(tmp_path / "m.zip"))["out"])
    with np.errstate(all="ignore"):
        applied = str(apply_model(job_of(layout, "apply"), path=path)["run_id"])
    assert place_of(layout, applied) == place.unused("a model from elsewhere scores buildings one by one")


def test_a_run_of_a_copy_comes_without_it(layout: Layout) -> None:
    other = Layout(Path(str(copy_project(layout, str(layout.folder.with_name("copy.pugeo")))["out"])))
    run_id = trained(other)
    assert place_of(other)["used"]
    assert import_run(job_of(layout, "came"), folder=str(other.folder), run_id=run_id)["run_id"] == run_id
    np.testing.assert_array_equal(array(layout, run_id), array(other, run_id, "scores_alone"))
    assert place_of(layout) == place.unused("an imported run has the scores of its model alone")
    assert not (layout.run(run_id) / "scores_alone.npy").exists()


def test_an_average_keeps_both(layout: Layout) -> None:
    on, off = trained(layout, "on"), trained(layout, "off")
    run_id = str(ensemble(job_of(layout, "average"), run_ids=[on, off])["run_id"])
    found = place_of(layout, run_id)
    assert found["used"]
    assert found["weight"] == pytest.approx(place_of(layout, on)["weight"] / 2, abs=1e-4)
    assert np.abs(array(layout, run_id) - array(layout, run_id, "scores_alone")).max() > 0.01
    order = [np.argsort(array(layout, run_id, "scores_alone")), np.argsort(array(layout, off))]
    np.testing.assert_array_equal(*order)
    again = str(ensemble(job_of(layout, "again"), run_ids=[off, trained(layout, "off", "third")])["run_id"])
    assert facts_of(layout, again).place is None


def test_an_audit_is_designed_by_the_scores_without_it(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_audits, "_seed", lambda: 3)
    run_id = trained(layout)
    is_known = np.array([f"b{row}" in CLICKS for row in range(N)])
    alone, shown = (
        design.design(array(layout, run_id, name).astype(np.float64), is_known, n=40, seed=3)
        for name in ("scores_alone", "scores")
    )
    sample = random_audits.begin_audit(layout, run_id, 40, "ann").sample
    np.testing.assert_array_equal(sample.rows, alone.rows)
    np.testing.assert_array_equal(sample.stratum, alone.stratum)
    assert not np.array_equal(sample.rows, shown.rows)


def test_the_size_of_an_audit_follows_the_scores_that_draw_it(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NDArray[np.float64]] = []
    monkeypatch.setattr(auditing.audit, "size_for", lambda scores, *_, **how: seen.append(scores) or 7)
    run_id = trained(layout)
    assert auditing.suggested_size(layout, run_id) == 7
    np.testing.assert_array_equal(seen[0], array(layout, run_id, "scores_alone"))


def test_without_places_it_says_why(tmp_path: Path) -> None:
    local = replace(small_grid(), crs=LOCAL, crs_wkt=LOCAL)
    layout = street(tmp_path / "local.pugeo", local)
    assert places(layout, CLICKS) == (None, "this project has no place on the Earth")
    assert place_of(layout, trained(layout)) == place.unused("this project has no place on the Earth")


def test_buildings_that_are_gone_switch_it_off(layout: Layout) -> None:
    xy_m, why = places(layout, ["b0", "gone", "b3", "lost"])
    assert (xy_m, why) == (None, "2 of 4 buildings have no footprint any more")


def test_places_are_metres_also_in_degrees(tmp_path: Path) -> None:
    table = square_table(3)
    layout = small_project(tmp_path / "utm.pugeo", table=table)
    xy_m, why = places(layout, ["b2", "b0"])
    assert why == ""
    np.testing.assert_allclose(xy_m, [[500_036, 4_000_004], [500_004, 4_000_004]])
    with store.connect(layout) as db:
        degrees = Grid("EPSG:4326", WKT_UTM15, (1e-5, 0, -93, 0, -1e-5, 36), 9, 9, 1.0, x_unit_m=90_000, y_unit_m=111_000)
        contents.add_scenes(db, [small_scene("pre")], degrees)
    np.testing.assert_allclose(places(layout, ["b1"])[0], [[500_020 * 90_000.0, 4_000_004 * 111_000.0]])


def test_the_estimator_gives_the_scores_of_the_run(layout: Layout) -> None:
    run_id = trained(layout)
    X, y = features_of(), np.array([f"b{row}" in CLICKS for row in range(N)])
    with store.connect(layout) as db:
        positions = contents.centers_m(db, [f"b{row}" for row in range(N)])
    model = PropagatedRanking(neighbors="on", device="cpu").fit(X, y, positions=positions)
    np.testing.assert_array_equal(model.scores_, array(layout, run_id))
    np.testing.assert_array_equal(model.decision_function(X), array(layout, run_id, "scores_alone"))
    threshold = model.place_.pop("threshold")
    assert model.place_ == place_of(layout, run_id)
    assert round(threshold, 4) == facts_of(layout, run_id).threshold
    assert model.threshold_ != threshold
    again = PropagatedRanking(neighbors="on", device="cpu").fit(X, y)
    assert again.place_["why_not"] == "no positions were given"
    np.testing.assert_array_equal(again.scores_, again.decision_function(X))


def test_clicks_alone_decide_nothing_without_scores_of_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, plain = street(tmp_path / "street.pugeo"), catalog.load_fit
    monkeypatch.setattr(
        fitting.catalog, "load_fit", lambda method: lambda *args: replace(plain(method)(*args), held_out_scores=())
    )
    assert place_of(layout, trained(layout))["why_not"] == "there are too few clicks to try it on held-out ones"


def test_left_out_and_labeled_chips_are_no_neighbors() -> None:
    known = np.array([1, 0, -1, -1, -1])
    data = PUData(FeatureViews(np.zeros((1, 5, 2))), known == 1, np.arange(5) == 4, known.astype(np.int64))
    assert data.is_unlabeled.tolist() == [False, False, True, True, False]


def test_an_older_run_knows_nothing_of_it(layout: Layout) -> None:
    run_id = trained(layout, "off")
    with store.connect(layout) as db:
        row = json.loads(db.execute("SELECT facts FROM run").fetchone()[0])
        del row["place"]
        db.execute("UPDATE run SET facts = ?", (json.dumps(row),))
    assert facts_of(layout, run_id).place is None
    assert "Evidence from place" not in run_card.as_markdown(run_card.card(layout, run_id))
