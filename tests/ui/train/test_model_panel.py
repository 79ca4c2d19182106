"""The part of the Train screen that hands models on and takes them in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import press, show_panel, words
from small_parts import add_run, facts_of

from pu_geo import jobs
from pu_geo.project.layout import RCF, SHARED, Layout
from pu_geo.services.train import models, run_names


def test_a_project_without_a_model_says_so_and_takes_no_other_file(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"\x80\x04hello")
    app = show_panel("train.model_panel", project)
    assert "No run has a model yet" in words(app)
    assert app.button(key="apply-model").disabled
    app.text_input(key="model-path").input(str(tmp_path / "m.zip")).run()
    press(app, "apply-model")
    assert "is a Python pickle" in app.error[0].value
    assert not jobs.all_jobs(project)


@pytest.mark.parametrize(
    ("kind", "has_patches"),
    [({"kind": RCF}, True), ({"kind": SHARED}, False), ({"sets": {"a": {"kind": SHARED}, "b": {"kind": RCF}}}, True)],
)
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
