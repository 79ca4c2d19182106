"""Which room may import which: the table of the architecture, read off the code with ast, and proved in one interpreter a layer."""

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from small_parts import REPOSITORY

PACKAGE = REPOSITORY / "pu_geo"
ALWAYS = {"errors", "records", "files", "free_memory", "spreadsheets", "wording"}
DOMAINS = ("scenes", "answers", "assessment", "runs", "explore", "maps", "lifecycle", "federation")
"""In the order in which the data flow: each may use those before it, never those behind."""
NUMERICAL = {"losses", "analysis", "training", "features", "methods", *ALWAYS}
# What of ours a topic may import beside topics of its own domain and of those before: it answers at once.
OF_TOPICS = {"store", "jobs", "analysis", "methods.catalog", "methods.cards", "methods.settings", "methods.measured",
             "training.model_files", "geo.vector", "geo.ground", "geo.scene_state", "scale.computers", *ALWAYS}  # fmt: skip
# What a job may: anything below, and any topic of its own domain and of those before.
OF_JOBS = {*NUMERICAL, "geo", "datasets", "store", "jobs", "scale", *ALWAYS}
# A room, or a part of one by its dotted name, and what of ours it may import; the longest name that fits decides. Domains follow below.
OURS: dict[str, set[str]] = {
    "errors": set(), "free_memory": set(), "spreadsheets": set(), "wording": set(),
    "records": {"errors"}, "files": {"errors"}, "losses": {"errors"}, "analysis": {"errors"},
    "training": {"losses", "analysis", *ALWAYS},
    "features": {"training", "losses", "analysis", *ALWAYS},
    "methods": NUMERICAL,
    "geo": ALWAYS,
    "datasets": {"geo", *ALWAYS},
    "store": {"analysis", "methods.catalog", "geo.ground", "geo.vector", *ALWAYS},
    "jobs": {"store", "methods.settings", *ALWAYS},
    "scale": {"features", "training", "methods", "geo", "store.layout", "store.events", "store.in_use", *ALWAYS},
    "ui": {*DOMAINS, "scale.computers", "store", "jobs", "methods.catalog", "training.model_files", *ALWAYS},
    "pages": {*DOMAINS, "ui", "jobs.tasks", "store.chosen", "store.run_names", *ALWAYS},
    "app": {"ui"},
    "cli": {*DOMAINS, "scale", "jobs", "store", "geo", "methods", "api", *ALWAYS},
    "api": {*DOMAINS, *OF_JOBS},
}  # fmt: skip
# What it may import of others; a room that is not named here may import everything.
THIRD_PARTY: dict[str, set[str]] = {
    "errors": set(), "spreadsheets": set(), "wording": set(),
    "records": {"numpy"}, "files": {"filelock"}, "free_memory": {"psutil"}, "losses": {"torch"},
    "analysis": {"numpy", "scipy", "threadpoolctl", "sklearn", "faiss", "umap", "networkx"},
    "features": {"torch", "torchvision", "timm", "numpy", "scipy", "sklearn", "safetensors", "cv2"},
    "training": {"torch", "torchvision", "timm", "numpy", "scipy", "sklearn", "safetensors", "cv2"},
    "methods": {"torch", "torchvision", "timm", "numpy", "scipy", "sklearn", "safetensors", "faiss"},
    "geo": {"rasterio", "shapely", "pyproj", "numpy", "scipy", "cv2", "orjson", "jinja2"},
    "geo.readers": {"rasterio", "shapely", "pyproj", "numpy", "cv2", "orjson", "pyarrow", "pyogrio", "geopandas", "pandas"},
    "geo.export": {"rasterio", "shapely", "pyproj", "numpy", "cv2", "orjson", "pyarrow", "pyogrio", "geopandas", "pandas",
                   "jinja2", "markupsafe"},
    "datasets": {"numpy", "cv2", "shapely", "orjson"}, "jobs": {"psutil"},
    "store": {"numpy", "shapely", "safetensors", "filelock"}, "store.documents": {"jinja2", "markupsafe"},
    "federation.deployed": {"numpy", "cryptography", "flwr", "torch", "h11", "httpx", "uvicorn"},
    "ui": {"streamlit", "plotly", "starlette", "uvicorn", "h11", "numpy"},
    "pages": {"streamlit", "plotly", "numpy"}, "app": {"streamlit", "starlette"}, "cli": {"typer", "click", "rich"},
}  # fmt: skip
OF_A_TOPIC = {"numpy", "scipy", "shapely"}
HEAVY = ("torch", "rasterio", "faiss", "umap", "numba", "sklearn", "geopandas", "pandas", "pyogrio", "streamlit", "jinja2")
NOT_ON_A_GPU_MACHINE = (
    "rasterio", "geopandas", "pandas", "shapely", "pyproj", "pyogrio", "pyarrow", "faiss", "umap", "numba", "streamlit", "plotly",
)  # fmt: skip


@functools.cache
def sources() -> dict[str, Path]:
    """Return every module of ours by its dotted name; `ui/build.py` runs at install time and belongs to no room."""
    found = {"app": REPOSITORY / "app.py"} | {f"pages.{path.stem}": path for path in (REPOSITORY / "pages").glob("*.py")}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if "node_modules" not in parts and parts not in (("__init__",), ("ui", "build")):
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return every module that a file imports, anywhere in it, as dotted names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names - {"pu_geo.__version__"})


def is_in(name: str, rooms: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{room}.") for room in rooms)


def rule(name: str, rules: dict[str, set[str]]) -> set[str] | None:
    """Return the entry of a table whose name fits a module best, or None."""
    return rules.get(max((room for room in rules if is_in(name, [room])), key=len, default=""))


def is_topic(name: str) -> bool:
    """Return whether a module of a domain answers at once; else it is of a job: its name ends in `_job`, or it is started by itself."""
    return name.split(".")[0] in DOMAINS and not name.endswith(("_job", "__main__"))


def allowed_of(name: str) -> set[str]:
    """Return what of ours a module may import beside its own room."""
    room = name.split(".")[0]
    if room in DOMAINS:
        return {*(OF_TOPICS if is_topic(name) else OF_JOBS), *DOMAINS[: DOMAINS.index(room)]}
    found = rule(name, OURS)
    assert found is not None, f"{name} is in a room that the table does not know"
    return found


def modules(rooms: Iterable[str]) -> list[str]:
    return [f"pu_geo.{name}" for name in sources() if is_in(name, rooms)]


def in_fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


ROOMS = sorted({name.split(".")[0] for name in sources()})


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_downward_only(room: str) -> None:
    """A module may import its own room, and what the tables name for it."""
    wrong = []
    for name, path in sources().items():
        if not is_in(name, [room]):
            continue
        allowed, others = allowed_of(name), rule(name, THIRD_PARTY) or (OF_A_TOPIC if is_topic(name) else None)
        for what in imported(path):
            top = what.split(".")[0]
            if top == "pu_geo":
                ours = what.removeprefix("pu_geo").removeprefix(".")
                wrong += [] if is_in(ours, {*allowed, room}) or not ours else [f"{name} imports {what}"]
            elif others is not None and top not in {*others, "__future__"} | sys.stdlib_module_names:
                wrong.append(f"{name} imports {what}")
    assert wrong == []


def test_what_answers_at_once_imports_nothing_of_a_job() -> None:
    """Nor does a screen: it starts jobs by their names."""
    at_once = [name for name in sources() if is_topic(name) or is_in(name, ["ui", "pages", "store", "jobs"])]
    named = [(name, what) for name in at_once if name != "jobs.worker" for what in imported(sources()[name])]
    wrong = [(name, what) for name, what in named if re.search(r"^pu_geo\..*_job(\.|$)", what)]
    assert wrong == []


def test_no_module_imports_one_that_imports_it() -> None:
    """Neither at once nor by others, nor within a function."""
    known = sources()
    named = {
        name: {_module_of(what.removeprefix("pu_geo."), known) for what in imported(path)} for name, path in known.items()
    }
    edges = {name: found - {"", name} for name, found in named.items()}
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from error


def _module_of(what: str, known: Mapping[str, Path]) -> str:
    """Return the module that a dotted name is, or is in; a package by itself is what its modules are entered by."""
    return what if what in known else parent if (parent := what.rpartition(".")[0]) in known else ""


@pytest.mark.parametrize("package", ["export", "raster", "readers", "vector"])
def test_a_package_of_geo_is_entered_by_the_modules_that_it_lists(package: str) -> None:
    """Everything else in it is private."""
    room = f"geo.{package}"
    public = [f"pu_geo.{room}.{name}" for name in importlib.import_module(f"pu_geo.{room}").__all__]
    assert {*public} <= {*modules([room])}
    outside = {name: imported(path) for name, path in sources().items() if not is_in(name, [room])}
    entered = [(name, what) for name, names in outside.items() for what in names if is_in(what, [f"pu_geo.{room}"])]
    assert [(name, what) for name, what in entered if not is_in(what, public)] == []


@pytest.mark.parametrize(
    ("rooms", "forbidden"),
    [
        pytest.param(["errors", "records", "store", "jobs"], (*HEAVY, "scipy"), id="jobs"),
        pytest.param(DOMAINS, HEAVY, id="topics"),
        pytest.param(["methods.catalog", "methods.cards", "methods.settings"], HEAVY, id="cards"),
        pytest.param(["analysis"], (*HEAVY, "pu_geo.store"), id="analysis"),
    ],
)
def test_a_layer_loads_nothing_heavy(rooms: Iterable[str], forbidden: tuple[str, ...]) -> None:
    of_jobs = (f"pu_geo.{name}" for name in sources() if is_in(name, DOMAINS) and not is_topic(name))
    not_here = ("pu_geo.jobs.worker", *of_jobs)
    wanted = [name for name in modules(rooms) if name not in not_here]
    code = f"import sys, {', '.join(wanted)}; print(sorted(set({forbidden!r}) & set(sys.modules)))"
    assert len(wanted) > 1
    assert in_fresh_interpreter(code) == "[]"


def test_trainings_need_nothing_that_a_gpu_machine_lacks() -> None:
    rooms = ["losses", "training", "features", "methods", "analysis"]
    code = (
        f"import sys\nfor name in {NOT_ON_A_GPU_MACHINE!r}: sys.modules[name] = None\n"
        f"import {', '.join(modules(rooms))}\nfrom pu_geo.methods import catalog\n"
        "print(len([catalog.load_fit(name) for name in catalog.METHODS]))"
    )
    assert int(in_fresh_interpreter(code)) > 5


def test_nothing_of_ours_hands_the_project_file_to_another_sqlite_library() -> None:
    """`project.gpkg` is opened by sqlite3 alone: outside `store/`, topics and the door to files nothing even names it."""
    others = {name: path for name, path in sources().items() if not is_in(name, ("store", "files")) and not is_topic(name)}
    naming = re.compile(r"layout\.gpkg|\.gpkg\)|/ \"project\.gpkg\"")
    assert [name for name, path in others.items() if naming.search(path.read_text())] == []


def _sentences(path: Path) -> list[str]:
    """Return string constants of three words or more that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    kept |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # texts below constants, too
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    found = (
        node for node in texts if node not in kept and not ("{" in node.value and "\n" in node.value)
    )  # scripts, styles
    return [f"{path.name}:{node.lineno} {node.value}" for node in found if THREE_WORDS.search(node.value)]


THREE_WORDS = re.compile(r"[A-Za-z]{2,}[,:]? [A-Za-z]{2,}[,:]? [a-z]{2,}")
SCREEN_FILES = [path for name, path in sources().items() if is_in(name, ["pages", "ui"]) and path.name != "texts.py"]
NOT_OF_A_SCREEN = {"build.py", "routes.py"}


@pytest.mark.parametrize("path", SCREEN_FILES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_sentences_of_a_screen_stand_in_its_texts(path: Path) -> None:
    assert path.name in NOT_OF_A_SCREEN or not _sentences(path)
