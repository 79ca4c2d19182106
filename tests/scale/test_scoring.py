"""A model that is applied on a cluster gives the scores of one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from layered_chip_parts import with_layers
from model_parts import parts, trained, with_chips
from scale_parts import N, clicking, many_chips, of_kind, on_first_shard, pids_of, stored_clicks, wait_for
from small_parts import job_of

from pu_geo.project import model_files, runs
from pu_geo.project.layout import SHARDS, Layout
from pu_geo.scale import scoring as on_cluster
from pu_geo.tasks.train.apply_model import apply_model
from pu_geo.training import network


@pytest.fixture
def layout(project: Layout) -> Layout:
    return with_chips(project)


def sha256_of_scores(layout: Layout, run_id: object) -> str:
    return runs.sha256_of(layout.run(str(run_id)) / "scores.npy")


@pytest.mark.slow
def test_scores_of_features_and_of_chips_are_those_of_one_process(
    layout: Layout, tmp_path: Path, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that takes features has them made on the cluster; one that takes chips answers there."""
    monkeypatch.setattr(network, "IMAGES_AT_ONCE", 3)
    monkeypatch.setattr(on_cluster, "ROWS", 6)
    for method, more in (("linear", {}), ("ce", {"backbone": "small"})):
        run_id = trained(layout, method, **more)
        path = tmp_path / f"{method}.zip"
        model_files.write(path, *parts(layout, run_id))
        job = job_of(layout, f"apply-{method}")
        made = apply_model(job, path=str(path), cluster="local:2")["run_id"]
        assert sha256_of_scores(layout, made) == sha256_of_scores(layout, run_id)
        assert not (job.folder / SHARDS).exists()
    assert in_this_process == ["describe 0", "score_part 18", "score_part 12", "score_part 6", "score_part 0"]


@pytest.mark.slow
def test_a_network_on_named_views_knows_which_each_building_lacks(
    project: Layout, tmp_path: Path, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "IMAGES_AT_ONCE", 3)
    monkeypatch.setattr(on_cluster, "ROWS", 6)
    with_layers(project)
    run_id = trained(project, "herocon", backbone="small", embedding_dim=8)
    path = tmp_path / "m.zip"
    model_files.write(path, *parts(project, run_id))
    alone = str(apply_model(job_of(project, "alone"), path=str(path))["run_id"])
    made = str(apply_model(job_of(project, "apply"), path=str(path), cluster="local:2")["run_id"])
    for name in ("scores", "embeddings"):
        assert runs.array(project, made, name).tobytes() == runs.array(project, alone, name).tobytes()
    assert in_this_process == ["score_part 18", "score_part 12", "score_part 6", "score_part 0"]


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_that_is_killed_while_people_click_loses_neither_scores_nor_clicks(
    project: Layout, tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three shards, of a block each as the workers take them."""
    monkeypatch.setattr(on_cluster, "ROWS", network.IMAGES_AT_ONCE)
    run_id = trained(with_chips(project, n_bands=3), "ce", backbone="small")
    path = tmp_path / "model.zip"
    model_files.write(path, *parts(project, run_id))
    alone, event = many_chips(tmp_path / "one.pugeo"), many_chips(tmp_path / "other.pugeo")
    expected = str(apply_model(job_of(alone), path=str(path))["run_id"])
    folder = job_of(event).folder
    with clicking(event, [f"b{i}" for i in range(N)]) as clicked:

        def end_a_worker() -> None:
            os.kill(pids_of(folder)[0], signal.SIGKILL)
            wait_for(lambda: len(clicked) > 3)

        on_first_shard(monkeypatch, end_a_worker)
        made = str(apply_model(job_of(event), path=str(path), cluster=cluster)["run_id"])
    for name in ("scores", "embeddings"):
        found, wanted = runs.array(event, made, name), runs.array(alone, expected, name)
        assert found.tobytes() == wanted.tobytes()
        assert len(np.unique(found, axis=0)) > 9
    assert stored_clicks(event) == clicked
    assert len(of_kind(folder, "shard")) == 3
