"""Chromium for browser tests: the system's own, with a fresh profile, kept from phoning home."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser.make_project import make_project
from browser.real_app import add_hooks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 60


@pytest.fixture(scope="module")  # not the session: Playwright keeps an event loop in the main thread while it runs
def chromium() -> Iterator[object]:
    """A running Chromium. Skips where there is none, unless PU_GEO_REQUIRE_BROWSER=1."""
    required = os.environ.get("PU_GEO_REQUIRE_BROWSER") == "1"
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None and not required:
        pytest.skip("no Chromium on this machine; apt-get install chromium, or set PU_GEO_REQUIRE_BROWSER=1 to fail")
    assert program, f"PU_GEO_REQUIRE_BROWSER=1, but none of {', '.join(PROGRAMS)} is on the PATH"
    playwright = pytest.importorskip("playwright.sync_api") if not required else __import__("playwright.sync_api").sync_api
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def chromium_page(chromium) -> Iterator[object]:
    """A page of 1400 x 900 in a profile of its own. After the test, `page.outside` must be empty: it lists the addresses
    of requests that left 127.0.0.1, and `page.troubles` what scripts threw."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    add_hooks(context)
    page = context.new_page()
    page.outside = []
    page.troubles = []
    page.on("request", lambda request: _note_outside(page, request.url))
    page.on("websocket", lambda socket_: _note_outside(page, socket_.url))
    page.on("pageerror", lambda error: page.troubles.append(error.stack or str(error)))
    yield page
    context.close()
    assert page.outside == [], "requests left this machine"
    assert page.troubles == [], "scripts on the page failed"


def _note_outside(page, url: str) -> None:
    local = ("http://127.0.0.1:", "ws://127.0.0.1:", "blob:", "data:")
    if not url.startswith(local):
        page.outside.append(url)


@pytest.fixture(scope="session")
def start_app() -> Iterator[Callable[..., str]]:
    """Start `python SCRIPT *arguments PORT` (or with `{port}` in an argument), wait until it is healthy, return its address."""
    running: list[subprocess.Popen[bytes]] = []

    def start(script: Path, *arguments: str, log: Path, environment: dict[str, str] | None = None) -> str:
        port = _free_port()
        given = [each.replace("{port}", str(port)) for each in arguments]
        tail = given if given != list(arguments) else [*given, str(port)]
        known = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(script), *tail],
                cwd=log.parent, env=known, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        running.append(process)
        address = f"http://127.0.0.1:{port}"
        start.processes[address] = process
        _wait(address, process, log)
        return address

    start.processes = {}

    yield start
    for process in running:
        if process.poll() is not None:
            continue
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the app did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 made-up houses, for the small app around the damage view."""
    return make_project(tmp_path_factory.mktemp("damage-view") / "project", n=400, side=1500)


@pytest.fixture(scope="module")
def running_app(chromium, start_app, houses: Path) -> str:
    return start_app(HERE / "harness_app.py", str(houses), log=houses.parent / "app.log")


@pytest.fixture
def app(running_app: str) -> str:
    """The small app without any labels."""
    urllib.request.urlopen(f"{running_app}/harness/set?reset=1").close()
    return running_app


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: $PU_GEO_SCREENSHOTS, so that they can be looked at, else a folder that is thrown away."""
    named = os.environ.get("PU_GEO_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
