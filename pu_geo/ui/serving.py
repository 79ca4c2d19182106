"""Start and end of the app's server: its secret, the address that it prints, the browser that it opens, and its end when
asked.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from types import FrameType

import h11
import uvicorn.config
from uvicorn.protocols.http.h11_impl import H11Protocol

from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import access
from pu_geo.lifecycle.launch import BROWSER_VARIABLE
from pu_geo.store.layout import home

_HEAD_SECONDS = 10.0
_MOST_CONNECTIONS, _FILES = 500, 8192  # of WebSockets there are as many as open pages, besides
_END_SECONDS = 3.0  # a rerun that computes, or a browser that keeps a request open, holds up an end no longer


class HeadInTime(H11Protocol):
    """uvicorn's HTTP, which ends connections whose next request's head does not come in time, and those that are too many.

    uvicorn has a setting for neither, and any account of the machine may open connections.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.close()
        self.loop.call_later(_HEAD_SECONDS, self._look, None)

    def _look(self, answered: object) -> None:
        """End the connection where the same request as before is the last one, and half of another's head may be here."""
        if self not in self.connections:  # it ended, or became a WebSocket
            return
        if self.cycle is answered and self.conn.their_state is h11.IDLE:
            self.transport.close()
        else:
            self.loop.call_later(_HEAD_SECONDS, self._look, self.cycle)


class Serving:
    """One start of the server. Attributes: `secret`, which lets a browser in."""

    def __init__(self) -> None:
        given = access.given_secret()
        self.secret = given or access.new_secret()
        self._is_announced = bool(given)  # by `pu-geo app`, which made it
        self._port: int | None = None
        self.key = cache(lambda: access.user_key(home()))

    def check(self, port: int) -> None:
        """Note the port, and set what uvicorn has no setting for; end the process in words where the user's key cannot be
        used.
        """
        self._port = port
        uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{HeadInTime.__name__}"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
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
