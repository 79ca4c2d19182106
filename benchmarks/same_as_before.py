"""Check that a refactoring changed no result: run the same steps with two checkouts, and compare all files they write.

    python benchmarks/same_as_before.py run CHECKOUT FOLDER      # three minutes on one core; FOLDER must not exist
    python benchmarks/same_as_before.py compare FOLDER FOLDER    # exit code 0: nothing differs, 1: something does

The steps, all through the command line that the checkout's `pyproject.toml` names: the sample event as a project, 30 clicks and
some special lines through `label --stdin`, the instant ranker, the quick preset of every method at a fixed seed, `evaluate` of each
run, `export` in all formats, `publish` before and after an audit begins, `export-labels`, `inspect`, `jobs`, and some refusals.
FOLDER then holds the answers (exit code, stdout, stderr), the exports, the project, and the sha256 of each file; files over 4 MB
(chips, features) are not kept.

What is fixed, so that files can be compared byte for byte: every command runs in a process of its own, in which dates (in SQL,
too), clocks, random ids and the product version are replaced before `pu_geo` is imported. Each command has its own minute; clocks
stand still for code of `pu_geo` (so durations are 0, and progress is reported once), and go on for libraries. Random ids count up,
separately for each length. All runs happen in one folder of a fixed name, with inputs of a fixed date, an empty home, one thread
and no GPU. Child processes of a command (readers of foreign files) are not changed.

How files are compared: by their sha256. Where that differs, GPKG by its SQL dump, parquet by schema and rows, NPY by type, shape
and values, all else as lines of text. What no two runs share is left out there: process ids, the start of the machine and memory
in use, which events and curves of trainings hold, and the sum of the curve in a run's manifest. The same content in other bytes
is listed, and counts as equal.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

WORK = Path(tempfile.gettempdir()) / "pu-geo-same-as-before"
SUMS = "sums.sha256"
MAX_KEPT_BYTES = 4_000_000
START = 1_767_268_800  # 2026-01-01 12:00 UTC: the date of the inputs; the first command runs a minute later
DAMAGED = "234 328 629 632 713 720 724 771 775 779 786 791 799 927 1042 1077 1088 1120 1127 1131 1134 1244"  # of S-00234 ...
SOUND = "1 188 381 574 802 995 1215 1409"
MORE_LINES = """
{"op": "more-1", "building_id": "S-00255", "label": "positive", "damage_types": ["roof"], "comment": "half of it", "act": "a"}
{"op": "more-2", "building_id": "", "label": "", "undo": true}
{"op": "more-3", "building_id": "", "label": "", "redo": true}
{"op": "more-4", "building_id": "S-01600", "label": "not_assessable", "reason": "cloud"}
{"op": "more-5", "building_id": "S-01600", "label": "cleared"}
{"op": "wrong-1", "building_id": "none", "label": "positive"}
{"op": "wrong-2", "building_id": "S-01600", "label": "perhaps"}
{"op": "wrong-3", "building_id": "S-01600", "label": "positive", "reason": "cloud"}
{"op": "wrong-4", "building_id": 2, "label": "positive"}
["a list"]
not JSON
"""
WITH_TYPES = ("ncl", "herocon", "fedaws")
FORMATS = ("geojson", "gpkg", "parquet", "fgb", "csv", "kml", "heat")
VARYING = re.compile(r'"(pid|begun|boot|memory_mb|curve\.json)": ("[^"]*"|[\d.]+|null),?\s*')


def run_frozen(checkout: Path, step: int, arguments: list[str]) -> None:
    """Run one command of a checkout in this process, with fixed clock, ids and version, and exit as it does."""
    freeze(START + 60 * step)
    import pu_geo

    if not Path(pu_geo.__file__).is_relative_to(checkout):
        raise RuntimeError(f"pu_geo was imported from {pu_geo.__file__}, not from {checkout}.")
    pu_geo.__version__ = "0.0.0"
    script = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["pu-geo"]
    sys.argv = ["pu-geo", *arguments]
    module, _, function = script.partition(":")
    sys.exit(getattr(importlib.import_module(module), function)())


def freeze(seconds: int) -> None:
    """Fix dates and clocks for code of `pu_geo`, and random ids for all code.

    Libraries get the true class `datetime`: some of them are compiled against its size.
    """
    real = datetime.datetime
    n_drawn: Counter[int] = Counter()

    class Fixed(real):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Fixed:
            return cls.fromtimestamp(seconds, tz)

    def is_ours() -> bool:
        name = str(sys._getframe(2).f_globals.get("__name__"))
        return name == "gzip" or name.partition(".")[0] == "pu_geo"  # gzip writes the time into its files

    def find(name: str) -> type:
        if name != "datetime":
            raise AttributeError(name)
        return Fixed if is_ours() else real

    def fixed(clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: float(seconds) if is_ours() else clock()

    def count(n_bytes: int) -> bytes:
        n_drawn[n_bytes] += 1
        return n_drawn[n_bytes].to_bytes(n_bytes, "big")

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = real_connect(*arguments, **options)
        stamp = Fixed.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        database.create_function("strftime", 2, lambda form, time: stamp)  # in SQL of `pu_geo` it writes the time alone
        return database

    real_connect = sqlite3.connect
    del datetime.datetime
    vars(datetime)["__getattr__"] = find
    vars(time).update({name: fixed(getattr(time, name)) for name in ("time", "monotonic", "perf_counter", "process_time")})
    vars(secrets)["token_hex"] = lambda n_bytes=32: count(n_bytes).hex()
    vars(secrets)["randbits"] = lambda n_bits: int.from_bytes(count(-(-n_bits // 8)), "big")
    vars(sqlite3)["connect"] = connect
    vars(uuid)["uuid4"] = lambda: uuid.UUID(bytes=count(16), version=4)


def run(checkout: Path, folder: Path) -> None:
    """Do all steps with a checkout, and write what came of them to `folder`."""
    folder.mkdir(parents=True)
    (WORK / "answers").mkdir(parents=True)  # where this fails, another run is at work, or was stopped
    try:
        _do_steps(checkout)
        shutil.rmtree(WORK / "home", ignore_errors=True)
        sums = ""
        for path in sorted(path for path in WORK.rglob("*") if path.is_file()):
            sums += f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(WORK)}\n"
            if path.stat().st_size > MAX_KEPT_BYTES:
                path.unlink()
        (WORK / SUMS).write_text(sums, encoding="utf-8")
        shutil.copytree(WORK, folder, dirs_exist_ok=True)
    finally:
        shutil.rmtree(WORK)


def _do_steps(checkout: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
    environment |= {"HOME": str(WORK / "home"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    steps: list[str] = []

    def do(name: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command, keep its answer as `answers/NAME.txt`, and return its stdout."""
        steps.append(name)
        command = [sys.executable, "-P", __file__, "frozen", str(checkout), str(len(steps)), *arguments]
        done = subprocess.run(command, cwd=WORK, env=environment, input=stdin, capture_output=True, check=False)
        parts = (b"exit code %d\n--- stdout\n" % done.returncode, done.stdout, b"--- stderr\n", done.stderr)
        (WORK / "answers" / f"{name}.txt").write_bytes(b"".join(parts))
        print(f"{len(steps):3} {name:24} exit code {done.returncode}", done.stderr.decode()[-200:].strip(), flush=True)
        return done.stdout

    def on(name: str, verb: str, *arguments: str) -> bytes:
        return do(name, verb, "sample.pugeo", *arguments, "--json")

    shutil.copytree(checkout / "sample_data", WORK / "sample", ignore=shutil.ignore_patterns("*.py", "*.md", "__pycache__"))
    (WORK / "sample" / "broken.tif").write_bytes((WORK / "sample" / "post.tif").read_bytes()[:50_000])
    (WORK / "sample" / "empty.geojson").write_text('{"type": "FeatureCollection", "features": []}', encoding="utf-8")
    for path in (WORK / "sample").iterdir():
        os.utime(path, (START, START))
    on("init", "init", "--name", "Sample")
    on("add-scene", "add-scene", "--pre", "sample/pre.tif", "--post", "sample/post.tif")
    on("add-footprints", "add-footprints", "sample/footprints.geojson")
    on("chip", "chip")
    do("label-stdin", "label", "sample.pugeo", "--stdin", "--analyst", "tester", stdin=_lines_to_label().encode())
    cards = json.loads(do("methods", "methods", "--json"))["methods"]
    runs = {"ranker": json.loads(on("rank", "rank"))["run_id"]}
    for name in (card["name"] for card in cards):
        types = ["--types-from", "damage"] if name in WITH_TYPES else []
        runs[name] = json.loads(on(f"train-{name}", "train", "--method", name, "--seed", "7", *types))["run_id"]
    truth = ["--field", "damage", "--positive", "destroyed", "--positive", "major-damage"]
    for name, run_id in runs.items():
        on(f"evaluate-{name}", "evaluate", "--run", run_id, *truth)
    chosen = ["--run", next(runs[card["name"]] for card in cards if card["is_default"])]
    for name in FORMATS:
        on(f"export-{name}", "export", *chosen, "--format", name, "--out", f"map.{name.replace('heat', 'tif')}")
    on("publish", "publish", *chosen, "--formats", *FORMATS)
    on("publish-again", "publish", *chosen, "--threshold", "0.6", "--profile", "copernicus", "--profile", "unosat")
    on("audit-begin", "audit", "begin", *chosen, "--checks", "40", "--analyst", "tester")
    on("publish-audited", "publish", *chosen, "--formats", *FORMATS)
    for suffix in ("csv", "geojson"):
        on(f"export-labels-{suffix}", "export-labels", "--out", f"labels.{suffix}")
    files = [f"sample/{name}" for name in ("pre.tif", "footprints.geojson", "broken.tif", "empty.geojson", "missing.tif")]
    for name, more in (("words", []), ("json", ["--json"])):
        do(f"inspect-{name}", "inspect", *files, *more)
        do(f"jobs-{name}", "jobs", "sample.pugeo", *more)
    do("refused-project", "rank", "nothing.pugeo")
    on("refused-format", "export", "--format", "dwg", "--out", "map.dwg")
    on("refused-run", "evaluate", "--run", "no-run", *truth)
    on("refused-method", "train", "--method", "nothing")
    on("refused-setting", "train", "--method", "ncpu", "--set", "epochs=many")


def _lines_to_label() -> str:
    """Return 30 clicks, one of them twice, and lines with details, taken back, or refused."""
    clicks = [("positive", n) for n in f"{DAMAGED} 234".split()] + [("not_damaged", n) for n in SOUND.split()]
    lines = [{"op": f"click-{n}", "building_id": f"S-{n:0>5}", "label": label} for label, n in clicks]
    return "".join(json.dumps(line) + "\n" for line in lines) + MORE_LINES


def compare(before: Path, after: Path) -> int:
    """Print which files differ, and where they do so first; return the exit code."""
    old, new = ({line[66:]: line[:64] for line in (folder / SUMS).read_text().splitlines()} for folder in (before, after))
    counts: Counter[str] = Counter()
    for name in sorted(old | new):
        where = "" if old.get(name) == new.get(name) else _difference(before / name, after / name)
        kind = "DIFFERS" if where else "same bytes" if old.get(name) == new.get(name) else "same content"
        counts[kind] += 1
        if kind != "same bytes":
            print(f"{kind:12}  {name}{where}")
    print(", ".join(f"{n} files: {kind}" for kind, n in counts.items()))
    return int(counts["DIFFERS"] > 0)


def _difference(before: Path, after: Path) -> str:
    """Return the first line of content that differs, from a bit before; nothing where the content is the same."""
    for old, new in zip_longest(_content(before), _content(after), fillvalue="(end)"):
        if old != new:
            start = max(0, next(i for i, (a, b) in enumerate(zip_longest(old, new)) if a != b) - 60)
            return f"\n    before: {old[start : start + 160]!r}\n    after:  {new[start : start + 160]!r}"
    return ""


def _content(path: Path) -> list[str]:
    """Return what a file holds, as lines of text."""
    if not path.exists():
        return [f"{path} is not there, or too large to be kept"]
    if path.suffix == ".gpkg":
        return list(sqlite3.connect(f"file:{path}?immutable=1", uri=True).iterdump())
    if path.suffix == ".parquet":
        table = importlib.import_module("pyarrow.parquet").read_table(path)  # commands do not load it unasked
        return [str(table.schema), str(table.schema.metadata), *map(repr, table.to_pylist())]
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        return [f"{array.dtype} {array.shape}", *map(repr, array.ravel().tolist())]
    return VARYING.sub("", path.read_text(encoding="utf-8", errors="backslashreplace")).splitlines()


if __name__ == "__main__":
    if sys.argv[1] == "frozen":  # one command, for `run`
        run_frozen(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    sys.exit({"run": run, "compare": compare}[sys.argv[1]](Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()))
