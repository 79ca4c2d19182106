"""Runs, models, live ranking and pictures on a second set of features."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from feature_parts import D, TinyMaker, made, weights_file
from layered_chip_parts import layer_set, with_layers
from model_parts import SHORT, array_of, copy_of, exported, job_of, parts, with_chips
from safetensors.numpy import load, save
from small_parts import add_chips, facts_of, small_project

from pu_geo import Project
from pu_geo.answers import ranking
from pu_geo.errors import ModelError, ProjectError, TrainingError
from pu_geo.explore.discover_job import discover
from pu_geo.features import bank
from pu_geo.lifecycle import removing
from pu_geo.maps import run_card
from pu_geo.maps.actions import Publish
from pu_geo.maps.publish_job import publish
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.runs import models, training
from pu_geo.runs import train_job as train_task
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.runs.inputs_job import read_inputs
from pu_geo.runs.restored_model_job import restore
from pu_geo.scenes import features
from pu_geo.store import run_names
from pu_geo.store.layout import Layout, write_array
from pu_geo.training import model_files

pytestmark = pytest.mark.slow
LICENCE = "CC BY-NC 4.0"
FEW = {name: SHORT[name] for name in ("epochs", "batch_size", "max_steps")}


@pytest.fixture(scope="module", autouse=True)
def tiny_maker() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bank.MAKERS, "backbone", TinyMaker)
        yield


@pytest.fixture
def second(chipped: Layout, tmp_path: Path) -> str:
    """The name of a second set, which is there and not chosen."""
    return made(chipped, weights_file(tmp_path), licence=LICENCE)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str, str]:
    """A project with a run on a second set: project, set, run; tests change nothing of it."""
    folder = tmp_path_factory.mktemp("learned")
    layout = with_chips(small_project(folder / "event.pugeo"))
    name = made(layout, weights_file(folder), licence=LICENCE)
    return layout, name, trained(layout, name)


def trained(layout: Layout, name: str = "", method: str = "ncpu", job: str = "train") -> str:
    args = TrainingRequest(method, "quick", overrides=FEW if method == "ncpu" else {}, feature_set=name).as_args()
    return str(train_task.train(job_of(layout, job), **args)["run_id"])


def published(layout: Layout, run_id: str) -> Path:
    args = Publish(("geojson",), run=run_id, threshold=0.5).args(layout)
    return Path(str(publish(job_of(layout, f"publish-{run_id}"), **args)["out"]))


def test_a_run_learns_from_the_named_set_and_its_card_and_map_say_so(learned: tuple[Layout, str, str]) -> None:
    layout, name, run_id = learned
    plain = trained(layout, job="plain")
    assert not np.array_equal(array_of(layout, plain), array_of(layout, run_id))
    assert (facts_of(layout, plain).feature_set, facts_of(layout, plain).feature_maker) == ("rcf", {"kind": "rcf"})
    facts = facts_of(layout, run_id)
    maker = facts.feature_maker
    assert facts.feature_set == name
    assert (maker["weights_file"], maker["licence"], len(str(maker["weights_sha256"]))) == ("tiny.safetensors", LICENCE, 64)
    stored = json.loads((layout.run(run_id) / "manifest.json").read_text())["facts"]
    assert (stored["feature_set"], stored["feature_maker"]) == (name, maker)
    card = run_card.card(layout, run_id)
    out = published(layout, run_id)
    beside = json.loads((out / "damage_map.run.json").read_text())
    assert beside["feature_maker"] == maker
    assert beside["feature_set"] == name
    for words in (run_card.as_markdown(card), (out / "report.html").read_text()):
        assert LICENCE in words
        assert str(maker["weights_sha256"]) in words
    assert str(layout.folder.parent) not in run_card.as_markdown(card) + json.dumps(card)
    assert f"on {name}" in run_names.usual(facts)


def test_runs_that_used_no_features_name_none(chipped: Layout, second: str, tmp_path: Path) -> None:
    """The license and the sha256 of weights that had no part in the scores must not stand beside them."""
    features.choose(chipped, second)
    args = TrainingRequest("ncpu", "quick", overrides={**FEW, "backbone": "small"}).as_args()
    from_chips = str(train_task.train(job_of(chipped, "chips"), **args)["run_id"])
    path = exported(chipped, from_chips, tmp_path / "m.pugeo-model.zip")
    applied = str(apply_model(job_of(chipped, "apply"), path=path)["run_id"])
    for run_id in (from_chips, applied):
        facts = facts_of(chipped, run_id)
        assert (facts.feature_set, facts.feature_maker) == ("rcf", {"kind": "rcf"})
        assert "none: it learned from the chips themselves" in run_card.as_markdown(run_card.card(chipped, run_id))
        assert second not in run_names.usual(facts)
    out = published(chipped, applied)
    assert json.loads((out / "damage_map.run.json").read_text())["feature_set"] is None
    assert LICENCE not in (out / "report.html").read_text()


def test_ncpu_says_that_one_view_is_few(chipped: Layout, tmp_path: Path) -> None:
    name = made(chipped, weights_file(tmp_path), n_views=1)
    warnings = " ".join(facts_of(chipped, trained(chipped, name)).warnings)
    assert f"{name} has one view of each chip, and NcPU learns from how views differ. Make the set again" in warnings


def test_the_chosen_set_is_used_where_none_is_named(chipped: Layout, second: str) -> None:
    named = trained(chipped, f"{second},rcf", "propagation", job="named")
    begun = job_of(chipped, "begun").folder / "checkpoints"
    assert read_inputs(chipped, begun).feature_set == "rcf"
    features.choose(chipped, second)
    assert read_inputs(chipped, begun).feature_set == "rcf", "a training goes on with what it began with"
    usual = trained(chipped, "", "propagation", job="usual")
    np.testing.assert_array_equal(array_of(chipped, named), array_of(chipped, usual))
    plain = trained(chipped, "rcf", "propagation", job="plain")
    ranked = str(train_task.rank(job_of(chipped, "rank"))["run_id"])
    ids = [facts_of(chipped, run_id).feature_set for run_id in (usual, plain, ranked)]
    assert ids == [second, "rcf", second]
    arrays = {"chips": np.load(chipped.chips("set")), "features": np.load(chipped.features("set"))}
    add_chips(chipped, [f"b{i}" for i in range(20)], "newer", **arrays)
    newer = facts_of(chipped, str(train_task.rank(job_of(chipped, "newer"))["run_id"]))
    assert newer.feature_set == "rcf"
    assert any("were not made for the newest chips, so 'rcf' is used" in words for words in newer.warnings)


@pytest.mark.ci
def test_groups_are_discovered_by_the_chosen_set(chipped: Layout, second: str) -> None:
    features.choose(chipped, second)
    found = discover(job_of(chipped, "discover"), n_seeds=1, n_groups=3)
    assert f'"feature_set": "{second}"' in (chipped.discovery(str(found["discovery"])) / "discovery.json").read_text()


def test_sets_that_are_not_there_or_not_taken_are_refused(chipped: Layout) -> None:
    with pytest.raises(ProjectError, match="have no features 'backbone-00000000'"):
        training.require(chipped, TrainingRequest("propagation", "quick", feature_set="backbone-00000000"))
    with pytest.raises(TrainingError, match="a network learns from the chips themselves"):
        TrainingRequest("ncpu", "standard", feature_set="rcf")


def test_the_library_makes_names_and_uses_sets(chipped: Layout, tmp_path: Path) -> None:
    project = Project(chipped, progress=False)
    name = str(project.add_features(backbone=weights_file(tmp_path), n_views=2)["name"])
    assert [one.name for one in project.feature_sets()] == ["rcf", name]
    assert project.features(name=name).shape == (2, 20, D)
    assert project.train("propagation", feature_set=name).facts.feature_set == name
    assert project.rank(feature_set=name).facts.feature_set == name
    assert project.features().shape == (3, 20, 16)
    project.use_features(name)
    assert project.features().shape == (2, 20, D)


def test_a_model_takes_its_maker_along(learned: tuple[Layout, str, str], project: Layout, tmp_path: Path) -> None:
    layout, name, run_id = learned
    assert "feature_maker.weight" in load(parts(layout, run_id)[1])
    path = exported(layout, run_id, tmp_path / "m.pugeo-model.zip")
    applied = str(apply_model(job_of(with_chips(project), "apply"), path=path)["run_id"])
    np.testing.assert_array_equal(array_of(project, applied), array_of(layout, run_id))
    facts = facts_of(project, applied)
    assert (facts.feature_set, facts.feature_maker) == (name, facts_of(layout, run_id).feature_maker)


def test_a_model_without_its_maker_names_the_file_and_works_once_it_is_there(
    chipped: Layout, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pu_geo.runs.model_card_job.MAX_WITH_MAKER", 1000)
    run_id = trained(chipped, second)
    assert "feature_maker.weight" not in load(parts(chipped, run_id)[1])
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip")
    other = with_chips(small_project(tmp_path / "other.pugeo", 20, "Other"))
    with pytest.raises(ModelError) as refused:
        apply_model(job_of(other, "apply"), path=path)
    sha256 = str(facts_of(chipped, run_id).feature_maker["weights_sha256"])
    needed = f"takes features of the weights tiny.safetensors (sha256 {sha256}), which it does not hold"
    assert needed in refused.value.problem
    assert "pu-geo add-features P.pugeo --backbone PATH" in refused.value.hint
    assert made(other, weights_file(tmp_path, seed=1, name="wrong.safetensors")) != second
    with pytest.raises(ModelError, match="does not hold"):
        apply_model(job_of(other, "wrong"), path=path)
    assert made(other, weights_file(tmp_path)) == second
    applied = str(apply_model(job_of(other, "again"), path=path)["run_id"])
    np.testing.assert_array_equal(array_of(other, applied), array_of(chipped, run_id))


@pytest.mark.parametrize(
    ("card_says", "words"),
    [
        ({"kind": "gone"}, "There is no maker of features 'gone'"),
        ("backbone", "does not say properly what made its features"),
        ({"kind": "x" * 9000}, "does not say properly"),
        ({"kind": "self-supervised"}, "does not hold what made its features"),
        (None, f"maker of other features than the {D}"),
    ],
)
def test_a_maker_that_a_card_lies_about_is_refused(card_says: object, words: str, learned: tuple[Layout, str, str]) -> None:
    layout, _, run_id = learned
    card_bytes, weights = parts(layout, run_id)
    card = json.loads(card_bytes)
    if card_says is None:
        weights = save({**load(weights), "feature_maker.weight": np.ones((12, D + 1), np.float32)})
        card["tensors"]["feature_maker.weight"]["shape"] = [12, D + 1]
        card["sha256"] = hashlib.sha256(weights).hexdigest()
    else:
        card["feature_maker"] = card_says
    with pytest.raises(ModelError, match=words):
        restore(model_files.from_parts(json.dumps(card).encode(), weights, "m.zip"), torch.device("cpu"))


def test_a_run_of_a_copy_is_taken_where_its_features_are_known(chipped: Layout, second: str) -> None:
    other = copy_of(chipped)
    trained(other, second)
    came = facts_of(chipped, str(apply_model(job_of(chipped, "came"), path=str(other.folder))["run_id"]))
    assert (came.feature_set, came.from_model) == (second, None)
    removing.start(chipped, removing.plan(chipped, "features", f"set.{second}"), "ann")
    again = facts_of(chipped, str(apply_model(job_of(chipped, "came-2"), path=str(other.folder))["run_id"]))
    assert again.from_model is not None, "what it learned from is not there to compare"


@pytest.mark.usefixtures("home")
def test_the_live_ranking_follows_the_set_in_use(project: Layout) -> None:
    with_layers(project, optical=12.0)
    before = ranking.rank_now(project).score_id
    plain = ranking.scores_for_browser(project, before)
    name = layer_set(project, "pre+post", "sar-post")
    assert features.overview(project).in_use == "rcf"
    features.choose(project, name)
    after = ranking.rank_now(project).score_id
    assert after != before
    assert ranking.scores_for_browser(project, before) is None
    assert ranking.scores_for_browser(project, after) != plain
    assert features.layers_here(project) == ("pre+post", "sar-post", "dsm", "pre", "post")


def test_the_default_averages_all_sets_but_what_does_not_see_the_damage(chipped: Layout, second: str) -> None:
    usual, named, alone = (
        trained(chipped, name, "propagation", f"job{k}") for k, name in enumerate(("", f"rcf, {second}", "rcf"))
    )
    np.testing.assert_array_equal(array_of(chipped, usual), array_of(chipped, named))
    assert not np.array_equal(array_of(chipped, usual), array_of(chipped, alone))
    written = [run_card.as_markdown(run_card.card(chipped, usual)), (published(chipped, usual) / "report.html").read_text()]
    for words in written:
        assert "averaged with it" in words
        assert LICENCE in words
    with pytest.raises(ModelError, match="an average over feature sets"):
        models.model_file(chipped, usual)
    views = np.load(chipped.features("set", second))
    write_array(chipped.features("set", second), np.random.default_rng(0).permutation(views, axis=1))
    kept = trained(chipped, "", "propagation", "noise")
    np.testing.assert_array_equal(array_of(chipped, kept), array_of(chipped, alone))
    assert f"{second}: " in (found := run_card.as_markdown(run_card.card(chipped, kept)))
    assert "left out: clicks held out stand lower by it" in found
    with pytest.raises(TrainingError, match="NcPU learns from one set of features"):
        TrainingRequest("ncpu", feature_set=f"rcf,{second}")
