"""The app's door: every request and every WebSocket passes here before Streamlit or a route of ours sees it.

Refused are other hosts' names (rebound addresses), pages of other origins, and browsers that never opened the address which
the app printed. Streamlit must not see a WebSocket of a foreign origin: it would ask a server on the internet for its own
address, and answer nobody meanwhile. Answers get the headers that keep other sites from framing, sniffing or loading them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime
from streamlit.runtime.uploaded_file_manager import UploadedFileManager

from pu_geo.lifecycle import access
from pu_geo.ui import texts

HEALTH = "/_stcore/health"  # open to programs that watch whether the server answers
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::([1-9][0-9]{0,4}))?")
LARGEST = 50 * 1024**2  # bytes of one file, as the upload boxes promise
MOST_UPLOADED = 1024**3  # bytes; Streamlit keeps what a tab uploaded in memory until the tab is closed
_UPLOADS = "/_stcore/upload_file/"
_POLICY_VIOLATION = 1008  # code of RFC 6455 for a WebSocket that is refused
# What Streamlit's pages need: styles set by scripts, and pictures, fonts, workers and modules that it makes itself.
_PAGE = (
    "default-src 'self'; script-src 'self' blob: 'unsafe-eval'{inline}; style-src 'self' 'unsafe-inline'; img-src 'self' "
    "blob: data:; font-src 'self' data:; connect-src 'self' ws://{host} blob: data:; worker-src 'self' blob:; media-src "
    "'self' blob: data:; frame-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware that lets in the browsers which opened the app's address, and nobody else.

    Args:
        app: what is guarded.
        secret: of this start of the server, see `access.new_secret`.
        key: returns the user's key, see `access.user_key`.
    """

    def __init__(self, app: ASGIApp, *, secret: str, key: Callable[[], bytes]) -> None:
        self._app, self._secret, self._key = app, secret, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if scope["type"] == "websocket":
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await receive()  # "websocket.connect"; closing before accepting answers 403
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        host = Headers(scope=scope).get("host", "")
        await (refusal or self._app)(scope, receive, _with_headers(send, host))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not let in, or to a first visit; None lets it in."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            return _page(texts.WRONG_HOST, 400)
        port = int(found[1] or 80)
        if not _is_own(scope, headers, hosts[0]):
            return _page(texts.OTHER_SITE, 403)
        if scope["type"] == "http" and scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
            return None
        value = access.cookie_value(self._key(), port)
        is_known = any(_same(value, given) for given in _cookies(headers, access.cookie_name(port)))
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [text for name, text in query if name == access.PARAMETER]
        is_visit = scope["type"] == "http" and scope["method"] == "GET" and bool(given)
        if is_visit and (is_known or any(_same(self._secret, text) for text in given)):
            return _first_visit(scope, headers, query, access.cookie_name(port), value)
        if is_known:
            return None
        if scope["type"] == "http" and scope["method"] == "GET" and _is_of_another_site(headers):
            return _going_on(_target(scope, query))  # a link there, whose cookie the browser keeps back
        return _page(texts.NOT_LET_IN, 403)


class UploadLimit:
    """ASGI middleware that refuses an upload while the files that Streamlit keeps in memory are too many already.

    Args:
        app: what is guarded.
        kept: returns how many bytes Streamlit keeps, by default those of this process's tabs.
    """

    def __init__(self, app: ASGIApp, *, kept: Callable[[], int] | None = None) -> None:
        self._app, self._kept, self._n_under_way = app, kept or _bytes_in_memory, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_upload = scope["type"] == "http" and scope["method"] == "PUT" and scope["path"].startswith(_UPLOADS)
        if not is_upload:
            await self._app(scope, receive, send)
        elif self._kept() + self._n_under_way * LARGEST >= MOST_UPLOADED:
            await _page(texts.TOO_MANY_UPLOADS.format(mb=MOST_UPLOADED // 1024**2), 413)(scope, receive, send)
        else:
            self._n_under_way += 1  # each may become as large as one can be
            try:
                await self._app(scope, receive, send)
            finally:
                self._n_under_way -= 1


def _bytes_in_memory() -> int:
    return bytes_of(runtime.get_instance().uploaded_file_mgr) if runtime.exists() else 0


def bytes_of(uploads: UploadedFileManager) -> int:
    """Return how many bytes Streamlit's uploaded files have together."""
    return sum(int(getattr(each, "byte_length", 0)) for group in uploads.get_stats().values() for each in group)


def _first_visit(scope: Scope, headers: Headers, query: Iterable[tuple[str, str]], name: str, value: str) -> Response:
    """Return an answer that leaves the cookie and leads to the same address without the secret."""
    target = _target(scope, [(key, text) for key, text in query if key != access.PARAMETER])
    answer = (
        _going_on(target) if _is_of_another_site(headers) else RedirectResponse(target, 303, {"Cache-Control": "no-store"})
    )
    answer.set_cookie(name, value, httponly=True, samesite="strict", path="/")
    return answer


def _target(scope: Scope, query: Iterable[tuple[str, str]]) -> str:
    """Return the address of a request on this server, with another query."""
    path = "/" + scope.get("raw_path", b"/").decode("latin-1").lstrip("/\\")
    rest = urlencode(list(query))
    return f"{path}?{rest}" if rest else path


def _going_on(target: str) -> Response:
    """Return a page that goes on to an address by itself: what it asks for is this server's own, so the cookie comes along.

    After a redirect a browser keeps the cookie back (SameSite=strict), as it does when a file or another site links here.
    """
    page = f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
    return HTMLResponse(page, headers={"Cache-Control": "no-store"})


def _is_of_another_site(headers: Headers) -> bool:
    """Return whether a file or a page of another origin leads here; those that may not are refused before."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_own(scope: Scope, headers: Headers, host: str) -> bool:
    """Return whether a request comes from a page of this server, or from no page at all.

    A page's WebSocket always names its origin, so one without is refused. A program names the server's own.
    """
    origins = headers.getlist("origin")
    if any(origin != f"http://{host}" for origin in origins) or (scope["type"] == "websocket" and len(origins) != 1):
        return False
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_visit or not _is_of_another_site(headers)


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return the values of a cookie; other servers of this machine may have left broken ones beside it."""
    found = []
    for part in (part for line in headers.getlist("cookie") for part in line.split(";")):
        key, _, value = part.strip().partition("=")
        if key == name:
            found.append(value)
    return found


def _same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "surrogatepass"))


@cache
def _inline_scripts() -> str:
    """Return the hashes of the scripts within Streamlit's page, which differ by its version, as a policy lists them."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_bytes()
    found = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)
    return "".join(f" 'sha256-{base64.b64encode(hashlib.sha256(each).digest()).decode()}'" for each in found)


def _page(words: str, status: int) -> Response:
    return PlainTextResponse(words, status, {"Cache-Control": "no-store"})


def _with_headers(send: Send, host: str) -> Send:
    """Add the headers to an answer. A policy that the answer has itself stays; it may let our own pages frame it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ALWAYS.items():
                headers[name] = value
            headers.setdefault(
                "Content-Security-Policy",
                _PAGE.format(host=host if _HOST.fullmatch(host) else access.HOST, inline=_inline_scripts()),
            )
            policy = headers["Content-Security-Policy"]
            if not policy.startswith("sandbox"):  # browsers open no page that has both
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
            is_framed = "frame-ancestors 'self'" in policy
            headers["X-Frame-Options"] = "SAMEORIGIN" if is_framed else "DENY"
        await send(message)

    return sending
