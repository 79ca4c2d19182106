"""One request to the app's routes, without a server."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

Answer = tuple[int, dict[str, str], bytes]


def get(app: Starlette, url: str, *request: Any, **more: Any) -> Answer:
    """One request, see `answered`."""
    with ThreadPoolExecutor(1) as thread:  # Playwright, where it ran before, keeps a loop in the main thread
        return thread.submit(lambda: asyncio.run(answered(app, url, *request, **more))).result()


async def answered(
    app: Starlette, url: str, method: str = "GET", body: bytes = b"", headers: dict[str, str] | None = None, *, is_whole: bool = True,
) -> Answer:  # fmt: skip
    """The same in a loop that runs, by ASGI; starlette's TestClient would need httpx. Without `is_whole` the end of the body never comes."""
    given = {"host": "127.0.0.1", **(headers or {})}
    more = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
    path, _, query = url.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": more, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    sent: list[dict] = []
    arriving = [{"type": "http.request", "body": body, "more_body": not is_whole}]

    async def receive() -> dict:
        return arriving.pop() if arriving else await asyncio.Future()  # the browser stays connected and says no more

    async def send(message: dict) -> None:
        sent.append(message)

    await app(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:])
