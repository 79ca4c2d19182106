"""The app's door: who is let in, what is refused, and the headers of every answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from route_parts import Answer, get
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from pu_geo.lifecycle import access
from pu_geo.ui import texts
from pu_geo.ui.guard import LARGEST, MOST_UPLOADED, Guard, UploadLimit, bytes_of
from pu_geo.ui.routes import _SANDBOX

KEY, SECRET, HOST = b"0" * 64, "the-secret", "127.0.0.1:8501"
COOKIE = f"{access.cookie_name(8501)}={access.cookie_value(KEY, 8501)}"
LET_IN = {"cookie": COOKIE}


@pytest.fixture
def reached() -> list[str]:
    """What came past the door."""
    return []


@pytest.fixture
def app(reached: list[str]) -> Starlette:
    def page(request: Request) -> Response:
        reached.append(str(request.url))
        own = {"Content-Security-Policy": _SANDBOX} if request.url.path == "/report" else {}
        return PlainTextResponse("inside", headers=own)

    async def stream(link: WebSocket) -> None:
        reached.append("websocket")
        await link.accept()
        await link.close()

    anything = Route("/{path:path}", page, methods=["GET", "POST", "PUT", "DELETE"])
    routes = [WebSocketRoute("/_stcore/stream", stream), anything]
    return Starlette(routes=routes, middleware=[Middleware(Guard, secret=SECRET, key=lambda: KEY)])


def ask(app: Starlette, url: str, headers: dict[str, str] | None = None, method: str = "GET", host: str = HOST) -> Answer:
    return get(app, url, method, headers={"host": host, **(headers or {})})


def connect(app: Starlette, *headers: tuple[str, str]) -> list[dict[str, Any]]:
    """Return what is sent to a browser that opens a WebSocket."""
    scope = {
        "type": "websocket", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "ws", "path": "/_stcore/stream",
        "raw_path": b"/_stcore/stream", "query_string": b"", "root_path": "", "subprotocols": [], "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers], "server": ("127.0.0.1", 8501),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as thread:  # Playwright, where it ran before, keeps a loop in the main thread
        thread.submit(lambda: asyncio.run(app(scope, receive, send))).result()
    return sent


OWN = (("host", HOST), ("origin", f"http://{HOST}"), ("cookie", COOKIE))


def test_only_a_page_of_this_server_opens_a_websocket(app: Starlette, reached: list[str]) -> None:
    others = [
        ["http://evil.example"], ["http://127.0.0.1:8502"], ["http://127.0.0.1"], ["https://127.0.0.1:8501"],
        ["http://localhost:8501"],  # this server, under a name that the page was not opened by
        ["http://127.0.0.1:8501.evil.example"], ["http://127.0.0.1:8501@evil.example"], ["http://user@127.0.0.1:8501"], ["null"],
        [""], [], [f"http://{HOST}", "http://evil.example"],
    ]  # fmt: skip
    host, _, cookie = OWN
    no_cookie, two_hosts = OWN[:2], (("host", HOST), *OWN)
    for headers in (*((host, cookie, *(("origin", each) for each in origins)) for origins in others), no_cookie, two_hosts):
        assert [each["type"] for each in connect(app, *headers)] == ["websocket.close"], headers
    assert reached == []
    assert [each["type"] for each in connect(app, *OWN)] == ["websocket.accept", "websocket.close"]
    assert reached == ["websocket"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_request_of_another_origin_is_refused_in_words(app: Starlette, reached: list[str], method: str) -> None:
    url = "/_stcore/upload_file/session/file"
    for origin in ("http://evil.example", "http://127.0.0.1:8502", "null"):
        assert ask(app, url, {**LET_IN, "origin": origin}, method)[::2] == (403, texts.OTHER_SITE.encode())
    assert reached == []
    assert ask(app, url, {**LET_IN, "origin": f"http://{HOST}"}, method)[::2] == (200, b"inside")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_loads_nothing_but_its_links_are_followed(app: Starlette, reached: list[str], site: str) -> None:
    """The browser keeps the cookie back from the first request; the second one is this server's own."""
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for query in ("?project=p-1&x=%22%3E", "?token=of-an-earlier-start"):
        status, headers, body = ask(app, f"//annotate{query}", link)
        assert (status, headers["cache-control"], headers.get("set-cookie")) == (200, "no-store", None)
        assert body.startswith(b'<meta http-equiv="refresh" content="0;url=/annotate?')
    own = {**link, "sec-fetch-site": "same-origin"}
    assert ask(app, "/annotate", own)[::2] == (403, texts.NOT_LET_IN.encode()), "it goes on once"
    assert ask(app, "/annotate", {**link, "sec-fetch-dest": "iframe"})[0] == 403
    assert ask(app, "/annotate", link, "POST")[0] == 403
    picture = {**LET_IN, "sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert ask(app, "/pugeo/p/scores/r.bin", picture)[0] == 403
    assert ask(app, "/", {**LET_IN, **link, "sec-fetch-dest": "iframe"})[0] == 403
    assert reached == []
    assert ask(app, "/annotate", {**LET_IN, **link})[0] == 200


def test_another_host_name_is_refused(app: Starlette, reached: list[str]) -> None:
    for host in (
        "evil.example", "127.0.0.1.evil.example:8501", "127.0.0.1:", "127.0.0.1:8501:1", "", "[::1]:8501",
        "127.0.0.1:8501\\@evil.example", "127.0.0.1:8501'; script-src *",
    ):  # fmt: skip
        status, headers, body = ask(app, "/", LET_IN, host=host)
        assert (status, body, reached) == (400, texts.WRONG_HOST.encode(), []), host
        assert "script-src *" not in headers["content-security-policy"]


def test_who_has_no_cookie_reads_how_to_get_in(app: Starlette, reached: list[str]) -> None:
    for url in ("/", "/pugeo/assets/damage_view.js", "/_stcore/host-config", "/_stcore/health/"):
        for cookie in ("", "pu_geo_8501=guessed", f"other={COOKIE}", COOKIE.replace("8501", "1")):
            status, headers, body = ask(app, url, {"cookie": cookie} if cookie else {})
            assert (status, body, headers["cache-control"]) == (403, texts.NOT_LET_IN.encode(), "no-store")
        assert ask(app, f"{url}?token=guessed")[0] == 403
        assert ask(app, f"{url}?token=the-secret", method="POST")[0] == 403
        assert ask(app, f"{url}?token=%ff%00")[0] == 403
    assert reached == []
    assert ask(app, "/", {"cookie": f"a=b; broken;; {COOKIE}; c=d"})[0] == 200
    assert ask(app, "/_stcore/health")[0] == 200, "it alone is open"
    assert ask(app, "/_stcore/health", {"origin": "http://evil.example"})[0] == 403
    assert ask(app, "/_stcore/health", method="POST")[0] == 403


def test_the_first_visit_leaves_a_cookie_and_takes_the_secret_out_of_the_address(app: Starlette, reached: list[str]) -> None:
    status, headers, _ = ask(app, "/annotate?project=p-1&token=the-secret&analyst=ann%20b%26c&x=")
    assert (status, headers["cache-control"]) == (303, "no-store")
    assert headers["location"] == "/annotate?project=p-1&analyst=ann+b%26c&x="
    cookie, *rules = headers["set-cookie"].split("; ")
    assert cookie == COOKIE
    assert {each.lower() for each in rules} == {"httponly", "samesite=strict", "path=/"}
    assert ask(app, "/?token=the-secret")[1]["location"] == "/"
    assert ask(app, "//evil.example/x?token=the-secret")[1]["location"] == "/evil.example/x"
    assert ask(app, "/?token=of-an-earlier-start", LET_IN)[1]["location"] == "/"
    assert reached == []
    # Opened by a file the page goes on by itself: after a redirect a browser would keep the cookie back.
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    status, headers, body = ask(app, "/?token=the-secret&project=%22%3E%3Cscript%3E", visit)
    assert (status, headers["set-cookie"].startswith(COOKIE)) == (200, True)
    assert body == b'<meta http-equiv="refresh" content="0;url=/?project=%22%3E%3Cscript%3E">'


@pytest.mark.parametrize(("url", "given"), [("/", LET_IN), ("/report", LET_IN), ("/", {}), ("/?token=the-secret", {})])
def test_every_answer_forbids_frames_sniffing_and_referrers(app: Starlette, url: str, given: dict[str, str]) -> None:
    headers = ask(app, url, given)[1]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    framed_by, policy = ("'self'", "SAMEORIGIN") if url == "/report" else ("'none'", "DENY")
    assert headers["x-frame-options"] == policy
    assert f"frame-ancestors {framed_by}" in headers["content-security-policy"]
    assert ("connect-src 'self' ws://127.0.0.1:8501 " in headers["content-security-policy"]) is (url != "/report")
    assert ("cross-origin-opener-policy" in headers) is (url != "/report"), "a browser opens no sandboxed page with it"


def test_no_upload_is_taken_while_too_many_are_in_memory(app: Starlette) -> None:
    uploads = MemoryUploadedFileManager("/upload")
    assert bytes_of(uploads) == 0
    for session, size in (("a", 1000), ("b", 50_000)):
        uploads.add_file(session, UploadedFileRec(f"f-{session}", "x.tif", "image/tiff", b"x" * size))
    assert bytes_of(uploads) >= 51_000
    uploads.remove_session_files("b")
    assert bytes_of(uploads) < 51_000
    for kept, status in ((MOST_UPLOADED - 1, 200), (MOST_UPLOADED, 413)):
        limited = Starlette(routes=app.routes, middleware=[Middleware(UploadLimit, kept=lambda kept=kept: kept)])
        answer = ask(limited, "/_stcore/upload_file/session/file", method="PUT")
        assert (answer[0], b"1,024 MB" in answer[2]) == (status, status == 413)
        assert ask(limited, "/_stcore/upload_file/session/file", method="DELETE")[0] == 200, "there is a way out"
        assert ask(limited, "/annotate")[0] == 200
    limit = UploadLimit(app, kept=lambda: 0)
    limit._n_under_way = MOST_UPLOADED // LARGEST + 1
    assert ask(limit, "/_stcore/upload_file/session/file", method="PUT")[0] == 413, (
        "those under way count, as large as may be"
    )
