"""The job that makes another set of features: of layers, of networks, of shared filters; and models that carry them elsewhere."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from cli_parts import CommandLine
from feature_parts import D, TinyMaker, made, request_of, tiny_maker, weights_file
from layered_chip_parts import EVERY, layer_request, layer_set, with_layers
from model_parts import parts, with_chips
from safetensors.numpy import load, save, save_file
from small_parts import add_chips, facts_of, job_of, small_project, table_of

from pu_geo.errors import JobCancelled, ModelError, ProjectError, PuGeoError
from pu_geo.features.bank import fingerprint
from pu_geo.features.shared import SharedBank
from pu_geo.maps import run_card
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.runs import train_job as train_task
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.scenes import features_job as task
from pu_geo.scenes import layers
from pu_geo.scenes.features import words_of
from pu_geo.scenes.features_job import features, footprint_masks, maker_in, settle
from pu_geo.store import chosen, feature_sets, runs, store
from pu_geo.store.contents import chip_facts
from pu_geo.store.layout import Layout, write_array, write_json
from pu_geo.training import model_files

__all__ = ["tiny_maker"]
pytestmark = pytest.mark.usefixtures("tiny_maker", "home")


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


def test_a_set_is_made_and_found_again_at_once(chipped: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = weights_file(tmp_path)
    found = features(job_of(chipped), request=request_of(path, licence="CC BY 4.0"))
    name = str(found["name"])
    assert {key: found[key] for key in ("n", "n_features", "n_views", "was_there", "in_use")} == {
        "n": 20, "n_features": D, "n_views": 3, "was_there": False, "in_use": "rcf",
    }  # fmt: skip
    stored = feature_sets.find(chipped, "set", name)
    assert (stored.maker["weights_file"], stored.licence) == ("tiny.safetensors", "CC BY 4.0")
    maker = task.maker_in(chipped, "set", name)
    assert isinstance(maker, TinyMaker)
    rebuilt = maker.transform(np.load(chipped.chips("set")), 3, seed=0, device=torch.device("cpu"))
    np.testing.assert_array_equal(rebuilt, feature_sets.views(chipped, "set", name))
    assert task.maker_in(chipped, "set", "backbone-00000000") is None
    monkeypatch.setattr(task, "fit_maker", None)  # nothing is made again
    moved = path.rename(tmp_path / "other.safetensors")
    again = features(job_of(chipped), request=request_of(moved), use=True)
    assert (again["name"], again["was_there"], again["in_use"]) == (name, True, name)
    assert feature_sets.find(chipped, "set", name) == stored
    features(job_of(chipped), request=request_of(moved, licence="MIT"))
    assert feature_sets.find(chipped, "set", name).licence == "MIT"


def test_footprint_pooling_gets_the_outline_in_the_pixels_of_the_chip(tmp_path: Path) -> None:
    """A chip covers the footprint and half its longer side on each side of it: an 8 m square fills the middle half.

    An edge between two pixels counts as both, so a mask has a row and a column more.
    """
    square, wide = shapely.box(500_000, 4_000_000, 500_008, 4_000_008), shapely.box(500_100, 4_000_000, 500_116, 4_000_008)
    layout = small_project(tmp_path / "p.pugeo", table=table_of([square, wide], ["a", "w"]))
    chips = np.full((2, 6, 16, 16), 50, np.uint8)
    chips[:, :, 4:13, 4:13] = 150
    add_chips(layout, ["a", "w"], bands="pre+post", chips=chips, features=np.zeros((1, 2, 4), np.float16))
    expected = np.zeros((16, 16), np.bool_)
    expected[4:13, 4:13] = True
    masks = footprint_masks(layout, "set")
    np.testing.assert_array_equal(masks[0], expected)
    # 32 x 16 px of the grid with 16 px around it: a window of 64 x 48 px, of which columns 16..48 and rows 16..32 are covered
    columns, rows = np.flatnonzero(masks[1].any(0)), np.flatnonzero(masks[1].any(1))
    assert (columns.min(), columns.max() + 1) == (4, 13)
    assert (rows.min(), rows.max() + 1) == (5, 11)
    name = made(layout, weights_file(tmp_path), pool="footprint")
    spread = feature_sets.views(layout, "set", name)[0, 0]
    only_bright = np.concatenate([np.full(6, 1.5), np.zeros(6)]) @ np.random.default_rng(0).normal(size=(12, D))
    np.testing.assert_allclose(spread, only_bright, rtol=5e-3, atol=5e-3)


def test_a_job_that_is_cancelled_or_killed_leaves_nothing_and_a_set_keeps_no_paths(chipped: Layout, tmp_path: Path) -> None:
    job = job_of(chipped)
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        features(job, request=request_of(weights_file(tmp_path)), use=True)
    assert [one.name for one in feature_sets.all_sets(chipped, "set")] == ["rcf"]
    assert not list((chipped.folder / "chips").glob("*backbone*"))
    left = chipped.folder / "chips" / ".set.backbone-00000000.features.npy.0123456789abcdef.part"
    left.touch()
    name = made(chipped, weights_file(tmp_path))
    assert not left.exists()
    assert str(tmp_path) not in chipped.feature_facts("set", name).read_text()


def test_mistakes_end_in_words(chipped: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PuGeoError, match=r"gone\.safetensors is not there"):
        made(chipped, tmp_path / "gone.safetensors")
    folder = {"backbone": str(tmp_path)}
    with pytest.raises(PuGeoError, match=r"lacks config\.json"):
        features(job_of(chipped), request={**request_of(tmp_path), **folder})
    with pytest.raises(PuGeoError, match="have no weights and no settings"):
        features(job_of(chipped), request={"maker": "rcf", "pool": "cls"})
    save_file({"weight": np.full((12, D), np.inf, np.float32)}, tmp_path / "odd.safetensors")
    with np.errstate(all="ignore"), pytest.raises(PuGeoError, match="no finite numbers"):
        made(chipped, tmp_path / "odd.safetensors")
    assert not list((chipped.folder / "chips").glob("*backbone*"))
    with monkeypatch.context() as full:
        full.setattr(task.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
        with pytest.raises(PuGeoError, match=r"0\.0 GB are free"):
            made(chipped, weights_file(tmp_path))
    assert features(job_of(chipped), request={"maker": "rcf"})["was_there"] is True
    chipped.features("set").unlink()
    with pytest.raises(PuGeoError, match="'rcf' of the chips set are gone"):
        features(job_of(chipped), request={"maker": "rcf"})
    with store.connect(chipped) as db, store.transaction(db):
        db.execute("DELETE FROM footprints WHERE building_id = 'b3'")
    with pytest.raises(PuGeoError, match="footprints that are gone, such as 'b3'"):
        made(chipped, weights_file(tmp_path), pool="footprint")
    with pytest.raises(ProjectError, match="no chips yet"):
        made(small_project(tmp_path / "bare.pugeo"), weights_file(tmp_path))


def test_matched_sensors_stay_above_zero_where_features_do() -> None:
    """Means of cut-off responses are never below 0, unlike what networks give."""
    roots = np.concatenate([np.repeat([0.0, 2.0], 15)[:, None], np.random.default_rng(0).normal(10, 1, (30, 1))])
    views = np.square(roots)[None].astype(np.float16)
    facts = {"sensor_group": np.repeat([0, 1], 30).tolist()}
    settle(views, SharedBank.of("both"), facts, np.ones(60, np.bool_))
    assert views[0, 30:].max() < 20
    assert views.min() == 0


def test_layers_that_nobody_names_are_both_dates_and_each_layer(project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    name = layer_set(project)
    found = feature_sets.find(project, "set", name)
    assert [view.name for view in feature_sets.views_of(found.maker)] == list(EVERY)
    assert layer_set(project, *EVERY) == name  # the same layers, named
    assert features(job_of(project), request=layer_request(*EVERY))["was_there"]
    assert layer_set(project, "pre+post", "sar-post") != name
    # other makers take pre and post alone
    with pytest.raises(PuGeoError, match="takes the optical bands alone"):
        features(job_of(project), request={**layer_request("sar-post"), "maker": "self-supervised"})
    request = request_of(weights_file(tmp_path))  # a maker that has weights for 6 bands, and no more
    name = str(features(job_of(project), request=request)["name"])
    assert feature_sets.find(project, "set", name).maker["kind"] == "backbone"


def test_missing_layers_hold_the_mean_of_the_buildings_that_have_them(project: Layout) -> None:
    _, lacks = with_layers(project)
    name = layer_set(project)
    views = feature_sets.views(project, "set", name).astype(np.float32)
    np.testing.assert_array_equal(views[:, :, :512], feature_sets.views(project, "set"))  # pre+post is the set rcf
    assert 0 < lacks.sum() < 20
    for view in views:
        expected = np.tile(np.sqrt(view[~lacks, 512:1024]).mean(0) ** 2, (lacks.sum(), 1))
        np.testing.assert_allclose(view[lacks, 512:1024], expected, rtol=2e-3, atol=1e-4)
        assert (view[~lacks, 512:1024].std(0) > 0).any()
    maker, facts = feature_sets.find(project, "set", name).maker, chip_facts(project, "set")
    found = feature_sets.is_missing(maker, facts)
    np.testing.assert_array_equal(found, [np.zeros(20, np.bool_), lacks, np.zeros(20, np.bool_)])
    assert feature_sets.is_missing({"kind": "rcf"}, facts) is None


def test_sensor_groups_are_matched_in_optical_columns_alone(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with_layers(project)
    matched: list[tuple[int, ...]] = []
    monkeypatch.setattr("pu_geo.analysis.sensors.match_groups", lambda views, *_, **__: matched.append(views.shape))
    facts = dict(chip_facts(project, "set"))
    write_json(project.chip_facts("set"), {**facts, "sensor_group": [0] * 20})
    layer_set(project, *EVERY, "post")
    assert matched == [(3, 20, 512), (3, 20, 512)]  # pre+post, post


@pytest.mark.slow
def test_buildings_with_none_of_the_layers_are_not_assessed(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    _, lacks = with_layers(project, seed=4, missing=0.25)
    made = run.json("add-features", project.folder, "layers", "--layers", "sar-post", "--views", 3, "--use")
    assert f"{lacks.sum()} in sar-post. {lacks.sum()} have none of the layers" in made["layers_lacking"]
    gone = {f"b{row}" for row in np.flatnonzero(lacks)}
    facts = facts_of(project, run.json("rank", project.folder)["run_id"])
    assert facts.n_hidden == lacks.sum()
    assert facts.n_positive + facts.n_unlabeled == 20 - lacks.sum()
    assert dict.fromkeys(gone, "no_layer") == chosen.reasons_of(project, facts) == runs.reasons_by_chips(project, facts)
    path, trained_run = tmp_path / "m.pugeo-model.zip", run.json("train", project.folder)["run_id"]
    run.text("model", "export", project.folder, trained_run, "--out", path)
    applied = facts_of(project, run.json("model", "apply", project.folder, path)["run_id"])
    assert applied.n_hidden == lacks.sum()
    for one in (facts_of(project, trained_run), applied):
        assert set(chosen.reasons_of(project, one) or {}) == gone
    half = layers.in_chips(chip_facts(project, "set"), layers.learned_views(facts))[0]
    assert half["n_without_any"] == half["n_missing"] == lacks.sum()
    # one that another of the run's layers shows is ranked
    both = replace(facts, views=("pre+post", "sar-post"))
    assert not feature_sets.without_layers(both, chip_facts(project, "set")).any()


@pytest.mark.slow
def test_layers_may_come_in_another_order(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    _, lacks = with_layers(project)
    made = run.json("add-features", project.folder, "layers", "--layers", "pre+post, sar-post", "--views", 3, "--use")
    assert f"{lacks.sum()} in sar-post" in made["layers_lacking"]
    run_id = run.json("train", project.folder)["run_id"]
    assert made["layers_lacking"] in facts_of(project, run_id).warnings
    path = tmp_path / "m.pugeo-model.zip"
    run.text("model", "export", project.folder, run_id, "--out", path)

    other = small_project(tmp_path / "other.pugeo", 20, "Other")
    with_layers(other)
    of_set = dict(chip_facts(other, "set"))
    write_array(other.chips("set"), np.load(other.chips("set"))[:, [0, 1, 2, 3, 4, 5, 8, 6, 7]])
    pre, post, sar, height = of_set["views"]
    swapped = [pre, post, {**height, "start": 6, "stop": 7}, {**sar, "start": 7, "stop": 9}]
    write_json(other.chip_facts("set"), {**of_set, "views": swapped})
    applied = run.json("model", "apply", other.folder, path)["run_id"]
    np.testing.assert_array_equal(runs.array(other, applied, "scores"), runs.array(project, run_id, "scores"))
    facts = facts_of(other, applied)
    assert made["layers_lacking"] in facts.warnings
    assert words_of("x", facts.feature_maker).startswith("x: layers pre+post and sar-post; random convolutions")
    without = with_chips(small_project(tmp_path / "without.pugeo", 20, "Without"))
    assert "takes the layer sar-post with 2 bands" in run.refused("model", "apply", without.folder, path)


# Of networks


@pytest.fixture
def other(tmp_path: Path) -> Layout:
    """Another project of 20 buildings, whose imagery is darker and flatter."""
    found = with_chips(small_project(tmp_path / "other.pugeo", 20, "Other"), seed=1)
    np.save(found.chips("set"), np.load(found.chips("set")) // 3 + 5)
    return found


def shared_set(layout: Layout) -> str:
    request = {"maker": "shared", "dates": "both", "n_views": 3}
    return str(features(job_of(layout, "features"), request=request, use=True)["name"])


def exported(layout: Layout, run_id: str, path: Path, *, has_statistics: bool = True) -> Path:
    """Write a model file as the app does, or as a training of several projects, which leaves their statistics with them."""
    card, weights = parts(layout, run_id)
    if not has_statistics:
        left = {name: array for name, array in load(weights).items() if not name.startswith("feature_maker.")}
        facts, weights = json.loads(card), save(left)
        facts["tensors"] = {name: facts["tensors"][name] for name in left}
        card = json.dumps({**facts, "sha256": hashlib.sha256(weights).hexdigest()}).encode()
    model_files.write(path, card, weights)
    return path


def applied_to(layout: Layout, path: Path) -> str:
    return str(apply_model(job_of(layout, f"apply-{path.name}"), path=str(path))["run_id"])


def scores(layout: Layout, run_id: str) -> np.ndarray:
    return np.asarray(runs.array(layout, run_id, "scores"))


def test_shared_features_carry_a_model_to_another_project(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    name = shared_set(chipped)
    assert (name, name.partition("-")[0]) == (shared_set(other), "shared")
    makers = [maker_in(layout, "set", name) for layout in (chipped, other)]
    assert all(isinstance(one, SharedBank) for one in makers)
    assert fingerprint(makers[0]) == fingerprint(makers[1])
    assert not np.array_equal(makers[0].band_mean, makers[1].band_mean)
    short = {"epochs": "2", "max_steps": "4", "batch_size": "10"}
    args = TrainingRequest("ncpu", "quick", overrides=short, feature_set=name).as_args()
    run_id = str(train_task.train(job_of(chipped, "train"), **args)["run_id"])
    assert facts_of(chipped, run_id).feature_maker["holds_imagery"] is False
    words = run_card.as_markdown(run_card.card(chipped, run_id))
    assert "made-up sample event; they hold no imagery of yours; pre and post together" in words
    kept = {key for key in load(parts(chipped, run_id)[1]) if key.startswith("feature_maker.")}
    assert kept == {"feature_maker.band_mean", "feature_maker.band_std"}
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip")
    same = with_chips(small_project(tmp_path / "same.pugeo", 20, "Same"))
    np.testing.assert_array_equal(scores(same, applied_to(same, path)), scores(chipped, run_id))
    applied = facts_of(other, applied_to(other, path))
    assert (applied.feature_set, applied.feature_maker) == (name, facts_of(chipped, run_id).feature_maker)
    # it reads chips by the statistics of its training; a model without them by those of the project
    assert any("differ in brightness" in words for words in applied.warnings)
    bare = exported(chipped, run_id, tmp_path / "bare.pugeo-model.zip", has_statistics=False)
    again = applied_to(same, bare)
    np.testing.assert_array_equal(scores(same, again), scores(chipped, run_id))  # the same chips have the same statistics
    found = facts_of(other, applied_to(other, bare))
    assert not any("differ in brightness" in words for words in found.warnings)
    card, weights = parts(chipped, run_id)
    facts = json.loads(card)
    facts["feature_maker"]["weights_sha256"] = "0" * 64
    model_files.write(tmp_path / "m.zip", json.dumps(facts).encode(), weights)
    with pytest.raises(ModelError, match="were made by other filters"):
        apply_model(job_of(other, "apply"), path=str(tmp_path / "m.zip"))
