"""The two files that people pass on: an invitation from whoever leads, and the request of a member to be admitted."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pu_geo.errors import FederationError, printable, writing
from pu_geo.federation.agreement import MAX_BYTES, Agreement
from pu_geo.federation.deployed import credentials
from pu_geo.files import atomic_write
from pu_geo.project import contents, federations, locks, store
from pu_geo.project.federations import Admitted, Membership
from pu_geo.project.layout import Layout, read_json, reading, write_json
from pu_geo.project.model_files import parse_object

INVITATION_KIND, REQUEST_KIND = "pu-geo invitation", "pu-geo membership request"
MAX_FILE, MAX_TEXT = MAX_BYTES + 20_000, 200
_LOCK = "members.lock"


@dataclass(frozen=True)
class Invitation:
    """What a member needs to find the leader and know it again.

    Attributes:
        address: "host:port".
        certificate: of the leader's own CA, PEM.
    """

    agreement: Agreement
    address: str
    certificate: str

    @property
    def fingerprint(self) -> str:
        """What people compare: it covers the agreement and the certificate; an address may change."""
        return credentials.in_groups(self.agreement.digest.encode() + credentials.certificate_bytes(self.certificate))


@dataclass(frozen=True)
class Request:
    """Who wants to hold which class; signed with the member's key.

    Attributes:
        gsd_m: pixel size of the project's scenes on the ground, metres.
    """

    federation: str
    agreement: str
    class_name: str
    project: str
    gsd_m: float
    public_key: str
    signature: str = ""

    @property
    def fingerprint(self) -> str:
        return credentials.key_fingerprint(self.public_key)

    def signed_content(self) -> bytes:
        facts = {name: value for name, value in asdict(self).items() if name != "signature"}
        return json.dumps(facts, sort_keys=True).encode()


def write_invitation(folder: Path, invitation: Invitation) -> Path:
    """Store the invitation that people pass on; return its path."""
    facts = {
        "kind": INVITATION_KIND,
        "agreement": json.loads(invitation.agreement.to_json()),
        "address": invitation.address,
        "certificate": invitation.certificate,
    }
    return _write(folder / federations.INVITATION, facts)


def read_invitation(path: Path) -> Invitation:
    """Read an invitation, which may come from anybody.

    Raises:
        FederationError: if it is none, or of another version of PU-Geo.
    """
    facts = _read(path, INVITATION_KIND, ("agreement", "address", "certificate"))
    agreement = Agreement.from_json(json.dumps(facts["agreement"]).encode())
    agreement.require_current()
    address = _text(path, facts, "address")
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise _broken(path, f"has the address {printable(address)!r}; it must be host:port")
    credentials.require_host(host)
    try:
        certificate = facts["certificate"]
        if not isinstance(certificate, str):
            raise ValueError
        credentials.certificate_bytes(certificate)
    except ValueError as error:
        raise _broken(path, "holds no certificate of a leader, or more than one") from error
    return Invitation(agreement, address, certificate)


def mend_invitation(folder: Path, address: str) -> str:
    """Write the invitation of a federation that this project leads anew if its file cannot be read; return what people must know of it.

    Args:
        address: "host:port" for the new one; agreement and certificate are those of before, and so is the fingerprint.

    Returns:
        "" if there is none yet, or it can be read.

    Raises:
        FederationError: if the agreement is of another version of PU-Geo.
    """
    path = folder / federations.INVITATION
    if not path.is_file():
        return ""
    try:
        read_invitation(path)
    except FederationError as error:
        agreement = Agreement.from_json(federations.agreement_bytes(folder))
        agreement.require_current()
        certificate = (folder / federations.TLS / credentials.CA).read_text("ascii")
        write_invitation(folder, Invitation(agreement, address, certificate))
        return (
            f"{error.problem.rstrip('.')}, so it was made anew, with the same fingerprint and the address {address}. Members that "
            "have another address need it again."
        )
    return ""


def accept(
    layout: Layout, invitation: Invitation, class_name: str, types_from: str | None = None
) -> Path:  # fmt: skip
    """Take over an invitation for a class, make a key, and write the request that goes to the leader; return its path.

    Raises:
        FederationError: if the federation has no such class, the project would teach two by the same buildings or knows another federation by that id, or people here
            have compared the fingerprint of another certificate.
    """
    agreement = invitation.agreement
    row = agreement.row(class_name)
    folder = layout.federation(agreement.id)
    held = [one for one in federations.memberships(folder) if one.class_name != class_name]
    held.append(Membership(class_name, types_from))
    federations.require_different_buildings(layout.folder.name, held)
    if (folder / federations.AGREEMENT).is_file():
        if federations.agreement_bytes(folder) != agreement.to_json():
            raise FederationError(
                f"This project takes part in another federation that is called {agreement.id}, with another agreement.",
                "Ask whoever leads to give the new one another name.",
                kind="agreement",
            )
    else:
        federations.write_agreement(folder, agreement.to_json())
    if not federations.is_lead(folder):  # whose invitation is its own
        if (before := _confirmed(folder)) not in ("", invitation.fingerprint):
            raise FederationError(
                f"The invitation has the fingerprint {invitation.fingerprint}; the one that this project joined with has {before}.",
                "Do not go on: somebody may have changed the file on its way. Compare it with whoever leads; a federation that was "
                "made anew needs another name.",
                kind="fingerprint",
            )
        write_invitation(folder, invitation)
    federations.write_memberships(folder, held)
    key = credentials.private_key(key_path(folder, row))
    gsd_m = store.call(layout, contents.grid).gsd_m
    request = Request(agreement.id, agreement.digest, class_name, _name_of(layout), gsd_m, credentials.public_text(key))
    signature = base64.b64encode(credentials.sign(key, request.signed_content())).decode()
    return _write(
        folder / federations.REQUEST.format(row=row), {"kind": REQUEST_KIND, **asdict(request), "signature": signature}
    )


def require_fingerprint(invitation: Invitation, fingerprint: str) -> None:
    """Raise FederationError unless an invitation has the fingerprint that people compared."""
    if not credentials.same_fingerprint(fingerprint, invitation.fingerprint):
        raise FederationError(
            f"The invitation has the fingerprint {invitation.fingerprint}, not {printable(fingerprint)}.",
            "Do not join: somebody may have changed the file on its way. Ask whoever leads for the file and the fingerprint again.",
            kind="fingerprint",
        )


def confirm(folder: Path, invitation: Invitation) -> None:
    """Store that people compared the fingerprint of an invitation: members connect to the leader that it names, and to no other."""
    write_json(folder / federations.CONFIRMED, {"fingerprint": invitation.fingerprint})


def is_confirmed(folder: Path, invitation: Invitation) -> bool:
    """Return whether people compared its fingerprint; a leader's own invitation needs it not."""
    return federations.is_lead(folder) or _confirmed(folder) == invitation.fingerprint


def _confirmed(folder: Path) -> str:
    path = folder / federations.CONFIRMED
    if not path.is_file():
        return ""
    with reading(path):
        return str(read_json(path)["fingerprint"])


def key_path(folder: Path, row: int) -> Path:
    return folder / federations.KEYS / f"{row}.pem"


def read_request(path: Path) -> Request:
    """Read the request of somebody to become a member.

    Raises:
        FederationError: if it is none, or its content was changed after it was signed.
    """
    names = tuple(Request.__dataclass_fields__)
    facts = _read(path, REQUEST_KIND, names)
    gsd_m = facts["gsd_m"]
    if type(gsd_m) not in (int, float) or not 1e-4 <= gsd_m <= 1e4:
        raise _broken(path, f"has {printable(gsd_m)!r} as gsd_m; it must be a pixel size in metres")
    words = {name: _text(path, facts, name, 1000) for name in names if name != "gsd_m"}
    request = Request(**words, gsd_m=gsd_m)
    try:
        key = credentials.public_key(request.public_key)
        signature = base64.b64decode(request.signature, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _broken(path, "holds no public key of a member") from error
    if not credentials.is_signed(key, request.signed_content(), signature):
        raise _broken(path, "was changed after its member signed it")
    return request


def admit(layout: Layout, federation_id: str, request: Request, fingerprint: str, *, replace: bool = False) -> int:
    """Bind a member's key to its class, which nobody else may update from now on; return the class's row of W.

    Args:
        fingerprint: of the key, as the member reads it out.
        replace: take the class from the member that holds it, whose key was lost.

    Raises:
        FederationError: if the fingerprint is another one, the request is for another agreement, the class is taken, or the
            key holds another class.
    """
    folder = layout.federation(federation_id)
    agreement = Agreement.from_json(federations.agreement_bytes(folder))
    if not credentials.same_fingerprint(fingerprint, request.fingerprint):
        raise FederationError(
            f"The key in the request has the fingerprint {request.fingerprint}, not {printable(fingerprint)}.",
            "Do not admit it: somebody may have changed the file on its way. Ask the member for its file and fingerprint again.",
            kind="fingerprint",
        )
    if request.agreement != agreement.digest:
        raise FederationError(
            f"The request is for another agreement than that of {agreement.id} here.",
            "Send the member your invitation again; it joins with that.",
            kind="agreement",
        )
    row = agreement.row(request.class_name)
    with locks.one_at_a_time(folder / _LOCK):
        members = federations.members(folder)
        if any(one.public_key == request.public_key and at != row for at, one in members.items()):
            raise FederationError(
                "The key in the request holds another class of this federation already.",
                "A member holds one class; a project joins once for each of its classes.",
                kind="claim",
            )
        holder = members.get(row)
        if holder and holder.public_key not in ("", request.public_key) and not replace:
            raise FederationError(
                f"The class {request.class_name!r} is held by {holder.project} ({holder.fingerprint}) already.",
                "A class has one member. If its key was lost, admit the new one with --replace.",
                kind="claim",
            )
        members[row] = Admitted(
            class_name=request.class_name, fingerprint=request.fingerprint, public_key=request.public_key,
            project=request.project, gsd_m=request.gsd_m,
        )  # fmt: skip
        federations.write_members(folder, members)
    return row


def _name_of(layout: Layout) -> str:
    return store.call(layout, store.project_name)[:MAX_TEXT]


def _write(path: Path, facts: Mapping[str, Any]) -> Path:
    with writing(path, FederationError), atomic_write(path) as temporary:
        temporary.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _read(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the facts of a file of that kind; refuse one that has others."""
    try:
        with path.open("rb") as stream:
            facts = parse_object(stream.read(MAX_FILE + 1), MAX_FILE)
    except OSError as error:
        raise FederationError(
            f"{path} cannot be read: {error.strerror}.", "Name the file that you got.", kind="file"
        ) from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    if facts.get("kind") != kind:
        raise _broken(path, f"is no {kind.removeprefix('pu-geo ')}")
    if set(facts) != {"kind", *names}:
        odd = sorted({"kind", *names} ^ set(facts))[0]
        raise _broken(path, f"{'lacks' if odd in names else 'has an unknown'} {printable(odd)!r}")
    return facts


def _text(path: Path, facts: Mapping[str, Any], name: str, most: int = MAX_TEXT) -> str:
    value = facts[name]
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.replace("\n", "").isprintable():
        raise _broken(path, f"has {printable(value)!r} as {name}; it must be a text of up to {most} characters")
    return value


def _broken(path: Path, what: str) -> FederationError:
    return FederationError(
        f"{path.name} {what}.",
        "Ask whoever sent it for the file again; both sides need the same version of PU-Geo.",
        kind="file",
    )
