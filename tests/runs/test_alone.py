"""A copy of a project is trained in on a bare machine, and its run is the one that would have been trained here."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model_parts import with_chips
from small_parts import REPOSITORY, click, facts_of

from pu_geo import cli, jobs
from pu_geo.lifecycle.copying import copy_project
from pu_geo.runs import __main__ as alone
from pu_geo.runs import train_job as train_task
from pu_geo.store import contents, events, labels, runs, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout
from pu_geo.training.checkpoints import Checkpoints

pytestmark = pytest.mark.slow
SHORT = ["--method", "ncpu", "--seed", "5", "--set", "epochs=3", "--set", "max_steps=6", "--set", "batch_size=10"]
CHIPS = [*SHORT, "--set", "backbone=small", "--hold-out", "1"]


@pytest.fixture
def copied(project: Layout, tmp_path: Path) -> Layout:
    copy_project(with_chips(project), str(tmp_path / "copy.pugeo"))
    return Layout(tmp_path / "copy.pugeo")


def run_of(layout: Layout) -> str:
    (folder,) = (layout.folder / "runs").iterdir()
    return folder.name


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(CHIPS, marks=pytest.mark.ci, id="chips"),
        pytest.param(["--seed", "5"], marks=pytest.mark.long(part="slow"), id="recommended"),
    ],
)
def test_bare_machine_trains_and_the_project_takes_the_run(
    words: list[str], project: Layout, copied: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        sys.executable,
        str(REPOSITORY / "tests" / "runs" / "bare_box.py"),
        str(copied.folder),
        "--from-elsewhere",
        *words,
    ]
    environment = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    run_id = run_of(copied)
    assert done.stdout.splitlines()[-1].endswith(f"pu-geo model apply PROJECT copy.pugeo/runs/{run_id}")
    assert jobs.all_jobs(copied) == []
    assert cli.main(["model", "apply", str(project.folder), str(copied.folder), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["n_positive"] == (5 if "--hold-out" in words else 6)
    assert facts_of(project).from_model is None


def test_stopped_it_goes_on_to_the_same_bits_and_learns_from_new_clicks(
    copied: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_project(copied, str(tmp_path / "cut.pugeo"))
    cut = Layout(tmp_path / "cut.pugeo")
    assert alone.main([str(copied.folder), *SHORT]) == 0
    monkeypatch.setattr(train_task, "Checkpoints", lambda folder: Checkpoints(folder, seconds_between=0.0))
    asked = iter([False, False, True])  # two batches an epoch: it ends in the second one
    monkeypatch.setattr(Job, "is_cancelled", lambda _: next(asked))
    assert alone.main([str(cut.folder), *SHORT]) == 1
    monkeypatch.setattr(Job, "is_cancelled", lambda _: False)
    assert not (cut.folder / "runs").exists()
    assert alone.main([str(cut.folder), *SHORT]) == 0
    for name in ("scores", "embeddings"):
        arrays = [np.asarray(runs.array(layout, run_of(layout), name)) for layout in (copied, cut)]
        np.testing.assert_array_equal(*arrays)
    (folder,) = cut.jobs.iterdir()
    epochs = [event["epoch"] for event in events.read(folder) if event["event"] == "epoch"]
    assert epochs == [1, 2, 3]  # the first one was not done again
    assert alone.main([str(cut.folder), *SHORT]) == 0
    first = run_of(cut)  # called once more, it does nothing again
    with store.connect(cut) as db:
        added = next(name for name in contents.building_ids(db) if name not in labels.current_labels(db))
    click(cut, added)
    assert alone.main([str(cut.folder), *SHORT]) == 0
    with store.connect(cut) as db:  # new clicks are learned from
        found = {facts.run_id: facts.at_event for facts in runs.all_runs(db)}
        assert len(found) == 2
        assert max(found.values()) == labels.last_event(db) != found[first]


def test_what_cannot_be_trained_is_refused(copied: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in (
        ([str(tmp_path)], "is not a PU-Geo project"),
        ([str(copied.folder), "--set", "epoch=1"], "no setting 'epoch'"),
        ([str(copied.folder), "--hold-out", "6"], "would leave 0"),
    ):
        assert alone.main(words) == 2
        assert problem in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        alone.main([str(copied.folder), "--set", "epochs"])
    assert "not of the form KEY=VALUE" in capsys.readouterr().err
