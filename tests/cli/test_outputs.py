"""What scripts rely on: the output of verbs, to the byte. `outputs.json` is what this file prints as a program."""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from mapped_parts import RUN, mapped_project
from small_parts import with_key

from pu_geo import cli
from pu_geo.jobs.status import write_spec

OUTPUTS = Path(__file__).parent / "outputs.json"
STREAM = """\
{"op": "a", "building_id": "b1", "label": "positive"}
not json
{"op": "b"}
["op"]

{"op": "c", "building_id": "nobody", "label": "positive"}
{"op": "d", "building_id": "b2", "label": "burnt"}
{"op": "d", "building_id": "b2", "label": "positive", "reason": "cloud"}
{"op": "e", "building_id": "b2", "label": "not_damaged"}
{"op": "f", "building_id": "b3", "label": "not_assessable", "reason": "cloud"}
{"op": "Zürich", "building_id": "b4", "label": "positive"}
{"op": "g", "building_id": "b1", "label": null}
{"op": "a", "building_id": "b1", "label": "positive"}
"""
TRUTH = ("--field", "damage", "--positive", "destroyed")
CASES: dict[str, tuple[str, ...]] = {
    "label": ("label", "event.pugeo", "--stdin", "--analyst", "ann"), "label, no project": ("label", "none.pugeo", "--stdin"),
    "inspect": ("inspect", "bad.tif", "none.tif", "points.geojson", "notes.txt"),
    "inspect --json": ("inspect", "bad.tif", "none.tif", "points.geojson", "notes.txt", "--json"),
    "evaluate": ("evaluate", "event.pugeo", *TRUTH), "evaluate --json": ("evaluate", "event.pugeo", *TRUTH, "--json"),
    "evaluate --json, one left out": ("evaluate", "event.pugeo", *TRUTH, "--exclude", "no-damage", "--run", RUN, "--json"),
    "evaluate --json, no such field": ("evaluate", "event.pugeo", "--field", "x", "--positive", "y", "--json"),
    "jobs": ("jobs", "event.pugeo"), "jobs --json": ("jobs", "event.pugeo", "--json"),
    "jobs log": ("jobs", "event.pugeo", "log", "20260101-000000-bbbbbb"),
    "jobs cancel, ended": ("jobs", "event.pugeo", "cancel", "20260101-000000-aaaaaa", "--json"),
    "jobs pause, ended": ("jobs", "event.pugeo", "pause", "20260101-000000-aaaaaa"),
    "jobs resume, done": ("jobs", "event.pugeo", "resume", "20260101-000000-aaaaaa"),
    "jobs dismiss": ("jobs", "event.pugeo", "dismiss", "20260101-000000-aaaaaa"),
    "jobs, one dismissed": ("jobs", "event.pugeo"), "jobs --all": ("jobs", "event.pugeo", "--all", "--json"),
    "jobs cancel, no id": ("jobs", "event.pugeo", "cancel"), "jobs log, no such job": ("jobs", "event.pugeo", "log", "nothing"),
}  # fmt: skip
JOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "20260101-000000-aaaaaa": (
        {"event": "launched"}, {"event": "progress", "share": 0.25, "message": "clouds over Zürich"},
        {"event": "done", "result": {"n": 3, "run_id": RUN}, "seconds": 1.5},
    ),
    "20260101-000000-bbbbbb": ({"event": "launched"}, {"event": "failed", "problem": "It is full.", "hint": "Make room."}),
    "20260101-000000-cccccc": ({"event": "launched"}, {"event": "progress", "share": 0.5, "message": "epoch 4"}),
    "20260101-000000-dddddd": ({"event": "launched"}, {"event": "cancelled", "seconds": 2.0}),
}  # fmt: skip


def answers(folder: Path) -> dict[str, list[object]]:
    """Run all cases in a folder; return exit code, stdout and stderr of each, with FOLDER for its path."""
    layout = mapped_project(folder, 60)
    for job_id, told in JOBS.items():
        job = layout.jobs / job_id
        job.mkdir(parents=True)
        write_spec(job, "train", {}, "event.pugeo")
        lines = [json.dumps({**event, "at": f"2026-01-01T00:00:0{n}.000Z"}) for n, event in enumerate(told)]
        job.joinpath("events.jsonl").write_text("\n".join(lines) + "\n")
        job.joinpath("log.txt").write_text("printed by a library\n")
    (folder / "bad.tif").write_bytes(b"no tiff at all")
    (folder / "notes.txt").write_text("what is this")
    (folder / "points.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    found: dict[str, list[object]] = {}
    with contextlib.chdir(folder), mock.patch.dict(os.environ, {"PU_GEO_HOME": str(with_key(folder / "home"))}):
        for name, words in CASES.items():
            out, err = io.StringIO(), io.StringIO()
            given = mock.patch("sys.stdin", io.StringIO(STREAM))
            with given, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = cli.main(list(words))
            found[name] = [code, *(each.getvalue().replace(str(folder), "FOLDER") for each in (out, err))]
    return found


@pytest.mark.slow
def test_output_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    recorded = json.loads(OUTPUTS.read_text(encoding="utf-8"))
    found = answers(tmp_path)
    for name, answer in recorded.items():
        assert found[name] == answer, name
    assert list(found) == list(recorded)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        json.dump(answers(Path(place).resolve()), sys.stdout, ensure_ascii=False, indent=1)
        sys.stdout.write("\n")
