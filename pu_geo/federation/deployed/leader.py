"""The leader's side between machines: asks go out by node key, and only the member whose key holds a class may answer for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flwr.app import Message, RecordDict
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from torch import Tensor

from pu_geo.errors import FederationError, JobCancelled, printable
from pu_geo.federation import wire
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.deployed import credentials, messages
from pu_geo.federation.deployed.membership import Invitation, read_invitation, write_invitation
from pu_geo.federation.deployed.superlink import LocalGrid, SuperLink
from pu_geo.federation.protocol import Answer, Ask
from pu_geo.federation.wire import Packed
from pu_geo.project import federations

Reply = TypeVar("Reply")
_POLL_SECONDS = 0.1
_SPARE_SECONDS = 600.0  # Flower drops a message whose time is up; here a round ends first


@dataclass
class _Sent:
    message_id: str
    activated_at: str


class FlowerTransport:
    """Carries a round over Flower's Grid. A member that is away gets its ask when it is back before the deadline."""

    def __init__(self, link: SuperLink, folder: Path, agreement: Agreement) -> None:
        self.link, self.folder, self.agreement = link, folder, agreement
        self.grid = LocalGrid(link.state, link.run)
        self._keys: dict[int, str] = {}
        self._is_cancelled: Callable[[], bool] = lambda: False
        self.admit()

    def admit(self) -> None:
        """Let in whom the leader admitted since."""
        members = federations.members(self.folder)
        self._keys = {row: one.public_key for row, one in members.items() if one.public_key}
        self.link.admit(self._keys.values())

    def strangers(self) -> list[str]:
        """Return the fingerprints of keys that asked and are not admitted."""
        admitted = {one.fingerprint for one in federations.members(self.folder).values()}
        return [each for each in self.link.gate.refused if each not in admitted]

    def online(self) -> list[int]:
        """Return the rows whose member is connected."""
        there = {node.node_id for node in self.grid.get_nodes()}
        return [row for row, key in self._keys.items() if self.link.node_ids[key] in there]

    def exchange(
        self, asks: Mapping[int, Ask], *, deadline_s: float, is_cancelled: Callable[[], bool]
    ) -> Mapping[int, Answer | str]:  # fmt: skip
        """Do as `protocol.Transport.exchange`."""
        self._is_cancelled = is_cancelled  # also for the model at the end
        return self._collect({row: wire.pack_ask(ask) for row, ask in asks.items()}, self._answer, deadline_s)

    def finish(self, model: Mapping[str, Tensor], facts: Mapping[str, object], *, deadline_s: float) -> dict[int, str]:
        """Do as `protocol.Transport.finish`; who has it from the last time, whose job is over, is not asked again."""
        has = set(federations.delivered(self.folder))

        def note(row: int, _: Message) -> str:
            has.add(row)
            federations.write_delivered(self.folder, has)
            return ""

        contents = dict.fromkeys(self._keys.keys() - has, wire.pack_model(model, facts))
        came = self._collect(contents, note, deadline_s)
        return came | dict.fromkeys(sorted(has), "")

    def _collect(
        self, contents: Mapping[int, Packed], read: Callable[[int, Message], Reply], deadline_s: float
    ) -> dict[int, Reply | str]:
        """Send each row its message and return what was read of the replies until the deadline, by row."""
        records = {row: (messages.TYPES[packed.kind], messages.to_records(packed)) for row, packed in contents.items()}
        until = time.monotonic() + deadline_s
        sent: dict[int, _Sent] = {}
        found: dict[int, Reply | str] = {}
        try:
            while len(found) < len(contents) and time.monotonic() < until:
                if self._is_cancelled():
                    raise JobCancelled
                self.link.keep_alive()
                self.admit()
                self._send({row: each for row, each in records.items() if row not in found}, sent, until)
                rows = {each.message_id: row for row, each in sent.items()}
                for reply in self.grid.pull_messages(rows):
                    row = rows[reply.metadata.reply_to_message_id]
                    if reply.has_error() and reply.error.code in _AWAY:
                        del sent[row]  # its member gets the ask again once it is back
                    elif reply.metadata.src_node_id == self.link.node_ids.get(self._keys.get(row, "")):
                        found[row] = _error_words(reply.error) if reply.has_error() else read(row, reply)
                        del sent[row]
                time.sleep(_POLL_SECONDS)
        finally:
            self.link.forget(each.message_id for each in sent.values())
        return found

    def _send(self, records: Mapping[int, tuple[str, RecordDict]], sent: dict[int, _Sent], until: float) -> None:
        """Send what was not sent yet to the members that are online, and again to those that started anew since."""
        nodes = {node.node_id: node for node in self.grid.get_nodes()}
        for row, (kind, content) in records.items():
            node = nodes.get(self.link.node_ids.get(self._keys.get(row, ""), 0))
            if node is None:
                continue
            before = sent.get(row)
            if before and before.activated_at == node.last_activated_at:
                continue
            if before:
                self.link.forget([before.message_id])
            message = Message(content, node.node_id, kind, ttl=until - time.monotonic() + _SPARE_SECONDS)
            (message_id,) = self.grid.push_messages([message])
            if message_id:
                sent[row] = _Sent(message_id, node.last_activated_at)

    def _answer(self, row: int, reply: Message) -> Answer | str:
        """Return a member's answer, or why it is refused; `updates.refusal` compares it with what its key may answer."""
        try:
            return wire.unpack_answer(messages.from_records(reply.content))
        except FederationError as error:
            return error.problem


_AWAY = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE)


def _error_words(error: Error) -> str:
    return printable(error.reason or f"it failed (Flower's code {error.code})", 300)


@contextmanager
def serving(
    folder: Path, agreement: Agreement, host: str, port: int, names: tuple[str, ...] = ()
) -> Iterator[FlowerTransport]:
    """Serve a federation at an address of this machine: certificates, invitation and SuperLink.

    Args:
        port: 0 for the one of the last time, or one that is free.
        names: other names or addresses of this machine that members use; the first is put into the invitation.

    Raises:
        FederationError: if nothing can be served there, for example because something else took the port meanwhile.
    """
    tls = folder / federations.TLS
    credentials.certify(tls, [*names, host])
    link = _link(folder, tls, host, port)
    try:
        link.start()
        address = f"{names[0] if names else host}:{link.port}"
        write_invitation(folder, Invitation(agreement, address, (tls / credentials.CA).read_text("ascii")))
        yield FlowerTransport(link, folder, agreement)
    finally:
        link.stop()


def _link(folder: Path, tls: Path, host: str, port: int) -> SuperLink:
    """Bind the port of the last time, which stands in the invitations that members have."""
    if not port and (folder / federations.INVITATION).is_file():
        port = int(read_invitation(folder / federations.INVITATION).address.rpartition(":")[2])
    return SuperLink(tls, host, port)
