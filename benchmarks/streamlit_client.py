"""One browser tab on the Annotate screen without a browser: it speaks Streamlit's websocket protocol.

It keeps the log of clicks as `frontend/src/oplog.js` does: numbered, sent by HTTP, all that is not acknowledged in each
message, the next one once the last one is answered, again after a failure, at once after a restart of the server. Then it
asks for runs of the page as seldom as the browser does, and gets the scores that they bring.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

COMPONENT = "pu_geo.damage_view"
RETRY_S = (1.0, 2.5, 5.0, 10.0, 15.0)
PATIENCE_S, RECONNECT_S, LONGEST_RUN_S = 15.0, 0.1, 120.0
SHORTEST_PAUSE_S, PAUSE_PER_RUN, LOST_S = 0.25, 3, 10.0  # of runs of the page, as in reruns.js


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


class _Line:
    """One connection that stays open, as a browser keeps it; one request at a time."""

    def __init__(self, address: str, cookie: str) -> None:
        self._where, self._cookie = urlsplit(address), cookie
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of the answer; 0 where there is no server, or it broke off."""
        facts = (f"{method} {path} HTTP/1.1", f"Host: {self._where.netloc}", f"Cookie: {self._cookie}")
        message = (
            "\r\n".join((*facts, "Content-Type: application/json", f"Content-Length: {len(body)}", "", "")).encode() + body
        )
        async with self._turn:
            for _ in range(2):  # the server may have closed it meanwhile
                try:
                    return await asyncio.wait_for(self._exchange(message), PATIENCE_S)
                except (OSError, EOFError, TimeoutError):
                    self.close()
        return 0, b""

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def _exchange(self, message: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._where.hostname, self._where.port)
        reader, writer = self._streams
        writer.write(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = head.partition("content-length:")[2].partition("\r\n")[0]
        return int(head.split(" ", 2)[1]), await reader.readexactly(int(length))


class Tab:
    """A tab with a log of its own. `clicks` are all that were made, `pending` those that nobody acknowledged yet.

    Attributes:
        runs: pages that the server finished; `run_seconds`: from asking for one to its data.
        troubles: exceptions that pages showed, and answers of routes other than 200.
        problems: what the server refused.
    """

    def __init__(self, address: str, *, cookie: str, analyst: str, retry_s: tuple[float, ...] = RETRY_S) -> None:
        self.clicks: list[Click] = []
        self.pending: list[Click] = []
        self.runs, self.run_seconds = 0, list[float]()
        self.troubles, self.problems = list[str](), list[str]()
        self._address, self._cookie, self._analyst, self._retry_s = address, cookie, analyst, retry_s
        self._session = str(uuid.uuid4())
        self._posts, self._scores = _Line(address, cookie), _Line(address, cookie)
        self._link: ClientConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._asked = self._answered = 0  # runs of the page
        self._is_stale = False  # something is stored that the page's data do not hold
        self._route = self._name = self._server = self._score_id = ""
        self._page = self._query = self._streamlit_session = ""
        self._name_box = self._component = ""  # ids of widgets

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    # ---- what an analyst does ----

    async def open(self) -> None:
        """Connect, and wait until the component is there and the page is the analyst's own."""
        self._start(self._stay_connected())
        await self.until(lambda: bool(self._component) and self.runs > 0)
        before = self.runs
        self._send_widgets()
        await self.until(lambda: self.runs > before)
        self._start(self._keep_posting())
        self._start(self._keep_fresh())

    def click(self, building_id: str, label: str) -> None:
        """Log a click; it is sent as soon as nothing is under way."""
        n = len(self.clicks) + 1
        self.clicks.append(Click(n, f"{self._session}-{n}", building_id, label, time.perf_counter()))
        self.pending.append(self.clicks[-1])
        self._changed.set()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = LONGEST_RUN_S) -> None:
        """Wait for something that clicks or messages of the server bring about."""
        async with asyncio.timeout(seconds):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._posts.close()
        self._scores.close()

    # ---- by HTTP, as in posts.js ----

    async def _keep_posting(self) -> None:
        """Send all that waits, one request at a time; after a failure wait, but not once the server is another one."""
        failures = 0
        while True:
            await self.until(lambda: bool(self.pending), None)
            for each in self.pending if self._link else ():
                each.messages += 1
            ops = [
                {"n": each.n, "op": each.op, "building_id": each.building_id, "label": each.label, "screen": "map"}
                for each in self.pending
            ]
            message = {"session": self._session, "attempt": failures, "analyst": self._name, "ops": ops}
            status, body = await self._posts.request("POST", self._route, json.dumps(message).encode())
            if status == 200:
                self._acknowledge(json.loads(body))
                failures = 0
                continue
            if status not in (0, 503):
                self.troubles.append(f"{self._route}: {status}")
            server, pause = self._server, self._retry_s[min(failures, len(self._retry_s) - 1)]
            with suppress(TimeoutError):
                await self.until(lambda server=server: self._server != server, pause)
            failures += 1

    def _acknowledge(self, answer: dict[str, Any]) -> None:
        assert answer["session"] == self._session
        if answer["refused"]:
            self.problems.append(answer["refused"]["problem"])
        for each in self.pending:
            if each.n <= answer["n"]:
                each.acknowledged_at = time.perf_counter()
        self.pending = [each for each in self.pending if each.n > answer["n"]]
        self._is_stale = True
        self._changed.set()

    # ---- runs of the page, as in reruns.js ----

    async def _keep_fresh(self) -> None:
        """Ask for runs, one at a time, with pauses that grow with the time they take."""
        while True:
            await self.until(lambda: self._is_stale, None)
            self._is_stale = False
            self._asked += 1  # makes the value differ, so that Streamlit runs again
            asked_at, server, took = time.perf_counter(), self._server, self.run_seconds[-1] if self.run_seconds else 0.0
            self._send_widgets()
            with suppress(TimeoutError):
                is_over = lambda server=server: self._answered >= self._asked or self._server != server  # noqa: E731
                await self.until(is_over, max(LOST_S, 4 * took))
            if self._answered >= self._asked:
                self.run_seconds.append(time.perf_counter() - asked_at)
                await asyncio.sleep(max(SHORTEST_PAUSE_S, PAUSE_PER_RUN * self.run_seconds[-1]))
            else:
                self._is_stale = True

    def _take_data(self, data: dict[str, Any]) -> None:
        """Take the page's data; "server" names the session at the server, and a new one knows nothing of what was sent."""
        self._server, ack = data["server"], data["ack"]
        self._route, self._name = f"{data['base']}/{data['token']}/operations", data["here"]["analyst"]
        if ack and ack["session"] == self._session:
            self._answered = max(self._answered, ack["attempt"])

    # ---- the wire, as Streamlit's own page does it ----

    async def _stay_connected(self) -> None:
        where = self._address.replace("http", "ws", 1) + "/_stcore/stream"
        headers = {"Cookie": self._cookie}
        options: Any = {
            "origin": self._address, "additional_headers": headers, "max_size": None, "proxy": None, "ping_interval": None,
        }  # fmt: skip
        while True:
            known = [self._streamlit_session] if self._streamlit_session else []
            with suppress(OSError, TimeoutError, WebSocketException):
                async with connect(where, subprotocols=["streamlit", "no-token", *known], **options) as self._link:
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
        if self._name_box:
            state.widget_states.widgets.add(id=self._name_box, string_value=self._analyst)
        if self._component and self._asked:
            value = {"operations": {"session": self._session, "attempt": self._asked, "ops": []}}
            state.widget_states.widgets.add(id=self._component, json_value=json.dumps(value))
        if self._link is not None:
            self._start(self._send(self._link, message.SerializeToString()))

    async def _send(self, link: ClientConnection, message: bytes) -> None:
        with suppress(OSError, WebSocketException):
            await link.send(message)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
            self._take_data(data)
            if data["score_id"] and data["score_id"] != self._score_id:
                self._score_id = data["score_id"]
                place = f"{data['base']}/{data['token']}/scores/{self._score_id}.bin"
                self._start(self._fetch(f"{place}?v={self._score_id}"))

    async def _fetch(self, path: str) -> None:
        """Get new scores, as the map does after each answer; where the server is gone meanwhile, nothing happens."""
        status, _ = await self._scores.request("GET", path)
        if status not in (0, 200):
            self.troubles.append(f"{path}: {status}")
