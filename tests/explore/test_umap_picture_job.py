"""UMAP of a run: kept, the same for a seed, stopped when asked, and new buildings placed among their like."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from clustered_parts import chipped
from layered_chip_parts import layer_set, with_layers
from model_parts import job_of, trained, with_chips
from small_parts import add_chips, add_run, click, facts_of, small_project, table_of

from pu_geo.errors import JobCancelled, ModelError, TrainingError
from pu_geo.explore import umap_picture
from pu_geo.explore.umap_picture import UmapSettings
from pu_geo.explore.umap_picture_job import embed, embed_again
from pu_geo.features import rcf
from pu_geo.runs import train_job as train_task
from pu_geo.store import contents, runs, store
from pu_geo.store.layout import Layout, write_array, write_json

pytestmark = pytest.mark.slow


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return chipped(tmp_path)


def with_newer_chips(layout: Layout, *, n_new: int = 2, is_other_size: bool = False) -> None:
    """Cut chips anew, with other filters, as after further footprints: the last ones look like the first."""
    old = np.load(layout.chips("set"))
    chips = np.concatenate([old, old[:n_new]])
    if is_other_size:
        chips = chips[:, :, :12, :12]
    ids = [*(f"b{i}" for i in range(len(old))), *(f"new{i}" for i in range(n_new))]
    outlines = [shapely.box(600_000 + 20 * i, 0, 600_008 + 20 * i, 8) for i in range(n_new)]
    with store.connect(layout) as db:
        contents.add_footprints(db, table_of(outlines, ids[-n_new:]))
    features = np.zeros((3, len(chips), 16), np.float16)
    add_chips(layout, ids, "newer", bands="pre+post", size_px=chips.shape[-1], chips=chips, features=features)


@pytest.fixture
def ranked(layout: Layout) -> tuple[Layout, str]:
    return layout, str(train_task.rank(job_of(layout, "rank"))["run_id"])


def test_a_picture_is_kept_and_the_same_for_its_settings(ranked: tuple[Layout, str]) -> None:
    layout, run_id = ranked
    done = embed(job_of(layout, "one"), run_id=run_id)
    words = "UMAP: 15 neighbors, least distance 0.1, euclidean."
    assert done == {"run_id": run_id, "n": 20, "n_new": 0, "note": "", "words": words}
    path = layout.run(run_id) / "umap.npy"
    first, stamp = np.load(path), path.stat().st_mtime_ns
    embed(job_of(layout, "two"), run_id=run_id, settings=asdict(UmapSettings()))
    assert path.stat().st_mtime_ns == stamp
    other = asdict(UmapSettings(n_neighbors=5, metric="cosine", densmap=True, seed=5))
    embed(job_of(layout, "three"), run_id=run_id, settings=other)
    second, stamp = np.load(path), path.stat().st_mtime_ns
    assert not np.array_equal(second, first)
    embed(job_of(layout, "four"), run_id=run_id)  # as "Place new buildings" does
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
    click(layout, "b7")
    embed(job_of(layout, "three"), run_id=run_id)
    assert path.stat().st_mtime_ns == stamp
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
    monkeypatch.setattr(umap_picture, "write_array", ends)
    monkeypatch.setattr(umap_picture, "write_json", ends)
    with pytest.raises(KeyboardInterrupt):
        embed(job_of(layout, "two"), run_id=run_id, settings=asdict(UmapSettings(seed=6)))
    assert umap_picture.picture(layout, run_id) is None


@pytest.mark.parametrize("method", ["ranker", "pucl"])
def test_new_buildings_lie_with_those_that_look_alike(layout: Layout, method: str) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"]) if method == "ranker" else trained(layout, method)
    embed(job_of(layout, "one"), run_id=run_id)
    with_newer_chips(layout)
    assert umap_picture.n_unplaced(layout, run_id) == 2
    done = embed(job_of(layout, "two"), run_id=run_id)
    assert (done["n_new"], done["note"]) == (2, "")
    assert umap_picture.picture(layout, run_id).new_ids == ["new0", "new1"]
    known = np.asarray(runs.array(layout, run_id, "umap"))
    placed = np.load(layout.run(run_id) / "umap_new.npy")
    np.testing.assert_allclose(placed, known[:2], atol=0.05)  # the same pictures as b0 and b1
    assert umap_picture.n_unplaced(layout, run_id) == 0


def test_says_why_new_buildings_cannot_be_placed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"])
    with_newer_chips(layout, is_other_size=True)
    done = embed(job_of(layout, "one"), run_id=run_id)
    assert done["n_new"] == 0
    assert "2 new buildings are not shown" in str(done["note"])
    assert umap_picture.n_unplaced(layout, run_id) == 0  # asking again would not help
    assert umap_picture.picture(layout, run_id).note == done["note"]
    settings = rcf.RcfSettings(n_filters=8)
    other = rcf.RcfBank.fit(np.load(layout.chips("set"))[::-1].copy(), torch.Generator().manual_seed(9), settings)
    np.savez(layout.filters("set"), allow_pickle=False, **other.state())
    write_array(layout.chips("newer"), np.concatenate([np.load(layout.chips("set")), np.load(layout.chips("set"))[:2]]))
    assert "other embeddings than it stored" in str(embed(job_of(layout, "two"), run_id=run_id)["note"])


def test_chips_whose_layers_are_scaled_otherwise_are_refused(project: Layout) -> None:
    with_layers(project)
    layer_set(project, "pre+post", "sar-post", use=True)
    facts = facts_of(project, str(train_task.rank(job_of(project, "rank"))["run_id"]))
    cut = json.loads(project.chip_facts("set").read_text())
    write_array(project.chips("newer"), np.load(project.chips("set")))
    rows = np.arange(3)

    def embedded(**bands: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        scaling = {name: {**about, "bands": bands.get(name, about["bands"])} for name, about in cut["scaling"].items()}
        project.chip_facts("newer").write_text(json.dumps({**cut, "chip_set": "newer", "scaling": scaling}))
        return embed_again(job_of(project, "embed"), facts, "newer", rows)

    stored = np.asarray(runs.array(project, facts.run_id, "embeddings"), np.float32)[rows]
    found = embedded()
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (found, stored)]
    np.testing.assert_allclose((unit[0] * unit[1]).sum(axis=1), 1, atol=0.01)
    embedded(dsm=[[0.0, 80.0]])  # which the run did not learn from
    with pytest.raises(ModelError, match="layer sar-post is scaled from -30 to 0 dB here"):
        embedded(**{"sar-post": [[-30.0, 0.0], [-30.0, -5.0]]})
