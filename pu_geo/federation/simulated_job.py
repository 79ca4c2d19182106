"""A federation within one process: members of several projects, each message checked and copied as between machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pu_geo.errors import PuGeoError
from pu_geo.federation import wire_job
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.member_job import OwnData, Part
from pu_geo.federation.wire_job import Message
from pu_geo.store import contents, federations, store
from pu_geo.store.federations import Held, Member
from pu_geo.store.layout import Layout


@dataclass
class SimulatedTransport:
    """Carries messages between a leader and members of this process, by row; see `rounds.Transport`."""

    parts: Mapping[int, Part]

    def exchange(
        self, messages: Mapping[int, Message], *, deadline_s: float, stop: Callable[[], None], arrived: Callable[[int], None]
    ) -> Mapping[int, Message | str]:
        """Ask each member in turn. Nobody is waited for."""
        found: dict[int, Message | str] = {}
        for row in sorted(messages.keys() & self.parts.keys()):
            stop()
            kind = messages[row].kind
            try:
                reply = self.parts[row].reply(wire_job.checked(messages[row], kind))
                found[row] = wire_job.checked(reply, wire_job.REPLY[kind])
                arrived(row)
            except PuGeoError as error:
                found[row] = error.problem
        return found


def set_up(agreement: Agreement, leader: Layout, parties: Mapping[Layout, Held]) -> dict[int, Part]:
    """Write a federation's files into all projects, and return its members by row.

    Args:
        parties: project -> the classes that it holds, no two the same.

    Raises:
        FederationError: if a project would teach two classes by the same buildings, or cannot hold its own; then nothing was
            written. Also if one has another federation of that id.
    """
    members: dict[int, Member] = {}
    parts: dict[int, Part] = {}
    for layout, held in parties.items():
        federations.require_different_buildings(layout.folder.name, held)
        own = OwnData.read(layout, agreement)
        gsd_m = contents.oddest_gsd_m(store.call(layout, contents.grid), agreement.features.gsd_m)
        for name, source in held.items():
            part = Part(own, name, source)
            parts[part.row], members[part.row] = part, Member(name, layout.folder.name, gsd_m)
    for layout in (leader, *parties):
        federations.write_agreement(layout.federation(agreement.id), agreement.to_json())
    for layout, held in parties.items():
        federations.write_memberships(layout.federation(agreement.id), held)
    federations.write_members(leader.federation(agreement.id), members)
    return parts
