"""A wheel, unpacked away from the clone, serves the app, carries the sample event, runs the notebooks, and fits its lock files."""

import hashlib
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from small_parts import REPOSITORY, in_tiers

from tests.browser.real_app import cookie_of

pytestmark = pytest.mark.slow
START_SECONDS = 60
LOCKS = sorted(REPOSITORY.glob("lock-*.txt"))
HERE = f"lock-{sys.platform}-{platform.machine()}-cp{sys.version_info.major}{sys.version_info.minor}.txt"
OF_TORCH = re.compile(r"torch|torchvision|triton|nvidia-.*|cuda-.*|setuptools")  # `constraints.txt` leaves it out


def locked(path: Path) -> dict[str, str]:
    """Read a lock file: version of each package, by its normalized name; every line has exactly one sha256."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = [re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(rows), lines
    return {canonicalize_name(row[1]): row[2] for row in rows if row}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this clone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run(build, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("pu_geo-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder that the wheel was installed into, without its dependencies."""
    target = wheel.parent / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return target


def fetch(address: str | Request, seconds: float = START_SECONDS) -> bytes:
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                content: bytes = answer.read()
                return content
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.3)


@pytest.mark.ci
def test_installed_wheel_serves_the_app_with_its_map_component(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PU_GEO_HOME": str(tmp_path / "home")}
    where = "import pu_geo; print(pu_geo.__file__)"
    how: Any = {"cwd": tmp_path, "env": environment}
    loaded = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True, check=True, **how).stdout
    assert loaded.startswith(str(installed))  # not the clone
    with socket.socket() as listener:  # for a port that is free
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "pu_geo.cli", "app", "--no-browser", "--port", str(port)]
    app = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **how)
    try:
        assert fetch(f"http://127.0.0.1:{port}/_stcore/health") == b"ok"
        let_in = {"Cookie": cookie_of(tmp_path / "home", port)}
        bundle = fetch(Request(f"http://127.0.0.1:{port}/pugeo/assets/damage_view.js", headers=let_in), 5)
        assert len(bundle) > 100_000
    finally:
        os.killpg(app.pid, 15)
        app.wait(20)


@pytest.mark.ci
def test_wheel_carries_pages_and_sample_but_no_sources_of_the_browser_side(installed: Path) -> None:
    package = installed / "pu_geo"
    assert {path.stem for path in (package / "_app" / "pages").glob("*.py")} >= {"project", "annotate", "damage_map"}
    assert (package / "_app" / "sample_data" / "footprints.geojson").is_file()
    assert (package / "py.typed").is_file()
    assert {path.name for path in (package / "store" / "documents").glob("*.html")} == {"base.html", "report.html"}
    assert not list(package.rglob("node_modules"))
    assert not (package / "ui" / "frontend" / "src").exists()


NOTEBOOKS = ("from_an_event_folder_to_a_damage_map", "pu_learning_on_your_own_arrays")


@pytest.mark.parametrize("notebook", in_tiers(NOTEBOOKS, "slow", ci=NOTEBOOKS[1:]))
def test_notebook_runs_from_top_to_bottom_with_the_wheel_alone(installed: Path, tmp_path: Path, notebook: str) -> None:
    source = REPOSITORY / "docs" / "notebooks" / f"{notebook}.ipynb"
    cells = [cell for cell in json.loads(source.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "notebooks are kept without outputs"
    script = tmp_path / f"{notebook}.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in cells), encoding="utf-8")
    own = {"PYTHONPATH": str(installed), "PU_GEO_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.ci
@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_file_names_all_that_the_wheel_needs_in_versions_that_it_takes(installed: Path, path: Path) -> None:
    versions = locked(path)
    distribution = PathDistribution(next(installed.glob("pu_geo-*.dist-info")))
    wanted = [Requirement(text) for text in distribution.requires or ()]
    extras = ("", "backbones", "scale")
    needed = [one for one in wanted if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)]
    assert len(needed) > 20
    unmet = [str(one) for one in needed if not one.specifier.contains(versions.get(canonicalize_name(one.name), "0"))]
    assert unmet == []
    lines = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if "==" in line]
    known = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert not [name for name in known if OF_TORCH.fullmatch(name)]
    others = {name: found for name, found in versions.items() if not OF_TORCH.fullmatch(name)}
    assert others.items() <= known.items(), "make lock"


@pytest.mark.long(part="slow")
def test_pip_installs_the_wheel_from_the_lock_file_with_every_hash_checked(wheel: Path, tmp_path: Path) -> None:
    """pip works out the whole installation in its mode that takes nothing without a sha256, and fetches no wheel for it."""
    if not (REPOSITORY / HERE).is_file():
        pytest.skip(f"there is no {HERE}: this platform has no lock file")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    listed = (REPOSITORY / HERE).read_text(encoding="utf-8")
    requirements, report = tmp_path / "all.txt", tmp_path / "report.json"
    requirements.write_text(f"{listed}pu-geo[backbones,scale] @ {wheel.as_uri()} --hash=sha256:{digest}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:"]
    command = [*pip, "--require-hashes", "--report", str(report), "-r", str(requirements)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode and re.search(r"Could not fetch URL|NewConnectionError|Name or service not known", done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr[-3000:]
    found = {canonicalize_name(one["metadata"]["name"]) for one in json.loads(report.read_text())["install"]}
    assert found == {*locked(REPOSITORY / HERE), "pu-geo"}
