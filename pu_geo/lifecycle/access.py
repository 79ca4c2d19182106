"""Who may open the app: a secret in the address that it prints, and a cookie that a browser keeps after its first visit.

The app listens on the loopback address, which every account of a machine reaches. So each start of the server makes a
secret, which is part of the address that it prints. A browser that opened this address gets a cookie. The cookie is worked
out from a key in the user's own folder, so it stays valid when the server starts again: open tabs go on, and send the clicks
that they kept.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import os
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pu_geo import files
from pu_geo.files import atomic_write, home

HOST = "127.0.0.1"
SECRET_VARIABLE = "PU_GEO_SECRET"
PARAMETER = "token"
KEY_NAME = "server.key"
READY = "PU-Geo is ready at {url}  (if no page opens, open this address yourself; Ctrl+C stops PU-Geo, trainings go on)"
_LEFT_S = 600.0  # a browser that opens has read its file by then
_OPENING = (
    '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={url}"><title>PU-Geo</title><p><a href="{url}">Open PU-Geo</a></p>'
)


def new_secret() -> str:
    """Return a secret for one start of the server, 43 characters that an address may hold."""
    return secrets.token_urlsafe(32)


def given_secret() -> str | None:
    """Return the secret that who started this process handed over, and take it out of the environment, which jobs
    inherit.
    """
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
    """Read the key that cookies are worked out from; see `files.user_key`."""
    return files.user_key(folder, KEY_NAME)


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
