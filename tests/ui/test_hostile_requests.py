"""Mutated requests to the real app: no answer is a failure, nothing is logged as one, and the server goes on."""

import json
import random
import re
import socket
from collections import Counter
from pathlib import Path

import pytest

from pu_geo.lifecycle import projects
from pu_geo.store import store
from tests.browser.real_app import AppServer, made_up_project

pytestmark = pytest.mark.long(part="fuzz")
NO_ANSWER_POSSIBLE = "h11._util.LocalProtocolError"  # uvicorn's word for a client that broke off while it was answered
N_REQUESTS, WAIT_S, PATIENCE_S = 600, 0.5, 20.0
PATHS = (
    "/", "/annotate?project={t}", "/pugeo/{t}/tiles/post/0/0/0.jpg", "/pugeo/{t}/outlines/0a1b/0.bin",
    "/pugeo/{t}/scores/like-3.bin", "/pugeo/{t}/shifts.bin", "/pugeo/{t}/dots/latest/pca.bin?by=score", "/pugeo/{t}/exports/v1.zip",
    "/pugeo/{t}/exports/v1/report.html", "/pugeo/{t}/similar/3.f32", "/pugeo/{t}/story/3.json", "/pugeo/{t}/here",
    "/pugeo/{t}/operations", "/pugeo/{t}/models/run-1", "/pugeo/assets/damage_view.js", "/_stcore/health", "/_stcore/host-config",
    "/_stcore/upload_file/s/f", "/_stcore/stream", "/media/x.png", "/static/js/x.js", "/_stcore/metrics", "/component/x/y",
    "/_stcore/bidi-components/x/y", "/_stcore/agent/interact", "/_stcore/agent/mcp",
)  # fmt: skip
MESSAGES = ("/pugeo/{t}/here", "/pugeo/{t}/operations")
MORE = ("act", "reason", "damage_types", "absent_types", "comment", "shown", "inclusion", "grade", "undo", "redo", "next")
PARTS = (
    "%00", "..%2f", "../", "//", "\\", "%ff", "9" * 5000, "-1", "%F0%9F%92%A5", "'", "\"><script>", ";", "?token=x&token=y", "%2e%2e/",
    "{t}", "a" * 3000, "%", "%zz", "\x7f", "[", "#",
)  # fmt: skip
VALUES = (
    None, True, -1, 0, 2**70, 1e400, "", "\ud800", "\0", "x" * 10_000, [], [[]], {}, {"n": 1}, "positive", "b000001", ["b000001"], 0.5,
)  # fmt: skip
HEADERS = (
    "Origin: null", "Origin: http://[::1", "Origin: http://evil.example", "Host: evil.example", "Content-Length: -1",
    "Content-Length: 99999999999999999999", "Content-Length: 5", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip",
    "Content-Type: application/json; charset=utf-16", "Content-Type: multipart/form-data; boundary=x", "Cookie: =;;=\xff; a",
    "Cookie: pu_geo_1=\xff\xfe", "Range: bytes=5-1", "Range: bytes=0-0,1-1,2-2,x", "Range: bytes=99999999999999999999-", "Upgrade: websocket",
    "Connection: Upgrade", "Expect: 100-continue", "Accept-Encoding: gzip;q=x", "If-None-Match: \xff", "If-Modified-Since: never",
    "X-Forwarded-Proto: \xff", "Sec-Fetch-Site: cross-site", "A: " + "b" * 70_000, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x",
)  # fmt: skip


def message(rng: random.Random) -> object:
    """An operation message or a place, with values of other kinds in it."""
    op = {"n": 1, "op": f"fuzz-{rng.random()}", "building_id": "b000001", "label": "positive", "screen": "map"}
    for name in rng.sample([*op, *MORE], rng.choice((0, 0, 1, 2, 4))):
        op[name] = rng.choice(VALUES)
    whole: dict[str, object] = {"session": "s", "analyst": "fuzz", "ops": [op], "building": 1, "since": 1, "attempt": 0}
    for name in rng.sample(list(whole), rng.choice((0, 0, 0, 1, 2))):
        whole[name] = rng.choice(VALUES)
    return rng.choice((whole, whole, whole, whole, [whole], rng.choice(VALUES)))


def request(rng: random.Random, token: str, host: str, cookie: str) -> bytes:
    path = rng.choice((*PATHS, *MESSAGES * 3))
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randint(0, len(path))
        path = path[:at] + rng.choice(PARTS) + path[at:]
    if rng.random() < 0.2:
        path = re.sub(r"\d+", rng.choice(("9" * 5000, "-1", "9" * 12, "%b2")), path, count=1)
    is_message = path.startswith(MESSAGES) and rng.random() < 0.9
    others = ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "x", "")
    method = "POST" if is_message else rng.choice(("GET",) * 9 + others)
    body = json.dumps(message(rng)).encode() if is_message or rng.random() < 0.2 else b""
    if body and rng.random() < 0.3:
        body = body[: rng.randint(0, len(body))] + rng.choice((b"", b"\xff\xfe", b"[" * 100_000, b"\0"))
    head = [f"{method} {path.replace('{t}', token)} HTTP/1.1", f"Host: {host}"]
    head += ["Content-Type: application/json", "Connection: close"]
    head += [f"Content-Length: {len(body)}"] if body else []
    head += [f"Cookie: {cookie}"] if rng.random() < 0.97 else []
    head += rng.sample(HEADERS, rng.choice((0, 0, 1, 1, 2)))
    return "\r\n".join((*head, "", "")).encode("latin-1", "replace") + body


def status_of(port: int, sent: bytes) -> int | None:
    """Return the status of the answer; None where the connection is closed without one, as half a request's is."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as link:
        answer = b""
        try:
            link.sendall(sent)
            try:
                answer = link.recv(200)
            except TimeoutError:  # it waits for the rest
                link.settimeout(PATIENCE_S)
                link.shutdown(socket.SHUT_WR)
                answer = link.recv(200)
        except OSError:
            return None
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else None


def test_no_request_makes_the_app_fail(tmp_path: Path) -> None:
    rng = random.Random(24)
    layout = made_up_project(tmp_path / "fuzzed.pugeo", [f"b{i:06d}" for i in range(60)])
    with AppServer(tmp_path / "home", project=layout) as server:
        projects_file = tmp_path / "home" / "recent.json"
        projects_file.write_text(json.dumps([{"path": str(layout.folder), "used_at": ""}]), encoding="utf-8")
        token, host = projects.token_of(layout), server.address.removeprefix("http://")
        port = int(host.rpartition(":")[2])
        statuses: Counter[int | None] = Counter()
        for number in range(N_REQUESTS):
            sent = request(rng, token, host, server.cookie)
            status = status_of(port, sent)
            assert status is None or status < 500 or status == 503, (number, status, sent[:2000])
            statuses[status] += 1
        assert status_of(port, b"GET /_stcore/health HTTP/1.1\r\nHost: %b\r\n\r\n" % host.encode()) == 200
        log = server.log.read_text(encoding="utf-8", errors="replace")
    raised = set(re.findall(r"^([\w.]*(?:Error|Exception|Exit|Interrupt)): ", log, re.MULTILINE))
    assert raised <= {NO_ANSWER_POSSIBLE}, log[-3000:]
    assert statuses[None] < N_REQUESTS / 5, statuses
    assert {200, 400, 403, 404} <= set(statuses), statuses
    with store.connect(layout) as db:
        assert db.execute("SELECT COUNT(*) FROM label_event WHERE analyst = 'fuzz'").fetchone()[0] > 5, "few were understood"
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
