"""Certificates, keys, and the two files that people pass on, hostile ones among them."""

import json
import ssl
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_parts import need_extra, small_project

from pu_geo.errors import FederationError
from pu_geo.federation.agreement import Agreement, FeatureSpace
from pu_geo.federation.deployed import fingerprints
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.store import federations
from pu_geo.store.layout import Layout

need_extra("federated")
from pu_geo.federation.deployed import credentials, membership  # noqa: E402  # only with the extra
from pu_geo.federation.deployed.membership import Invitation, Request  # noqa: E402

SPACE = FeatureSpace("shared", "shared", 8, "0" * 64, "post", 32, 0.5)
AGREEMENT = Agreement("floods", "Floods", ("rest", "destroyed", "flooded"), SPACE, FedawsSettings(rounds=2))


@pytest.fixture
def invitation(tmp_path: Path) -> Invitation:
    """Of a leader whose certificates are in `tls`."""
    credentials.certify(tmp_path / "tls", "192.0.2.7")
    return Invitation(AGREEMENT, "192.0.2.7:9092", (tmp_path / "tls" / credentials.CA).read_text("ascii"))


@pytest.fixture
def leader(tmp_path: Path) -> Layout:
    layout = small_project(tmp_path / "joplin.pugeo", name="Joplin")
    federations.write_agreement(layout.federation("floods"), AGREEMENT.to_json())
    federations.write_members(layout.federation("floods"), {})
    return layout


@pytest.fixture
def member(tmp_path: Path) -> Layout:
    return small_project(tmp_path / "moore.pugeo", name="Moore")


def request_of(layout: Layout, invitation: Invitation, class_name: str = "flooded") -> Request:
    (path,) = membership.accept(layout, invitation, {class_name: None})
    return membership.read_request(path)


def admit(leader: Layout, asked: Request, **more: Any) -> None:
    membership.admit(leader, "floods", asked, asked.member.fingerprint.lower(), **more)


def test_the_server_certificate_holds_for_its_addresses_by_the_ca_alone(tmp_path: Path) -> None:
    credentials.certify(tmp_path, "leader.example.org")
    authority = (tmp_path / credentials.CA).read_bytes()
    credentials.certify(tmp_path, "192.0.2.8")
    assert (tmp_path / credentials.CA).read_bytes() == authority  # a new address costs nobody a new invitation
    for name in (credentials.CA_KEY, credentials.SERVER_KEY):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(tmp_path / credentials.CA)
    assert _handshake(tmp_path, trusting, "192.0.2.8") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for '192\.0\.2\.9'"):
        _handshake(tmp_path, trusting, "192.0.2.9")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get"):
        _handshake(tmp_path, ssl.create_default_context(), "192.0.2.8")


def _handshake(tls: Path, client: ssl.SSLContext, host: str) -> str | None:
    """Shake hands in memory; return the version of TLS."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls / credentials.SERVER, tls / credentials.SERVER_KEY)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours.version()


def test_fingerprints_name_a_key_and_an_invitation(tmp_path: Path, invitation: Invitation) -> None:
    one, other = (credentials.public_text(credentials.private_key(tmp_path / name)) for name in ("a.pem", "b.pem"))
    first = fingerprints.of_key(one)
    assert len(first.split()) == 8
    assert first != fingerprints.of_key(other)
    assert fingerprints.are_same(first.lower().replace(" ", ":"), first)
    assert not fingerprints.are_same("", "")
    assert not fingerprints.are_same(first[:-4], first)
    assert invitation.fingerprint == replace(invitation, address="127.0.0.1:1").fingerprint
    assert invitation.fingerprint != replace(invitation, agreement=replace(AGREEMENT, seed=1)).fingerprint
    credentials.certify(tmp_path / "stranger", "192.0.2.7")
    stranger = (tmp_path / "stranger" / credentials.CA).read_text("ascii")
    assert invitation.fingerprint != replace(invitation, certificate=stranger).fingerprint


def test_an_invitation_comes_back_as_it_was_and_a_member_is_admitted_by_its_key(
    tmp_path: Path, invitation: Invitation, leader: Layout, member: Layout
) -> None:
    assert membership.read_invitation(membership.write_invitation(tmp_path, invitation)) == invitation
    asked = request_of(member, invitation)
    assert (asked.member.class_name, asked.member.project) == ("flooded", "Moore")
    key = membership.key_path(member.federation("floods"), 2)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    admit(leader, asked)
    assert federations.members(leader.federation("floods")) == {2: asked.member}
    assert request_of(member, invitation).member == asked.member  # a second try keeps the key
    admit(leader, asked)
    own = request_of(leader, invitation, "rest")
    admit(leader, own)
    assert federations.members(leader.federation("floods"))[0] == replace(own.member, is_own=True)


def test_a_class_has_one_member_and_a_key_one_class(
    invitation: Invitation, leader: Layout, member: Layout, tmp_path: Path
) -> None:
    asked = request_of(member, invitation)
    admit(leader, asked)
    second = request_of(small_project(tmp_path / "other.pugeo", name="Other"), invitation)
    with pytest.raises(FederationError, match=r"'flooded' is held by Moore"):
        admit(leader, second)
    greedy = replace(asked, member=replace(asked.member, class_name="destroyed"))
    with pytest.raises(FederationError, match="holds another class"):
        admit(leader, greedy)
    admit(leader, second, replace=True)
    assert federations.members(leader.federation("floods"))[2].project == "Other"


def test_who_read_another_fingerprint_or_joined_another_agreement_is_not_admitted(
    invitation: Invitation, leader: Layout, member: Layout
) -> None:
    asked = request_of(member, invitation)
    with pytest.raises(FederationError, match="has the fingerprint"):
        membership.admit(leader, "floods", asked, "0000 " * 8)
    with pytest.raises(FederationError, match="another agreement"):
        admit(leader, replace(asked, agreement="0" * 64))
    assert federations.members(leader.federation("floods")) == {}
    with pytest.raises(FederationError, match="no class 'earthquake'"):
        membership.accept(member, invitation, {"earthquake": None})


def test_a_second_join_by_the_same_buildings_is_refused(invitation: Invitation, member: Layout) -> None:
    membership.accept(member, invitation, {"flooded": None})
    for source in (None, "answers"):
        with pytest.raises(FederationError, match=r"All damaged buildings of moore\.pugeo would be of the class 'flooded'"):
            membership.accept(member, invitation, {"destroyed": source})
    membership.accept(member, invitation, {"rest": None})
    membership.accept(member, invitation, {"flooded": "answers", "destroyed": "answers"})
    assert federations.memberships(member.federation("floods")) == {
        "flooded": "answers",
        "rest": None,
        "destroyed": "answers",
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"class_name": "destroyed"}, "was changed after its member signed it"),
        ({"signature": "AAAA"}, "was changed after its member signed it"),
        ({"signature": "no base64!"}, "holds no public key of a member"),
        ({"public_key": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}, "holds no public key"),
        ({"gsd_m": -1.0}, "it must be a pixel size"),
        ({"gsd_m": 2.5}, "was changed after its member signed it"),
        ({"project": "\x1b[2J"}, "it must be a text"),
        ({"extra": 1}, "has an unknown 'extra'"),
        ({"kind": "pu-geo invitation"}, "is no membership request"),
    ],
)
def test_a_request_that_was_changed_is_refused(
    invitation: Invitation, member: Layout, change: dict[str, Any], words: str
) -> None:
    (path,) = membership.accept(member, invitation, {"flooded": None})
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FederationError, match=words):
        membership.read_request(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": "192.0.2.7:99999"}, "must be host:port"),
        ({"certificate": "-----BEGIN CERTIFICATE-----"}, "holds no certificate of a leader"),
        ({"agreement": []}, "is no JSON object"),
        ({"kind": "pu-geo membership request"}, "is no invitation"),
    ],
)
def test_an_invitation_that_is_none_is_refused(
    tmp_path: Path, invitation: Invitation, change: dict[str, Any], words: str
) -> None:
    path = membership.write_invitation(tmp_path, invitation)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FederationError, match=words):
        membership.read_invitation(path)


@pytest.mark.parametrize("added", ["{good}{evil}", "{evil}{good}", "{good}{good}", "a word\n{good}", "{good}\n"])
def test_an_invitation_with_more_than_the_certificate_that_people_compare_is_refused(
    tmp_path: Path, invitation: Invitation, member: Layout, added: str
) -> None:
    """A second authority would be trusted, too, and its server could stand between leader and member."""
    membership.accept(member, invitation, {"flooded": None})
    membership.confirm(member.federation("floods"), invitation)
    credentials.certify(tmp_path / "stranger", "192.0.2.7")
    evil = (tmp_path / "stranger" / credentials.CA).read_text("ascii")
    path = membership.write_invitation(tmp_path, invitation)
    changed = {"certificate": added.format(good=invitation.certificate, evil=evil), "address": "192.0.2.9:443"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(FederationError, match="holds no certificate of a leader, or more than one"):
        membership.read_invitation(path)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff\xfe", b'{"kind": 1, "kind": 2}', b"[" * 100_000, b" " * 10_000_000]
)
def test_a_file_that_is_no_json_or_huge_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "invitation.json"
    path.write_bytes(content)
    for read in (membership.read_invitation, membership.read_request):
        with pytest.raises(FederationError, match=r"invitation\.json"):
            read(path)


def test_an_invitation_of_another_version_or_a_certificate_of_no_ca_is_refused(
    tmp_path: Path, invitation: Invitation
) -> None:
    older = replace(invitation, agreement=replace(AGREEMENT, version="0.0.1"))
    with pytest.raises(FederationError, match=r"agreed on with PU-Geo 0\.0\.1"):
        membership.read_invitation(membership.write_invitation(tmp_path, older))
    server = replace(invitation, certificate=(tmp_path / "tls" / credentials.SERVER).read_text("ascii"))
    with pytest.raises(FederationError, match="no certificate of a leader"):
        membership.read_invitation(membership.write_invitation(tmp_path, server))
