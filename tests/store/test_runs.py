"""Finished runs: what is stored, pinned and found again."""

import json

import numpy as np
import pytest
from small_parts import add_run

from pu_geo.errors import ProjectError
from pu_geo.store import runs, store
from pu_geo.store.layout import Layout, sha256_of


def finish(layout: Layout, run_id: str, scores: np.ndarray) -> None:
    add_run(layout, run_id, scores=scores, arrays={"embeddings": np.eye(20)}, reasons={}, settings={"l2": 1.0})


def test_highest_score_has_rank_one_and_ties_keep_their_order() -> None:
    assert runs.ranks(np.array([0.2, 0.9, 0.2, 0.5], np.float32)).tolist() == [3, 1, 4, 2]


def test_finished_run_is_pinned_and_shown_by_the_live_view(project: Layout) -> None:
    scores = np.linspace(0, 1, 20, dtype=np.float32)
    finish(project, "one", scores)
    finish(project, "two", scores[::-1].copy())
    with store.connect(project) as db:
        assert [facts.run_id for facts in runs.all_runs(db)] == ["two", "one"]
        assert runs.pinned(db) == "two"
        assert db.execute("SELECT score, rank FROM damage_map WHERE building_id = 'b0'").fetchone() == (1.0, 1)
        runs.pin(db, "one")
        assert db.execute("SELECT score, rank FROM damage_map WHERE building_id = 'b0'").fetchone() == (0.0, 20)
        assert runs.find(db, "latest").settings == {"l2": 1.0}
    finish(project, "three", scores)
    with store.connect(project) as db:
        assert runs.pinned(db) == "one"  # a person chose it; a run that ends in the background does not change that


def test_manifest_names_the_sha256_of_every_file_and_what_is_not_there_is_named(project: Layout) -> None:
    with store.connect(project) as db, pytest.raises(ProjectError, match="none yet"):
        runs.find(db, "latest")
    finish(project, "one", np.zeros(20, np.float32))
    folder = project.run("one")
    files = {path.name: sha256_of(path) for path in folder.iterdir() if path.name != "manifest.json"}
    assert files.keys() == {"scores.npy", "embeddings.npy", "building_ids.json"}
    assert json.loads((folder / "manifest.json").read_text())["sha256"] == files
    with store.connect(project) as db, pytest.raises(ProjectError, match="its runs are: one"):
        runs.find(db, "other")
    with pytest.raises(ProjectError, match="has no clusters"):
        runs.array(project, "one", "clusters")
