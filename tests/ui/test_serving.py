"""The real server: it asks nobody on the internet, its cookie outlives it, and it ends when it is asked to."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from canaries import Server
from small_parts import REPOSITORY
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pu_geo.services.project import access
from pu_geo.ui.serving import Serving
from tests.browser.real_app import AppServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these signals")]
DRAWING = "print('drawing', flush=True)\nwhile True:\n    sum(range(1000))\n"
BUSY = """
import sys
from pathlib import Path
import streamlit as st
from starlette.middleware import Middleware
from app import CONFIG
from pu_geo.ui.guard import Guard
from pu_geo.ui.routes import routes
from pu_geo.ui.serving import Serving
serving = Serving()
app = st.App(
    Path(__file__).with_name("drawing.py"), routes=routes(lambda *_: None, lambda *_: None, operations=lambda *_: None),
    middleware=[Middleware(Guard, secret=serving.secret, key=serving.key)], lifespan=serving.lifespan,
)
serving.check(int(sys.argv[1]))
app.run(config={**CONFIG, "server.port": int(sys.argv[1])})
"""


def status_of(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def link(server: AppServer, origin: str, cookie: str | None = None) -> Any:
    where = server.address.replace("http", "ws", 1) + "/_stcore/stream"
    headers = {"Cookie": server.cookie if cookie is None else cookie}
    return connect(where, origin=origin, additional_headers=headers, proxy=None, max_size=None)


def test_a_foreign_websocket_is_refused_and_nobody_outside_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = Server()
    with monkeypatch.context() as patch:
        for name in ("http_proxy", "https_proxy"):
            patch.setenv(name, outside.url)
        guarded = AppServer(tmp_path / "home")  # its process alone asks the internet there

    async def knock(server: AppServer) -> None:
        for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                async with link(server, origin):
                    pass
        with pytest.raises(InvalidStatus, match="403"):
            async with link(server, server.address, cookie=""):
                pass
        async with link(server, server.address):
            pass

    with guarded as server:
        asyncio.run(knock(server))
        assert status_of(server.address + "/", Origin="http://evil.example", Cookie=server.cookie) == 403
    outside.close()
    assert outside.asked == []


def test_who_was_let_in_is_let_in_after_a_restart_too(tmp_path: Path) -> None:
    with AppServer(tmp_path / "home") as server:
        assert (status_of(server.address), status_of(server.address, Cookie=server.cookie)) == (403, 200)
        server.end()
        server.start()
        assert (status_of(server.address), status_of(server.address, Cookie=server.cookie)) == (403, 200)
        assert "/?token=" in server.log.read_text(encoding="utf-8"), "its address was printed"


def test_an_empty_secret_is_none_so_the_address_is_printed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(access.SECRET_VARIABLE, "")
    monkeypatch.setenv("PU_GEO_BROWSER", "no")
    serving = Serving()
    serving.check(8599)

    async def start() -> None:
        async with serving.lifespan(None):
            pass

    with ThreadPoolExecutor(1) as thread:  # Playwright, where it ran before, keeps a loop in the main thread
        thread.submit(lambda: asyncio.run(start())).result()
    printed = capsys.readouterr().out
    assert access.address(8599, serving.secret) in printed
    assert "if no page opens" in printed


def test_a_key_that_others_may_read_ends_the_start_in_words(tmp_path: Path) -> None:
    (tmp_path / "server.key").write_text("0" * 64, encoding="utf-8")
    (tmp_path / "server.key").chmod(0o644)
    environment = {**os.environ, "PU_GEO_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "app.py"), "8599"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "mode 644" in done.stderr
    assert "Traceback" not in done.stderr


def test_asked_to_end_it_ends_though_a_page_is_being_drawn(tmp_path: Path) -> None:
    """With an open WebSocket whose page computes for ever, and a message whose end never comes."""

    async def watch(server: AppServer) -> int:
        half = socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])))
        head = f"POST /pugeo/p-1/operations HTTP/1.1\r\nHost: {server.address[7:]}\r\nCookie: {server.cookie}\r\n"
        half.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        with half, suppress(OSError):
            async with link(server, server.address) as stream:
                rerun = BackMsg()
                rerun.rerun_script.query_string = ""
                await stream.send(rerun.SerializeToString())
                give_up = time.monotonic() + 60
                while "drawing" not in server.log.read_text(encoding="utf-8"):
                    assert time.monotonic() < give_up
                    await asyncio.sleep(0.1)
                process = server.process
                process.send_signal(signal.SIGTERM)
                return await asyncio.to_thread(process.wait, 15)
        raise AssertionError

    (tmp_path / "drawing.py").write_text(DRAWING, encoding="utf-8")
    (tmp_path / "server.py").write_text(BUSY, encoding="utf-8")
    with AppServer(tmp_path / "home", script=tmp_path / "server.py") as server:
        assert asyncio.run(watch(server)) in (-signal.SIGTERM, 128 + signal.SIGTERM)
