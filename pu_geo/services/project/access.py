"""Who may open the app: a secret in the address that it prints, and a cookie that a browser keeps after its first visit.

The app listens on the loopback address, which every account of a machine reaches. So each start of the server makes a secret,
which is part of the address that it prints. A browser that opened this address gets a cookie. The cookie is worked out from a key
in the user's own folder, so it stays valid when the server starts again: open tabs go on, and send the clicks that they kept.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import html
import os
import re
import secrets
import stat
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pu_geo.errors import PuGeoError
from pu_geo.files import atomic_write
from pu_geo.project import locks
from pu_geo.project.layout import home

HOST = "127.0.0.1"
SECRET_VARIABLE = "PU_GEO_SECRET"
PARAMETER = "token"
KEY_NAME = "server.key"
READY = "PU-Geo is ready at {url}  (if no page opens, open this address yourself; Ctrl+C stops PU-Geo, trainings go on)"
_KEY = re.compile(rb"[0-9a-f]{64}")
_LEFT_S = 600.0  # a browser that opens has read its file by then
_ANOTHER_FOLDER = "Name a folder of your own in the environment variable PU_GEO_HOME"
_OPENING = (
    '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={url}"><title>PU-Geo</title><p><a href="{url}">Open PU-Geo</a></p>'
)


def new_secret() -> str:
    """Return a secret for one start of the server, 43 characters that an address may hold."""
    return secrets.token_urlsafe(32)


def given_secret() -> str | None:
    """Return the secret that who started this process handed over, and take it out of the environment, which jobs inherit."""
    return os.environ.pop(SECRET_VARIABLE, None)


def address(port: int, secret: str) -> str:
    """Return the address that lets a browser in.

    >>> address(8501, "abc")
    'http://127.0.0.1:8501/?token=abc'
    """
    return f"http://{HOST}:{port}/?{PARAMETER}={secret}"


def cookie_name(port: int) -> str:
    """Return the name of the cookie; browsers do not tell servers on two ports apart."""
    return f"pu_geo_{port}"


def cookie_value(key: bytes, port: int) -> str:
    """Compute the cookie's value, 64 hexadecimal characters. It differs by user and port and is the same at every start."""
    return hmac.digest(key, f"cookie of port {port}".encode(), hashlib.sha256).hex()


def user_key(folder: Path) -> bytes:
    """Read the user's key, 64 hexadecimal characters; it is made where there is none.

    Raises:
        PuGeoError: if it cannot be made or read, or another account could read or replace it.
    """
    path = folder / KEY_NAME
    try:
        if not os.path.lexists(path):
            _make(path)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            facts, key = os.fstat(descriptor), file.read(65)
    except OSError as error:
        raise PuGeoError(
            f"The key file {path} cannot be made or read: {error.strerror or error}.", _hint(error.errno, path)
        ) from error
    advice = f"Remove {path} and start PU-Geo again; open tabs then need the new address that it prints."
    if not stat.S_ISREG(facts.st_mode) or not _KEY.fullmatch(key):
        raise PuGeoError(f"{path} is not a key that PU-Geo made.", advice)
    if not _is_private(facts):
        if not _keeps_rights(folder):
            raise PuGeoError(
                f"The disk that holds {folder} keeps no rights of files, so every account could read the key {KEY_NAME}.",
                f"{_ANOTHER_FOLDER}, on a disk that keeps them.",
            )
        raise PuGeoError(
            f"{path} belongs to another account, or others may use it (mode {stat.S_IMODE(facts.st_mode):o}); "
            "it must be yours, with mode 600.",
            advice,
        )
    return key


@contextmanager
def opened_in_browser(url: str) -> Iterator[None]:
    """Open an address in the user's browser, where there is a screen.

    The browser is given a private file that leads there: all accounts of a machine can list the arguments of its programs.
    """
    has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not has_screen:
        yield
        return
    page = home() / f"open-{secrets.token_hex(4)}.html"
    with ExitStack() as until_the_end:
        with suppress(OSError):  # the disk is full, say: the address is printed, and can be opened by hand
            _remove_left(home())
            until_the_end.callback(_remove, page)
            with atomic_write(page, mode=0o600) as temporary:
                temporary.write_text(_OPENING.format(url=html.escape(url)), encoding="utf-8")
            threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()  # some hold up who asks
        yield


def _remove_left(folder: Path) -> None:
    """Remove the files for browsers that killed processes left."""
    for path in folder.glob("open-" + "[0-9a-f]" * 8 + ".html"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFT_S:
                path.unlink()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _is_private(facts: os.stat_result) -> bool:
    return os.name != "posix" or (facts.st_uid == os.getuid() and not facts.st_mode & 0o077)


def _keeps_rights(folder: Path) -> bool:
    """Return whether a new private file is private there; exFAT, some network disks and folders of containers make it public."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return _is_private(os.fstat(file.fileno()))
    except OSError:
        return True  # not known


def _hint(number: int | None, path: Path) -> str:
    """Return what to do where the key file cannot be made or read for a reason of the system's."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "Free some space on its disk, then start PU-Geo again."
    if number in (errno.EACCES, errno.EPERM):
        return (
            f"It may be another account's, as after `sudo pu-geo app`: make {path.parent} and all in it yours "
            f"(sudo chown -R $USER {path.parent}), and start PU-Geo without sudo. {_ANOTHER_FOLDER} if that cannot be."
        )
    if number == errno.ELOOP:
        return f"It is a link, which PU-Geo does not follow. Remove {path} and start PU-Geo again."
    return f"{_ANOTHER_FOLDER}, on a disk that can be written to."


def _make(path: Path) -> None:
    """Write a new key that nobody else may read; where two servers start at once, the first one's key stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locks.one_at_a_time(path.with_name(f".{KEY_NAME}.lock")):
        if not os.path.lexists(path):
            with atomic_write(path, mode=0o600) as temporary:
                temporary.write_text(secrets.token_hex(32), encoding="utf-8")
