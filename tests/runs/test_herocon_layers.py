"""HeroCon learns from the layers of chips and of features, masks what a building lacks, and its model does so elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layered_chip_parts import TABLE, layer_set, with_layers
from model_parts import array_of, exported, job_of, parts
from small_parts import facts_of, small_project

from pu_geo.errors import ModelError
from pu_geo.runs import train_job as train_task
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.runs.restored_model_job import restore
from pu_geo.scenes import layers
from pu_geo.store import contents
from pu_geo.store.layout import Layout, write_array
from pu_geo.training import model_files

pytestmark = pytest.mark.slow
ON_CHIPS = {"backbone": "small", "epochs": "2", "max_steps": "4", "batch_size": "10", "embedding_dim": "8"}
ON_FEATURES = {"epochs": "2", "max_steps": "4", "batch_size": "10"}


def trained(layout: Layout, name: str = "train", **overrides: str) -> str:
    job = job_of(layout, name)
    return str(train_task.train(job, method="herocon", preset="quick", overrides=overrides)["run_id"])


class Once:
    """A project with layers, a run of HeroCon on its chips and one on features of pre+post and SAR; tests add runs at most."""

    def __init__(self, folder: Path) -> None:
        self.layout = small_project(folder / "event.pugeo")
        _, self.lacks = with_layers(self.layout)
        self.on_chips = trained(self.layout, "chips", **ON_CHIPS)
        layer_set(self.layout, "pre+post", "sar-post", use=True)
        self.on_features = trained(self.layout, "features", **ON_FEATURES)
        self.paths = [
            exported(self.layout, each, folder / f"{k}.zip") for k, each in enumerate((self.on_chips, self.on_features))
        ]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    return Once(tmp_path_factory.mktemp("layers"))


def applied(layout: Layout, path: str, name: str = "apply") -> str:
    return str(apply_model(job_of(layout, name), path=path)["run_id"])


def other_with_layers(folder: Path, missing: float) -> Layout:
    """Another project with the same chips, whose stored pixels of buildings that lack radar are others."""
    other = small_project(folder, 20, "Other")
    _, lacks = with_layers(other)
    chips = np.load(other.chips("set"))
    chips[lacks, 6:8] = missing
    write_array(other.chips("set"), chips)
    return other


def change_facts(layout: Layout, change: Callable[[dict[str, Any]], object]) -> None:
    path = layout.chip_facts("set")
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize("on_features", [False, True])
def test_a_model_masks_what_buildings_lack_and_knows_those_it_learned_from(
    once: Once, tmp_path: Path, on_features: bool
) -> None:
    run_id, path = (once.on_chips, once.on_features)[on_features], once.paths[on_features]
    card = json.loads(parts(once.layout, run_id)[0])
    if not on_features:
        assert [view["name"] for view in card["input"]["views"]] == [view.name for view in TABLE]
        assert card["input"]["shape"] == card["learned_from"]["chip_shape"] == [9, 20, 20]
    other = other_with_layers(tmp_path / "other.pugeo", missing=200)
    np.testing.assert_allclose(array_of(other, applied(other, path)), array_of(once.layout, run_id), atol=1e-6)
    here = facts_of(once.layout, applied(once.layout, path, f"again-{on_features}"))
    assert "trained on the chips and answers of this project" in " ".join(here.warnings)
    write_array(other.chips("set"), 255 - np.load(other.chips("set")))
    there = facts_of(other, applied(other, path, "inverted"))
    assert "learned on another set of buildings" in " ".join(there.warnings)


def test_a_run_on_chips_with_layers_says_that_it_learned_from_them_and_who_lacks_one(once: Once) -> None:
    layout, names = once.layout, tuple(view.name for view in TABLE)
    facts = facts_of(layout, once.on_chips)
    cut = layers.in_chips(contents.chip_facts(layout, "set"), layers.learned_views(facts))
    assert [(one["name"], one["is_used"]) for one in cut] == [("sar-post", True), ("dsm", True)]
    there = facts_of(layout, applied(layout, once.paths[0], "said"))
    for each in (facts, there):
        assert any(f"{once.lacks.sum()} in sar-post" in words for words in each.warnings)
    assert [layers.learned_views(each) for each in (facts, there)] == [names] * 2


def test_a_model_of_chips_finds_its_layers_by_their_names(once: Once, tmp_path: Path) -> None:
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)

    def other_order(facts: dict[str, Any]) -> None:
        pre, post, sar, dsm = facts["views"]
        facts["views"] = [
            pre, post, {**dsm, "start": 6, "stop": 7}, {"name": "slope", "when": "", "start": 7, "stop": 8},
            {**sar, "start": 8, "stop": 10},
        ]  # fmt: skip
        facts["view_missing"]["slope"] = [1.0] * 20
        facts["scaling"]["slope"] = facts["scaling"]["dsm"]

    change_facts(other, other_order)
    write_array(other.chips("set"), np.load(other.chips("set"))[:, [0, 1, 2, 3, 4, 5, 8, 8, 6, 7]])
    run_id = applied(other, once.paths[0])
    np.testing.assert_array_equal(array_of(other, run_id), array_of(once.layout, once.on_chips))
    change_facts(other, lambda facts: facts["views"][4].update(when="pre"))
    with pytest.raises(ModelError, match=r"sar-post \(post, 2 bands\).*; the chips of this .*sar-post \(pre, 2 bands\)"):
        applied(other, once.paths[0], "date")
    change_facts(other, lambda facts: facts["views"][4].update(name="radar", when="post"))
    change_facts(other, lambda facts: facts["view_missing"].update(radar=facts["view_missing"].pop("sar-post")))
    with pytest.raises(
        ModelError, match=r"sar-post \(post, 2 bands\), dsm \(no date, 1 band\); the .*radar \(post, 2 bands\)"
    ):
        applied(other, once.paths[0], "name")


@pytest.mark.parametrize("on_features", [False, True])
def test_layers_of_another_kind_are_refused_and_of_another_scaling_are_named(
    once: Once, tmp_path: Path, on_features: bool
) -> None:
    run_id, path = (once.on_chips, once.on_features)[on_features], once.paths[on_features]
    learned = json.loads(parts(once.layout, run_id)[0])["learned_from"]["layers"]
    assert set(learned) == ({"sar-post"} if on_features else {"sar-post", "dsm"})
    assert learned["sar-post"] == {"when": "post", "kind": "sar-db", "unit": "dB", "bands": [[-25.0, 0.0], [-30.0, -5.0]]}
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)
    change_facts(other, lambda facts: facts["scaling"]["sar-post"].update(bands=[[-25.0, 1.25], [-12.0, 3.0]]))
    (warning,) = [one for one in facts_of(other, applied(other, path)).warnings if "scaled" in one]
    assert "Band 2 of the layer sar-post is scaled from -12 to 3 dB here, and was from -30 to -5 dB" in warning
    change_facts(other, lambda facts: facts["scaling"]["sar-post"].update(kind="elevation"))
    with pytest.raises(ModelError, match="sar-post with the kind sar-db; sar-post of this project has the kind elevation"):
        applied(other, path, "refused")


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ([], "names other views than its network takes"),
        ([{"name": "pre"}], "does not name its views properly"),
        ([{"name": "a/b", "when": "", "start": 0, "stop": 9}], "names other views"),
    ],
)
def test_a_card_that_names_other_views_is_refused(views: Any, words: str, once: Once) -> None:
    card, weights = parts(once.layout, once.on_chips)
    changed = json.loads(card)
    changed["input"]["views"] = views
    with pytest.raises(ModelError, match=words):
        restore(model_files.from_parts(json.dumps(changed).encode(), weights, "m.zip"), torch.device("cpu"))
