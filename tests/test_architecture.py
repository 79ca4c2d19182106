"""Which room may import which: ARCHITECTURE's table, read off the code with ast, and proved in fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from small_parts import REPOSITORY

ALWAYS = {"errors", "records"}
BELOW_TASKS = {"datasets", "engine", "methods", "losses", "analysis", "geo", "project", "jobs", "tasks"}
OURS = {
    "errors": set(),
    "records": set(),
    "losses": {"errors"},
    "analysis": {"errors"},
    "geo": ALWAYS,
    "datasets": {"geo", *ALWAYS},
    "project": ALWAYS,
    "jobs": {"job_requests", "job_views", "processes", "project", *ALWAYS},
    "job_requests": {"job_views", "processes", "project", *ALWAYS},
    "processes": set(),
    "job_views": {"project", *ALWAYS},
    "turns": {"project", *ALWAYS},
    "engine": {"losses", "project", *ALWAYS},
    "methods": {"engine", "losses", "analysis", *ALWAYS},
    "tasks": {*BELOW_TASKS, "services", *ALWAYS},
    "services": {"project", "jobs", "turns", "analysis", "methods", *ALWAYS},
    "ui": {"services", "project", "jobs", "launch", *ALWAYS},
    "pages": {"services", "ui", *ALWAYS},
    "app": {"ui"},
    "cli": {
        "services",
        "tasks",
        "jobs",
        "project",
        "worker",
        "demo",
        "launch",
        "cli_parser",
        "cli_apart",
        "cli_benchmark",
        "cli_compare",
        "cli_jobs",
        "cli_map",
        "cli_models",
        "cli_outlines",
        "cli_run",
        "cli_explore",
        "cli_types",
        "geo",
        *ALWAYS,
    },
    "cli_apart": {"cli_run", "services", "tasks", *ALWAYS},
    "cli_benchmark": {"cli_run", "tasks", *ALWAYS},
    "cli_compare": {"cli_run", "services", *ALWAYS},
    "cli_jobs": {"cli_run", "services", "jobs", "project", *ALWAYS},
    "cli_map": {"cli_run", "services", "tasks", "project", *ALWAYS},
    "cli_models": {"cli_run", "services", "tasks", *ALWAYS},
    "cli_outlines": {"cli_run", "services", *ALWAYS},
    "cli_run": {"errors", "jobs", "processes", "project", "worker"},
    "cli_parser": {"cli_parser_apart", "cli_parser_explore", "cli_parser_types", "cli_words", "methods"},
    "cli_parser_explore": {"cli_words"},
    "cli_explore": {"cli_run", "services", *ALWAYS},
    "cli_parser_apart": {"cli_words", "methods"},
    "cli_parser_types": {"cli_words"},
    "cli_words": set(),
    "cli_types": {"cli_run", "services", "project", *ALWAYS},
    "demo": {"cli_run", "services", "tasks", "project", *ALWAYS},
    "launch": {"project", *ALWAYS},
    "worker": {"tasks", "jobs", "processes", "turns", "project", *ALWAYS},
}
THIRD_PARTY = {
    "errors": set(),
    "records": {"numpy"},
    "losses": {"torch"},
    "analysis": {"numpy", "scipy", "threadpoolctl", "sklearn", "faiss", "numba"},
    "geo": {"rasterio", "shapely", "pyproj", "numpy", "cv2", "orjson", "pyarrow", "pyogrio"},
    "datasets": {"numpy", "cv2", "shapely", "orjson"},
    "project": {"numpy", "shapely"},
    "jobs": set(),
    "job_requests": set(),
    "processes": set(),
    "job_views": set(),
    "turns": set(),
    "engine": {"torch", "torchvision", "numpy", "safetensors"},  # the last one late, for weights files alone
    "methods": {"torch", "torchvision", "numpy", "faiss"},
    "services": {"numpy", "scipy", "shapely"},
    "ui": {"streamlit", "plotly", "starlette"},
    "pages": {"streamlit", "plotly", "numpy"},
    "app": {"streamlit", "starlette"},
    "cli_apart": set(),
    "cli_benchmark": set(),
    "cli_compare": set(),
    "cli_jobs": set(),
    "cli_map": set(),
    "cli_models": set(),
    "cli_outlines": set(),
    "cli_parser": set(),
    "cli_words": set(),
    "cli_parser_apart": set(),
    "cli_parser_types": set(),
    "cli_run": set(),
    "cli_explore": set(),
    "cli_parser_explore": set(),
    "cli_types": set(),
    "launch": set(),
    "worker": set(),
}
HEAVY = ("torch", "rasterio", "faiss", "numba", "sklearn", "geopandas", "streamlit")
SERVICES = sorted(path.stem for path in (REPOSITORY / "pu_geo" / "services").glob("[a-z]*.py"))


def sources() -> list[tuple[str, Path]]:
    """Every module of ours with the room it is in; `ui/build.py` runs at install time and belongs to no room."""
    found = [("app", REPOSITORY / "app.py")]
    found += [("pages", path) for path in sorted((REPOSITORY / "pages").glob("*.py"))]
    for path in sorted((REPOSITORY / "pu_geo").rglob("*.py")):
        parts = path.relative_to(REPOSITORY / "pu_geo").parts
        if "node_modules" not in parts and path.name != "__init__.py" and parts != ("ui", "build.py"):
            found.append((parts[0].removesuffix(".py"), path))
    return found


def imported(path: Path) -> set[str]:
    """Every module a file imports, anywhere in it, as dotted names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize(("room", "path"), sources(), ids=lambda value: getattr(value, "name", value))
def test_imports_go_downward_only(room: str, path: Path) -> None:
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("pu_geo.")} - {"__version__"}
    assert ours <= OURS[room] | {room}, f"{path.name} of {room} may not import {ours - OURS[room] - {room}}"
    if room in THIRD_PARTY:
        others = {name.split(".")[0] for name in imported(path)} - {"pu_geo", "__future__"} - sys.stdlib_module_names
        assert others <= THIRD_PARTY[room], f"{path.name} of {room} may not import {others - THIRD_PARTY[room]}"


@pytest.mark.parametrize("service", SERVICES)
def test_service_loads_nothing_heavy(service: str) -> None:
    code = f"import sys, pu_geo.services.{service}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "[]"


def test_settings_and_catalog_load_without_torch() -> None:
    code = "import sys, pu_geo.methods.catalog, pu_geo.methods.settings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "False"


def test_methods_run_with_torch_and_numpy_alone() -> None:
    blocked = (
        "safetensors", "rasterio", "geopandas", "sklearn", "scipy", "faiss", "numba", "streamlit", "shapely", "cv2", "pandas",
    )  # fmt: skip
    code = (
        f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
        "import pu_geo.features.rcf\nfrom pu_geo.methods import catalog\n"
        "for name in catalog.METHODS: catalog.load_fit(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr


def test_nothing_of_ours_hands_the_project_file_to_another_sqlite_library() -> None:
    """`project.gpkg` is opened by sqlite3 alone: outside `project/` nobody even names it."""
    naming = [
        path.name
        for room, path in sources()
        if room not in ("project", "services") and ("layout.gpkg" in path.read_text() or ".gpkg)" in path.read_text())
    ]
    assert naming == []
