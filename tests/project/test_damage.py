"""A project whose database is damaged, in more than a hundred ways: no click is acknowledged, and nothing ends in a traceback."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from small_parts import add_chips, add_run, click, small_project

from pu_geo import cli
from pu_geo.errors import PuGeoError
from pu_geo.project import integrity, labels, salvage, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.project import readable_labels

PAGE = 4096
N = 40
Damage = Callable[[Path, random.Random], None]


def zero_page(gpkg: Path, dice: random.Random, *, share: float) -> None:
    """Zero the page at a share of the file."""
    content = bytearray(gpkg.read_bytes())
    start = int(share * (len(content) // PAGE)) * PAGE
    content[start : start + PAGE] = bytes(PAGE)
    gpkg.write_bytes(content)


def flip_bytes(gpkg: Path, dice: random.Random, *, n: int) -> None:
    content = bytearray(gpkg.read_bytes())
    for _ in range(n):
        start = dice.randrange(len(content) - 8)
        content[start : start + 8] = dice.randbytes(8)
    gpkg.write_bytes(content)


def cut_short(gpkg: Path, dice: random.Random) -> None:
    content = gpkg.read_bytes()
    gpkg.write_bytes(content[: dice.randrange(len(content))])


def swap_pages(gpkg: Path, dice: random.Random) -> None:
    content = bytearray(gpkg.read_bytes())
    one, other = (PAGE * i for i in dice.sample(range(len(content) // PAGE), 2))
    content[one : one + PAGE], content[other : other + PAGE] = content[other : other + PAGE], content[one : one + PAGE]
    gpkg.write_bytes(content)


def change_header(gpkg: Path, dice: random.Random, *, field: int) -> None:
    content = bytearray(gpkg.read_bytes())
    content[field] ^= 1 + dice.randrange(255)
    gpkg.write_bytes(content)


def cut_log(gpkg: Path, dice: random.Random) -> None:
    log = gpkg.with_name("project.gpkg-wal")
    content = log.read_bytes()
    log.write_bytes(content[: dice.randrange(len(content) - PAGE)])


def garble_log(gpkg: Path, dice: random.Random) -> None:
    log = gpkg.with_name("project.gpkg-wal")
    content = bytearray(log.read_bytes())
    start = dice.randrange(len(content) - 64)
    content[start : start + 64] = dice.randbytes(64)
    log.write_bytes(content)


def remove_log(gpkg: Path, dice: random.Random) -> None:
    gpkg.with_name("project.gpkg-wal").unlink()


WAYS: list[tuple[str, Damage, bool]] = [  # name, what it does, whether the newest labels are in the log beside the file
    *((f"zero-{i}", lambda g, d, i=i: zero_page(g, d, share=i / 50), False) for i in range(50)),  # type: ignore[misc]
    *((f"flip-{i}", lambda g, d, i=i: flip_bytes(g, d, n=1 + i % 4), False) for i in range(24)),  # type: ignore[misc]
    *((f"cut-{i}", cut_short, False) for i in range(12)),
    *((f"swap-{i}", swap_pages, False) for i in range(14)),
    *((f"header-{i}", lambda g, d, i=i: change_header(g, d, field=i), False) for i in (0, 16, 17, 18, 19, 20, 21, 28, 31, 35, 44, 47, 56, 59)),  # type: ignore[misc]
    *((f"cut-log-{i}", cut_log, True) for i in range(5)),
    *((f"garbled-log-{i}", garble_log, True) for i in range(8)),
    ("no-log", remove_log, True),
]  # fmt: skip
QUICK = [i for i in range(len(WAYS)) if i % 6 == 0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, str], dict[str, str]]:
    """A folder of a project with 500 answers, one with more of them in the log beside the file, and the labels of both."""
    place = tmp_path_factory.mktemp("damage")
    layout = small_project(place / "event.pugeo", N)
    add_chips(layout, [f"b{i}" for i in range(N)])
    add_run(layout)
    for i in range(12):
        click(layout, *(f"b{k}" for k in range(N)), label="positive" if i % 2 else "not_damaged")
    click(layout, *(f"b{k}" for k in range(0, N, 3)), label="positive")
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    settled = place / "settled" / "event.pugeo"
    shutil.copytree(layout.folder, settled, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    then = store.call(layout, labels.current_labels)
    with store.connect(layout) as db:  # while it is open the log stays
        db.execute("SELECT 1 FROM footprints").fetchall()
        click(layout, *(f"b{k}" for k in range(1, N, 3)), label="not_assessable", reason="cloud")
        click(layout, "b0", label="cleared")
        unsettled = place / "unsettled" / "event.pugeo"
        shutil.copytree(layout.folder, unsettled)
        now = store.call(layout, labels.current_labels)
    return settled, unsettled, dict(then), dict(now)


def in_words(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command; an error that is not in words would be raised here."""
    code = cli.main([*words])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    "way", [i if i in QUICK else pytest.param(i, marks=pytest.mark.long) for i in range(len(WAYS))], ids=lambda i: WAYS[i][0]
)
def test_damage_is_refused_in_words_or_changes_no_label(
    whole: tuple[Path, Path, dict[str, str], dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str], way: int
) -> None:  # fmt: skip
    _, damage, is_logged = WAYS[way]
    expected = whole[3] if is_logged else whole[2]
    layout = Layout(Path(shutil.copytree(whole[is_logged], tmp_path / "event.pugeo")))
    damage(layout.gpkg, random.Random(way))
    readable_labels.read(layout)
    message = {"session": "s", "analyst": "ann", "ops": [{"n": 1, "op": "new", "building_id": "b2", "label": "positive"}]}
    try:
        store.open_project(layout.folder)
        found = store.call(layout, labels.current_labels)
    except PuGeoError as error:
        kind = error.kind
    else:
        kind = ""
    if kind:
        for words in (
            ["export-labels", str(layout.folder), "--out", str(tmp_path / "l.csv")],
            ["runs", "list", str(layout.folder)],
        ):
            code, err = in_words(*words, capsys=capsys)
            assert code == 2 or words[0] == "export-labels"
            assert "damaged" in err or "schema" in err or "project" in err
        with pytest.raises(PuGeoError):
            labeling.store_operations(layout, message)
        assert kind in ("corrupt", "refused")  # the latter: "written by a newer PU-Geo"
    else:
        assert found == expected
        assert in_words("export-labels", str(layout.folder), "--out", str(tmp_path / "l.csv"), capsys=capsys)[0] == 0
        is_stored = False
        with suppress(PuGeoError):  # a header that lets nobody write
            is_stored = labeling.store_operations(layout, message) is not None
        with closing(sqlite3.connect(layout.gpkg)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert labels.current_labels(db) == expected | ({"b2": "positive"} if is_stored else {})
    assert in_words("jobs", str(layout.folder), capsys=capsys)[0] in (0, 2)


def test_the_ways_are_many() -> None:
    assert len(WAYS) >= 120
    assert len(QUICK) >= 20


def test_damage_found_while_it_is_open_ends_all_writing(whole: tuple[Path, ...], tmp_path: Path) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    store.open_project(layout.folder)
    leaves = salvage._leaves(salvage._Pages(layout.gpkg), salvage._roots(salvage._Pages(layout.gpkg))["label_event"])
    with layout.gpkg.open("r+b") as file:
        file.seek((leaves[0] - 1) * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(PuGeoError) as caught:
        labeling.current_labels(layout)
    assert caught.value.kind == "corrupt"
    message = {"session": "s", "analyst": "ann", "ops": [{"n": 1, "op": "new", "building_id": "b2", "label": "positive"}]}
    with pytest.raises(PuGeoError) as caught:
        labeling.store_operations(layout, message)
    assert caught.value.kind == "corrupt"
    shutil.copy(whole[0] / "project.gpkg", tmp_path / "restored")
    (tmp_path / "restored").rename(layout.gpkg)
    assert labeling.store_operations(layout, message) is not None, "another file took its place"


def test_a_large_file_is_checked_beside(whole: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    started = []
    monkeypatch.setattr(integrity, "CHECKED_AT_ONCE", 1000)
    monkeypatch.setattr(store.threading, "Thread", lambda target, args, daemon: started.append((target, args)) or _Idle())
    pages = salvage._Pages(layout.gpkg)
    with layout.gpkg.open("r+b") as file:
        file.seek((salvage._leaves(pages, salvage._roots(pages)["label_event"])[0] - 1) * PAGE)
        file.write(bytes(PAGE))
    store.open_project(layout.folder)
    (target, args) = started[0]
    target(*args)
    with pytest.raises(PuGeoError, match="the labels cannot be read as a whole"):
        store.open_project(layout.folder)


class _Idle:
    def start(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("value", ["abc", "0", "-3", "", "7.5", None])
def test_a_schema_that_cannot_be_is_refused_in_words(
    whole: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str | None
) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    with closing(sqlite3.connect(layout.gpkg)) as db, db:
        if value is None:
            db.execute("DELETE FROM pugeo_meta WHERE key = 'schema'")
        else:
            db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'schema'", (value,))
    with pytest.raises(PuGeoError, match="notes no schema" if value is None else "notes the schema") as caught:
        store.open_project(layout.folder)
    assert caught.value.kind == "corrupt"
    assert in_words("runs", "list", str(layout.folder), capsys=capsys)[0] == 2


def test_looking_at_a_damaged_file_changes_neither_it_nor_the_log_beside_it(project: Layout, tmp_path: Path) -> None:
    copied = Layout(tmp_path / "copied.pugeo")
    copied.folder.mkdir()
    with closing(sqlite3.connect(project.gpkg)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        click(project, "b3")  # in the log, as this connection keeps the last one from putting it into the file
        for end in ("", "-wal"):
            shutil.copy2(f"{project.gpkg}{end}", f"{copied.gpkg}{end}")
    content = bytearray(copied.gpkg.read_bytes())
    with closing(sqlite3.connect(f"{copied.gpkg.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'score'").fetchone()
    content[(root - 1) * PAGE : root * PAGE] = b"\x77" * PAGE
    copied.gpkg.write_bytes(content)
    before = [Path(f"{copied.gpkg}{end}").read_bytes() for end in ("", "-wal")]
    assert len(before[1]) > PAGE
    with pytest.raises(PuGeoError, match="is damaged"):
        store.call(copied, labels.last_event)
    assert [Path(f"{copied.gpkg}{end}").read_bytes() for end in ("", "-wal")] == before
