"""How a command joins a federation and admits its members. Loads no torch; a screen asks `federation.deployed.membership` itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pu_geo.federation.deployed import require_flower
from pu_geo.project import contents, federations, store
from pu_geo.project.federations import Membership
from pu_geo.project.layout import Layout


class Asked(NamedTuple):
    """What a request says, the fingerprint of its key, and what differs there."""

    class_name: str
    project: str
    fingerprint: str
    warnings: list[str]


class Joined(NamedTuple):
    """What a member compares, the file that goes to the leader, whether the invitation's fingerprint was compared, and what differs here."""

    federation: str
    invitation_fingerprint: str
    fingerprint: str
    request: Path
    is_confirmed: bool
    warnings: list[str]


def require_extra(layout: Layout, federation: str) -> None:
    """Raise FederationError unless the extra that carries messages between machines is installed."""
    require_flower(layout.federation(federation))


def read_request(layout: Layout, federation: str, path: str) -> Asked:
    """Read a member's request. Raises FederationError if it is none, or was changed on its way."""
    require_flower(layout.federation(federation))
    from pu_geo.federation.deployed import membership  # needs the extra

    found = membership.read_request(Path(path).expanduser())
    agreed = federations.agreement(layout.federation(federation))
    warnings = federations.pixel_words(agreed, [(found.project, found.gsd_m)])
    return Asked(found.class_name, found.project, found.fingerprint, warnings)


def admit(layout: Layout, federation: str, path: str, fingerprint: str, *, replace: bool) -> Asked:
    """Bind a class to the key in a request; see `membership.admit`."""
    asked = read_request(layout, federation, path)
    from pu_geo.federation.deployed import membership  # needs the extra

    found = membership.read_request(Path(path).expanduser())
    membership.admit(layout, federation, found, fingerprint, replace=replace)
    return asked


def join(layout: Layout, path: str, held: Membership, fingerprint: str = "") -> Joined:
    """Accept an invitation for a class; see `membership.accept`. The job `federate_join` may take part once it is confirmed.

    Args:
        fingerprint: of the invitation, as whoever leads reads it out; needed once.

    Raises:
        FederationError: if the invitation has another fingerprint.
    """
    require_flower(layout.folder)  # until the invitation says which federation it is
    from pu_geo.federation.deployed import membership  # needs the extra

    invitation = membership.read_invitation(Path(path).expanduser())
    if fingerprint:
        membership.require_fingerprint(invitation, fingerprint)
    request = membership.accept(layout, invitation, held.class_name, held.types_from)
    gsd_m = invitation.agreement.features.gsd_m
    warnings = contents.pixel_words(store.call(layout, contents.grid).gsd_m, gsd_m, "The federation")
    folder = layout.federation(invitation.agreement.id)
    if fingerprint:
        membership.confirm(folder, invitation)
    own = membership.read_request(request)
    is_confirmed = membership.is_confirmed(folder, invitation)
    return Joined(invitation.agreement.id, invitation.fingerprint, own.fingerprint, request, is_confirmed, warnings)
