"""Chips, shifts, and scores of a model on a cluster: those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from layered_chip_parts import with_layers
from model_parts import array_of, exported, trained, with_chips
from small_parts import job_of

from pu_geo.project import contents, store
from pu_geo.project.layout import SHARDS, Layout
from pu_geo.scale import chips as on_cluster
from pu_geo.scale import scoring
from pu_geo.tasks.imagery.chip import chip
from pu_geo.tasks.train.apply_model import apply_model
from pu_geo.training import network

FILES = ("npy", "json", "features.npy", "filters.npz")


def contents_of(layout: Layout) -> dict[str, bytes]:
    chip_set = store.call(layout, contents.chosen_chip_set)
    folder = layout.chips(chip_set).parent
    found = {ending: (folder / f"{chip_set}.{ending}").read_bytes() for ending in FILES}
    sheets = {path.name: path.read_bytes() for path in sorted(layout.sheets(chip_set).iterdir())}
    return {**found, **sheets}


def test_chips_and_their_features_are_those_of_one_process(
    chipped_town: Layout, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "ROWS", 7)
    monkeypatch.setattr(on_cluster, "STRIP_PX", 64)
    before = contents_of(chipped_town)
    chip(job_of(chipped_town, "chip"), cluster="local:2")
    assert contents_of(chipped_town) == before
    assert len([name for name in in_this_process if name.startswith("cut_part")]) > 3
    assert not (chipped_town.jobs / "chip" / SHARDS).exists()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "IMAGES_AT_ONCE", 3)
    monkeypatch.setattr(scoring, "ROWS", 6)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_scores_of_features_and_of_chips_are_those_of_one_process(
    project: Layout, tmp_path: Path, in_this_process: list[str]
) -> None:
    """A model that takes features has them made on the cluster; one that takes chips answers there."""
    with_chips(project)
    for method, more in (("linear", {}), ("ce", {"backbone": "small"})):
        run_id = trained(project, method, **more)
        job = job_of(project, f"apply-{method}")
        path = exported(project, run_id, tmp_path / f"{method}.zip")
        made = str(apply_model(job, path=path, cluster="local:2")["run_id"])
        assert array_of(project, made).tobytes() == array_of(project, run_id).tobytes()
        assert not (job.folder / SHARDS).exists()
    assert in_this_process == ["describe 0", "score_part 18", "score_part 12", "score_part 6", "score_part 0"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_network_on_named_views_knows_which_each_building_lacks(
    project: Layout, tmp_path: Path, in_this_process: list[str]
) -> None:
    with_layers(project)
    path = exported(project, trained(project, "herocon", backbone="small", embedding_dim=8), tmp_path / "m.zip")
    alone = str(apply_model(job_of(project, "alone"), path=path)["run_id"])
    made = str(apply_model(job_of(project, "apply"), path=path, cluster="local:2")["run_id"])
    for name in ("scores", "embeddings"):
        assert array_of(project, made, name).tobytes() == array_of(project, alone, name).tobytes()
    assert in_this_process == ["score_part 18", "score_part 12", "score_part 6", "score_part 0"]
