"""One browser tab on the Annotate screen without a browser: it speaks Streamlit's websocket protocol.

It keeps the log of clicks as `frontend/src/oplog.js` does: numbered, all that is not acknowledged in each message, the next
message once the last one is answered or the server is slow, again after a while, again after a reconnect. It takes the
acknowledgement from where the browser gets it, the data of the component, so "acknowledged" means the same here.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

COMPONENT = "pu_geo.damage_view"
RETRY_S = (2.5, 4.0, 8.0, 15.0)
SLOW_SERVER_S = 0.3
PATIENCE_S = 0.0005  # more for each operation on its way
RECONNECT_S = 0.1
LONGEST_RUN_S = 120.0


@dataclass
class Click:
    """One operation of the log; times are of `time.perf_counter`, `messages` counts those that carried it."""

    n: int
    op: str
    building_id: str
    label: str
    made_at: float
    messages: int = 0
    acknowledged_at: float | None = None

    @property
    def seconds(self) -> float:
        """From the click to its acknowledgement."""
        assert self.acknowledged_at is not None, f"{self.op} was never acknowledged"
        return self.acknowledged_at - self.made_at


class Tab:
    """A tab with a log of its own. `clicks` are all that were made, `pending` those that nobody acknowledged yet.

    Attributes:
        runs: pages that the server finished.
        troubles: exceptions that pages showed, and answers of the score route other than 200.
        problems: what the component said while it could not store.
        connections: times that the websocket was opened.
    """

    def __init__(self, address: str, *, analyst: str = "", retry_s: tuple[float, ...] = RETRY_S) -> None:
        self.clicks: list[Click] = []
        self.pending: list[Click] = []
        self.runs = self.connections = 0
        self.troubles: list[str] = []
        self.problems: list[str] = []
        self._address, self._analyst, self._retry_s = address, analyst, retry_s
        self._session = str(uuid.uuid4())
        self._sent_up_to = self._attempt = 0
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._link: ClientConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._page = self._query = self._streamlit_session = ""
        self._name_box = self._component = ""  # ids of widgets
        self._value: dict[str, Any] = {}
        self._score_id: str | None = None
        self._changed = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    # ---- what an analyst does ----

    async def open(self) -> None:
        """Connect, and wait until the component is there and the page is the analyst's own."""
        self._start(self._stay_connected())
        await self.until(lambda: bool(self._component) and self.runs > 0)
        if self._analyst:
            before = self.runs
            self._send_widgets()
            await self.until(lambda: self.runs > before)

    def click(self, building_id: str, label: str) -> Click:
        """Log a click and send it when its turn has come."""
        n = len(self.clicks) + 1
        made = Click(n, f"{self._session}-{n}", building_id, label, time.perf_counter())
        self.clicks.append(made)
        self.pending.append(made)
        patience = self._patience(SLOW_SERVER_S) - (time.perf_counter() - self._sent_at)
        if not self._sent_up_to or patience <= 0:
            self._flush()
        else:
            self._wake(patience)
        return made

    async def settle(self, seconds: float = LONGEST_RUN_S) -> None:
        """Wait until everything is acknowledged."""
        await self.until(lambda: not self.pending, seconds)

    async def until(self, is_so: Any, seconds: float = LONGEST_RUN_S) -> None:
        """Wait for something that messages of the server bring about."""
        async with asyncio.timeout(seconds):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # ---- the log, as in oplog.js ----

    def _flush(self, is_retry: bool = False) -> None:
        if is_retry:
            self._attempt += 1  # makes the value differ, so that Streamlit runs again
        for each in self.pending if self._link else ():
            each.messages += 1
        self._sent_up_to, self._sent_at = self.pending[-1].n, time.perf_counter()
        ops = [
            {"n": each.n, "op": each.op, "building_id": each.building_id, "label": each.label, "screen": "map"}
            for each in self.pending
        ]
        self._value = {"operations": {"session": self._session, "attempt": self._attempt, "ops": ops}}
        self._send_widgets()
        self._wake(self._patience(self._retry_s[min(self._attempt, len(self._retry_s) - 1)]), is_retry=True)

    def _acknowledge(self, ack: dict[str, Any] | None, problem: str | None) -> None:
        if problem:
            self.problems.append(problem)
        if not ack or ack["session"] != self._session:
            return
        stored = [each for each in self.pending if each.n <= ack["n"]]
        self.pending = [each for each in self.pending if each.n > ack["n"]]
        for each in stored:
            each.acknowledged_at = time.perf_counter()
        if stored:
            self._attempt = 0
        if ack["n"] >= self._sent_up_to:
            self._sent_up_to = 0
        if not self.pending and self._timer:
            self._timer.cancel()
        elif self.pending and not self._sent_up_to:
            self._flush()

    def _patience(self, seconds: float) -> float:
        return seconds + len(self.pending) * PATIENCE_S

    def _wake(self, seconds: float, *, is_retry: bool = False) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._flush_if_any, is_retry)

    def _flush_if_any(self, is_retry: bool) -> None:
        if self.pending:
            self._flush(is_retry)

    # ---- the wire, as Streamlit's own page does it ----

    async def _stay_connected(self) -> None:
        where = self._address.replace("http", "ws", 1) + "/_stcore/stream"
        while True:
            known = [self._streamlit_session] if self._streamlit_session else []
            with suppress(OSError, TimeoutError, WebSocketException):
                async with connect(
                    where,
                    subprotocols=["streamlit", "no-token", *known],
                    origin=self._address,
                    max_size=None,
                    proxy=None,
                    ping_interval=None,
                ) as self._link:
                    self.connections += 1
                    self._send_widgets()
                    async for frame in self._link:
                        self._take(ForwardMsg.FromString(frame))
            self._link = None
            await asyncio.sleep(RECONNECT_S)

    def _send_widgets(self) -> None:
        """Ask for a run of the page with the values of all widgets, as the browser does for each change."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, self._page
        state.page_name = "" if self._page else "annotate"
        if self._name_box and self._analyst:
            state.widget_states.widgets.add(id=self._name_box, string_value=self._analyst)
        if self._component and self._value:
            state.widget_states.widgets.add(id=self._component, json_value=json.dumps(self._value))
        if self._link is not None:
            self._start(self._send(self._link, message.SerializeToString()))

    async def _send(self, link: ClientConnection, message: bytes) -> None:
        with suppress(OSError, WebSocketException):
            await link.send(message)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "navigation":
            self._page = message.navigation.page_script_hash
        elif kind == "new_session":
            self._streamlit_session = message.new_session.initialize.session_id
        elif kind == "page_info_changed":
            self._query = message.page_info_changed.query_string
        elif kind == "script_finished":
            self.runs += 1
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._show(message.delta.new_element)
        self._changed.set()

    def _show(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.troubles.append(f"{element.exception.type}: {element.exception.message}")
        elif kind == "text_input" and element.text_input.label == "Analyst":
            self._name_box = element.text_input.id
        elif kind == "bidi_component" and element.bidi_component.component_name == COMPONENT:
            self._component = element.bidi_component.id
            data = json.loads(element.bidi_component.json)
            self._acknowledge(data["ack"], data["problem"])
            if data["score_id"] and data["score_id"] != self._score_id:
                self._score_id = data["score_id"]
                place = f"{data['base']}/{data['token']}/scores/{self._score_id}.bin"
                self._start(self._fetch(f"{place}?v={self._score_id}"))

    async def _fetch(self, path: str) -> None:
        """Get new scores, as the map does after each answer; where the server is gone meanwhile, nothing happens."""
        where = urlsplit(self._address)
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.read(-1)
            finally:
                writer.close()
            status = answer.split(b"\r\n", 1)[0]
            if status and b" 200 " not in status:
                self.troubles.append(f"{path}: {status.decode()}")
