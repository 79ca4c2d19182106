"""The leader's side between machines: messages go out by node key, and only the member whose key holds a class may reply for
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Message as Carried
from flwr.common.constant import ErrorCode

from pu_geo.errors import FederationError, printable
from pu_geo.federation import wire_job
from pu_geo.federation.agreement import LOCALHOST, Agreement
from pu_geo.federation.deployed import credentials
from pu_geo.federation.deployed import messages_job as messages
from pu_geo.federation.deployed.membership import Invitation, write_invitation
from pu_geo.federation.deployed.superlink_job import SuperLink
from pu_geo.federation.wire_job import Message
from pu_geo.files import atomic_write
from pu_geo.store import federations

_PORT = "port"
_ANYWHERE = "0.0.0.0"  # whoever leads named an address of this machine for others
_POLL_SECONDS = 0.1
_SPARE_SECONDS = 600.0  # Flower drops a message whose time is up; here a round ends first
_AWAY = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE)


class FlowerTransport:
    """Carries messages by Flower, see `rounds.Transport`. A member that is away gets its message when it is back before the
    deadline.
    """

    def __init__(self, link: SuperLink, folder: Path) -> None:
        self.link, self.folder = link, folder
        self._keys: dict[int, str] = {}
        self.admit()

    def admit(self) -> None:
        """Let in whom the leader admitted since."""
        self._keys = {row: one.public_key for row, one in federations.members(self.folder).items()}
        self.link.admit(self._keys.values())

    def strangers(self) -> list[str]:
        """Return the fingerprints of keys that asked and are not admitted."""
        admitted = {one.fingerprint for one in federations.members(self.folder).values()}
        return [each for each in self.link.gate.refused if each not in admitted]

    def online(self) -> dict[int, tuple[int, str]]:
        """Return row -> node and when it connected, of the members that are connected."""
        there = {node.node_id: node.last_activated_at for node in self.link.grid.nodes()}
        nodes = {row: self.link.node_ids[key] for row, key in self._keys.items()}
        return {row: (node, there[node]) for row, node in nodes.items() if node in there}

    def exchange(
        self, messages: Mapping[int, Message], *, deadline_s: float, stop: Callable[[], None], arrived: Callable[[int], None]
    ) -> Mapping[int, Message | str]:
        """Do as `rounds.Transport.exchange`."""
        until = time.monotonic() + deadline_s
        sent: dict[int, tuple[str, str]] = {}  # the id of a message, and when the member that got it had connected
        found: dict[int, Message | str] = {}
        try:
            while len(found) < len(messages) and time.monotonic() < until:
                stop()
                self.link.keep_alive()
                self.admit()
                self._send({row: each for row, each in messages.items() if row not in found}, sent, until)
                rows = {message_id: row for row, (message_id, _) in sent.items()}
                for reply in self.link.grid.pull(rows):
                    row = rows[reply.metadata.reply_to_message_id]
                    if reply.has_error() and reply.error.code in _AWAY:
                        del sent[row]  # its member gets the message again once it is back
                    elif reply.metadata.src_node_id == self.link.node_ids.get(self._keys.get(row, "")):
                        found[row] = _read(reply, wire_job.REPLY[messages[row].kind])
                        if not isinstance(found[row], str):
                            arrived(row)
                        del sent[row]
                time.sleep(_POLL_SECONDS)
        finally:
            self.link.forget(message_id for message_id, _ in sent.values())
        return found

    def _send(self, waiting: Mapping[int, Message], sent: dict[int, tuple[str, str]], until: float) -> None:
        """Send what was not sent yet to the members that are online, and again to those that started anew since."""
        online = self.online()
        for row in waiting.keys() & online.keys():
            node, since = online[row]
            before = sent.get(row)
            if before and before[1] == since:
                continue
            if before:
                self.link.forget([before[0]])
            ttl = until - time.monotonic() + _SPARE_SECONDS
            message_id = self.link.grid.push(Carried(messages.to_records(waiting[row]), node, messages.TYPE, ttl=ttl))
            if message_id:
                sent[row] = (message_id, since)


def _read(reply: Carried, kind: str) -> Message | str:
    """Return what a member replied, or why that counts for nothing; `rounds.refusal` compares it with what its key may
    answer.
    """
    if reply.has_error():
        return printable(reply.error.reason or f"it failed (Flower's code {reply.error.code})", 300)
    try:
        return wire_job.checked(messages.from_records(reply.content), kind)
    except FederationError as error:
        return error.problem


@contextmanager
def serving(folder: Path, agreement: Agreement, host: str) -> Iterator[tuple[FlowerTransport, Invitation]]:
    """Serve a federation on this machine: certificates, SuperLink, and the invitation that says where.

    The port is a free one at first, and the same after that: it stands in the invitations that members have.

    Args:
        host: name or address by which members reach this machine; with 127.0.0.1 only this machine can connect.

    Raises:
        FederationError: if nothing can be served there, for example because something else took the port meanwhile.
    """
    tls = folder / federations.TLS
    credentials.certify(tls, host)
    known = tls / _PORT
    listen = LOCALHOST if host in credentials.LOOPBACK else _ANYWHERE
    link = SuperLink(tls, listen, int(known.read_text("ascii")) if known.is_file() else 0)
    try:
        link.start()
        with atomic_write(known) as temporary:
            temporary.write_text(str(link.port), "ascii")
        invitation = Invitation(agreement, f"{host}:{link.port}", (tls / credentials.CA).read_text("ascii"))
        write_invitation(folder, invitation)
        yield FlowerTransport(link, folder), invitation
    finally:
        link.stop()
