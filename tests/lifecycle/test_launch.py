"""`pu-geo app`: its address is printed once it answers, and whatever asks for its end ends the server, too."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from small_parts import REPOSITORY

from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import access, launch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these signals")
Start = Callable[..., subprocess.Popen[str]]
SERVER = """
import os, sys, time, signal
from http.server import BaseHTTPRequestHandler, HTTPServer
sys.path.insert(0, {repository!r})
from pu_geo.store.layout import home
from pu_geo.lifecycle import access
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
from pu_geo.lifecycle import launch
launch.app_script = lambda: Path(sys.argv[1])
sys.exit(launch.launch_app(None, port=int(sys.argv[2]), sample=False, browser=False, ready=lambda at: print(at, flush=True)))
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def start(tmp_path: Path, port: int) -> Iterator[Start]:
    """Return a function that launches a server, which takes some seconds to start; all of them end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def launched(seconds: float = 0.0, more: str = "", before: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", before + LAUNCH, str(script(tmp_path, seconds=seconds, more=more)), str(port)]
        ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests under nohup hands an ignored one on
        processes.append(
            subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        signal.signal(signal.SIGHUP, ignored)
        return processes[-1]

    yield launched
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # it ends its server, which a kill would leave behind
        process.communicate()


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
def test_the_address_comes_once_the_server_answers_and_a_stubborn_one_is_killed(port: int, start: Start) -> None:
    stubborn = "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)"
    began = time.monotonic()
    process = start(seconds=1.0, more=stubborn)
    assert process.stdout is not None
    secret = process.stdout.readline().strip().removeprefix(f"http://127.0.0.1:{port}/?token=")
    assert time.monotonic() - began > 0.9
    assert is_open(port)
    assert re.fullmatch(r"[\w-]{43}", secret)
    commands = [each.cmdline() for each in (psutil.Process(process.pid), *psutil.Process(process.pid).children())]
    assert len(commands) == 2
    assert secret not in str(commands), "everybody on the machine can list what programs were started with"
    process.send_signal(signal.SIGHUP)  # the terminal was closed
    assert closed_within(port, launch._END_SECONDS + 2)
    assert process.wait(5) == 0
    assert process.stdout.read() == "", "no traceback, no more words"


@pytest.mark.ci
@pytest.mark.slow
def test_under_nohup_a_closed_terminal_does_not_end_the_server(port: int, start: Start) -> None:
    process = start(before="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n")
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


@pytest.mark.parametrize(("status", "is_ours", "expected"), [(303, True, True), (200, True, False), (303, False, False)])
def test_another_server_on_the_port_is_not_ready(port: int, status: int, *, is_ours: bool, expected: bool) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            value = access.cookie_value(b"key", port) if is_ours else "0" * 64
            self.send_header("Set-Cookie", f"{access.cookie_name(port)}={value}; HttpOnly")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", port), Other) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert launch._answers(port, "secret", b"key") is expected


def test_a_port_that_is_taken_is_a_refusal(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(PuGeoError, match=f"Port {port} is taken"):
            launch.launch_app(None, port=port, sample=False, browser=False)
