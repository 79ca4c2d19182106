"""The real server: it asks nobody on the internet, its cookie outlives it, and it ends when it is asked to."""

import asyncio
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from canaries import Server
from small_parts import REPOSITORY
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pu_geo.lifecycle import access
from pu_geo.ui import serving
from pu_geo.ui.serving import Serving
from tests.browser.real_app import AppServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these signals")]
ENDLESS = """
import asyncio
from pu_geo.ui.serving import Serving

async def serve():
    async with Serving().lifespan(None):
        print("serving", flush=True)
        while True:
            sum(range(1000))

asyncio.run(serve())
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


def test_strangers_are_refused_nobody_is_asked_and_a_cookie_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        server.end()
        server.start()
        assert (status_of(server.address), status_of(server.address, Cookie=server.cookie)) == (403, 200), "it outlives it"
        assert "/?token=" in server.log.read_text(encoding="utf-8"), "its address was printed"
    outside.close()
    assert outside.asked == []


def test_an_empty_secret_is_none(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_asked_to_end_it_ends_though_a_page_is_being_drawn() -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, cwd=REPOSITORY)
    with process:
        assert process.stdout.readline() == b"serving\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 128 + signal.SIGTERM


@pytest.mark.skipif(
    uvicorn.__version__.startswith("0.4"), reason="the uvicorn that Flower wants ends a server in another way"
)
def test_connections_whose_head_does_not_come_are_ended_and_those_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_HEAD_SECONDS", 0.3)
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 30)

    async def app(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def lasts(sent: bytes, then: bytes = b"") -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = asyncio.get_running_loop().time()
        writer.write(sent)
        if then:
            await reader.readuntil(b"ok")
            writer.write(then)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return asyncio.get_running_loop().time() - began

    async def all_of_it() -> None:
        server = uvicorn.Server(uvicorn.Config(app, http=serving.HeadInTime, lifespan="off", log_level="critical"))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        whole, half = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n"
        for sent, then in ((b"", b""), (half, b""), (whole, half)):
            assert 0.2 < await lasts(sent, then) < 2
        many = await asyncio.gather(*(lasts(b"") for _ in range(40)))
        assert sum(seconds < 0.2 for seconds in many) >= 10
        server.should_exit = True
        await running

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        asyncio.run(all_of_it())
