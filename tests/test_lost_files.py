"""Projects that lost a folder or a file beside their database, or hold a damaged one: each screen, command and route says so."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from app_parts import shell
from cli_parts import CommandLine
from route_parts import get
from small_parts import add_run, in_tiers, small_project
from starlette.applications import Starlette
from type_parts import discovered

from pu_geo import cli
from pu_geo.assessment import random_audits
from pu_geo.lifecycle import projects
from pu_geo.store.layout import Layout
from pu_geo.ui.routes import PREFIX, routes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]
SCREENS = ("project", "imagery", "annotate", "train", "explore", "damage_map")
QUICK = ("runs", "chips/set.json!")
IN_CI = ("runs/ranker-1/scores.npy!", "chips", "jobs/*/spec.json!", "checks/*.npz")
THINGS = (
    *QUICK, *IN_CI, "runs/ranker-1", "runs/ranker-1/scores.npy", "runs/ranker-1/embeddings.npy", "runs/ranker-1/building_ids.json",
    "runs/ranker-1/building_ids.json!", "runs/ranker-1/manifest.json", "chips/set.npy", "chips/set.npy!", "chips/set.json",
    "chips/set.features.npy", "chips/set.features.npy!", "chips/set.filters.npz", "chips/set.filters.npz!",
    "jobs", "jobs/*/spec.json", "jobs/*/events.jsonl!", "quicklooks", "discoveries", "discoveries/*/discovery.json",
    "discoveries/*/discovery.json!", "discoveries/*/groups.npy", "discoveries/*/building_ids.json", "queues", "queues/*!", "checks",
    "checks/*.json", "checks/*.json!", "exports", "exports/v1/version.json", "exports/v1/version.json!", "exports/v1/state.json.gz",
)  # fmt: skip
"""What is removed; with an exclamation mark it is overwritten in its place."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project with chips, two runs, an audit, a version, a discovery and jobs."""
    layout = small_project(tmp_path_factory.mktemp("whole") / "event.pugeo")
    discovered(layout)
    layout.quicklooks.mkdir()
    rows = np.eye(20, dtype=np.float32)
    for run_id in ("ranker-0", "ranker-1"):
        add_run(layout, run_id, arrays={"embeddings": rows, "clusters": np.arange(20, dtype=np.int8) % 2})
    assert cli.main(["publish", str(layout.folder), "--formats", "csv"]) == 0
    random_audits.begin_audit(layout, "ranker-1", 8, "ann")
    return layout.folder


@pytest.fixture
def lossy(whole: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Layout:
    """Copy it, and lose one thing."""
    layout, thing = Layout(Path(shutil.copytree(whole, tmp_path / "event.pugeo"))), request.param
    for path in [one for one in layout.folder.glob(thing.rstrip("!")) if one.name != "lock"]:
        if thing.endswith("!"):
            path.write_bytes(b"\0{broken")
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return layout


every_loss = pytest.mark.parametrize("lossy", in_tiers(THINGS, "lost", quick=QUICK, ci=IN_CI), indirect=True)


@every_loss
def test_every_screen_is_drawn_without_what_is_lost(lossy: Layout) -> None:
    for screen in SCREENS:
        for error in shell(lossy, screen).error:
            assert "event.pugeo" in error.value


@every_loss
def test_every_command_ends_well_or_in_words(lossy: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, project = CommandLine(capsys), lossy.folder
    one = ("--run", "ranker-1")
    for words in (
        ["repair", "doctor", project], ["runs", "list", project], ["jobs", project], ["rank", project],
        ["train", project, "--method", "pucl", "--preset", "quick", "--set", "epochs=1", "--set", "batch_size=10"],
        ["export", project, *one, "--out", tmp_path / "map.geojson"], ["publish", project, *one, "--formats", "csv"],
        ["evaluate", project, *one, "--field", "damage", "--positive", "destroyed"], ["card", project, *one, "--out", tmp_path / "card.html"],
        ["compare", project, "--runs", "ranker-0", "ranker-1"], ["audit", project, *one], ["choose", project, *one],
        ["features", project, "--list"], ["similar", project, *one, "--building", "b1"], ["label-errors", project],
        ["types", project], ["model", "export", project, "ranker-1", "--out", tmp_path / "model.zip"],
        ["export-labels", project, "--out", tmp_path / "labels.csv"], ["project", "copy", project, tmp_path / "copy.pugeo"],
        ["remove", project, "chips", "set", "--dry-run"], ["remove", project, "run", "ranker-0", "--dry-run"],
    ):  # fmt: skip
        code, _, err = run(*words)
        assert code in (0, 2)
        assert "fault in PU-Geo" not in err, (words, err)


@every_loss
def test_no_route_fails(lossy: Layout) -> None:
    token = projects.token_of(lossy)
    app = Starlette(routes=routes())
    for address in (
        "scores/ranker-1.bin", "scores/live-1-0.bin", "similar/1.f32", "dots/look/plane.bin", "dots/ranker-1/plane.bin",
        "dots/ranker-1/color.bin", "shifts.bin", "story/1.json", "outlines.bin", "tiles/post/0/0/0.jpg",
        "exports/v1.zip", "exports/v1/damage_map.csv",
    ):  # fmt: skip
        status, _, body = get(app, f"{PREFIX}/{token}/{address}")
        assert status in (200, 404, 503), body


@pytest.mark.parametrize("lossy", ["runs/ranker-1"], indirect=True)
def test_the_error_names_the_file_and_the_way_out(lossy: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    truth = ("--field", "damage", "--positive", "destroyed")
    err = CommandLine(capsys).refused("evaluate", lossy.folder, "--run", "ranker-1", *truth)
    assert "runs/ranker-1/building_ids.json of event.pugeo is missing" in err
    assert "pu-geo remove event.pugeo run ranker-1" in err
    assert "pu-geo repair doctor event.pugeo" in err


@pytest.mark.parametrize("lossy", ["chips"], indirect=True)
def test_buildings_are_clicked_and_chips_cut_again_where_chips_are_lost(lossy: Layout) -> None:
    assert shell(lossy, "annotate").error[0].value.startswith("**The file chips/set.")
    app = shell(lossy, "imagery")
    assert "chips/set.json" in app.error[0].value.replace("\\", "")
    assert "Cut chips" in " ".join(button.label for button in app.button)
