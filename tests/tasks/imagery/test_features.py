"""The job that makes another set of features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from feature_parts import D, TinyMaker, made, request_of, tiny_maker, weights_file
from model_parts import with_chips
from safetensors.numpy import save_file
from small_parts import add_chips, job_of, small_project, table_of

from pu_geo.analysis import sensors
from pu_geo.errors import JobCancelled, ProjectError, PuGeoError
from pu_geo.project import feature_sets, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery import features as task
from pu_geo.tasks.imagery.features import features, footprint_masks

__all__ = ["tiny_maker"]
pytestmark = pytest.mark.usefixtures("tiny_maker")


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
    assert task.maker_in(chipped, "set", "resnet18-00000000") is None
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
    np.testing.assert_array_equal(footprint_masks(layout, "set", np.array([1])), masks[1:])
    name = made(layout, weights_file(tmp_path), pool="footprint")
    spread = feature_sets.views(layout, "set", name)[0, 0]
    only_bright = np.concatenate([np.full(6, 1.5), np.zeros(6)]) @ np.random.default_rng(0).normal(size=(12, D))
    np.testing.assert_allclose(spread, only_bright, rtol=5e-3, atol=5e-3)


def test_a_job_that_is_cancelled_leaves_nothing(chipped: Layout, tmp_path: Path) -> None:
    job = job_of(chipped)
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        features(job, request=request_of(weights_file(tmp_path)), use=True)
    assert [one.name for one in feature_sets.all_sets(chipped, "set")] == ["rcf"]
    assert not list((chipped.folder / "chips").glob("*resnet*"))


def test_making_a_set_clears_up_after_a_kill_and_keeps_no_paths(chipped: Layout, tmp_path: Path) -> None:
    left = chipped.folder / "chips" / ".set.resnet18-00000000.features.npy.0123456789abcdef.part"
    left.touch()
    name = made(chipped, weights_file(tmp_path))
    assert not left.exists()
    assert str(tmp_path) not in chipped.feature_facts("set", name).read_text()


def test_mistakes_end_in_words(chipped: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PuGeoError, match=r"gone\.safetensors is not there"):
        made(chipped, tmp_path / "gone.safetensors")
    folder = {"maker": f"local-dir:{tmp_path}", "weights": ""}
    with pytest.raises(PuGeoError, match=r"config\.json is not there"):
        features(job_of(chipped), request={**request_of(tmp_path), **folder})
    with pytest.raises(PuGeoError, match="have no weights and no settings"):
        features(job_of(chipped), request={"maker": "rcf", "pool": "cls"})
    save_file({"weight": np.full((12, D), np.inf, np.float32)}, tmp_path / "odd.safetensors")
    with np.errstate(all="ignore"), pytest.raises(PuGeoError, match="no finite numbers"):
        made(chipped, tmp_path / "odd.safetensors")
    assert not list((chipped.folder / "chips").glob("*resnet*"))
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


def test_groups_of_sensors_are_matched_below_zero_as_well() -> None:
    """Two groups of the same content, of which one has half the contrast: after it, both have the same mean and spread."""
    rng = np.random.default_rng(0)
    views = rng.normal(0.5, 2, (1, 200, 3)).astype(np.float16)
    group = np.repeat([0, 1], 100)
    views[:, 100:] *= 0.25
    assert sensors.match_groups(views, group, np.ones(200, np.bool_), is_signed=True) == (1,)
    first, second = (np.sign(part) * np.sqrt(np.abs(part)) for part in np.split(views[0].astype(np.float32), 2))
    np.testing.assert_allclose(first.mean(0), second.mean(0), atol=0.02)
    np.testing.assert_allclose(first.std(0), second.std(0), atol=0.02)
    assert (views[:, 100:] < 0).any()
