"""Scenes from a web server: only from hosts on the list, at addresses that were checked, whole, unchanged, and never without an end."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine

from pu_geo.errors import ImageryError
from pu_geo.project import contents, store
from pu_geo.services.project import projects
from pu_geo.tasks.imagery import fetch as fetching

CONTENT = np.random.default_rng(0).bytes(50_000)
LIMITS = fetching.Limits(range_bytes=20_000, retries=2, silence_s=20.0)
Answer = Callable[[Any], None]


@dataclass
class Server:
    """A server on the loopback that answers as a test says, and notes what it was asked for."""

    address: str
    host: str
    content: bytes = CONTENT
    etag: str | None = '"1"'
    strange: list[Answer | None] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str = "/joplin/post.tif") -> str:
        return f"{self.address}{path}"


class Handler(BaseHTTPRequestHandler):
    """Answers by the server's next strange answer, or as a good server does."""

    of: Server

    def do_GET(self) -> None:
        self.of.asked.append({"path": self.path, **self.headers})
        strange = self.of.strange.pop(0) if self.of.strange else None
        (strange or Handler.good)(self)

    def good(self) -> None:
        content, etag = self.of.content, self.of.etag
        if etag and self.headers.get("If-Match", etag) != etag:
            self.head(412, 0)
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        some = content[first : last + 1]
        self.head(206, len(some), **{"Content-Range": f"bytes {first}-{first + len(some) - 1}/{len(content)}"})
        self.wfile.write(some)

    def head(self, status: int, length: int | None, **more: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.of.etag:
            self.send_header("ETag", self.of.etag)
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Server]:
    handler = type("OfThisTest", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.daemon_threads = True
        if certificate is not None:
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(certificate)
            running.socket = secure.wrap_socket(running.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "http" if certificate is None else "https"
        handler.of = Server(f"{scheme}://127.0.0.1:{running.server_port}", f"127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler.of
        running.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def fetch(server: Server, folder: Path, url: str | None = None, **more: Any) -> Path:
    given = {"hosts": [server.host], "allow_private": True, "limits": LIMITS, "wait": lambda seconds: None} | more
    return fetching.fetch(url or server.url(), folder=folder, **given)


def whole(status: int = 200, length: int | None = len(CONTENT), content: bytes = CONTENT, **more: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.head(status, length, **more)
        handler.wfile.write(content)

    return answer


def test_a_file_is_read_in_ranges_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size) or real(descriptor))
    path = fetch(server, tmp_path)
    assert [size for size in synced if size >= 20_000] == [20_000, 40_000, 50_000, 50_000], "on the disk before it counts"
    assert path.read_bytes() == CONTENT
    assert [one["Range"] for one in server.asked] == ["bytes=0-19999", "bytes=20000-39999", "bytes=40000-59999"]
    assert [one.get("If-Match") for one in server.asked] == [None, '"1"', '"1"']
    facts = json.loads(path.with_suffix(".json").read_text())
    assert facts == {"url": server.url(), "bytes": 50_000, "sha256": hashlib.sha256(CONTENT).hexdigest(), "validator": '"1"'}
    assert {one.name for one in path.parent.iterdir()} == {"post.tif", "post.json", "post.lock"}
    assert fetch(server, tmp_path) == path
    assert len(server.asked) == 3
    other = fetch(server, tmp_path, server.url("/moore/post.tif"))
    assert other != path, "two files of one name"
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(ImageryError, match="sha256 is another"):
        fetch(server, tmp_path)


@pytest.mark.parametrize("note", [b"", b"{}", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_note_beside_a_file_is_a_refusal(server: Server, tmp_path: Path, note: bytes) -> None:
    path = fetch(server, tmp_path)
    path.with_suffix(".json").write_bytes(note)
    with pytest.raises(ImageryError, match=r"post\.json beside it is damaged") as found:
        fetch(server, tmp_path)
    assert found.value.kind == "changed"
    path.unlink()  # as the hint says
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def cut(handler: Handler) -> None:
    """A range that breaks off after 5,000 bytes."""
    handler.head(206, 20_000, **{"Content-Range": f"bytes 20000-39999/{len(CONTENT)}"})
    handler.wfile.write(CONTENT[20_000:25_000])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("size", [25_000, 25_007, 0, 24_000])
def test_what_was_not_on_the_disk_as_the_power_was_cut_is_read_again(server: Server, tmp_path: Path, size: int) -> None:
    """A file may then be longer by zeros that were never downloaded, or shorter."""
    server.strange = [None, cut, *[whole(503, 0, b"")] * 3]
    with pytest.raises(ImageryError, match="25,000 bytes are here") as found:
        fetch(server, tmp_path)
    assert found.value.kind == "network"
    (part,) = tmp_path.rglob("*.part")
    assert part.stat().st_size == 25_000
    part.write_bytes(CONTENT[: min(size, 25_000)] + bytes(max(0, size - 25_000)))
    before = len(server.asked)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[before]["Range"].split("-")[0] == f"bytes={25_000 if size >= 25_000 else 0}"


def test_what_broke_off_is_read_on_from_there(server: Server, tmp_path: Path) -> None:
    server.strange = [None, cut, whole(503, 0, b"")]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert [one["Range"].split("-")[0] for one in server.asked[2:]] == ["bytes=25000", "bytes=25000", "bytes=45000"]


@pytest.mark.parametrize("etag", ['"2"', 'W/"2"'])
def test_a_file_that_changes_between_two_ranges_is_not_kept(server: Server, tmp_path: Path, etag: str) -> None:
    server.etag = etag.replace("2", "1")

    def change(handler: Handler) -> None:
        server.etag, server.content = etag, CONTENT[::-1]
        handler.good()

    server.strange = [None, change]
    with pytest.raises(ImageryError, match=r"changed on 127\.0\.0\.1 while it was read") as found:
        fetch(server, tmp_path)
    assert found.value.kind == "changed"
    assert fetch(server, tmp_path).read_bytes() == CONTENT[::-1]


def test_without_ranges_or_a_name_for_its_state_a_file_is_read_at_once(server: Server, tmp_path: Path) -> None:
    server.strange = [whole()]
    assert fetch(server, tmp_path / "ranges").read_bytes() == CONTENT
    server.etag = None
    server.strange = [None, whole()]
    assert fetch(server, tmp_path / "state").read_bytes() == CONTENT
    assert "Range" not in server.asked[2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (whole(length=60_000), "10,000 bytes early"),
        (whole(206, 20_000, CONTENT[:20_000], **{"Content-Range": "bytes 0-9999/50000"}), "is not trusted"),
        (whole(206, 20_000, CONTENT[:20_000], **{"Content-Range": "bytes 5-20004/50000"}), "is not trusted"),
        (whole(206, 20_000, CONTENT[:20_000], **{"Content-Range": "bytes 0-19999/9"}), "is not trusted"),
        (whole(206, 20_000, CONTENT[:20_000]), "is not trusted"),
        (whole(206, 50_000, **{"Content-Range": "bytes 0-49999/50000"}), "is not trusted"),
        (whole(length=None), "is not trusted"),
        (whole(**{"Content-Encoding": "gzip"}), "is not trusted"),
        (whole(length=10, content=b"14\r\n" + b"a" * 20 + b"\r\n0\r\n\r\n", **{"Transfer-Encoding": "chunked"}), "is not trusted"),
        (whole(length=10**15), "1 to 50,000,000,000 are read"),
        (whole(length=0, content=b""), "has 0 bytes"),
        (whole(404, 0, b""), "There is no such file"),
        (whole(403, 0, b""), "answers 403 Forbidden"),
        (whole(204, None, b""), "answers 204"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_fit_is_refused(server: Server, tmp_path: Path, answer: Answer, words: str) -> None:
    server.strange = [answer] * 3
    with pytest.raises(ImageryError, match=words):
        fetch(server, tmp_path)
    assert not list(tmp_path.rglob("*.tif"))


def test_another_range_than_the_first_ones_file_is_refused(server: Server, tmp_path: Path) -> None:
    server.strange = [None, whole()]
    with pytest.raises(ImageryError, match="from its start now"):
        fetch(server, tmp_path)


def drip_body(handler: Handler) -> None:
    handler.head(200, len(CONTENT))
    drip(handler, CONTENT)


def drip_headers(handler: Handler) -> None:
    drip(handler, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 50_000)


def drip(handler: Handler, content: bytes) -> None:
    """Send a byte a moment until the other end has gone."""
    pause = threading.Event()
    for byte in content:
        try:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
        except OSError:
            break
        pause.wait(0.02)
    handler.close_connection = True


@pytest.mark.parametrize("answer", [drip_body, drip_headers])
def test_bytes_that_drip_in_have_an_end(server: Server, tmp_path: Path, answer: Answer) -> None:
    server.strange = [answer]
    with pytest.raises(ImageryError, match="could not be read") as found:
        fetch(server, tmp_path, limits=replace(LIMITS, range_s=0.3, retries=0))
    assert found.value.kind == "network"


def test_a_server_that_says_nothing_has_an_end(server: Server, tmp_path: Path) -> None:
    gone = threading.Event()
    server.strange = [lambda handler: gone.wait(20)]
    try:
        with pytest.raises(ImageryError, match="timed out"):
            fetch(server, tmp_path, limits=replace(LIMITS, silence_s=0.2, retries=0))
    finally:
        gone.set()


def test_redirects_lead_to_files_of_the_same_host_alone(server: Server, tmp_path: Path) -> None:
    def redirect(location: str) -> Answer:
        return whole(302, 0, b"", Location=location)

    server.strange = [redirect("/elsewhere/new.tif")]
    assert fetch(server, tmp_path, server.url("/a.tif")).read_bytes() == CONTENT
    assert server.asked[1]["path"] == "/elsewhere/new.tif"
    refused = (
        "http://127.0.0.1:1/post.tif", "https://other.example/post.tif", "//other.example/post.tif", "file:///etc/passwd",
        f"{server.address.replace('http', 'https')}/post.tif", f"{server.address.replace('//', '//me:pw@')}/post.tif", "/post.tif?key=1", "",
        "/login", "http://[::1",
    )  # fmt: skip
    for n, location in enumerate(refused):
        server.strange = [whole(301, 0, b"", Location=location)]
        with pytest.raises(ImageryError, match="redirects to") as found:
            fetch(server, tmp_path, server.url(f"/b{n}.tif"))
        assert found.value.kind == "host"
    server.strange = [redirect("/c.tif")] * 9
    with pytest.raises(ImageryError, match="in a circle"):
        fetch(server, tmp_path, server.url("/c.tif"))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://data.example/post.tif", "file:///data/post.tif", "/vsicurl/https://data.example/post.tif", "s3://bucket/post.tif",
        "https://me:secret@data.example/post.tif", "https://data.example/post.tif?X-Amz-Signature=secret", "https://data.example/post.tif#a",
        "https://data.example/", "https://data.example/post.vrt", "https://data.example/a b.tif", "https://data.example/..tif/.tif",
        "https://data.example\\@evil.example/post.tif", "https://dàta.example/post.tif", "https://data.example:99999/post.tif",
        "https://data.example/post.tif\r\nHost: evil", "https://[::1]/post.tif", "https://data.example/" + "a" * 3000 + ".tif", "",
    ],
)  # fmt: skip
def test_other_addresses_are_refused_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a host was looked up"))
    with pytest.raises(ImageryError) as found:
        fetching.fetch(url, hosts=["data.example", "evil.example", "me", "::1"], folder=tmp_path)
    assert found.value.kind == "url"
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("host", ["data..example", ".example", "a" * 64 + ".example"])
def test_a_mistyped_host_is_not_found_in_words(tmp_path: Path, host: str) -> None:
    with pytest.raises(ImageryError) as found:
        fetching.fetch(f"https://{host}/post.tif", hosts=[host], folder=tmp_path)
    assert found.value.kind in ("network", "url")


def test_hosts_are_those_on_the_list_with_their_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a host was looked up"))
    monkeypatch.delenv(fetching.HOSTS_VARIABLE, raising=False)
    assert fetching.hosts_of([]) == frozenset(), "off by default"
    for url, hosts in (
        ("https://data.example/a.tif", []),
        ("https://data.example.evil.example/a.tif", ["data.example"]),
        ("https://evil-data.example/a.tif", ["data.example"]),
        ("https://sub.data.example/a.tif", ["data.example"]),
        ("https://data.example:8443/a.tif", ["data.example"]),
        ("https://data.example/a.tif", ["data.example:8443"]),
    ):
        with pytest.raises(ImageryError, match="not among the hosts") as found:
            fetching.fetch(url, hosts=fetching.hosts_of(hosts), folder=tmp_path)
        assert found.value.kind == "host"
    monkeypatch.setenv(fetching.HOSTS_VARIABLE, " Data.example, other.example:8443 ,")
    assert fetching.hosts_of(["third.example"]) == {"data.example", "other.example:8443", "third.example"}


PRIVATE = "127.0.0.1 10.1.2.3 192.168.0.9 ::1 fd00::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 100.64.0.1"
NEVER = (
    "0.0.0.0 169.254.169.254 fe80::1 224.0.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 240.0.0.1 255.255.255.255 192.0.0.192 fec0::1 "
    "::127.0.0.1 ::10.1.2.3 64:ff9b:1::1 fd00:ec2::254 ::ffff:192.0.0.192 168.63.129.16 4000::1"
)
PUBLIC = "8.8.8.8 2a00:1450::1 64:ff9b::808:808"


def test_only_public_addresses_may_be_connected_to_and_some_private_ones_where_that_is_allowed() -> None:
    for text in f"{PRIVATE} {NEVER} {PUBLIC}".split():
        assert fetching._may_connect(ipaddress.ip_address(text), allow_private=False) == (text in PUBLIC.split()), text
    allowed = [text for text in NEVER.split() if fetching._may_connect(ipaddress.ip_address(text), allow_private=True)]
    assert allowed == []
    for text in ("::1", "127.0.0.1", "10.1.2.3", "fd00::1", *PUBLIC.split()):
        assert fetching._may_connect(ipaddress.ip_address(text), allow_private=True), text


@pytest.mark.parametrize(("address", "allow_private"), [("127.0.0.1", False), ("169.254.169.254", True)])
def test_a_name_of_which_any_address_leads_into_a_network_of_its_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, allow_private: bool
) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("8.8.8.8", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it was connected to"))
    with pytest.raises(ImageryError, match="has the address") as found:
        fetching.fetch("https://data.example/a.tif", hosts=["data.example"], folder=tmp_path, allow_private=allow_private)
    assert found.value.kind == "address"


def test_a_host_is_looked_up_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(server.host.partition(":")[2])
    looked_up: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: str, *rest: object, **more: object) -> Any:
        if host != "data.example":
            return real(host, *rest, **more)  # of `create_connection`, which gets the address
        looked_up.append(host)
        at = "127.0.0.1" if len(looked_up) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (at, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    path = fetch(server, tmp_path, f"http://data.example:{port}/a.tif", hosts=[f"data.example:{port}"])
    assert path.read_bytes() == CONTENT
    assert looked_up == ["data.example"]
    assert {one["Host"] for one in server.asked} == {f"data.example:{port}"}


def certificate(folder: Path, names: str) -> Path:
    """Make a certificate that nobody signed, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine, which makes the certificate")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=test"]  # fmt: skip
    made = [folder / "key.pem", folder / "cert.pem"]
    subprocess.run(
        [*words, "-addext", f"subjectAltName={names}", "-keyout", made[0], "-out", made[1]], check=True, capture_output=True
    )
    both = folder / "both.pem"
    both.write_bytes(b"".join(one.read_bytes() for one in made))
    return both


def test_a_certificate_is_known_and_the_hosts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = certificate(tmp_path, "IP:127.0.0.1")
    with serving(known) as server:
        with pytest.raises(ImageryError, match=r"certificate of 127\.0\.0\.1 is not valid"):
            fetch(server, tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        assert fetch(server, tmp_path).read_bytes() == CONTENT
    of_another = certificate(tmp_path, "DNS:other.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(of_another))  # known, and not this host's
    with serving(of_another) as server, pytest.raises(ImageryError, match=r"certificate of 127\.0\.0\.1 is not valid"):
        fetch(server, tmp_path)


def test_full_disk_and_second_download_are_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(fetching.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
        with pytest.raises(ImageryError, match="more than is free"):
            fetch(server, tmp_path)
    (lock,) = tmp_path.rglob("*.lock")
    with fetching.FileLock(lock), pytest.raises(ImageryError, match="by another program"):
        fetch(server, tmp_path)


@pytest.mark.slow
def test_the_command_adds_local_scenes(run: CommandLine, server: Server, town: Path, tmp_path: Path, home: Path) -> None:
    path = tmp_path / "event.pugeo"
    run("init", path, "--name", "Event")
    server.content = (town / "post.tif").read_bytes()
    assert "is not among the hosts" in run.refused("fetch", path, "--post", server.url(), "--allow-private")
    assert "is of this machine" in run.refused("fetch", path, "--post", server.url(), "--host", server.host)
    assert server.asked == []
    found = run.json("fetch", path, "--post", server.url(), "--host", server.host, "--allow-private")
    (scene,) = store.call(projects.find(str(path)), contents.scenes)
    assert (scene.path, found["added"]) == (found["post"][0], ["post-1"])
    assert Path(scene.path).is_relative_to(home / "fetched")
    kept = run.json(
        "fetch", path, "--file", server.url(), "--host", server.host, "--allow-private", "--to", tmp_path / "kept"
    )
    assert (kept["added"], Path(kept["file"][0]).read_bytes()) == ([], server.content)
    server.content = b"<html>no picture</html>"
    assert run("fetch", path, "--post", server.url("/b.tif"), "--host", server.host, "--allow-private")[0] != 0
    assert len(store.call(projects.find(str(path)), contents.scenes)) == 1
