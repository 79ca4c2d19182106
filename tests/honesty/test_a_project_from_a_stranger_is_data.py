"""A project that a stranger made, or prepared, is data: whatever is done with it, nothing outside of it changes and nothing is run."""

import ast
import gzip
import json
import os
import secrets
import shutil
import socket
import sqlite3
import struct
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from app_parts import shell
from small_parts import REPOSITORY, add_run, click, in_tiers, small_project, small_scene, unheld_job
from type_parts import discovered

from pu_geo import cli, files, jobs
from pu_geo.assessment import random_audits
from pu_geo.errors import OutOfReach, PuGeoError
from pu_geo.jobs import foreground, status, worker
from pu_geo.lifecycle import doctor_job, projects, recovery, removing, rounds_job
from pu_geo.store import backups, discoveries, labels, leftovers, locks, removals, runs, store, versions
from pu_geo.store.layout import Layout, write_json

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

# One door: nobody else opens a file to write, renames or removes one

DOOR = {"atomic_write", "export_file"}
PRIMITIVES = {
    "unlink", "rmdir", "rename", "touch", "mkdir", "makedirs", "rmtree", "write_text", "write_bytes", "symlink_to", "hardlink_to", "copyfile",
    "copy2", "copytree", "link", "truncate", "chmod", "utime", "removedirs", "remove", "renames", "move", "open_memmap",
}  # fmt: skip
OF_MODULES = {"remove", "link", "move", "truncate"}  # names of `os` and `shutil` alone; ours have some of them, too
ELSEWHERE = {
    "files": "the door itself", "geo.child_process": "in a temporary folder", "geo.readers.footprint_files": "in a temporary folder",
    "geo.export.layers": "in a temporary folder", "jobs.device_queue": "in the user's own folder", "cli.main": "the null device",
    "lifecycle.access": "in the user's own folder", "runs.benchmark_job": "a file that a person named",
    "ui.build": "in the installed package", "ui.routes": "a temporary file", "store.swap": "each path went through the door just before",
    "lifecycle.copying": "into a new folder, each source through the door", "lifecycle.recovery": "into a new folder",
}  # fmt: skip


def _writes(node: ast.Call) -> bool:
    """Return whether a call is one of the primitives."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    of = getattr(function.value, "id", "") if isinstance(function, ast.Attribute) else ""
    texts = [one.value for one in [*node.args, *(key.value for key in node.keywords)] if isinstance(one, ast.Constant)]
    if name == "open":
        flags = " ".join(ast.unparse(one) for one in node.args[1:])
        mode = any(isinstance(text, str) and set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
        return mode or (of == "os" and flags != "os.O_RDONLY")
    if name in ("rename", "replace"):
        return isinstance(function, ast.Attribute) and len(node.args) == 1 and not node.keywords
    return name in PRIMITIVES and isinstance(function, ast.Attribute) and (name not in OF_MODULES or of in ("os", "shutil"))


def _handed_out(tree: ast.AST) -> set[str]:
    """Return the names of temporary files that the door hands out in a module."""
    items = (item for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items)
    calls = ((item.context_expr, item.optional_vars) for item in items if isinstance(item.context_expr, ast.Call))
    return {to.id for call, to in calls if getattr(call.func, "id", "") in DOOR and isinstance(to, ast.Name)}


def test_nobody_writes_renames_or_removes_a_file_but_through_the_door() -> None:
    package, odd = REPOSITORY / "pu_geo", {}
    for path in package.rglob("*.py"):
        tree, name = ast.parse(path.read_text()), ".".join(path.relative_to(package).with_suffix("").parts)
        kept = _handed_out(tree)
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _writes(node)]
        names = [{each.id for each in ast.walk(one) if isinstance(each, ast.Name)} for one in found]
        found = [one for one, used in zip(found, names, strict=True) if not used & {*kept, "to_change"}]
        if "node_modules" not in path.parts and found:
            odd[name] = [f"{one.lineno}: {ast.unparse(one)[:60]}" for one in found]
    assert {name: calls for name, calls in odd.items() if name not in ELSEWHERE} == {}
    assert set(ELSEWHERE) - set(odd) == set(), "these write nothing any more"


def _lock(path: Path) -> None:
    with locks.one_at_a_time(path):
        pass


DOORS: dict[str, Callable[[Path], object]] = {
    "write_json": lambda path: write_json(path, 1), "touch": files.touch, "append_lines": lambda path: files.append_lines(path, "x\n"), "appended": lambda path: files.appended(path, b"x\n").__enter__(),
    "write_file": lambda path: files.write_file(path, b"x"), "make_folder": lambda path: files.make_folder(path / "made"),
    "move_path to": lambda path: files.move_path(_fresh(path), path), "move_path from": lambda path: files.move_path(path, _fresh(path)),
    "remove_path": files.remove_path, "take": lambda path: os.close(locks.take(path) or 0), "one_at_a_time": _lock, "sign": files.sign,
}  # fmt: skip
OFFERED = ("link", "dangling", "folder link", "parent link", "hard link", "dots", "pipe")


def _fresh(path: Path) -> Path:
    project = files.SUFFIX.join(str(path).split(files.SUFFIX)[:1]) + files.SUFFIX
    place = Path(project) / "fresh" / secrets.token_hex(4)
    place.parent.mkdir(exist_ok=True)
    place.write_text("x")
    return place


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("door", DOORS)
def test_no_door_leads_out(tmp_path: Path, door: str, offered: str) -> None:
    outside = _outside(tmp_path)
    project = tmp_path / "event.pugeo"
    (project / "jobs").mkdir(parents=True)
    path = project / "jobs" / "file"
    links = {"link": ".bashrc", "dangling": "autostart", "folder link": "Documents", "parent link": ""}
    if offered in links:
        path.symlink_to(outside / links[offered])
        path = path / "Documents" / "thesis.npy" if offered == "parent link" else path
    elif offered == "hard link":
        path.hardlink_to(outside / ".bashrc")
    elif offered == "dots":
        path = project / "jobs" / ".." / ".." / "outside" / ".bashrc"
    else:
        os.mkfifo(path)
    before = _tree(outside)
    with suppress(OutOfReach, FileExistsError, NotADirectoryError):
        DOORS[door](path)
        assert offered == "hard link" or door == "sign", "it was opened"
    assert _tree(outside) == before


def _outside(tmp_path: Path) -> Path:
    """Make what a person has beside her projects."""
    outside = tmp_path / "outside"
    (outside / "Documents" / ".new-aaaa").mkdir(parents=True)
    (outside / ".bashrc").write_text("alias ll='ls -l'\n")
    np.save(outside / "Documents" / "thesis.npy", np.arange(3))
    for name in ("set2.npy", "set2.features.npy", ".x.0123456789abcdef.part", "spec.json", "version.json", ".new-aaaa/kept"):
        (outside / "Documents" / name).write_text("{}")
    return outside


def _tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project with chips, two runs, an audit, a version, a discovery, jobs, backups and something removed."""
    layout = small_project(tmp_path_factory.mktemp("whole") / "event.pugeo")
    discovered(layout)
    layout.quicklooks.mkdir()
    for run_id in ("ranker-0", "ranker-1", "ranker-2"):
        add_run(layout, run_id, arrays={"embeddings": np.eye(20, dtype=np.float32)})
    assert cli.main(["publish", str(layout.folder), "--formats", "csv"]) == 0
    random_audits.begin_audit(layout, "ranker-1", 8, "ann")
    removing.start(layout, removing.plan(layout, "run", "ranker-0"), "ann")
    unheld_job(layout, "rank", {})
    click(layout, "b1")
    return layout.folder


def _use(layout: Layout, outside: Path) -> None:
    """Do with a project what people do: list, open, click, resume, look after, publish, back up, restore."""
    todo: tuple[Callable[[], object], ...] = (
        lambda: projects.card(layout), lambda: projects.oddities(layout), lambda: projects.open_project(str(layout.folder)),
        lambda: store.call(layout, removals.all_removals), lambda: versions.all_facts(layout), lambda: discoveries.all_facts(layout),
        lambda: store.call(layout, runs.register, layout), lambda: projects.find(layout.folder), lambda: click(layout, "b2"),
        lambda: leftovers.sweep(layout), lambda: doctor_job.examine(layout, fix=True, full=True),
        *(lambda job=job: _again(layout, job) for job in _jobs_of(layout)),
        lambda: foreground.run(layout, "publish", {"run_id": "ranker-1", "formats": ["csv"]}), lambda: backups.make(layout, "asked"),
        *[lambda: removals.undo(layout, analyst="ann")] * 2,
        lambda: removals.reclaim(layout, [1, 2], analyst="ann"), lambda: recovery.restore(layout, to=str(outside.parent / "again.pugeo")),
        lambda: cli.main(["remove", str(layout.folder), "run", "ranker-2", "--yes"]),
    )  # fmt: skip
    for act in todo:
        with suppress(PuGeoError):
            act()


def _jobs_of(layout: Layout) -> list[str]:
    with suppress(OutOfReach):
        return [job.job_id for job in jobs.all_jobs(layout, with_dismissed=True)]
    return []


def _again(layout: Layout, job: str) -> None:
    for act in (jobs.resume, jobs.retry, jobs.dismiss):
        with suppress(PuGeoError):
            act(layout, job)


@pytest.fixture
def prepared(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Layout, Path]:
    """Copy the project beside a person's files; workers run in this process."""

    def work(folder: Path, lock: int | None = None) -> None:
        os.close(lock if lock is not None else jobs.take_lock(folder))
        with suppress(PuGeoError):
            worker.run(folder)

    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "launch", work)
    return Layout(Path(shutil.copytree(whole, tmp_path / "event.pugeo"))), _outside(tmp_path)


PLACES = (
    "jobs", "jobs/*", "jobs/*/spec.json", "jobs/*/events.jsonl", "jobs/*/alive.lock", "jobs/*/log.txt", "jobs/*/dismissed", "jobs/start.lock",
    "exports", "exports/v1", "exports/v1/version.json", "exports/.lock", "exports/.new-aaaa", "trash", "trash/.lock", "trash/*",
    "trash/*/files.json", "trash/*/rows.json", "trash/*/old", "trash/*/old/runs", "chips", "chips/set.npy", "chips/set.json", "runs",
    "runs/ranker-2", "runs/ranker-1/scores.npy", "runs/ranker-1/manifest.json", "backups", "backups/*.gpkg", "backups/*.json",
    "backups/.backups.lock", "checks", "checks/*.json", "queues", "queues/lock", "discoveries", "discoveries/*", "quicklooks", "quicklooks.old",
    "quicklooks.new", "federation", "project.gpkg", "project.gpkg-wal", "project.gpkg-shm", "project.gpkg-journal", "project.gpkg-new",
    ".in_use.lock", ".in_use.host", "labels.jsonl", files.MARK,
)  # fmt: skip
QUICK = ("trash/*", "chips", "project.gpkg-new", "labels.jsonl")
WAYS = {"link": ".bashrc", "dangling": "autostart", "folder": "Documents", "hard link": ".bashrc"}


@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "from elsewhere"])
@pytest.mark.parametrize("place", in_tiers(PLACES, "stranger", quick=QUICK))
def test_a_link_anywhere_leads_nowhere(prepared: tuple[Layout, Path], place: str, is_trusted: bool, tmp_path: Path) -> None:
    layout, outside = prepared
    for way in WAYS:
        copied = Layout(Path(shutil.copytree(layout.folder, tmp_path / way / "event.pugeo")))
        for path in list(copied.folder.glob(place)) or [copied.folder / place.replace("*", "made")]:
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            target = outside / WAYS[way]
            path.hardlink_to(target) if way == "hard link" else path.symlink_to(target)
        if not is_trusted:
            (copied.folder / files.MARK).unlink(missing_ok=True)
        before = _tree(outside)
        _use(copied, outside)
        assert _tree(outside) == before, way
        shutil.rmtree(tmp_path / "again.pugeo", ignore_errors=True)


def _sql(layout: Layout, text: str, *values: object) -> None:
    with closing(sqlite3.connect(layout.gpkg)) as db, db:
        db.execute(text, values)


def _removal(layout: Layout, outside: Path, op: str, *names: str) -> None:
    facts = json.dumps({"title": "x", "plan": [], "runs": ["x"], "after": ""})
    add = "INSERT INTO removal (op, kind, name, analyst, at, facts) VALUES (?, 'run', 'x', 'ann', '2026-01-01T00:00:00.000Z', ?)"
    _sql(layout, add, op, facts)
    for folder in layout.trash.iterdir():
        if folder.is_dir():
            write_json(folder / "files.json", list(names))
            (folder / "old" / "outside").mkdir(parents=True, exist_ok=True)
            (folder / "old" / "outside" / ".bashrc").write_text("echo owned")
            shutil.copytree(folder, layout.trash / secrets.token_hex(8))


def _spec(layout: Layout, outside: Path, task: str, args: dict[str, Any]) -> None:
    for spec in layout.jobs.glob("*/spec.json"):
        write_json(spec, {**json.loads(spec.read_text()), "task": task, "args": args})
        (spec.parent / "events.jsonl").unlink(missing_ok=True)


def _swap(layout: Layout, outside: Path) -> None:
    shutil.copy(layout.gpkg, layout.folder / "project.gpkg-new")
    for number in range(9):
        (layout.folder / f"project.damaged-2026-{number}.gpkg").symlink_to(outside / "autostart")


def _journal(layout: Layout, outside: Path) -> None:
    """Leave a journal that names another one: SQLite deletes that as it rolls the first one back."""
    name = str(outside / "Documents" / "thesis.npy").encode()
    layout.gpkg.with_name("project.gpkg-wal").unlink(missing_ok=True)
    with closing(sqlite3.connect(layout.gpkg)) as db:
        page = db.execute("PRAGMA page_size").fetchone()[0]
        db.execute("PRAGMA journal_mode=DELETE")
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5i", 0, 1, layout.gpkg.stat().st_size // page, 512, page)
    end = struct.pack(">2i", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
    layout.gpkg.with_name("project.gpkg-journal").write_bytes(head.ljust(512, b"\0") + struct.pack(">i", page) + name + end)


SWALLOW = "CREATE TRIGGER t BEFORE INSERT ON label_event BEGIN SELECT RAISE(IGNORE); END"


def _hidden_trigger(layout: Layout, outside: Path) -> None:
    with closing(sqlite3.connect(layout.gpkg)) as db, db:
        db.execute(SWALLOW)
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET name = 'sqlite_t', sql = replace(sql, ' t ', ' sqlite_t ') WHERE name = 't'")


ATTACKS: dict[str, Callable[[Layout, Path], object]] = {
    "op of a removal leads out": lambda layout, outside: _removal(layout, outside, "../../outside/Documents"),
    "op of a removal is absolute": lambda layout, outside: _removal(layout, outside, str(outside / "Documents")),
    "files of a removal lead out": lambda layout, outside: _removal(layout, outside, secrets.token_hex(8), "../outside/.bashrc"),
    "files of a removal are absolute": lambda layout, outside: _removal(layout, outside, secrets.token_hex(8), str(outside / ".bashrc")),
    "names of runs lead out": lambda layout, _: _sql(layout, "UPDATE run SET run_id = '../../outside/Documents' || number, facts = replace(facts, 'ranker', '../../outside')"),
    "names of chips lead out": lambda layout, _: _sql(layout, "UPDATE chip_set SET chip_set = '../../outside/Documents/set2'"),
    "an export is asked for elsewhere": lambda layout, outside: _spec(layout, outside, "export", {"run_id": "ranker-1", "format": "csv", "out": str(outside / ".bashrc")}),
    "a task that is none": lambda layout, outside: _spec(layout, outside, "os:system", {}),
    "a trigger swallows answers": lambda layout, _: _sql(layout, SWALLOW), "a trigger has a name of SQLite's": _hidden_trigger, "a journal names another one": _journal,
    "a view takes a table's place": lambda layout, _: _sql(layout, "CREATE VIEW more AS SELECT * FROM label_event"),
    "a database waits to take its place": _swap,
}  # fmt: skip


@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "from elsewhere"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_database_or_a_job_names_is_not_done(prepared: tuple[Layout, Path], attack: str, is_trusted: bool) -> None:
    layout, outside = prepared
    ATTACKS[attack](layout, outside)
    if not is_trusted:
        (layout.folder / files.MARK).unlink()
    before = _tree(outside)
    _use(layout, outside)
    assert _tree(outside) == before
    if "trigger" in attack:
        with pytest.raises(PuGeoError):
            click(layout, "b3")


@pytest.mark.parametrize("attack", in_tiers([*ATTACKS, *QUICK], "stranger", ci=["files of a removal lead out", "trash/*"]))
def test_no_screen_does_it_either(prepared: tuple[Layout, Path], attack: str) -> None:
    layout, outside = prepared
    if attack in ATTACKS:
        ATTACKS[attack](layout, outside)
    else:
        for path in list(layout.folder.glob(attack)) or [layout.folder / attack]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            path.symlink_to(outside / "Documents")
    before = _tree(outside)
    for screen in ("project", "imagery", "annotate", "train", "explore", "damage_map"):
        shell(layout, screen)
    assert _tree(outside) == before


def _npz(layout: Layout, name: str, n_bytes: int) -> None:
    for path in layout.folder.glob(name):
        deflated = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        with deflated as archive, archive.open("order.npy", "w", force_zip64=True) as file:
            for _ in range(n_bytes // 2**20):
                file.write(bytes(2**20))


def _endless_view(layout: Layout, outside: Path) -> None:
    with closing(sqlite3.connect(layout.gpkg)) as db, db:
        for name in ("label_event_no_update", "label_event_no_delete"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute("ALTER TABLE label_event RENAME TO kept")
        endless = "WITH RECURSIVE n(event) AS (SELECT 1 UNION ALL SELECT event + 1 FROM n) SELECT * FROM n"
        db.execute(f"CREATE VIEW label_event AS {endless}")


HEAVY: dict[str, Callable[[Layout, Path], object]] = {
    "arrays of 2 GB in 2 MB": lambda layout, _: _npz(layout, "checks/*.npz", 2 * 2**30),
    "the state of a version of 600 MB": lambda layout, _: (layout.exports / "v1" / "state.json.gz").write_bytes(gzip.compress(bytes(600 * 2**20), 1)),
    "labels without end": _endless_view, "a journal of 1 TB": lambda layout, _: os.truncate(layout.journal, 2**40),
    **{
        f"a backup's {name} {value!r:.20}": lambda layout, _, name=name, value=value: [
            write_json(path, {**json.loads(path.read_text()), name: value}) for path in layout.backups.glob("*.json")
        ]
        for name, value in (("made_at", "2026-01-01T00:00:00"), ("made_at", 7), ("project_id", []), ("n_bytes", "x"))
    },
    "a backup's facts are a pipe": lambda layout, _: [(path.unlink(), os.mkfifo(path)) for path in layout.backups.glob("*.json")],
}  # fmt: skip


@pytest.mark.parametrize("heavy", in_tiers(HEAVY, "stranger", quick=list(HEAVY)[2:]))
def test_what_would_take_all_memory_or_never_end_ends_in_words(prepared: tuple[Layout, Path], heavy: str) -> None:
    layout, outside = prepared
    HEAVY[heavy](layout, outside)
    before = psutil.Process().memory_info().rss
    _use(layout, outside)
    with suppress(PuGeoError):
        random_audits.newest_audit(layout)
        recovery.labels_of_journal(layout)
    with suppress(PuGeoError):
        versions.read_state(layout, "v1")
    assert psutil.Process().memory_info().rss - before < 2**30


def test_the_next_round_takes_pictures_along_and_nothing_else(prepared: tuple[Layout, Path], tmp_path: Path) -> None:
    before, outside = prepared
    for name in ("project.tif", "project.tfw", "project.key"):
        (before.folder / name).write_text(name)
    (before.folder / "project.prj").symlink_to(outside / ".bashrc")
    made = small_project(tmp_path / "next.pugeo")
    content = made.gpkg.read_bytes()
    with pytest.raises(OutOfReach):
        rounds_job._own_copy(before, made, replace(small_scene(), path=str(before.folder / "project.tif")))
    (before.folder / "project.prj").unlink()
    rounds_job._own_copy(before, made, replace(small_scene(), path=str(before.folder / "project.tif")))
    assert sorted(path.name for path in made.path("sources").iterdir()) == ["project.tfw", "project.tif"]
    assert made.gpkg.read_bytes() == content


def test_layers_of_qgis_and_several_installations_keep_nobody_out(prepared: tuple[Layout, Path]) -> None:
    layout, _ = prepared
    _sql(layout, "CREATE TABLE my_notes (fid INTEGER PRIMARY KEY, geom BLOB)")
    _sql(layout, "CREATE VIRTUAL TABLE rtree_my_notes_geom USING rtree(id, minx, maxx, miny, maxy)")
    follow = "BEGIN DELETE FROM rtree_my_notes_geom WHERE id = OLD.fid; END"
    _sql(layout, f"CREATE TRIGGER rtree_my_notes_geom_delete AFTER DELETE ON my_notes {follow}")
    click(layout, "b6")
    with pytest.MonkeyPatch.context() as patch:  # the computer at the office
        patch.setenv(files.HOME_VARIABLE, str(layout.folder.parent / "office"))
        assert not files.is_ours(layout.folder)
        projects.trust(layout)
        click(layout, "b7")
    click(layout, "b8")


def test_a_project_from_elsewhere_is_viewed_and_exported_and_left_as_it_is_until_a_person_trusts_it(
    prepared: tuple[Layout, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    layout, outside = prepared
    (layout.folder / files.MARK).unlink()
    (layout.folder / "way out").symlink_to(outside)
    before = _tree(layout.folder)
    _use(layout, outside)
    out = ["--out", str(tmp_path / "map.csv"), "--format", "csv"]
    assert cli.main(["export", str(layout.folder), "--run", "ranker-1", *out]) == 0
    assert (tmp_path / "map.csv").read_text().count("\n") > 20
    assert _tree(layout.folder) == before
    with pytest.raises(PuGeoError, match="another installation") as refusal:
        click(layout, "b3")
    assert "--from-elsewhere" in refusal.value.hint
    capsys.readouterr()
    assert cli.main(["rank", str(layout.folder)]) == 2
    command = f"pu-geo open {layout.folder} --from-elsewhere"
    assert command in capsys.readouterr().err
    assert cli.main(["open", str(layout.folder)]) == 0
    out = capsys.readouterr().out
    assert [words in out for words in ("way out", "1 job did not end well (rank)", command)] == [True] * 3
    assert cli.main(command.split()[1:]) == 0
    click(layout, "b3")
    moved = Layout(layout.folder.rename(tmp_path / "renamed.pugeo"))
    shutil.copytree(moved.folder, tmp_path / "copied.pugeo", symlinks=True)
    for again in (moved, Layout(tmp_path / "copied.pugeo")):
        click(again, "b4")  # neither a move nor a copy asks again


def test_a_job_that_another_installation_wrote_is_not_started_and_reaches_nobody(prepared: tuple[Layout, Path]) -> None:
    layout, outside = prepared
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        _spec(layout, outside, "train", {"method": "ncpu", "cluster": f"tcp://127.0.0.1:{server.getsockname()[1]}"})
        (job,) = [one for one in jobs.all_jobs(layout) if one.task == "train" and one.state == "interrupted"][:1]
        for act in (jobs.resume, jobs.retry):
            with pytest.raises(PuGeoError, match="not started by this installation"):
                act(layout, job.job_id)
        with pytest.raises(PuGeoError, match="not started by this installation"):
            worker.run(layout.jobs / job.job_id)
        with pytest.raises(TimeoutError):
            server.accept()
    status.write_spec(layout.jobs / job.job_id, "rank", {}, "event.pugeo")
    assert status.signed_spec(layout.jobs / job.job_id)["task"] == "rank"


def test_an_answer_is_acknowledged_only_once_the_file_took_it(prepared: tuple[Layout, Path]) -> None:
    layout, _ = prepared
    n = store.call(layout, labels.last_event)  # checked now: what another program does since is not seen at an opening
    _sql(layout, SWALLOW)
    with pytest.raises(PuGeoError, match="took 0 of 1 answers"):
        click(layout, "b5")
    assert store.call(layout, labels.last_event) == n
