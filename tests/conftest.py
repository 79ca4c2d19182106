"""Fixtures for every room: the shared data folder, a fresh project, and a small town that is made once a test run."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine
from filelock import FileLock
from small_parts import REPOSITORY, small_project, with_key

from pu_geo.store.layout import HOME_VARIABLE, Layout


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for what concerns all projects of a user; the real one stays as it is."""
    folder = with_key(tmp_path_factory.mktemp("own_home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Keep `__main__`: an AppTest leaves its script there, and each process that is spawned after it runs that first."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same for one test alone."""
    monkeypatch.setenv(HOME_VARIABLE, str(with_key(tmp_path / "home")))
    return tmp_path / "home"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real imagery and damaged files; a user's clone has none."""
    folder = Path(os.environ.get("PU_GEO_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared folder at {folder}; set PU_GEO_SHARED")
    return folder


@pytest.fixture(scope="session")
def joplin(shared: Path) -> Path:
    """The two adjoining Joplin scenes."""
    return shared / "data" / "joplin_xbd"


@pytest.fixture
def project(tmp_path: Path) -> Layout:
    """A project with a grid and twenty footprints, b0 to b19."""
    return small_project(tmp_path / "event.pugeo")


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits draw the same buildings in each run of a test: an interval misses the truth in one draw of twenty."""
    from pu_geo.assessment import random_audits

    monkeypatch.setattr(random_audits, "_seed", lambda: 1)


@pytest.fixture
def mapped(tmp_path: Path, same_draws: None) -> Layout:
    """A project of 400 buildings with a finished run, of which `mapped_parts.TRUTH` are damaged."""
    from mapped_parts import mapped_project

    return mapped_project(tmp_path)


@pytest.fixture
def without_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut chips without their features, which take a second."""
    monkeypatch.setattr("pu_geo.scenes.chip_job._compute_features", lambda *_: ())


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pre.tif`, `post.tif`, `footprints.geojson` of a small town, 160 x 128 m with about 40 buildings, and two
    projects of it: `chipped.pugeo` has chips and features, `ranked.pugeo` six clicks and a ranking as well.

    Built once for all processes of a test run; tests take `chipped_town` or `ranked_town`, copies of their own.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "town"
    with FileLock(f"{folder}.lock"):
        if not (folder / "ranked.pugeo").exists():
            from town_parts import build_town  # loads torch and rasterio, which few tests need

            build_town(folder)
    return folder


@pytest.fixture
def chipped_town(town: Path, tmp_path: Path) -> Layout:
    return Layout(Path(shutil.copytree(town / "chipped.pugeo", tmp_path / "town.pugeo")))


@pytest.fixture
def ranked_town(town: Path, tmp_path: Path) -> Layout:
    return Layout(Path(shutil.copytree(town / "ranked.pugeo", tmp_path / "town.pugeo")))


@pytest.fixture(scope="session")
def prepared_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample event as `Project.sample` prepares it, without labels; about half a minute, once for all processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sample"
    with FileLock(f"{folder}.lock"):
        if not (folder / "sample.pugeo").exists():
            from pu_geo import Project  # loads what few tests need

            made = Project.sample(folder / "unfinished.pugeo", progress=False)
            made.folder.rename(folder / "sample.pugeo")
    return folder / "sample.pugeo"


@pytest.fixture
def sample(prepared_sample: Path, tmp_path: Path) -> Layout:
    return Layout(Path(shutil.copytree(prepared_sample, tmp_path / "joplin.pugeo")))


@pytest.fixture(autouse=True)
def _no_look_by_itself(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Explore starts no worker when it is opened; `test_looks` asks that of it."""
    if request.path.name != "test_looks.py":
        monkeypatch.setattr("pu_geo.explore.looks.start", lambda layout, source="look": None)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The jobs that a page starts, task and arguments; none of them runs."""
    from pu_geo import jobs
    from pu_geo.jobs.start import spec_of

    found: list[tuple[str, dict[str, Any]]] = []

    def start(*given: Any) -> str:
        task, args = spec_of(*given)
        found.append((task, dict(args)))
        return "job"

    monkeypatch.setattr(jobs, "start", start)
    return found
