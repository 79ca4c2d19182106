"""Every job that comes to a full disk ends in words, and leaves no halves behind. The disks are small ones of memory."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from jobs import kill_driver
from jobs.test_kills import ended, mounted, warm_launcher
from layer_parts import speckle, town_layer
from scenes.test_scenes_job import pair
from small_parts import click, facts_of, in_tiers, job_of, unheld_job

from pu_geo import jobs
from pu_geo.errors import PuGeoError
from pu_geo.explore import looks, selections
from pu_geo.federation.agreement import Plan
from pu_geo.jobs import tasks
from pu_geo.lifecycle.remove_job import replace_footprints
from pu_geo.maps import thresholds
from pu_geo.records import FeatureRequest
from pu_geo.runs import models
from pu_geo.runs.train_job import train
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.features_job import features
from pu_geo.scenes.layers_job import add_layer
from pu_geo.store import contents, labels, leftovers, runs, store
from pu_geo.store.layout import Layout

__all__ = ["warm_launcher"]
pytestmark = pytest.mark.slow

DISK_MB = 48
SHORT = {"epochs": "4", "max_steps": "20", "batch_size": "16", "warmup_epochs": "1"}
TRAINING = {"method": "ncpu", "preset": "quick", "seed": 3, "overrides": SHORT}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("disk"), DISK_MB) as place:
        yield place


@pytest.fixture(scope="module")
def prepared(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a town of two runs, copies of it for tasks that need more, an empty project, and the files that jobs add."""
    folder = tmp_path_factory.mktemp("prepared")
    layout = Layout(Path(shutil.copytree(town / "ranked.pugeo", folder / "town.pugeo")))
    ids = store.call(layout, contents.building_ids)
    click(layout, *ids[6:26:2])
    click(layout, *ids[7:27:2], label="not_damaged")
    train(job_of(layout, "train"), **TRAINING)
    run_id = facts_of(layout).run_id
    selections.save(layout, "roofs", runs.building_ids_of(layout, run_id)[:9], run_id=run_id, analyst="ann")
    models.export(layout, run_id, str(folder / "model.zip"))
    layered = Layout(Path(shutil.copytree(town / "ranked.pugeo", folder / "layered.pugeo")))
    click(layered, *ids[6:26:2])
    for name in ("sar", "other-sar"):
        town_layer(town, folder / f"{name}.tif", speckle(64, 80, 1, len(name)))
    add_layer(job_of(layered, "layer"), name="sar", paths=[str(folder / "sar.tif")])
    chip(job_of(layered, "chips"))
    agency = Layout(Path(shutil.copytree(layout.folder, folder / "agency.pugeo")))
    features(job_of(agency, "features"), request=asdict(FeatureRequest("shared", n_views=2)), use=True)
    store.create(folder / "empty.pugeo", "Empty")
    shutil.copy2(town / "pre.tif", folder / "moved.tif")
    footprints = json.loads((town / "footprints.geojson").read_text())
    (folder / "fewer.geojson").write_text(json.dumps({**footprints, "features": footprints["features"][::2]}))
    pair(folder / "xbd", "joplin-tornado_00000000", 400_000)
    return folder


def arguments(task: str, prepared: Path, layout: Layout, town: Path) -> Mapping[str, Any]:
    """Return what a task is started with; most of them could write a file of their own then."""
    files = {name: [str(town / f"{name}.tif")] for name in ("pre", "post")}
    footprints, run_id = str(town / "footprints.geojson"), "latest"
    replacing = {"path": str(prepared / "fewer.geojson"), "analyst": "ann"}
    if task in ("sum_up", "export", "export_selection", "publish"):
        run_id = facts_of(layout).run_id
    numbers: dict[str, Callable[[], Mapping[str, Any]]] = {
        "prepare": lambda: {**files, "footprints": [footprints]}, "add_scenes": lambda: files,
        "next_round": lambda: {"previous": str(prepared / "town.pugeo"), **files},
        "add_layer": lambda: {"name": "sar", "paths": [str(prepared / "sar.tif")]}, "add_xbd": lambda: {"folder": str(prepared / "xbd")},
        "add_footprints": lambda: {"paths": [footprints]}, "add_aoi": lambda: {"path": footprints},
        "add_areas": lambda: {"path": footprints, "layer": "blocks"}, "sum_up": lambda: {"run_id": run_id, "threshold": 0.5},
        "add_grid": lambda: {"size_m": 8.0}, "features": lambda: {"request": {"maker": "self-supervised", "n_views": 2}},
        "train": lambda: TRAINING,
        "apply_model": lambda: {"path": str(prepared / "model.zip")},
        "federate_simulate": lambda: {
            "federation": "storms", "plan": asdict(Plan("Storms", ("damaged",), rounds=2)),
            "parties": {str(layout.folder): {"damaged": None, "rest": None}},
        },
        "look": lambda: looks.arguments(layout, looks.LOOK), "discover": lambda: {"n_seeds": 2},
        "export": lambda: {"run_id": run_id, "format": "csv", "out": str(layout.exports / "map.csv")},
        "export_selection": lambda: {
            **thresholds.map_arguments(layout, run_id, None), "decision": selections.saved(layout)[0].decision, "formats": ["csv"],
        },
        "publish": lambda: {"run_id": run_id, "threshold": 0.5, "formats": ["csv", "gpkg"]},
        "relink": lambda: {"old": str(town / "pre.tif"), "new": str(prepared / "moved.tif")},
        "remove_scene": lambda: {"name": "pre", "analyst": "ann"},
        "replace_scene": lambda: {"name": "pre", "path": str(town / "post.tif"), "analyst": "ann"},
        "replace_layer": lambda: {"name": "sar", "paths": [str(prepared / "other-sar.tif")], "analyst": "ann"},
        "remove_footprints": lambda: {"name": "all", "analyst": "ann"},
        "replace_footprints": lambda: replacing | {"confirmed": replace_footprints(job_of(layout), **replacing)["plan"]},
    }  # fmt: skip
    return numbers[task]() if task in numbers else {}


FULL = r"The disk that holds .* is full|could not be written to the end|free on the disk of|cannot be written: No space left"
IN_TOWN = ("chip", "rank")  # tasks for which the town as it is does
PROJECTS = {
    **dict.fromkeys(IN_TOWN, "ranked"),
    **dict.fromkeys(("prepare", "add_scenes", "add_xbd", "next_round"), "empty"),
    "replace_layer": "layered",
    "federate_simulate": "agency",
}
NEED_FLOWER = ("federate_lead", "federate_join")  # the extra, which this environment may lack
MOMENTS = ("started 1 0", "started 1 100000", "started 1 400000", "progress 1 8192")
IN_CI = (("chip", "started 1 100000"), ("rank", "progress 1 8192"))
CASES = [(task, moment) for task in sorted(tasks.every()) if task not in NEED_FLOWER for moment in MOMENTS]


@pytest.mark.parametrize(("task", "moment"), in_tiers(CASES, "disk", ci=IN_CI))
def test_a_job_on_a_full_disk_ends_in_words(
    task: str, moment: str, disk: Path, town: Path, warm_launcher: Path, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prepared: Path = town if task in IN_TOWN else request.getfixturevalue("prepared")
    layout = Layout(Path(shutil.copytree(prepared / f"{PROJECTS.get(task, 'town')}.pugeo", disk / "event.pugeo")))
    layout.exports.mkdir(exist_ok=True)
    try:
        folder = unheld_job(layout, task, arguments(task, prepared, layout, town))
        (folder / kill_driver.FILL_AT).write_text(moment)
        monkeypatch.setattr(sys, "executable", str(warm_launcher))  # for workers alone: a reader of files is no job
        jobs.launch(folder)
        seen = ended(layout, folder)
        for follows in jobs.all_jobs(layout):
            jobs.wait(layout, follows.job_id, seconds=120)
        log = (folder / "log.txt").read_text()
        assert seen.state == "failed" or (seen.state == "done" and moment != "started 1 0"), (seen, log)
        words = f"{seen.problem} {seen.hint}"
        assert seen.state == "done" or re.search(FULL, words), (words, log)
        assert "PU-Geo" not in seen.problem, "it is no fault of ours"
        (folder / "filler").unlink()
        assert leftovers.find(layout) == []
        assert not [path for path in layout.folder.rglob(".*") if path.suffix in (".part", ".tmp") or ".new-" in path.name]
    finally:
        shutil.rmtree(layout.folder, ignore_errors=True)


def test_a_project_that_nobody_has_open_is_read_on_a_full_disk_and_takes_no_answer(disk: Path, town: Path) -> None:
    layout = Layout(Path(shutil.copytree(town / "ranked.pugeo", disk / "event.pugeo")))
    try:
        n = store.call(Layout(town / "ranked.pugeo"), labels.last_event)
        kill_driver.fill(disk)
        assert store.call(layout, labels.last_event) == n
        with pytest.raises(PuGeoError, match="is full: what was to be stored was not"):
            click(layout, "b000001")
        (disk / "filler").unlink()
        click(layout, store.call(layout, contents.building_ids)[0])
    finally:
        (disk / "filler").unlink(missing_ok=True)
        shutil.rmtree(layout.folder, ignore_errors=True)
