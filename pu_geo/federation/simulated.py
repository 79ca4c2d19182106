"""A federation within one process: members of several projects, each message packed and unpacked as on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from pu_geo.errors import FederationError, PuGeoError, printable
from pu_geo.federation import wire
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.member import Member, OwnData, write_model
from pu_geo.federation.protocol import Answer, Ask
from pu_geo.federation.wire import Packed
from pu_geo.project import contents, federations, store
from pu_geo.project.federations import Admitted, Membership
from pu_geo.project.layout import Layout


@dataclass
class SimulatedTransport:
    """Carries messages between a leader and members of this process.

    Attributes:
        members: by row.
        carry: called with the row and each message on its way, and returns what arrives: for tests that change it, or drop it
            with None.
        models: paths of the model files that were written at the end, by folder of the project.
    """

    members: Mapping[int, Member]
    carry: Callable[[int, Packed], Packed | None] = lambda _, packed: packed
    models: dict[Path, Path] = field(default_factory=dict)

    def exchange(
        self, asks: Mapping[int, Ask], *, deadline_s: float, is_cancelled: Callable[[], bool]
    ) -> dict[int, Answer | str]:
        """Ask each member in turn; see `protocol.Transport`. Nobody is waited for."""
        found: dict[int, Answer | str] = {}
        for row in sorted(asks.keys() & self.members.keys()):
            if is_cancelled():
                break
            try:
                asked = self.carry(row, wire.pack_ask(asks[row]))
                if asked is None:
                    continue
                answer = self.members[row].answer(wire.unpack_ask(asked))
                answered = self.carry(row, wire.pack_answer(answer))
                if answered is not None:
                    found[row] = wire.unpack_answer(answered)
            except PuGeoError as error:
                found[row] = error.problem
        return found

    def finish(self, model: Mapping[str, Tensor], facts: Mapping[str, object], *, deadline_s: float) -> dict[int, str]:
        """Write the model into each member's project, once a project; see `protocol.Transport`."""
        delivered: dict[int, str] = {}
        for row in sorted(self.members):
            sent = self.carry(row, wire.pack_model(model, facts))
            if sent is None:
                continue
            received, said = wire.unpack_model(sent)
            own = self.members[row].own
            own_classes = [one.membership for one in self.members.values() if one.own is own]
            if own.layout.folder not in self.models:
                self.models[own.layout.folder] = write_model(own, received, said, own_classes)
            delivered[row] = ""
        return delivered


def set_up(
    agreement: Agreement, leader: Layout, parties: Iterable[tuple[Layout, Iterable[Membership]]]
) -> dict[int, Member]:
    """Write a federation's files into all projects, and return its members by row.

    Args:
        parties: projects with the classes that each holds.

    Raises:
        FederationError: if two members claim a class, a project would teach two by the same buildings, a project cannot hold its own, or one has another federation of that id;
            then nothing was written.
    """
    admitted: dict[int, Admitted] = {}
    members: dict[int, Member] = {}
    held = [(layout, list(memberships)) for layout, memberships in parties]
    for layout in (leader, *(each for each, _ in held)):
        _require_free(layout, agreement)
    for layout, memberships in held:
        federations.require_different_buildings(layout.folder.name, memberships)
        own, gsd_m = OwnData.read(layout, agreement), store.call(layout, contents.grid).gsd_m
        for membership in memberships:
            member = Member(own, membership)
            if member.row in members:
                other = members[member.row].own.layout.folder.name
                raise taken(membership.class_name, other)
            members[member.row] = member
            admitted[member.row] = Admitted(membership.class_name, project=layout.folder.name, gsd_m=gsd_m)
    for layout, memberships in held:
        federations.write_agreement(layout.federation(agreement.id), agreement.to_json())
        federations.write_memberships(layout.federation(agreement.id), memberships)
    folder = leader.federation(agreement.id)
    federations.write_agreement(folder, agreement.to_json())
    federations.write_members(folder, admitted)
    return members


def _require_free(layout: Layout, agreement: Agreement) -> None:
    """Refuse to write over a federation of a project that is another one than this."""
    folder = layout.federation(agreement.id)
    if not (folder / federations.AGREEMENT).is_file():
        return
    if federations.is_deployed(folder) or federations.agreement_bytes(folder) != agreement.to_json():
        kind = "between machines" if federations.is_deployed(folder) else "with other rules"
        raise FederationError(
            f"{layout.folder.name} has a federation {agreement.id!r} {kind}.", "Choose another name.", kind="name"
        )


def taken(class_name: str, holder: str) -> FederationError:
    """Return the refusal of a second member of a class."""
    return FederationError(
        f"The class {printable(class_name)!r} has a member already: {printable(holder)}.",
        "Each class has one member. Join with another class.",
        kind="class",
    )
