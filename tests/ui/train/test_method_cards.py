"""The Train screen: cards of methods, and models that are handed on and taken in."""

from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import checked, press, show, show_panel, words
from comparison_parts import BETTER, set_project
from small_parts import add_run, click, facts_of

from pu_geo import jobs
from pu_geo.runs import models
from pu_geo.scenes import features
from pu_geo.store import run_names
from pu_geo.store.layout import RCF, SHARED, Layout


def test_a_training_is_asked_for_as_its_card_was_filled_in(tmp_path: Path, started: list[object]) -> None:
    layout = set_project(tmp_path, n_clicks=60)
    app = show("train", layout)
    press(app, "start-propagation")
    averaged = app.multiselect(key="features-propagation-rcf")
    assert (len(averaged.options), averaged.value) == (2, ["rcf", BETTER]), "the default method averages what is there"
    held_out = app.number_input(key="hold-out-ncpu-60")
    assert (held_out.value, held_out.max) == (12, 55), "one in five is proposed, and five are left to learn from"
    held_out.set_value(3)
    app.selectbox(key="preset-ncpu").set_value("quick")
    app.number_input(key="seed-ncpu").set_value(7)
    checked(app.run())
    app.multiselect(key="features-ncpu-rcf").set_value([BETTER])
    checked(app.text_input(key="set-ncpu-quick-epochs").set_value("5").run())
    press(app, "start-ncpu")
    assert started[0] == ("train", {**started[0][1], "method": "propagation", "overrides": {}, "feature_set": ""})  # type: ignore[index]
    assert started[1:] == [
        ("train", {"method": "ncpu", "preset": "quick", "seed": 7, "overrides": {"epochs": "5"}, "types_from": None, "hold_out": 3, "feature_set": BETTER}),
    ]  # fmt: skip


def test_cards_say_what_is_in_use_and_what_is_missing_and_take_types_where_there_are_some(tmp_path: Path) -> None:
    layout = set_project(tmp_path, n_clicks=4)
    features.choose(layout, BETTER)
    app = show("train", layout)
    assert BETTER in words(app).replace("\\", "")
    assert app.button(key="start-ncpu").disabled
    assert "needs at least 5 damaged buildings" in words(app)
    click(layout, "b0", "b1", "b4", damage_types=["roof"])
    app = show("research", layout)
    types = app.selectbox(key="types-herocon")
    assert types.options[0] == "Types given on Annotate"
    checked(types.set_value("answers").run())
    assert "roof 3 yes" in words(app)


def test_a_project_without_a_model_says_so_and_takes_no_other_file(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"\x80\x04hello")
    app = show_panel("train.model_panel", project)
    assert "No run has a model yet" in words(app)
    assert app.button(key="apply-model").disabled
    app.text_input(key="model-path").input(str(tmp_path / "m.zip")).run()
    press(app, "apply-model")
    assert "is a Python pickle" in app.error[0].value
    assert not jobs.all_jobs(project)


@pytest.mark.parametrize(("kind", "has_patches"), [({"kind": RCF}, True), ({"kind": SHARED}, False)])
def test_imagery_is_said_to_be_in_a_model_only_where_its_features_hold_some(
    project: Layout, monkeypatch: pytest.MonkeyPatch, kind: dict[str, object], has_patches: bool
) -> None:
    add_run(project, "r1")
    run = replace(facts_of(project, "r1"), feature_set="set", feature_maker=kind)
    monkeypatch.setattr(models, "runs_with_model", lambda layout: [run])
    monkeypatch.setattr(models, "model_file", lambda layout, run_id: b"")
    app = show_panel("train.model_panel", project)
    assert app.selectbox(key="export-model-run").options == [run_names.name(project, "r1")]
    assert ("patches of 5 x 5 pixels of your chips" in words(app)) is has_patches
