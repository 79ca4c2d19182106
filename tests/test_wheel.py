"""A wheel, unpacked away from the clone, serves the app, carries the sample event, and runs the notebooks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.request import Request

import pytest
from small_parts import REPOSITORY

from tests.browser.real_app import cookie_of

START_SECONDS = 60
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel of this clone was installed into, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run(build, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = next(folder.glob("pu_geo-*.whl"))
    target = folder / "site"
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


@pytest.mark.slow
def test_installed_wheel_serves_the_app_with_its_map_component(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PU_GEO_HOME": str(tmp_path / "home")}
    where = "import pu_geo; print(pu_geo.__file__)"
    loaded = subprocess.run(
        [sys.executable, "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert loaded.startswith(str(installed))  # not the clone
    with socket.socket() as listener:  # for a port that is free
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "pu_geo.cli", "app", "--no-browser", "--port", str(port)]
    app = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert fetch(f"http://127.0.0.1:{port}/_stcore/health") == b"ok"
        let_in = {"Cookie": cookie_of(tmp_path / "home", port)}
        bundle = fetch(Request(f"http://127.0.0.1:{port}/pugeo/assets/damage_view.js", headers=let_in), 5)
        assert len(bundle) > 100_000
    finally:
        os.killpg(app.pid, 15)
        app.wait(20)


@pytest.mark.slow
def test_wheel_carries_pages_and_sample_but_no_sources_of_the_browser_side(installed: Path) -> None:
    package = installed / "pu_geo"
    assert {path.stem for path in (package / "_app" / "pages").glob("*.py")} >= {"project", "annotate", "damage_map"}
    assert (package / "_app" / "sample_data" / "footprints.geojson").is_file()
    assert (package / "py.typed").is_file()
    assert {path.name for path in (package / "services" / "documents").glob("*.html")} == {"base.html", "report.html"}
    assert not list(package.rglob("node_modules"))
    assert not (package / "ui" / "frontend" / "src").exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom_with_the_wheel_alone(installed: Path, tmp_path: Path, notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "notebooks are kept without outputs"
    script = tmp_path / f"{notebook.stem}.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in cells), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "PU_GEO_HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_there_is_a_notebook_for_arrays_and_one_for_events() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["from_an_event_folder_to_a_damage_map", "pu_learning_on_your_own_arrays"]
