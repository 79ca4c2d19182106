"""Start and end of the app's server: its secret, the address that it prints, the browser that it opens, and its end when asked."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from types import FrameType

from pu_geo.errors import PuGeoError
from pu_geo.project.layout import home
from pu_geo.services.project import access
from pu_geo.services.project.launch import BROWSER_VARIABLE

_END_SECONDS = 3.0  # a rerun that computes, or a browser that keeps a request open, holds up an end no longer


class Serving:
    """One start of the server. Attributes: `secret`, which lets a browser in."""

    def __init__(self) -> None:
        given = access.given_secret()
        self.secret = given or access.new_secret()
        self._is_announced = bool(given)  # by `pu-geo app`, which made it
        self._port: int | None = None
        self.key = cache(lambda: access.user_key(home()))

    def check(self, port: int) -> None:
        """Note the port; end the process in words where the user's key cannot be used."""
        self._port = port
        try:
            self.key()
        except PuGeoError as error:
            sys.exit(f"{error.problem} {error.hint}")

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Print the address and open the browser once the server listens; end the process soon after it is asked to."""
        _end_soon_after(signal.SIGTERM)
        with ExitStack() as until_the_end:
            if self._port is not None and not self._is_announced:
                url = access.address(self._port, self.secret)
                sys.stdout.write(access.READY.format(url=url) + "\n")
                sys.stdout.flush()
                if os.environ.get(BROWSER_VARIABLE, "yes") == "yes":
                    until_the_end.enter_context(access.opened_in_browser(url))
            yield


def _end_soon_after(number: signal.Signals) -> None:
    """End the process some seconds after a signal, whatever its threads still do; the server's own handler comes first."""
    before = signal.getsignal(number)

    def end(given: int, frame: FrameType | None) -> None:
        last = threading.Timer(_END_SECONDS, os._exit, [128 + given])
        last.daemon = True
        last.start()
        if callable(before):
            before(given, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(number, end)
