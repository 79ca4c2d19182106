"""The two files that people pass on: an invitation from whoever leads, and the request of a member to be admitted."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from pu_geo.errors import FederationError, printable, writing
from pu_geo.federation.agreement import MAX_BYTES, Agreement, odd_name
from pu_geo.federation.deployed import credentials, fingerprints
from pu_geo.files import atomic_write
from pu_geo.records import Facts
from pu_geo.store import contents, federations, store
from pu_geo.store.federations import Held, Member
from pu_geo.store.layout import Layout, read_json, reading, write_json
from pu_geo.training.model_files import parse_object

INVITATION_KIND, REQUEST_KIND = "pu-geo invitation", "pu-geo membership request"
MAX_FILE, MAX_TEXT = MAX_BYTES + 20_000, 200
_SIGNED = ("agreement", "class_name", "project", "gsd_m", "public_key")


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
        return fingerprints.of_invitation(self.agreement, self.certificate)


@dataclass(frozen=True)
class Request:
    """A file in which somebody asks to be the member of a class of an agreement, whose digest it names; signed with the
    member's key.
    """

    path: Path
    agreement: str
    member: Member


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


def accept(layout: Layout, invitation: Invitation, own: Held) -> list[Path]:
    """Take over an invitation for classes, make a key for each, and write the requests that go to the leader; return their
    paths.

    Raises:
        FederationError: if the federation has no such class, the project would teach two by the same buildings or knows
            another federation by that id, or people here have compared the fingerprint of another certificate.
    """
    agreement = invitation.agreement
    rows = {agreement.row(name): name for name in own}
    folder = layout.federation(agreement.id)
    held = {**federations.memberships(folder), **own}
    federations.require_different_buildings(layout.folder.name, held)
    federations.write_agreement(folder, agreement.to_json())
    if not federations.is_lead(folder):  # whose invitation is its own
        if (before := _confirmed(folder)) not in ("", invitation.fingerprint):
            raise FederationError(
                f"The invitation has the fingerprint {invitation.fingerprint}; the one that this project joined with has "
                f"{before}.",
                "Do not go on: somebody may have changed the file on its way. Compare it with whoever leads; a federation "
                "that was made anew needs another name.",
                kind="fingerprint",
            )
        write_invitation(folder, invitation)
    federations.write_memberships(folder, held)
    with store.connect(layout) as db:
        project, gsd_m = (
            store.project_name(db)[:MAX_TEXT],
            contents.oddest_gsd_m(contents.grid(db), agreement.features.gsd_m),
        )
    made = []
    for row, name in rows.items():
        key = credentials.private_key(key_path(folder, row))
        values = (agreement.digest, name, project, gsd_m, credentials.public_text(key))
        facts = dict(zip(_SIGNED, values, strict=True))
        signature = base64.b64encode(credentials.sign(key, _content(facts))).decode()
        path = folder / federations.REQUEST.format(row=row)
        made.append(_write(path, {"kind": REQUEST_KIND, **facts, "signature": signature}))
    return made


def _content(facts: Facts) -> bytes:
    """Return what a member signs."""
    return json.dumps([facts[name] for name in _SIGNED]).encode()


def require_fingerprint(invitation: Invitation, fingerprint: str) -> None:
    """Raise FederationError unless an invitation has the fingerprint that people compared."""
    if not fingerprints.are_same(fingerprint, invitation.fingerprint):
        raise FederationError(
            f"The invitation has the fingerprint {invitation.fingerprint}, not {printable(fingerprint)}.",
            "Do not join: somebody may have changed the file on its way. Ask whoever leads for the file and the "
            "fingerprint again.",
            kind="fingerprint",
        )


def confirm(folder: Path, invitation: Invitation) -> None:
    """Store that people compared the fingerprint of an invitation: members connect to the leader that it names, and to no
    other.
    """
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
    facts = _read(path, REQUEST_KIND, (*_SIGNED, "signature"))
    gsd_m = facts["gsd_m"]
    if type(gsd_m) not in (int, float) or not 1e-4 <= gsd_m <= 1e4:
        raise _broken(path, f"has {printable(gsd_m)!r} as gsd_m; it must be a pixel size in metres")
    agreement, name, project, text, signed = (
        _text(path, facts, each, 1000) for each in ("agreement", "class_name", "project", "public_key", "signature")
    )
    try:
        key = credentials.public_key(text)
        signature = base64.b64decode(signed, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _broken(path, "holds no public key of a member") from error
    if not credentials.is_signed(key, _content(facts), signature):
        raise _broken(path, "was changed after its member signed it")
    return Request(path, agreement, Member(name, project, gsd_m, fingerprints.of_key(text), text))


def admit(layout: Layout, federation_id: str, request: Request, fingerprint: str, *, replace: bool = False) -> None:
    """Bind a member's key to its class, which nobody else may update from now on.

    Args:
        fingerprint: of the key, as the member reads it out.
        replace: take the class from the member that holds it, whose key was lost.

    Raises:
        FederationError: if the fingerprint is another one, the request is for another agreement, the class is taken, or the
            key holds another class.
    """
    folder, asks = layout.federation(federation_id), request.member
    agreement = Agreement.of(folder)
    if not fingerprints.are_same(fingerprint, asks.fingerprint):
        raise FederationError(
            f"The key in the request has the fingerprint {asks.fingerprint}, not {printable(fingerprint)}.",
            "Do not admit it: somebody may have changed the file on its way. Ask the member for its file and fingerprint "
            "again.",
            kind="fingerprint",
        )
    if request.agreement != agreement.digest:
        raise FederationError(
            f"The request is for another agreement than that of {agreement.id} here.",
            "Send the member your invitation again; it joins with that.",
            kind="agreement",
        )
    row = agreement.row(asks.class_name)
    own = key_path(folder, row)
    is_own = own.is_file() and credentials.public_text(credentials.private_key(own)) == asks.public_key
    with federations.changing_members(folder) as members:
        if any(one.public_key == asks.public_key and at != row for at, one in members.items()):
            raise FederationError(
                "The key in the request holds another class of this federation already.",
                "A member holds one class; a project joins once for each of its classes.",
                kind="claim",
            )
        holder = members.get(row)
        if holder and holder.public_key == asks.public_key:
            return
        if holder and not replace:
            raise FederationError(
                f"The class {asks.class_name!r} is held by {holder.project} ({holder.fingerprint}) already.",
                "A class has one member. If its key was lost, admit the new one with --replace.",
                kind="claim",
            )
        members[row] = changed(asks, is_own=is_own)


def _write(path: Path, facts: Facts) -> Path:
    with writing(path, FederationError), atomic_write(path) as temporary:
        temporary.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _read(path: Path, kind: str, names: tuple[str, ...]) -> Facts:
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
    if odd := odd_name(("kind", *names), facts):
        raise _broken(path, odd)
    return facts


def _text(path: Path, facts: Facts, name: str, most: int = MAX_TEXT) -> str:
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
