"""UMAP of a run: kept, the same for a seed, and stopped when asked."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from clustered_parts import chipped
from model_parts import job_of, with_chips
from small_parts import add_run, click, small_project

from pu_geo.errors import JobCancelled, TrainingError
from pu_geo.explore import umap_picture
from pu_geo.explore.umap_picture import UmapSettings
from pu_geo.explore.umap_picture_job import embed
from pu_geo.runs import train_job as train_task
from pu_geo.store.layout import Layout, write_array, write_json

pytestmark = pytest.mark.slow


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return chipped(tmp_path)


@pytest.fixture
def ranked(layout: Layout) -> tuple[Layout, str]:
    return layout, str(train_task.rank(job_of(layout, "rank"))["run_id"])


def test_a_picture_is_kept_and_the_same_for_its_settings(ranked: tuple[Layout, str]) -> None:
    layout, run_id = ranked
    done = embed(job_of(layout, "one"), run_id=run_id)
    words = "UMAP: 15 neighbors, least distance 0.1, euclidean."
    assert done == {"run_id": run_id, "n": 20, "words": words}
    path = layout.run(run_id) / "umap.npy"
    first, stamp = np.load(path), path.stat().st_mtime_ns
    embed(job_of(layout, "two"), run_id=run_id, settings=asdict(UmapSettings()))
    assert path.stat().st_mtime_ns == stamp
    other = asdict(UmapSettings(n_neighbors=5, metric="cosine", densmap=True, seed=5))
    embed(job_of(layout, "three"), run_id=run_id, settings=other)
    second, stamp = np.load(path), path.stat().st_mtime_ns
    assert not np.array_equal(second, first)
    embed(job_of(layout, "four"), run_id=run_id, settings=other)
    assert path.stat().st_mtime_ns == stamp
    made = umap_picture.picture(layout, run_id)
    assert asdict(made.settings) == other
    assert made.words == "UMAP: 5 neighbors, least distance 0.1, cosine, densMAP, seed 5."
    embed(job_of(layout, "five"), run_id=run_id, settings={})
    np.testing.assert_array_equal(np.load(path), first)


def test_labels_pull_a_supervised_picture_and_a_new_one_comes_with_new_labels(ranked: tuple[Layout, str]) -> None:
    layout, run_id = ranked
    settings = asdict(UmapSettings(supervised=True))
    embed(job_of(layout, "one"), run_id=run_id)
    plain = np.load(path := layout.run(run_id) / "umap.npy")
    words = str(embed(job_of(layout, "two"), run_id=run_id, settings=settings)["words"])
    assert words.endswith("supervised by labels (6 damaged, 6 not damaged).")
    assert not np.array_equal(np.load(path), plain)
    stamp = path.stat().st_mtime_ns
    embed(job_of(layout, "three"), run_id=run_id, settings=settings)
    assert path.stat().st_mtime_ns == stamp
    click(layout, "b7")
    assert "(7 damaged" in str(embed(job_of(layout, "four"), run_id=run_id, settings=settings)["words"])
    assert path.stat().st_mtime_ns > stamp


def test_refuses_settings_out_of_bounds_and_labels_that_are_not_there(tmp_path: Path) -> None:
    layout = with_chips(small_project(tmp_path / "new.pugeo"), is_clicked=False)
    facts = {"embeddings": np.eye(20, dtype=np.float32), "clusters": np.zeros(20)}
    add_run(layout, "ranker-1", arrays=facts)
    for settings, words in (
        ({"n_neighbors": 1}, "n_neighbors is 1; it must be between 2 and 200"),
        ({"min_dist": float("nan")}, "min_dist is nan; it must be between 0.0 and 0.99"),
        ({"metric": "hamming"}, "it must be one of euclidean, cosine, manhattan"),
        ({"supervised": True}, "needs at least one building marked damaged"),
    ):
        with pytest.raises(TrainingError, match=words):
            embed(job_of(layout, "one"), run_id="ranker-1", settings=settings)


def test_stops_when_asked_and_leaves_what_was_there(ranked: tuple[Layout, str], monkeypatch: pytest.MonkeyPatch) -> None:
    layout, run_id = ranked
    monkeypatch.setattr("pu_geo.store.job._SECONDS_BETWEEN_REPORTS", 0)
    job = job_of(layout, "one")
    said: list[str] = []

    def cancel_once_begun(words: str) -> None:
        said.append(words.split("%")[1].split()[0])
        if "layout" in words:
            (job.folder / "cancel").touch()

    job.echo = cancel_once_begun
    with pytest.raises(JobCancelled):
        embed(job, run_id=run_id)
    assert said == ["widest", "neighbors", "layout"]
    with pytest.raises(JobCancelled):  # before it begins
        embed(job, run_id=run_id)
    assert len(said) == 3
    assert not (layout.run(run_id) / "umap.npy").exists()
    embed(job_of(layout, "two"), run_id=run_id)
    before = umap_picture.picture(layout, run_id)
    with pytest.raises(JobCancelled):
        embed(job, run_id=run_id, settings=asdict(UmapSettings(seed=5)))
    assert umap_picture.picture(layout, run_id) == before


@pytest.mark.parametrize("file", ["umap.npy", "umap.json"])
def test_ended_amid_writing_it_leaves_no_picture_of_other_facts(
    file: str, ranked: tuple[Layout, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, run_id = ranked
    embed(job_of(layout, "one"), run_id=run_id, settings=asdict(UmapSettings(seed=5)))

    def ends(path: Path, values: object) -> None:
        if path.name == file:
            raise KeyboardInterrupt
        write_array(path, np.asarray(values)) if path.suffix == ".npy" else write_json(path, values)

    monkeypatch.setattr("pu_geo.explore.umap_picture_job.write_array", ends)
    monkeypatch.setattr(umap_picture, "write_json", ends)
    with pytest.raises(KeyboardInterrupt):
        embed(job_of(layout, "two"), run_id=run_id, settings=asdict(UmapSettings(seed=6)))
    assert umap_picture.picture(layout, run_id) is None
