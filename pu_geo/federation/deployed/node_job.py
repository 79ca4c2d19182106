"""The member's side between machines: Flower's SuperNode protocol, in the process of the job.

Flower's own SuperNode installs and runs whatever app its SuperLink sends, in a fresh process for each message. Here the app
is part of this program: what comes over the wire are tensors and plain facts. A leader that runs another app is refused.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Error
from flwr.app import Message as Carried
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import GetRunRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)  # fmt: skip
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from pu_geo import __version__
from pu_geo.errors import FederationError, JobCancelled, PuGeoError, printable
from pu_geo.federation import wire_job
from pu_geo.federation.deployed import credentials, fingerprints, messages_job
from pu_geo.federation.deployed.membership import Invitation
from pu_geo.federation.deployed.superlink_job import app_hash
from pu_geo.federation.wire_job import Message
from pu_geo.files import write_file

POLL_SECONDS = 0.3
RETRY_SECONDS = 2.0
_HEARTBEAT_SECONDS = HEARTBEAT_MIN_INTERVAL / 2
_NODE_FILE = ".node"
_ACTIVATE = "/activate-node"
OWN_TROUBLE = "It could not do its part, for a reason that its own job shows."
NOT_ADMITTED, WRONG_IDENTITY = 403, 401


class Replies(Protocol):
    """What a member does, see `member.Part`."""

    def reply(self, message: Message) -> Message: ...
    def note(self, message: Message) -> None: ...


@dataclass
class Connection:
    """A member's connection to its leader, with what it reports to, and what ends it."""

    client: FleetHttpClient
    key: ec.EllipticCurvePrivateKey
    key_path: Path
    part: Replies
    report: Callable[[str], None]
    is_cancelled: Callable[[], bool]
    is_done: bool = False

    def sleep(self, seconds: float) -> None:
        """Wait. Raises JobCancelled once the user asked for it."""
        until = time.monotonic() + seconds
        while not self.is_cancelled():
            if time.monotonic() >= until:
                return
            time.sleep(min(0.1, seconds))
        raise JobCancelled

    def session(self) -> None:
        """Be a SuperNode until the model is there, or an error of the connection."""
        node = self._activated()
        self.report("connected; waiting for a round")
        runs: set[int] = set()
        ended = threading.Event()
        threading.Thread(target=_beat, args=(self.client, node, ended), daemon=True).start()
        try:
            while not self.is_done:
                self.sleep(0)
                got = self.client.PullMessages(PullMessagesRequest(node=node))
                if not got.messages_list:
                    self.sleep(POLL_SECONDS)
                    continue
                run_id = got.messages_list[0].metadata.run_id
                if run_id not in runs:
                    _require_our_app(self.client, node, run_id)
                    runs.add(run_id)
                self._reply(node, run_id, got.message_object_trees[0])
        finally:
            ended.set()  # no farewell: Flower drops the last reply of a node that left before its leader read it

    def _activated(self) -> Node:
        """Let the leader know that this member is there; return the node that its key is.

        A member that was killed is still online for the leader, and must leave before it comes back.
        """
        known = self.key_path.with_suffix(_NODE_FILE)
        if known.is_file():
            with suppress(httpx.HTTPStatusError, ValueError):
                self.client.DeactivateNode(DeactivateNodeRequest(node_id=int(known.read_text("ascii"))))
        request = ActivateNodeRequest(
            public_key=credentials.public_text(self.key).encode(), heartbeat_interval=float(HEARTBEAT_MIN_INTERVAL)
        )
        node = Node(node_id=self.client.ActivateNode(request).node_id)
        write_file(known, str(node.node_id).encode())
        return node

    def _reply(self, node: Node, run_id: int, tree: Any) -> None:
        """Fetch a message, let the member reply, and send that; what it refuses is sent as an error."""
        client = self.client
        carried = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(client.PullObject, node, run_id),
            make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, node, run_id),
            return_type=Carried,
        )
        carried.metadata.__dict__["_message_id"] = tree.object_id
        began = time.monotonic()
        refusal: Exception | None = None
        try:
            message = wire_job.checked(messages_job.from_records(carried.content), *wire_job.REPLY)
            self.report(f"round {message.round}: training" if message.round else "the model is here")
            reply = Carried(messages_job.to_records(self.part.reply(message)), reply_to=carried)
            self.is_done = message.kind == wire_job.MODEL  # it is stored; whether the leader hears of it or is gone by now
        except (PuGeoError, ValueError) as error:
            refusal = error
            # What the leader gets to read: words of others could hold paths of this machine.
            words = error.problem[: wire_job.MAX_TEXT] if isinstance(error, FederationError) else OWN_TROUBLE
            self.part.note(Message(wire_job.REFUSAL, {}, {"words": words}))
            self.report(f"could not do what the leader asked for: {error}")
            reply = Carried(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, words), reply_to=carried)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            request = PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
                clientapp_runtime_list=[time.monotonic() - began],
            )
            sent = client.PushMessages(request)
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(client.PushObject, node, run_id, sent.session_id),
                object_ids_to_push=set(sent.objects_to_push),
            )
        if isinstance(refusal, PuGeoError):
            raise refusal


def take_part(
    invitation: Invitation, key_path: Path, part: Replies, *, report: Callable[[str], None], is_cancelled: Callable[[], bool]
) -> None:  # fmt: skip
    """Work for a federation until its model is there; wait wherever the leader is away, or has not admitted this key yet.

    Raises:
        FederationError: if the server at the address is not that of the invitation, or runs another version.
        JobCancelled: once `is_cancelled`.
    """
    logging.getLogger("flwr").setLevel(logging.WARNING)
    key = credentials.private_key(key_path)
    with _client(invitation, key) as client:
        connection = Connection(client, key, key_path, part, report, is_cancelled)
        while not connection.is_done:
            try:
                connection.session()
            except httpx.TransportError as error:
                _refuse_wrong_server(error, invitation)
                report(f"waiting for the leader at {invitation.address}")
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status == NOT_ADMITTED:
                    fingerprint = fingerprints.of_key(credentials.public_text(key))
                    report(f"waiting to be admitted by the leader; this member's fingerprint is {fingerprint}")
                elif status == WRONG_IDENTITY and error.request.url.path.endswith(_ACTIVATE):
                    report("the leader did not accept this machine's signature; its clock may be more than five minutes off")
                elif status == WRONG_IDENTITY:
                    report("connecting again")  # a leader that was started anew knows no nodes
                else:
                    report(f"waiting: the leader answered with status {status}")
            except (ObjectPullError, ObjectPushError):
                report("waiting: the connection broke in the middle of a message")
            if not connection.is_done:
                connection.sleep(RETRY_SECONDS)


def _client(invitation: Invitation, key: ec.EllipticCurvePrivateKey) -> FleetHttpClient:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # only the CA that the fingerprint covers counts
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=credentials.certificate_bytes(invitation.certificate))
    client = FleetHttpClient(
        f"https://{invitation.address}",
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(key, key.public_key()),
        ],
        verify=context,
    )
    client._client.close()  # Flower's would go through a proxy of the environment, and follow redirects
    client._client = httpx.Client(verify=context, timeout=60.0, follow_redirects=False, trust_env=False)
    return client


def _refuse_wrong_server(error: httpx.TransportError, invitation: Invitation) -> None:
    """Raise FederationError if a connection failed for good: the certificate is not the one that people compared."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise FederationError(
                f"The server at {invitation.address} is not the leader of the invitation: its certificate was not signed "
                f"by the CA in it, or is for another address ({cause.verify_message}).",
                "Do not go on. Compare the fingerprint of the invitation with whoever leads, and ask for a new one.",
                kind="certificate",
            ) from error
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ConnectError) and "SSL" in str(error):
        raise FederationError(
            f"The server at {invitation.address} does not speak TLS as a leader does ({printable(error)}).",
            "Compare the address of the invitation with whoever leads.",
            kind="certificate",
        ) from error


def _beat(client: FleetHttpClient, node: Node, ended: threading.Event) -> None:
    """Let the leader know that this member works, while it trains too."""
    request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=float(HEARTBEAT_MIN_INTERVAL))
    while not ended.wait(_HEARTBEAT_SECONDS):
        with suppress(httpx.HTTPError, RuntimeError):  # the other thread meets the error too
            client.SendNodeHeartbeat(request)


def _require_our_app(client: FleetHttpClient, node: Node, run_id: int) -> None:
    run = client.GetRun(GetRunRequest(node=node, run_id=run_id)).run
    if run.fab_hash != app_hash():
        raise FederationError(
            f"The leader runs another application, or another version: {printable(run.fab_id)} "
            f"{printable(run.fab_version)}; here is "
            f"PU-Geo {__version__}. Nothing of it was run.",
            "Install the same version of PU-Geo on both sides.",
            kind="version",
        )
