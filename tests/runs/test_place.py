"""Evidence from place in the product: in a run's scores, kept without it beside them, shown, and never in an audit's design."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import array_of, copy_of, exported
from numpy.typing import NDArray
from small_parts import WKT_UTM15, add_chips, click, facts_of, job_of, small_grid, small_project, small_scene, square_table

from pu_geo.analysis import metrics, place
from pu_geo.analysis.audit import design
from pu_geo.assessment import random_audits
from pu_geo.features import rcf
from pu_geo.geo.vector.crs import LOCAL
from pu_geo.maps import run_card
from pu_geo.maps.publish_job import publish
from pu_geo.methods import catalog
from pu_geo.methods.cards.propagation import NEIGHBORS
from pu_geo.records import Grid
from pu_geo.runs import training
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.runs.inputs_job import places
from pu_geo.runs.train_job import train
from pu_geo.store import contents, runs, store
from pu_geo.store.layout import Layout

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
    layout = small_project(folder, N)
    if grid is not None:
        with store.connect(layout) as db:
            contents.add_scenes(db, [small_scene("pre")], grid)
    bank = rcf.RcfBank.fit(np.zeros((4, 3, 16, 16), np.uint8), torch.Generator(), rcf.RcfSettings(n_filters=2))
    add_chips(layout, [f"b{row}" for row in range(N)], chips=np.zeros((N, 3, 16, 16), np.uint8), features=features_of())
    np.savez(layout.filters("set"), allow_pickle=False, **bank.state())
    click(layout, *CLICKS)
    return layout


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str, str]:
    """A street with a run in which neighbors count, and one in which they do not; tests add other runs at most."""
    layout = street(tmp_path_factory.mktemp("place") / "street.pugeo")
    return layout, trained(layout, "on"), trained(layout, "off")


def trained(layout: Layout, neighbors: str = "on", name: str = "") -> str:
    job = job_of(layout, name or f"train-{neighbors}")
    return str(train(job, method="propagation", preset="quick", overrides={"neighbors": neighbors})["run_id"])


def place_of(layout: Layout, run_id: str = "latest") -> Mapping[str, Any]:
    found = facts_of(layout, run_id).place
    assert found is not None
    return found


def test_neighbors_count_and_the_scores_without_them_are_kept(once: tuple[Layout, str, str]) -> None:
    layout, on, off = once
    found = place_of(layout, on)
    assert found["used"] is True
    assert 0.3 < found["weight"] <= found["b"] <= 1
    scores, alone = (array_of(layout, run_id) for run_id in (on, off))
    hidden = np.array([f"b{row}" not in CLICKS for row in range(N)])
    np.testing.assert_array_equal(array_of(layout, on, "scores_alone"), alone)
    np.testing.assert_array_equal(runs.scores_alone(layout, on), alone)
    np.testing.assert_array_equal(runs.scores_alone(layout, off), alone)
    assert ((scores >= 0) & (scores <= 1)).all()
    ap, before = (metrics.average_precision(each[hidden], TRUTH[hidden]) for each in (scores, alone))
    assert ap > before + 0.05
    pairs = ((scores, on), (alone, off))
    n_flagged = [int((runs.written(each)[hidden] >= facts_of(layout, run_id).threshold).sum()) for each, run_id in pairs]
    assert abs(n_flagged[0] - n_flagged[1]) <= 1  # as many, but for 4 decimals
    manifest = json.loads((layout.run(on) / "manifest.json").read_text())
    assert "scores_alone.npy" in manifest["sha256"]
    assert manifest["facts"]["place"] == found
    assert catalog.settings_for("propagation", "quick").neighbors == NEIGHBORS
    assert place_of(layout, off) == place.unused("it is switched off")
    assert not (layout.run(off) / "scores_alone.npy").exists()


def test_it_is_shown_and_reported(once: tuple[Layout, str, str]) -> None:
    layout, on, off = once
    words = f"Neighbors count: {place_of(layout, on)['weight']:.2g}"
    assert training.place_words(facts_of(layout, on)).startswith(words)
    assert words in run_card.as_markdown(run_card.card(layout, on))
    folder = Path(str(publish(job_of(layout, "publish"), run_id=on, formats=["geojson"], threshold=0.5)["out"]))
    assert words in (folder / "report.html").read_text()
    assert json.loads((folder / "damage_map.run.json").read_text())["evidence_from_place"] == place_of(layout, on)
    evidence = facts_of(layout, on).evidence
    assert evidence is not None
    assert evidence["n_clicks"] == len(CLICKS)
    assert "Neighbors do not count here: it is switched off" in run_card.as_html(run_card.card(layout, off))


def test_the_model_is_without_it(once: tuple[Layout, str, str], tmp_path: Path) -> None:
    layout, on, off = once
    cards = [json.loads((layout.run(run_id) / "model.json").read_text()) for run_id in (on, off)]
    assert "place" not in cards[0]
    assert cards[0]["threshold"] == cards[1]["threshold"] == facts_of(layout, off).threshold
    assert cards[0]["sha256"] == cards[1]["sha256"]
    with np.errstate(all="ignore"):
        applied = str(apply_model(job_of(layout, "apply"), path=exported(layout, on, tmp_path / "m.zip"))["run_id"])
    assert place_of(layout, applied) == place.unused("a model alone scores buildings one by one")


def test_a_run_of_a_copy_comes_without_it(once: tuple[Layout, str, str]) -> None:
    layout, *_ = once
    other = copy_of(layout)
    run_id = trained(other, name="elsewhere")
    assert place_of(other)["used"]
    came = str(apply_model(job_of(layout, "came"), path=str(other.run(run_id)))["run_id"])
    assert place_of(layout, came) == place.unused("a model alone scores buildings one by one")
    assert facts_of(layout, came).from_model is None


def test_an_audit_and_its_size_are_designed_by_the_scores_without_it(
    once: tuple[Layout, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, on, _ = once
    monkeypatch.setattr(random_audits, "_seed", lambda: 3)
    is_known = np.array([f"b{row}" in CLICKS for row in range(N)])
    alone, shown = (
        design.design(array_of(layout, on, name).astype(np.float64), is_known, n=40, seed=3)
        for name in ("scores_alone", "scores")
    )
    sample = random_audits.begin_audit(copy_of(layout, "audited"), on, 40, "ann").sample
    np.testing.assert_array_equal(sample.rows, alone.rows)
    np.testing.assert_array_equal(sample.stratum, alone.stratum)
    assert not np.array_equal(sample.rows, shown.rows)


def test_places_are_metres_also_in_degrees_and_else_it_says_why(tmp_path: Path) -> None:
    layout = small_project(tmp_path / "utm.pugeo", table=square_table(3))
    xy_m, why = places(layout, ["b2", "b0"])
    assert why == ""
    np.testing.assert_allclose(xy_m, [[500_036, 4_000_004], [500_004, 4_000_004]])
    gone = places(layout, ["b0", "gone", "b2", "lost"])
    assert gone == (None, "2 of 4 buildings have no footprint any more")
    with store.connect(layout) as db:
        degrees = Grid("EPSG:4326", WKT_UTM15, (1e-5, 0, -93, 0, -1e-5, 36), 9, 9, 1.0, x_unit_m=90_000, y_unit_m=111_000)
        contents.add_scenes(db, [small_scene("pre")], degrees)
    np.testing.assert_allclose(places(layout, ["b1"])[0], [[500_020 * 90_000.0, 4_000_004 * 111_000.0]])
    local = street(tmp_path / "local.pugeo", replace(small_grid(), crs=LOCAL, crs_wkt=LOCAL))
    assert places(local, CLICKS) == (None, "this project has no place on the Earth")
    assert place_of(local, trained(local)) == place.unused("this project has no place on the Earth")
