"""Scenes on a web server: downloaded whole into a folder, by explicit command only, and added as local files from there.

GDAL never opens an address: its network drivers follow redirects and resolve names by themselves. Here a host must be on a list, its
address is checked and then connected to, every answer is checked against what was asked for, and nothing is read without an end.
No proxy, no signed requests, no credentials.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

from filelock import FileLock, Timeout

from pu_geo.atomic_write import atomic_write
from pu_geo.errors import ImageryError, printable, writing
from pu_geo.project.layout import home

HOSTS_VARIABLE = "PU_GEO_HOSTS"
"""Names of hosts that scenes may come from, with commas between them, beside those that a command names."""
_LONGEST_URL, _MOST_REDIRECTS = 2_000, 5
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.tiff?", re.IGNORECASE)
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NEVER = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "fd00:ec2::/32", "fec0::/10")))
"""Of protocols, of clouds' own data (beside link-local ones), and site-local ones, which Python takes for public."""
_PORTS = {"http": 80, "https": 443}
_AT_ONCE = 64 * 1024
_GONE, _CHANGED = (404, 410), 412
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Limits:
    """How much is read, and for how long it is waited.

    Attributes:
        max_bytes: of a file.
        range_bytes: asked for at a time.
        silence_s: the longest wait for the next bytes.
        range_s: the longest that one range may take: bytes that drip in end here.
        total_s: the longest that a file may take in one call.
        retries: failures in a row without a new byte, after each of which is waited twice as long, `wait_s` at first.
    """

    max_bytes: int = 50 * 10**9
    range_bytes: int = 16 * 2**20
    silence_s: float = 30.0
    range_s: float = 300.0
    total_s: float = 12 * 3600.0
    retries: int = 5
    wait_s: float = 1.0


USUAL = Limits()


@dataclass(frozen=True)
class _Place:
    """Where a request goes: `address` was checked, and is what is connected to."""

    scheme: str
    host: str
    port: int
    address: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


@dataclass(frozen=True)
class _Part:
    """One answer's facts: bytes from `first` on, `n` of them, of a file of `total` bytes, under the server's name for its state."""

    first: int
    n: int
    total: int
    validator: str


class _Broken(Exception):
    """A connection or an answer that broke off; it is tried again."""


def hosts_of(named: Iterable[str]) -> frozenset[str]:
    """Return the hosts that scenes may come from: those a command named, and those of `HOSTS_VARIABLE`; lowercase, some with a port."""
    listed = [*named, *os.environ.get(HOSTS_VARIABLE, "").split(",")]
    return frozenset(one.strip().lower() for one in listed if one.strip())


def fetch(
    url: str, *, hosts: Iterable[str], folder: Path | None = None, allow_private: bool = False, limits: Limits = USUAL,
    report: Callable[[float, str], object] = lambda share, words: None, wait: Callable[[float], object] = time.sleep,
) -> Path:  # fmt: skip
    """Download a scene, or find it where it was downloaded before; return its path.

    Beside it stands a file .json with its address, size and sha256. What was read of a file before a break is read on from there, if the
    server names its state (ETag or Last-Modified) and that is the same.

    Args:
        url: http or https, without user, password, query and fragment; its name ends in .tif or .tiff.
        hosts: whose files may be read, "data.example.org" or "data.example.org:8080".
        folder: where to; the user's own folder if None.
        allow_private: also hosts of this machine and of its own network.
        report: takes the share that is done, 0..1, and words.

    Raises:
        ImageryError: kind "host" if the host is not listed, "url", "address", "status", "changed", "size", "disk", or "network".
    """
    place, path, name = _checked(url, frozenset(one.lower() for one in hosts))
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    target = (home() / "fetched" if folder is None else folder).expanduser().resolve() / place[1] / key / name
    with writing(target.parent, ImageryError):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(target.with_suffix(".lock"), timeout=0):
            if target.is_file() and _is_whole(target, url):
                report(1.0, f"{name} is here already")
                return target
            download = _Download(url, _resolved(place, allow_private), path, target, limits, report, wait, allow_private)
            with writing(target, ImageryError):
                download.run()
            return target
    except Timeout as error:
        raise ImageryError(f"{name} is being downloaded by another program.", "Wait for its end.", kind="busy") from error


def _checked(url: str, hosts: frozenset[str]) -> tuple[tuple[str, str, int], str, str]:
    """Return scheme, host and port of an address, its path, and the file's name."""
    shown = printable(url.split("?", 1)[0].rsplit("@", 1)[-1])
    if not (_URL.fullmatch(url) and len(url) <= _LONGEST_URL) or "@" in url.split("/")[2]:
        raise ImageryError(
            f"{shown} is no address that scenes are read from: those are http:// or https://, a host, and a path of plain signs; without "
            "user, password, query (signed requests) and fragment.",
            "Ask the provider for such an address, or download the file by other means and add it as a local one.",
            kind="url",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ImageryError(f"{shown} is no address: {error}.", "Correct it.", kind="url") from error
    name = parts.path.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise ImageryError(
            f"{shown} does not end in the plain name of a GeoTIFF.",
            "An address ends in a name such as post.tif or post.tiff. Name the GeoTIFF itself; of another format, make a GeoTIFF with "
            "gdal_translate and add it as a local file.",
            kind="url",
        )
    if f"{host}:{port}" not in hosts and not (host in hosts and port == _PORTS[parts.scheme]):
        known = ", ".join(sorted(hosts)) or "none"
        raise ImageryError(
            f"{host}:{port} is not among the hosts that scenes may come from: {known}.",
            f"If you trust it, add --host {host if port == _PORTS[parts.scheme] else f'{host}:{port}'}, or set {HOSTS_VARIABLE}.",
            kind="host",
        )
    return (parts.scheme, host, port), parts.path, name


def _resolved(place: tuple[str, str, int], allow_private: bool) -> _Place:
    """Look a host up once, and check every address that it has."""
    scheme, host, port = place
    try:
        found = list(dict.fromkeys(str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    except (OSError, UnicodeError) as error:  # a name like "a..b" is not even asked for
        raise ImageryError(
            f"The host {host} is not found ({getattr(error, 'strerror', None) or error}).",
            "Correct it, or check the network.",
            kind="network",
        ) from error
    for address in found:
        if not _may_connect(ipaddress.ip_address(address), allow_private):
            raise ImageryError(
                f"The host {host} has the address {address}, which is of this machine or of a network of its own.",
                "If it is yours, add --allow-private." if not allow_private else "Nothing is read from such an address.",
                kind="address",
            )
    return _Place(scheme, host, port, found[0])


def _may_connect(address: ipaddress.IPv4Address | ipaddress.IPv6Address, allow_private: bool) -> bool:
    """Return whether an address may be connected to; of one that holds another one, both are asked."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _may_connect(inner, allow_private) and (address.ipv4_mapped is not None or address in _NAT64)
    if address.is_multicast or address.is_unspecified or address.is_link_local:  # link-local: a cloud's own data are there
        return False
    if (address.is_reserved and not address.is_loopback) or any(address in network for network in _NEVER):
        return False  # ::/8 is reserved: addresses that hold another one in older ways, and ::1
    return address.is_global or (allow_private and (address.is_loopback or address.is_private))


def is_fetched(path: Path) -> bool:
    """Return whether a file lies where `fetch` puts one, in a folder whose name says nothing to people."""
    return re.fullmatch(r"[0-9a-f]{16}", path.parent.name) is not None and path.with_suffix(".json").is_file()


def _is_whole(target: Path, url: str) -> bool:
    """Return whether a file is the one that was downloaded. Raises ImageryError if it was changed since."""
    note = target.with_suffix(".json")
    if not note.is_file():
        return False
    with suppress(ValueError, KeyError, TypeError, RecursionError):  # of a damaged note
        facts = json.loads(note.read_text(encoding="utf-8"))
        if facts["url"] == url and facts["bytes"] == target.stat().st_size and facts["sha256"] == _sha256(target):
            return True
    raise ImageryError(
        f"{target} is not as it was downloaded: its size or sha256 is another, or {note.name} beside it is damaged.",
        "Remove it to download it again; projects that use it read only the file that was added.",
        kind="changed",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Download:
    """One file on its way: `.part` holds what was read so far, `.part.json` of which state of the file, and how much is on the disk.

    What comes after that may be anything once the power was cut, and is read again.
    """

    def __init__(
        self, url: str, place: _Place, path: str, target: Path, limits: Limits, report: Callable[[float, str], object],
        wait: Callable[[float], object], allow_private: bool,
    ) -> None:  # fmt: skip
        self._url, self._place, self._path, self._target = url, place, path, target
        self._limits, self._report, self._wait, self._allow_private = limits, report, wait, allow_private
        self._part, self._note = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")
        self._until = time.monotonic() + limits.total_s

    def run(self) -> None:
        """Read all of it, then give it its name."""
        state, failures = self._resumed(), 0
        while state is None or self._size() < state.total:
            before = self._size()
            try:
                state, failures = self._read(state), 0
            except _Broken as error:
                failures = 1 if self._size() > before else failures + 1
                self._give_up_or_wait(failures, error)
                state = self._resumed()
        self._keep(state)

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.is_file() else 0

    def _resumed(self) -> _Part | None:
        """Return what is known of the file, if what is here of it can be read on; else remove that."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            facts = json.loads(self._note.read_text(encoding="utf-8"))
            synced, known = facts.pop("synced"), _Part(**facts)
            if known.validator and synced <= self._size() <= known.total:
                if self._size() > synced:
                    os.truncate(self._part, synced)
                return known
        self._forget()
        return None

    def _forget(self) -> None:
        for path in (self._note, self._part):
            path.unlink(missing_ok=True)

    def _give_up_or_wait(self, failures: int, error: Exception) -> None:
        words = str(error) or type(error).__name__
        pause = self._limits.wait_s * 2 ** (failures - 1)
        if failures > self._limits.retries or pause > self._left_s():
            raise ImageryError(
                f"{self._target.name} could not be read from {self._place.host} to its end: {printable(words, 160)}.",
                f"Run the command again later: {self._size():,} bytes are here, and are read on where the server allows it.",
                kind="network",
            ) from error
        self._report(0.0, f"{self._target.name}: {printable(words)}; trying again in {pause:.0f} s")
        self._wait(pause)

    def _read(self, state: _Part | None) -> _Part:
        """Ask for the next range, and add what comes to the file."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "pu-geo", "Connection": "close"}
        if state is not None and not state.validator:  # ranges of a file without a name for its state may be of two states
            self._forget()
        else:
            headers["Range"] = f"bytes={self._size()}-{self._size() + self._limits.range_bytes - 1}"
        if state is not None and state.validator.startswith('"'):
            headers["If-Match"] = state.validator
        with self._answer(headers) as response:
            found = self._checked_answer(response, self._size(), state)
            if not found.first:
                self._note_down(found)
            with self._part.open("ab") as out:
                try:
                    self._copy(response, out, found.n)
                finally:
                    out.flush()
                    os.fsync(out.fileno())
                    self._note_down(found)
        self._report(min(1.0, self._size() / found.total), f"{self._target.name}: {self._size():,} of {found.total:,} bytes")
        return found

    @contextmanager
    def _answer(self, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
        """Ask, and follow redirects within the host; yield the answer, of which the headers were read."""
        path = self._path
        for _ in range(_MOST_REDIRECTS + 1):
            connection = _Pinned(self._place, self._limits.silence_s)
            try:
                with self._asked(connection, path, headers) as response:
                    if response.status not in (301, 302, 303, 307, 308):
                        yield response
                        return
                    path = self._redirected(path, response.getheader("Location") or "")
            finally:
                connection.close()
        raise ImageryError(
            f"{self._place.host} redirects in a circle.", "Name the address of the file itself.", kind="status"
        )

    def _asked(self, connection: _Pinned, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        clock = threading.Timer(min(self._limits.range_s, self._left_s()), connection.break_off)  # headers may drip, too
        clock.daemon = True
        clock.start()
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            if connection.is_broken_off:  # broken off within the headers, which then end as if they were whole
                response.close()
                raise _Broken("it comes too slowly")
            return response
        except ssl.SSLCertVerificationError as error:
            raise ImageryError(
                f"The certificate of {self._place.host} is not valid for it ({error.verify_message}).",
                "Ask its operator; such a server may be another one.",
                kind="network",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(str(error) or type(error).__name__) from error
        finally:
            clock.cancel()

    def _left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _redirected(self, path: str, location: str) -> str:
        scheme, host, port = self._place.origin
        try:
            whole = location and urljoin(f"{scheme}://{host}:{port}{path}", location)
            found, path, _ = _checked(whole, frozenset({f"{host}:{port}"}))
        except (ImageryError, ValueError):
            found = None
        if found != self._place.origin:
            raise ImageryError(
                f"{self._place.host} redirects to {printable(location) or 'nowhere'}, which is another host, or no file's address.",
                "If you trust that host, name the address there and its host instead.",
                kind="host",
            )
        return path

    def _checked_answer(self, response: http.client.HTTPResponse, first: int, state: _Part | None) -> _Part:
        """Return what an answer says of the file, once it fits what was asked for and what was answered before."""
        if response.status in _AGAIN:
            raise _Broken(f"the server answers {response.status}")
        if response.status == _CHANGED:
            raise self._changed()
        if response.status not in (200, 206):
            gone = " There is no such file." if response.status in _GONE else ""
            raise ImageryError(
                f"{self._place.host} answers {response.status} {printable(response.reason)} instead of the file.{gone}",
                "Check the address; files that need a login or a signed request are not read.",
                kind="status",
            )
        length = response.getheader("Content-Length") or ""
        if (response.getheader("Content-Encoding") or "identity") != "identity" or not re.fullmatch("[0-9]{1,18}", length):
            raise self._liar("names no length of what it sends, or sends it packed")
        if response.getheader("Transfer-Encoding") is not None:
            raise self._liar("sends the file in pieces of its own")
        n = total = int(length)
        if response.status == 206:
            named = _RANGE.fullmatch(response.getheader("Content-Range") or "")
            if named is None:
                raise self._liar("names no range of the file, or one that was not asked for")
            start, end, total = map(int, named.groups())
            if start != first or n != end - start + 1 or n > self._limits.range_bytes or end >= total:
                raise self._liar(f"answers the question for bytes from {first:,} by {printable(named[0])} in {n:,} bytes")
        validator = response.getheader("ETag") or response.getheader("Last-Modified") or ""
        if total > self._limits.max_bytes or not total:
            raise ImageryError(
                f"{self._target.name} has {total:,} bytes; 1 to {self._limits.max_bytes:,} are read.",
                "Cut it to the area that you map, or allow more with --most-gb.",
                kind="size",
            )
        if state is not None and (validator != state.validator or total != state.total):
            raise self._changed()
        if first and response.status == 200:
            if state is None or state.n < state.total:
                self._forget()
                raise self._liar("sent a range of the file before, and sends the file from its start now")
            self._part.unlink()  # a server that does no ranges
            first = 0
        if state is None and shutil.disk_usage(self._target.parent).free < total - self._size():
            raise ImageryError(
                f"{self._target.name} has {total:,} bytes, more than is free in {self._target.parent}.",
                "Make room, or name another folder with --to.",
                kind="disk",
            )
        return _Part(first, n, total, validator)

    def _liar(self, does: str) -> ImageryError:
        return ImageryError(
            f"{self._place.host} {does}; such an answer is not trusted.", "Download the file by other means.", kind="status"
        )

    def _changed(self) -> ImageryError:
        self._forget()
        return ImageryError(
            f"{self._target.name} changed on {self._place.host} while it was read. Nothing of it was kept.",
            "Run the command again.",
            kind="changed",
        )

    def _note_down(self, found: _Part) -> None:
        with atomic_write(self._note) as temporary:
            temporary.write_text(json.dumps({**vars(found), "synced": self._size()}), encoding="utf-8")

    def _copy(self, response: http.client.HTTPResponse, out: BinaryIO, n: int) -> None:
        """Copy n bytes. What came before a break stays: it is read on from there."""
        left, give_up = (
            n,
            time.monotonic() + min(self._limits.range_s * max(1.0, n / self._limits.range_bytes), self._left_s()),
        )
        while left:
            if time.monotonic() > give_up:
                raise _Broken("it comes too slowly")
            try:
                some = response.read1(min(left, _AT_ONCE))
            except (OSError, http.client.HTTPException) as error:
                raise _Broken(str(error) or type(error).__name__) from error
            if not some:
                raise _Broken(f"it ends {left:,} bytes early")
            out.write(some)
            left -= len(some)

    def _keep(self, state: _Part) -> None:
        with self._part.open("rb+") as stream:
            os.fsync(stream.fileno())
        facts = {"url": self._url, "bytes": state.total, "sha256": _sha256(self._part), "validator": state.validator}
        with atomic_write(self._target.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        self._part.replace(self._target)
        self._note.unlink(missing_ok=True)


class _Pinned(http.client.HTTPConnection):
    """A connection to the address that was checked; its certificate must be the host's."""

    def __init__(self, place: _Place, silence_s: float) -> None:
        super().__init__(place.host, place.port, timeout=silence_s)
        self._open: socket.socket | None
        self._place, self._open, self.is_broken_off = place, None, False
        self.default_port = _PORTS[place.scheme]  # of the header Host

    def connect(self) -> None:
        self.sock = self._open = socket.create_connection((self._place.address, self._place.port), self.timeout)
        if self._place.scheme == "https":
            secure = ssl.create_default_context()
            self.sock = self._open = secure.wrap_socket(
                self.sock, server_hostname=self._place.host, do_handshake_on_connect=False
            )
        if self.is_broken_off:  # while there was nothing to shut down yet
            raise TimeoutError("it comes too slowly")
        if isinstance(self._open, ssl.SSLSocket):
            self._open.do_handshake()

    def break_off(self) -> None:
        """End it from another thread, whatever it waits for."""
        self.is_broken_off = True
        with suppress(OSError):
            if self._open is not None:
                self._open.shutdown(socket.SHUT_RDWR)
