"""Do the tests notice a fault? Faults of four kinds are put into functions, one at a time, and the tests of the folder are run.

    python -m benchmarks.mutations --seed 1 --before REVISION [--after HEAD] [--count 60]

A fault flips a comparison, changes a constant, drops a statement or exchanges two arguments. It is stored as the function's qualified
name with the old and the new text, so that it can be put in again after the function has moved. For `pu_geo/geo/chips.py` the tests in
`tests/geo` are run, up to the first that fails or for 60 seconds, those of the long tiers left out; a failed test must pass without the
fault. A fault that neither revision's tests reach is replaced by another. Results: `outcomes/mutations.jsonl`, a line a fault.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTCOMES = Path(__file__).parent / "outcomes" / "mutations.jsonl"
BUNDLE = Path("pu_geo/ui/frontend/dist")
SECONDS = 60
LEFT_OUT = ("long", "ci", "browser")
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fault:
    """One fault: `old` is replaced by `new` in the function `name` of `module`, or wherever the function is now."""

    kind: str
    module: str
    name: str
    old: str
    new: str


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield each function and method of a module with its qualified name; functions in functions belong to the outer one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def faults(module: str, source: str) -> list[Fault]:
    """Return all faults that can be put into the functions of a module, in the order of its lines."""
    found = []
    for name, function in functions(ast.parse(source)):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        for statement in (each for part in body for each in ast.walk(part) if isinstance(each, ast.stmt)):
            where = _own_expression(statement)
            old = ast.get_source_segment(source, where) or ""
            if isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise) and old != "...":
                found.append(Fault("statement dropped", module, name, old, "pass"))
            for kind, new in _changed(where):
                found.append(Fault(kind, module, name, old, new))
    return found


def _own_expression(statement: ast.stmt) -> ast.AST:
    """Return what of a statement is its own: the condition of `if`, what `for` runs over; all of a simple statement."""
    for part in ("test", "iter"):
        if hasattr(statement, "body") and hasattr(statement, part):
            return getattr(statement, part)
    return statement if not hasattr(statement, "body") else ast.Constant(None)


def _changed(where: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (kind of fault, text) for each single change of an expression or a simple statement."""
    for k, node in enumerate(ast.walk(where)):
        if isinstance(node, ast.Compare):
            yield (
                "comparison flipped",
                _with(where, k, lambda it: setattr(it, "ops", [FLIPPED[type(it.ops[0])](), *it.ops[1:]])),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield "constant changed", _with(where, k, lambda it, value=value: setattr(it, "value", value))
        elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func) not in ("min", "max"):
            yield (
                "argument exchanged",
                _with(where, k, lambda it: setattr(it, "args", [it.args[1], it.args[0], *it.args[2:]])),
            )


def _with(where: ast.AST, k: int, change) -> str:
    """Return the text of a copy of a piece of code in which the k-th node has been changed."""
    made = copy.deepcopy(where)
    change(list(ast.walk(made))[k])
    return ast.unparse(made)


def put_in(fault: Fault, checkout: Path) -> Path | None:
    """Put a fault into a checkout, and a line that leaves a mark when its function runs. Return the file; None: no such function."""
    named = checkout / fault.module
    for path in [*([named] if named.is_file() else []), *sorted((checkout / "pu_geo").rglob("*.py"))]:
        source = path.read_text(encoding="utf-8")
        for name, function in functions(ast.parse(source)):
            lines = source.splitlines(keepends=True)
            body = function.body[1:] if ast.get_docstring(function) is not None and len(function.body) > 1 else function.body
            first, last = body[0].lineno - 1, function.end_lineno
            text = "".join(lines[first:last])
            if name != fault.name or fault.old not in text:
                continue
            mark = "__import__('pathlib').Path(__import__('os').environ.get('FAULT_REACHED', '/dev/null')).touch()\n"
            indent = " " * body[0].col_offset
            changed = indent + mark + text.replace(fault.old, fault.new, 1)
            path.write_text("".join([*lines[:first], changed, *lines[last:]]), encoding="utf-8")
            return path
    return None


def folder_of(path: Path, checkout: Path) -> list[str]:
    """Return what of `tests` belongs to a file of `pu_geo`: the folder of its name, or the one above; its own files at the top."""
    folder = Path("tests", *path.relative_to(checkout).parts[1:-1])
    while not (checkout / folder).is_dir():
        folder = folder.parent
    return sorted(str(each) for each in Path("tests").glob("test_*.py")) if folder == Path("tests") else [str(folder)]


def run_tests(checkout: Path, names: list[str], mark: Path, without: list[str] | None = None) -> tuple[bool, str]:
    """Run tests up to the first that fails, for at most a minute. Return whether one failed, and its name."""
    known = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    tier = " and ".join(f"not {mark}" for mark in LEFT_OUT if re.search(rf'"{mark}[(:]', known))
    left_out = [f"--deselect={each}" for each in without or ()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", tier, *left_out, *names]
    here = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "FAULT_REACHED": str(mark),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(mark.parent),
    }
    process = subprocess.Popen(
        command, cwd=checkout, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False, "time is up"
    failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output, re.MULTILINE)
    if not failed and process.returncode not in (0, 5):
        print(f"ended with {process.returncode}: {output[-300:]}", flush=True)
    return bool(failed), failed[1] if failed else ""


def judge(fault: Fault, checkout: Path) -> dict[str, object]:
    """Return whether the tests of a checkout notice a fault, by which test, and whether they reached its function."""
    without: list[str] = []  # tests that fail in the checkout anyway
    while True:
        path = put_in(fault, checkout)
        if path is None:
            return {"noticed": False, "reached": False, "by": "no such function"}
        try:
            with tempfile.TemporaryDirectory() as folder:
                mark = Path(folder) / "reached"
                failed, by = run_tests(checkout, folder_of(path, checkout), mark, without)
                reached = mark.exists() or failed  # a fault that breaks the import is reached, too
        finally:
            subprocess.run(["git", "checkout", "--quiet", "--", "pu_geo"], cwd=checkout, check=True)
        with tempfile.TemporaryDirectory() as folder:
            if not failed or not run_tests(checkout, [by], Path(folder) / "reached")[0]:
                return {"noticed": failed, "reached": reached, "by": by}
        without.append(by)


def draw(seed: int, checkout: Path) -> Iterator[Fault]:
    """Yield faults at random: the rooms of `pu_geo` in turn, a function of the room, a kind, a fault; no function twice."""
    rng = random.Random(seed)
    rooms: dict[str, dict[tuple[str, str], list[Fault]]] = {}
    for path in sorted((checkout / "pu_geo").rglob("*.py")):
        module = path.relative_to(checkout)
        for fault in faults(module.as_posix(), path.read_text(encoding="utf-8")):
            rooms.setdefault(module.parts[1], {}).setdefault((fault.module, fault.name), []).append(fault)
    order = [room for room in rooms if not room.endswith(".py") and len(rooms[room]) > 9]
    rng.shuffle(order)
    while True:
        for room in order:
            possible = rooms[room].pop(rng.choice(sorted(rooms[room])))
            kind = rng.choice(sorted({fault.kind for fault in possible}))
            yield rng.choice([fault for fault in possible if fault.kind == kind])


def checkout_of(revision: str, folder: Path) -> Path:
    """Make a checkout of a revision, with the built browser component and what it is built with, if there is one."""
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", revision], cwd=folder, check=True)
    if (ROOT / BUNDLE).is_dir():
        shutil.copytree(ROOT / BUNDLE, folder / BUNDLE)
        (folder / BUNDLE).with_name("node_modules").symlink_to((ROOT / BUNDLE).with_name("node_modules"))
    return folder


def main() -> None:
    """Draw faults, judge them on both revisions, and print how many each notices."""
    parser = argparse.ArgumentParser(
        description=textwrap.dedent(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--before", required=True, help="revision whose tests are compared")
    parser.add_argument("--after", default="HEAD")
    parser.add_argument("--count", type=int, default=60, help="faults that some test reaches")
    parser.add_argument("--room", default="", help="of this room of pu_geo alone, such as geo or tasks/train")
    options = parser.parse_args()
    os.environ.setdefault("PU_GEO_SHARED", str(ROOT.parent / "shared"))
    commits = [
        subprocess.run(["git", "rev-parse", name], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        for name in (options.before, options.after)
    ]
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(2) as pool:
        before, after = (
            checkout_of(commit, Path(base) / name) for commit, name in zip(commits, ("before", "after"), strict=True)
        )
        for fault in draw(options.seed, before):
            if not fault.module.startswith(f"pu_geo/{options.room}"):
                continue
            results = pool.map(judge, (fault, fault), (before, after))
            row = {"seed": options.seed, **asdict(fault), **dict(zip(("before", "after"), results, strict=True))}
            if not (row["before"]["reached"] or row["after"]["reached"]):
                continue
            rows.append(row)
            with OUTCOMES.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**row, "commits": [commit[:12] for commit in commits]}) + "\n")
            count = {name: sum(each[name]["noticed"] for each in rows) for name in ("before", "after")}
            print(f"{len(rows)}: {fault.kind} in {fault.module} {fault.name}; noticed so far {count}", flush=True)
            if len(rows) == options.count:
                return


if __name__ == "__main__":
    main()
