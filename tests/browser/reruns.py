"""When a tab asks for a run of the page, as `frontend/src/reruns.js` does: one at a time, with pauses that grow with its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SHORTEST_PAUSE_S, PAUSE_PER_RUN, LOST_S = 0.25, 3, 10.0


class Reruns:
    """Asks for runs through `ask`. `seconds` lists how long each took, from asking to the page's data."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self.seconds: list[float] = []
        self._ask = ask
        self._asked_at: float | None = None
        self._came_at = 0.0
        self._is_wanted = False
        self._timer: asyncio.TimerHandle | None = None

    def want(self) -> None:
        """Ask now, after the pause, or once the run under way came."""
        self._is_wanted = True
        if self._asked_at is None:
            pause = max(SHORTEST_PAUSE_S, PAUSE_PER_RUN * (self.seconds[-1] if self.seconds else 0.0))
            self._wake(self._came_at + pause - time.perf_counter(), self._go)

    def came(self) -> None:
        """The page's data are here."""
        if self._asked_at is None:
            return
        was_wanted, asked_at, self._came_at = self._is_wanted, self._asked_at, time.perf_counter()
        self.seconds.append(self._came_at - asked_at)
        self.stop()
        if was_wanted:
            self.want()

    def stop(self) -> None:
        """Nothing is wanted or under way any more."""
        self._is_wanted, self._asked_at = False, None
        if self._timer:
            self._timer.cancel()

    def _go(self) -> None:
        self._is_wanted = False
        self._asked_at = time.perf_counter()
        self._wake(max(LOST_S, 4 * self.seconds[-1] if self.seconds else 0.0), self._go)
        self._ask()

    def _wake(self, seconds: float, act: Callable[[], None]) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), act)
