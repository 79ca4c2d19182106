"""The whole way through the command line: from scenes and footprints to an exported map, made up and real."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from cli_parts import CommandLine

from pu_geo import cli
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.tasks.job import Job

DAMAGED = ("--positive", "destroyed", "--positive", "major-damage")
N_SEEDS = 3
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


@pytest.fixture
def chipped(chipped_town: Layout) -> Path:
    return chipped_town.folder


def test_every_verb_from_scene_to_map(run: CommandLine, town: Path, tmp_path: Path) -> None:
    path = chipped = tmp_path / "tiny.pugeo"
    run.json("init", path, "--name", "Tiny")
    scenes = run.json("add-scene", path, "--pre", town / "pre.tif", "--post", town / "post.tif")
    assert (scenes["width"], scenes["height"], scenes["added"]) == (320, 256, ["pre-1", "post-1"])
    added = run.json("add-footprints", path, town / "footprints.geojson")
    assert added["added"] == added["n_in"]
    made = run.json("chip", path)
    assert (made["n"], made["size_px"], made["bands"]) == (added["n_in"], 64, "pre+post")
    labelled = ("label", chipped, "--from-field", "damage", "--is", "destroyed", "--is", "major-damage", "--is")
    run.json(*labelled, "no-damage", "--count", "8", "--seed", "1")
    ranked = run.json("rank", chipped)
    trained = [
        run.json("train", chipped, "--method", method, "--set", "epochs=3", "--seed", "2") for method in ("ncpu", "pucl")
    ]
    trained.append(run.json("train", chipped))
    truth = ("--field", "damage", "--positive", "no-damage")
    measured = run.json("evaluate", chipped, "--run", ranked["run_id"], *truth)
    n = len(json.loads((town / "footprints.geojson").read_text())["features"])
    assert measured["n"] == n - 8
    assert 0 <= float(str(measured["auc"])) <= 1
    out = tmp_path / "map.geojson"
    exported = run.json("export", chipped, "--run", trained[0]["run_id"], "--out", out, "--threshold", "0.5")
    frame = geopandas.read_file(out)
    source = geopandas.read_file(town / "footprints.geojson")
    assert len(frame) == exported["n"] == len(source)
    placed = source.set_index("uid").loc[frame.building_id].geometry.to_numpy()
    moved_deg = shapely.distance(shapely.centroid(frame.geometry.to_numpy()), shapely.centroid(placed))
    assert moved_deg.max() < 1e-6
    assert (frame.label == "damaged").sum() == 8
    assert sorted(frame["rank"].dropna()) == list(range(1, n + 1))
    with store.connect(Layout(chipped)) as db:
        assert len(runs.all_runs(db)) == 4
        assert [runs.find(db, str(run["run_id"])).method for run in trained] == ["ncpu", "pucl", "propagation"]


def test_steps_out_of_order_are_refused_in_words(run: CommandLine, town: Path, tmp_path: Path) -> None:
    path = tmp_path / "order.pugeo"
    run.json("init", path, "--name", "Order")
    assert "no post-event scene" in run.refused("add-footprints", path, town / "footprints.geojson")
    assert "no post-event scene" in run.refused("chip", path)
    run.json("add-scene", path, "--post", town / "post.tif")
    assert "no footprints" in run.refused("chip", path)
    run.json("add-footprints", path, town / "footprints.geojson")
    assert "no pre-event scene" in run.refused("chip", path, "--bands", "pre+post")
    assert "no chips yet" in run.refused("rank", path)
    assert "no run 'chosen'; its runs are: none yet" in run.refused("export", path, "--out", tmp_path / "x.geojson")
    assert run.json("chip", path, "--bands", "post", "--size-px", "32")["bands"] == "post"
    assert "damaged building" in run.refused("rank", path)
    assert "no method" in run.refused("train", path, "--method", "magic")


def test_joplin_reaches_what_was_promised(run: CommandLine, joplin: Path, tmp_path: Path) -> None:
    """AUC on real imagery from 30 clicks, mean over seeds: the ranker at least .86, NcPU quick at least .90."""
    scenes = [joplin / f"joplin-tornado_0000000{i}" for i in (0, 1)]
    found: dict[str, list[float]] = {"rank": [], "train": []}
    first = tmp_path / "joplin.pugeo"
    run.json("init", first, "--name", "Joplin")
    pre, post = ([str(scene / f"{date}.tif") for scene in scenes] for date in ("pre", "post"))
    run.json("add-scene", first, "--pre", pre[0], "--pre", pre[1], "--post", post[0], "--post", post[1])
    for scene in scenes:
        run.json("add-footprints", first, scene / "buildings.geojson")
    assert run.json("chip", first)["n"] == 383
    for seed in range(N_SEEDS):
        damaged = ("--from-field", "damage", "--is", "destroyed", "--is", "major-damage")
        run.json("label", first, *damaged, "--count", 30, "--seed", seed)
        for task, arguments in (("rank", ()), ("train", ("--method", "ncpu", "--seed", str(seed)))):
            run.json(task, first, *arguments)
            measured = run.json("evaluate", first, "--field", "damage", *DAMAGED, "--exclude", "un-classified")
            found[task].append(float(str(measured["auc"])))
        with store.connect(Layout(first)) as db:
            undone = labels.undo(db, f"undo-{labels.last_event(db)}", analyst=labeling.default_analyst(), screen="cli")
        assert len(undone) == 30
    assert np.mean(found["rank"]) >= 0.86
    assert np.mean(found["train"]) >= 0.90


def test_export_replaces_nothing_but_exports(run: CommandLine, chipped: Path, town: Path, tmp_path: Path) -> None:
    run.json("label", chipped, "--from-field", "damage", "--is", "no-damage", "--count", "5")
    run.json("rank", chipped)
    for out in (chipped / "project.gpkg", chipped / "chips" / "x.geojson", town / "post.tif"):
        assert "belongs to a project" in run.refused("export", chipped, "--out", out)
    assert "is a folder" in run.refused("export", chipped, "--out", tmp_path)
    with store.connect(Layout(chipped)) as db:
        assert contents.count_footprints(db) > 0
    (chipped / "exports").mkdir()
    run.json("export", chipped, "--out", chipped / "exports" / "map.geojson")


def test_cancelled_add_scene_leaves_everything_as_it_was(
    run: CommandLine, chipped: Path, town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(chipped)
    before = {path: path.read_bytes() for path in layout.quicklooks.rglob("*") if path.is_file()}
    other = tmp_path / "other.tif"
    with rasterio.open(town / "post.tif") as source:
        profile, picture = source.profile, source.read()
    a, b, c, d, e, f = source.transform[:6]
    profile.update(transform=rasterio.Affine(a, b, c + 100, d, e, f))
    with rasterio.open(other, "w", **profile) as target:
        target.write(picture[::-1])
    monkeypatch.setattr(Job, "is_cancelled", lambda _: True)
    assert cli.main(["add-scene", str(chipped), "--post", str(other)]) == 1
    assert {path: path.read_bytes() for path in layout.quicklooks.rglob("*") if path.is_file()} == before
    with store.connect(layout) as db:
        assert len(contents.scenes(db)) == 2
        assert contents.grid(db).width == 320
    monkeypatch.undo()
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home2"))
    assert run.json("add-scene", chipped, "--post", other)["width"] == 520
