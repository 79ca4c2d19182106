"""The check of a project finds what is damaged, missing or left over, and repairs what costs nobody anything."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli_parts import CommandLine
from small_parts import add_chips, add_run, click, job_of, unheld_job

from pu_geo import jobs
from pu_geo.lifecycle import doctor_job
from pu_geo.store import backups, discoveries, in_use, store
from pu_geo.store.layout import Layout, write_json

IDS = [f"b{i}" for i in range(20)]


@pytest.fixture
def whole(project: Layout) -> Layout:
    """A project with chips, a run and a backup."""
    add_chips(project, IDS, chips=np.zeros((20, 3, 16, 16), np.uint8), features=np.zeros((17, 20, 8), np.float16))
    add_run(project, "run-1")
    write_json(project.quicklooks / "post" / "pyramid.json", {"n_tiles": 0})
    click(project, "b1")
    backups.make(project, "asked")
    return project


def found(layout: Layout, level: str = "problem", **how: bool) -> dict[str, str]:
    """Return what the check says of a level: word -> words."""
    return {one.about: one.words for one in doctor_job.examine(layout, **how) if one.level == level}


def test_a_whole_project_has_no_problem(whole: Layout) -> None:
    assert found(whole, full=True) == {}
    assert {"database", "chips", "runs"} <= found(whole, "ok").keys()


def test_a_damaged_and_a_missing_database_are_problems(whole: Layout) -> None:
    in_use.let_go(whole)
    content = whole.gpkg.read_bytes()
    with whole.gpkg.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\x77" * (len(content) - 4096 * 4))
    for tail in ("-wal", "-shm"):
        Path(f"{whole.gpkg}{tail}").unlink(missing_ok=True)
    assert "damaged" in found(whole)["database"]
    whole.gpkg.unlink()
    assert found(whole)["database"] == "project.gpkg is gone."


def test_files_that_rows_name_and_that_are_gone_are_problems(whole: Layout) -> None:
    whole.chips("set").unlink()
    whole.features("set").write_bytes(b"half")
    assert "set.npy and set.features.npy (damaged)" in found(whole)["chips"]
    (whole.run("run-1") / "building_ids.json").unlink()
    assert "building_ids.json" in found(whole)["runs"]
    shutil.rmtree(whole.quicklooks)
    assert "quicklooks" in found(whole)["pictures"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gone", "half", "flipped", "empty", "a folder"])
def test_each_damage_of_what_is_finished_is_named_where_all_is_read(ranked_town: Layout, how: str, run: CommandLine) -> None:
    run.text("publish", ranked_town.folder, "--formats", "csv")
    discoveries.keep(
        ranked_town,
        job_of(ranked_town).folder / "groups",
        {"discovery": "types-1", "made_at": "x"},
        ["a", "b"],
        np.zeros(2, np.int16),
    )
    assert found(ranked_town, full=True) == {}
    patterns = ("chips/*", "runs/*/*", "exports/v1/**/*", "discoveries/*/*")
    files = [path for pattern in patterns for path in ranked_town.folder.glob(pattern) if path.is_file()]
    assert len(files) > 19
    for path in files:
        content = path.read_bytes()
        path.unlink()
        if how == "a folder":
            path.mkdir()
        elif how != "gone":
            middle = len(content) // 2
            flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            path.write_bytes({"half": content[:middle], "flipped": flipped, "empty": b""}[how])
        words = " ".join(found(ranked_town, full=True).values())
        assert path.name in words, f"{path.name} {how}: {words}"
        path.rmdir() if how == "a folder" else path.unlink(missing_ok=True)
        path.write_bytes(content)


def test_a_changed_file_of_a_run_or_a_backup_is_found_when_all_is_read(whole: Layout) -> None:
    older = backups.make(whole, "asked")
    backups.make(whole, "asked")
    for path in (whole.run("run-1") / "scores.npy", older.path):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    assert found(whole) == {}
    assert {"runs", "backups"} == found(whole, full=True).keys()


def test_scenes_that_are_gone_are_a_note_and_other_files_in_their_place_a_problem(whole: Layout, tmp_path: Path) -> None:
    assert "post-1" in found(whole, "note")["scenes"]  # its file was never there
    other = tmp_path / "other.tif"
    other.write_bytes(b"other")
    with store.connect(whole) as db:
        change = "UPDATE scene SET facts = json_set(facts, '$.path', ?, '$.size_bytes', 7, '$.ends_sha256', 'x')"
        db.execute(change, (str(other),))
    assert "another file" in found(whole)["scenes"]
    (hint,) = (one.hint for one in doctor_job.examine(whole) if one.about == "scenes" and one.level == "problem")
    assert f"`pu-geo repair relink {whole.folder} {other} NEW_FILE`" in hint


def test_what_is_odd_of_files_and_jobs_is_named(whole: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole.folder / "runs" / "lost").mkdir()
    assert "lost" in found(whole, "note")["orphans"]
    folder = unheld_job(whole, "rank", {})
    assert folder.name in found(whole, "note")["jobs"]
    monkeypatch.setattr(doctor_job.shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000_000))
    assert "left" in found(whole)["disk"]


def test_leftovers_are_removed_only_if_asked_and_nobody_works_on_them(whole: Layout) -> None:
    of_job, of_restore = whole.exports / ".new-abcdefgh", whole.folder / ".restore-abcdefgh"
    of_backup = whole.backups / f".x.gpkg.{'0' * 16}.part"
    for folder in (of_job, of_restore):
        (folder / "map").mkdir(parents=True)
    of_backup.write_bytes(b"half")
    os.utime(of_backup, (0, 0))
    assert all(path.name in found(whole, "note")["temporary"] for path in (of_job, of_restore, of_backup))
    lock = jobs.take_lock(unheld_job(whole, "rank", {}))
    try:
        with in_use.alone(whole):
            doctor_job.examine(whole, fix=True)
    finally:
        os.close(lock)
    assert [path.exists() for path in (of_job, of_restore, of_backup)] == [True, True, False]
    done = {one.about: one for one in doctor_job.examine(whole, fix=True)}["temporary"]
    assert (done.level, done.fixed) == ("ok", "Mended.")
    assert not any(path.exists() for path in (of_job, of_restore))
    assert whole.chips("set").is_file()


def test_a_project_without_a_backup_gets_one_if_asked(project: Layout) -> None:
    assert found(project, "note")["backups"] == "There is no backup."
    (made,) = (one for one in doctor_job.examine(project, fix=True) if one.about == "backups")
    assert (made.level, backups.newest(project) is not None) == ("ok", True)


def test_the_command_ends_with_two_where_a_problem_remains(whole: Layout, run: CommandLine) -> None:
    result = json.loads(json.dumps(doctor_job.doctor(job_of(whole))))
    report = run.json("repair", "doctor", whole.folder)
    assert result["n_problems"] == report["n_problems"] == 0
    assert {one["about"] for one in result["findings"]} == {one["about"] for one in report["findings"]} >= {"database"}
    (whole.run("run-1") / "scores.npy").unlink()
    code, out, _ = run("repair", "doctor", whole.folder)
    assert (code, "PROBLEM Of the run run-1" in out, out.strip().endswith("1 problem found.")) == (2, True, True)
    # without a project the machine is described
    report = run.json("repair", "doctor")
    assert {one["about"] for one in report["findings"]} == {"versions", "torch", "rasterio", "home"}
