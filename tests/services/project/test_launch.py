"""`pu-geo app`: its address is printed once it answers, and whatever asks for its end ends the server, too."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_parts import REPOSITORY

from pu_geo.errors import PuGeoError
from pu_geo.services.project import access, launch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these signals")
SERVER = """
import os, sys, time, signal
from http.server import BaseHTTPRequestHandler, HTTPServer
sys.path.insert(0, {repository!r})
from pu_geo.project.layout import home
from pu_geo.services.project import access
port, secret = int(sys.argv[1]), access.given_secret()
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/?token=" + secret:
            self.send_response(303)
            self.send_header("Set-Cookie", access.cookie_name(port) + "=" + access.cookie_value(access.user_key(home()), port))
        else:
            self.send_response(403)
        self.end_headers()
    def log_message(self, *_): pass
time.sleep({seconds})
{more}
HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
LAUNCH = """
import sys
from pathlib import Path
from pu_geo.services.project import launch
launch.app_script = lambda: Path(sys.argv[1])
sys.exit(launch.launch_app(None, port=int(sys.argv[2]), sample=False, browser=False, ready=lambda at: print(at, flush=True)))
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # it ends its server, which a kill would leave behind
        process.communicate()


def start(started: list[subprocess.Popen[str]], *command: str) -> subprocess.Popen[str]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests under nohup hands an ignored one on
    process = subprocess.Popen(
        [sys.executable, *command], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    signal.signal(signal.SIGHUP, before)
    started.append(process)
    return process


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def closed_within(port: int, seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while is_open(port):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def script(folder: Path, *, seconds: float = 0.0, more: str = "") -> Path:
    path = folder / "server.py"
    path.write_text(SERVER.format(seconds=seconds, more=more, repository=str(REPOSITORY)))
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "asked", [pytest.param("SIGINT", marks=pytest.mark.ci), pytest.param("SIGHUP", marks=pytest.mark.long(part="slow"))]
)
def test_the_real_app_ends_when_it_is_asked_to(asked: str, port: int, started: list[subprocess.Popen[str]]) -> None:
    process = start(started, "-m", "pu_geo.cli", "app", "--port", str(port), "--no-browser")
    assert process.stdout is not None
    printed = process.stdout.readline()
    address = re.search(rf"PU-Geo is ready at (http://127\.0\.0\.1:{port}/\?token=([\w-]{{43}}))  ", printed)
    assert address, printed
    assert is_open(port), "it was printed before the server answered"
    commands = [each.cmdline() for each in (psutil.Process(process.pid), *psutil.Process(process.pid).children(True))]
    assert len(commands) == 2
    assert address[2] not in str(commands), "everybody on the machine can list what programs were started with"
    jar = urllib.request.HTTPCookieProcessor()
    with urllib.request.build_opener(jar).open(address[1], timeout=10) as page:
        assert (page.status, page.url) == (200, f"http://127.0.0.1:{port}/")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/?token={address[2][::-1]}", timeout=10)
    process.send_signal(getattr(signal, asked))
    assert closed_within(port, 5)
    assert process.wait(5) == 0
    assert process.stdout.read() == "", "no traceback, no more words"


@pytest.mark.slow
def test_the_address_is_printed_once_the_server_answers_and_one_that_will_not_end_is_killed(
    tmp_path: Path, port: int, started: list[subprocess.Popen[str]]
) -> None:
    stubborn = "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)"
    process = start(started, "-c", LAUNCH, str(script(tmp_path, seconds=1.0, more=stubborn)), str(port))
    assert process.stdout is not None
    began = time.monotonic()
    assert process.stdout.readline().startswith(f"http://127.0.0.1:{port}/?token=")
    assert time.monotonic() - began > 0.9
    assert is_open(port)
    process.send_signal(signal.SIGINT)
    assert closed_within(port, launch._END_SECONDS + 2)
    assert process.wait(5) == 0


@pytest.mark.ci
@pytest.mark.slow
def test_under_nohup_a_closed_terminal_does_not_end_the_server(
    tmp_path: Path, port: int, started: list[subprocess.Popen[str]]
) -> None:
    ignored = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{LAUNCH}"
    process = start(started, "-c", ignored, str(script(tmp_path)), str(port))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    assert not closed_within(port, 1)
    process.send_signal(signal.SIGTERM)
    assert closed_within(port, launch._END_SECONDS + 2)


def test_a_server_that_ends_as_it_starts_is_a_refusal_and_handlers_of_signals_are_put_back(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    path = script(tmp_path, more="sys.exit(3)")
    monkeypatch.setattr(launch, "app_script", lambda: path)
    with pytest.raises(PuGeoError, match="ended as it started, with exit code 3"):
        launch.launch_app(None, port=port, sample=False, browser=False)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_server_that_never_answers_is_ended(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path, seconds=60)
    monkeypatch.setattr(launch, "app_script", lambda: path)
    monkeypatch.setattr(launch, "_START_SECONDS", 1.0)
    with pytest.raises(PuGeoError, match="did not answer within 1 s"):
        launch.launch_app(None, port=port, sample=False, browser=False)


@pytest.mark.usefixtures("home")
def test_another_server_that_takes_the_port_meanwhile_is_not_ready(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(303)
            self.send_header("Set-Cookie", f"{access.cookie_name(port)}={'0' * 64}")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    path = script(tmp_path, seconds=1.0, more="sys.exit(4)")  # as one does that finds its port taken
    monkeypatch.setattr(launch, "app_script", lambda: path)
    before = subprocess.Popen
    others: list[HTTPServer] = []

    def too_late(*given: Any, **more: Any) -> Any:
        others.append(HTTPServer(("127.0.0.1", port), Other))
        threading.Thread(target=others[0].serve_forever, daemon=True).start()
        return before(*given, **more)

    monkeypatch.setattr(launch.subprocess, "Popen", too_late)
    ready: list[str] = []
    try:
        with pytest.raises(PuGeoError, match="exit code 4"):
            launch.launch_app(None, port=port, sample=False, browser=False, ready=ready.append)
    finally:
        others[0].shutdown()
        others[0].server_close()
    assert ready == []


@pytest.mark.usefixtures("home")
def test_interrupted_as_the_server_starts_it_leaves_none(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path)
    monkeypatch.setattr(launch, "app_script", lambda: path)
    before, servers = subprocess.Popen, []

    def interrupted(*given: Any, **more: Any) -> Any:
        servers.append(before(*given, **more))
        signal.raise_signal(signal.SIGINT)
        return servers[0]

    monkeypatch.setattr(launch.subprocess, "Popen", interrupted)
    try:
        assert launch.launch_app(None, port=port, sample=False, browser=False) == 0
        assert servers[0].poll() is not None
    finally:
        servers[0].kill()
        servers[0].wait()


def test_a_port_that_is_taken_is_a_refusal(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(PuGeoError, match=f"Port {port} is taken"):
            launch.launch_app(None, port=port, sample=False, browser=False)
