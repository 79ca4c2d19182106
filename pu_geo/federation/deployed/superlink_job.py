"""Flower's SuperLink in a thread of the leader's process. Strangers reach its Fleet API alone, and only with an admitted
key.

Flower serves three APIs on one port. Without accounts, whoever reaches the Control API may start a run, that is execute code
of theirs here, and register keys; so `Gate` lets neither that nor the Runtime API through, to nobody. The ServerApp is in
this process and needs no port: `LocalGrid` is its way to the SuperLink's state.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import uvicorn
from flwr.app import Error, Message
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import (
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
    SubStatus,
)  # fmt: skip
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)  # fmt: skip
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.main import create_app

from pu_geo import __version__
from pu_geo.errors import FederationError
from pu_geo.federation.deployed import credentials, fingerprints

APP_ID = "pu-geo/federation"
FLEET = frozenset(
    f"/v1/fleet/{verb}"
    for verb in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "get-run",
        "push-object",
        "pull-object",
        "confirm-message-received",
    )
)
MAX_BODY = 1 << 28
"""Bytes of one request; Flower cuts arrays into pieces that are smaller."""
MAX_MESSAGE, MAX_OBJECTS = 1 << 30, 5000
BODY_SECONDS = 60.0
_START_SECONDS, _STOP_SECONDS, _POLL_SECONDS = 30.0, 5.0, 0.05
_LEAST_TLS = ssl.TLSVersion.TLSv1_3

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def app_hash() -> str:
    """Return the hash by which a member knows that the leader runs the application of its own version."""
    return hashlib.sha256(f"{APP_ID} {__version__}".encode()).hexdigest()


class Gate:
    """ASGI middleware: the Fleet API for admitted keys, in requests of bounded size that arrive in bounded time; nothing
    else.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], admitted: set[bytes]) -> None:
        self.app, self.admitted = app, admitted
        self.refused: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in FLEET:
            await _refuse(send, 404, "no such thing")
        elif (key := _key_of(scope)) not in self.admitted:
            self._note(key)
            await _refuse(send, 403, "this key was not admitted")
        elif not _is_signed(scope, key):  # Flower looks again, but only after the body is in memory
            await _refuse(send, 401, "this is not signed by that key, or the clocks differ")
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole request within limits, then let Flower have it."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_SECONDS):
                more = True
                while more:
                    event = await receive()
                    if event["type"] != "http.request":
                        return
                    parts.append(event.get("body", b""))
                    more = event.get("more_body", False)
                    if sum(map(len, parts)) > MAX_BODY:
                        await _refuse(send, 413, "too large")
                        return
        except TimeoutError:
            await _refuse(send, 408, "too slow")
            return
        whole = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def read() -> MutableMapping[str, Any]:
            return whole.pop() if whole else await receive()

        await self.app(scope, read, send)

    def _note(self, key: bytes) -> None:
        """Count who was refused, for the leader to see; a key that is none has no fingerprint."""
        try:
            name = fingerprints.of_key(key.decode("ascii"))
        except ValueError:
            name = "no key"
        if name in self.refused or len(self.refused) < 100:
            self.refused[name] = self.refused.get(name, 0) + 1


def _key_of(scope: Scope) -> bytes:
    return _decoded(_header(scope, FLEET_HTTP_PUBLIC_KEY_HEADER))


def _is_signed(scope: Scope, key: bytes) -> bool:
    """Return whether the owner of an admitted key signed the time of a request, and it is about now."""
    stamp, signature = _header(scope, TIMESTAMP_HEADER), _decoded(_header(scope, FLEET_HTTP_SIGNATURE_HEADER))
    try:
        age = (now() - datetime.fromisoformat(stamp.decode("ascii"))).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a time zone
        return False
    is_recent = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
    return is_recent and verify_signature(bytes_to_public_key(key), stamp, signature)


def _header(scope: Scope, wanted: str) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted.lower().encode()), b"")


def _decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""


async def _refuse(send: Send, status: int, words: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": words.encode()})


class SuperLink:
    """Flower's SuperLink, from `start` to `stop`.

    Attributes:
        port: that it listens on.
        node_ids: by public key, of the members that were admitted.
        grid: the way of this process to the messages, once it serves.
    """

    def __init__(self, tls: Path, host: str, port: int) -> None:
        """Bind the port. Raises FederationError if it is taken, or the address is not of this machine."""
        logging.getLogger("flwr").setLevel(logging.WARNING)
        self.node_ids: dict[str, int] = {}
        flower = create_app()
        flower.state.enable_supernode_auth = True  # nobody registers a key from outside
        self.state = flower.state.linkstate_factory.state()
        self.gate = Gate(flower, set())
        config = uvicorn.Config(
            cast(Any, self.gate),
            log_level="error",
            access_log=False,
            lifespan="on",
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
            ssl_certfile=str(tls / credentials.SERVER),
            ssl_keyfile=str(tls / credentials.SERVER_KEY),
            server_header=False,
        )
        config.load()
        if config.ssl is not None:
            config.ssl.minimum_version = _LEAST_TLS
        self._server = uvicorn.Server(config)
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def start(self) -> None:
        """Serve, and make the one run that members work for."""
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise FederationError(
                    "Flower's server did not start.", "The job's log says why; please report it.", kind="fault"
                )
            time.sleep(_POLL_SECONDS)
        run_id = self.state.create_run(
            APP_ID, __version__, app_hash(), {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        (run,) = self.state.get_run_info(run_ids=[run_id])
        self.state.claim_task(run.primary_task_id)
        self.state.activate_task(run.primary_task_id)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, SUPERLINK_NODE_ID, run.primary_task_id
        self.run, self.grid = run, LocalGrid(self.state, run_id)

    def admit(self, public_keys: Iterable[str]) -> None:
        """Let these keys in and no others; those that are known stay as they are."""
        wanted = set(public_keys)
        for key in wanted - set(self.node_ids):
            self.node_ids[key] = self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key.encode(), 0)
        for key in set(self.node_ids) - wanted:
            self.state.delete_node(NOOP_FLWR_AID, self.node_ids.pop(key))
        self.gate.admitted.clear()
        self.gate.admitted.update(key.encode() for key in wanted)

    def keep_alive(self) -> None:
        """Let Flower know that the ServerApp works; its run ends a minute after the last call."""
        self.state.acknowledge_task_heartbeat(self.run.primary_task_id)

    def forget(self, message_ids: Iterable[str]) -> None:
        """Take back asks that nobody needs to answer any more."""
        with suppress(RecursionError):  # as in `LocalGrid._whole`
            self.state.delete_messages(message_ins_ids=set(message_ids))

    def stop(self) -> None:
        self.state.finish_task(self.run.primary_task_id, SubStatus.COMPLETED, "")
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise FederationError(
            f"The federation cannot be served at {host}:{port}: {getattr(error, 'strerror', None) or error}.",
            "End what uses this port, or remove the file tls/port of the federation to get another one, start again, and "
            "send members the new invitation.",
            kind="address",
        ) from error
    made.listen(128)
    return made


class LocalGrid:
    """The messages of Flower's server, for a ServerApp in its own process. Nothing here waits.

    Flower's own grid waits minutes for a reply of which a part is missing, because its sender was killed.
    """

    def __init__(self, state: Any, run_id: int) -> None:
        self.state, self._run_id = state, run_id
        self._arrived: dict[str, Message] = {}

    def nodes(self) -> Iterable[NodeInfo]:
        """Return the nodes that are online."""
        return cast(Iterable[NodeInfo], self.state.get_node_info(node_ids=list(self.state.get_nodes(self._run_id))))

    def push(self, message: Message) -> str:
        """Store a message for its node; return its id, "" for one that was refused."""
        message.metadata.__dict__["_message_id"] = message.object_id
        session = self.state.start_session(self._run_id)
        with no_object_id_recompute():
            content = {each: part.deflate() for each, part in get_all_nested_objects(message).items()}
            tree = get_object_tree(message)
        is_stored, missing = self.state.store_message_and_object_tree(remove_content_from_message(message), tree, session)
        for each in missing:
            self.state.store_object(self._run_id, session, each, content[each])
        return message.metadata.message_id if is_stored else ""

    def pull(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that are there in full."""
        asked = set(message_ids)
        # Of a sender that left since, Flower would make an error of a reply that it has given out already.
        unknown = asked - set(self._arrived)
        for reply in self.state.get_message_res(message_ids=unknown, run_id=self._run_id) if unknown else ():
            self._arrived[reply.metadata.reply_to_message_id] = reply
        found = []
        for sent in asked & set(self._arrived):
            if (whole := self._whole(self._arrived[sent])) is not None:
                del self._arrived[sent]
                with suppress(RecursionError):
                    self.state.delete_messages(message_ins_ids={sent})
                found.append(whole)
        return found

    def _whole(self, reply: Message) -> Message | None:
        """Return a reply with its content; None while a part is missing."""
        if reply.has_error():
            return reply
        reply_id, store = reply.metadata.message_id, self.state.object_store
        try:
            ids = _ids_below(store, reply_id)
            contents: dict[str, bytes] = {each: store.get(each) or b"" for each in ids}
            if not all(contents.values()):
                return None
            size = sum(map(len, contents.values()))
            if size > MAX_MESSAGE:
                raise ValueError(f"it has {size / 1e6:,.0f} MB")
            read = cast(Message, inflate_object_from_contents(reply_id, contents))
            # Who sent it, and to what it replies, is what Flower stored with it: the bytes may claim anything.
            if read.has_error():
                whole = make_message(reply.metadata, error=read.error)
            else:
                whole = make_message(reply.metadata, content=read.content)
        except Exception as error:  # a stranger's bytes, in Flower's reader
            whole = make_message(reply.metadata, error=Error(0, f"the message cannot be read ({error})"[:200]))
        with suppress(
            RecursionError
        ):  # a chain of parts that a member made of many messages; what is left of it stays in memory
            store.delete(reply_id)
        return whole


def _ids_below(store: Any, root: str) -> set[str]:
    """Return the ids of an object and of all below it. Raises ValueError if there are too many.

    Flower's own `get_object_tree` visits an object once for each path to it, and a member can register 2^40 paths.
    """
    found, waiting = {root}, [root]
    while waiting:
        entry = store.store.get(waiting.pop())
        new = set(entry.child_object_ids) - found if entry else set()
        found |= new
        waiting += new
        if len(found) > MAX_OBJECTS:
            raise ValueError(f"it has more than {MAX_OBJECTS:,} parts")
    return found
