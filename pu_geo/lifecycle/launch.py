"""Start the browser app from the command line: find `app.py`, in a clone or in an installed wheel, and run it."""

from __future__ import annotations

import hmac
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pu_geo
from pu_geo.errors import PuGeoError, interrupts_held, stops_as_interrupts
from pu_geo.lifecycle import access
from pu_geo.store.layout import find_project, home

OPEN_VARIABLE = "PU_GEO_OPEN"
BROWSER_VARIABLE = "PU_GEO_BROWSER"
SAMPLE = "sample"
_START_SECONDS, _END_SECONDS = 60.0, 3.0


def app_script() -> Path:
    """Return the path of `app.py`. Raises PuGeoError if it is not part of this installation."""
    package = Path(pu_geo.__file__).parent
    for path in (package / "_app" / "app.py", package.parent / "app.py"):
        if path.is_file():
            return path
    raise PuGeoError("The app's screens are not part of this installation.", "Install PU-Geo again from its wheel.")


def launch_app(
    project: str | None, *, port: int, sample: bool, browser: bool, ready: Callable[[str], None] = lambda address: None
) -> int:
    """Serve the app on this machine until it is stopped; return its exit code.

    Ctrl+C, SIGTERM and a terminal that closes end the server within a few seconds; background jobs go on.

    Args:
        project: folder to open first, or None.
        sample: open the sample event first.
        browser: open a browser window, where there is one.
        ready: is called with the app's address, which holds the secret of this start, once the server answers there.

    Raises:
        PuGeoError: if the project or the app is not there, the port cannot be used, or the server ends or does not answer.
    """
    if not 1 <= port <= 65535:
        raise PuGeoError(f"Port {port} does not exist; ports are 1 to 65535.", "Leave --port out to use 8501.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((access.HOST, port))
        except OSError as error:
            raise PuGeoError(
                f"Port {port} is taken: {error.strerror}.", f"Is PU-Geo running already? Else add --port {port + 1}."
            ) from error
    first = SAMPLE if sample else str(find_project(project).folder) if project else ""
    key = access.user_key(home())  # refused here, in words, rather than by the server
    secret = access.new_secret()
    environment = {**os.environ, OPEN_VARIABLE: first, access.SECRET_VARIABLE: secret}
    command = [sys.executable, str(app_script()), str(port)]
    address = access.address(port, secret)
    with stops_as_interrupts(), ExitStack() as until_the_end:
        try:
            with interrupts_held():  # a session of its own: the terminal's Ctrl+C reaches us alone, and we end the server
                server = subprocess.Popen(command, env=environment, start_new_session=True)
                until_the_end.callback(_end, server)
            _wait_for_answer(server, port, secret, key)
            ready(address)
            if browser:
                until_the_end.enter_context(access.opened_in_browser(address))
            return server.wait()
        except KeyboardInterrupt:
            return 0


def _wait_for_answer(server: subprocess.Popen[bytes], port: int, secret: str, key: bytes) -> None:
    """Wait until the server answers; raise PuGeoError if it ends before, or does not within a minute."""
    give_up = time.monotonic() + _START_SECONDS
    while time.monotonic() < give_up:
        if (code := server.poll()) is not None:
            raise PuGeoError(
                f"The app ended as it started, with exit code {code}.",
                f"What it printed above names the reason. Port {port} may have been taken meanwhile: try --port {port + 1}.",
            )
        if _answers(port, secret, key):
            return
        time.sleep(0.1)
    raise PuGeoError(
        f"The app did not answer within {_START_SECONDS:.0f} s, so it was ended.",
        "Is the machine very busy? Try again in a moment.",
    )


def _answers(port: int, secret: str, key: bytes) -> bool:
    """Return whether the server that was started answers. Another one, which took the port, lacks the secret or the key."""
    cookie = f"{access.cookie_name(port)}={access.cookie_value(key, port)}"
    connection = http.client.HTTPConnection(access.HOST, port, timeout=1.0)
    try:
        connection.request("GET", f"/?{access.PARAMETER}={secret}")
        answer = connection.getresponse()
        given = answer.getheader("Set-Cookie", "").partition(";")[0]
        return answer.status == http.HTTPStatus.SEE_OTHER and hmac.compare_digest(given.encode(), cookie.encode())
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, and kill it if it does not soon."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(_END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # somebody pressed Ctrl+C again
            server.kill()
            server.wait()
