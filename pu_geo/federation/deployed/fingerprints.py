"""Fingerprints that people read out to each other: of an invitation, and of the key of a member."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives import serialization

from pu_geo.federation.agreement import Agreement
from pu_geo.federation.deployed.credentials import certificate_bytes, public_key

_GROUPS = 8


def of_invitation(agreement: Agreement, certificate: str) -> str:
    """Return what people compare: it covers the agreement and the leader's certificate, PEM; an address may change."""
    return in_groups(agreement.digest.encode() + certificate_bytes(certificate))


def of_key(text: str) -> str:
    """Return the fingerprint of a public key, as people compare it."""
    der = public_key(text).public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return in_groups(der)


def in_groups(content: bytes) -> str:
    """Return the first 128 bits of a SHA-256 in groups.

    >>> in_groups(b"")
    'E3B0 C442 98FC 1C14 9AFB F4C8 996F B924'
    """
    digest = hashlib.sha256(content).hexdigest().upper()
    return " ".join(digest[4 * i : 4 * i + 4] for i in range(_GROUPS))


def are_same(one: str, other: str) -> bool:
    """Return whether two fingerprints are the same; spaces, colons and case do not count."""
    return bool(_bare(one)) and _bare(one) == _bare(other)


def _bare(fingerprint: str) -> str:
    return "".join(sign for sign in fingerprint.upper() if sign.isalnum())
